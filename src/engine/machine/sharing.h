#ifndef REDLATCH_SRC_ENGINE_MACHINE_SHARING_H_
#define REDLATCH_SRC_ENGINE_MACHINE_SHARING_H_

#include <cstdint>

namespace redlatch::engine {

// What the threads of one client have of each other's holds.
enum class Sharing : uint8_t {
  kExclusive,  // a hold passes from one to the next
  kJoined,     // they share a hold, each by a hold of its own: readers
  kCounted,    // each acquisition is a hold of its own, at a machine of its own: permits
  kNothing,    // nothing is held: whoever waits is let through, all at once: a latch
};

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_MACHINE_SHARING_H_
