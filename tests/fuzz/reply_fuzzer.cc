// Any bytes make the same replies and the same end however they are cut, and no more of them than
// the limits allow.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/redis/wire/reply_parser.h"

namespace redlatch::redis {
namespace {

constexpr ReplyLimits kLimits = {.bytes = 512, .elements = 64};
constexpr int kDeepest = 7;

void Check(bool holds) {
  if (!holds) std::abort();
}

struct Size {
  size_t elements = 0;
  size_t bytes = 0;
  int depth = 0;
};

Size SizeOf(const Reply& reply) {
  Size size = {.bytes = reply.text.size()};
  for (const Reply& element : reply.elements) {
    const Size inner = SizeOf(element);
    size.elements += 1 + inner.elements;
    size.bytes += inner.bytes;
    size.depth = std::max(size.depth, inner.depth);
  }
  size.depth += reply.is_array() || reply.type == Reply::Type::kPush ? 1 : 0;
  return size;
}

void CheckReply(const Reply& reply) {
  const Size size = SizeOf(reply);
  Check(size.elements <= kLimits.elements);
  Check(size.bytes <= kLimits.bytes);
  Check(size.depth <= kDeepest);
  Check(reply.DebugString().size() < 8192);
}

struct Read {
  std::vector<Reply> replies;
  absl::StatusCode end = absl::StatusCode::kOk;
};

// Each piece is `cut(at)` bytes long.
template <typename Cut>
Read ReadCut(std::string_view bytes, Cut cut) {
  ReplyParser parser(kLimits);
  Read read;
  for (size_t at = 0; at < bytes.size();) {
    const std::string_view piece = bytes.substr(at, cut(at));
    const absl::Status status = parser.Take(piece, read.replies);
    read.end = status.code();
    if (!status.ok()) {
      Check(absl::IsDataLoss(status));
      Check(parser.Take({}, read.replies) == status);
      break;
    }
    at += piece.size();
  }
  for (const Reply& reply : read.replies) CheckReply(reply);
  return read;
}

void CheckSame(const Read& a, const Read& b) {
  Check(a.end == b.end);
  Check(a.replies == b.replies);
}

}  // namespace
}  // namespace redlatch::redis

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace redlatch::redis;  // NOLINT(google-build-using-namespace)
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Read whole = ReadCut(bytes, [&](size_t) { return bytes.size(); });
  CheckSame(whole, ReadCut(bytes, [](size_t) { return size_t{1}; }));
  CheckSame(whole, ReadCut(bytes, [&](size_t at) { return size_t{1} + data[at] % 16; }));
  return 0;
}
