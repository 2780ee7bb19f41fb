// What the tests of the semaphore have in common.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_SEMAPHORE_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_SEMAPHORE_FIXTURE_H_

#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"

namespace redlatch::conformance {

// The heartbeats of those who wait are kLease / 3 apart: what comes sooner than kSoon was not left
// to one.
class SemaphoreConformance : public Conformance {
 protected:
  static constexpr int64_t kCapacity = 3;
  static inline const absl::Duration kSoon = kLease / 6;

  static std::unique_ptr<Semaphore> NewSemaphore(const Client& client, int64_t capacity = kCapacity,
                                                 std::string_view name = kName) {
    return NewSemaphore(client, {.lease = kLease}, capacity, name);
  }
  static std::unique_ptr<Semaphore> NewSemaphore(const Client& client, SemaphoreOptions options,
                                                 int64_t capacity = kCapacity,
                                                 std::string_view name = kName) {
    return std::make_unique<Semaphore>(client, name, capacity, std::move(options));
  }

  // TryAcquire() where the server is well: a machine that runs it 40 ms late is no answer.
  static absl::StatusOr<Permit> Try(Semaphore& semaphore, int64_t permits = 1) {
    absl::StatusOr<Permit> got = semaphore.TryAcquire(permits);
    for (int i = 0; i < 100 && absl::IsUnavailable(got.status()); ++i) {
      got = semaphore.TryAcquire(permits);
    }
    return got;
  }
  static bool GetsIn(Semaphore& semaphore, int64_t permits = 1) {
    return Try(semaphore, permits).ok();
  }
  // Releases are not waited for.
  static bool SoonGetsIn(Semaphore& semaphore, int64_t permits = 1) {
    return Await([&] { return GetsIn(semaphore, permits); });
  }

  // As many as are expected, or how many are free all the same: a release is not waited for.
  static int64_t Free(const Semaphore& semaphore, int64_t expected) {
    int64_t free = -1;
    Await([&] {
      const absl::StatusOr<int64_t> available = semaphore.available();
      EXPECT_OK(available);
      free = available.value_or(-1);
      return free == expected || !available.ok();
    });
    return free;
  }
  static bool AwaitFree(const Semaphore& semaphore, int64_t permits = kCapacity) {
    return Await([&] {
      const absl::StatusOr<int64_t> available = semaphore.available();
      return available.ok() && *available == permits;
    });
  }
  // Each acquisition that waits has an entry of its own.
  int64_t Queued() { return server().Integer({"ZCARD", Auxiliary("queue")}); }
};

// Three clients and their semaphores.
class SemaphoreOfThree : public SemaphoreConformance {
 protected:
  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  const Client client_ = NewClient({}, {.observer = heard_});
  const Client other_ = NewClient();
  const Client third_ = NewClient();
  const std::unique_ptr<Semaphore> semaphore_ = NewSemaphore(client_);
  const std::unique_ptr<Semaphore> theirs_ = NewSemaphore(other_);
  const std::unique_ptr<Semaphore> thirds_ = NewSemaphore(third_);
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_SEMAPHORE_FIXTURE_H_
