// Any arguments are encoded so that an independent reader, and ReplyParser, read the same ones
// back.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/redis/wire/reply_parser.h"

namespace redlatch::redis {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// The data is a list of arguments: a length byte, then so many bytes of the rest. Long arguments
// come of repeating one.
std::vector<std::string> ArgumentsOf(std::string_view data) {
  std::vector<std::string> args;
  while (!data.empty()) {
    const auto length = static_cast<uint8_t>(data.front());
    data.remove_prefix(1);
    const std::string_view arg = data.substr(0, length % 64);
    data.remove_prefix(arg.size());
    std::string& made = args.emplace_back();
    for (int times = 0; times <= (length < 192 ? 0 : 300); ++times) made.append(arg);
  }
  return args;
}

// Takes "<type><number>\r\n".
size_t TakeNumber(char type, std::string_view* bytes) {
  const size_t end = bytes->find("\r\n");
  Check(end != std::string_view::npos && end > 1 && bytes->front() == type);
  const size_t number = std::stoul(std::string(bytes->substr(1, end - 1)));
  bytes->remove_prefix(end + 2);
  return number;
}

std::vector<std::string> Decode(std::string_view bytes) {
  std::vector<std::string> args;
  for (size_t left = TakeNumber('*', &bytes); left > 0; --left) {
    const size_t size = TakeNumber('$', &bytes);
    Check(bytes.substr(size, 2) == "\r\n");
    args.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size + 2);
  }
  Check(bytes.empty());
  return args;
}

std::vector<std::string> Parse(std::string_view bytes) {
  ReplyParser parser;
  std::vector<Reply> replies;
  Check(parser.Take(bytes, replies).ok() && replies.size() == 1 && replies[0].is_array());
  std::vector<std::string> args;
  for (const Reply& element : replies[0].elements) {
    Check(element.type == Reply::Type::kString);
    args.push_back(element.text);
  }
  return args;
}

}  // namespace
}  // namespace redlatch::redis

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace redlatch::redis;  // NOLINT(google-build-using-namespace)
  const std::vector<std::string> args = ArgumentsOf({reinterpret_cast<const char*>(data), size});
  const Command command(std::vector<std::string_view>(args.begin(), args.end()));
  Check(Decode(command.bytes()) == args);
  Check(Parse(command.bytes()) == args);
  return 0;
}
