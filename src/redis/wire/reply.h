#ifndef REDLATCH_SRC_REDIS_WIRE_REPLY_H_
#define REDLATCH_SRC_REDIS_WIRE_REPLY_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace redlatch::redis {

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

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_REPLY_H_
