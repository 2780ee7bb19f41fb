#ifndef REDLATCH_SRC_REDIS_WIRE_CODEC_H_
#define REDLATCH_SRC_REDIS_WIRE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/short_text.h"

namespace redlatch::redis {

// Where a cluster keeps a key: one of 16,384 slots, each of which one primary serves.

using Slot = uint16_t;
inline constexpr int kSlots = 16384;

// That of its hash tag, where it has one: what is between its first '{' and the next '}', unless
// that is nothing.
Slot SlotOf(std::string_view key);

// A hash tag in that slot, "{3cf}": the same for everybody, for ever, and of no use in names, since
// it is not known in advance. A channel that begins with it is where the keys of the slot are.
std::string TagOf(Slot slot);

// What a server answered, as a value. An error reply is a Reply too: `ErrorStatus()` in errors.h
// makes a status of it.
struct Reply {
  enum class Type : uint8_t { kNil, kInteger, kString, kStatus, kError, kArray };

  Type type = Type::kNil;
  int64_t integer = 0;          // kInteger
  std::string text;             // kString, kStatus, kError
  std::vector<Reply> elements;  // kArray

  bool is_error() const { return type == Type::kError; }
  bool is_nil() const { return type == Type::kNil; }
  bool is_array() const { return type == Type::kArray; }

  // For messages and tests: `["message", "c", 3]`, cut where it gets long.
  std::string DebugString() const;

  friend bool operator==(const Reply&, const Reply&) = default;
};

// In a list of names and values; empty where the name is not there.
std::string_view ValueOf(const Reply& list, std::string_view name);

// Of a line "field:value" in the answer to INFO, or CLUSTER INFO; empty where there is none.
std::string_view InfoField(std::string_view info, std::string_view field);

// The wire format of Redis, RESP 2. hiredis reads it, and shows nowhere else.

// One command, encoded once. Bytes of any kind may stand in its arguments.
class Command {
 public:
  explicit Command(absl::Span<const std::string_view> args);
  Command(std::initializer_list<std::string_view> args)
      : Command(absl::MakeConstSpan(args.begin(), args.size())) {}

  std::string_view bytes() const { return bytes_.view(); }

 private:
  base::ShortText<1536> bytes_;  // enough for a script's call
};

// What a server may send before the connection is given up. Arrays nest at most seven deep.
struct ReplyLimits {
  size_t bytes = size_t{64} << 20;    // one reply, encoded
  size_t elements = size_t{1} << 20;  // in all the arrays of one reply
};

// Makes replies of a stream of bytes, however it is cut. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyLimits limits = {});
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;
  ~ReplyParser();

  void Feed(std::string_view bytes);

  // The next whole reply; nothing where more bytes are needed; kDataLoss where the bytes are not
  // RESP 2 or pass a limit. The stream is lost then: every further call returns the same error.
  absl::StatusOr<std::optional<Reply>> Next();
  // Appends all of them. An error as Next()'s, also where there is no memory for one.
  absl::Status Take(std::vector<Reply>& replies);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_CODEC_H_
