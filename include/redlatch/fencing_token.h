// A number that grows with every exclusive acquisition of a lock: the proof of which holder came
// later.
#ifndef REDLATCH_FENCING_TOKEN_H_
#define REDLATCH_FENCING_TOKEN_H_

#include <compare>
#include <cstdint>

namespace redlatch {

// A number that lets a store reject stale writers. A process may be paused, lose its lock, and
// write when it continues. No lock service can prevent that, but the store can: it remembers the
// largest token that it has seen, and refuses a smaller one.
//
//   if (token < newest_seen) return Refused();
//   newest_seen = token;
//
// The tokens of a lock always grow. This holds even if the server has lost its data, as long as the
// server's clock (after a failover, the new server's clock) is not behind the last grant. Most
// numbers are never used.
class FencingToken {
 public:
  constexpr FencingToken() = default;  // 0: no token
  explicit constexpr FencingToken(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }

  friend constexpr auto operator<=>(FencingToken, FencingToken) = default;

 private:
  uint64_t value_ = 0;
};

}  // namespace redlatch

#endif  // REDLATCH_FENCING_TOKEN_H_
