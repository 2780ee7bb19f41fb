#ifndef REDLATCH_SRC_REDIS_WIRE_REPLY_PARSER_H_
#define REDLATCH_SRC_REDIS_WIRE_REPLY_PARSER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// The limits for replies. If a server exceeds one, the connection is given up. Arrays nest at most
// seven deep.
struct ReplyLimits {
  size_t bytes = size_t{64} << 20;    // one reply, encoded
  size_t elements = size_t{1} << 20;  // in all the arrays of one reply
};

// Splits a stream of bytes, RESP 2 or 3, into replies. It may be fed in pieces of any size.
//
// What RESP 3 adds is read as what RESP 2 has in its place: a map as an array of keys and values, a
// set as an array, a boolean as 1 or 0, a number that is no 64-bit integer as a string, a verbatim
// string without its format. Attributes are dropped. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyLimits limits = {}) : limits_(limits) {}

  // Takes bytes in, and appends the replies that are whole now. kDataLoss: the bytes are in
  // neither protocol or exceed a limit, or there is no memory for a reply. Every further call
  // returns the same error.
  absl::Status Take(std::string_view bytes, std::vector<Reply>& replies);

 private:
  static constexpr size_t kDeepest = 7;
  struct Refused;

  size_t ReadParts(std::string_view bytes, std::vector<Reply>& replies);
  size_t ReadPart(std::string_view bytes);
  size_t ReadText(std::string_view bytes, size_t header, std::string_view line);
  void ReadLine(char type, std::string_view line);
  void OpenArray(char type, std::string_view line);
  Reply& Innermost();
  Reply& Append();
  void Complete();
  absl::Status Lost(std::string_view why) noexcept;

  ReplyLimits limits_;
  absl::Status error_;
  std::string rest_;    // of the bytes: an incomplete part
  size_t scanned_ = 0;  // how much of it has no end of a line
  size_t needed_ = 0;   // how many bytes are needed to go on
  // The present reply.
  Reply reply_;
  bool whole_ = false;
  size_t bytes_ = 0;     // read so far
  size_t elements_ = 0;  // in its arrays, those to come too
  // The arrays that are open, from the outside in: each is the last element of the one before.
  struct Open {
    size_t left = 0;  // how many elements are still to come
    bool is_attribute = false;
  };
  std::array<Open, kDeepest> open_;
  size_t depth_ = 0;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_WIRE_REPLY_PARSER_H_
