// Any text is refused, or read as a URL that keeps every promise of url.h.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// NUL is a control character.
void CheckNoControls(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    Check(byte >= 0x20 && byte != 0x7f);
  }
}

void CheckVisible(std::string_view text) {
  CheckNoControls(text);
  Check(text.find(' ') == std::string_view::npos);
}

void CheckTimeout(absl::Duration d) {
  Check(d >= absl::Milliseconds(1) && d <= absl::Hours(24 * 30));
}

void CheckUrl(const Url& url) {
  CheckVisible(url.host);
  CheckNoControls(url.path);
  CheckVisible(url.user);
  CheckVisible(url.client_name);
  CheckTimeout(url.connect_timeout);
  CheckTimeout(url.command_timeout);
  CheckTimeout(url.idle_stop);
  Check(url.db >= 0);
  Check(url.port > 0);
  Check(url.host.empty() == (url.kind != Url::Kind::kTcp));
  Check(url.path.size() <= kMaxSocketPath);
  Check(url.path.empty() || url.path.front() == '/');
  Check(url.kind != Url::Kind::kUnix || !url.path.empty());
  Check(url.kind != Url::Kind::kTcp || url.path.empty());
}

// What is shown depends on the server alone, and names it exactly.
void CheckDebugString(const Url& url) {
  Url bare = {.kind = url.kind};
  bare.host = url.host;
  bare.port = url.port;
  bare.path = url.path;
  bare.db = url.db;
  const std::string shown = url.DebugString();
  Check(shown == bare.DebugString());
  const absl::StatusOr<Url> again = ParseUrl(shown);
  Check(again.ok() && *again == bare);
}

// Of this text in place of a password nothing is ever shown.
void CheckSecret(std::string_view text) {
  constexpr std::string_view kSecret = "hunter2-%41hunter2";
  const size_t half = text.size() / 2;
  const std::string url = "redis://" + std::string(text.substr(0, half)) + ":" +
                          std::string(kSecret) + std::string(text.substr(half)) + "@host/1";
  const absl::StatusOr<Url> parsed = ParseUrl(url);
  const std::string shown = parsed.ok() ? parsed->DebugString() : parsed.status().ToString();
  Check(shown.find("hunter2") == std::string::npos);
}

}  // namespace
}  // namespace redlatch::redis

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace redlatch::redis;  // NOLINT(google-build-using-namespace)
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<Url> url = ParseUrl(text);
  if (url.ok()) {
    CheckUrl(*url);
    CheckDebugString(*url);
  } else {
    Check(absl::IsInvalidArgument(url.status()) || absl::IsUnimplemented(url.status()));
    Check(!url.status().message().empty());
  }
  CheckSecret(text);
  return 0;
}
