#ifndef REDLATCH_TESTS_SIM_RANDOM_H_
#define REDLATCH_TESTS_SIM_RANDOM_H_

#include <cstddef>
#include <cstdint>

namespace redlatch::sim {

// The only source of randomness in a run: SplitMix64. Equal seeds give equal runs. A fuzzer
// supplies bytes instead, each of which makes one decision; after the last one, a seed made of them
// is used.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  Random(const uint8_t* bytes, size_t size) : bytes_(bytes), left_(size) {
    for (size_t i = 0; i < size; ++i) state_ = (state_ ^ bytes[i]) * 0x100000001b3;
  }

  uint64_t Bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Returns a number below `bound`, which is not 0.
  uint64_t Below(uint64_t bound) {
    if (left_ > 0 && bound <= 256) {
      --left_;
      return *bytes_++ * bound >> 8;
    }
    return static_cast<uint64_t>((__uint128_t{Bits()} * bound) >> 64);
  }
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low) + 1));
  }
  bool OneIn(uint64_t n) { return n != 0 && Below(n) == 0; }
  // Random numbers for a part of the run that must not change the others.
  Random Fork() { return Random(Bits()); }

 private:
  uint64_t state_ = 0xcbf29ce484222325;
  const uint8_t* bytes_ = nullptr;
  size_t left_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_RANDOM_H_
