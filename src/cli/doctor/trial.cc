#include "src/cli/doctor/trial.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "absl/status/status.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "redlatch/red_lock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "src/engine/protocol/kinds.h"
#include "src/redis/url/quorum_url.h"

namespace redlatch::cli {
namespace {

namespace kinds = engine::kinds;

// How long one that could not be released stays.
constexpr absl::Duration kTrialLease = absl::Seconds(2);
constexpr absl::Duration kTrialPatience = absl::Seconds(1);
constexpr int kPairs = 20;

const AcquireOptions kOptions = {.wait = kTrialPatience, .lease = kTrialLease};

absl::Status ReleaseOf(absl::StatusOr<Lease> lease) {
  if (!lease.ok()) return lease.status();
  const absl::Status extended = lease->Extend(kTrialLease);
  const absl::Status released = lease->Release();
  return extended.ok() ? released : extended;
}

absl::Status TryLock(RedisLockBase& lock) {
  if (absl::Status released = ReleaseOf(lock.Acquire(kOptions)); !released.ok()) return released;
  return lock.Inspect().status();
}

absl::Status TryReadWrite(ReentrantReadWriteLock& lock) {
  if (absl::Status wrote = TryLock(lock); !wrote.ok()) return wrote;
  return ReleaseOf(lock.AcquireRead(kOptions));
}

absl::Status TrySemaphore(Semaphore& semaphore) {
  absl::StatusOr<Permit> permit = semaphore.Acquire(1, kOptions);
  if (!permit.ok()) return permit.status();
  if (absl::Status released = permit->Release(); !released.ok()) return released;
  return semaphore.Inspect().status();
}

absl::Status TryLatch(CountDownLatch& latch) {
  if (absl::Status counted = latch.CountDown(); !counted.ok()) return counted;
  return latch.Wait({.wait = kTrialPatience});
}

absl::Status MeasurePairs(RedisLockBase& lock, base::Instant deadline, absl::Duration* slowest) {
  for (int i = 0; i < kPairs && base::Now() < deadline; ++i) {
    const base::Instant begun = base::Now();
    absl::StatusOr<Lease> lease = lock.Acquire(kOptions);
    if (!lease.ok()) return lease.status();
    if (absl::Status released = lease->Release(); !released.ok()) return released;
    *slowest = std::max(*slowest, base::Now() - begun);
  }
  return absl::OkStatus();
}

// A look neither waits for a quarantine, or a restart's delay, nor begins one.
std::string Without(std::string_view option, std::string url) {
  for (size_t at = url.find(option); at != std::string::npos; at = url.find(option, at + 1)) {
    if (at == 0 || (url[at - 1] != '?' && url[at - 1] != '&')) continue;
    const size_t end = url.find('&', at);
    return end == std::string::npos ? url.substr(0, at - 1) : url.erase(at, end + 1 - at);
  }
  return url;
}

absl::StatusOr<Client> Connect(const std::string& url, DoctorFacts* facts) {
  ClientOptions options;
  options.unreachable_after = kTrialPatience;
  // What it would warn of the doctor finds out by itself.
  options.on_warning = [](std::string_view) {};
  absl::StatusOr<Client> client = Client::Connect(url, options);
  facts->library = client.status();
  return client;
}

}  // namespace

void TryQuorum(const std::string& url, const std::vector<std::string>& names,
               base::Instant deadline, DoctorFacts* facts) {
  const std::string alone = redis::AsQuorum(Without("restart_delay=", url));
  const absl::StatusOr<Client> client = Connect(alone, facts);
  if (!client.ok()) return;
  RedLock lock(*client, names.back());
  absl::Status outcome = TryLock(lock);
  if (outcome.ok()) outcome = MeasurePairs(lock, deadline, &facts->slowest_pair);
  facts->trials.push_back({.kind = std::string(kinds::kQuorum), .outcome = outcome});
}

void TryLocks(const std::string& url, const std::vector<std::string>& names, base::Instant deadline,
              DoctorFacts* facts) {
  const absl::StatusOr<Client> client = Connect(Without("quarantine=", url), facts);
  if (!client.ok()) return;

  SimpleLock simple(*client, names[0]);
  ReentrantLock reentrant(*client, names[1]);
  ReentrantReadWriteLock read_write(*client, names[2]);
  Semaphore semaphore(*client, names[3], 2);
  CountDownLatch latch(*client, names[4], 1, {.ttl = kTrialLease});
  const std::function<absl::Status()> tries[] = {
      // as kinds::kAll, but a quorum's
      [&] { return TryLock(simple); }, [&] { return TryLock(reentrant); },
      [&] { return TryReadWrite(read_write); }, [&] { return TrySemaphore(semaphore); },
      [&] { return TryLatch(latch); }};
  bool goes_on = true;
  for (size_t i = 0; i < std::size(tries); ++i) {
    goes_on = goes_on && base::Now() < deadline;
    const absl::Status outcome = goes_on ? tries[i]() : absl::CancelledError("not tried");
    goes_on = goes_on && !absl::IsUnavailable(outcome);
    facts->trials.push_back({.kind = std::string(kinds::kAll[i]), .outcome = outcome});
    std::ranges::replace(facts->trials.back().kind, '_', '-');  // for people
  }
  if (!goes_on) return;
  // The first of all had to teach the server its scripts.
  const absl::Status measured = MeasurePairs(simple, deadline, &facts->slowest_pair);
  if (!measured.ok()) facts->trials[0].outcome = measured;
}

}  // namespace redlatch::cli
