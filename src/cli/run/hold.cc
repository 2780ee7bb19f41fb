#include "src/cli/run/hold.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/cli/inspect/locks.h"
#include "src/cli/run/job.h"
#include "src/cli/term/command_line.h"
#include "src/lock/description.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(100);
constexpr absl::Duration kLongestGrace = absl::Seconds(10);  // of the default

// Sets the values that depend on several options, and refuses options that contradict each other.
absl::Status Complete(const CommandLine& line, RunOptions& options) {
  const bool shared = line.given("--shared");
  const bool write = line.given("--write");
  const bool permits = line.given("--permits") || line.given("--capacity");
  if (shared && write) return WrongUsage("--shared and --write exclude each other", "say one");
  if (permits && (shared || write)) {
    return WrongUsage(
        "--shared and --write are for a read-write lock, --permits and --capacity "
        "for a semaphore",
        "a name can only be one of them");
  }
  if (permits && !line.given("--capacity")) {
    return WrongUsage("--permits needs --capacity",
                      "say how many permits there are in all, as in --permits 1 --capacity 4");
  }
  if (permits && options.permits > options.capacity) {
    return WrongUsage("--permits is more than --capacity", "that many can never be free");
  }
  options.kind = permits  ? RunKind::kPermits
                 : shared ? RunKind::kShared
                 : write  ? RunKind::kWrite
                          : RunKind::kPlain;
  // If the URL is wrong, the attempt to connect says why.
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options.server);
  if (url.ok() && url->kind == redis::Url::Kind::kQuorum) {
    for (const char* const option : {"--shared", "--write", "--permits", "--capacity"}) {
      if (!line.given(option)) continue;
      return WrongUsage(
          absl::StrCat(option, " is not for a quorum of servers, which has plain locks only"),
          absl::StrCat("name one server for it, as in --server ",
                       url->members.front().DebugString()));
    }
    options.kind = RunKind::kQuorum;
  }
  if (options.lease < kShortestLease || options.lease > absl::Hours(24)) {
    return WrongUsage("--lease is out of range", "say 100ms to 24h");
  }
  if (!line.given("--grace")) options.grace = std::min(options.lease / 3, kLongestGrace);
  if (options.grace <= options.lease / 2) return absl::OkStatus();
  return WrongUsage("--grace is more than half of the lease",
                    absl::StrCat("the command must be gone before the lease ends, so say at most ",
                                 absl::FormatDuration(options.lease / 2), ", or a longer --lease"));
}

}  // namespace

std::optional<int> ParseRunOptions(const std::vector<std::string>& words, RunOptions* options) {
  CommandLine line("run");
  bool chosen = false;
  int64_t busy_code = options->busy_code;
  std::string on_lost = "kill";
  line.Flag("--shared", &chosen);
  line.Flag("--write", &chosen);
  line.Number("--permits", 1, &options->permits);
  line.Number("--capacity", 1, &options->capacity);
  line.Time("--wait", &options->wait);
  line.Time("--lease", &options->lease);
  line.Time("--grace", &options->grace);
  line.Choice("--on-lost", {"kill", "warn"}, &on_lost);
  line.Number("--busy-code", 0, &busy_code);
  line.Operands(1, "put -- before the command: redlatch run NAME -- CMD ARGS");
  line.NeedsName("lock", "say redlatch run NAME -- CMD ARGS");
  line.CommandFollows();
  if (const std::optional<int> over = line.Parse(words)) return over;
  if (line.following().empty()) {
    return Refuse(WrongUsage("the command is missing", "say redlatch run NAME -- CMD ARGS"));
  }
  if (busy_code > 255) {
    return Refuse(WrongUsage("--busy-code is out of range", "say 0 to 255"));
  }
  options->name = line.operands()[0];
  options->command = line.following();
  options->kill_on_lost = on_lost == "kill";
  options->busy_code = static_cast<int>(busy_code);
  options->server = line.server();
  const absl::Status complete = Complete(line, *options);
  return complete.ok() ? std::nullopt : std::optional(Refuse(complete));
}

namespace {

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
    if (options.wait <= absl::ZeroDuration() || (!nested_ && !line_.has_terminal())) return;
    thread_ = std::jthread(
        [this, inspect = std::move(inspect)](const std::stop_token& stop) { Run(stop, inspect); });
  }

 private:
  void Run(const std::stop_token& stop, const Inspect& inspect) {
    const base::Instant begun = base::Now();
    bool warned = !nested_;
    for (auto pause = kFirst; Sleep(stop, pause); pause = kEvery) {
      const absl::StatusOr<LockInfo> info = inspect();
      if (stop.stop_requested()) return;
      if (info.ok() && !std::exchange(warned, true)) WarnOfNesting(*info);
      if (!line_.has_terminal()) return;
      std::string text = absl::StrCat(
          "redlatch: waiting ",
          absl::FormatDuration(absl::Floor(base::Now() - begun, absl::Seconds(1))), " for ", what_);
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

}  // namespace

RunAttempt::RunAttempt(const RunOptions& options, std::shared_ptr<Observer> observer,
                       std::string what, std::function<void()> ended)
    : options_(options), observer_(std::move(observer)), what_(std::move(what)) {
  thread_ = std::jthread([this, ended = std::move(ended)] {
    result_ = Acquire();
    done_ = true;
    ended();
  });
}

void RunAttempt::CallOff(int signal) {
  called_off_ = signal;
  Phase connecting = Phase::kConnecting;
  if (phase_.compare_exchange_strong(connecting, Phase::kCalledOff)) _exit(kSignalled + signal);
  stop_.request_stop();
}

std::optional<int> RunAttempt::Take(std::optional<RunHold>* hold) {
  thread_.join();
  if (result_.ok()) hold->emplace(*std::move(result_));
  if (called_off_ != 0) return kSignalled + called_off_;
  return hold->has_value() ? std::nullopt : std::optional(ExplainRefusal());
}

absl::StatusOr<RunHold> RunAttempt::Acquire() {
  const std::string& command = options_.command[0];
  ClientOptions how = {
      .program = absl::StrCat("redlatch run: ", command.substr(command.find_last_of('/') + 1)),
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

absl::StatusOr<RunHold> RunAttempt::TakeFor(const Client& client, absl::Duration wait) {
  const AcquireOptions how = {.wait = wait, .whole_lease = true, .stop = stop_.get_token()};
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
  if (options_.kind == RunKind::kPlain) {
    SimpleLock lock(client, options_.name, {.lease = options_.lease});
    return TakeBy(client, lock, [&] { return lock.Acquire(how); });
  }
  ReentrantReadWriteLock lock(client, options_.name, {.lease = options_.lease});
  return TakeBy(client, lock, [&] {
    return options_.kind == RunKind::kShared ? lock.AcquireRead(how) : lock.AcquireWrite(how);
  });
}

// Acquires while a WaitReport informs the user.
template <class Lock, class Call>
absl::StatusOr<RunHold> RunAttempt::TakeBy(const Client& client, Lock& lock, const Call& acquire) {
  const auto inspect = [&lock] { return lock.Inspect(); };
  auto held = [&] {
    const WaitReport report(options_, what_, inspect);
    return acquire();
  }();
  if (held.ok()) return RunHold(*std::move(held), client.server());
  if (IsBusy(held.status())) {
    const absl::StatusOr<LockInfo> info = inspect();
    if (info.ok()) holders_ = HoldersText(*info);
  }
  return held.status();
}

int RunAttempt::ExplainRefusal() const {
  if (!IsBusy(result_.status())) return Refuse(result_.status());
  // With --busy-code 0 it is no failure, so cron must not send mail about any output.
  if (options_.busy_code == 0) return 0;
  const bool waited = options_.wait > absl::ZeroDuration();
  Complain({what_, waited ? " was busy for " : " is busy",
            waited ? Rounded(options_.wait) : std::string(), holders_.empty() ? "" : ": ",
            holders_});
  return options_.busy_code;
}

std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

std::string HoldersText(const LockInfo& info) {
  if (info.holders.empty()) {
    return info.waiting == 0 ? "" : absl::StrCat(info.waiting, " in line for it");
  }
  const LockInfo::Party& first = info.holders.front();
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
