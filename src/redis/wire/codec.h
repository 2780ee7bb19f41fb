// The wire format of Redis, RESP 2. hiredis reads it, and shows nowhere else.
#ifndef REDLATCH_SRC_REDIS_WIRE_CODEC_H_
#define REDLATCH_SRC_REDIS_WIRE_CODEC_H_

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/short_text.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

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
