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
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/process_stats.h"
#include "tests/support/raw_connection.h"
#include "tests/support/temp_dir.h"

namespace redlatch::support {
namespace {

using ::testing::StartsWith;

// A zombie has no memory and counts as gone: who inherits it reaps it in its own time.
bool Runs(pid_t pid) { return ResidentBytes(pid) > 0; }

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
