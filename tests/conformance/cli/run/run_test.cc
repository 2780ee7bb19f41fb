// Tests `redlatch run` as shells and crontabs use it.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

Client ClientOf(const support::RedisServer& server) {
  absl::StatusOr<Client> client = Client::Connect(server.url());
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

TEST_F(RedlatchRunTest, ExitsWithTheCommandsCode) {
  EXPECT_EQ(Code({"job", "--", "true"}), 0);
  EXPECT_EQ(Code({"job", "--", "sh", "-c", "exit 3"}), 3);
  EXPECT_EQ(Code({"job", "--", "sh", "-c", "kill -KILL $$"}), 128 + SIGKILL);
  EXPECT_EQ(Code({"job", "--", "sh", "-c", "exit 122"}), 122);
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchRunTest, PassesArgumentsAndStandardStreams) {
  const auto run = Start({"--wait=5", "job", "--lease", "5s", "--", "sh", "-c",
                          "printf '%s\\n' \"$@\"; cat", "sh", "", "a  b", "--", "--help", "-x"});
  for (const char* const word : {"", "a  b", "--", "--help", "-x"}) {
    EXPECT_EQ(run->pipe().ReadLine(), word);
  }
  run->pipe().WriteLine("through");
  EXPECT_EQ(run->pipe().ReadLine(), "through");
  run->pipe().CloseWrite();
  EXPECT_EQ(CodeOf(*run), 0);
}

TEST_F(RedlatchRunTest, TakesAnyNameBehindTwoDashes) {
  for (const char* const name : {"-job", "--wait", "--"}) {
    const auto run =
        Start({"--wait=5", "--", name, "--", "sh", "-c", "echo $REDLATCH_LOCK $1", "sh", "--"});
    EXPECT_EQ(run->pipe().ReadLine(), absl::StrCat(name, " --"));
    EXPECT_EQ(CodeOf(*run), 0) << Errors();
  }
}

TEST_F(RedlatchRunTest, PassesNameAndAGrowingTokenToTheCommand) {
  const std::string name = "odd \"name\" * \xc3\xa4 $x\nand\ttwo lines";
  const std::string script = R"(
      echo "$REDLATCH_TOKEN"
      printenv -0 REDLATCH_LOCK | tr '\n\0' '|\n'
      echo "$REDLATCH_SERVER")";
  uint64_t last = 0;
  for (int i = 0; i < 2; ++i) {
    const auto run = Start({name, "--", "sh", "-c", script}, {"REDLATCH_TOKEN=stale"});
    uint64_t token = 0;
    ASSERT_TRUE(absl::SimpleAtoi(run->pipe().ReadLine().value_or(""), &token));
    EXPECT_GT(token, last);
    last = token;
    EXPECT_EQ(run->pipe().ReadLine(), "odd \"name\" * \xc3\xa4 $x|and\ttwo lines");
    EXPECT_EQ(run->pipe().ReadLine(), server_->url());
    EXPECT_EQ(CodeOf(*run), 0);
  }
}

TEST_F(RedlatchRunTest, PassesNoPasswordAndNoTokenOfPermits) {
  const auto secret = support::RedisServer::Start({.password = "hunter2"});
  const std::string url = "redis://:hunter2@127.0.0.1:" + std::to_string(secret->port());
  const auto run = Start({"--capacity", "3", "--permits", "2", "slots", "--", "env"},
                         {"REDLATCH_URL=" + url, "REDLATCH_TOKEN=stale"});
  std::string environment;
  while (const auto line = run->pipe().ReadLine()) {
    if (!line->starts_with("REDLATCH_URL=")) environment += *line + "\n";
  }
  EXPECT_THAT(environment, AllOf(HasSubstr("REDLATCH_LOCK=slots\n"), HasSubstr("REDLATCH_SERVER="),
                                 Not(HasSubstr("hunter2")), Not(HasSubstr("REDLATCH_TOKEN"))));
  EXPECT_EQ(CodeOf(*run), 0);
}

TEST_F(RedlatchRunTest, CommandInheritsNoDescriptorOfRedlatch) {
  const auto run = Start({"job", "--", "ls", "-l", "/proc/self/fd"});
  std::vector<std::string> sockets;
  std::string all;
  while (const auto line = run->pipe().ReadLine()) {
    if (line->find("socket:") != std::string::npos) sockets.push_back(*line);
    all += *line + "\n";
  }
  EXPECT_THAT(sockets, SizeIs(2)) << "standard input and output alone";
  EXPECT_THAT(all, AllOf(Not(HasSubstr("anon_inode:")), Not(HasSubstr("pipe:"))));
  EXPECT_EQ(CodeOf(*run), 0);
}

TEST_F(RedlatchRunTest, DescribesItselfOnlyWhileItRuns) {
  const auto run = Start({"job", "--", "/bin/sh", "-c", "echo held; read line"});
  ASSERT_EQ(run->pipe().ReadLine(), "held");
  {
    const auto info = Must(SimpleLock(ClientOf(*server_), "job").Inspect());
    ASSERT_EQ(info.holders.size(), 1);
    EXPECT_EQ(info.holders[0].process.program, "redlatch run: sh");
  }
  EXPECT_EQ(Code({"job", "--wait", "0", "--", "echo", "wrong"}), 120);
  run->pipe().WriteLine("done");
  EXPECT_EQ(CodeOf(*run), 0);
  EXPECT_EQ(Code({"other", "--", "no-such-program"}), 127);
  EXPECT_TRUE(support::Await([&] {
    return server_->Command({"KEYS", "redlatch:client:*"}).elements.empty();
  }));
}

TEST_F(RedlatchRunTest, WaitsForTheGivenTimeThenIsBusy) {
  const auto holder = Start({"job", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  EXPECT_EQ(Code({"job", "--wait", "0", "--", "echo", "wrong"}), 120);
  EXPECT_THAT(Errors(), HasSubstr("\"job\" is busy: held by sh (run, "));
  EXPECT_EQ(Code({"job", "--wait=100ms", "--", "echo", "wrong"}), 120);
  EXPECT_THAT(Errors(), HasSubstr("was busy for 100ms"));
  EXPECT_EQ(Code({"job", "--wait", "0", "--busy-code", "75", "--", "echo", "wrong"}), 75);
  const std::string before = Errors();
  EXPECT_EQ(Code({"job", "--wait", "0", "--busy-code", "0", "--", "echo", "wrong"}), 0);
  EXPECT_EQ(Errors(), before);
  EXPECT_EQ(Code({"another", "--wait", "0", "--", "true"}), 0);

  const auto next = Start({"job", "--", "echo", "its turn"});
  EXPECT_EQ(next->pipe().ReadLine(absl::Milliseconds(100)), std::nullopt);
  holder->pipe().WriteLine("go");
  EXPECT_EQ(next->pipe().ReadLine(), "its turn");
  EXPECT_EQ(CodeOf(*next), 0);
  EXPECT_EQ(CodeOf(*holder), 0);
}

TEST_F(RedlatchRunTest, RunsOncePerPeriod) {
  const absl::Duration time = YoungPeriod();
  const std::string once_per = absl::StrCat("--once-per=", absl::FormatDuration(time));
  const Words periodic = {once_per, "--wait", "0", "job", "--", "echo"};
  const auto run = Start(Join(periodic, {"ran"}));
  EXPECT_EQ(run->pipe().ReadLine(), "ran");
  EXPECT_EQ(CodeOf(*run), 0);
  const std::string before = Errors();
  EXPECT_EQ(Code(Join(periodic, {"wrong"})), 120);
  EXPECT_THAT(Errors(), HasSubstr("lock \"job\": the command has been run in this period"));
  EXPECT_EQ(Code({once_per, "--wait=0", "--busy-code=0", "job", "--", "echo", "wrong"}), 0);
  EXPECT_THAT(before, IsEmpty());
  const int64_t period = absl::ToInt64Milliseconds(time);
  const int64_t left = server_->Integer({"PTTL", "job"});
  const int64_t ends = absl::ToUnixMillis(absl::Now()) + left;
  EXPECT_LT(std::min(ends % period, period - ends % period), 10'000) << "at the end of the period";
  EXPECT_EQ(Code({once_per, "other", "--", "true"}), 0) << "another name";
}

// A token is ahead of the server's clock after the clock was set back, or after the forced release
// of a cached lock.
TEST_F(RedlatchRunTest, PeriodOfATokenAheadOfTheClockHasOneRun) {
  const absl::Duration period = YoungPeriod();
  const absl::Duration now = ServerTime();
  const int64_t ahead = absl::ToInt64Microseconds(now + absl::Minutes(20));
  const auto stays_until_the_end = [&] {
    const int64_t left = absl::ToInt64Milliseconds(period - now % period);
    const int64_t taken = server_->Integer({"PTTL", "job"});
    EXPECT_LT(std::abs(taken - left), 60'000) << taken << " of " << left;
  };
  const Words periodic = {absl::StrCat("--once-per=", absl::FormatDuration(period)), "job", "--",
                          "sh", "-c"};
  for (const std::string kind : {"--lease=10s", "--write"}) {
    SCOPED_TRACE(kind);
    server_->Text({"SET", "redlatch:2:{job}:fence", absl::StrCat(ahead)});
    const auto run = Start(Join(Join({kind}, periodic), {"echo $REDLATCH_TOKEN; read line"}));
    EXPECT_EQ(run->pipe().ReadLine(), absl::StrCat(ahead + 1));
    stays_until_the_end();  // even if the run is killed now
    run->pipe().WriteLine("end");
    EXPECT_EQ(CodeOf(*run), 0);
    stays_until_the_end();
    EXPECT_EQ(Code(Join(Join({"--wait=0", kind}, periodic), {"echo wrong"})), 120);
    server_->Integer({"DEL", "job"});
  }
}

TEST_F(RedlatchRunTest, WaitsForTheNextPeriod) {
  std::vector<int64_t> tokens;
  for (int i = 0; i < 3; ++i) {
    const auto run = Start({"--once-per=1s", "job", "--", "sh", "-c", "echo $REDLATCH_TOKEN"});
    int64_t token = 0;
    ASSERT_TRUE(absl::SimpleAtoi(run->pipe().ReadLine().value_or(""), &token));
    tokens.push_back(token / 1'000'000);
    EXPECT_EQ(CodeOf(*run), 0);
  }
  EXPECT_LT(tokens[0], tokens[1]);
  EXPECT_LT(tokens[1], tokens[2]);
}

TEST_F(RedlatchRunTest, LongRunMaySpanPeriods) {
  const auto run =
      Start({"--once-per=300ms", "--lease=1s", "job", "--", "sh", "-c", "echo on; read line"});
  ASSERT_EQ(run->pipe().ReadLine(), "on");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Code({"--once-per=300ms", "--wait=500ms", "job", "--", "echo", "wrong"}), 120);
  }
  run->pipe().WriteLine("end");
  EXPECT_EQ(CodeOf(*run), 0);
  EXPECT_EQ(Code({"--once-per=300ms", "job", "--", "true"}), 0);
}

TEST_F(RedlatchRunTest, CommandIsEndedAfterAtMost) {
  EXPECT_EQ(Code({"--at-most", "2s", "--grace", "500ms", "job", "--", "sleep", "60"}), 122);
  EXPECT_THAT(Errors(), HasSubstr("is about to be lost (the time of --at-most is over): SIGTERM"));
  EXPECT_FALSE(IsTaken("job"));
}

TEST_F(RedlatchRunTest, RefusesTimesThatDoNotFit) {
  const auto refused = [&](const Words& words, const std::string& why) {
    EXPECT_EQ(Code(Join(words, {"job", "--", "true"})), 125);
    EXPECT_THAT(Errors(), HasSubstr(why));
  };
  refused({"--at-most", "10s", "--lease", "20s"}, "--at-most is shorter than the lease");
  refused({"--stop-margin", "16s"}, "--stop-margin is more than half of the lease");
  refused({"--stop-margin", "10s", "--grace", "11s"}, "--grace is more than half of the lease");
  refused({"--once-per", "1ms"}, "--once-per is too short");
  refused({"--once-per", "inf"}, "--once-per is too long; say at most one year");
  refused({"--at-least", "inf"}, "--at-least is too long; say at most one year");
  refused({"--once-per", "1h", "--at-least", "1h"}, "exclude each other");
  refused({"--once-per", "1h", "--shared"}, "--once-per is not for permits");
  refused({"--at-least", "1h", "--capacity", "3"}, "--at-least is not for permits");
  refused({"--at-most", "1h", "--capacity", "3"}, "--at-most is not for permits");
}

class RedlatchJsonTest : public RedlatchOutputTest {};

TEST_F(RedlatchRunTest, NamesTheKindOfLockThatItFinds) {
  const Client client = *Client::Connect(server_->url());
  Semaphore semaphore(client, "slots", 4);
  ReentrantReadWriteLock read_write(client, "data");
  ReentrantLock reentrant(client, "again");
  SimpleLock plain(client, "plain");
  ASSERT_TRUE(semaphore.try_acquire() && read_write.try_lock() && reentrant.try_lock() &&
              plain.try_lock());
  server_->Text({"SET", "text", "x"});
  server_->Integer({"RPUSH", "list", "x"});
  const auto refused = [&](const Words& words, const std::string& found, const std::string& fix) {
    EXPECT_EQ(Code(Join(words, {"--", "true"})), 123);
    EXPECT_THAT(Errors(), HasSubstr(absl::StrCat("is in use for ", found, "; ", fix)));
  };
  refused({"slots"}, "a semaphore of 4 permits, and not for a plain lock",
          "to take a permit, say --permits 1 --capacity 4, or choose another name");
  refused({"data"}, "a read-write lock, and not for a plain lock", "say --shared or --write");
  refused({"--write", "again"}, "a reentrant lock, and not for a read-write lock",
          "choose another name");
  refused({"--capacity", "2", "plain"}, "a plain lock, and not for a semaphore",
          "leave out --shared");
  refused({"--capacity", "2", "text"}, "another program's key, a string, and not for a semaphore",
          "choose another name");
  refused({"list"}, "another program's key, a list, and not for a plain lock",
          "choose another name");
}

TEST_F(RedlatchRunTest, SaysThatNoProcessHoldsANameThatStaysTaken) {
  EXPECT_EQ(Code({"--at-least", "2h", "job", "--", "true"}), 0);
  EXPECT_GT(server_->Integer({"PTTL", "job"}), 7'100'000);
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}), 120);
  EXPECT_THAT(Errors(), HasSubstr("lock \"job\" is busy: no process holds it, but its name stays "
                                  "taken for 1h59m"));
}

TEST_F(RedlatchJsonTest, ReportsWhatHappensToTheLock) {
  const Outcome ran = Redlatch({"run", "--json", "job", "--", "sh", "-c", "echo $REDLATCH_TOKEN"});
  EXPECT_EQ(Json(ran.errors,
                 "([(r['event'], r['name']) for r in rows], rows[0]['token'], "
                 "rows[0]['server'], rows[0]['waited_ms'] < 60000, rows[1]['code'], "
                 "rows[1]['held_ms'] >= 0)"),
            absl::StrCat("([('acquired', 'job'), ('released', 'job')], ",
                         absl::StripTrailingAsciiWhitespace(ran.output), ", '", server_->url(),
                         "', True, 0, True)"));
  const Client client = NewClient({.program = "billing"});
  SimpleLock lock(client, "other");
  const std::scoped_lock guard(lock);
  const Outcome busy = Redlatch({"run", "-j", "--busy-code=0", "--wait=0", "other", "--", "true"});
  EXPECT_EQ(busy.code, 0);
  EXPECT_EQ(Json(busy.errors,
                 "(rows[0]['event'], 'is busy: held by billing' in "
                 "rows[0]['message'])"),
            "('busy', True)")
      << busy.errors;
}

TEST_F(RedlatchJsonTest, ReportsALoss) {
  const auto run = StartRedlatch(
      {"run", "--json", "--lease=2s", "job", "--", "sh", "-c", "echo on; exec sleep 60"});
  ASSERT_EQ(run->pipe().ReadLine(), "on");
  server_->Integer({"DEL", "job"});
  EXPECT_EQ(CodeOf(*run), 122);
  EXPECT_EQ(Json(Errors(), "([r['event'] for r in rows], 'is lost' in rows[1]['message'])"),
            "(['acquired', 'lost'], True)")
      << Errors();
}

TEST_F(RedlatchRunTest, HasReleasedTheLockWhenItExits) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Code({"job", "--wait", "0", "--", "true"}), 0) << Errors();
    EXPECT_FALSE(IsTaken("job"));
    EXPECT_EQ(Code({"--capacity", "1", "slots", "--wait", "0", "--", "false"}), 1) << Errors();
  }
}

TEST_F(RedlatchRunTest, ReadersRunTogetherWritersAlone) {
  const auto reader = Start({"--shared", "data", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(reader->pipe().ReadLine(), "held");
  EXPECT_EQ(Code({"--shared", "--wait", "0", "data", "--", "true"}), 0);
  EXPECT_EQ(Code({"--write", "--wait", "0", "data", "--", "true"}), 120);
  reader->pipe().WriteLine("go");
  EXPECT_EQ(CodeOf(*reader), 0);
  EXPECT_EQ(Code({"--write", "--wait", "0", "data", "--", "true"}), 0);
}

TEST_F(RedlatchRunTest, RunsAsManyCommandsAsThereArePermits) {
  const Words held = {"--capacity",          "2", "slots", "--wait", "0", "--", "sh", "-c",
                      "echo held; read line"};
  const auto one = Start(held);
  const auto two = Start(held);
  EXPECT_EQ(one->pipe().ReadLine(), "held");
  EXPECT_EQ(two->pipe().ReadLine(), "held");
  EXPECT_EQ(Code(held), 120);
}

TEST_F(RedlatchRunTest, FindsTheCommandBeforeItTakesTheLock) {
  const std::string nowhere = "--server=unix://" + directory_.path() + "/nowhere";
  const std::string plain = directory_.path() + "/plain";
  std::ofstream(plain) << "not a program";
  EXPECT_EQ(Code({nowhere, "job", "--", "no-such-command"}), 127);
  EXPECT_THAT(Errors(), HasSubstr("no-such-command: command not found"));
  EXPECT_EQ(Code({nowhere, "job", "--", "/no/such/command"}), 127);
  EXPECT_EQ(Code({nowhere, "job", "--", ""}), 127);
  EXPECT_EQ(Code({nowhere, "job", "--", plain}), 126);
  EXPECT_EQ(Code({nowhere, "job", "--", directory_.path()}), 126);
}

TEST_F(RedlatchRunTest, ReleasesTheLockIfTheCommandCannotBeExecuted) {
  const std::string broken = directory_.path() + "/broken";
  std::ofstream(broken) << "#!/no/such/interpreter\n";
  chmod(broken.c_str(), 0700);
  EXPECT_EQ(Code({"job", "--", broken}), 127);
  EXPECT_THAT(Errors(), HasSubstr("broken"));
  EXPECT_FALSE(IsTaken("job"));
}

TEST_F(RedlatchRunTest, NamesTheUnreachableServer) {
  server_->Kill();
  EXPECT_EQ(Code({"job", "--", "echo", "wrong"}), 121);
  EXPECT_THAT(Errors(), AllOf(StartsWith("redlatch: "), HasSubstr(server_->url()),
                              HasSubstr("REDLATCH_URL")));
}

TEST_F(RedlatchRunTest, ManPageIsUpToDate) {
  const auto man = support::Child::Exec({REDLATCH_COMMAND, "--man"});
  std::string text;
  while (const auto line = man->pipe().ReadLine()) text += *line + "\n";
  EXPECT_EQ(text, TextOf(REDLATCH_MAN_PAGE)) << "redlatch --man > docs/man/redlatch.1";
}

TEST_F(RedlatchRunTest, PassesOnEverySignalButThoseThatItsHelpNames) {
  const auto run = Start({"job", "--", "python3", "-uc",
                          "import signal\n"
                          "all = set(range(1, 65)) - {9, 19, 32, 33}\n"
                          "signal.pthread_sigmask(signal.SIG_BLOCK, all)\n"
                          "print('ready')\n"
                          "while True: print(int(signal.sigwait(all)))"});
  ASSERT_EQ(run->pipe().ReadLine(), "ready");
  for (const int signal :
       {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCONT, SIGSTKFLT, SIGURG,
        SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGRTMIN, SIGRTMAX}) {
    for (const int withheld : {SIGPIPE, SIGCHLD}) kill(run->pid(), withheld);
    kill(run->pid(), signal);
    EXPECT_EQ(run->pipe().ReadLine(), absl::StrCat(signal));
  }
  const auto help = StartRedlatch({"run", "--help"});
  EXPECT_THAT(OutputOf(*help), ContainsRegex("exceptions:[^.]*SIGCHLD[^.]*SIGPIPE"));
  run->Kill();
}

TEST_F(RedlatchRunTest, ExitsWith128AndTheSignalThatEndedTheCommand) {
  const auto run = Start({"job", "--", "sh", "-c", "echo ready; exec sleep 1000"});
  ASSERT_EQ(run->pipe().ReadLine(), "ready");
  run->Signal(SIGTERM);
  EXPECT_EQ(CodeOf(*run), 128 + SIGTERM);
  EXPECT_FALSE(IsTaken("job"));
}

TEST_F(RedlatchRunTest, IgnoresSignalsThatItInheritedAsIgnored) {
  const auto run =
      support::Child::Exec({"/bin/sh", "-c", "trap '' HUP; exec \"$0\" \"$@\"", REDLATCH_COMMAND,
                            "run", "job", "--", "sh", "-c", "echo ready; read line; echo over"},
                           {.environment = {"REDLATCH_URL=" + server_->url()}});
  ASSERT_EQ(run->pipe().ReadLine(), "ready");
  run->Signal(SIGHUP);
  run->pipe().WriteLine("go");
  EXPECT_EQ(run->pipe().ReadLine(), "over");
  EXPECT_EQ(CodeOf(*run), 0);
}

TEST_F(RedlatchRunTest, StopsAndContinuesWithTheCommand) {
  const auto run =
      Start({"job", "--", "sh", "-c", "echo $$; while read line; do echo $line; done"});
  const EndOf command = ProcessFrom(*run);
  const auto is_stopped = [](pid_t pid) {
    return TextOf("/proc/" + std::to_string(pid) + "/stat").find(") T ") != std::string::npos;
  };
  run->Signal(SIGTSTP);
  EXPECT_TRUE(support::Await([&] { return is_stopped(command.pid()); }));
  EXPECT_TRUE(support::Await([&] { return is_stopped(run->pid()); }));
  run->Signal(SIGCONT);
  run->pipe().WriteLine("on");
  EXPECT_EQ(run->pipe().ReadLine(), "on");
}

TEST_F(RedlatchRunTest, CommandReadsTheTerminalAndIsInterruptedOnce) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto run = StartOnTerminal(
      "exec " REDLATCH_COMMAND
      " run job -- sh -c 'trap \"echo interrupted\" INT; echo ready; read a; read b; echo got $b'");
  std::string output;
  const auto until = [&](const std::string& text) {
    while (output.find(text) == std::string::npos) {
      const auto line = run->pipe().ReadLine();
      if (!line) return false;
      output += *line + "\n";
    }
    return true;
  };
  ASSERT_TRUE(until("ready")) << output;
  run->pipe().WriteLine("\x03");
  ASSERT_TRUE(until("interrupted")) << output;
  run->pipe().WriteLine("typed");
  run->pipe().WriteLine("typed");
  ASSERT_TRUE(until("got typed")) << output;
  EXPECT_EQ(output.find("interrupted"), output.rfind("interrupted")) << output;
  EXPECT_EQ(CodeOf(*run), 0);
}

TEST_F(RedlatchRunTest, LeavesTheQueueIfASignalEndsItsWait) {
  const auto holder = Start({"job", "--", "sh", "-c", "echo held; read line"});
  ASSERT_EQ(holder->pipe().ReadLine(), "held");
  const auto waiter = Start({"job", "--", "echo", "wrong"});
  const auto waiting = [&] {
    const auto info = SimpleLock(ClientOf(*server_), "job").Inspect();
    return info.ok() ? info->waiting : -1;
  };
  ASSERT_TRUE(support::Await([&] { return waiting() == 1; }));
  waiter->Signal(SIGINT);
  EXPECT_EQ(CodeOf(*waiter), 128 + SIGINT);
  EXPECT_EQ(waiter->pipe().ReadLine(), std::nullopt);
  EXPECT_EQ(waiting(), 0);
}

TEST_F(RedlatchRunTest, EndsLeftProcessesBeforeTheRelease) {
  const auto run = Start({"--grace", "100ms", "job", "--", "sh", "-c",
                          "sh -c 'trap \"\" TERM; echo $$; exec sleep 1000' & read line; exit 5"});
  const EndOf left = ProcessFrom(*run);
  run->pipe().WriteLine("go");
  EXPECT_TRUE(left.Within(absl::Seconds(10)));
  EXPECT_EQ(CodeOf(*run), 5);
  EXPECT_THAT(Errors(), HasSubstr("left processes running"));
  EXPECT_FALSE(IsTaken("job"));
}

TEST_F(RedlatchRunTest, LetsLeftProcessesFinish) {
  const auto run = Start({"job", "--", "sh", "-c", "{ sleep 0.2; echo written; } & exit 0"});
  EXPECT_EQ(run->pipe().ReadLine(), "written");
  EXPECT_EQ(CodeOf(*run), 0);
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchRunTest, LeavesADaemonAlone) {
  const auto run =
      Start({"job", "--", "sh", "-c", "setsid sh -c 'echo $$; exec sleep 1000' & read line"});
  const EndOf daemon = ProcessFrom(*run);
  run->pipe().WriteLine("go");
  EXPECT_EQ(CodeOf(*run), 0);
  EXPECT_FALSE(daemon.Within(absl::Milliseconds(50)));
}

// Runs in a PID namespace of its own, where the shell that starts redlatch is process 1 with parent
// 0.
struct RedlatchRunInNamespaceTest : RedlatchRunTest {
  void SetUp() override {
    if (support::Child::Exec(Join(Words(kUnshare), {"true"}))->Wait().code != 0) {
      GTEST_SKIP() << "users of this machine may not create PID namespaces: nothing was tested";
    }
  }
  // The output of the script, whose $0 is redlatch.
  std::string Printed(const std::string& script) const {
    const auto shell = support::Child::Exec(Join(kUnshare, {"sh", "-c", script, REDLATCH_COMMAND}),
                                            {.environment = {"REDLATCH_URL=" + server_->url()}});
    std::string printed;
    while (const auto line = shell->pipe().ReadLine(absl::Seconds(30))) printed += *line + ";";
    return printed;
  }

  const Words kUnshare = {"unshare", "--user", "--map-root-user",
                          "--pid",   "--fork", "--mount-proc"};
};

TEST_F(RedlatchRunInNamespaceTest, EndsLeftProcessesAndNothingElse) {
  const std::string script = R"sh(
    sleep 1000 >&2 & beside=$!
    left=$("$0" run --grace 100ms job -- sh -c 'sleep 1000 >&2 & echo $!; exit 3')
    echo "code $?"
    kill -0 "$left" 2>/dev/null || echo "ended"
    kill "$beside" && echo "beside it"
  )sh";
  EXPECT_EQ(Printed(script), "code 3;ended;beside it;");
}

TEST(RedlatchRunEmbeddedTest, ServerInheritsNothingFromTheCaller) {
  const redis::EmbeddedHome home;
  const auto run =
      support::Child::Exec({REDLATCH_COMMAND, "run", "job", "--", "echo", "done"},
                           {.environment = {"REDLATCH_URL=embedded:" + home.directory()}});
  EXPECT_EQ(run->pipe().ReadLine(absl::Seconds(30)), "done");
  const absl::Time begin = absl::Now();
  // The stream ends, although the server goes on: no other process has it open.
  EXPECT_EQ(run->pipe().ReadLine(absl::Seconds(20)), std::nullopt);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(15));
  EXPECT_EQ(run->Wait().code, 0);
  EXPECT_EQ(home.Servers().size(), 1);
}

// Tests the messages of `redlatch run` while it waits for a lock.

struct RedlatchWaitTest : RedlatchOutputTest {
  // How messages name this process, for a client with that program name.
  static std::string Prose(const std::string& program) {
    return absl::StrCat(program, " \\(", Host(), ", pid ", getpid(), "\\)");
  }

  const Client client_ = NewClient({.program = "billing"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchWaitTest, ShowsHolderAndPlaceOnATerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  const auto waiting = Waiting::For<SimpleLock>(other_, "job");
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));
  EXPECT_THAT(
      OnTerminal("run --wait 1500ms job -- true", "", 40),
      Fails(120, _,
            AllOf(ContainsRegex("\r(redlatch: waiting for lock \"job\" \\([01] s\\), held by " +
                                Prose("billing") + "; 1 ahead in line)"),
                  // The line took about three rows, and was removed before the final message.
                  ContainsRegex("line\x1b\\[[1-4]A\r\x1b\\[Jredlatch: lock \"job\" was busy"))));
}

TEST_F(RedlatchWaitTest, IsSilentWithoutATerminal) {
  const auto lease = Must(SimpleLock(client_, "job").Acquire());
  EXPECT_THAT(Redlatch({"run", "--wait", "800ms", "--busy-code", "0", "job", "--", "true"}),
              Succeeds(_, IsEmpty()));
}

TEST_F(RedlatchWaitTest, ShowsNothingIfTheLockIsFree) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  EXPECT_THAT(OnTerminal("run job -- echo ran"),
              Succeeds(AllOf(HasSubstr("ran"), Not(HasSubstr("waiting")))));
}

TEST_F(RedlatchWaitTest, WarnsIfItWaitsForItself) {
  const std::string inner = absl::StrCat(REDLATCH_COMMAND, " run --wait 1s job -- true");
  EXPECT_THAT(
      Redlatch({"run", "job", "--", REDLATCH_COMMAND, "run", "between", "--", "sh", "-c", inner}),
      Fails(120, AllOf(ContainsRegex("warning: lock \"job\" is held by redlatch \\(run, .*, "
                                     "under which this command runs: it waits for itself"),
                       HasSubstr("was busy for 1s"))));
}

TEST_F(RedlatchWaitTest, DoesNotWarnIfTheInnerRunGetsTheLock) {
  EXPECT_THAT(Redlatch({"run", "--shared", "data", "--", REDLATCH_COMMAND, "run", "--shared",
                        "data", "--", "sleep", "0.7"}),
              Succeeds(_, IsEmpty()));
}

}  // namespace
}  // namespace redlatch
