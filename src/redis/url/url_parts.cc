#include "src/redis/url/url_parts.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/ascii.h"

namespace redlatch::redis {
namespace {

// The digit's value, or -1.
int HexDigit(char c) {
  if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return -1;
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

}  // namespace

absl::Status InvalidUrl(std::initializer_list<std::string_view> why) {
  std::string message = "server URL: ";
  for (const std::string_view piece : why) message.append(piece);
  return absl::InvalidArgumentError(message);
}

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}

absl::StatusOr<std::string> PercentDecode(std::string_view text, std::string_view part) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded.push_back(text[i]);
      continue;
    }
    const bool whole = text.size() - i > 2;
    const int high = whole ? HexDigit(text[i + 1]) : -1;
    const int low = whole ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return InvalidUrl(
          {part, " contains a '%' without two hexadecimal digits; write '%' itself as %25"});
    }
    decoded.push_back(static_cast<char>(high << 4 | low));
    i += 2;
  }
  return decoded;
}

std::string PercentEncodePath(std::string_view path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : path) {
    if (IsNameChar(c) || c == '/' || c == '~') {
      encoded.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return encoded;
}

std::optional<int> ParseNumber(std::string_view text, int least, int most) {
  if (text.empty() || text.front() == '-') return std::nullopt;
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  if (number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace redlatch::redis
