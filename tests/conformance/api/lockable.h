// std's named requirements of what can be locked, as concepts.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_LOCKABLE_H_
#define REDLATCH_TESTS_CONFORMANCE_API_LOCKABLE_H_

#include <concepts>

#include "tests/support/testing.h"

namespace redlatch::conformance {

template <class L>
concept BasicLockable = requires(L& lock) {
  { lock.lock() } -> std::same_as<void>;
  { lock.unlock() } -> std::same_as<void>;
  requires noexcept(lock.unlock());
};
template <class L>
concept Lockable = BasicLockable<L> && requires(L& lock) {
  { lock.try_lock() } -> std::same_as<bool>;
};
template <class L>
concept TimedLockable = Lockable<L> && requires(L& lock) {
  { lock.try_lock_for(std::chrono::nanoseconds(1)) } -> std::same_as<bool>;
  { lock.try_lock_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { lock.try_lock_for(std::chrono::hours(1)) } -> std::same_as<bool>;
  { lock.try_lock_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
  { lock.try_lock_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};
template <class L>
concept SharedTimedLockable = requires(L& lock) {
  { lock.lock_shared() } -> std::same_as<void>;
  { lock.try_lock_shared() } -> std::same_as<bool>;
  { lock.unlock_shared() } -> std::same_as<void>;
  requires noexcept(lock.unlock_shared());
  { lock.try_lock_shared_for(std::chrono::nanoseconds(1)) } -> std::same_as<bool>;
  { lock.try_lock_shared_for(std::chrono::duration<double>(0.5)) } -> std::same_as<bool>;
  { lock.try_lock_shared_for(std::chrono::hours(1)) } -> std::same_as<bool>;
  { lock.try_lock_shared_until(std::chrono::steady_clock::now()) } -> std::same_as<bool>;
  { lock.try_lock_shared_until(std::chrono::system_clock::now()) } -> std::same_as<bool>;
};
template <class L>
concept Unmovable = !std::copyable<L> && !std::movable<L>;

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_LOCKABLE_H_
