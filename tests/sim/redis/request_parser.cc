#include "tests/sim/redis/request_parser.h"

#include <charconv>
#include <cstdint>

#include "tests/sim/redis/command.h"

namespace redlatch::sim {
namespace {

// Reads "<mark><number>\r\n" at `at`. Returns the place behind it; 0 if it is not complete.
size_t ReadNumber(std::string_view stream, size_t at, char mark, int64_t& number) {
  const size_t end = stream.find("\r\n", at);
  if (end == std::string_view::npos) return 0;
  const auto parsed = std::from_chars(stream.data() + at + 1, stream.data() + end, number);
  if (stream[at] != mark || parsed.ec != std::errc() || parsed.ptr != stream.data() + end ||
      number < 0) {
    const std::string_view line = stream.substr(at, end - at);
    Unknown("such a request", {&line, 1});
  }
  return end + 2;
}

}  // namespace

size_t ReadCommand(std::string_view stream, std::vector<std::string_view>& words) {
  words.clear();
  int64_t count = 0, length = 0;
  size_t at = ReadNumber(stream, 0, '*', count);
  for (int64_t i = 0; at != 0 && i < count; ++i) {
    at = ReadNumber(stream, at, '$', length);
    if (at == 0 || stream.size() < at + static_cast<size_t>(length) + 2) return 0;
    words.push_back(stream.substr(at, static_cast<size_t>(length)));
    at += static_cast<size_t>(length) + 2;
  }
  return at;
}

}  // namespace redlatch::sim
