#include "src/redis/url/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
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

constexpr std::string_view kQuorumScheme = "redlock:";
constexpr size_t kMaxLength = 8192;
constexpr size_t kMaxHost = 253;  // the limit of domain names
constexpr size_t kMaxZone = 15;   // the limit of interface names
constexpr size_t kMaxClientName = 128;
constexpr size_t kMaxRepeatedName = 32;

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}
bool IsName(std::string_view text) { return std::ranges::all_of(text, IsNameChar); }

bool HasControlCharacter(std::string_view text) {
  return std::ranges::any_of(
      text, [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); });
}
bool HasSpaceOrControlCharacter(std::string_view text) {
  return HasControlCharacter(text) || text.find(' ') != text.npos;
}

std::string PercentEncodePath(std::string_view path) {
  std::string encoded;
  for (const char c : path) {
    if (IsNameChar(c) || c == '/' || c == '~') {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

// A zone, as in "fe80::1%eth0", is the only part with a '%'.
std::string PercentEncode(const std::vector<HostAndPort>& hosts) {
  const auto add = [](std::string* text, const HostAndPort& each) { text->append(each.text()); };
  return absl::StrReplaceAll(absl::StrJoin(hosts, ",", add), {{"%", "%25"}});
}

constexpr unsigned Bit(Url::Kind kind) { return 1U << static_cast<unsigned>(kind); }
constexpr unsigned kUnix = Bit(Url::Kind::kUnix);
constexpr unsigned kSentinel = Bit(Url::Kind::kSentinel);
constexpr unsigned kCluster = Bit(Url::Kind::kCluster);
constexpr unsigned kNetwork = Bit(Url::Kind::kTcp) | kSentinel | kCluster;
constexpr unsigned kServers = kNetwork | kUnix;
constexpr unsigned kAny = kServers | Bit(Url::Kind::kEmbedded);

// Parses one URL. Each function goes on after a requirement that is not met, since only the first
// of them is reported.
class Parser {
  using Kind = Url::Kind;

 public:
  struct Scheme {
    std::string_view name;  // with its ':'
    Kind kind;
    void (Parser::*parse)();  // null for a quorum
    bool tls = false;
  };
  // Returns the scheme that a text begins with, or null.
  static const Scheme* FindScheme(std::string_view text) {
    const auto* const found = std::ranges::find_if(kSchemes, [&](const Scheme& scheme) {
      return absl::StartsWithIgnoreCase(Abseil(text), Abseil(scheme.name));
    });
    return found == std::end(kSchemes) ? nullptr : found;
  }

  absl::StatusOr<Url> Parse(std::string_view text) {
    CheckText(text);
    if (!error_.ok()) return error_;
    const Scheme* const scheme = FindScheme(text);
    if (scheme == nullptr) {
      RefuseScheme(text);
    } else if (scheme->kind == Kind::kQuorum) {
      return ParseQuorum(text);
    } else {
      ParseServers(*scheme, text.substr(scheme->name.size()));
    }
    if (!error_.ok()) return error_;
    return std::move(url_);
  }

  absl::StatusOr<Url> Join(std::vector<Url> members) {
    constexpr size_t kMostMembers = 64;
    Require(!members.empty() && members.size() <= kMostMembers,
            "a quorum has 1 to 64 servers; write, for example, "
            "redlock:redis://a,redis://b,redis://c");
    if (!error_.ok()) return error_;
    url_.kind = Kind::kQuorum;
    url_.restart_delay = members.front().restart_delay;
    url_.client_name = members.front().client_name;
    url_.command_timeout = url_.connect_timeout = absl::ZeroDuration();
    std::set<std::string> names;
    for (const Url& member : members) {
      Require(member.kind != Kind::kQuorum,
              "a quorum's server is a quorum; name the servers themselves");
      Require(
          member.restart_delay == url_.restart_delay,
          "the option restart_delay differs between servers of a quorum; say the same for each");
      Require(member.quarantine == absl::ZeroDuration(),
              "the option quarantine is not for servers of a quorum; restart_delay is");
      const std::string name = member.DebugString();
      Require(names.insert(name).second, name, " is in the quorum twice; name each server once");
      url_.command_timeout = std::max(url_.command_timeout, member.command_timeout);
      url_.connect_timeout = std::max(url_.connect_timeout, member.connect_timeout);
    }
    url_.members = std::move(members);
    if (!error_.ok()) return error_;
    return std::move(url_);
  }

 private:
  struct Option {
    std::string_view name;
    void (Parser::*set)(std::string_view name, std::string_view value);
    unsigned kinds = kAny;        // a bit for each kind of URL that may have it
    std::string_view place = {};  // said if it is given for another one
  };
  static const Scheme kSchemes[7];
  static const Option kOptions[17];

  // `why`: the pieces of the message. None may come from a part of the URL that can hold a secret.
  template <class... Pieces>
  void Require(bool met, const Pieces&... why) {
    if (met || !error_.ok()) return;
    std::string message = "server URL: ";
    (message.append(why), ...);
    error_ = absl::InvalidArgumentError(message);
  }

  std::string Decode(std::string_view text, std::string_view part) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
      auto byte = static_cast<unsigned char>(text[i]);
      if (byte == '%') {
        const std::string_view digits = text.substr(i + 1, 2);
        Require(digits.size() == 2 && base::ReadNumber(digits, byte, 16), part,
                " contains a '%' without two hexadecimal digits; write '%' itself as %25");
        i += 2;
      }
      decoded.push_back(static_cast<char>(byte));
    }
    return decoded;
  }

  // ---- Hosts and ports.

  std::string ParseIpv6(std::string_view text) {
    std::string_view zone = text.substr(std::min(text.find('%'), text.size()));
    std::string host(text.substr(0, text.size() - zone.size()));
    in6_addr ignored;
    Require(inet_pton(AF_INET6, host.c_str(), &ignored) == 1,
            "the brackets do not hold an IPv6 address; write, for example, redis://[::1]:6379");
    if (zone.empty()) return host;
    const bool encoded = zone.starts_with("%25");
    zone.remove_prefix(encoded ? 3 : 1);
    Require(encoded && !zone.empty() && zone.size() <= kMaxZone && IsName(zone),
            "the zone of the IPv6 address is not %25 and the name of an interface; write, for "
            "example, redis://[fe80::1%25eth0]:6379");
    return host.append("%").append(zone);
  }

  // Parses "host", "host:port", "[address]" or "[address]:port". `port` is the default.
  HostAndPort ParseHostAndPort(std::string_view text, uint16_t port) {
    HostAndPort at{.host = {}, .port = port};
    size_t colon = std::min(text.find(':'), text.size());
    if (text.starts_with('[')) {
      const size_t bracket = std::min(text.find(']'), text.size() - 1);
      Require(text[bracket] == ']', "the host contains a '[' without a ']'");
      at.host = ParseIpv6(text.substr(1, bracket - 1));
      colon = bracket + 1;
      Require(colon == text.size() || text[colon] == ':',
              "only ':' and the port can follow the ']'");
    } else {
      Require(colon == std::min(text.rfind(':'), text.size()),
              "there is more than one ':' in host and port; put an IPv6 address in brackets, as in "
              "redis://[::1]:6379, and end a password with '@'");
      at.host = text.substr(0, colon);
      Require(!at.host.empty(), "the host is empty; write, for example, redis://localhost:6379");
      Require(at.host.size() <= kMaxHost, "the host is longer than 253 characters");
      Require(at.host.find(',') == std::string::npos,
              "the host contains a ','; redis:// names a single server (redis-sentinel:// several "
              "sentinels, redis-cluster:// several nodes)");
      Require(IsName(at.host), "the host contains a character that is not allowed in a host name");
    }
    if (colon < text.size()) {
      Require(base::ReadNumber(text.substr(colon + 1), at.port) && at.port != 0,
              "the port is not a number from 1 to 65535 (if you meant a user and a password, end "
              "them with '@': redis://user:password@host)");
    }
    return at;
  }

  // Parses "host:port,host:port". `port` is the default.
  std::vector<HostAndPort> ParseHosts(std::string_view text, uint16_t port) {
    std::vector<HostAndPort> hosts;
    for (const absl::string_view each : absl::StrSplit(Abseil(text), ',')) {
      hosts.push_back(ParseHostAndPort({each.data(), each.size()}, port));
    }
    return hosts;
  }

  // ---- The kinds of URLs.

  void ParseTcp() {
    HostAndPort at = ParseHostAndPort(host_and_port_, url_.port);
    url_.host = std::move(at.host);
    url_.port = at.port;
    if (path_.size() > 1) ParseDatabase(path_.substr(1), "the database after the '/'");
  }

  void ParseCluster() {
    Require(path_.size() <= 1,
            "there is something after the nodes; a cluster has no database but 0 (options come "
            "after a '?')");
    url_.nodes = ParseHosts(host_and_port_, url_.port);
  }

  void ParseSentinel() {
    sentinels_.hosts = ParseHosts(host_and_port_, Sentinels::kPort);
    Require(path_.size() > 1,
            "the name of the primary is missing, as its sentinels call it; write, for example, "
            "redis-sentinel://host1,host2,host3/mymaster");
    sentinels_.primary = Decode(path_.substr(path_.empty() ? 0 : 1), "the primary's name");
    // Sentinel itself accepts only these characters in the name of a primary.
    Require(IsName(sentinels_.primary),
            "the primary's name holds something else than letters, digits, '.', '-' and '_' (the "
            "database is an option: db=2)");
  }

  void ParseUnix() {
    Require(host_and_port_.empty() && path_.starts_with('/'),
            "the socket's path is not absolute; write, for example, unix:///run/redis.sock, or "
            "unix://user:password@/run/redis.sock");
    ParsePath("the socket's path");
    Require(!url_.path.ends_with('/'), "the socket's path ends with a '/'");
  }

  void ParseEmbedded() {
    Require(user_and_password_.empty(),
            "embedded: takes no user and no password; only this user can reach the server");
    Require(host_and_port_.empty() && (path_.empty() || path_.front() == '/'),
            "the directory is not absolute; write embedded: or embedded:/path/to/directory");
    ParsePath("the directory");
    Require(url_.path.empty() || url_.path.find_first_not_of('/') != std::string::npos,
            "embedded: cannot use the root directory");
  }

  void ParsePath(std::string_view part) {
    std::string& path = url_.path;
    path = Decode(path_, part);
    Require(!HasControlCharacter(path), part, " contains a control character");
    Require(path.size() <= kMaxSocketPath, part, " has ", std::to_string(path.size()),
            " bytes; the limit is ", std::to_string(kMaxSocketPath),
            " (the address of a Unix socket holds 108, its final NUL included)");
    // Keeps one leading '/': after "embedded:", two would begin a host.
    const size_t name = path.find_first_not_of('/');
    if (name != std::string::npos && name > 1) path.erase(0, name - 1);
  }

  void ParseDatabase(std::string_view text, std::string_view part) {
    Require(!text.starts_with('-') && base::ReadNumber(text, url_.db), part,
            " is not a number from 0 to 2147483647");
  }

  void ParseUserAndPassword() {
    if (user_and_password_.empty()) return;
    Require(user_and_password_.find(' ') == std::string_view::npos,
            "there is a space in the user or the password; write it as %20");
    Require(user_and_password_.find(':') != std::string_view::npos,
            "there is no ':' before the '@'; write user:password@, or :password@ for the default "
            "user");
    url_.user = Decode(base::TakeWord(user_and_password_, ':'), "the user");
    Require(!HasSpaceOrControlCharacter(url_.user),
            "the user contains a space or a control character");
    url_.password = Decode(user_and_password_, "the password");
  }

  static absl::StatusOr<Url> ParseQuorum(std::string_view text) {
    std::vector<Url> members;
    for (const std::string& each : MembersOf(text)) {
      absl::StatusOr<Url> member = ParseUrl(each);
      if (!member.ok()) return member;
      members.push_back(*std::move(member));
    }
    return QuorumOf(std::move(members));
  }

  // ---- Options.

  template <absl::Duration Url::*kMember, int kLongestHours = 24>
  void SetDuration(std::string_view name, std::string_view value) {
    absl::Duration& duration = url_.*kMember;
    constexpr absl::Duration kLongest = absl::Hours(kLongestHours);
    Require(absl::ParseDuration(Abseil(value), &duration), "the option ", name,
            " is not a duration such as 2s or 500ms");
    Require(duration >= absl::Milliseconds(1) && duration <= kLongest, "the option ", name,
            " is not between 1ms and ", absl::FormatDuration(kLongest));
  }

  void SetName(std::string_view, std::string_view value) {
    const bool graphic = std::ranges::all_of(
        value, [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
    url_.client_name = value;
    Require(graphic && value.size() <= kMaxClientName,
            "the option name must be 1 to 128 printable ASCII characters without spaces, because "
            "CLIENT SETNAME requires that");
  }

  void SetDatabase(std::string_view, std::string_view value) {
    ParseDatabase(value, "the option db");
  }

  void SetEviction(std::string_view, std::string_view value) {
    url_.allow_eviction = true;
    Require(value == "allow", "the only value of the option eviction is allow");
  }

  void SetTls(std::string_view, std::string_view value) {
    speaks_tls_ = true;
    tls_.insecure = value == "insecure";
    Require(tls_.insecure || value == "on",
            "the option tls is neither on nor insecure (which takes any certificate)");
  }

  template <std::string TlsOptions::*kMember>
  void SetTlsText(std::string_view name, std::string_view value) {
    tls_.*kMember = value;
    tls_option_ = name;
    Require(!HasControlCharacter(value), "the option ", name, " contains a control character");
  }

  void SetMap(std::string_view, std::string_view value) {
    for (const absl::string_view pair : absl::StrSplit(Abseil(value), ',')) {
      std::string_view reached(pair.data(), pair.size());
      const std::string_view announced = base::TakeWord(reached, '/');
      Parser both;  // its messages are for whole URLs
      url_.mapped.emplace_back(both.ParseHostAndPort(announced, url_.port),
                               both.ParseHostAndPort(reached, url_.port));
      Require(both.error_.ok(),
              "the option map is not a list such as 10.0.0.7:6379/127.0.0.1:7001, of addresses as "
              "nodes announce them and where they are reached");
    }
  }

  // A value may be a secret: no message repeats it.
  void SetSentinelUser(std::string_view, std::string_view value) {
    sentinels_.user = value;
    Require(!HasSpaceOrControlCharacter(value),
            "the option sentinel_user contains a space or a control character");
  }

  void SetSentinelPassword(std::string_view, std::string_view value) {
    sentinels_.password = value;
  }

  void SetSentinelTls(std::string_view, std::string_view value) {
    sentinels_.tls = false;
    Require(value == "off", "the only value of the option sentinel_tls is off");
  }

  // `before`: the name of the option before it. No message repeats text that follows a password: it
  // may be a part of it.
  void SetOption(std::string_view name, std::string_view value, std::string_view before) {
    const auto* const option = std::ranges::find(kOptions, name, &Option::name);
    if (option != std::end(kOptions)) {
      Require((option->kinds & Bit(url_.kind)) != 0, "the option ", name, option->place);
      return (this->*option->set)(name, value);
    }
    const auto add_name = [](std::string* text, const Option& each) { text->append(each.name); };
    const bool behind_password = before == "sentinel_password";
    const bool repeatable = !behind_password && name.size() <= kMaxRepeatedName && IsName(name);
    Require(false, "unknown option ", repeatable ? name : "",
            behind_password ? "behind sentinel_password (write '&' in a password as %26)" : "",
            "; known are ", absl::StrJoin(kOptions, ", ", add_name),
            "; a password stands before the host, redis://:password@host");
  }

  void ParseOptions(std::string_view text) {
    std::vector<std::string_view> seen = {""};
    while (!text.empty()) {
      std::string_view value = base::TakeWord(text, '&');
      const std::string_view name = base::TakeWord(value, '=');
      Require(!name.empty() && !value.empty(),
              "an option is not of the form name=value; separate options with '&'");
      SetOption(name, Decode(value, "the value of an option"), seen.back());
      Require(!std::ranges::count(seen, name), "the option ", name, " is given twice");
      seen.push_back(name);
    }
  }

  void FinishTls() {
    Require(speaks_tls_ || tls_option_.empty(), "the option ", tls_option_,
            url_.kind == Kind::kTcp ? " is for TLS; write rediss://" : " is for TLS; add tls=on");
    Require(!tls_.insecure || (tls_.ca.empty() && tls_.server_name.empty()),
            "tls=insecure takes any certificate, so ca and servername would check nothing; leave "
            "either these or tls=insecure out");
    Require(!tls_.server_name.starts_with('.'),
            "the option servername begins with a '.', and must be a whole name");
    Require(tls_.key.empty() || !tls_.cert.empty(),
            "the option key is the key of a certificate; name that as well: cert=...");
    if (speaks_tls_) url_.tls = std::make_shared<Tls>(std::move(tls_));
  }

  // ---- The whole.

  void CheckText(std::string_view text) {
    Require(!text.empty(), "it is empty; write, for example, redis://localhost:6379 or embedded:");
    Require(text.size() <= kMaxLength, "it has ", std::to_string(text.size()),
            " bytes; the limit is ", std::to_string(kMaxLength));
    Require(!HasControlCharacter(text),
            "it contains a line break or another control character; percent-encode it in a user or "
            "password");
    Require(!text.starts_with(' ') && !text.ends_with(' '),
            "it begins or ends with a space; if that belongs to a path, write it as %20");
    Require(text.find('#') == text.npos, "it contains a '#'; write that as %23");
  }

  void RefuseScheme(std::string_view text) {
    const size_t colon = std::min(text.find(':'), text.size());
    Require(!text.substr(colon).starts_with("://"),
            "unknown scheme; known are redis://, rediss://, redis-sentinel://, redis-cluster://, "
            "unix://, embedded: and redlock:");
    // A host and a port alone can be repeated: a name with a dot, an address or localhost.
    Parser server;
    const std::string host = server.ParseHostAndPort(text, url_.port).host;
    Require(colon == text.size() || !server.error_.ok() ||
                (host != "localhost" && host.find_first_of(".:") == std::string::npos),
            "the scheme is missing; did you mean redis://", text, "?");
    Require(false,
            "it has no scheme; write redis://host:6379, unix:///path/to/socket or embedded:");
  }

  // `text`: that after the scheme.
  void ParseServers(const Scheme& scheme, std::string_view text) {
    url_.kind = scheme.kind;
    speaks_tls_ = scheme.tls;
    if (text.starts_with("//")) {
      text.remove_prefix(2);
      host_and_port_ = text.substr(0, text.find_first_of("/?"));
      text.remove_prefix(host_and_port_.size());
    } else {
      Require((Bit(url_.kind) & kNetwork) == 0, "there is no '//' after ", scheme.name,
              "; write, for example, ", scheme.name, "//localhost:6379");
    }
    Require(text.find('@') == text.npos,
            "there is an '@' after the first '/' or '?'; write these as %2F and %3F in a user or "
            "password, and write '@' as %40 in a path or option");
    if (const size_t at = host_and_port_.rfind('@'); at != text.npos) {
      user_and_password_ = host_and_port_.substr(0, at);
      host_and_port_.remove_prefix(at + 1);
    }
    path_ = base::TakeWord(text, '?');
    (this->*scheme.parse)();
    ParseUserAndPassword();
    ParseOptions(text);
    FinishTls();
    if (url_.kind == Kind::kSentinel) url_.sentinels = std::make_shared<Sentinels>(sentinels_);
  }

  absl::Status error_;
  Url url_;
  // The parts of the text before the options.
  std::string_view user_and_password_;
  std::string_view host_and_port_;
  std::string_view path_;
  bool speaks_tls_ = false;
  TlsOptions tls_;
  std::string_view tls_option_;  // the last one that means nothing without TLS
  Sentinels::Options sentinels_;
};

constexpr std::string_view kOnlySentinel = " is for redis-sentinel: only";

const Parser::Option Parser::kOptions[17] = {
    {"connect_timeout", &Parser::SetDuration<&Url::connect_timeout>},
    {"command_timeout", &Parser::SetDuration<&Url::command_timeout>},
    {"name", &Parser::SetName},
    {"quarantine", &Parser::SetDuration<&Url::quarantine>, kServers,
     " is for servers that may be replaced, not embedded:"},
    {"restart_delay", &Parser::SetDuration<&Url::restart_delay>, kServers,
     " is for servers of a quorum, not embedded:"},
    {"eviction", &Parser::SetEviction},
    {"tls", &Parser::SetTls, kNetwork,
     " is for redis://, rediss://, redis-sentinel:// and redis-cluster:// only"},
    {"ca", &Parser::SetTlsText<&TlsOptions::ca>},
    {"cert", &Parser::SetTlsText<&TlsOptions::cert>},
    {"key", &Parser::SetTlsText<&TlsOptions::key>},
    {"servername", &Parser::SetTlsText<&TlsOptions::server_name>},
    {"db", &Parser::SetDatabase, kUnix | kSentinel,
     " is for unix: and redis-sentinel: only; write, for example, redis://host:6379/3 (in a "
     "cluster, there is no other than 0)"},
    {"sentinel_user", &Parser::SetSentinelUser, kSentinel, kOnlySentinel},
    {"sentinel_password", &Parser::SetSentinelPassword, kSentinel, kOnlySentinel},
    {"sentinel_tls", &Parser::SetSentinelTls, kSentinel, kOnlySentinel},
    {"map", &Parser::SetMap, kCluster, " is for redis-cluster: only"},
    {"idle_stop", &Parser::SetDuration<&Url::idle_stop, 24 * 30>, Bit(Url::Kind::kEmbedded),
     " is for embedded: only"},
};

const Parser::Scheme Parser::kSchemes[7] = {
    {"redis:", Kind::kTcp, &Parser::ParseTcp},
    {"rediss:", Kind::kTcp, &Parser::ParseTcp, /*tls=*/true},
    {"unix:", Kind::kUnix, &Parser::ParseUnix},
    {"embedded:", Kind::kEmbedded, &Parser::ParseEmbedded},
    {"redis-sentinel:", Kind::kSentinel, &Parser::ParseSentinel},
    {"redis-cluster:", Kind::kCluster, &Parser::ParseCluster},
    {kQuorumScheme, Kind::kQuorum, nullptr},
};

}  // namespace

bool IsHost(std::string_view text) {
  constexpr size_t kLongest = 255;
  return !text.empty() && text.size() <= kLongest &&
         std::ranges::all_of(text, [](char c) { return IsNameChar(c) || c == ':' || c == '%'; });
}

std::string HostAndPort::text() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

absl::StatusOr<Url> ParseUrl(std::string_view text) { return Parser().Parse(text); }

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
      return (tls != nullptr ? "rediss://" : "redis://") + PercentEncode({{host, port}}) +
             (db == 0 ? "" : "/" + db_text);
    case Kind::kUnix:
      return "unix://" + PercentEncodePath(path) + (db == 0 ? "" : "?db=" + db_text);
    case Kind::kEmbedded:
      return "embedded:" + PercentEncodePath(path);
    case Kind::kSentinel:
      return "redis-sentinel://" + PercentEncode(sentinels->options().hosts) + "/" +
             sentinels->options().primary + (tls != nullptr ? "?tls=on" : "") +
             (db == 0 ? "" : (tls != nullptr ? "&db=" : "?db=") + db_text);
    case Kind::kCluster:
      return "redis-cluster://" + PercentEncode(nodes) + (tls != nullptr ? "?tls=on" : "");
    case Kind::kQuorum:
      return AsQuorum(absl::StrJoin(members, ",", [](std::string* text, const Url& member) {
        text->append(member.DebugString());
      }));
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
  std::string_view text = quorum.substr(kQuorumScheme.size());
  std::vector<std::string> members;
  while (!text.empty()) {
    // Splits at the commas that a scheme follows. Other commas belong to a URL.
    size_t end = text.find(',');
    while (end != text.npos && Parser::FindScheme(text.substr(end + 1)) == nullptr) {
      end = text.find(',', end + 1);
    }
    members.emplace_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return members;
}

std::string AsQuorum(std::string_view member) { return std::string(kQuorumScheme).append(member); }

absl::StatusOr<Url> QuorumOf(std::vector<Url> members) { return Parser().Join(std::move(members)); }

}  // namespace redlatch::redis
