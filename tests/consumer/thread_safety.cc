// Code that clang's -Wthread-safety accepts, and with REDLATCH_MISUSE code of which it warns:
// ./dev thread-safety compiles both.
#include <chrono>
#include <mutex>
#include <shared_mutex>

#include "redlatch/multi_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"

using namespace std::chrono_literals;

void Guards(redlatch::SimpleLock& lock, redlatch::ReentrantReadWriteLock& read_write,
            redlatch::MultiLock& several) {
  { const std::scoped_lock guard(lock, several); }
  {
    std::unique_lock guard(lock, std::defer_lock);
    if (guard.try_lock()) guard.unlock();
  }
  { const std::shared_lock reading(read_write); }
  { const std::scoped_lock reading(read_write.read_lock()); }
  { const std::scoped_lock writing(read_write.write_lock()); }
}

void ByHand(redlatch::SimpleLock& lock, redlatch::ReentrantReadWriteLock& read_write) {
  lock.lock();
  lock.unlock();
  if (lock.try_lock()) lock.unlock();
  if (lock.try_lock_for(5s)) lock.unlock();
  if (read_write.try_lock_shared_until(std::chrono::steady_clock::now())) {
    read_write.unlock_shared();
  }
}

#ifdef REDLATCH_MISUSE
void NotHeld(redlatch::SimpleLock& lock) { lock.unlock(); }
void NotReleased(redlatch::SimpleLock& lock) { lock.lock(); }
void TakenTwice(redlatch::SimpleLock& lock) {
  lock.lock();
  lock.lock();
  lock.unlock();
}
#endif
