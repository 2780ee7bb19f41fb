// What the parts of a URL are read and refused with. Used by url.cc and url_options.cc alone.
#ifndef REDLATCH_SRC_REDIS_URL_URL_TEXT_H_
#define REDLATCH_SRC_REDIS_URL_URL_TEXT_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace redlatch::redis {

inline absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// kInvalidArgument with these pieces as its message. None may come from a part of the URL that can
// hold a secret.
absl::Status InvalidUrl(std::initializer_list<std::string_view> why);

// A letter or digit, '-', '_' or '.'.
bool IsNameChar(char c);

// NUL is one.
bool HasControlCharacter(std::string_view text);

// `part` names what `text` is, for the message.
absl::StatusOr<std::string> PercentDecode(std::string_view text, std::string_view part);

// Leaves '/' as it is.
std::string PercentEncodePath(std::string_view path);

// Decimal digits and nothing else, of a number within the bounds.
std::optional<int> ParseNumber(std::string_view text, int least, int most);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_URL_TEXT_H_
