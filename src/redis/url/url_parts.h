// The parts of ParseUrl(), and what they read and refuse with: nobody else uses them.
#ifndef REDLATCH_SRC_REDIS_URL_URL_PARTS_H_
#define REDLATCH_SRC_REDIS_URL_URL_PARTS_H_

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/redis/url/url.h"

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

// "host", "host:port", "[address]" or "[address]:port", into the URL.
absl::Status ParseHostAndPort(std::string_view text, Url* url);

// "host:port,host:port", both as above, and what follows the '/': a primary's name.
absl::Status ParseSentinels(std::string_view hosts, std::string_view path, Url* url);

// "host:port,host:port", and what follows the '/', which is to be nothing.
absl::Status ParseCluster(std::string_view hosts, std::string_view path, Url* url);

// Of a quorum: "redlock:", and one URL behind the other.
inline constexpr std::string_view kQuorumScheme = "redlock";
absl::StatusOr<Url> ParseQuorum(std::string_view urls);
// Whether the text may be a URL.
bool BeginsWithScheme(std::string_view text);

// "name=value&name=value", still percent-encoded, into `url`, whose kind is set. `tls`: its scheme
// says that TLS is spoken.
absl::Status ParseUrlOptions(std::string_view text, bool tls, Url* url);

// Part of options and paths alike; `part` names it.
absl::Status ParseUrlDatabase(std::string_view text, std::string_view part, Url* url);

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_URL_PARTS_H_
