#include "src/cli/term/outcome.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "src/base/utf8.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr size_t kLongestLine = 8000;

}  // namespace

void Complain(std::initializer_list<std::string_view> parts) {
  std::string line = "redlatch: ";
  for (const std::string_view part : parts) line += part;
  for (char& byte : line) {
    if (byte == '\n' || byte == '\r') byte = ' ';
  }
  line = base::Shown(redis::WithoutPasswords(std::move(line)), kLongestLine) + '\n';
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

int Refuse(const absl::Status& why) {
  const std::string message(why.message());
  if (absl::IsUnavailable(why)) {
    Complain({message, message.ends_with('?') ? " " : "; ",
              "set the server with --server or $REDLATCH_URL"});
    return kUnreachable;
  }
  Complain({message});
  if (absl::IsNotFound(why)) return kNo;
  const bool wrong_usage = absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return wrong_usage ? kFailure : kRefused;
}

}  // namespace redlatch::cli
