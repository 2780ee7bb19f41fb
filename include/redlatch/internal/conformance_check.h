// The checks of redlatch/conformance.h.
#ifndef REDLATCH_INTERNAL_CONFORMANCE_CHECK_H_
#define REDLATCH_INTERNAL_CONFORMANCE_CHECK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/lease.h"
#include "redlatch/lock_info.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

struct ConformanceOptions {
  // Makes an object of the class. Objects with one name are the same lock.
  std::function<std::unique_ptr<RedisLockBase>(const Client&, std::string_view, LockOptions)> make;
  std::string url;
  std::string name = "redlatch-conformance";  // of the locks; each check appends a word
  int clients = 4;
  Duration lease = absl::Seconds(30);
  int rounds = 50;  // how often each client takes the lock in the checks with contention
};

namespace internal {

class ConformanceCheck {
 public:
  explicit ConformanceCheck(const ConformanceOptions& options) : options_(options) {}

  absl::Status Run() {
    for (int i = 0; i < std::max(3, options_.clients); ++i) {
      absl::StatusOr<Client> client = Client::Connect(options_.url);
      if (!client.ok()) return client.status();
      clients_.push_back(*std::move(client));
    }
    for (const auto check :
         {&ConformanceCheck::Excludes, &ConformanceCheck::RefusesWhenHeld,
          &ConformanceCheck::HandsOver, &ConformanceCheck::ForgetsWaitersThatGaveUp,
          &ConformanceCheck::ReportsAForcedRelease, &ConformanceCheck::EndsWithTheLease,
          &ConformanceCheck::PassesBetweenThreads}) {
      if (absl::Status kept = (this->*check)(); !kept.ok()) return kept;
    }
    return absl::OkStatus();
  }

 private:
  using Lock = std::unique_ptr<RedisLockBase>;
  static constexpr absl::Duration kPatience = absl::Seconds(20);

  Lock Make(int client, std::string_view of) const {
    return options_.make(clients_[client], options_.name + "-" + std::string(of),
                         LockOptions{.lease = options_.lease});
  }
  static absl::Status Broken(std::string_view promise, std::string_view what) {
    return absl::InternalError(std::string(promise) + ": " + std::string(what));
  }
  static absl::Status Because(std::string_view promise, const absl::Status& why) {
    return Broken(promise, why.ToString());
  }
  // A slow server breaks no promise.
  static absl::StatusOr<Lease> Take(RedisLockBase& lock, const AcquireOptions& options) {
    absl::StatusOr<Lease> lease = lock.Acquire(options);
    for (const absl::Time end = absl::Now() + kPatience;
         absl::IsUnavailable(lease.status()) && absl::Now() < end;) {
      lease = lock.Acquire(options);
    }
    return lease;
  }
  static absl::Status TakeAndRelease(RedisLockBase& lock) {
    absl::StatusOr<Lease> lease = Take(lock, {.wait = kPatience});
    return lease.ok() ? lease->Release() : lease.status();
  }
  // Waits until `what` is true; false: it was not in time.
  static bool Happens(const std::function<bool()>& what) {
    for (const absl::Time end = absl::Now() + kPatience; absl::Now() < end;) {
      if (what()) return true;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return false;
  }
  static bool IsWaitedFor(const RedisLockBase& lock, int64_t waiting = 1) {
    return Happens([&] {
      const absl::StatusOr<LockInfo> info = lock.Inspect();
      return info.ok() && info->waiting >= waiting;
    });
  }

  // One owner at a time, and each has a larger token than those before it.
  absl::Status Excludes() {
    constexpr std::string_view kPromise = "the lock has one owner at a time";
    std::atomic<int> inside = 0, overlaps = 0, falls = 0;
    uint64_t last = 0;  // under the lock
    std::vector<absl::Status> results(clients_.size());
    {
      std::vector<std::jthread> threads;
      for (int c = 0; c < static_cast<int>(clients_.size()); ++c) {
        threads.emplace_back([&, c] {
          const Lock lock = Make(c, "exclusion");
          for (int i = 0; i < options_.rounds && results[c].ok(); ++i) {
            absl::StatusOr<Lease> lease = Take(*lock, {.wait = kPatience});
            results[c] = lease.status();
            if (!lease.ok()) break;
            overlaps += inside.fetch_add(1) > 0 ? 1 : 0;
            const uint64_t token = lease->fencing_token().value();
            falls += token <= last ? 1 : 0;
            last = token;
            std::this_thread::yield();
            --inside;
            results[c] = lease->Release();
          }
        });
      }
    }
    for (const absl::Status& result : results) {
      if (!result.ok()) return Because(kPromise, result);
    }
    if (overlaps > 0) return Broken(kPromise, std::to_string(overlaps) + " owners overlapped");
    if (falls > 0) return Broken("fencing tokens grow", std::to_string(falls) + " did not");
    return absl::OkStatus();
  }

  absl::Status RefusesWhenHeld() {
    constexpr std::string_view kPromise = "a held lock is busy for other clients";
    const Lock mine = Make(0, "busy"), theirs = Make(1, "busy");
    absl::StatusOr<Lease> lease = Take(*mine, {.wait = kPatience});
    if (!lease.ok()) return Because(kPromise, lease.status());
    for (const absl::Duration wait : {absl::ZeroDuration(), absl::Milliseconds(50)}) {
      const absl::StatusOr<Lease> refused = Take(*theirs, {.wait = wait});
      if (!absl::IsDeadlineExceeded(refused.status())) return Because(kPromise, refused.status());
    }
    const absl::StatusOr<LockInfo> info = theirs->Inspect();
    if (!info.ok()) return Because("Inspect() shows the holder", info.status());
    if (info->holding != 1) return Broken("Inspect() shows the holder", "it does not");
    if (absl::Status released = lease->Release(); !released.ok())
      return Because("a second release is OK", released);
    if (absl::Status again = lease->Release(); !again.ok())
      return Because("a second release is OK", again);
    return absl::OkStatus();
  }

  // Waiters get the lock one after the other as it is released.
  absl::Status HandsOver() {
    constexpr std::string_view kPromise = "a release hands the lock to a waiter";
    const Lock mine = Make(0, "handover");
    absl::StatusOr<Lease> lease = Take(*mine, {.wait = kPatience});
    if (!lease.ok()) return Because(kPromise, lease.status());
    std::vector<absl::Status> results(2);
    {
      std::vector<std::jthread> waiters;
      for (int i = 0; i < 2; ++i) {
        waiters.emplace_back([&, i] { results[i] = TakeAndRelease(*Make(i + 1, "handover")); });
      }
      if (!IsWaitedFor(*mine, 2)) results[0] = Broken(kPromise, "Inspect() shows no waiters");
      lease = absl::CancelledError();  // releases it
    }
    for (const absl::Status& result : results) {
      if (!result.ok()) return Because(kPromise, result);
    }
    return absl::OkStatus();
  }

  absl::Status ForgetsWaitersThatGaveUp() {
    constexpr std::string_view kPromise = "a waiter that gives up is not granted the lock";
    const Lock mine = Make(0, "cancel");
    absl::StatusOr<Lease> lease = Take(*mine, {.wait = kPatience});
    if (!lease.ok()) return Because(kPromise, lease.status());
    const absl::Status gave_up =
        Take(*Make(1, "cancel"), {.wait = absl::Milliseconds(20)}).status();
    if (!absl::IsDeadlineExceeded(gave_up)) return Because(kPromise, gave_up);
    if (!Happens([&] {
          const absl::StatusOr<LockInfo> info = mine->Inspect();
          return info.ok() && info->waiting == 0;
        })) {
      return Broken(kPromise, "it stays in the queue");
    }
    if (absl::Status released = lease->Release(); !released.ok())
      return Because(kPromise, released);
    const absl::Status next = TakeAndRelease(*Make(2, "cancel"));
    return next.ok() ? next : Because(kPromise, next);
  }

  absl::Status ReportsAForcedRelease() {
    constexpr std::string_view kPromise =
        "a forced release ends a hold, and its holder learns of it";
    const Lock mine = Make(0, "force"), theirs = Make(1, "force");
    absl::StatusOr<Lease> lease = Take(*mine, {.wait = kPatience});
    if (!lease.ok()) return Because(kPromise, lease.status());
    if (absl::Status forced = theirs->ForceRelease(); !forced.ok())
      return Because(kPromise, forced);
    if (!Happens([&] { return !lease->valid() && lease->lost().stop_requested(); }))
      return Broken(kPromise, "it does not");
    absl::StatusOr<Lease> next = Take(*theirs, {.wait = kPatience});
    if (!next.ok()) return Because(kPromise, next.status());
    if (next->fencing_token() <= lease->fencing_token())
      return Broken("fencing tokens grow", "not after a forced release");
    return next->Release();
  }

  // A holder that does not renew loses the lock at the end of its lease.
  absl::Status EndsWithTheLease() {
    constexpr std::string_view kPromise = "a hold that is not renewed ends with its lease";
    const Lock mine = Make(0, "expiry"), theirs = Make(1, "expiry");
    absl::StatusOr<Lease> lease =
        Take(*mine, {.wait = kPatience, .lease = absl::Milliseconds(500)});
    if (!lease.ok()) return Because(kPromise, lease.status());
    absl::StatusOr<Lease> next = Take(*theirs, {.wait = kPatience});
    if (!next.ok()) return Because(kPromise, next.status());
    if (lease->valid()) return Broken(kPromise, "two holds are valid at once");
    return next->Release();
  }

  absl::Status PassesBetweenThreads() {
    constexpr std::string_view kPromise = "the threads of one client hold the lock one at a time";
    const Lock lock = Make(0, "threads");
    std::atomic<int> inside = 0, overlaps = 0;
    std::vector<std::string> errors(4);
    {
      std::vector<std::jthread> threads;
      for (std::string& error : errors) {
        threads.emplace_back([&] {
          try {
            for (int i = 0; i < options_.rounds; ++i) {
              const std::lock_guard guard(*lock);
              overlaps += inside.fetch_add(1) > 0 ? 1 : 0;
              --inside;
            }
          } catch (const std::exception& thrown) {
            error = std::string("lock() threw ") + thrown.what();
          }
        });
      }
    }
    for (const std::string& error : errors) {
      if (!error.empty()) return Broken(kPromise, error);
    }
    return overlaps == 0 ? absl::OkStatus() : Broken(kPromise, "they overlapped");
  }

  const ConformanceOptions& options_;
  std::vector<Client> clients_;
};

}  // namespace internal

}  // namespace redlatch

#endif  // REDLATCH_INTERNAL_CONFORMANCE_CHECK_H_
