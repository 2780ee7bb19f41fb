#include "src/cli/run/hold.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/cli/run/wait.h"
#include "src/cli/term/complain.h"
#include "src/cli/term/text.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

// By `acquire`, while a report on the lock or semaphore is given.
template <class Lock, class Acquire>
absl::StatusOr<RunHold> Take(const Client& client, const RunOptions& options, Lock& lock,
                             RunAttempt& attempt, const Acquire& acquire) {
  const auto look = [&lock] { return lock.Inspect(); };
  auto held = [&] {
    const WaitReport report(options, attempt.what, look);
    return acquire();
  }();
  if (held.ok()) return RunHold(*std::move(held), client.server());
  if (IsBusy(held.status())) {
    const absl::StatusOr<LockInfo> info = look();
    if (info.ok()) attempt.holders = HoldersText(*info);
  }
  return held.status();
}

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

absl::StatusOr<RunHold> Take(const Client& client, const RunOptions& options,
                             const AcquireOptions& how, RunAttempt& attempt) {
  // The hold outlives these objects.
  if (options.kind == RunKind::kPermits) {
    Semaphore semaphore(client, options.name, options.capacity, {.lease = options.lease});
    absl::StatusOr<RunHold> hold = Take(client, options, semaphore, attempt,
                                        [&] { return semaphore.Acquire(options.permits, how); });
    if (!hold.ok()) return Explain(hold.status(), semaphore, options);
    return hold;
  }
  if (options.kind == RunKind::kPlain) {
    SimpleLock lock(client, options.name, {.lease = options.lease});
    return Take(client, options, lock, attempt, [&] { return lock.Acquire(how); });
  }
  ReentrantReadWriteLock lock(client, options.name, {.lease = options.lease});
  return Take(client, options, lock, attempt, [&] {
    return options.kind == RunKind::kShared ? lock.AcquireRead(how) : lock.AcquireWrite(how);
  });
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

absl::StatusOr<RunHold> AcquireHold(const RunOptions& options, std::shared_ptr<Observer> observer,
                                    std::stop_token stop, const std::function<void()>& connected,
                                    RunAttempt& attempt) {
  const std::string& command = options.command[0];
  const absl::StatusOr<Client> client = Client::Connect(
      options.server,
      {.program = absl::StrCat("redlatch run: ", command.substr(command.find_last_of('/') + 1)),
       .observer = std::move(observer),
       .on_warning = [](std::string_view warning) {
         Complain({"warning: ", warning});
       }});
  if (!client.ok()) return client.status();
  connected();
  absl::StatusOr<RunHold> hold =
      Take(*client, options, {.wait = options.wait, .whole_lease = true, .stop = stop}, attempt);
  if (hold.ok() || !absl::IsUnavailable(hold.status())) return hold;
  // The library returns when `wait` is over. A server that is only slow, or far away, is given the
  // time that any command has, else a short wait would never get a lock from it. The library itself
  // gives it that time if there is no wait.
  if (options.wait <= absl::ZeroDuration()) return hold;
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options.server);
  if (!url.ok() || url->command_timeout <= options.wait) return hold;
  return Take(*client, options,
              {.wait = url->command_timeout, .whole_lease = true, .stop = std::move(stop)},
              attempt);
}

}  // namespace redlatch::cli
