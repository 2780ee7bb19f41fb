#include "src/redis/url/url.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "src/redis/url/sentinels.h"
#include "src/redis/url/url_parts.h"

namespace redlatch::redis {
namespace {

constexpr size_t kMaxLength = 8192;

absl::Status ParseUserAndPassword(std::string_view text, Url* url) {
  if (text.empty()) return absl::OkStatus();
  if (text.find(' ') != std::string_view::npos) {
    return InvalidUrl({"there is a space in the user or the password; write it as %20"});
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return InvalidUrl(
        {"there is no ':' before the '@'; write user:password@, or :password@ for the default "
         "user"});
  }
  absl::StatusOr<std::string> user = PercentDecode(text.substr(0, colon), "the user");
  if (!user.ok()) return user.status();
  if (HasControlCharacter(*user) || user->find(' ') != std::string::npos) {
    return InvalidUrl({"the user contains a space or a control character"});
  }
  absl::StatusOr<std::string> password = PercentDecode(text.substr(colon + 1), "the password");
  if (!password.ok()) return password.status();
  url->user = *std::move(user);
  url->password = *std::move(password);
  return absl::OkStatus();
}

absl::Status ParsePath(std::string_view text, std::string_view part, Url* url) {
  absl::StatusOr<std::string> path = PercentDecode(text, part);
  if (!path.ok()) return path.status();
  if (HasControlCharacter(*path)) return InvalidUrl({part, " contains a control character"});
  if (path->size() > kMaxSocketPath) {
    return InvalidUrl({part, " has ", std::to_string(path->size()), " bytes; the limit is ",
                       std::to_string(kMaxSocketPath),
                       " (the address of a Unix socket holds 108, its final NUL included)"});
  }
  // One '/' leads: two, after "embedded:", would begin a host.
  const size_t name = path->find_first_not_of('/');
  if (name != std::string::npos && name > 1) path->erase(0, name - 1);
  url->path = *std::move(path);
  return absl::OkStatus();
}

// What follows the scheme and its ':'.
struct Parts {
  std::string_view user_and_password;
  std::string_view host_and_port;
  std::string_view path;
  std::string_view options;
};

absl::StatusOr<Parts> Split(std::string_view text) {
  Parts parts;
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    parts.host_and_port = text.substr(0, text.find_first_of("/?"));
    text.remove_prefix(parts.host_and_port.size());
  }
  if (text.find('@') != std::string_view::npos) {
    return InvalidUrl(
        {"there is an '@' after the first '/' or '?'; write these as %2F and %3F in a user or "
         "password, and write '@' as %40 in a path or option"});
  }
  if (const size_t at = parts.host_and_port.rfind('@'); at != std::string_view::npos) {
    parts.user_and_password = parts.host_and_port.substr(0, at);
    parts.host_and_port.remove_prefix(at + 1);
  }
  const size_t question = text.find('?');
  parts.path = text.substr(0, question);
  if (question != std::string_view::npos) parts.options = text.substr(question + 1);
  return parts;
}

absl::Status ParseTcp(const Parts& parts, Url* url) {
  if (absl::Status s = ParseHostAndPort(parts.host_and_port, url); !s.ok()) return s;
  if (parts.path.size() <= 1) return absl::OkStatus();
  return ParseUrlDatabase(parts.path.substr(1), "the database after the '/'", url);
}

absl::Status ParseSentinel(const Parts& parts, Url* url) {
  return ParseSentinels(parts.host_and_port, parts.path, url);
}

absl::Status ParseNodes(const Parts& parts, Url* url) {
  return ParseCluster(parts.host_and_port, parts.path, url);
}

absl::Status ParseUnix(const Parts& parts, Url* url) {
  if (!parts.host_and_port.empty() || parts.path.empty() || parts.path.front() != '/') {
    return InvalidUrl(
        {"the socket's path is not absolute; write, for example, unix:///run/redis.sock, or "
         "unix://user:password@/run/redis.sock"});
  }
  if (absl::Status s = ParsePath(parts.path, "the socket's path", url); !s.ok()) {
    return s;
  }
  if (url->path.back() == '/') return InvalidUrl({"the socket's path ends with a '/'"});
  return absl::OkStatus();
}

absl::Status ParseEmbedded(const Parts& parts, Url* url) {
  if (!parts.user_and_password.empty()) {
    return InvalidUrl(
        {"embedded: takes no user and no password; only this user can reach the server"});
  }
  if (!parts.host_and_port.empty() || (!parts.path.empty() && parts.path.front() != '/')) {
    return InvalidUrl(
        {"the directory is not absolute; write embedded: or embedded:/path/to/directory"});
  }
  if (absl::Status s = ParsePath(parts.path, "the directory", url); !s.ok()) {
    return s;
  }
  if (!url->path.empty() && url->path.find_first_not_of('/') == std::string::npos) {
    return InvalidUrl({"embedded: cannot use the root directory"});
  }
  return absl::OkStatus();
}

struct Scheme {
  std::string_view name;
  Url::Kind kind;
  absl::Status (*parse)(const Parts&, Url*);
  bool tls = false;
};

constexpr Scheme kSchemes[] = {
    {"redis", Url::Kind::kTcp, ParseTcp},
    {"rediss", Url::Kind::kTcp, ParseTcp, /*tls=*/true},
    {"unix", Url::Kind::kUnix, ParseUnix},
    {"embedded", Url::Kind::kEmbedded, ParseEmbedded},
    {"redis-sentinel", Url::Kind::kSentinel, ParseSentinel},
    {"redis-cluster", Url::Kind::kCluster, ParseNodes},
};

// A host and a port alone, which can be repeated: a name with a dot, an address or localhost.
bool IsBareServer(std::string_view text) {
  Url url;
  return text.find(':') != std::string_view::npos && ParseHostAndPort(text, &url).ok() &&
         (url.host == "localhost" || url.host.find_first_of(".:") != std::string::npos);
}

absl::Status NoScheme(std::string_view text) {
  if (IsBareServer(text)) {
    return InvalidUrl({"the scheme is missing; did you mean redis://", text, "?"});
  }
  return InvalidUrl(
      {"it has no scheme; write redis://host:6379, unix:///path/to/socket or embedded:"});
}

absl::Status CheckText(std::string_view text) {
  if (text.empty()) {
    return InvalidUrl({"it is empty; write, for example, redis://localhost:6379 or embedded:"});
  }
  if (text.size() > kMaxLength) {
    return InvalidUrl({"it has ", std::to_string(text.size()), " bytes; the limit is ",
                       std::to_string(kMaxLength)});
  }
  if (HasControlCharacter(text)) {
    return InvalidUrl(
        {"it contains a line break or another control character; percent-encode it in a user or "
         "password"});
  }
  if (text.front() == ' ' || text.back() == ' ') {
    return InvalidUrl(
        {"it begins or ends with a space; if that belongs to a path, write it as %20"});
  }
  if (text.find('#') != std::string_view::npos) {
    return InvalidUrl({"it contains a '#'; write that as %23"});
  }
  return absl::OkStatus();
}

std::string BracketedHost(const std::string& host) {
  if (host.find(':') == std::string::npos) return host;
  const size_t percent = host.find('%');
  if (percent == std::string::npos) return "[" + host + "]";
  return "[" + host.substr(0, percent) + "%25" + host.substr(percent + 1) + "]";
}

std::string HostsText(std::string text, const std::vector<HostAndPort>& hosts) {
  for (const HostAndPort& each : hosts) {
    if (!text.ends_with('/')) text.push_back(',');
    text += BracketedHost(each.host) + ":" + std::to_string(each.port);
  }
  return text;
}

absl::StatusOr<Url> ParseRest(std::string_view text, const Scheme& scheme) {
  const bool over_network = scheme.kind != Url::Kind::kUnix && scheme.kind != Url::Kind::kEmbedded;
  if (over_network && !text.starts_with("//")) {
    return InvalidUrl({"there is no '//' after ", scheme.name, ":; write, for example, ",
                       scheme.name, "://localhost:6379"});
  }
  absl::StatusOr<Parts> parts = Split(text);
  if (!parts.ok()) return parts.status();
  Url url;
  url.kind = scheme.kind;
  if (absl::Status s = scheme.parse(*parts, &url); !s.ok()) return s;
  if (absl::Status s = ParseUserAndPassword(parts->user_and_password, &url); !s.ok()) return s;
  if (absl::Status s = ParseUrlOptions(parts->options, scheme.tls, &url); !s.ok()) return s;
  return url;
}

}  // namespace

bool BeginsWithScheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string name = absl::AsciiStrToLower(Abseil(text.substr(0, colon)));
  return name == kQuorumScheme ||
         std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](const Scheme& scheme) { return name == scheme.name; });
}

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  if (absl::Status s = CheckText(text); !s.ok()) return s;
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return NoScheme(text);
  const std::string name = absl::AsciiStrToLower(Abseil(text.substr(0, colon)));
  const std::string_view rest = text.substr(colon + 1);
  if (name == kQuorumScheme) return ParseQuorum(rest);
  for (const Scheme& scheme : kSchemes) {
    if (name == scheme.name) return ParseRest(rest, scheme);
  }
  if (!rest.starts_with("//")) return NoScheme(text);
  return InvalidUrl(
      {"unknown scheme; known are redis://, rediss://, redis-sentinel://, redis-cluster://, "
       "unix://, embedded: and redlock:"});
}

Url UrlTowards(Url url, const HostAndPort& server) {
  url.kind = Url::Kind::kTcp;
  url.host = server.host;
  url.port = server.port;
  url.db = 0;
  url.sentinels = nullptr;
  url.nodes.clear();
  url.mapped.clear();
  return url;
}

std::string Url::DebugString() const {
  const std::string db_text = std::to_string(db);
  switch (kind) {
    case Kind::kTcp:
      return (tls != nullptr ? "rediss://" : "redis://") + BracketedHost(host) + ":" +
             std::to_string(port) + (db == 0 ? "" : "/" + db_text);
    case Kind::kUnix:
      return "unix://" + PercentEncodePath(path) + (db == 0 ? "" : "?db=" + db_text);
    case Kind::kEmbedded:
      return "embedded:" + PercentEncodePath(path);
    case Kind::kSentinel:
      return HostsText("redis-sentinel://", sentinels->options().hosts) + "/" +
             sentinels->options().primary + (tls != nullptr ? "?tls=on" : "") +
             (db == 0 ? "" : (tls != nullptr ? "&db=" : "?db=") + db_text);
    case Kind::kCluster:
      return HostsText("redis-cluster://", nodes) + (tls != nullptr ? "?tls=on" : "");
    case Kind::kQuorum: {
      std::string text;
      for (const Url& member : members) {
        text += (text.empty() ? "redlock:" : ",") + member.DebugString();
      }
      return text;
    }
  }
  return {};
}

std::string WithoutPasswords(std::string text) {
  constexpr std::string_view kEnds = " \"'";  // of what may be a URL
  for (const std::string_view before : {"://", "password="}) {
    const bool user = before == "://";
    for (size_t at = text.find(before); at != std::string::npos; at = text.find(before, at)) {
      at += before.size();
      size_t end = std::min(text.find_first_of(kEnds, at), text.size());
      if (user) {
        end = text.rfind('@', end - 1);
        const size_t colon = text.find(':', at);
        if (end == std::string::npos || end < at || end < colon) continue;
        at = colon + 1;
      } else {
        end = std::min(end, text.find('&', at));
      }
      text.replace(at, end - at, "***");
    }
  }
  return text;
}

}  // namespace redlatch::redis
