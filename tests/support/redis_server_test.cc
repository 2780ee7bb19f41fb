#include "tests/support/redis_server.h"

#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/process_stats.h"
#include "tests/support/raw_connection.h"
#include "tests/support/temp_dir.h"

namespace redlatch::support {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// A zombie has no memory and counts as gone: who inherits it reaps it in its own time.
bool Runs(pid_t pid) { return ResidentBytes(pid) > 0; }

TEST(RedisServer, AnswersOnItsPortAndItsSocket) {
  const auto server = RedisServer::Start();
  EXPECT_EQ(server->url(), "redis://127.0.0.1:" + std::to_string(server->port()));
  EXPECT_EQ(server->unix_url(), "unix://" + server->socket_path());
  EXPECT_EQ(RawConnection::ToPort(server->port()).Command({"SET", "k", "v"}).text, "OK");
  EXPECT_EQ(RawConnection::ToSocket(server->socket_path()).Command({"GET", "k"}).text, "v");
  EXPECT_EQ(server->Text({"GET", "k"}), "v");
  EXPECT_EQ(server->Integer({"DEL", "k"}), 1);
  EXPECT_TRUE(server->Command({"GET", "k"}).is_nil());
}

TEST(RedisServer, WithoutTcpListensOnItsSocketOnly) {
  const auto server = RedisServer::Start({.tcp = false});
  EXPECT_EQ(server->port(), 0);
  EXPECT_EQ(server->Command({"CONFIG", "GET", "port"}).elements.at(1).text, "0");
}

TEST(RedisServer, ListensOnIpv6Too) {
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "this machine has no IPv6";
  const auto server = RedisServer::Start({.ipv6 = true});
  EXPECT_EQ(server->Command({"CONFIG", "GET", "bind"}).elements.at(1).text, "127.0.0.1 ::1");
}

TEST(RedisServer, ServersDoNotCollide) {
  constexpr int kServers = 4;
  std::vector<std::unique_ptr<RedisServer>> servers(kServers);
  std::vector<std::thread> threads;
  threads.reserve(kServers);
  // Started from threads that end at once: a server outlives the thread that started it.
  for (auto& server : servers) threads.emplace_back([&server] { server = RedisServer::Start(); });
  for (auto& thread : threads) thread.join();
  std::set<int> ports;
  std::set<std::string> directories;
  for (const auto& server : servers) {
    ports.insert(server->port());
    directories.insert(server->directory());
    EXPECT_EQ(server->Text({"PING"}), "PONG");
  }
  EXPECT_EQ(ports.size(), kServers);
  EXPECT_EQ(directories.size(), kServers);
}

TEST(RedisServer, KillEndsTheProcessAndRestartBringsItBack) {
  const auto server = RedisServer::Start();
  const pid_t first = server->pid();
  const int port = server->port();
  server->Command({"SET", "k", "v"});

  server->Kill();
  EXPECT_EQ(kill(first, 0), -1);
  EXPECT_EQ(errno, ESRCH);
  EXPECT_EQ(server->pid(), -1);
  EXPECT_THAT(server->Text({"PING"}), StartsWith("ERR connection"));
  EXPECT_TRUE(RawConnection::ToPort(port).broken());

  server->Restart();
  EXPECT_NE(server->pid(), first);
  EXPECT_EQ(server->port(), port);
  EXPECT_EQ(RawConnection::ToPort(port).Command({"PING"}).text, "PONG");
  EXPECT_TRUE(server->Command({"GET", "k"}).is_nil());
}

TEST(RedisServer, AppendOnlyFileKeepsTheDataThroughAKill) {
  const auto server = RedisServer::Start({.append_only = true});
  server->Command({"SET", "k", "v"});
  server->Kill();
  server->Restart();
  EXPECT_EQ(server->Text({"GET", "k"}), "v");
}

TEST(RedisServer, ShutdownIsOrderly) {
  const auto server = RedisServer::Start();
  server->Shutdown();
  EXPECT_EQ(server->pid(), -1);
  EXPECT_THAT(server->Log(), HasSubstr("ready to exit"));
}

TEST(RedisServer, StoppedServerIsSilentUntilContinued) {
  const auto server = RedisServer::Start();
  RawConnection connection = RawConnection::ToPort(server->port());
  server->Stop();
  ASSERT_TRUE(connection.Send({"PING"}));
  char byte = 0;
  EXPECT_EQ(recv(connection.descriptor(), &byte, 1, MSG_DONTWAIT), -1);
  server->Continue();
  EXPECT_EQ(connection.Receive().text, "PONG");
  server->Stop();
  server->Stop();
  server->Kill();  // a stopped server too
}

TEST(RedisServer, AsksForItsPassword) {
  const auto server = RedisServer::Start({.password = "open sesame"});
  RawConnection connection = RawConnection::ToPort(server->port());
  EXPECT_THAT(connection.Command({"PING"}).text, StartsWith("NOAUTH"));
  EXPECT_EQ(connection.Command({"AUTH", "open sesame"}).text, "OK");
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_EQ(server->Text({"PING"}), "PONG");
}

TEST(RedisServer, EnforcesItsAcl) {
  const auto server =
      RedisServer::Start({.acl = {"user default off", "user alice on >secret ~a:* -@all +get"}});
  RawConnection connection = RawConnection::ToPort(server->port());
  EXPECT_THAT(connection.Command({"GET", "a:1"}).text, StartsWith("NOAUTH"));
  EXPECT_EQ(connection.Command({"AUTH", "alice", "secret"}).text, "OK");
  EXPECT_TRUE(connection.Command({"GET", "a:1"}).is_nil());
  EXPECT_THAT(connection.Command({"GET", "b:1"}).text, StartsWith("NOPERM"));
  EXPECT_THAT(connection.Command({"SET", "a:1", "v"}).text, StartsWith("NOPERM"));
  EXPECT_EQ(server->Text({"SET", "b:1", "v"}), "OK");  // no rule binds the test itself
}

TEST(RedisServer, TakesMoreConfiguration) {
  const auto server =
      RedisServer::Start({.config = {"maxmemory 10mb", "maxmemory-policy noeviction"}});
  EXPECT_EQ(server->Info("maxmemory"), "10485760");
  EXPECT_EQ(server->Info("no_such_line"), "");
}

TEST(RedisServer, ReplicaReplicates) {
  const auto primary = RedisServer::Start({.password = "secret"});
  const auto replica = RedisServer::Start({.replica_of = primary->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  primary->Command({"SET", "k", "v"});
  EXPECT_EQ(primary->Integer({"WAIT", "1", "10000"}), 1);
  EXPECT_EQ(replica->Text({"GET", "k"}), "v");
  EXPECT_THAT(replica->Text({"SET", "k", "w"}), StartsWith("READONLY"));
}

TEST(RedisServer, CanBeMadeToSleep) {
  const auto server = RedisServer::Start();
  const base::Instant before = base::Now();
  EXPECT_EQ(server->Text({"DEBUG", "SLEEP", "0.05"}), "OK");
  EXPECT_GE(base::Now() - before, absl::Milliseconds(50));
}

TEST(RedisServer, LeavesNothingBehind) {
  auto server = RedisServer::Start({.append_only = true});
  const pid_t pid = server->pid();
  const std::string directory = server->directory();
  const int descriptors = OpenDescriptors();
  server->Restart();
  EXPECT_NE(server->Text({"PING"}), "");
  server.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_LT(OpenDescriptors(), descriptors + 1);
}

REDLATCH_CHILD(CrashWithAServer) {
  std::unique_ptr<RedisServer> server;
  const auto start = [&server] { server = RedisServer::Start(); };
  if (args.at(0) == "started by a thread that ended") {
    std::thread(start).join();
  } else {
    start();
  }
  parent.WriteLine(std::to_string(server->pid()));
  parent.WriteLine(server->directory());
  parent.ReadLine();
  raise(SIGABRT);
  return 0;
}

TEST(RedisServer, DiesWithACrashedProcess) {
  for (const char* how : {"started by main", "started by a thread that ended"}) {
    const auto child = SpawnChild("CrashWithAServer", {how});
    const auto pid = child->pipe().ReadLine();
    const auto directory = child->pipe().ReadLine();
    ASSERT_TRUE(pid.has_value() && directory.has_value());
    EXPECT_TRUE(Runs(std::stoi(*pid)));
    child->pipe().WriteLine("crash");
    EXPECT_EQ(child->Wait().signal, SIGABRT);
    EXPECT_TRUE(Await([&] { return !Runs(std::stoi(*pid)); }));
    // Its directory goes when the next process, this one or another, makes one.
    const TempDir next;
    EXPECT_TRUE(Await([&] { return !std::filesystem::exists(*directory); }));
  }
}

TEST(RedisServerDeathTest, MissingProgramIsNamed) {
  setenv("REDLATCH_REDIS_SERVER", "/nowhere/redis-server", 1);
  EXPECT_DEATH(RedisServer::Start(), "REDLATCH_REDIS_SERVER is no program: /nowhere/redis-server");
  unsetenv("REDLATCH_REDIS_SERVER");
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_DEATH(RedisServer::Start(), "neither redis-server nor valkey-server is on PATH");
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace redlatch::support
