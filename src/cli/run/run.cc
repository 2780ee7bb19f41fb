#include "src/cli/run/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "redlatch/client.h"
#include "redlatch/election.h"
#include "redlatch/lease.h"
#include "redlatch/observer.h"
#include "redlatch/permit.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/atomic.h"
#include "src/base/random.h"
#include "src/base/unique_fd.h"
#include "src/base/wake_event.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/lock/description.h"
#include "src/redis/url/url.h"

// `redlatch run` consists of two processes:
//
//   front    the process that the user started, with one thread: it forwards signals, obeys the
//            terminal's stops and interruptions, and exits with the command's code
//   keeper   its child, in a process group of its own: it has the lock, and the command is a
//            child of it
//
// If one of them cannot end the command, the other does. The front becomes the parent of all
// processes that the keeper leaves, and kills the command when the lease ends, even if the keeper
// hangs. The keeper goes on renewing the lock while the front is stopped by ^Z. If the front is
// killed, the keeper ends the command and releases the lock.
//
// `redlatch elect` works in the same way, with one keeper per term.
namespace redlatch::cli {
namespace {

// ---- The command that is run.

int CheckExecutable(const std::string& path) {
  struct stat what = {};
  if (stat(path.c_str(), &what) != 0) return kNotFound;
  return S_ISREG(what.st_mode) && access(path.c_str(), X_OK) == 0 ? 0 : kNotExecutable;
}

// False in a PID namespace that sees the /proc of another one: its process IDs are not ours.
bool NumbersAreOurs() {
  std::array<char, 32> self = {};
  return readlink("/proc/self", self.data(), self.size() - 1) > 0 &&
         std::atoi(self.data()) == getpid();
}

std::unordered_map<pid_t, Process> AllProcesses() {
  std::unordered_map<pid_t, Process> all;
  if (!NumbersAreOurs()) return all;
  DIR* const directory = opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (const std::optional<Process> process = ReadProcess(pid)) all.emplace(pid, *process);
  }
  closedir(directory);
  return all;
}

// Searches the command as a shell does. Returns 0 if it can be executed, else kNotFound or
// kNotExecutable.
int FindCommand(const std::string& command) {
  if (command.find('/') != std::string::npos) return CheckExecutable(command);
  const char* const variable = std::getenv("PATH");
  int found = kNotFound;
  for (const absl::string_view directory :
       absl::StrSplit(variable != nullptr ? variable : "/bin:/usr/bin", ':')) {
    const int here =
        CheckExecutable(absl::StrCat(directory.empty() ? "." : directory, "/", command));
    if (here == 0 && !command.empty()) return 0;
    if (here == kNotExecutable && !command.empty()) found = here;
  }
  return found;
}

// The living processes of a command: the command itself, its descendants, and orphans among them,
// which the kernel hands to the calling process if that is a subreaper. It does not go by process
// groups, since shells and daemons make their own. An orphan in a session of its own is a daemon,
// and does not belong to the command any more.
//
// `keeper` is a child of the caller that does not belong to the command, but may be its parent; 0:
// none. Orphans that have ended are reaped; the command itself is not.
std::vector<pid_t> Family(pid_t command, pid_t keeper) {
  const pid_t self = getpid();
  const pid_t session = getsid(0);
  const auto all = AllProcesses();
  // The parent of a container's first process is 0, and so is `keeper` if there is none.
  const auto adopts = [&](pid_t pid) { return pid == self || (keeper > 0 && pid == keeper); };

  std::vector<pid_t> family;
  for (const auto& [pid, process] : all) {
    if (adopts(pid)) continue;
    // Goes up to the ancestor that is a child of this process or of the keeper. Since pids are
    // reused, the parents could form a circle, so the number of steps is limited.
    pid_t top = pid;
    const Process* at = &process;
    size_t steps = 0;
    while (!adopts(at->parent) && steps++ < all.size()) {
      const auto parent = all.find(at->parent);
      if (parent == all.end()) break;
      top = parent->first;
      at = &parent->second;
    }
    if (!adopts(at->parent) || (top != command && at->session != session)) continue;
    if (!process.ended()) {
      family.push_back(pid);
    } else if (process.parent == self && pid != command) {
      waitpid(pid, nullptr, WNOHANG);
    }
  }
  return family;
}

// The ancestors of this process, its parent first.
std::vector<pid_t> Ancestors() {
  std::vector<pid_t> ancestors;
  if (!NumbersAreOurs()) return ancestors;
  for (pid_t pid = getppid(); pid > 1;) {
    ancestors.push_back(pid);
    const std::optional<Process> process = ReadProcess(pid);
    pid = process ? process->parent : 0;
  }
  return ancestors;
}

// A child process that becomes the command when Start() is called. It is forked before there are
// threads or connections, so that it inherits none.
class Job {
 public:
  // `mask`: the signals that are blocked in the command. `own_group`: the command gets its own
  // process group.
  Job(const std::vector<std::string>& command, const sigset_t& mask, bool own_group)
      : own_group_(own_group) {
    std::array<int, 2> go = {-1, -1};
    std::array<int, 2> failure = {-1, -1};
    if (pipe2(go.data(), O_CLOEXEC) != 0) return;
    base::UniqueFd childs_go(go[0]);
    go_ = base::UniqueFd(go[1]);
    if (pipe2(failure.data(), O_CLOEXEC) != 0) return;
    failure_ = base::UniqueFd(failure[0]);
    base::UniqueFd childs_failure(failure[1]);
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ != 0) return;
    // The child dies with its parent, however the parent dies. The kernel watches the thread that
    // called fork(); that is the parent's first thread, which ends last. A set-user-ID program
    // clears this setting.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kFailure);
    Become(command, mask, childs_go.get(), childs_failure.get());
  }
  ~Job() {  // ends and reaps the child if it was not started
    const bool unstarted = go_.valid();
    go_.Reset();
    if (unstarted && pid_ > 0) {
      base::Uninterrupted([this] { return waitpid(pid_, nullptr, 0); });
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // -1 if it could not be forked.
  pid_t pid() const { return pid_; }
  // The descriptors that must stay open until Start() has returned.
  std::array<int, 2> descriptors() const { return {go_.get(), failure_.get()}; }

  // Sets ("NAME=value") or removes ("NAME") variables of the environment, and executes the command.
  // Returns 0, or the errno if the command can't be executed.
  int Start(const std::vector<std::string>& environment) {
    std::string told;
    for (const std::string& variable : environment) told.append(variable).push_back('\0');
    const ssize_t put =
        base::Uninterrupted([&] { return write(go_.get(), told.data(), told.size()); });
    go_.Reset();
    int error = ECHILD;  // the child was killed
    if (put == std::ssize(told) && Read(failure_.get(), &error, sizeof error) != sizeof error) {
      error = 0;
    }
    failure_.Reset();
    if (error != 0) waitpid(pid_, nullptr, 0);
    return error;
  }

  // The command's exit code as a shell reports it, once the command has ended. Reaps it.
  std::optional<int> Ended() {
    int status = 0;
    if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
      code_ = WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return code_;
  }

  // Sends the signal to the command alone, unless it has ended.
  void Signal(int signal) const {
    if (!code_) kill(pid_, signal);
  }
  // Sends the signal to the command and all processes that it has started.
  void SignalFamily(int signal) const {
    Signal(signal);  // works without /proc
    // A signal to the group also reaches processes that were forked after /proc was read.
    if (signal == SIGKILL && own_group_ && !code_) kill(-pid_, SIGKILL);
    for (const pid_t pid : Family(code_ ? 0 : pid_, 0)) {
      if (code_ || pid != pid_) kill(pid, signal);
    }
  }
  // True if the command, or a process that it has started, is alive.
  bool Lives() const {
    if (!code_) return true;
    // Usually there is no child at all, which one system call shows.
    siginfo_t ignored = {};
    const int any = waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT);
    return (any == 0 || errno != ECHILD) && !Family(0, 0).empty();
  }

 private:
  static ssize_t Read(int from, void* bytes, size_t size) {
    return base::Uninterrupted([=] { return read(from, bytes, size); });
  }

  [[noreturn]] void Become(const std::vector<std::string>& command, const sigset_t& mask, int go,
                           int failure) const {
    close(go_.get());
    close(failure_.get());
    if (own_group_) setpgid(0, 0);
    std::string told;
    std::array<char, 1024> bytes = {};
    for (ssize_t got = 0; (got = Read(go, bytes.data(), bytes.size())) > 0;) {
      told.append(bytes.data(), static_cast<size_t>(got));
    }
    if (told.empty()) _exit(0);  // Start() was never called
    for (const absl::string_view variable : absl::StrSplit(told, '\0', absl::SkipEmpty())) {
      const std::vector<std::string> parts = absl::StrSplit(variable, absl::MaxSplits('=', 1));
      unsetenv(parts[0].c_str());
      if (parts.size() > 1) setenv(parts[0].c_str(), parts[1].c_str(), /*overwrite=*/1);
    }
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    execvp(argv[0], argv.data());
    const int error = errno;
    (void)!write(failure, &error, sizeof error);
    _exit(kNotExecutable);
  }

  const bool own_group_;
  base::UniqueFd go_;       // the child reads its environment from it
  base::UniqueFd failure_;  // the child writes the errno of a failed exec to it; success closes it
  pid_t pid_ = -1;
  std::optional<int> code_;
};

// ---- The lock.

enum class RunKind : uint8_t {
  kPlain,     // a SimpleLock
  kShared,    // the read side of a ReentrantReadWriteLock
  kWrite,     // the write side of a ReentrantReadWriteLock
  kPermits,   // permits of a Semaphore
  kQuorum,    // a RedLock, since the URL names a quorum of servers
  kElection,  // an Election: `redlatch elect`
};

struct RunOptions {
  std::string name;
  std::vector<std::string> command;
  RunKind kind = RunKind::kPlain;
  int64_t permits = 1;
  int64_t capacity = 0;
  absl::Duration wait = absl::InfiniteDuration();
  absl::Duration lease = absl::Seconds(30);
  absl::Duration at_least = absl::ZeroDuration();
  absl::Duration at_most = absl::InfiniteDuration();
  absl::Duration stop_margin = absl::ZeroDuration();
  absl::Duration once_per = absl::ZeroDuration();  // zero: any number of runs
  // The time from SIGTERM to SIGKILL.
  absl::Duration grace = absl::Seconds(10);
  bool kill_on_lost = true;
  int busy_code = kBusy;
  std::string value;   // of the leader
  bool json = false;   // report events on stderr
  bool once = false;   // do not campaign again after the command has ended by itself
  std::string server;  // a URL
};

constexpr absl::Duration kShortestLease = absl::Milliseconds(100);
constexpr absl::Duration kLongestGrace = absl::Seconds(10);  // of the default
constexpr absl::Duration kShortestPeriod = absl::Milliseconds(100);
constexpr absl::Duration kLongestTaken = absl::Hours(24 * 365);
// The defaults of --once-per: a lease, and how much longer than that a try waits. If a process is
// killed before it starts its command, another one takes its place when the lease ends.
constexpr absl::Duration kLeaseOncePer = absl::Seconds(10);
constexpr absl::Duration kLongerWait = absl::Seconds(2);

// A wrong use of options, and how to fix it.
struct Rule {
  bool broken;
  std::string what;
  std::string fix;
};
absl::Status Check(const std::vector<Rule>& rules) {
  const auto broken = std::ranges::find(rules, true, &Rule::broken);
  return broken == rules.end() ? absl::OkStatus() : WrongUsage(broken->what, broken->fix);
}

// Sets the durations that depend on others, and checks all of them.
absl::Status CompleteTimes(const CommandLine& line, RunOptions& options) {
  const bool once_per = line.given("--once-per");
  if (once_per && !line.given("--lease")) options.lease = kLeaseOncePer;
  if (!line.given("--lease")) options.lease = std::min(options.lease, options.at_most);
  if (once_per && !line.given("--wait")) options.wait = options.lease + kLongerWait;
  const absl::Duration usable = options.lease - options.stop_margin;
  if (!line.given("--grace")) options.grace = std::min(usable / 3, kLongestGrace);
  return Check({
      {once_per && options.once_per < kShortestPeriod, "--once-per is too short",
       "say 100ms or more"},
      {std::max(options.once_per, options.at_least) > kLongestTaken,
       absl::StrCat(once_per ? "--once-per" : "--at-least", " is too long"),
       "say at most one year, 8760h"},
      {options.lease < kShortestLease || options.lease > absl::Hours(24), "--lease is out of range",
       "say 100ms to 24h"},
      {options.at_most < options.lease, "--at-most is shorter than the lease",
       "say a shorter --lease"},
      {options.stop_margin > options.lease / 2, "--stop-margin is more than half of the lease",
       absl::StrCat("say at most ", absl::FormatDuration(options.lease / 2),
                    ", or a longer --lease")},
      {options.grace > usable / 2, "--grace is more than half of the lease",
       absl::StrCat("the command must be gone before the lease ends, so say at most ",
                    absl::FormatDuration(usable / 2), ", or a longer --lease")},
  });
}

// Sets the values that depend on several options, and refuses options that contradict each other or
// that the kind of lock does not have.
absl::Status Complete(const CommandLine& line, RunOptions& options) {
  const bool shared = line.given("--shared");
  const bool write = line.given("--write");
  const bool permits = line.given("--permits") || line.given("--capacity");
  if (permits) options.kind = RunKind::kPermits;
  if (shared) options.kind = RunKind::kShared;
  if (write) options.kind = RunKind::kWrite;
  std::vector<Rule> rules = {
      {shared && write, "--shared and --write exclude each other", "say one"},
      {permits && (shared || write),
       "--shared and --write are for a read-write lock, --permits and --capacity for a semaphore",
       "a name can only be one of them"},
      {permits && !line.given("--capacity"), "--permits needs --capacity",
       "say how many permits there are in all, as in --permits 1 --capacity 4"},
      {permits && options.permits > options.capacity, "--permits is more than --capacity",
       "that many can never be free"}};
  // If the URL is wrong, the attempt to connect says why.
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options.server);
  if (url.ok() && url->kind == redis::Url::Kind::kQuorum) {
    const std::string fix =
        absl::StrCat("name one server for it, as in --server ", url->members.front().DebugString());
    rules.push_back(
        {options.kind == RunKind::kElection, "a quorum of servers holds no elections", fix});
    for (const char* const option : {"--shared", "--write", "--permits", "--capacity"}) {
      rules.push_back(
          {line.given(option),
           absl::StrCat(option, " is not for a quorum of servers, which has plain locks only"),
           fix});
    }
    options.kind = RunKind::kQuorum;
  }
  const bool plain = options.kind != RunKind::kPermits && options.kind != RunKind::kQuorum;
  for (const std::string option : {"--at-least", "--at-most", "--stop-margin", "--once-per"}) {
    const bool stays_taken = option == "--at-least" || option == "--once-per";
    rules.push_back(
        {line.given(option) && (!plain || (options.kind == RunKind::kShared && stays_taken)),
         absl::StrCat(option, " is not for permits, a quorum of servers",
                      stays_taken ? " or readers" : ""),
         "leave it out, or use a plain lock"});
  }
  rules.push_back({line.given("--at-least") && line.given("--once-per"),
                   "--at-least and --once-per exclude each other", "say one"});
  if (absl::Status bad = Check(rules); !bad.ok()) return bad;
  return CompleteTimes(line, options);
}

// Parses the command line of `redlatch run` or `redlatch elect`. The caller has declared the
// options that only its command has.
std::optional<int> ParseCommandLine(const std::string& usage, const std::vector<std::string>& words,
                                    CommandLine& line, RunOptions* options) {
  line.Time("--lease", &options->lease);
  line.Time("--grace", &options->grace);
  line.Time("--stop-margin", &options->stop_margin);
  line.Flag("--json", &options->json);
  line.Operands(1, absl::StrCat("put -- before the command: ", usage));
  line.NeedsName(options->kind == RunKind::kElection ? "election" : "lock", "say " + usage);
  line.CommandFollows();
  if (const std::optional<int> over = line.Parse(words)) return over;
  if (line.following().empty()) {
    return Refuse(WrongUsage("the command is missing", "say " + usage));
  }
  options->name = line.operands()[0];
  options->command = line.following();
  options->server = line.server();
  if (options->json) ReportInJson(options->name);
  const absl::Status complete = Complete(line, *options);
  return complete.ok() ? std::nullopt : std::optional(Refuse(complete));
}

struct RunHold {
  absl::Duration remaining() const {
    return std::visit([](const auto& each) { return each.remaining(); }, held);
  }
  std::stop_token lost() const {
    return std::visit([](const auto& each) { return each.lost(); }, held);
  }

  std::variant<Lease, Permit> held;
  std::string server;                           // its URL, without user and password
  absl::Duration ahead = absl::ZeroDuration();  // how far a token is ahead of the server's clock
};

// "1.5s": whole milliseconds.
std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

constexpr std::string_view kBusyEvent = "busy";
constexpr std::string_view kLostEvent = "lost";

constexpr std::chrono::milliseconds kFirst(500);
constexpr std::chrono::milliseconds kEvery(1000);

// Returns false if it was stopped.
bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

// After half a second it shows, in a line on the terminal, which process has the lock and how many
// waiters are ahead. It updates that line, and removes it when the object is destroyed. It shows
// nothing if stderr is no terminal, or if another job owns the terminal. With or without a
// terminal, it warns if the lock is held by a process that has started this one.
class WaitReport {
 public:
  using Inspect = std::function<absl::StatusOr<LockInfo>()>;
  // `what`: `lock "x"`. The object calls `inspect` on its own thread, which ends with it.
  WaitReport(const RunOptions& options, const std::string& what, Inspect inspect)
      : permits_(options.permits),
        what_(what),
        nested_(std::getenv("REDLATCH_LOCK") != nullptr),
        self_(internal::ThisProcess("")),
        line_(
            getpgid(getppid())) {  // the front's group: the user's shell does not see the keeper's
    if (options.wait <= absl::ZeroDuration() || (!nested_ && !has_line())) return;
    thread_ = std::jthread(
        [this, inspect = std::move(inspect)](const std::stop_token& stop) { Run(stop, inspect); });
  }

 private:
  bool has_line() const { return line_.has_terminal() && !ReportsInJson(); }

  void Run(const std::stop_token& stop, const Inspect& inspect) {
    const base::Instant begun = base::Now();
    bool warned = !nested_;
    for (auto pause = kFirst; Sleep(stop, pause); pause = kEvery) {
      const absl::StatusOr<LockInfo> info = inspect();
      if (stop.stop_requested()) return;
      if (info.ok() && !std::exchange(warned, true)) WarnOfNesting(*info);
      if (!has_line()) return;
      const absl::Duration waited = absl::Floor(base::Now() - begun, absl::Seconds(1));
      std::string text =
          absl::StrCat("redlatch: waiting for ", what_, " (",
                       waited < absl::Minutes(1) ? ShortTime(waited) : Brief(waited), ")");
      if (info.ok()) {
        const std::string holders = HoldersText(*info);
        absl::StrAppend(&text, holders.empty() ? "" : ", ", holders, "; ", PlaceText(*info, self_));
      }
      line_.Show(text);
    }
  }

  void WarnOfNesting(const LockInfo& info) {
    const LockInfo::Party* const above = HeldAbove(info, self_.host, Ancestors(), permits_);
    if (above == nullptr) return;
    line_.Clear();
    Complain(
        {"warning: ", what_, " is held by ", InProse(above->process, above->hold),
         absl::StrCat(", under which this command runs: it waits for itself; give the inner lock "
                      "another name, or take the lock only once")});
  }

  const int64_t permits_;
  const std::string what_;
  const bool nested_;  // within another redlatch run
  const LockInfo::Process self_;
  TerminalLine line_;
  std::jthread thread_;
};

// If the semaphore has another capacity, the error says what to do on the command line.
absl::Status Explain(const absl::Status& why, const Semaphore& semaphore,
                     const RunOptions& options) {
  if (!absl::IsFailedPrecondition(why)) return why;
  const absl::StatusOr<LockInfo> info = semaphore.Inspect();
  if (!info.ok() || info->capacity == 0 || info->capacity == options.capacity) return why;
  const std::string name = Printable(options.name);
  return absl::FailedPreconditionError(
      absl::StrCat("semaphore \"", name, "\" has ", Counted(info->capacity, "permit"),
                   " in all, not ", options.capacity, "; say --capacity ", info->capacity,
                   ", or change it for everyone: redlatch capacity ", name, " ", options.capacity));
}

// If another kind of lock has the name, the error says which, and what to do on the command line.
absl::Status ExplainKind(const absl::Status& why, const RunOptions& options) {
  const absl::StatusOr<LockRow> row = FindRow(options.server, options.name);
  if (!row.ok()) return why;
  const auto [found, fix] = [&row]() -> std::pair<std::string, std::string> {
    if (row->is_semaphore()) {
      return {absl::StrCat("a semaphore of ", Counted(row->capacity, "permit")),
              absl::StrCat("to take a permit, say --permits 1 --capacity ", row->capacity)};
    }
    if (row->is_read_write()) return {"a read-write lock", "say --shared or --write"};
    if (row->is_election()) return {"an election", "redlatch elect campaigns in it"};
    if (row->is_latch()) return {"a latch", ""};
    if (row->kind == internal::kinds::kSimple || row->is_quorum()) {
      return {"a plain lock", "leave out --shared, --write, --permits and --capacity"};
    }
    if (row->is_known()) return {absl::StrCat("a ", row->kind, " lock"), ""};
    if (row->is_redissons()) return {"a " + KindInWords(*row), ""};
    if (row->kind.empty()) return {absl::StrCat("another program's key, a ", row->type), ""};
    return {absl::StrCat("a lock of a program's own kind, \"", Printable(row->kind), "\""), ""};
  }();
  const char* const wanted = options.kind == RunKind::kPermits    ? "a semaphore"
                             : options.kind == RunKind::kElection ? "an election"
                             : options.kind == RunKind::kPlain || options.kind == RunKind::kQuorum
                                 ? "a plain lock"
                                 : "a read-write lock";
  const bool fixes = !fix.empty() && options.kind != RunKind::kElection;
  return absl::FailedPreconditionError(absl::StrCat(
      "the name \"", Printable(options.name), "\" is in use for ", found, ", and not for ", wanted,
      "; ", fixes ? fix + ", or " : "", "choose another name"));
}

// Connects and acquires on its own thread, and reports on a terminal while it waits.
class RunAttempt {
 public:
  // `what`: `lock "x"`, for messages. `ended` is called on that thread at the end.
  RunAttempt(const RunOptions& options, std::shared_ptr<Observer> observer, std::string what,
             std::function<void()> ended)
      : options_(options), observer_(std::move(observer)), what_(std::move(what)) {
    thread_ = std::jthread([this, ended = std::move(ended)] {
      result_ = Acquire();
      done_ = true;
      ended();
    });
  }

  bool done() const { return done_; }

  // Ends the wait because of a signal. If the attempt is still connecting, it ends this process:
  // there is nothing to cancel at the server.
  void CallOff(int signal) {
    called_off_ = signal;
    Phase connecting = Phase::kConnecting;
    if (phase_.compare_exchange_strong(connecting, Phase::kCalledOff)) _exit(kSignalled + signal);
    stop_.request_stop();
  }

  // REQUIRES: done(). Sets `hold` if the lock was acquired. Returns an exit code if it was not,
  // which it explains on stderr, or if the caller must release it at once because of CallOff().
  std::optional<int> Take(std::optional<RunHold>* hold) {
    thread_.join();
    if (result_.ok()) hold->emplace(*std::move(result_));
    if (called_off_ != 0) return kSignalled + called_off_;
    return hold->has_value() ? std::nullopt : std::optional(ExplainRefusal());
  }

 private:
  enum class Phase : uint8_t { kConnecting, kAcquiring, kCalledOff };

  absl::StatusOr<RunHold> Acquire() {
    const std::string& command = options_.command[0];
    ClientOptions how = {
        .program = absl::StrCat(
            options_.kind == RunKind::kElection ? "redlatch elect: " : "redlatch run: ",
            command.substr(command.find_last_of('/') + 1)),
        .observer = observer_,
        .on_warning = [](std::string_view warning) {
          Complain({"warning: ", warning});
        }};
    const base::Instant end = base::Now() + options_.wait;
    absl::StatusOr<Client> client = Client::Connect(options_.server, how);
    // If the server is unavailable now, as in a failover, the client tries until --wait is over.
    if (absl::IsUnavailable(client.status()) && !end.is_infinite() && base::Now() < end) {
      how.connect = ConnectPolicy::kLazy;
      client = Client::Connect(options_.server, how);
    }
    if (!client.ok()) return client.status();
    Phase connecting = Phase::kConnecting;
    if (!phase_.compare_exchange_strong(connecting, Phase::kAcquiring)) {
      for (;;) pause();  // the process is ending
    }
    const absl::Duration left = end.is_infinite() ? options_.wait : base::Until(end);
    absl::StatusOr<RunHold> hold = TakeFor(*client, left);
    if (hold.ok() || !absl::IsUnavailable(hold.status())) return hold;
    // The library returns when `left` is over. With a short wait, a server that is slow or far away
    // would never grant a lock, so it gets at least command_timeout. (Without a wait, the library
    // itself gives it that time.)
    if (left <= absl::ZeroDuration()) return hold;
    const absl::StatusOr<redis::Url> url = redis::ParseUrl(options_.server);
    if (!url.ok() || url->command_timeout <= left) return hold;
    return TakeFor(*client, url->command_timeout);
  }

  absl::StatusOr<RunHold> TakeFor(const Client& client, absl::Duration wait) {
    const AcquireOptions how = {.wait = wait,
                                .whole_lease = true,
                                .at_least = options_.at_least,
                                .stop = stop_.get_token()};
    const LockOptions of_lock{
        .lease = options_.lease, .stop_margin = options_.stop_margin, .at_most = options_.at_most};
    // The RunHold outlives the lock objects made here.
    if (options_.kind == RunKind::kPermits) {
      Semaphore semaphore(client, options_.name, options_.capacity, {.lease = options_.lease});
      absl::StatusOr<RunHold> hold =
          TakeBy(client, semaphore, [&] { return semaphore.Acquire(options_.permits, how); });
      if (!hold.ok()) return Explain(hold.status(), semaphore, options_);
      return hold;
    }
    if (options_.kind == RunKind::kQuorum) {
      RedLock lock(client, options_.name, {.lease = options_.lease});
      return TakeBy(client, lock, [&] { return lock.Acquire(how); });
    }
    if (options_.kind == RunKind::kElection) {
      Election election(client, options_.name, of_lock);
      return TakeBy(client, election, [&]() -> absl::StatusOr<Lease> {
        return election.Campaign(options_.value, how);
      });
    }
    if (options_.kind == RunKind::kPlain) {
      SimpleLock lock(client, options_.name, of_lock);
      return TakeBy(client, lock, [&] { return lock.Acquire(how); });
    }
    ReentrantReadWriteLock lock(client, options_.name, of_lock);
    return TakeBy(client, lock, [&] {
      return options_.kind == RunKind::kShared ? lock.AcquireRead(how) : lock.AcquireWrite(how);
    });
  }

  // Acquires while a WaitReport informs the user.
  template <class Lock, class Call>
  absl::StatusOr<RunHold> TakeBy(const Client& client, Lock& lock, const Call& acquire) {
    const auto inspect = [&lock] { return lock.Inspect(); };
    auto held = [&] {
      const WaitReport report(options_, what_, inspect);
      return acquire();
    }();
    absl::StatusOr<LockInfo> info = LockInfo();
    const bool periodic = held.ok() && options_.once_per > absl::ZeroDuration();
    if (periodic || IsBusy(held.status())) info = inspect();
    if (IsBusy(held.status()) && info.ok()) holders_ = HoldersText(*info);
    if (!held.ok()) return held.status();
    if (!info.ok()) return info.status();
    RunHold hold = {.held = *std::move(held), .server = client.server()};
    if (!info->holders.empty() && info->holders[0].since != absl::InfinitePast()) {
      const auto token = static_cast<int64_t>(std::get<Lease>(hold.held).fencing_token().value());
      hold.ahead = absl::FromUnixMicros(token) - info->holders[0].since;
    }
    return hold;
  }

  int ExplainRefusal() const {
    if (absl::StrContains(result_.status().message(), "WRONGTYPE")) {
      return Refuse(ExplainKind(result_.status(), options_));
    }
    if (!IsBusy(result_.status())) return Refuse(result_.status());
    // With --busy-code 0 it is no failure, so cron must not send mail about any output.
    if (options_.busy_code == 0 && !options_.json) return 0;
    if (options_.once_per > absl::ZeroDuration()) {
      return Complain(
          options_.busy_code,
          {what_, ": the command has been run in this period, or still runs, here or elsewhere"},
          kBusyEvent);
    }
    const bool waited = options_.wait > absl::ZeroDuration();
    return Complain(
        options_.busy_code,
        {what_, waited ? " was busy for " : " is busy",
         waited ? Rounded(options_.wait) : std::string(), holders_.empty() ? "" : ": ", holders_},
        kBusyEvent);
  }

  const RunOptions& options_;
  const std::shared_ptr<Observer> observer_;
  const std::string what_;
  std::string holders_;  // "held by ...", if the lock is busy; empty: unknown
  absl::StatusOr<RunHold> result_ = absl::UnknownError("");
  std::stop_source stop_;
  base::Atomic<Phase> phase_ = Phase::kConnecting;
  base::Atomic<bool> done_ = false;
  int called_off_ = 0;  // the signal of CallOff()
  std::jthread thread_;
};

// ---- The two processes.

// A descriptor that becomes readable at a given moment.
class Alarm {
 public:
  int fd() const { return fd_.get(); }
  void Set(base::Instant at) const {
    const int64_t some = at.is_infinite() ? 0 : std::max<int64_t>(at.nanos(), 1);  // 0: never
    const itimerspec when = {
        .it_interval = {},
        .it_value = {.tv_sec = some / 1'000'000'000, .tv_nsec = some % 1'000'000'000}};
    timerfd_settime(fd(), TFD_TIMER_ABSTIME, &when, nullptr);
  }

 private:
  const base::UniqueFd fd_{timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)};
};

constexpr pid_t kReaped = -1;  // another process may have its number by now

// Shared memory of both processes.
struct Watch {
  // When the command must be gone: the lease's end as this client counts it, which is before the
  // server gives the lock to another. Renewals move it.
  base::Atomic<base::Instant> deadline{base::Instant::Infinite()};
  base::Atomic<pid_t> command{0};   // 0: not started; or kReaped
  base::Atomic<bool> ended{false};  // the command has ended, and the lock was not lost before
};
static_assert(base::Atomic<base::Instant>::is_always_lock_free);

// A message from the front to the keeper.
struct Forwarded {
  int32_t signal = 0;
  bool command_has_it = false;  // the terminal has sent the signal to the command, too
};

class Notices : public Observer {
 public:
  Notices() { event_.Open(); }

  int fd() const { return event_.fd(); }  // readable after Wake(); -1 if it could not be made
  void Wake() const { event_.Signal(); }
  void Clear() { event_.Drain(); }

  // The stop token fires a moment before OnLost() tells the reason.
  bool loss_told() const { return loss_told_; }

  // Why the lock was lost or is about to be lost, as far as it is known.
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.empty() ? "the server did not answer, or this process was not running" : why_;
  }

 private:
  void OnRenewed(std::string_view, FencingToken) override { Wake(); }
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status& why) override {
    Set(std::string(why.message()));
  }
  void OnRecovered(std::string_view, FencingToken) override { Set({}); }
  void OnLost(const LostLease& lost) override {
    Set(lost.reason);
    loss_told_ = true;
    Wake();
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // the keeper says so
  void OnMisuse(std::string_view, std::string_view) override {}

  void Set(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = std::move(why);
    }
    Wake();
  }

  base::WakeEvent event_;
  base::Atomic<bool> loss_told_ = false;
  mutable std::mutex mutex_;
  std::string why_;
};

// SIGKILL is sent that long before the end of the lease, so that it is in time on a slow machine: a
// twentieth of the lease, but at most this. This client counts the lease; the server's count ends
// later still.
constexpr absl::Duration kKillEarly = absl::Milliseconds(500);
// How often SIGKILL is repeated for processes that survived it, or were forked just then. The pause
// doubles from the first value to the last.
constexpr absl::Duration kFirstRepeat = absl::Milliseconds(10);
constexpr absl::Duration kLastRepeat = absl::Seconds(1);
constexpr absl::Duration kReasonTimeout = absl::Milliseconds(200);
// If a lost hold's deadline is this close to the end of --at-most, that option is the reason.
constexpr absl::Duration kAboutOver = absl::Milliseconds(100);
constexpr std::string_view kIsLost = " is lost (";

int Unable() {
  return Complain(kFailure,
                  {"cannot create a process or a file descriptor: ", std::strerror(errno)});
}

bool Ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

class Keeper {
 public:
  // `link`: the socket to the front. The keeper receives Forwarded, and sends one byte when `watch`
  // is set.
  Keeper(const RunOptions& options, int link, Watch& watch, Job& job)
      : options_(options),
        early_(std::min(options_.lease / 20, kKillEarly)),
        link_(link),
        watch_(watch),
        what_(absl::StrCat(options_.kind == RunKind::kPermits    ? "semaphore \""
                           : options_.kind == RunKind::kElection ? "the leadership of \""
                                                                 : "lock \"",
                           Printable(options_.name), "\"")),
        job_(job) {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    children_ = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  int Run() {
    if (job_.pid() < 0 || children_ < 0 || alarm_.fd() < 0 || notices_->fd() < 0) return Unable();
    if (const std::optional<int> failed = Acquire()) return *failed;
    if (const std::optional<int> failed = Start()) return *failed;
    while (!HandleDue()) Await();
    return Finish();
  }

 private:
  // Waits for an event or the alarm.
  void Await() {
    std::array<pollfd, 4> events = {{{.fd = notices_->fd(), .events = POLLIN, .revents = 0},
                                     {.fd = children_, .events = POLLIN, .revents = 0},
                                     {.fd = alarm_.fd(), .events = POLLIN, .revents = 0},
                                     {.fd = link_, .events = POLLIN, .revents = 0}}};
    if (poll(events.data(), events.size(), -1) <= 0) return;
    notices_->Clear();
    signalfd_siginfo child = {};
    while (read(children_, &child, sizeof child) > 0) {
    }
    if (events[3].revents != 0) ReadFromFront();
  }

  void ReadFromFront() {
    Forwarded forwarded;
    const ssize_t got = recv(link_, &forwarded, sizeof forwarded, MSG_DONTWAIT);
    if (got == sizeof forwarded) {
      Take(forwarded);
    } else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      link_ = -1;  // poll() ignores it
      if (!hold_) {
        attempt_->CallOff(SIGKILL);
      } else {
        Complain({"redlatch was killed; ending its command"});
        End(options_.grace);
      }
    }
  }

  void Take(const Forwarded& forwarded) {
    if (!hold_) {
      if (Ends(forwarded.signal)) attempt_->CallOff(forwarded.signal);
      return;
    }
    if (!forwarded.command_has_it) job_.Signal(forwarded.signal);
    // If the command has ended already, the processes that it left end now.
    if (Ends(forwarded.signal) && code_) End(options_.grace);
  }

  std::optional<int> Acquire() {
    attempt_.emplace(options_, notices_, what_, [this] { notices_->Wake(); });
    while (!attempt_->done()) Await();
    const std::optional<int> failed = attempt_->Take(&hold_);
    if (failed && hold_) (void)Release();
    return failed;
  }

  // The lock stays taken until the end of the period in which the server granted it. Returns an
  // exit code if the command must not be started.
  std::optional<int> StayTakenForPeriod() {
    held_since_ = base::Now();
    const int64_t period = absl::ToInt64Microseconds(options_.once_per);
    if (period == 0) return std::nullopt;
    auto& lease = std::get<Lease>(hold_->held);
    const auto granted = static_cast<int64_t>(lease.fencing_token().value());
    const absl::Status stays =
        lease.StayTaken(absl::Microseconds(period - granted % period) + hold_->ahead);
    if (stays.ok()) return std::nullopt;
    (void)Release();
    return Refuse(stays);
  }

  std::optional<int> Start() {
    if (const std::optional<int> failed = StayTakenForPeriod()) return failed;
    told_.emplace(hold_->lost(), [this] { notices_->Wake(); });
    std::vector<std::string> environment = {"REDLATCH_LOCK=" + options_.name,
                                            "REDLATCH_SERVER=" + hold_->server, "REDLATCH_TOKEN"};
    if (const Lease* const lease = std::get_if<Lease>(&hold_->held)) {
      environment.back() = absl::StrCat("REDLATCH_TOKEN=", lease->fencing_token().value());
    }
    watch_.command = job_.pid();
    Publish(hold_->remaining());
    Report("acquired", [this](JsonObject& json) {
      if (const Lease* const lease = std::get_if<Lease>(&hold_->held)) {
        json.Number("token", static_cast<int64_t>(lease->fencing_token().value()));
      }
      json.Text("server", hold_->server);
      json.Millis("waited_ms", held_since_ - began_);
    });
    const char armed = 1;
    (void)!send(link_, &armed, sizeof armed, MSG_DONTWAIT | MSG_NOSIGNAL);
    const int error = job_.Start(environment);
    if (error == 0) return std::nullopt;
    watch_.deadline = base::Instant::Infinite();
    (void)Release();
    Complain({Printable(options_.command[0]), " cannot be executed: ", std::strerror(error)});
    return error == ENOENT ? kNotFound : kNotExecutable;
  }

  void Publish(absl::Duration remaining) {
    if (options_.kill_on_lost) watch_.deadline = base::Now() + remaining;
  }

  // Does everything that is due now. Returns true when the command and all its processes are gone.
  bool HandleDue() {
    if (!code_) {
      code_ = job_.Ended();
      if (code_) watch_.command = kReaped;
      if (code_ && !ending_) kill_or_term_at_ = base::Now() + options_.grace;
    }
    if (code_ && !job_.Lives()) return true;
    CheckHold();
    if (notices_->loss_told()) TellOfLoss(kIsLost);
    if (ending_ && kill_or_term_at_ <= base::Now()) {
      job_.SignalFamily(SIGKILL);
      kill_or_term_at_ = base::Now() + repeat_;
      if (repeat_ < kLastRepeat && kLastRepeat <= 2 * repeat_) {
        Complain(
            {"the command survives SIGKILL; look for processes of another user, or in state D"});
      }
      repeat_ = std::min(2 * repeat_, kLastRepeat);
    } else if (!ending_ && code_ && kill_or_term_at_ <= base::Now()) {
      Complain(
          {"the command has exited and left processes running; ending them in order to release ",
           what_, " (use setsid(1) for a daemon that may go on without the lock)"});
      End(options_.grace);
    }
    base::Instant next = kill_or_term_at_;
    if (!lost_ && options_.kill_on_lost) {
      next = std::min(next, base::Now() + (hold_->remaining() - options_.grace - early_));
    }
    alarm_.Set(next);
    return false;
  }

  void CheckHold() {
    if (lost_) return;
    const bool lost = hold_->lost().stop_requested();
    const absl::Duration remaining = hold_->remaining();
    if (!lost) Publish(remaining);
    if (!options_.kill_on_lost) {
      if (!lost) return;
      lost_ = true;
      untold_ = "the command goes on without it, because of --on-lost=warn";
      return;
    }
    if (!lost && remaining > options_.grace + early_) return;
    lost_ = true;
    // The grace never goes beyond the lease as it was last known, also after a forced release.
    const absl::Duration left = watch_.deadline.load() - base::Now();
    const absl::Duration grace = std::clamp(left - early_, absl::ZeroDuration(), options_.grace);
    untold_ = absl::StrCat("SIGTERM to the command now, SIGKILL in ", Rounded(grace));
    const base::Instant ends = held_since_ + options_.at_most - kAboutOver;
    const bool over = !ends.is_infinite() && ends <= base::Now() + remaining;
    if (!lost)
      TellOfLoss(" is about to be lost (",
                 over ? "the time of --at-most is over" : notices_->why());
    End(grace);
  }

  // Waits a moment for the reason of the loss, if the command ended before it was known.
  void AwaitReason() const {
    const base::Instant until = base::Now() + kReasonTimeout;
    while (!untold_.empty() && !notices_->loss_told() && base::Now() < until) {
      pollfd told = {.fd = notices_->fd(), .events = POLLIN, .revents = 0};
      base::Poll(&told, 1, until);
      notices_->Clear();
    }
  }

  void TellOfLoss(std::string_view how) { TellOfLoss(how, notices_->why()); }
  void TellOfLoss(std::string_view how, const std::string& why) {
    if (untold_.empty()) return;
    Complain({what_, how, why, "): ", untold_}, kLostEvent);
    untold_.clear();
  }

  // Sends SIGTERM now, also to stopped processes, and SIGKILL after the grace period.
  void End(absl::Duration grace) {
    const base::Instant at = base::Now() + grace;
    kill_or_term_at_ = ending_ ? std::min(kill_or_term_at_, at) : at;
    if (!ending_) {
      job_.SignalFamily(SIGTERM);
      job_.SignalFamily(SIGCONT);
    }
    ending_ = true;
    alarm_.Set(kill_or_term_at_);
  }

  // If the release is confirmed, the client ends as well, and removes its description.
  absl::Status Release() {
    absl::Status released = std::visit([](auto& each) { return each.Release(); }, hold_->held);
    if (released.ok()) hold_.reset();
    return released;
  }

  int Finish() {
    watch_.deadline = base::Instant::Infinite();
    AwaitReason();
    TellOfLoss(kIsLost);
    const absl::Status released = Release();
    if (IsLeaseLost(released) && !lost_) {
      lost_ = true;
      Complain({what_, " was lost while the command ran: ", std::string(released.message())},
               kLostEvent);
    } else if (!released.ok() && !lost_) {
      Complain({what_, " could not be released, and stays taken until its lease of ",
                Rounded(options_.lease), " expires: ", std::string(released.message())},
               "not_released");
    } else if (!lost_) {
      Report("released", [this](JsonObject& json) {
        json.Number("code", *code_);
        json.Millis("held_ms", base::Now() - held_since_);
      });
    }
    watch_.ended = !lost_;
    if (!lost_) return *code_;
    return options_.kill_on_lost || *code_ == 0 ? kLost : *code_;
  }

  const RunOptions& options_;
  const absl::Duration early_;
  int link_;
  Watch& watch_;
  const std::string what_;
  Job& job_;
  const std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
  int children_ = -1;
  Alarm alarm_;

  std::optional<RunAttempt> attempt_;
  std::optional<RunHold> hold_;
  const base::Instant began_ = base::Now();
  base::Instant held_since_;
  std::optional<std::stop_callback<std::function<void()>>> told_;
  bool lost_ = false;                     // the lock is lost or about to be: the command is ended
  std::string untold_;                    // the consequence of the loss, until it is printed
  bool ending_ = false;                   // SIGTERM was sent
  absl::Duration repeat_ = kFirstRepeat;  // the pause before the next SIGKILL
  std::optional<int> code_;
  // The next SIGKILL if `ending_`, else the SIGTERM to the processes that the command has left.
  base::Instant kill_or_term_at_ = base::Instant::Infinite();
};

// All signals except those that report a fault of this process, and those that stop a background
// process when it uses the terminal. These keep their default actions.
sigset_t HandledSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int left :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTTIN, SIGTTOU}) {
    sigdelset(&signals, left);
  }
  return signals;
}

// True if this process was started to ignore the signal, as by nohup(1). A blocked signal arrives
// at a signalfd even if it is ignored.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool HasTerminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

// The pause before the next campaign. As long as the command or the campaign fails, it grows from
// about the first value to the second.
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

class Front {
 public:
  explicit Front(const RunOptions& options) : options_(options), own_group_(!HasTerminal()) {}

  int Run() {
    const bool prepared = Prepare();
    if (prepared && options_.kind == RunKind::kElection) return RunTerms();
    return prepared ? RunTerm() : Unable();
  }

 private:
  // Campaigns and runs the command, again and again, until redlatch is told to stop.
  int RunTerms() {
    base::Backoff pauses(kFirstPause, kLongestPause);
    for (;;) {
      const base::Instant begun = base::Now();
      const int code = RunTerm();
      keeper_ = 0;
      const bool ran = watch_->command != 0;
      if (stop_ != 0 || (ran ? options_.once && watch_->ended : code != kUnreachable)) return code;
      if (ran && (code == 0 || !watch_->ended || base::Now() - begun > kLongestPause)) {
        pauses.Reset();
      }
      const absl::Duration pause = pauses.Next();
      Complain({!ran            ? "cannot campaign"
                : watch_->ended ? absl::StrCat("resigned, since the command ended with ", code)
                                : "leads no longer",
                "; the next campaign begins in ", Rounded(pause)});
      if (Pause(pause)) return kSignalled + stop_;
    }
  }

  // Returns true if redlatch is told to stop.
  bool Pause(absl::Duration length) {
    const base::Instant end = base::Now() + length;
    while (stop_ == 0 && base::Now() < end) {
      pollfd signal = {.fd = signals_, .events = POLLIN, .revents = 0};
      base::Poll(&signal, 1, end);
      (void)TakeSignals();
    }
    return stop_ != 0;
  }

  // Runs the command once. Returns the exit code.
  int RunTerm() {
    if (!StartKeeper()) return Unable();
    for (;;) {
      std::array<pollfd, 3> events = {{{.fd = signals_, .events = POLLIN, .revents = 0},
                                       {.fd = alarm_.fd(), .events = POLLIN, .revents = 0},
                                       {.fd = link_.get(), .events = POLLIN, .revents = 0}}};
      poll(events.data(), events.size(), -1);
      if (const std::optional<int> code = TakeSignals()) return *code;
      if (events[2].revents != 0) ReadFromKeeper();
      if (events[1].revents != 0 && watch_->deadline.load() <= base::Now()) {
        Complain(
            {"the lock's lease has ended, and the process that renews it did not stop the command: "
             "killed it"},
            kLostEvent);
        kill(keeper_, SIGKILL);
        EndCommand();
        return kLost;
      }
      alarm_.Set(armed_ ? watch_->deadline.load() : base::Instant::Infinite());
    }
  }

  // Does what must be done once, before the first keeper is started.
  bool Prepare() {
    void* const page =
        mmap(nullptr, sizeof(Watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    watch_ = new (page) Watch;
    signal(SIGCHLD, SIG_DFL);  // if it were ignored, waitpid() would fail
    const sigset_t handled = HandledSignals();
    sigprocmask(SIG_SETMASK, &handled, &mask_);
    signals_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    // Orphans of the keeper become children of this process.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return signals_ >= 0 && alarm_.fd() >= 0;
  }

  bool StartKeeper() {
    std::array<int, 2> ends = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
    link_ = base::UniqueFd(ends[0]);
    watch_ = new (watch_) Watch;  // no other process uses it now
    armed_ = false;
    while (waitpid(-1, nullptr, WNOHANG) > 0) {  // processes that earlier terms have left
    }
    keeper_ = fork();
    if (keeper_ == 0) {
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, nullptr);  // a keeper in the background may write to stderr
      link_.Reset();                            // otherwise it would never notice the front's end
      BeKeeper(ends[1]);
    }
    close(ends[1]);
    return keeper_ > 0;
  }

  // The keeper's whole life, from the lock to the release.
  [[noreturn]] void BeKeeper(int link) const {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = kFailure;
    {
      Job job(options_.command, mask_, own_group_);
      setpgid(0, 0);
      if (job.pid() > 0) {
        LetGoOfDescriptorsBut({link, job.descriptors()[0], job.descriptors()[1]});
      }
      // The Keeper is never destroyed: the lock is released, and destructors would only take time.
      code = (new Keeper(options_, link, *watch_, job))->Run();
    }
    _exit(code);
  }

  // Returns the exit code once the keeper has ended.
  std::optional<int> TakeSignals() {
    signalfd_siginfo info = {};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        if (const std::optional<int> code = KeeperEnded()) return code;
      } else if (signal != SIGPIPE && !IsIgnored(signal)) {
        // A terminal that hangs up sends SIGHUP only to the leader of its session.
        const bool to_us_alone = signal == SIGHUP && getsid(0) == getpid();
        const bool by_terminal = info.ssi_code == SI_KERNEL;
        if (Ends(signal) && (signal != SIGHUP || by_terminal)) stop_ = signal;
        // A SIGHUP from another process is for the leader, which may read its settings again.
        const bool for_leaders = signal == SIGHUP && options_.kind == RunKind::kElection;
        if (for_leaders && !by_terminal && watch_->command == 0) continue;
        Forward(signal, by_terminal && !to_us_alone);
      }
    }
    return std::nullopt;
  }

  void Forward(int signal, bool by_terminal) {
    const Forwarded forwarded = {.signal = signal, .command_has_it = by_terminal && !own_group_};
    (void)!send(link_.get(), &forwarded, sizeof forwarded, MSG_NOSIGNAL | MSG_DONTWAIT);
    // The front stops, too, so that its parent sees it.
    if (signal == SIGTSTP) kill(getpid(), SIGSTOP);
  }

  void ReadFromKeeper() {
    char byte = 0;
    const ssize_t got = recv(link_.get(), &byte, 1, MSG_DONTWAIT);
    if (got == 1) armed_ = true;
    if (got == 0) link_.Reset();  // the keeper is about to end
  }

  std::optional<int> KeeperEnded() {
    int status = 0;
    if (keeper_ == 0 || waitpid(keeper_, &status, WNOHANG) != keeper_) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const char* const signal = strsignal(WTERMSIG(status));
    if (watch_->command == 0)
      return Complain(kFailure, {"the process that waited for the lock was killed: ", signal});
    Complain({"the process that renews the lock was killed (", signal,
              "): killed the command; the lock is freed when its lease expires"},
             kLostEvent);
    EndCommand();
    return kLost;
  }

  // Sends SIGKILL to the command and all its processes, until none is left.
  void EndCommand() {
    const pid_t command = watch_->command;
    if (own_group_ && command > 0) kill(-command, SIGKILL);
    for (int rounds = 0; rounds < 500; ++rounds) {
      const std::vector<pid_t> family = Family(command, keeper_);
      for (const pid_t pid : family) kill(pid, SIGKILL);
      if (command > 0) waitpid(command, nullptr, WNOHANG);
      if (family.empty()) return;
      // The end of a child wakes this process; other processes are found again in /proc.
      pollfd ended = {.fd = signals_, .events = POLLIN, .revents = 0};
      poll(&ended, 1, 10);
      signalfd_siginfo info = {};
      while (read(signals_, &info, sizeof info) > 0) {
      }
    }
    Complain({"part of the command survives SIGKILL; look for processes in state D"});
  }

  const RunOptions& options_;
  const bool own_group_;  // the command gets its own process group: there is no terminal
  Watch* watch_ = nullptr;
  sigset_t mask_ = {};  // the signals that are blocked in the command
  int stop_ = 0;        // the signal that asked to stop
  base::UniqueFd link_;
  int signals_ = -1;
  Alarm alarm_;
  pid_t keeper_ = 0;  // 0: none
  bool armed_ = false;
};

int RunWith(const RunOptions& options) {
  // Checks the command before waiting for the lock, which may take long.
  const std::string command = Printable(options.command[0]);
  const int found = FindCommand(options.command[0]);
  if (found == kNotFound) {
    Complain({command, ": command not found; check its spelling and $PATH"});
  } else if (found == kNotExecutable) {
    Complain({command, ": not executable; check what it is, or chmod +x it"});
  }
  return found != 0 ? found : Front(options).Run();
}

}  // namespace

int Run(const std::vector<std::string>& words) {
  CommandLine line("run");
  RunOptions options;
  bool chosen = false;
  int64_t busy_code = options.busy_code;
  std::string on_lost = "kill";
  line.Flag("--shared", &chosen);
  line.Flag("--write", &chosen);
  line.Number("--permits", 1, &options.permits);
  line.Number("--capacity", 1, &options.capacity);
  line.Time("--wait", &options.wait);
  line.Time("--at-least", &options.at_least);
  line.Time("--at-most", &options.at_most);
  line.Time("--once-per", &options.once_per);
  line.Choice("--on-lost", {"kill", "warn"}, &on_lost);
  line.Number("--busy-code", 0, &busy_code);
  if (const std::optional<int> over =
          ParseCommandLine("redlatch run NAME -- CMD ARGS", words, line, &options)) {
    return *over;
  }
  if (busy_code > 255) {
    return Refuse(WrongUsage("--busy-code is out of range", "say 0 to 255"));
  }
  options.kill_on_lost = on_lost == "kill";
  options.busy_code = static_cast<int>(busy_code);
  return RunWith(options);
}

int Elect(const std::vector<std::string>& words) {
  CommandLine line("elect");
  RunOptions options{.kind = RunKind::kElection};
  line.Text("--value", "a text", &options.value);
  line.Flag("--once", &options.once);
  const std::optional<int> over =
      ParseCommandLine("redlatch elect NAME -- CMD ARGS", words, line, &options);
  return over ? *over : RunWith(options);
}

std::string HoldersText(const LockInfo& info) {
  if (info.holders.empty()) {
    return info.waiting == 0 ? "" : absl::StrCat(info.waiting, " in line for it");
  }
  const LockInfo::Party& first = info.holders.front();
  if (first.stays_taken) {
    return absl::StrCat("no process holds it, but its name stays taken for ",
                        Brief(first.remaining));
  }
  const auto others = std::max(info.holding, static_cast<int64_t>(info.holders.size())) - 1;
  return absl::StrCat(
      info.capacity == 0
          ? "held by "
          : absl::StrCat(info.used, " of ", Counted(info.capacity, "permit"), " taken, by "),
      InProse(first.process, first.hold), others > 0 ? absl::StrCat(" and ", others, " more") : "");
}

std::string PlaceText(const LockInfo& info, const LockInfo::Process& self) {
  const auto own = std::ranges::find_if(info.waiters, [&](const LockInfo::Party& waiter) {
    return waiter.process.pid == self.pid && waiter.process.host == self.host;
  });
  if (own == info.waiters.end()) return absl::StrCat(info.waiting, " in line");
  const auto ahead = own - info.waiters.begin();
  return ahead == 0 ? "next in line" : absl::StrCat(ahead, " ahead in line");
}

const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits) {
  const LockInfo::Party* found = nullptr;
  int64_t held = 0;
  for (const LockInfo::Party& holder : info.holders) {
    if (holder.process.pid == 0 || holder.process.host != host) continue;
    if (std::ranges::find(ancestors, holder.process.pid) == ancestors.end()) continue;
    found = &holder;
    held += holder.permits;
  }
  const bool enough_without = info.capacity > 0 && permits <= info.capacity - held;
  return enough_without ? nullptr : found;
}

}  // namespace redlatch::cli
