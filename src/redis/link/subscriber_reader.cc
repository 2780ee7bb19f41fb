// Who reads a subscriber's connection: its thread, or in its place a guest, which is a thread that
// waits for a message and would otherwise be woken by it. On an idle machine that hop takes as long
// as the message itself.
//
//   reader     who                              becomes
//   kThread    the subscriber's thread          kGuest, where it sleeps in poll and somebody waits
//   kGuest     the only thread in Await()       kNobody, when that returns
//   kNobody    nobody, for a nap at most        kGuest, or kThread when the nap ends without one
//
// All that belongs to the reader passes on under `mu_`. Only the thread makes and ends connections:
// it may still be in poll on one when a guest has taken over.
#include "src/redis/link/subscriber.h"

namespace redlatch::redis {
namespace {

// How long a message may lie unread that nobody waits for.
constexpr absl::Duration kNap = absl::Milliseconds(50);

}  // namespace

uint32_t Subscriber::Await(base::Parker& parker, base::Instant deadline) {
  if (fork_guard_.InForkedChild()) return parker.ParkUntil(deadline);
  bool guest = false;
  {
    const base::MutexLock lock(mu_);
    ++waiting_;
    guest = BecomeGuest();
    // The last guest has left, and may still be counted: it did not know of this one.
    if (!guest && reader_ == Reader::kNobody && !recalled_) Recall();
  }
  if (guest) {
    while (!broken_ && parker.value() == base::Parker::kArmed && base::Now() < deadline) {
      Serve(&parker, deadline);
    }
    const base::MutexLock lock(mu_);
    Leave();
  }
  const uint32_t value = parker.ParkUntil(deadline);
  const base::MutexLock lock(mu_);
  --waiting_;
  return value;
}

// Not where others wait: they would depend on when this one leaves.
bool Subscriber::BecomeGuest() {
  if (!connected_ || waiting_ > 1) return false;
  const bool vacant = reader_ == Reader::kThread ? relievable_ : reader_ == Reader::kNobody;
  if (!vacant || recalled_) return false;
  reader_ = Reader::kGuest;
  ++guests_;
  return true;
}

void Subscriber::Leave() {
  reader_ = Reader::kNobody;
  if (sleeps_long_ || waiting_ > 1 || broken_ || !requests_.empty()) {
    Recall();
  } else if (relievable_) {
    wake_.Signal();  // it has not noticed that it was relieved, and would not nap but sleep
  }
}

void Subscriber::Recall() {
  recalled_ = true;
  back_.SignalOne();
  if (relievable_) wake_.Signal();
}

void Subscriber::WakeReader() {
  if (reader_ == Reader::kNobody) {
    Recall();
  } else {
    wake_.Signal();
  }
}

Readiness Subscriber::WaitAsGuest(Interest interest, base::Instant deadline, base::Parker& parker) {
  if (!parker.BeginPolling(wake_.fd())) return {};
  const Readiness ready = dialogue_.transport->Wait(interest, wake_.fd(), deadline);
  parker.EndPolling();
  if (ready.woken) wake_.Drain();
  return ready;
}

Readiness Subscriber::WaitAsThread(Interest interest, base::Instant deadline) {
  {
    const base::MutexLock lock(mu_);
    relievable_ = true;
  }
  const Readiness ready = dialogue_.transport->Wait(interest, wake_.fd(), deadline);
  const base::MutexLock lock(mu_);
  relievable_ = false;
  if (reader_ != Reader::kThread) {
    StayAway();
    return {};
  }
  if (ready.woken) wake_.Drain();  // under the lock: it may not be a guest's
  return ready;
}

// While guests come and go it naps, so that none of them has to wake it; while one stays it sleeps.
void Subscriber::StayAway() {
  uint64_t seen = 0;
  while (!recalled_ && !stopping_) {
    const uint64_t latest = guests_;
    sleeps_long_ = reader_ == Reader::kGuest && latest == seen;
    back_.WaitUntil(mu_, sleeps_long_ ? base::Instant::Infinite() : base::Now() + kNap);
    sleeps_long_ = false;
    if (reader_ == Reader::kNobody && guests_ == latest) break;
    seen = latest;
  }
  recalled_ = false;
  reader_ = Reader::kThread;
}

}  // namespace redlatch::redis
