// Mutex and CondVar: std's own, with Clang's thread safety annotations.
//
// absl::Mutex has the annotations too, but Debian's Abseil is not built for ThreadSanitizer, which
// then reports false races. redlatch runs under TSan without suppressions.
#ifndef REDLATCH_SRC_BASE_MUTEX_H_
#define REDLATCH_SRC_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "src/base/clock.h"
#include "src/base/no_cancellation.h"

namespace redlatch::base {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }
  // For a function that clang's analysis does not see through: its caller has locked the mutex.
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mutex_.try_lock(); }

  // For a forked child: returns false if a thread of the parent held this mutex at the fork. Then
  // the mutex stays locked forever, and what it guards may be half-changed.
  bool IsFree() ABSL_LOCKS_EXCLUDED(this) {
    if (!TryLock()) return false;
    Unlock();
    return true;
  }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const NoCancellation no_cancellation;
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    cv_.wait(held);
    held.release();
  }

  // May return early, like every condition wait: the caller checks its condition and the clock.
  void WaitUntil(Mutex& mutex, Instant deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (deadline.is_infinite()) return Wait(mutex);
    const NoCancellation no_cancellation;
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    cv_.wait_for(held, std::chrono::nanoseconds(absl::ToInt64Nanoseconds(SleepUntil(deadline))));
    held.release();
  }

  void SignalOne() { cv_.notify_one(); }
  void SignalAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_MUTEX_H_
