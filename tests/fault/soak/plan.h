// What the soak's processes and their parent agree upon.
#ifndef REDLATCH_TESTS_FAULT_SOAK_PLAN_H_
#define REDLATCH_TESTS_FAULT_SOAK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/history_check/history_event.h"

namespace redlatch::soak {

// Locks are numbers; the even ones are simple, the odd ones reentrant.
constexpr int kLocks = 4;
constexpr absl::Duration kShortestLease = absl::Milliseconds(300);

inline std::string NameOf(int lock) { return absl::StrCat("soak-", lock); }

inline std::unique_ptr<RedisLockBase> MakeLock(const Client& client, int lock,
                                               LockOptions options = {}) {
  if (lock % 2 == 0) return std::make_unique<SimpleLock>(client, NameOf(lock), std::move(options));
  return std::make_unique<ReentrantLock>(client, NameOf(lock), std::move(options));
}

// Draws that a seed repeats.
class Dice {
 public:
  explicit Dice(uint64_t seed) : bits_(seed) {}

  int Below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Below(n) == 0; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const int64_t span = absl::ToInt64Microseconds(high - low) + 1;
    return low + absl::Microseconds(static_cast<int64_t>(bits_() % static_cast<uint64_t>(span)));
  }
  uint64_t Seed() { return bits_(); }

 private:
  std::mt19937_64 bits_;
};

inline int64_t FromEnvironment(const char* name, int64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : std::strtoll(value, nullptr, 10);
}

// Of the environment, or any; said, so that it can be repeated.
inline uint64_t SeedOfRun() {
  const auto seed = static_cast<uint64_t>(FromEnvironment(
      "REDLATCH_SOAK_SEED", static_cast<int64_t>(base::RandomBits() % 1'000'000'000)));
  std::printf("REDLATCH_SOAK_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

// Fails the test with what is wrong with the history, but for what is allowed, which is printed.
inline void ExpectTrue(
    const history::History& history, const std::function<bool(const history::Violation&)>& allowed =
                                         [](const auto&) { return false; }) {
  constexpr int kShown = 10;
  int failures = 0;
  const history::HistoryChecker checker = history::Judge(history);
  for (const history::Violation& violation : checker.violations()) {
    std::string words = violation.words;
    for (const uint64_t line : violation.lines) {
      absl::StrAppend(&words, "\n    ", history.Words(line));
    }
    if (allowed(violation)) {
      std::printf("%s\n", words.c_str());
    } else if (++failures <= kShown) {
      ADD_FAILURE() << words;
    }
  }
  EXPECT_LE(failures, kShown);
}

// The time for which a lock is held or a fault lasts: what is paced here, nothing waits for.
inline void Pass(absl::Duration time) { base::Parker().ParkUntil(base::Now() + time); }

}  // namespace redlatch::soak

#endif  // REDLATCH_TESTS_FAULT_SOAK_PLAN_H_
