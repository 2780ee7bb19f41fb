#ifndef REDLATCH_SRC_LOCK_STATE_SHARING_H_
#define REDLATCH_SRC_LOCK_STATE_SHARING_H_

namespace redlatch::internal {

// What the threads of one client have of each other's grants.
struct Sharing {
  bool passes_on = false;  // a grant goes from one thread to the next, each with a token of its own
  bool joins = false;      // they share a grant, each by a hold of its own
  bool counts = false;     // each acquisition is a grant of its own, at a machine of its own
  bool holds = true;       // false: there are none, as of a latch

  friend bool operator==(const Sharing&, const Sharing&) = default;
};

inline constexpr Sharing kExclusive{.passes_on = true};
inline constexpr Sharing kReaders{.joins = true};
inline constexpr Sharing kPermits{.counts = true};
inline constexpr Sharing kLatch{.holds = false};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_STATE_SHARING_H_
