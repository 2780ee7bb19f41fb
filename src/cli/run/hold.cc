#include "src/cli/run/hold.h"

#include <unistd.h>

#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "redlatch/observer.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/cli/run/wait.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/text.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

// A refusal for another capacity says what to do about it here.
absl::Status Explain(const absl::Status& why, const Semaphore& semaphore,
                     const RunOptions& options) {
  if (!absl::IsFailedPrecondition(why)) return why;
  const absl::StatusOr<int64_t> capacity = semaphore.capacity();
  if (!capacity.ok() || *capacity == 0 || *capacity == options.capacity) return why;
  const std::string name = Printable(options.name);
  return absl::FailedPreconditionError(
      absl::StrCat("semaphore \"", name, "\" has ", Counted(*capacity, "permit"), " in all, not ",
                   options.capacity, "; say --capacity ", *capacity,
                   ", or change it for everyone: redlatch capacity ", name, " ", options.capacity));
}

}  // namespace

absl::Duration RunHold::remaining() const {
  return std::visit([](const auto& held) { return held.remaining(); }, held_);
}

std::stop_token RunHold::lost() const {
  return std::visit([](const auto& held) { return held.lost(); }, held_);
}

absl::Status RunHold::Release() {
  return std::visit([](auto& held) { return held.Release(); }, held_);
}

std::optional<FencingToken> RunHold::token() const {
  const Lease* const lease = std::get_if<Lease>(&held_);
  return lease != nullptr ? std::optional(lease->fencing_token()) : std::nullopt;
}

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
  // If the server is unavailable now, as in a failover, it is tried until --wait is over.
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
  // The library returns when `left` is over. A server that is only slow, or far away, is given the
  // time that any command has, else a short wait would never get a lock from it. The library itself
  // gives it that time if there is no wait.
  if (left <= absl::ZeroDuration()) return hold;
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options_.server);
  if (!url.ok() || url->command_timeout <= left) return hold;
  return TakeFor(*client, url->command_timeout);
}

absl::StatusOr<RunHold> RunAttempt::TakeFor(const Client& client, absl::Duration wait) {
  const AcquireOptions how = {.wait = wait, .whole_lease = true, .stop = stop_.get_token()};
  // The hold outlives these objects.
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

// While a report on the lock or semaphore is given.
template <class Lock, class Call>
absl::StatusOr<RunHold> RunAttempt::TakeBy(const Client& client, Lock& lock, const Call& acquire) {
  const auto look = [&lock] { return lock.Inspect(); };
  auto held = [&] {
    const WaitReport report(options_, what_, look);
    return acquire();
  }();
  if (held.ok()) return RunHold(*std::move(held), client.server());
  if (IsBusy(held.status())) {
    const absl::StatusOr<LockInfo> info = look();
    if (info.ok()) holders_ = HoldersText(*info);
  }
  return held.status();
}

int RunAttempt::ExplainRefusal() const {
  if (!IsBusy(result_.status())) return Refuse(result_.status());
  // If it is not to count as a failure, cron is to send no mail about it either.
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

}  // namespace redlatch::cli
