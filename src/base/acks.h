#ifndef REDLATCH_SRC_BASE_ACKS_H_
#define REDLATCH_SRC_BASE_ACKS_H_

#include <cstdint>

namespace redlatch::base {

// The places that a write must reach, besides the server's memory, before it counts. The struct is
// small because every grant has one.
struct AcksWanted {
  int16_t replicas = 0;
  bool fsync = false;  // the server's own disk

  bool any() const { return replicas > 0 || fsync; }
  friend bool operator==(const AcksWanted&, const AcksWanted&) = default;
};

// The places that a write has reached.
struct Acks {
  int16_t replicas = 0;
  bool synced = false;

  bool enough(const AcksWanted& wanted) const {
    return replicas >= wanted.replicas && (synced || !wanted.fsync);
  }
};

}  // namespace redlatch::base

#endif  // REDLATCH_SRC_BASE_ACKS_H_
