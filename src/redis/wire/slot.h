// Where a cluster keeps a key: one of 16,384 slots, each of which one primary serves.
#ifndef REDLATCH_SRC_REDIS_WIRE_SLOT_H_
#define REDLATCH_SRC_REDIS_WIRE_SLOT_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace redlatch::redis {

using Slot = uint16_t;
inline constexpr int kSlots = 16384;

// That of its hash tag, where it has one: what is between its first '{' and the next '}', unless
// that is nothing.
Slot SlotOf(std::string_view key);

// A hash tag in that slot, "{3cf}": the same for everybody, for ever, and of no use in names, since
// it is not known in advance. A channel that begins with it is where the keys of the slot are.
std::string TagOf(Slot slot);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_SLOT_H_
