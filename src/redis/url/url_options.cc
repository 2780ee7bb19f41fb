#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "src/redis/transport/tls.h"
#include "src/redis/url/sentinels.h"
#include "src/redis/url/url_parts.h"

namespace redlatch::redis {
namespace {

constexpr size_t kMaxClientName = 128;
constexpr size_t kMaxRepeatedName = 32;
constexpr absl::Duration kShortest = absl::Milliseconds(1);

absl::Status ParseDuration(std::string_view name, std::string_view text, absl::Duration longest,
                           absl::Duration* duration) {
  if (!absl::ParseDuration(Abseil(text), duration)) {
    return InvalidUrl({"the option ", name, " is not a duration such as 2s or 500ms"});
  }
  if (*duration < kShortest || *duration > longest) {
    return InvalidUrl(
        {"the option ", name, " is not between 1ms and ", absl::FormatDuration(longest)});
  }
  return absl::OkStatus();
}

absl::Status ParseClientName(std::string_view text, Url* url) {
  const bool graphic = std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!graphic || text.size() > kMaxClientName) {
    return InvalidUrl(
        {"the option name must be 1 to 128 printable ASCII characters without spaces, because "
         "CLIENT SETNAME requires that"});
  }
  url->client_name = text;
  return absl::OkStatus();
}

absl::Status ParseEviction(std::string_view text, Url* url) {
  if (text != "allow") return InvalidUrl({"the only value of the option eviction is allow"});
  url->allow_eviction = true;
  return absl::OkStatus();
}

absl::Status ParseDatabaseOption(std::string_view text, Url* url) {
  if (url->kind == Url::Kind::kTcp) {
    return InvalidUrl(
        {"the option db is for unix: and redis-sentinel: only; write, for example, "
         "redis://host:6379/3"});
  }
  if (url->kind == Url::Kind::kCluster) {
    return InvalidUrl({"the option db is not for redis-cluster:, where there is no other than 0"});
  }
  if (url->kind == Url::Kind::kEmbedded) {
    return InvalidUrl({"the option db is for unix: and redis-sentinel: only"});
  }
  return ParseUrlDatabase(text, "the option db", url);
}

absl::Status ParseIdleStop(std::string_view text, Url* url) {
  if (url->kind != Url::Kind::kEmbedded) {
    return InvalidUrl({"the option idle_stop is for embedded: only"});
  }
  return ParseDuration("idle_stop", text, absl::Hours(24 * 30), &url->idle_stop);
}

absl::Status ParseQuarantine(std::string_view text, Url* url) {
  if (url->kind == Url::Kind::kEmbedded) {
    return InvalidUrl({"the option quarantine is for servers that may be replaced, not embedded:"});
  }
  return ParseDuration("quarantine", text, absl::Hours(24), &url->quarantine);
}

absl::Status ParseRestartDelay(std::string_view text, Url* url) {
  if (url->kind == Url::Kind::kEmbedded) {
    return InvalidUrl({"the option restart_delay is for servers of a quorum, not embedded:"});
  }
  return ParseDuration("restart_delay", text, absl::Hours(24), &url->restart_delay);
}

// What the options say of TLS.
struct TlsDraft {
  bool spoken = false;
  TlsOptions options;
  std::string_view named;  // an option that means nothing without TLS
};

absl::Status ParseTls(std::string_view text, const Url& url, TlsDraft& draft) {
  if (url.kind == Url::Kind::kUnix || url.kind == Url::Kind::kEmbedded) {
    return InvalidUrl(
        {"the option tls is for redis://, rediss://, redis-sentinel:// and redis-cluster:// only"});
  }
  if (text != "on" && text != "insecure") {
    return InvalidUrl({"the option tls is neither on nor insecure (which takes any certificate)"});
  }
  draft.spoken = true;
  draft.options.insecure = text == "insecure";
  return absl::OkStatus();
}

std::string* TlsOptionOf(std::string_view name, TlsOptions& options) {
  if (name == "ca") return &options.ca;
  if (name == "cert") return &options.cert;
  if (name == "key") return &options.key;
  return name == "servername" ? &options.server_name : nullptr;
}

absl::Status FinishTls(TlsDraft draft, Url* url) {
  const TlsOptions& options = draft.options;
  if (!draft.spoken && !draft.named.empty()) {
    return InvalidUrl({"the option ", draft.named,
                       url->kind == Url::Kind::kTcp ? " is for TLS; write rediss://"
                                                    : " is for TLS; add tls=on"});
  }
  if (options.insecure && !(options.ca.empty() && options.server_name.empty())) {
    return InvalidUrl(
        {"tls=insecure takes any certificate, so ca and servername would check nothing; leave "
         "either these or tls=insecure out"});
  }
  if (options.server_name.starts_with('.')) {
    return InvalidUrl({"the option servername begins with a '.', and must be a whole name"});
  }
  if (options.cert.empty() && !options.key.empty()) {
    return InvalidUrl({"the option key is the key of a certificate; name that as well: cert=..."});
  }
  if (draft.spoken) url->tls = std::make_shared<Tls>(std::move(draft.options));
  return absl::OkStatus();
}

// `text` is a secret, perhaps.
absl::Status ParseSentinelOption(std::string_view name, std::string_view text, Url* url) {
  if (url->kind != Url::Kind::kSentinel) {
    return InvalidUrl({"the option ", name, " is for redis-sentinel: only"});
  }
  Sentinels::Options options = url->sentinels->options();
  if (name == "sentinel_tls") {
    if (text != "off") return InvalidUrl({"the only value of the option sentinel_tls is off"});
    options.tls = false;
  } else {
    if (name == "sentinel_user" &&
        (HasControlCharacter(text) || text.find(' ') != std::string_view::npos)) {
      return InvalidUrl({"the option sentinel_user contains a space or a control character"});
    }
    (name == "sentinel_user" ? options.user : options.password) = text;
  }
  url->sentinels = std::make_shared<Sentinels>(std::move(options));
  return absl::OkStatus();
}

absl::Status ParseMap(std::string_view text, Url* url) {
  if (url->kind != Url::Kind::kCluster) {
    return InvalidUrl({"the option map is for redis-cluster: only"});
  }
  for (const absl::string_view pair : absl::StrSplit(Abseil(text), ',')) {
    const std::vector<absl::string_view> both = absl::StrSplit(pair, '/');
    Url announced;
    Url reached;
    if (both.size() != 2 || !ParseHostAndPort({both[0].data(), both[0].size()}, &announced).ok() ||
        !ParseHostAndPort({both[1].data(), both[1].size()}, &reached).ok()) {
      return InvalidUrl(
          {"the option map is not a list such as 10.0.0.7:6379/127.0.0.1:7001, of addresses as "
           "nodes announce them and where they are reached"});
    }
    url->mapped.push_back({{.host = announced.host, .port = announced.port},
                           {.host = reached.host, .port = reached.port}});
  }
  return absl::OkStatus();
}

// What stands behind a password may be a part of it.
absl::Status UnknownOption(std::string_view name, bool behind_password) {
  const bool repeatable = !behind_password && name.size() <= kMaxRepeatedName &&
                          std::all_of(name.begin(), name.end(), IsNameChar);
  return InvalidUrl(
      {"unknown option ", repeatable ? name : "",
       behind_password ? "behind sentinel_password (write '&' in a password as %26)" : "",
       "; known are connect_timeout, command_timeout, name, quarantine, restart_delay, eviction, "
       "tls, ca, cert, "
       "key, servername (rediss: only), db (unix: and redis-sentinel: only), "
       "sentinel_user, sentinel_password, sentinel_tls (redis-sentinel: only), map "
       "(redis-cluster: only) and idle_stop (embedded: only); a password stands before the host, "
       "redis://:password@host"});
}

// kNotFound: there is no such option.
absl::Status SetOption(std::string_view name, std::string_view value, TlsDraft& tls, Url* url) {
  constexpr absl::Duration kLongest = absl::Hours(24);
  if (name == "connect_timeout") {
    return ParseDuration(name, value, kLongest, &url->connect_timeout);
  }
  if (name == "command_timeout") {
    return ParseDuration(name, value, kLongest, &url->command_timeout);
  }
  if (name == "name") return ParseClientName(value, url);
  if (name == "eviction") return ParseEviction(value, url);
  if (name == "db") return ParseDatabaseOption(value, url);
  if (name == "quarantine") return ParseQuarantine(value, url);
  if (name == "restart_delay") return ParseRestartDelay(value, url);
  if (name == "map") return ParseMap(value, url);
  if (name == "idle_stop") return ParseIdleStop(value, url);
  if (name == "sentinel_user" || name == "sentinel_password" || name == "sentinel_tls") {
    return ParseSentinelOption(name, value, url);
  }
  if (name == "tls") return ParseTls(value, *url, tls);
  if (std::string* const option = TlsOptionOf(name, tls.options)) {
    if (HasControlCharacter(value)) {
      return InvalidUrl({"the option ", name, " contains a control character"});
    }
    *option = value;
    tls.named = name;
    return absl::OkStatus();
  }
  return absl::NotFoundError("");
}

}  // namespace

absl::Status ParseUrlDatabase(std::string_view text, std::string_view part, Url* url) {
  const std::optional<int> db = ParseNumber(text, 0, std::numeric_limits<int>::max());
  if (!db) return InvalidUrl({part, " is not a number from 0 to 2147483647"});
  url->db = *db;
  return absl::OkStatus();
}

absl::Status ParseUrlOptions(std::string_view text, bool tls, Url* url) {
  TlsDraft draft{.spoken = tls, .options = {}, .named = {}};
  std::vector<std::string_view> seen;
  while (!text.empty()) {
    const size_t ampersand = text.find('&');
    const std::string_view option = text.substr(0, ampersand);
    text.remove_prefix(std::min(text.size(), option.size() + 1));
    const size_t equals = option.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == option.size()) {
      return InvalidUrl({"an option is not of the form name=value; separate options with '&'"});
    }
    const std::string_view name = option.substr(0, equals);
    absl::StatusOr<std::string> value =
        PercentDecode(option.substr(equals + 1), "the value of an option");
    if (!value.ok()) return value.status();
    absl::Status set = SetOption(name, *value, draft, url);
    if (absl::IsNotFound(set)) {
      return UnknownOption(name, !seen.empty() && seen.back() == "sentinel_password");
    }
    if (!set.ok()) return set;
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
      return InvalidUrl({"the option ", name, " is given twice"});
    }
    seen.push_back(name);
  }
  return FinishTls(std::move(draft), url);
}

}  // namespace redlatch::redis
