#include "src/redis/embedded/keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "src/base/random.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLong = absl::Seconds(10);

std::set<std::string> Files(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// Returns when the keeper has looked at the server `looks` times more: each look is a connection.
void AwaitLooks(support::RawConnection& connection, int looks) {
  const int enough = InfoNumber(connection, "total_connections_received") + looks;
  ASSERT_TRUE(Await([&] { return InfoNumber(connection, "total_connections_received") >= enough; }))
      << "the keeper does not look";
}

TEST(Keeper, StopsAnUnusedServerAndEnds) {
  const EmbeddedHome home;
  ASSERT_TRUE(home.Ensure(absl::Seconds(1)).ok());
  const base::Instant begin = base::Now();
  EXPECT_TRUE(home.Empties());
  EXPECT_GE(base::Now() - begin, absl::Milliseconds(950));
  EXPECT_THAT(Files(home.directory()), ElementsAre("alive", "kept.rdb", "lock", "log"));
}

TEST(Keeper, LetsAServerRunWhileAClientIsConnected) {
  const EmbeddedHome home;
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitLooks(connection, 6);  // two would do to stop an unused one
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
}

TEST(Keeper, LetsALockOfADeadClientLiveOutItsLease) {
  const EmbeddedHome home;
  pid_t server = 0;
  {
    auto connection = home.Connect(absl::Milliseconds(200));
    server = ServerPid(connection);
    connection.Command({"SELECT", "3"});
    connection.Command({"SET", "redlatch:2:{job}:fence", "7", "PX", "60000"});
    connection.Command({"SET", "{job}:fenced", "x", "PX", "1200"});
  }
  const ProcessEnd end(server);
  EXPECT_FALSE(end.WaitFor(absl::Milliseconds(1100)));
  EXPECT_TRUE(end.WaitFor(kLong));
}

TEST(Keeper, StopsAServerThatOnlyKnowsWhoADeadClientWas) {
  const EmbeddedHome home;
  home.Connect(absl::Milliseconds(100))
      .Command({"SET", "redlatch:client:" + std::string(32, 'a'), "{}", "PX", "3600000"});
  EXPECT_TRUE(home.Empties());
}

TEST(Keeper, HandsWhatItStoppedToTheNextServerOnce) {
  const EmbeddedHome home;
  home.Connect(absl::Milliseconds(100))
      .Command({"SET", "redlatch:2:{job}:fence", "7", "PX", "60000"});
  ASSERT_TRUE(home.Empties());
  auto next = home.Connect();
  EXPECT_EQ(next.Command({"GET", "redlatch:2:{job}:fence"}).text, "7");
  // After a crash nothing is better than what was true long ago.
  const ProcessEnd end(ServerPid(next));
  Kill(ServerPid(next));
  ASSERT_TRUE(end.WaitFor(kLong));
  auto third = home.Connect();
  EXPECT_TRUE(third.Command({"GET", "redlatch:2:{job}:fence"}).is_nil());
}

TEST(Keeper, HandsSemaphoresAndLatchesThatNobodyUsesToTheNextServer) {
  const EmbeddedHome home;
  {
    auto connection = home.Connect(absl::Milliseconds(100));
    connection.Command({"HSET", "slots", "kind", "semaphore/2", "capacity", "8"});
    connection.Command({"HSET", "done", "kind", "latch/2", "count", "3"});
    connection.Command({"HSET", "redlatch:2:{done}:latch.counted", "me", "1"});
  }
  ASSERT_TRUE(home.Empties());
  auto next = home.Connect();
  EXPECT_EQ(next.Command({"HGET", "slots", "capacity"}).text, "8");
  EXPECT_EQ(next.Command({"HGET", "done", "count"}).text, "3");
  EXPECT_EQ(next.Command({"HGET", "redlatch:2:{done}:latch.counted", "me"}).text, "1");
}

TEST(Keeper, KeepsPermitsThatAreTaken) {
  const EmbeddedHome home;
  pid_t server = 0;
  {
    auto connection = home.Connect(absl::Milliseconds(200));
    server = ServerPid(connection);
    connection.Command({"HSET", "slots", "kind", "semaphore/2", "capacity", "8"});
    connection.Command({"ZADD", "redlatch:2:{slots}:semaphore.permits", "1", "x"});
    connection.Command({"PEXPIRE", "redlatch:2:{slots}:semaphore.permits", "1200"});
  }
  const ProcessEnd end(server);
  EXPECT_FALSE(end.WaitFor(absl::Milliseconds(1100)));
  EXPECT_TRUE(end.WaitFor(kLong));
}

TEST(Keeper, LosesNothingOfAClientThatComesBetweenLookAndStop) {
  const EmbeddedHome home;
  // A redis-cli that stops at the gate when the keeper has made up its mind.
  const ServerPrograms programs = *FindServerPrograms();
  const std::string told = home.Aside("told"), gate = home.Aside("gate");
  ASSERT_EQ(mkfifo(told.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(gate.c_str(), 0600), 0);
  WriteScript(home.Aside("redis-server"), "exec " + programs.server + " \"$@\"\n");
  WriteScript(home.Aside("redis-cli"),
              absl::StrCat("case $* in *SHUTDOWN*) echo now >", told, "; read go <", gate,
                           " ;; esac\nexec ", programs.client, " \"$@\"\n"));
  const std::string path = absl::StrCat(home.Aside(""), ":", getenv("PATH"));
  const ScopedEnvironment gated("PATH", path.c_str());
  const ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);

  ASSERT_TRUE(home.Ensure(absl::Milliseconds(100)).ok());
  const base::UniqueFd mind(open(told.c_str(), O_RDONLY | O_CLOEXEC));
  char word[4];
  ASSERT_GT(read(mind.get(), word, sizeof word), 0);
  auto late = home.Connect();
  const pid_t stopped = ServerPid(late);
  const ProcessEnd end(stopped);
  ASSERT_EQ(late.Command({"SET", "{job}:hold", "h1", "PX", "20000"}).text, "OK");
  const base::UniqueFd opened(open(gate.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(write(opened.get(), "\n", 1), 1);
  ASSERT_TRUE(end.WaitFor(kLong));

  auto again = home.Connect();
  EXPECT_NE(ServerPid(again), stopped);
  EXPECT_EQ(again.Command({"GET", "{job}:hold"}).text, "h1");
  const int64_t left = again.Command({"PTTL", "{job}:hold"}).integer;
  EXPECT_GT(left, 1000);
  EXPECT_LT(left, 20000);
}

TEST(Keeper, KeepsItsFilesFromBeingCleanedUpByAge) {
  const EmbeddedHome home;
  auto connection = home.Connect(absl::Milliseconds(40));
  const timespec old[2] = {};
  for (const char* name : {"alive", "lock"}) {
    ASSERT_EQ(utimensat(AT_FDCWD, home.Path(name).c_str(), old, 0), 0);
  }
  AwaitLooks(connection, 2);  // at the second, what follows the first is done
  for (const char* name : {"alive", "lock"}) {
    struct stat file;
    ASSERT_EQ(stat(home.Path(name).c_str(), &file), 0);
    EXPECT_GT(file.st_mtim.tv_sec, 0) << name;
  }
}

TEST(Keeper, EndsWithItsServer) {
  const EmbeddedHome home;
  auto connection = home.Connect();
  Kill(ServerPid(connection));
  EXPECT_TRUE(home.Empties());  // far sooner than its next look
}

TEST(Keeper, IsNotNeededToServe) {
  const EmbeddedHome home;
  auto connection = home.Connect(absl::Milliseconds(100));
  const pid_t server = ServerPid(connection);
  for (const EmbeddedHome::Process& process : home.Processes()) {
    if (process.pid != server) Kill(process.pid);
  }
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  auto another = home.Connect();
  EXPECT_EQ(ServerPid(another), server);
}

TEST(Keeper, ServesOnWithoutRedisCli) {
  const EmbeddedHome home;
  WriteScript(home.Aside("server"), "exec " + FindServerPrograms()->server + " \"$@\"\n");
  const ScopedEnvironment server("REDLATCH_REDIS_SERVER", home.Aside("server").c_str());
  const ScopedEnvironment no_client("PATH", home.Aside("").c_str());
  auto connection = home.Connect(absl::Milliseconds(100));
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_THAT(Contents(home.Path("log")), HasSubstr("does not stop by itself"));
}

TEST(Keeper, EndsAServerWhoseSocketIsGone) {
  const EmbeddedHome home;
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitLooks(connection, 1);
  const pid_t lost = ServerPid(connection);
  ASSERT_TRUE(fs::remove(home.Path("redis.sock")));
  auto another = home.Connect();  // meanwhile it waits: there are never two
  EXPECT_NE(ServerPid(another), lost);
  EXPECT_EQ(connection.Command({"PING"}).type, Reply::Type::kError);
}

TEST(Keeper, EndsAServerWhoseDirectoryWasReplacedAndSparesTheNextOne) {
  const EmbeddedHome home;
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitLooks(connection, 1);
  const ProcessEnd end(ServerPid(connection));
  fs::remove_all(home.directory());
  auto another = home.Connect();
  EXPECT_TRUE(end.WaitFor(kLong));
  EXPECT_EQ(another.Command({"PING"}).text, "PONG");
  auto third = home.Connect();
  EXPECT_EQ(ServerPid(third), ServerPid(another));
}

TEST(Keeper, AnyOfItsProcessesMayBeKilledAtAnyMoment) {
  const EmbeddedHome home;
  std::atomic<bool> over = false;
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  clients.reserve(3);
  for (int i = 0; i < 3; ++i) {
    clients.emplace_back([&] {
      while (!over) {
        const absl::StatusOr<std::string> socket = home.Ensure(absl::Milliseconds(40));
        // Twice in a row killed while starting: nothing worse may come.
        if (!socket.ok()) {
          EXPECT_THAT(std::string(socket.status().message()), HasSubstr("while starting"));
          continue;
        }
        auto connection = support::RawConnection::ToSocket(*socket);
        if (connection.Command({"PING"}).text == "PONG") ++served;
        absl::SleepFor(base::Jittered(absl::Milliseconds(60)));
      }
    });
  }
  const base::Instant end = base::Now() + absl::Seconds(3);
  while (base::Now() < end) {
    EXPECT_LE(home.Servers().size(), 1u);
    const std::vector<EmbeddedHome::Process> processes = home.Processes();
    if (!processes.empty()) {
      Kill(processes[base::RandomBits() % processes.size()].pid);
    }
    absl::SleepFor(base::Jittered(absl::Milliseconds(30)));
  }
  over = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GT(served, 10);
  auto connection = home.Connect();
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_THAT(home.Servers(), ElementsAre(ServerPid(connection)));
}

}  // namespace
}  // namespace redlatch::redis
