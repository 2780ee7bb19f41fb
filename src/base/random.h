#ifndef REDLATCH_SRC_BASE_RANDOM_H_
#define REDLATCH_SRC_BASE_RANDOM_H_

#include <atomic>
#include <bit>
#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "src/base/atomic.h"

namespace redlatch::base {

// Returns random bits from the kernel. fork() would copy the state of a generator in this process,
// and parent and child would then draw the same numbers.
uint64_t RandomBits();
// Returns 32 random hexadecimal digits.
std::string RandomHex();

// Generates the ids of one client. Thread-safe.
class Numbers {
 public:
  struct Key {
    uint64_t low;
    uint64_t high;
  };
  explicit Numbers(const Key& key = {RandomBits(), RandomBits()}) : key_(key) {}

  // Returns a new number that is easy to guess.
  uint64_t Next() { return count_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Returns a new number of 62 bits, never 0, which cannot be guessed even from many others. It is
  // the SipHash of a counter under a key from the kernel: some 50 ns, and no system call.
  uint64_t NextSecret() { return Secret(key_, Next()); }
  static constexpr uint64_t Secret(const Key& key, uint64_t count) {
    const uint64_t secret = SipHash(key, count) >> 2U;
    return secret == 0 ? 1 : secret;
  }
  // Returns the SipHash-2-4 of the eight bytes of `number`.
  static constexpr uint64_t SipHash(const Key& key, uint64_t number) {
    uint64_t a = key.low ^ 0x736f6d6570736575U;
    uint64_t b = key.high ^ 0x646f72616e646f6dU;
    uint64_t c = key.low ^ 0x6c7967656e657261U;
    uint64_t d = key.high ^ 0x7465646279746573U;
    const auto mix = [&](int rounds) {
      for (; rounds > 0; --rounds) {
        a += b, b = std::rotl(b, 13) ^ a, a = std::rotl(a, 32);
        c += d, d = std::rotl(d, 16) ^ c;
        a += d, d = std::rotl(d, 21) ^ a;
        c += b, b = std::rotl(b, 17) ^ c, c = std::rotl(c, 32);
      }
    };
    for (const uint64_t word : {number, uint64_t{8} << 56U}) {  // the number, and its length
      d ^= word;
      mix(2);
      a ^= word;
    }
    c ^= 0xff;
    mix(4);
    return a ^ b ^ c ^ d;
  }

 private:
  const Key key_;
  Atomic<uint64_t> count_{0};
};

// Returns a random duration between half of `d` and `d`.
absl::Duration Jittered(absl::Duration d);

// Jittered delays that double from `first` to `longest`.
class Backoff {
 public:
  constexpr Backoff(absl::Duration first, absl::Duration longest)
      : first_(first), longest_(longest), next_(first) {}
  absl::Duration Next();
  void Reset() { next_ = first_; }

 private:
  absl::Duration first_;
  absl::Duration longest_;
  absl::Duration next_;
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_RANDOM_H_
