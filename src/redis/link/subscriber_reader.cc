// Who reads a subscriber's connection: its thread, or in its place a guest, which is a thread that
// waits for a message and would otherwise be woken by it. On an idle machine that hop takes as long
// as the message itself.
//
//   reader     who                              becomes
//   kThread    the subscriber's thread          kGuest, where it sleeps in poll and somebody waits
//   kGuest     the only thread in Await()       kNobody, when that returns; kThread, if that sleeps
//                                               at the gate
//   kNobody    nobody, for a nap at most        kGuest, or kThread when the nap ends without one
//
// Once messages were attended to, the thread sleeps at a gate, which is shut while a guest reads:
// so it is not woken when guests come and go, and is there when they have gone.
//
// All that belongs to the reader passes on under `mu_`. Only the thread makes and ends connections:
// it may still be in poll on one when a guest has taken over.
#include <algorithm>

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
      const Awaited awaited = Prepare(deadline);
      if (!broken_) Take(WaitAsGuest(awaited, parker));
    }
    const base::MutexLock lock(mu_);
    Leave();
  }
  const uint32_t value = parker.ParkUntil(deadline);
  const base::MutexLock lock(mu_);
  --waiting_;
  return value;
}

void Subscriber::Look() {
  if (fork_guard_.InForkedChild()) return;
  Readiness ready;
  {
    const base::MutexLock lock(mu_);
    if (!connected_ || !Vacant()) return;
    ready = dialogue_.transport->Wait(dialogue_.read_wants, /*wake_fd=*/-1, base::Instant());
    if (!ready.Meets(dialogue_.read_wants)) return;
    ++waiting_;  // so that whoever comes meanwhile is not left without a reader
    recalled_ = false;
    reader_ = Reader::kGuest;
    ++guests_;
  }
  Take(ready);
  const base::MutexLock lock(mu_);
  Leave();
  --waiting_;
}

bool Subscriber::Vacant() const {
  return reader_ == Reader::kThread ? relievable_ : reader_ == Reader::kNobody;
}

// Not where others wait: they would depend on when this one leaves.
bool Subscriber::BecomeGuest() {
  if (!connected_ || waiting_ > 1) return false;
  if (!Vacant() || recalled_ || !wake_.Open()) return false;
  at_gate_ = at_gate_ && gate_.Shut();
  reader_ = Reader::kGuest;
  ++guests_;
  return true;
}

void Subscriber::Leave() {
  const bool due = broken_ || make_anew_ || ping_ || !requests_.empty() || !pending_.empty();
  if (at_gate_ && !due && gate_.Open()) {
    reader_ = Reader::kThread;
    return;
  }
  at_gate_ = false;
  reader_ = Reader::kNobody;
  const bool sleeps_long = nap_until_ && nap_until_->is_infinite();
  if (sleeps_long || attending_ > 0 || waiting_ > 1 || broken_ || !requests_.empty()) {
    Recall();
  } else if (relievable_) {
    thread_->Wake();  // it has not noticed that it was relieved, and would not nap but sleep
  }
}

void Subscriber::Attend(bool begins) {
  if (fork_guard_.InForkedChild()) return;
  const base::MutexLock lock(mu_);
  attending_ += begins ? 1 : -1;
  uses_gate_ = true;
  if (attending_ > 0 && reader_ == Reader::kNobody && !recalled_) Recall();
}

void Subscriber::Recall() {
  recalled_ = true;
  thread_->Wake();
}

void Subscriber::WakeReader() {
  if (reader_ == Reader::kNobody) {
    Recall();
  } else if (reader_ == Reader::kGuest) {
    wake_.Signal();
  } else {
    thread_->Wake();
  }
}

Readiness Subscriber::WaitAsGuest(const Awaited& awaited, base::Parker& parker) {
  if (!wake_.Open()) {
    Fail("no file descriptor is left (raise ulimit -n)");
    return {};
  }
  if (!parker.BeginPolling(wake_.fd())) return {};
  const Readiness ready = awaited.transport->Wait(awaited.interest, wake_.fd(), awaited.until);
  parker.EndPolling();
  if (ready.woken) wake_.Drain();
  return ready;
}

// Whether the thread, which goes to sleep, can do so at the gate: then it is relieved without being
// woken. Where nothing was ever attended to it naps in place of that, which takes no call of the
// system. It must have a ping to wake up for, which it has while there is a channel.
bool Subscriber::OpenGate(const Awaited& awaited) {
  if (!uses_gate_ || subscriptions_.empty() || awaited.interest != Interest::kRead ||
      !awaited.transport->full_duplex()) {
    return false;
  }
  const int connection = awaited.transport->BeginPoll(awaited.interest).fd;
  if (connection < 0) return false;
  return (gate_.watches(connection) && gate_.Open()) || gate_.Make(connection);
}

// Whether the thread leaves the reading to guests. While they come and go it naps, so that none of
// them has to wake it; while one stays it sleeps.
bool Subscriber::StaysAway(base::Instant now) {
  if (reader_ == Reader::kThread) return false;
  const bool nap_over = nap_until_ && *nap_until_ <= now;
  const bool same = guests_ == guests_at_nap_;
  if (recalled_ || (nap_over && same && reader_ == Reader::kNobody)) {
    recalled_ = false;
    nap_until_.reset();
    reader_ = Reader::kThread;
    return false;
  }
  if (nap_until_ && !nap_over) return true;
  const bool one_stays = nap_over && same && reader_ == Reader::kGuest;
  nap_until_ = one_stays ? base::Instant::Infinite() : now + kNap;
  guests_at_nap_ = guests_;
  return true;
}

}  // namespace redlatch::redis
