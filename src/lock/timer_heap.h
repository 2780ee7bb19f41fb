#ifndef REDLATCH_SRC_LOCK_TIMER_HEAP_H_
#define REDLATCH_SRC_LOCK_TIMER_HEAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/atomic.h"
#include "src/base/clock.h"

namespace redlatch::internal {

struct Entry;

// The time at which an Entry is due. Guarded by its heap's mutex, except `at`, which any thread may
// read.
struct Timer {
  explicit Timer(Entry& owner) : entry(owner) {}

  // Returns false if the timer is set to that moment or an earlier one. Timers are never moved
  // later: an entry that is served too early sets its timer again.
  bool IsAfter(base::Instant moment) const {
    return moment.nanos() < at.load(std::memory_order_relaxed);
  }

  Entry& entry;
  base::Atomic<int64_t> at{base::Instant::Infinite().nanos()};
  size_t index = kNowhere;

  static constexpr size_t kNowhere = ~size_t{0};
};

// Timers of entries, the earliest on top. Guarded by its owner's mutex.
class TimerHeap {
 public:
  base::Instant next() const {
    return heap_.empty() ? base::Instant::Infinite() : At(*heap_.front());
  }

  // Reserves memory for that many timers, so that SetEarlier() needs none.
  void MakeRoom(size_t timers) {
    if (heap_.capacity() < timers) heap_.reserve(2 * timers);
  }

  // Moves a timer to an earlier moment. Returns true if it is now the first one.
  bool SetEarlier(Timer& timer, base::Instant moment) {
    if (!timer.IsAfter(moment)) return false;
    if (timer.index == Timer::kNowhere) {
      timer.index = heap_.size();
      heap_.push_back(&timer);
    }
    timer.at.store(moment.nanos(), std::memory_order_relaxed);
    Rise(timer.index);
    return heap_.front() == &timer;
  }

  // Removes the first timer and returns its entry if it is due by `moment`; otherwise returns null.
  Entry* PopDue(base::Instant moment) {
    if (heap_.empty() || moment < At(*heap_.front())) return nullptr;
    Timer& first = *heap_.front();
    Remove(first);
    return &first.entry;
  }

  void Remove(Timer& timer) {
    if (timer.index == Timer::kNowhere) return;
    const size_t hole = timer.index;
    Timer& last = *heap_.back();
    heap_.pop_back();
    if (&last != &timer) {
      Put(last, hole);
      Rise(hole);
      Sink(last.index);
    }
    timer.index = Timer::kNowhere;
    timer.at.store(base::Instant::Infinite().nanos(), std::memory_order_relaxed);
  }

 private:
  static base::Instant At(const Timer& timer) {
    return base::Instant::FromNanos(timer.at.load(std::memory_order_relaxed));
  }
  bool Before(size_t a, size_t b) const { return At(*heap_[a]) < At(*heap_[b]); }
  void Put(Timer& timer, size_t index) {
    heap_[index] = &timer;
    timer.index = index;
  }
  void Swap(size_t a, size_t b) {
    Timer& first = *heap_[a];
    Put(*heap_[b], a);
    Put(first, b);
  }
  void Rise(size_t index) {
    for (; index > 0 && Before(index, (index - 1) / 2); index = (index - 1) / 2) {
      Swap(index, (index - 1) / 2);
    }
  }
  void Sink(size_t index) {
    for (size_t child = 2 * index + 1; child < heap_.size(); child = 2 * index + 1) {
      if (child + 1 < heap_.size() && Before(child + 1, child)) ++child;
      if (!Before(child, index)) return;
      Swap(index, child);
      index = child;
    }
  }

  std::vector<Timer*> heap_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_TIMER_HEAP_H_
