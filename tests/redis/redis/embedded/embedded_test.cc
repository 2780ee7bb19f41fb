#include "src/redis/embedded/embedded.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "src/redis/embedded/directory.h"
#include "src/redis/embedded/keeper.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/live_testing.h"

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

// Whether a mask in /proc/<pid>/status names the signal.
bool HasSignal(const std::string& status, const std::string& mask, int signal) {
  const size_t at = status.find(mask + ":");
  if (at == std::string::npos) return false;  // the process ended meanwhile
  const uint64_t bits = strtoull(status.c_str() + at + mask.size() + 1, nullptr, 16);
  return (bits >> (signal - 1) & 1) != 0;
}

// Joins the server in args[0] on four threads at once, and tells the process ids it met.
REDLATCH_CHILD(Joiner) {
  parent.WriteLine("ready");
  parent.ReadLine();
  base::Mutex mutex;
  std::set<std::string> met;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
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
  }
  for (std::thread& thread : threads) thread.join();
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

TEST(EmbeddedServer, StartsOnFirstUse) {
  const EmbeddedHome home;
  const absl::StatusOr<std::string> socket = home.Ensure();
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(*socket, home.Path("redis.sock"));
  EXPECT_EQ(Mode(home.directory()), 0700);
  EXPECT_EQ(Mode(*socket), 0600);

  auto connection = support::RawConnection::ToSocket(*socket);
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  EXPECT_EQ(Config(connection, "port"), "0");
  EXPECT_EQ(Config(connection, "save"), "");
  EXPECT_EQ(Config(connection, "appendonly"), "no");
  EXPECT_EQ(Config(connection, "maxmemory-policy"), "noeviction");
}

TEST(EmbeddedServer, ServesADirectoryWithAwkwardName) {
  const EmbeddedHome home;
  const std::string directory = home.Aside("it's a \"di r\"; $HOME #");
  const absl::StatusOr<std::string> socket =
      EnsureEmbeddedServer({.directory = directory}, base::Now() + absl::Seconds(20));
  ASSERT_TRUE(socket.ok()) << socket.status();
  auto connection = support::RawConnection::ToSocket(*socket);
  EXPECT_EQ(Config(connection, "dir"), directory);
  const ProcessEnd end(ServerPid(connection));
  connection.Command({"SHUTDOWN", "NOSAVE"});
  EXPECT_TRUE(end.WaitFor(absl::Seconds(10)));
}

TEST(EmbeddedServer, SixteenProcessesThatStartAtOnceMeetOnOneServer) {
  const EmbeddedHome home;
  std::vector<std::unique_ptr<support::Child>> joiners;
  joiners.reserve(16);
  for (int i = 0; i < 16; ++i) joiners.push_back(support::SpawnChild("Joiner", {home.directory()}));
  const std::set<std::string> met = WhatTheyMeet(joiners);
  auto connection = home.Connect();
  EXPECT_THAT(met, ElementsAre(absl::StrCat(ServerPid(connection))));
  EXPECT_THAT(home.Servers(), ElementsAre(ServerPid(connection)));
}

TEST(EmbeddedServer, HealsASocketLeftByAKilledServer) {
  const EmbeddedHome home;
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

TEST(EmbeddedServer, InheritsNothingFromItsStarter) {
  const EmbeddedHome home;
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
    EXPECT_THAT(Contents(proc + "/environ"), Not(HasSubstr("hush"))) << name;
    EXPECT_NE(getsid(pid), getsid(0)) << name;
    const std::string status = Contents(proc + "/status");
    EXPECT_FALSE(HasSignal(status, "SigBlk", SIGUSR2)) << name;
    EXPECT_FALSE(HasSignal(status, "SigIgn", SIGUSR1)) << name;
  }
}

TEST(EmbeddedServer, LeavesTheStarterNoChild) {
  const EmbeddedHome home;
  const pid_t own = fork();
  if (own == 0) _exit(7);
  ASSERT_TRUE(home.Ensure().ok());
  int status = 0;
  EXPECT_EQ(waitpid(own, &status, 0), own);  // the application's child is left to it
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(EmbeddedServer, StartsWhereSigchldIsIgnored) {
  const EmbeddedHome home;
  const auto before = signal(SIGCHLD, SIG_IGN);
  const absl::StatusOr<std::string> socket = home.Ensure();
  signal(SIGCHLD, before);
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST(EmbeddedServer, GoesOnStartingWhenItsStarterGivesUp) {
  const EmbeddedHome home;
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
  EXPECT_EQ(Contents(home.Aside("starts")), "start\n");
}

TEST(EmbeddedServer, ThatFailsToStartIsReportedWithItsLog) {
  const EmbeddedHome home;
  WriteScript(home.Aside("broken"), "echo 'a shard is missing' >&2; exit 1\n");
  const ScopedEnvironment broken("REDLATCH_REDIS_SERVER", home.Aside("broken").c_str());
  const absl::Status failed = home.Ensure().status();
  EXPECT_THAT(failed, IsError(absl::StatusCode::kUnavailable, HasSubstr("a shard is missing")));
}

TEST(EmbeddedServer, ThatIsNotInstalledIsNamedWithItsPackage) {
  const EmbeddedHome home;
  const ScopedEnvironment nowhere("PATH", home.Aside("empty").c_str());
  const ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  const absl::Status missing = home.Ensure().status();
  EXPECT_THAT(missing, IsError(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("apt-get install redis-server")));
  const ScopedEnvironment wrong("REDLATCH_REDIS_SERVER", "/nonexistent/redis");
  EXPECT_THAT(std::string(home.Ensure().status().message()), HasSubstr("'/nonexistent/redis'"));
}

TEST(EmbeddedDirectory, IsTheSameWithAndWithoutALogin) {
  const EmbeddedHome home;
  ASSERT_EQ(mkdir(home.Aside("run").c_str(), 0700), 0);
  const ScopedEnvironment unnamed("REDLATCH_EMBEDDED_DIRECTORY", nullptr);
  const std::string expected = absl::StrCat("/tmp/redlatch-", geteuid());
  // Of a login, of a cron job, and of `su`, which leaves another user's.
  for (const std::string& runtime : {home.Aside("run"), std::string(), std::string("/")}) {
    const ScopedEnvironment login("XDG_RUNTIME_DIR", runtime.empty() ? nullptr : runtime.c_str());
    const absl::StatusOr<std::string> directory = DefaultEmbeddedDirectory();
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_EQ(*directory, expected);
  }
}

TEST(EmbeddedDirectory, IsTheOneThatTheEnvironmentNames) {
  const EmbeddedHome home;
  const ScopedEnvironment named("REDLATCH_EMBEDDED_DIRECTORY", home.directory().c_str());
  const absl::StatusOr<std::string> directory = EmbeddedDirectory("");
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_EQ(*directory, home.directory());
  EXPECT_EQ(Mode(*directory), 0700);
}

TEST(EmbeddedDirectory, IsNotInATmpThatNobodyElseSees) {
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

TEST(EmbeddedDirectory, ThatOthersMayEnterIsRefused) {
  const EmbeddedHome home;
  ASSERT_EQ(mkdir(home.directory().c_str(), 0700), 0);
  EXPECT_TRUE(EmbeddedDirectory(home.directory()).ok());
  ASSERT_EQ(chmod(home.directory().c_str(), 0710), 0);
  const absl::Status open = home.Ensure().status();
  EXPECT_THAT(open, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("0710")));
  EXPECT_THAT(std::string(open.message()), HasSubstr("chmod 700 '" + home.directory() + "'"));
}

TEST(EmbeddedDirectory, OfAnotherUserIsRefused) {
  const EmbeddedHome home;
  std::string theirs = "/";  // root's, where we are not root
  if (geteuid() == 0) {
    theirs = home.Aside("theirs");
    ASSERT_EQ(mkdir(theirs.c_str(), 0700), 0);
    ASSERT_EQ(chown(theirs.c_str(), 12345, 0), 0);
  }
  const absl::Status status = EmbeddedDirectory(theirs).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied,
                              HasSubstr(absl::StrCat("not to user ", geteuid()))));
}

TEST(EmbeddedDirectory, IsNeverASymbolicLinkOrAFile) {
  const EmbeddedHome home;
  ASSERT_EQ(mkdir(home.Aside("target").c_str(), 0700), 0);
  ASSERT_EQ(symlink(home.Aside("target").c_str(), home.directory().c_str()), 0);
  for (const char* ending : {"", "/", "/.", "//./"}) {
    const absl::Status status = EmbeddedDirectory(home.directory() + ending).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << ending;
    EXPECT_THAT(std::string(status.message()), HasSubstr("a symbolic link")) << ending;
  }
  WriteScript(home.Aside("file"), "");
  EXPECT_EQ(EmbeddedDirectory(home.Aside("file")).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(EmbeddedDirectory, MustBeAPathThatASocketCanHave) {
  const EmbeddedHome home;
  const auto refusal = [](const std::string& directory) {
    const absl::Status status = EmbeddedDirectory(directory).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const size_t longest = 107 - std::string("/redis.sock").size();
  const std::string longest_name(longest - home.Aside("").size(), 'x');
  EXPECT_TRUE(EmbeddedDirectory(home.Aside(longest_name)).ok());
  EXPECT_THAT(refusal(home.Aside(longest_name + "x")),
              HasSubstr("108 bytes, and 107 is the maximum"));
  EXPECT_THAT(refusal("somewhere"), HasSubstr("absolute"));
  EXPECT_THAT(refusal(std::string("/tmp/a\0b", 8)), HasSubstr("absolute"));
}

TEST(EmbeddedDirectory, IsNotMadeInANonexistentOne) {
  const EmbeddedHome home;
  const absl::Status status = EmbeddedDirectory(home.Aside("none/home")).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("does not exist")));
}

}  // namespace
}  // namespace redlatch::redis
