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
  // What the class does not promise: fencing tokens, and that Inspect() knows who waits.
  bool tokens = true;
  bool queue = true;
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
    Check("exclusion", "the lock has one owner at a time", &ConformanceCheck::Exclusion);
    Check("busy", "a held lock is busy for other clients", &ConformanceCheck::Busy);
    Check("handover", "a release hands the lock to a waiter", &ConformanceCheck::Handover);
    Check("cancel", "a waiter that gives up is not granted the lock", &ConformanceCheck::Cancel);
    Check("force", "a forced release ends a hold, and its holder learns of it",
          &ConformanceCheck::Force);
    Check("expiry", "a hold that is not renewed ends with its lease", &ConformanceCheck::Expiry);
    Check("threads", "the threads of one client hold the lock one at a time",
          &ConformanceCheck::Threads);
    const std::lock_guard guard(mu_);
    return broken_;
  }

 private:
  using Lock = std::unique_ptr<RedisLockBase>;
  static constexpr absl::Duration kTimeout = absl::Seconds(20);

  void Check(std::string_view word, std::string_view promise, void (ConformanceCheck::*check)()) {
    word_ = word;
    promise_ = promise;
    if (kept()) (this->*check)();
  }
  bool kept() {
    const std::lock_guard guard(mu_);
    return broken_.ok();
  }
  // Notes that a promise is broken: the current one, if none is named. The first is reported.
  bool Expect(bool kept, std::string_view otherwise, std::string_view promise = {}) {
    if (kept) return true;
    const std::string broken(promise.empty() ? promise_ : promise);
    const std::lock_guard guard(mu_);
    broken_.Update(absl::InternalError(broken + ": " + std::string(otherwise)));
    return false;
  }
  bool Expect(const absl::Status& status, std::string_view promise = {}) {
    return Expect(status.ok(), status.ToString(), promise);
  }

  Lock Make(int client) const {
    return options_.make(clients_[client], options_.name + "-" + std::string(word_),
                         LockOptions{.lease = options_.lease});
  }
  // A slow server breaks no promise.
  static absl::StatusOr<Lease> TryToTake(RedisLockBase& lock, const AcquireOptions& options) {
    absl::StatusOr<Lease> lease = lock.Acquire(options);
    for (const absl::Time end = absl::Now() + kTimeout;
         absl::IsUnavailable(lease.status()) && absl::Now() < end;) {
      lease = lock.Acquire(options);
    }
    return lease;
  }
  absl::StatusOr<Lease> Take(RedisLockBase& lock,
                             const AcquireOptions& options = {.wait = kTimeout}) {
    absl::StatusOr<Lease> lease = TryToTake(lock, options);
    Expect(lease.status());
    return lease;
  }
  void TakeAndRelease(int client) {
    const Lock lock = Make(client);
    absl::StatusOr<Lease> lease = Take(*lock);
    if (lease.ok()) Expect(lease->Release());
  }
  void ExpectBusy(RedisLockBase& lock, absl::Duration wait) {
    const absl::Status refused = TryToTake(lock, {.wait = wait}).status();
    Expect(absl::IsDeadlineExceeded(refused), refused.ToString());
  }
  static bool Happens(const std::function<bool()>& what) {
    for (const absl::Time end = absl::Now() + kTimeout; absl::Now() < end;) {
      if (what()) return true;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return false;
  }
  bool HasWaiters(const RedisLockBase& lock, int64_t waiting) const {
    return !options_.queue || Happens([&] {
      const absl::StatusOr<LockInfo> info = lock.Inspect();
      return info.ok() && info->waiting == waiting;
    });
  }

  // One owner at a time, and each has a larger token than those before it.
  void Exclusion() {
    std::atomic<int> inside = 0;
    std::atomic<uint64_t> last = 0;
    std::vector<std::jthread> threads;
    for (int client = 0; client < static_cast<int>(clients_.size()); ++client) {
      threads.emplace_back([&, client] {
        const Lock lock = Make(client);
        for (int i = 0; i < options_.rounds && kept(); ++i) {
          absl::StatusOr<Lease> lease = Take(*lock);
          if (!lease.ok()) return;
          Expect(inside.fetch_add(1) == 0, "owners overlapped");
          const uint64_t token = lease->fencing_token().value();
          Expect(!options_.tokens || last.exchange(token) < token, "one did not",
                 "fencing tokens grow");
          std::this_thread::yield();
          --inside;
          Expect(lease->Release());
        }
      });
    }
  }

  void Busy() {
    const Lock mine = Make(0), theirs = Make(1);
    absl::StatusOr<Lease> lease = Take(*mine);
    if (!lease.ok()) return;
    for (const int ms : {0, 50}) ExpectBusy(*theirs, absl::Milliseconds(ms));
    const absl::StatusOr<LockInfo> info = theirs->Inspect();
    if (!Expect(info.status(), "Inspect() shows the holder")) return;
    Expect(info->holding == 1, "it does not", "Inspect() shows the holder");
    for (int i = 0; i < 2; ++i) Expect(lease->Release(), "a second release is OK");
  }

  // Waiters get the lock one after the other as it is released.
  void Handover() {
    const Lock mine = Make(0);
    absl::StatusOr<Lease> lease = Take(*mine);
    if (!lease.ok()) return;
    std::vector<std::jthread> waiters;
    for (int client : {1, 2}) waiters.emplace_back([this, client] { TakeAndRelease(client); });
    Expect(HasWaiters(*mine, 2), "Inspect() shows no waiters");
    lease = absl::CancelledError();  // releases it
  }

  void Cancel() {
    const Lock mine = Make(0), theirs = Make(1);
    absl::StatusOr<Lease> lease = Take(*mine);
    if (!lease.ok()) return;
    ExpectBusy(*theirs, absl::Milliseconds(20));
    Expect(HasWaiters(*mine, 0), "it stays in the queue");
    Expect(lease->Release());
    TakeAndRelease(2);
  }

  void Force() {
    const Lock mine = Make(0), theirs = Make(1);
    absl::StatusOr<Lease> lease = Take(*mine);
    if (!lease.ok() || !Expect(theirs->ForceRelease())) return;
    Expect(Happens([&] { return !lease->valid() && lease->lost().stop_requested(); }),
           "it does not");
    absl::StatusOr<Lease> next = Take(*theirs);
    if (!next.ok()) return;
    Expect(!options_.tokens || next->fencing_token() > lease->fencing_token(),
           "not after a forced release", "fencing tokens grow");
    Expect(next->Release());
  }

  void Expiry() {
    const Lock mine = Make(0), theirs = Make(1);
    absl::StatusOr<Lease> lease = Take(*mine, {.wait = kTimeout, .lease = absl::Milliseconds(500)});
    if (!lease.ok()) return;
    absl::StatusOr<Lease> next = Take(*theirs);
    if (!next.ok()) return;
    Expect(!lease->valid(), "two holds are valid at once");
    Expect(next->Release());
  }

  void Threads() {
    const Lock lock = Make(0);
    std::atomic<int> inside = 0;
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&] {
        try {
          for (int i = 0; i < options_.rounds; ++i) {
            const std::lock_guard guard(*lock);
            Expect(inside.fetch_add(1) == 0, "they overlapped");
            --inside;
          }
        } catch (const std::exception& thrown) {
          Expect(false, std::string("lock() threw ") + thrown.what());
        }
      });
    }
  }

  const ConformanceOptions& options_;
  std::vector<Client> clients_;
  std::string_view word_, promise_;  // of the current check
  std::mutex mu_;
  absl::Status broken_;
};

}  // namespace internal

}  // namespace redlatch

#endif  // REDLATCH_INTERNAL_CONFORMANCE_CHECK_H_
