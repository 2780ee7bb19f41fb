#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CHANCE_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CHANCE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {

// What a random schedule in virtual time is made of: chance, the time, and the tale of its events.
class ModelChance {
 public:
  using Instant = base::Instant;

  ModelChance(uint64_t seed, bool verbose) : verbose_(verbose), random_(seed) {
    faulty_ = !Chance(5);
    fast_ = Chance(2);
    drifting_ = Chance(3);
  }

  bool failed() const { return ::testing::Test::HasFailure(); }
  int events() const { return events_; }

 protected:
  static constexpr int64_t kStart = 1'000'000'000'000'000;
  static constexpr absl::Duration kLongestLease = absl::Seconds(1);

  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool Chance(int n) { return Pick(n) == 0; }

  template <typename... Args>
  void Say(const Args&... args) {
    ++events_;
    if (verbose_) {
      std::cerr << absl::StrCat((now_.nanos() - kStart) / 1000, " us: ", args...) << "\n";
    }
  }
  Instant now_ = Instant::FromNanos(kStart);
  bool faulty_ = false;
  bool fast_ = false;  // time passes
  bool drifting_ = false;

 private:
  const bool verbose_;
  std::mt19937_64 random_;
  int events_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_MODEL_CHANCE_H_
