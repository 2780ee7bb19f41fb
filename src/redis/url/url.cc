#include "src/redis/url/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/words.h"
#include "src/redis/transport/tls.h"

namespace redlatch::redis {

std::vector<HostAndPort> Sentinels::Known() const {
  std::vector<HostAndPort> known = options_.hosts;
  const base::MutexLock lock(mu_);
  for (const HostAndPort& each : learned_) {
    if (std::find(known.begin(), known.end(), each) == known.end()) known.push_back(each);
  }
  return known;
}

void Sentinels::Learn(std::vector<HostAndPort> others) {
  if (others.empty()) return;
  if (others.size() > kMost) others.resize(kMost);
  const base::MutexLock lock(mu_);
  learned_ = std::move(others);
}

namespace {

constexpr std::string_view kQuorumScheme = "redlock";
constexpr size_t kMaxLength = 8192;
constexpr size_t kMaxHost = 253;  // the limit of domain names
constexpr size_t kMaxZone = 15;   // the limit of interface names
constexpr size_t kMaxClientName = 128;
constexpr size_t kMaxRepeatedName = 32;

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// Returns kInvalidArgument with these pieces as its message. None may come from a part of the URL
// that can hold a secret.
using Pieces = std::initializer_list<std::string_view>;
absl::Status InvalidUrl(Pieces why) {
  std::string message = "server URL: ";
  for (const std::string_view piece : why) message.append(piece);
  return absl::InvalidArgumentError(message);
}

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}
bool IsName(std::string_view text) { return std::all_of(text.begin(), text.end(), IsNameChar); }

bool HasControlCharacter(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}
bool HasSpaceOrControlCharacter(std::string_view text) {
  return HasControlCharacter(text) || text.find(' ') != text.npos;
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
  int number = 0;
  if (text.starts_with('-') || !base::ReadNumber(text, number)) return std::nullopt;
  if (number < least || number > most) return std::nullopt;
  return number;
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

constexpr unsigned Bit(Url::Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kUnix = Bit(Url::Kind::kUnix);
constexpr unsigned kEmbedded = Bit(Url::Kind::kEmbedded);
constexpr unsigned kSentinel = Bit(Url::Kind::kSentinel);
constexpr unsigned kCluster = Bit(Url::Kind::kCluster);
constexpr unsigned kNetwork = Bit(Url::Kind::kTcp) | kSentinel | kCluster;
constexpr unsigned kServers = kNetwork | kUnix;
constexpr unsigned kAny = kServers | kEmbedded;

// Parses one URL. Each function returns false after Fail(), which keeps the first error.
class Parser {
 public:
  absl::StatusOr<Url> Parse(std::string_view text) {
    if (!CheckText(text) || !ParseScheme(text)) return error_;
    return std::move(url_);
  }
  // Checks what holds for any URL.
  absl::Status Check(std::string_view text) {
    static_cast<void>(CheckText(text));
    return error_;
  }

  // Parses "host", "host:port", "[address]" or "[address]:port".
  bool ParseHostAndPort(std::string_view text, HostAndPort& at) {
    size_t colon = text.find(':');
    if (text.starts_with('[')) {
      const size_t bracket = text.find(']');
      if (bracket == text.npos) return Fail({"the host contains a '[' without a ']'"});
      if (!ParseIpv6(text.substr(1, bracket - 1), at.host)) return false;
      text.remove_prefix(bracket + 1);
      if (text.empty()) return true;
      if (text.front() != ':') return Fail({"only ':' and the port can follow the ']'"});
      colon = 0;
    } else {
      if (colon != text.rfind(':')) {
        return Fail(
            {"there is more than one ':' in host and port; put an IPv6 address in brackets, as in "
             "redis://[::1]:6379, and end a password with '@'"});
      }
      if (!ParseHostName(text.substr(0, colon), at.host)) return false;
    }
    if (colon == text.npos) return true;
    const std::optional<int> port = ParseNumber(text.substr(colon + 1), 1, 65535);
    if (!port) {
      return Fail(
          {"the port is not a number from 1 to 65535 (if you meant a user and a password, end them "
           "with '@': redis://user:password@host)"});
    }
    at.port = static_cast<uint16_t>(*port);
    return true;
  }

 private:
  using Kind = Url::Kind;
  // The parts after the scheme and its ':'.
  struct Parts {
    std::string_view user_and_password;
    std::string_view host_and_port;
    std::string_view path;
    std::string_view options;
  };
  struct Scheme {
    std::string_view name;
    Kind kind;
    bool (Parser::*parse)(const Parts&);
    bool tls = false;
  };
  struct Option {
    std::string_view name;
    unsigned kinds;          // a bit for each kind of URL that may have it
    std::string_view place;  // said if it is given for another one
    // One of these takes the value.
    bool (Parser::*set)(std::string_view value) = nullptr;
    absl::Duration Url::*duration = nullptr;
    int longest_hours = 24;
    std::string TlsOptions::*tls = nullptr;
  };
  static const Scheme kSchemes[6];
  static const Option kOptions[17];
  friend bool BeginsWithScheme(std::string_view text);

  bool Fail(Pieces why) {
    if (error_.ok()) error_ = InvalidUrl(why);
    return false;
  }

  bool Decode(std::string_view text, std::string_view part, std::string& decoded) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '%') {
        decoded.push_back(text[i]);
        continue;
      }
      const std::string_view digits = text.substr(i + 1, 2);
      unsigned value = 0;
      const char* const end = digits.data() + digits.size();
      const auto [stop, error] = std::from_chars(digits.data(), end, value, 16);
      if (digits.size() < 2 || error != std::errc() || stop != end) {
        return Fail(
            {part, " contains a '%' without two hexadecimal digits; write '%' itself as %25"});
      }
      decoded.push_back(static_cast<char>(value));
      i += 2;
    }
    return true;
  }

  // ---- Hosts and ports.

  bool ParseIpv6(std::string_view text, std::string& host) {
    const size_t percent = text.find('%');
    host = text.substr(0, percent);
    in6_addr ignored;
    if (inet_pton(AF_INET6, host.c_str(), &ignored) != 1) {
      return Fail(
          {"the brackets do not hold an IPv6 address; write, for example, redis://[::1]:6379"});
    }
    if (percent == text.npos) return true;
    std::string_view zone = text.substr(percent);
    const bool encoded = zone.starts_with("%25");
    zone.remove_prefix(encoded ? 3 : 1);
    if (!encoded || zone.empty() || zone.size() > kMaxZone || !IsName(zone)) {
      return Fail(
          {"the zone of the IPv6 address is not %25 and the name of an interface; write, for "
           "example, redis://[fe80::1%25eth0]:6379"});
    }
    host.append("%").append(zone);
    return true;
  }

  bool ParseHostName(std::string_view text, std::string& host) {
    if (text.empty())
      return Fail({"the host is empty; write, for example, redis://localhost:6379"});
    if (text.size() > kMaxHost) return Fail({"the host is longer than 253 characters"});
    if (text.find(',') != text.npos) {
      return Fail(
          {"the host contains a ','; redis:// names a single server (redis-sentinel:// several "
           "sentinels, redis-cluster:// several nodes)"});
    }
    if (!IsName(text)) {
      return Fail({"the host contains a character that is not allowed in a host name"});
    }
    host = text;
    return true;
  }

  // Parses "host:port,host:port". `port` is the default.
  bool ParseHosts(std::string_view text, uint16_t port, std::vector<HostAndPort>& hosts) {
    for (const absl::string_view each : absl::StrSplit(Abseil(text), ',')) {
      HostAndPort& one = hosts.emplace_back(HostAndPort{.host = {}, .port = port});
      if (!ParseHostAndPort({each.data(), each.size()}, one)) return false;
    }
    return true;
  }

  // ---- The kinds of URLs.

  bool ParseTcp(const Parts& parts) {
    HostAndPort at{.host = {}, .port = url_.port};
    if (!ParseHostAndPort(parts.host_and_port, at)) return false;
    url_.host = std::move(at.host);
    url_.port = at.port;
    return parts.path.size() <= 1 ||
           ParseDatabase(parts.path.substr(1), "the database after the '/'");
  }

  bool ParseCluster(const Parts& parts) {
    if (parts.path.size() > 1) {
      return Fail(
          {"there is something after the nodes; a cluster has no database but 0 (options come "
           "after a '?')"});
    }
    return ParseHosts(parts.host_and_port, url_.port, url_.nodes);
  }

  bool ParseSentinel(const Parts& parts) {
    if (!ParseHosts(parts.host_and_port, Sentinels::kPort, sentinels_.hosts)) return false;
    if (parts.path.size() <= 1) {
      return Fail(
          {"the name of the primary is missing, as its sentinels call it; write, for example, "
           "redis-sentinel://host1,host2,host3/mymaster"});
    }
    if (!Decode(parts.path.substr(1), "the primary's name", sentinels_.primary)) return false;
    // Sentinel itself accepts only these characters in the name of a primary.
    return IsName(sentinels_.primary) ||
           Fail({"the primary's name holds something else than letters, digits, '.', '-' and '_' "
                 "(the database is an option: db=2)"});
  }

  bool ParseUnix(const Parts& parts) {
    if (!parts.host_and_port.empty() || !parts.path.starts_with('/')) {
      return Fail(
          {"the socket's path is not absolute; write, for example, unix:///run/redis.sock, or "
           "unix://user:password@/run/redis.sock"});
    }
    if (!ParsePath(parts.path, "the socket's path")) return false;
    return url_.path.back() != '/' || Fail({"the socket's path ends with a '/'"});
  }

  bool ParseEmbedded(const Parts& parts) {
    if (!parts.user_and_password.empty()) {
      return Fail({"embedded: takes no user and no password; only this user can reach the server"});
    }
    if (!parts.host_and_port.empty() || (!parts.path.empty() && parts.path.front() != '/')) {
      return Fail(
          {"the directory is not absolute; write embedded: or embedded:/path/to/directory"});
    }
    if (!ParsePath(parts.path, "the directory")) return false;
    const bool root = !url_.path.empty() && url_.path.find_first_not_of('/') == std::string::npos;
    return !root || Fail({"embedded: cannot use the root directory"});
  }

  bool ParsePath(std::string_view text, std::string_view part) {
    if (!Decode(text, part, url_.path)) return false;
    if (HasControlCharacter(url_.path)) return Fail({part, " contains a control character"});
    if (url_.path.size() > kMaxSocketPath) {
      return Fail({part, " has ", std::to_string(url_.path.size()), " bytes; the limit is ",
                   std::to_string(kMaxSocketPath),
                   " (the address of a Unix socket holds 108, its final NUL included)"});
    }
    // Keeps one leading '/': after "embedded:", two would begin a host.
    const size_t name = url_.path.find_first_not_of('/');
    if (name != std::string::npos && name > 1) url_.path.erase(0, name - 1);
    return true;
  }

  bool ParseDatabase(std::string_view text, std::string_view part) {
    const std::optional<int> db = ParseNumber(text, 0, std::numeric_limits<int>::max());
    url_.db = db.value_or(0);
    return db || Fail({part, " is not a number from 0 to 2147483647"});
  }

  bool ParseUserAndPassword(std::string_view text) {
    if (text.empty()) return true;
    if (text.find(' ') != text.npos) {
      return Fail({"there is a space in the user or the password; write it as %20"});
    }
    const size_t colon = text.find(':');
    if (colon == text.npos) {
      return Fail(
          {"there is no ':' before the '@'; write user:password@, or :password@ for the default "
           "user"});
    }
    if (!Decode(text.substr(0, colon), "the user", url_.user)) return false;
    if (HasSpaceOrControlCharacter(url_.user)) {
      return Fail({"the user contains a space or a control character"});
    }
    return Decode(text.substr(colon + 1), "the password", url_.password);
  }

  // ---- Options.

  bool SetDuration(const Option& option, std::string_view value) {
    absl::Duration& duration = url_.*option.duration;
    if (!absl::ParseDuration(Abseil(value), &duration)) {
      return Fail({"the option ", option.name, " is not a duration such as 2s or 500ms"});
    }
    const absl::Duration longest = absl::Hours(option.longest_hours);
    return (duration >= absl::Milliseconds(1) && duration <= longest) ||
           Fail({"the option ", option.name, " is not between 1ms and ",
                 absl::FormatDuration(longest)});
  }

  bool SetName(std::string_view value) {
    const bool graphic = std::all_of(value.begin(), value.end(), [](char c) {
      return absl::ascii_isgraph(static_cast<unsigned char>(c));
    });
    url_.client_name = value;
    return (graphic && value.size() <= kMaxClientName) ||
           Fail({"the option name must be 1 to 128 printable ASCII characters without spaces, "
                 "because CLIENT SETNAME requires that"});
  }

  bool SetDatabase(std::string_view value) { return ParseDatabase(value, "the option db"); }

  bool SetEviction(std::string_view value) {
    url_.allow_eviction = value == "allow";
    return url_.allow_eviction || Fail({"the only value of the option eviction is allow"});
  }

  bool SetTls(std::string_view value) {
    speaks_tls_ = true;
    tls_.insecure = value == "insecure";
    return tls_.insecure || value == "on" ||
           Fail({"the option tls is neither on nor insecure (which takes any certificate)"});
  }

  bool SetMap(std::string_view value) {
    for (const absl::string_view pair : absl::StrSplit(Abseil(value), ',')) {
      const std::vector<absl::string_view> both = absl::StrSplit(pair, '/');
      auto& [announced, reached] = url_.mapped.emplace_back();
      announced.port = reached.port = Url().port;
      if (both.size() != 2 ||
          !Parser().ParseHostAndPort({both[0].data(), both[0].size()}, announced) ||
          !Parser().ParseHostAndPort({both[1].data(), both[1].size()}, reached)) {
        return Fail(
            {"the option map is not a list such as 10.0.0.7:6379/127.0.0.1:7001, of addresses as "
             "nodes announce them and where they are reached"});
      }
    }
    return true;
  }

  // A value may be a secret: no message repeats it.
  bool SetSentinelUser(std::string_view value) {
    sentinels_.user = value;
    return !HasSpaceOrControlCharacter(value) ||
           Fail({"the option sentinel_user contains a space or a control character"});
  }

  bool SetSentinelPassword(std::string_view value) {
    sentinels_.password = value;
    return true;
  }

  bool SetSentinelTls(std::string_view value) {
    sentinels_.tls = false;
    return value == "off" || Fail({"the only value of the option sentinel_tls is off"});
  }

  // `before`: the name of the option before it. No message repeats text that follows a password: it
  // may be a part of it.
  bool SetOption(std::string_view name, std::string_view value, std::string_view before) {
    std::string known;
    for (const Option& option : kOptions) {
      if (option.name != name) {
        known.append(known.empty() ? "" : ", ").append(option.name);
        continue;
      }
      if ((option.kinds & Bit(url_.kind)) == 0) return Fail({"the option ", name, option.place});
      if (option.duration != nullptr) return SetDuration(option, value);
      if (option.set != nullptr) return (this->*option.set)(value);
      tls_.*option.tls = value;
      tls_option_ = option.name;
      return !HasControlCharacter(value) ||
             Fail({"the option ", name, " contains a control character"});
    }
    const bool behind_password = before == "sentinel_password";
    const bool repeatable = !behind_password && name.size() <= kMaxRepeatedName && IsName(name);
    return Fail({"unknown option ", repeatable ? name : "",
                 behind_password ? "behind sentinel_password (write '&' in a password as %26)" : "",
                 "; known are ", known,
                 "; a password stands before the host, redis://:password@host"});
  }

  bool ParseOptions(std::string_view text) {
    std::vector<std::string_view> seen;
    while (!text.empty()) {
      const std::string_view option = text.substr(0, text.find('&'));
      text.remove_prefix(std::min(text.size(), option.size() + 1));
      const size_t equals = option.find('=');
      if (equals == 0 || equals == option.npos || equals + 1 == option.size()) {
        return Fail({"an option is not of the form name=value; separate options with '&'"});
      }
      const std::string_view name = option.substr(0, equals);
      std::string value;
      if (!Decode(option.substr(equals + 1), "the value of an option", value)) return false;
      if (!SetOption(name, value, seen.empty() ? "" : seen.back())) return false;
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        return Fail({"the option ", name, " is given twice"});
      }
      seen.push_back(name);
    }
    return FinishTls();
  }

  bool FinishTls() {
    if (!speaks_tls_ && !tls_option_.empty()) {
      return Fail(
          {"the option ", tls_option_,
           url_.kind == Kind::kTcp ? " is for TLS; write rediss://" : " is for TLS; add tls=on"});
    }
    if (tls_.insecure && !(tls_.ca.empty() && tls_.server_name.empty())) {
      return Fail(
          {"tls=insecure takes any certificate, so ca and servername would check nothing; leave "
           "either these or tls=insecure out"});
    }
    if (tls_.server_name.starts_with('.')) {
      return Fail({"the option servername begins with a '.', and must be a whole name"});
    }
    if (tls_.cert.empty() && !tls_.key.empty()) {
      return Fail({"the option key is the key of a certificate; name that as well: cert=..."});
    }
    if (speaks_tls_) url_.tls = std::make_shared<Tls>(std::move(tls_));
    return true;
  }

  // ---- The whole.

  bool CheckText(std::string_view text) {
    if (text.empty()) {
      return Fail({"it is empty; write, for example, redis://localhost:6379 or embedded:"});
    }
    if (text.size() > kMaxLength) {
      return Fail({"it has ", std::to_string(text.size()), " bytes; the limit is ",
                   std::to_string(kMaxLength)});
    }
    if (HasControlCharacter(text)) {
      return Fail(
          {"it contains a line break or another control character; percent-encode it in a user or "
           "password"});
    }
    if (text.front() == ' ' || text.back() == ' ') {
      return Fail({"it begins or ends with a space; if that belongs to a path, write it as %20"});
    }
    return text.find('#') == text.npos || Fail({"it contains a '#'; write that as %23"});
  }

  bool NoScheme(std::string_view text) {
    // A host and a port alone can be repeated: a name with a dot, an address or localhost.
    HostAndPort at;
    if (text.find(':') != text.npos && Parser().ParseHostAndPort(text, at) &&
        (at.host == "localhost" || at.host.find_first_of(".:") != std::string::npos)) {
      return Fail({"the scheme is missing; did you mean redis://", text, "?"});
    }
    return Fail({"it has no scheme; write redis://host:6379, unix:///path/to/socket or embedded:"});
  }

  bool Split(std::string_view text, Parts& parts) {
    if (text.starts_with("//")) {
      text.remove_prefix(2);
      parts.host_and_port = text.substr(0, text.find_first_of("/?"));
      text.remove_prefix(parts.host_and_port.size());
    }
    if (text.find('@') != text.npos) {
      return Fail(
          {"there is an '@' after the first '/' or '?'; write these as %2F and %3F in a user or "
           "password, and write '@' as %40 in a path or option"});
    }
    if (const size_t at = parts.host_and_port.rfind('@'); at != text.npos) {
      parts.user_and_password = parts.host_and_port.substr(0, at);
      parts.host_and_port.remove_prefix(at + 1);
    }
    parts.path = text.substr(0, text.find('?'));
    parts.options = text.substr(std::min(text.size(), parts.path.size() + 1));
    return true;
  }

  bool ParseScheme(std::string_view text) {
    const size_t colon = text.find(':');
    if (colon == text.npos) return NoScheme(text);
    const std::string name = absl::AsciiStrToLower(Abseil(text.substr(0, colon)));
    const std::string_view rest = text.substr(colon + 1);
    const auto* const scheme = std::find_if(std::begin(kSchemes), std::end(kSchemes),
                                            [&](const Scheme& each) { return each.name == name; });
    if (scheme == std::end(kSchemes)) {
      if (!rest.starts_with("//")) return NoScheme(text);
      return Fail(
          {"unknown scheme; known are redis://, rediss://, redis-sentinel://, redis-cluster://, "
           "unix://, embedded: and redlock:"});
    }
    url_.kind = scheme->kind;
    speaks_tls_ = scheme->tls;
    const bool over_network = url_.kind != Kind::kUnix && url_.kind != Kind::kEmbedded;
    if (over_network && !rest.starts_with("//")) {
      return Fail({"there is no '//' after ", scheme->name, ":; write, for example, ", scheme->name,
                   "://localhost:6379"});
    }
    Parts parts;
    if (!Split(rest, parts) || !(this->*scheme->parse)(parts) ||
        !ParseUserAndPassword(parts.user_and_password) || !ParseOptions(parts.options)) {
      return false;
    }
    if (url_.kind == Kind::kSentinel) url_.sentinels = std::make_shared<Sentinels>(sentinels_);
    return true;
  }

  absl::Status error_;
  Url url_;
  bool speaks_tls_ = false;
  TlsOptions tls_;
  std::string_view tls_option_;  // the last one that means nothing without TLS
  Sentinels::Options sentinels_;
};

constexpr std::string_view kOnlySentinel = " is for redis-sentinel: only";

const Parser::Option Parser::kOptions[17] = {
    {"connect_timeout", kAny, "", nullptr, &Url::connect_timeout},
    {"command_timeout", kAny, "", nullptr, &Url::command_timeout},
    {"name", kAny, "", &Parser::SetName},
    {"quarantine", kServers, " is for servers that may be replaced, not embedded:", nullptr,
     &Url::quarantine},
    {"restart_delay", kServers, " is for servers of a quorum, not embedded:", nullptr,
     &Url::restart_delay},
    {"eviction", kAny, "", &Parser::SetEviction},
    {"tls", kNetwork, " is for redis://, rediss://, redis-sentinel:// and redis-cluster:// only",
     &Parser::SetTls},
    {"ca", kAny, "", nullptr, nullptr, 0, &TlsOptions::ca},
    {"cert", kAny, "", nullptr, nullptr, 0, &TlsOptions::cert},
    {"key", kAny, "", nullptr, nullptr, 0, &TlsOptions::key},
    {"servername", kAny, "", nullptr, nullptr, 0, &TlsOptions::server_name},
    {"db", kUnix | kSentinel,
     " is for unix: and redis-sentinel: only; write, for example, redis://host:6379/3 (in a "
     "cluster, there is no other than 0)",
     &Parser::SetDatabase},
    {"sentinel_user", kSentinel, kOnlySentinel, &Parser::SetSentinelUser},
    {"sentinel_password", kSentinel, kOnlySentinel, &Parser::SetSentinelPassword},
    {"sentinel_tls", kSentinel, kOnlySentinel, &Parser::SetSentinelTls},
    {"map", kCluster, " is for redis-cluster: only", &Parser::SetMap},
    {"idle_stop", kEmbedded, " is for embedded: only", nullptr, &Url::idle_stop, 24 * 30},
};

const Parser::Scheme Parser::kSchemes[6] = {
    {"redis", Kind::kTcp, &Parser::ParseTcp},
    {"rediss", Kind::kTcp, &Parser::ParseTcp, /*tls=*/true},
    {"unix", Kind::kUnix, &Parser::ParseUnix},
    {"embedded", Kind::kEmbedded, &Parser::ParseEmbedded},
    {"redis-sentinel", Kind::kSentinel, &Parser::ParseSentinel},
    {"redis-cluster", Kind::kCluster, &Parser::ParseCluster},
};

bool BeginsWithScheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return false;
  const std::string name = absl::AsciiStrToLower(Abseil(text.substr(0, colon)));
  return name == kQuorumScheme ||
         std::any_of(std::begin(Parser::kSchemes), std::end(Parser::kSchemes),
                     [&](const auto& scheme) { return name == scheme.name; });
}

// Splits at the commas that a scheme follows. Other commas belong to a URL.
std::vector<std::string> SplitUrls(std::string_view text) {
  std::vector<std::string> members;
  while (!text.empty()) {
    size_t end = text.find(',');
    while (end != text.npos && !BeginsWithScheme(text.substr(end + 1))) {
      end = text.find(',', end + 1);
    }
    members.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return members;
}

}  // namespace

bool IsHost(std::string_view text) {
  constexpr size_t kLongest = 255;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return IsNameChar(c) || c == ':' || c == '%'; });
}

std::string HostAndPort::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  const size_t colon = text.find(':');
  const bool quorum = colon != text.npos && text.size() <= kMaxLength &&
                      absl::AsciiStrToLower(Abseil(text.substr(0, colon))) == kQuorumScheme;
  if (!quorum) return Parser().Parse(text);
  if (absl::Status problem = Parser().Check(text); !problem.ok()) return problem;
  std::vector<Url> members;
  for (const std::string& each : MembersOf(text)) {
    absl::StatusOr<Url> member = ParseUrl(each);
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
  }
  return QuorumOf(std::move(members));
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
  constexpr std::string_view kEnds = " \"'";  // they end a URL in a text
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

std::vector<std::string> MembersOf(std::string_view quorum) {
  return SplitUrls(quorum.substr(quorum.find(':') + 1));
}

std::string AsQuorum(std::string_view member) {
  return std::string(kQuorumScheme).append(":").append(member);
}

absl::StatusOr<Url> QuorumOf(std::vector<Url> members) {
  constexpr size_t kMostMembers = 64;
  if (members.empty() || members.size() > kMostMembers) {
    return InvalidUrl(
        {"a quorum has 1 to 64 servers; write, for example, "
         "redlock:redis://a,redis://b,redis://c"});
  }
  Url url;
  url.kind = Url::Kind::kQuorum;
  url.restart_delay = members.front().restart_delay;
  url.client_name = members.front().client_name;
  url.command_timeout = url.connect_timeout = absl::ZeroDuration();
  for (const Url& member : members) {
    if (member.kind == Url::Kind::kQuorum) {
      return InvalidUrl({"a quorum's server is a quorum; name the servers themselves"});
    }
    if (member.restart_delay != url.restart_delay) {
      return InvalidUrl(
          {"the option restart_delay differs between servers of a quorum; say the "
           "same for each"});
    }
    if (member.quarantine > absl::ZeroDuration()) {
      return InvalidUrl({"the option quarantine is not for servers of a quorum; restart_delay is"});
    }
    const auto same = std::count_if(members.begin(), members.end(), [&](const Url& other) {
      return other.DebugString() == member.DebugString();
    });
    if (same > 1) {
      return InvalidUrl({member.DebugString(), " is in the quorum twice; name each server once"});
    }
    url.command_timeout = std::max(url.command_timeout, member.command_timeout);
    url.connect_timeout = std::max(url.connect_timeout, member.connect_timeout);
  }
  url.members = std::move(members);
  return url;
}

}  // namespace redlatch::redis
