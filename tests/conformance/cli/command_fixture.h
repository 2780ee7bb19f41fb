// The `redlatch` command as a process, beside a server.
#ifndef REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_

#include <poll.h>
#include <sys/syscall.h>

#include <regex>

#include "redlatch/lock_options.h"
#include "tests/support/live_testing.h"

namespace redlatch {

using ::testing::_;
using ::testing::ContainsRegex;
using ::testing::EndsWith;

struct RedlatchCommandTest : ::testing::Test {
  using Words = std::vector<std::string>;

  // `redlatch WORDS`; its standard input and output are the child's pipe.
  std::unique_ptr<support::Child> StartRedlatch(const Words& words,
                                                const Words& environment = {}) const {
    // The shell only redirects stderr to a file; then redlatch replaces it.
    Words argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>>" + errors_path_, REDLATCH_COMMAND};
    argv.insert(argv.end(), words.begin(), words.end());
    Words variables = {"REDLATCH_URL=" + server_->url()};
    variables.insert(variables.end(), environment.begin(), environment.end());
    return support::Child::Exec(std::move(argv), {.environment = std::move(variables)});
  }

  // Runs a line of shell on a terminal. The child's pipe is the keyboard and the screen.
  std::unique_ptr<support::Child> StartOnTerminal(const std::string& line,
                                                  uint16_t columns = 80) const {
    return support::Child::Exec(
        {"/bin/sh", "-c", line},
        {.environment = {"REDLATCH_URL=" + server_->url()}, .columns = columns});
  }

  // Longer than any command takes, even on a busy machine.
  static constexpr absl::Duration kCommandTimeout = absl::Seconds(60);

  // Waits for its end. Returns the exit code like a shell's $?, or -1 if it does not end.
  static int CodeOf(support::Child& command, absl::Duration timeout = kCommandTimeout) {
    const std::optional<support::ExitStatus> status = command.WaitFor(timeout);
    if (!status) return -1;
    return status->signal != 0 ? 128 + status->signal : status->code;
  }

  // Its whole standard output.
  static std::string OutputOf(support::Child& command) {
    std::string output;
    while (const auto line = command.pipe().ReadLine(kCommandTimeout)) output += *line + "\n";
    return output;
  }

  // The URL with a user of the server.
  std::string UrlOf(const std::string& user) const {
    return absl::StrCat("redis://", user, "@127.0.0.1:", server_->port());
  }

  // The stderr of all commands so far.
  std::string Errors() const { return TextOf(errors_path_); }

  static Words Join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const support::TempDir directory_;
  const std::string errors_path_ = directory_.path() + "/errors";
};

struct RedlatchOutputTest : RedlatchCommandTest {
  struct Outcome {
    int code = -1;
    std::string output;
    std::string errors;

    friend void PrintTo(const Outcome& outcome, std::ostream* out) {
      *out << "code " << outcome.code << ", output:\n"
           << outcome.output << "\nerrors:\n"
           << outcome.errors;
    }
  };
  using Says = ::testing::Matcher<const std::string&>;

  // Matchers of an outcome.
  static ::testing::Matcher<Outcome> Fails(int code, const Says& errors, const Says& output = _) {
    return AllOf(::testing::Field("code", &Outcome::code, code),
                 ::testing::Field("output", &Outcome::output, output),
                 ::testing::Field("errors", &Outcome::errors, errors));
  }
  static ::testing::Matcher<Outcome> Succeeds(const Says& output, const Says& errors = _) {
    return Fails(0, errors, output);
  }
  // The output of a command that must succeed.
  static std::string Printed(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    return outcome.output;
  }

  // Runs `redlatch WORDS` to its end.
  Outcome Redlatch(const Words& words, const Words& environment = {}) const {
    const size_t before = Errors().size();
    const auto command = StartRedlatch(words, environment);
    Outcome outcome;
    outcome.output = OutputOf(*command);
    outcome.code = CodeOf(*command);
    outcome.errors = Errors().substr(before);
    return outcome;
  }

  // The same on a terminal with this many columns, where `typed` is typed.
  Outcome OnTerminal(const std::string& words, const std::string& typed = "",
                     uint16_t columns = 80) const {
    const auto command = StartOnTerminal(
        absl::StrCat(REDLATCH_COMMAND, " ", words, "; code=$?; echo; exit $code"), columns);
    if (!typed.empty()) command->pipe().WriteLine(typed);
    Outcome outcome;
    outcome.output = OutputOf(*command);
    outcome.code = CodeOf(*command);
    return outcome;
  }

  // Parses lines of JSON strictly, as `rows`, and evaluates an expression of Python.
  std::string Json(const std::string& lines, const std::string& expression) const {
    const std::string path = directory_.path() + "/json";
    std::ofstream(path, std::ios::binary) << lines;
    constexpr char kProgram[] = R"py(
import base64, json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')]
names = {row['name']: row for row in rows}
print(eval(sys.argv[2])))py";
    const auto python = support::Child::Exec({"python3", "-c", kProgram, path, expression});
    return python->pipe().ReadLine(kCommandTimeout).value_or("no JSON");
  }

  // What `redlatch ls` prints.
  std::vector<std::string> Lines(const Words& words = {}) const {
    return absl::StrSplit(Printed(Redlatch(Join({"ls"}, words))), '\n', absl::SkipEmpty());
  }
  // What `redlatch inspect` prints.
  std::string Text(const std::string& name) const {
    return Printed(Redlatch({"inspect", "--", name}));
  }
  // Evaluates an expression of `r`, the JSON of `redlatch inspect`.
  std::string Of(const std::string& name, const std::string& expression) const {
    return Json(Printed(Redlatch({"inspect", "--json", "--", name})),
                "[" + expression + " for r in rows][0]");
  }

  Client NewClient(const ClientOptions& options = {}) const {
    return Connect(server_->url(), options);
  }

  static std::string Host() {
    std::array<char, 256> host = {};
    gethostname(host.data(), host.size() - 1);
    return host.data();
  }
  // How the list shows this process, for a client with that program name.
  static std::string Me(const std::string& program) {
    return absl::StrCat(Host(), ":", getpid(), " ", program);
  }

  bool AwaitQueued(const std::string& queue, int64_t clients = 1) const {
    return support::Await([&] { return server_->Integer({"ZCARD", queue}) == clients; });
  }
};

// Calls `acquire` in a thread, and cancels it in the destructor.
class Waiting {
 public:
  explicit Waiting(std::function<void(const AcquireOptions&)> acquire)
      : thread_([this, acquire = std::move(acquire)] { acquire({.stop = stop_.get_token()}); }) {}
  // Waits for the lock of that name through another client.
  template <class Lock>
  static Waiting For(const Client& client, const std::string& name) {
    const auto lock = std::make_shared<Lock>(client, name);
    return Waiting([lock](const AcquireOptions& how) { (void)lock->Acquire(how); });
  }
  ~Waiting() {
    stop_.request_stop();
    thread_.join();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::stop_source stop_;
  std::thread thread_;
};

// Waits for the end of a process that is not our child.
class EndOf {
 public:
  explicit EndOf(pid_t pid) : pid_(pid), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
    EXPECT_TRUE(fd_.valid()) << "there is no process " << pid;
  }
  EndOf(EndOf&&) = default;
  EndOf& operator=(EndOf&&) = delete;
  // Kills the process if a failed test has left it. The descriptor refers to the right process even
  // if another one has its number by now.
  ~EndOf() {
    if (fd_.valid()) syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  bool Within(absl::Duration timeout) const {
    pollfd end = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
  }

 private:
  pid_t pid_;
  base::UniqueFd fd_;
};

struct RedlatchRunTest : RedlatchCommandTest {
  // `redlatch run WORDS`.
  std::unique_ptr<support::Child> Start(const Words& words, const Words& environment = {}) const {
    return StartRedlatch(Join({"run"}, words), environment);
  }
  int Code(const Words& words, const Words& environment = {}) const {
    return CodeOf(*Start(words, environment));
  }

  // Reads a line with the number of a process.
  static EndOf ProcessFrom(support::Child& run) {
    int pid = 0;
    const std::optional<std::string> line = run.pipe().ReadLine();
    EXPECT_TRUE(line && absl::SimpleAtoi(*line, &pid)) << line.value_or("nothing");
    return EndOf(pid > 0 ? pid : 0);
  }

  static pid_t ParentOf(pid_t pid) {
    const std::string status = TextOf(absl::StrCat("/proc/", pid, "/stat"));
    const size_t behind_name = status.rfind(") ");
    return behind_name == std::string::npos ? 0 : std::atoi(status.c_str() + behind_name + 4);
  }

  // A script of two processes, which prints their numbers. The second outlives the first, unless it
  // is killed. On SIGTERM both run `to_term`.
  static Words Family(const std::string& to_term) {
    const std::string stay = "trap '" + to_term + "' TERM; echo $$; while :; do sleep 0.02; done";
    return {"sh", "-c", "sh -c \"$0\" & " + stay, stay};
  }

  // The server's time since 1970, in whole seconds. A period of --once-per is a part of it.
  absl::Duration ServerTime() const {
    return absl::Seconds(std::atoll(server_->Do({"TIME"}).elements.at(0).text.c_str()));
  }
  // A period of an hour or more, of which at most half is over: it does not end during a test.
  absl::Duration YoungPeriod() const {
    absl::Duration period = absl::Hours(1);
    while (ServerTime() % period > period / 2) period += absl::Minutes(1);
    return period;
  }

  // True while the lock's key exists at the server.
  bool IsTaken(const std::string& lock) const { return server_->Integer({"EXISTS", lock}) == 1; }
};

struct RedlatchDoctorFixture : RedlatchCommandTest {
  struct Report {
    int code = -1;
    std::string output;

    std::vector<std::string> Matches(const std::string& pattern, size_t group = 0) const {
      std::vector<std::string> found;
      const std::regex line(pattern);
      for (std::sregex_iterator at(output.begin(), output.end(), line);
           at != std::sregex_iterator(); ++at) {
        found.push_back(absl::StrReplaceAll((*at)[group].str(), {{"\\/", "/"}, {"\\\"", "\""}}));
      }
      return found;
    }
    // The findings of this check, as lines of JSON.
    std::vector<std::string> Of(const std::string& check) const {
      return Matches("\\{\"check\":\"" + check + "\".*\\}");
    }
    std::string Text(const std::string& check) const { return absl::StrJoin(Of(check), "\n"); }
    std::string Only(const std::string& check) const {
      const std::vector<std::string> all = Of(check);
      EXPECT_THAT(all, SizeIs(1)) << output;
      return all.empty() ? "" : all.front();
    }
    // The levels of all findings of this check.
    std::set<std::string> Levels(const std::string& check) const {
      const auto levels = Matches("\"check\":\"" + check + "\",\"level\":\"([a-z]+)\"", 1);
      return {levels.begin(), levels.end()};
    }
    // The commands that the doctor recommends.
    std::vector<std::string> Commands() const {
      return Matches("\"((CONFIG SET|ACL SETUSER) ([^\"\\\\]|\\\\\")*)\"", 1);
    }
  };

  Report Examine(const std::string& url, const Words& words = {}) const {
    const auto doctor = StartRedlatch(Join({"doctor", "--json"}, words), {"REDLATCH_URL=" + url});
    Report report;
    report.output = OutputOf(*doctor);
    report.code = CodeOf(*doctor);
    return report;
  }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_
