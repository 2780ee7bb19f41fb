#ifndef REDLATCH_SRC_REDIS_WIRE_CODEC_H_
#define REDLATCH_SRC_REDIS_WIRE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "src/base/short_text.h"

namespace redlatch::redis {

// A cluster keeps each key in one of 16,384 slots. One primary serves a slot.

using Slot = uint16_t;
inline constexpr int kSlots = 16384;

// Returns the slot of a key's hash tag: the text between its first '{' and the next '}'. Without a
// tag, or if the tag is empty, the whole key counts.
Slot SlotOf(std::string_view key);

// Returns a hash tag in that slot, such as "{3cf}". It is the same in all clients and versions. A
// channel whose name begins with it is served by the node that has the keys of the slot.
std::string TagOf(Slot slot);

// A server's reply, as a value. An error reply is a Reply too: `ErrorStatus()` in errors.h makes a
// status of it.
struct Reply {
  enum class Type : uint8_t { kNil, kInteger, kString, kStatus, kError, kArray, kPush };

  Type type = Type::kNil;
  int64_t integer = 0;          // kInteger
  std::string text;             // kString, kStatus, kError
  std::vector<Reply> elements;  // kArray; kPush: a message, or what the server tells unasked

  bool is_error() const { return type == Type::kError; }
  bool is_nil() const { return type == Type::kNil; }
  bool is_array() const { return type == Type::kArray; }

  // For messages and tests: `["message", "c", 3]`. A long reply is cut.
  std::string DebugString() const;

  friend bool operator==(const Reply&, const Reply&) = default;
};

// Finds the value of a name in a list of names and values; empty if it is not there.
std::string_view ValueOf(const Reply& list, std::string_view name);

// Finds the value in a line "field:value" of INFO or CLUSTER INFO; empty if it is not there.
std::string_view InfoField(std::string_view info, std::string_view field);

// One command, encoded once. Its arguments may hold any bytes.
class Command {
 public:
  explicit Command(absl::Span<const std::string_view> args);
  Command(std::initializer_list<std::string_view> args)
      : Command(absl::MakeConstSpan(args.begin(), args.size())) {}

  std::string_view bytes() const { return bytes_.view(); }

 private:
  base::ShortText<1536> bytes_;  // enough for a script's call
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_CODEC_H_
