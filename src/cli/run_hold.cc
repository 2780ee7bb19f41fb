#include "src/cli/run_hold.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "redlatch/observer.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/cli/complain.h"
#include "src/redis/url.h"

namespace redlatch::cli {
namespace {

template <class T>
absl::StatusOr<RunHold> Holding(absl::StatusOr<T> held, const Client& client) {
  if (!held.ok()) return held.status();
  return RunHold(*std::move(held), client.server());
}

absl::StatusOr<RunHold> Take(const Client& client, const RunOptions& options,
                             const AcquireOptions& how) {
  // The hold outlives these objects.
  switch (options.kind) {
    case RunKind::kShared: {
      ReentrantReadWriteLock lock(client, options.name, {.lease = options.lease});
      return Holding(lock.AcquireRead(how), client);
    }
    case RunKind::kWrite: {
      ReentrantReadWriteLock lock(client, options.name, {.lease = options.lease});
      return Holding(lock.AcquireWrite(how), client);
    }
    case RunKind::kPermits: {
      Semaphore semaphore(client, options.name, options.capacity, {.lease = options.lease});
      return Holding(semaphore.Acquire(options.permits, how), client);
    }
    case RunKind::kPlain:
      break;
  }
  SimpleLock lock(client, options.name, {.lease = options.lease});
  return Holding(lock.Acquire(how), client);
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
                                    std::stop_token stop, const std::function<void()>& connected) {
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
  absl::StatusOr<RunHold> hold = Take(*client, options, {.wait = options.wait, .stop = stop});
  if (hold.ok() || !redlatch::IsUnavailable(hold.status())) return hold;
  // The library returns when `wait` is over. A server that is only slow, or far away, is given the
  // time that any command has, else --wait 0 would never get a lock from it.
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options.server);
  if (!url.ok() || url->command_timeout <= options.wait) return hold;
  return Take(*client, options, {.wait = url->command_timeout, .stop = std::move(stop)});
}

}  // namespace redlatch::cli
