// The pieces of 11-asynchronous.md, and a program that runs them.
#include <atomic>
#include <functional>
#include <stop_token>
#include <utility>

#include "docs/code/expect.h"

// [callback]
#include "absl/status/statusor.h"
#include "redlatch/simple_lock.h"

void Reserve(redlatch::SimpleLock& lock, std::function<void(const absl::Status&)> done) {
  lock.AcquireAsync({.wait = absl::Seconds(5)}, [done](absl::StatusOr<redlatch::Lease> lease) {
    if (!lease.ok()) return done(lease.status());  // kDeadlineExceeded: it was taken for 5 s
    // ... what the lock is for
    lease->ReleaseAsync(done);
  });
}
// [/callback]

// [cancel]
#include <stop_token>

class Request {
 public:
  void Begin(redlatch::SimpleLock& lock) {
    lock.AcquireAsync({.stop = stop_.get_token()}, [this](absl::StatusOr<redlatch::Lease> lease) {
      ended_with_ = lease.status();
      ended_ = true;
    });
  }
  // The callback soon gets kCancelled, or the lease, if that was faster.
  void Cancel() { stop_.request_stop(); }
  bool ended() const { return ended_; }
  const absl::Status& ended_with() const { return ended_with_; }

 private:
  std::stop_source stop_;
  absl::Status ended_with_;
  std::atomic<bool> ended_{false};
};
// [/cancel]

// [others]
#include "redlatch/count_down_latch.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"

void AllKinds(redlatch::ReentrantReadWriteLock& prices, redlatch::Semaphore& slots,
              redlatch::CountDownLatch& imported, std::function<void(const absl::Status&)> done) {
  prices.AcquireReadAsync(
      {}, [done](absl::StatusOr<redlatch::Lease> reading) { done(reading.status()); });
  slots.AcquireAsync(2, {}, [done](absl::StatusOr<redlatch::Permit> two) { done(two.status()); });
  imported.WaitAsync({}, [done](const absl::Status& open) { done(open); });
}
// [/others]

int main() {
  const redlatch::Client client = Connected();
  redlatch::SimpleLock lock(client, "orders:42");
  std::atomic<int> told{0};
  const auto await_told = [&](int times) {
    for (int now = told; now < times; now = told) told.wait(now);
  };
  const auto tell = [&](const absl::Status& status) {
    ExpectOk(status);
    ++told;
    told.notify_all();
  };
  Reserve(lock, tell);
  await_told(1);

  absl::StatusOr<redlatch::Lease> lease = lock.Acquire();
  ExpectOk(lease.status());
  Request request;
  request.Begin(lock);
  Expect(!request.ended());
  request.Cancel();
  while (!request.ended()) {
  }
  Expect(absl::IsCancelled(request.ended_with()));
  ExpectOk(lease->Release());

  redlatch::ReentrantReadWriteLock prices(client, "prices");
  redlatch::Semaphore slots(client, "slots", 2);
  redlatch::CountDownLatch imported(client, "imported", 1);
  AllKinds(prices, slots, imported, tell);
  ExpectOk(imported.CountDown());
  await_told(4);
}
