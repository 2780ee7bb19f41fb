#include "src/redis/embedded/embedded.h"

#include <errno.h>

#include "src/base/random.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch::redis {
namespace {

namespace fs = std::filesystem;

int Mode(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 ? static_cast<int>(file.st_mode & 07777) : -1;
}

std::string Config(support::RawConnection& connection, const std::string& name) {
  const Reply reply = connection.Command({"CONFIG", "GET", name});
  return reply.elements.size() == 2 ? reply.elements[1].text : reply.DebugString();
}

// Returns true if a mask in /proc/<pid>/status contains the signal.
bool HasSignal(const std::string& status, const std::string& mask, int signal) {
  const size_t at = status.find(mask + ":");
  if (at == std::string::npos) return false;  // the process ended meanwhile
  const uint64_t bits = strtoull(status.c_str() + at + mask.size() + 1, nullptr, 16);
  return (bits >> (signal - 1) & 1) != 0;
}

// Joins the server in args[0] on four threads at once, and prints the process ids of the servers.
REDLATCH_CHILD(Joiner) {
  parent.WriteLine("ready");
  parent.ReadLine();
  base::Mutex mutex;
  std::set<std::string> met;
  Crew().Start(4, [&](int) {
    const absl::StatusOr<std::string> socket =
        EnsureEmbeddedServer({.directory = args.at(0)}, base::Now() + absl::Seconds(60));
    std::string answer = socket.status().ToString();
    if (socket.ok()) {
      auto connection = support::RawConnection::ToSocket(*socket);
      answer = absl::StrCat(ServerPid(connection));
    }
    const base::MutexLock lock(mutex);
    met.insert(answer);
  });
  for (const std::string& answer : met) parent.WriteLine(answer);
  return 0;
}

std::set<std::string> WhatTheyMeet(const std::vector<std::unique_ptr<support::Child>>& joiners) {
  for (const auto& joiner : joiners) {
    EXPECT_EQ(joiner->pipe().ReadLine(absl::Seconds(60)), "ready");
  }
  for (const auto& joiner : joiners) joiner->pipe().WriteLine("go");
  std::set<std::string> met;
  for (const auto& joiner : joiners) {
    while (const auto line = joiner->pipe().ReadLine(absl::Seconds(60))) met.insert(*line);
  }
  return met;
}

struct EmbeddedServer : ::testing::Test {
  const EmbeddedHome home;
};
using EmbeddedDirectory = EmbeddedServer;
using Keeper = EmbeddedServer;

TEST_F(EmbeddedServer, StartsOnFirstUse) {
  const std::string socket = Must(home.Ensure());
  EXPECT_EQ(socket, home.Path("redis.sock"));
  EXPECT_EQ(Mode(home.directory()), 0700);
  EXPECT_EQ(Mode(socket), 0600);

  auto connection = support::RawConnection::ToSocket(socket);
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_EQ(Config(connection, "port"), "0");
  EXPECT_EQ(Config(connection, "save"), "");
  EXPECT_EQ(Config(connection, "appendonly"), "no");
  EXPECT_EQ(Config(connection, "maxmemory-policy"), "noeviction");
}

TEST_F(EmbeddedServer, ServesDirectoryWithAwkwardName) {
  const std::string directory = home.Aside("it's a \"di r\"; $HOME #");
  const std::string socket =
      Must(EnsureEmbeddedServer({.directory = directory}, base::Now() + absl::Seconds(20)));
  auto connection = support::RawConnection::ToSocket(socket);
  EXPECT_EQ(Config(connection, "dir"), directory);
  const ProcessEnd end(ServerPid(connection));
  connection.Command({"SHUTDOWN", "NOSAVE"});
  EXPECT_TRUE(end.WaitFor(absl::Seconds(10)));
}

TEST_F(EmbeddedServer, IsSharedBySixteenProcessesAtOnce) {
  std::vector<std::unique_ptr<support::Child>> joiners;
  joiners.reserve(16);
  for (int i = 0; i < 16; ++i) joiners.push_back(support::SpawnChild("Joiner", {home.directory()}));
  const std::set<std::string> met = WhatTheyMeet(joiners);
  auto connection = home.Connect();
  EXPECT_THAT(met, ElementsAre(absl::StrCat(ServerPid(connection))));
  EXPECT_THAT(home.Servers(), ElementsAre(ServerPid(connection)));
}

TEST_F(EmbeddedServer, ReplacesSocketOfKilledServer) {
  auto connection = home.Connect();
  const pid_t killed = ServerPid(connection);
  const ProcessEnd end(killed);
  Kill(killed);
  ASSERT_TRUE(end.WaitFor(absl::Seconds(10)));
  ASSERT_TRUE(fs::exists(home.Path("redis.sock")));
  auto again = home.Connect();
  EXPECT_EQ(again.Command({"PING"}).text, "PONG");
  EXPECT_NE(ServerPid(again), killed);
}

TEST_F(EmbeddedServer, InheritsNothingFromItsStarter) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // NOLINT: without O_CLOEXEC, as an application might
  const base::UniqueFd reader(ends[0]), writer(ends[1]);
  const std::string inherited = fs::read_symlink(absl::StrCat("/proc/self/fd/", ends[1])).string();
  const ScopedEnvironment secret("REDLATCH_TEST_SECRET", "hush");
  sigset_t usr2, before;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &usr2, &before);
  const auto ignored = signal(SIGUSR1, SIG_IGN);
  auto connection = home.Connect();
  signal(SIGUSR1, ignored);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);

  connection.Command({"PING"});  // it blocks signals itself while it starts its threads
  const std::vector<EmbeddedHome::Process> processes = home.Processes();
  EXPECT_GE(processes.size(), 2u);  // server and keeper; more soon
  for (const auto& [pid, name] : processes) {
    const std::string proc = absl::StrCat("/proc/", pid);
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(proc + "/fd", gone)) {
      EXPECT_NE(fs::read_symlink(entry.path(), gone), inherited) << name;
    }
    EXPECT_THAT(TextOf(proc + "/environ"), Not(HasSubstr("hush"))) << name;
    EXPECT_NE(getsid(pid), getsid(0)) << name;
    const std::string status = TextOf(proc + "/status");
    EXPECT_FALSE(HasSignal(status, "SigBlk", SIGUSR2)) << name;
    EXPECT_FALSE(HasSignal(status, "SigIgn", SIGUSR1)) << name;
  }
}

TEST_F(EmbeddedServer, LeavesNoChildToItsStarter) {
  const pid_t own = fork();
  if (own == 0) _exit(7);
  ASSERT_TRUE(home.Ensure().ok());
  int status = 0;
  EXPECT_EQ(waitpid(own, &status, 0), own);  // the application's child is left to it
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(EmbeddedServer, StartsIfSigchldIsIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const absl::StatusOr<std::string> socket = home.Ensure();
  signal(SIGCHLD, before);
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST_F(EmbeddedServer, KeepsStartingWhenItsStarterGivesUp) {
  WriteScript(home.Aside("slow"), absl::StrCat("echo start >>", home.Aside("starts"), "\n",
                                               "read go <", home.Aside("gate"), "\n", "exec ",
                                               FindServerPrograms()->server, " \"$@\"\n"));
  ASSERT_EQ(mkfifo(home.Aside("gate").c_str(), 0600), 0);
  const ScopedEnvironment slow("REDLATCH_REDIS_SERVER", home.Aside("slow").c_str());
  for (int i = 0; i < 2; ++i) {
    const base::Instant begin = base::Now();
    const absl::Status late = home.Ensure(absl::Seconds(60), absl::Milliseconds(200)).status();
    EXPECT_THAT(late, IsError(absl::StatusCode::kUnavailable, HasSubstr("still starting")));
    EXPECT_GE(base::Now() - begin, absl::Milliseconds(200));
    EXPECT_LT(base::Now() - begin, absl::Seconds(2));
  }
  {
    const base::UniqueFd gate(open(home.Aside("gate").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(write(gate.get(), "\n", 1), 1);
    auto connection = home.Connect();
    EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  }
  EXPECT_EQ(TextOf(home.Aside("starts")), "start\n");
}

TEST_F(EmbeddedServer, FailureToStartIsReportedWithLog) {
  WriteScript(home.Aside("broken"), "echo 'a shard is missing' >&2; exit 1\n");
  const ScopedEnvironment broken("REDLATCH_REDIS_SERVER", home.Aside("broken").c_str());
  const absl::Status failed = home.Ensure().status();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kUnavailable, HasSubstr("a shard is missing")));
}

TEST_F(EmbeddedServer, MissingProgramIsNamedWithPackage) {
  const ScopedEnvironment nowhere("PATH", home.Aside("empty").c_str());
  const ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  const absl::Status missing = home.Ensure().status();
  EXPECT_THAT(missing, IsError(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("apt-get install redis-server")));
  const ScopedEnvironment wrong("REDLATCH_REDIS_SERVER", "/nonexistent/redis");
  EXPECT_THAT(std::string(home.Ensure().status().message()), HasSubstr("'/nonexistent/redis'"));
}

TEST_F(EmbeddedDirectory, IsTheSameWithAndWithoutLogin) {
  ASSERT_EQ(mkdir(home.Aside("run").c_str(), 0700), 0);
  const ScopedEnvironment unnamed("REDLATCH_EMBEDDED_DIRECTORY", nullptr);
  const std::string expected = absl::StrCat("/tmp/redlatch-", geteuid());
  // The directory after a login, in a cron job, and after `su`, which leaves another user's.
  for (const std::string& runtime : {home.Aside("run"), std::string(), std::string("/")}) {
    const ScopedEnvironment login("XDG_RUNTIME_DIR", runtime.empty() ? nullptr : runtime.c_str());
    EXPECT_EQ(Must(DefaultEmbeddedDirectory()), expected);
  }
}

TEST_F(EmbeddedDirectory, IsTakenFromTheEnvironment) {
  const ScopedEnvironment named("REDLATCH_EMBEDDED_DIRECTORY", home.directory().c_str());
  const std::string directory = Must(redis::EmbeddedDirectory(""));
  EXPECT_EQ(directory, home.directory());
  EXPECT_EQ(Mode(directory), 0700);
}

TEST_F(EmbeddedDirectory, IsRefusedInPrivateTmp) {
  constexpr char kRoot[] = "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
  constexpr char kTmp[] = "37 29 0:33 / /tmp rw,nosuid - tmpfs tmpfs rw\n";
  constexpr char kOfService[] =
      "99 29 8:1 /tmp/systemd-private-4f5e-cron.service-Xy/tmp /tmp rw - ext4 /dev/sda1 rw\n";
  constexpr char kOfServiceOnTmpfs[] =
      "99 29 0:33 /systemd-private-4f5e-cron.service-Xy/tmp /tmp rw - tmpfs tmpfs rw\n";
  constexpr char kVarTmp[] =
      "98 29 8:1 /var/tmp/systemd-private-4f5e-x.service-Zz/tmp /var/tmp rw - ext4 /dev/sda1 rw\n";
  EXPECT_FALSE(TmpIsPrivate(""));
  EXPECT_FALSE(TmpIsPrivate(kRoot));
  EXPECT_FALSE(TmpIsPrivate(absl::StrCat(kRoot, kTmp, kVarTmp)));
  EXPECT_TRUE(TmpIsPrivate(absl::StrCat(kRoot, kOfService)));
  EXPECT_TRUE(TmpIsPrivate(absl::StrCat(kRoot, kTmp, kOfServiceOnTmpfs, kVarTmp)));
}

TEST_F(EmbeddedDirectory, IsRefusedIfOthersMayEnter) {
  ASSERT_EQ(mkdir(home.directory().c_str(), 0700), 0);
  EXPECT_TRUE(redis::EmbeddedDirectory(home.directory()).ok());
  ASSERT_EQ(chmod(home.directory().c_str(), 0710), 0);
  const absl::Status open = home.Ensure().status();
  EXPECT_THAT(open, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("0710")));
  EXPECT_THAT(std::string(open.message()), HasSubstr("chmod 700 '" + home.directory() + "'"));
}

TEST_F(EmbeddedDirectory, IsRefusedIfAnotherUserOwnsIt) {
  std::string theirs = "/";  // it belongs to root
  if (geteuid() == 0) {
    theirs = home.Aside("theirs");
    ASSERT_EQ(mkdir(theirs.c_str(), 0700), 0);
    ASSERT_EQ(chown(theirs.c_str(), 12345, 0), 0);
  }
  const absl::Status status = redis::EmbeddedDirectory(theirs).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied,
                              HasSubstr(absl::StrCat("not to user ", geteuid()))));
}

TEST_F(EmbeddedDirectory, IsRefusedIfSymbolicLinkOrFile) {
  ASSERT_EQ(mkdir(home.Aside("target").c_str(), 0700), 0);
  ASSERT_EQ(symlink(home.Aside("target").c_str(), home.directory().c_str()), 0);
  for (const char* ending : {"", "/", "/.", "//./"}) {
    const absl::Status status = redis::EmbeddedDirectory(home.directory() + ending).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << ending;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a symbolic link")) << ending;
  }
  WriteScript(home.Aside("file"), "");
  EXPECT_EQ(redis::EmbeddedDirectory(home.Aside("file")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(EmbeddedDirectory, IsRefusedIfPathIsNotFitForSocket) {
  const auto refusal = [](const std::string& directory) {
    const absl::Status status = redis::EmbeddedDirectory(directory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const size_t longest = 107 - std::string("/redis.sock").size();
  const std::string longest_name(longest - home.Aside("").size(), 'x');
  EXPECT_TRUE(redis::EmbeddedDirectory(home.Aside(longest_name)).ok());
  EXPECT_THAT(refusal(home.Aside(longest_name + "x")),
              HasSubstr("108 bytes, and 107 is the maximum"));
  EXPECT_THAT(refusal("somewhere"), HasSubstr("absolute"));
  EXPECT_THAT(refusal(std::string("/tmp/a\0b", 8)), HasSubstr("absolute"));
}

TEST_F(EmbeddedDirectory, IsRefusedIfParentIsMissing) {
  const absl::Status status = redis::EmbeddedDirectory(home.Aside("none/home")).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("does not exist")));
}

constexpr absl::Duration kLong = absl::Seconds(10);

std::set<std::string> Files(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

// Returns when the keeper has checked the server `checks` times more: each check is a connection.
void AwaitChecks(support::RawConnection& connection, int checks) {
  const int enough = InfoNumber(connection, "total_connections_received") + checks;
  ASSERT_TRUE(Await([&] { return InfoNumber(connection, "total_connections_received") >= enough; }))
      << "the keeper does not check";
}

TEST_F(Keeper, StopsUnusedServerAndEnds) {
  ASSERT_TRUE(home.Ensure(absl::Seconds(1)).ok());
  const base::Instant begin = base::Now();
  EXPECT_TRUE(home.ProcessesEnd());
  EXPECT_GE(base::Now() - begin, absl::Milliseconds(950));
  EXPECT_THAT(Files(home.directory()), ElementsAre("alive", "kept.rdb", "lock", "log"));
}

TEST_F(Keeper, KeepsServerWhileClientIsConnected) {
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitChecks(connection, 6);  // two are enough to stop an unused one
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
}

TEST_F(Keeper, KeepsServerUntilLeaseOfDeadClientEnds) {
  using Commands = std::vector<std::vector<std::string>>;
  const std::string permits = "redlatch:2:{slots}:semaphore.permits";
  for (const Commands& taken : {Commands{{"SELECT", "3"},
                                         {"SET", "redlatch:2:{job}:fence", "7", "PX", "60000"},
                                         {"SET", "{job}:fenced", "x", "PX", "1200"}},
                                Commands{{"HSET", "slots", "kind", "semaphore/2", "capacity", "8"},
                                         {"ZADD", permits, "1", "x"},
                                         {"PEXPIRE", permits, "1200"}}}) {
    const EmbeddedHome home;
    std::optional<support::RawConnection> connection = home.Connect(absl::Milliseconds(200));
    const ProcessEnd end(ServerPid(*connection));
    for (const std::vector<std::string>& command : taken) connection->Command(command);
    connection.reset();
    EXPECT_FALSE(end.WaitFor(absl::Milliseconds(1100)));
    EXPECT_TRUE(end.WaitFor(kLong));
  }
}

TEST_F(Keeper, StopsServerWithOnlyOldDescription) {
  home.Connect(absl::Milliseconds(100))
      .Command({"SET", "redlatch:client:" + std::string(32, 'a'), "{}", "PX", "3600000"});
  EXPECT_TRUE(home.ProcessesEnd());
}

TEST_F(Keeper, NextServerLoadsSavedDataOnce) {
  home.Connect(absl::Milliseconds(100))
      .Command({"SET", "redlatch:2:{job}:fence", "7", "PX", "60000"});
  ASSERT_TRUE(home.ProcessesEnd());
  auto next = home.Connect();
  EXPECT_EQ(next.Command({"GET", "redlatch:2:{job}:fence"}).text, "7");
  // After a crash, no data is better than old data.
  const ProcessEnd end(ServerPid(next));
  Kill(ServerPid(next));
  ASSERT_TRUE(end.WaitFor(kLong));
  auto third = home.Connect();
  EXPECT_TRUE(third.Command({"GET", "redlatch:2:{job}:fence"}).is_nil());
}

TEST_F(Keeper, NextServerLoadsUnusedSemaphoresAndLatches) {
  {
    auto connection = home.Connect(absl::Milliseconds(100));
    connection.Command({"HSET", "slots", "kind", "semaphore/2", "capacity", "8"});
    connection.Command({"HSET", "done", "kind", "latch/2", "count", "3"});
    connection.Command({"HSET", "redlatch:2:{done}:latch.counted", "me", "1"});
  }
  ASSERT_TRUE(home.ProcessesEnd());
  auto next = home.Connect();
  EXPECT_EQ(next.Command({"HGET", "slots", "capacity"}).text, "8");
  EXPECT_EQ(next.Command({"HGET", "done", "count"}).text, "3");
  EXPECT_EQ(next.Command({"HGET", "redlatch:2:{done}:latch.counted", "me"}).text, "1");
}

TEST_F(Keeper, LosesNothingOfClientBetweenCheckAndStop) {
  // A redis-cli that waits at a FIFO once the keeper has decided to stop the server.
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

TEST_F(Keeper, KeepsItsFilesYoung) {
  auto connection = home.Connect(absl::Milliseconds(40));
  const timespec old[2] = {};
  for (const char* name : {"alive", "lock"}) {
    ASSERT_EQ(utimensat(AT_FDCWD, home.Path(name).c_str(), old, 0), 0);
  }
  AwaitChecks(connection, 2);  // at the second check, the work after the first one is done
  for (const char* name : {"alive", "lock"}) {
    struct stat file;
    ASSERT_EQ(stat(home.Path(name).c_str(), &file), 0);
    EXPECT_GT(file.st_mtim.tv_sec, 0) << name;
  }
}

TEST_F(Keeper, EndsWithItsServer) {
  auto connection = home.Connect();
  Kill(ServerPid(connection));
  EXPECT_TRUE(home.ProcessesEnd());  // far sooner than its next check
}

TEST_F(Keeper, IsNotNeededToServe) {
  auto connection = home.Connect(absl::Milliseconds(100));
  const pid_t server = ServerPid(connection);
  for (const EmbeddedHome::Process& process : home.Processes()) {
    if (process.pid != server) Kill(process.pid);
  }
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  auto another = home.Connect();
  EXPECT_EQ(ServerPid(another), server);
}

TEST_F(Keeper, ServesOnWithoutRedisCli) {
  WriteScript(home.Aside("server"), "exec " + FindServerPrograms()->server + " \"$@\"\n");
  const ScopedEnvironment server("REDLATCH_REDIS_SERVER", home.Aside("server").c_str());
  const ScopedEnvironment no_client("PATH", home.Aside("").c_str());
  auto connection = home.Connect(absl::Milliseconds(100));
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_THAT(TextOf(home.Path("log")), HasSubstr("does not stop by itself"));
}

TEST_F(Keeper, KillsServerIfItsSocketIsGone) {
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitChecks(connection, 1);
  const pid_t lost = ServerPid(connection);
  ASSERT_TRUE(fs::remove(home.Path("redis.sock")));
  auto another = home.Connect();  // it waits until the first one has ended
  EXPECT_NE(ServerPid(another), lost);
  EXPECT_EQ(connection.Command({"PING"}).type, Reply::Type::kError);
}

TEST_F(Keeper, KillsOnlyTheServerOfReplacedDirectory) {
  auto connection = home.Connect(absl::Milliseconds(200));
  AwaitChecks(connection, 1);
  const ProcessEnd end(ServerPid(connection));
  fs::remove_all(home.directory());
  auto another = home.Connect();
  EXPECT_TRUE(end.WaitFor(kLong));
  EXPECT_EQ(another.Command({"PING"}).text, "PONG");
  auto third = home.Connect();
  EXPECT_EQ(ServerPid(third), ServerPid(another));
}

TEST_F(Keeper, AnyProcessMayBeKilledAtAnyMoment) {
  std::atomic<bool> over = false;
  std::atomic<int> served = 0;
  Crew clients;
  clients.Start(3, [&](int) {
    while (!over) {
      const absl::StatusOr<std::string> socket = home.Ensure(absl::Milliseconds(40));
      // A server that is killed twice in a row while starting is the only allowed failure.
      if (!socket.ok()) {
        EXPECT_THAT(std::string(socket.status().message()), HasSubstr("while starting"));
        continue;
      }
      auto connection = support::RawConnection::ToSocket(*socket);
      if (connection.Command({"PING"}).text == "PONG") ++served;
      absl::SleepFor(base::Jittered(absl::Milliseconds(60)));
    }
  });
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
  clients.Join();
  EXPECT_GT(served, 10);
  auto connection = home.Connect();
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_THAT(home.Servers(), ElementsAre(ServerPid(connection)));
}

}  // namespace
}  // namespace redlatch::redis
