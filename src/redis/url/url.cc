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

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

// ---- Characters and numbers.

// The digit's value, or -1.
int HexDigit(char c) {
  if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return -1;
  return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

// Returns kInvalidArgument with these pieces as its message. None may come from a part of the URL
// that can hold a secret.
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

// ---- Hosts and ports.

constexpr size_t kMaxHost = 253;  // the limit of domain names
constexpr size_t kMaxZone = 15;   // the limit of interface names

absl::Status ParsePort(std::string_view text, Url* url) {
  const std::optional<int> port = ParseNumber(text, 1, 65535);
  if (!port) {
    return InvalidUrl(
        {"the port is not a number from 1 to 65535 (if you meant a user and a password, end them "
         "with '@': redis://user:password@host)"});
  }
  url->port = static_cast<uint16_t>(*port);
  return absl::OkStatus();
}

absl::Status ParseIpv6(std::string_view text, Url* url) {
  const size_t percent = text.find('%');
  const std::string address(text.substr(0, percent));
  in6_addr ignored;
  if (inet_pton(AF_INET6, address.c_str(), &ignored) != 1) {
    return InvalidUrl(
        {"the brackets do not hold an IPv6 address; write, for example, redis://[::1]:6379"});
  }
  url->host = address;
  if (percent == std::string_view::npos) return absl::OkStatus();
  std::string_view zone = text.substr(percent);
  const bool encoded = zone.starts_with("%25");
  zone.remove_prefix(encoded ? 3 : 1);
  if (!encoded || zone.empty() || zone.size() > kMaxZone ||
      !std::all_of(zone.begin(), zone.end(), IsNameChar)) {
    return InvalidUrl(
        {"the zone of the IPv6 address is not %25 and the name of an interface; write, for "
         "example, redis://[fe80::1%25eth0]:6379"});
  }
  url->host.append("%").append(zone);
  return absl::OkStatus();
}

absl::Status ParseHostName(std::string_view text, Url* url) {
  if (text.empty())
    return InvalidUrl({"the host is empty; write, for example, redis://localhost:6379"});
  if (text.size() > kMaxHost) return InvalidUrl({"the host is longer than 253 characters"});
  if (text.find(',') != std::string_view::npos) {
    return InvalidUrl(
        {"the host contains a ','; redis:// names a single server (redis-sentinel:// several "
         "sentinels, redis-cluster:// several nodes)"});
  }
  if (!std::all_of(text.begin(), text.end(), IsNameChar)) {
    return InvalidUrl({"the host contains a character that is not allowed in a host name"});
  }
  url->host = text;
  return absl::OkStatus();
}

// Parses "host", "host:port", "[address]" or "[address]:port" into the URL.
absl::Status ParseHostAndPort(std::string_view text, Url* url) {
  size_t colon = std::string_view::npos;
  if (!text.empty() && text.front() == '[') {
    const size_t bracket = text.find(']');
    if (bracket == std::string_view::npos)
      return InvalidUrl({"the host contains a '[' without a ']'"});
    if (absl::Status s = ParseIpv6(text.substr(1, bracket - 1), url); !s.ok()) return s;
    text.remove_prefix(bracket + 1);
    if (text.empty()) return absl::OkStatus();
    if (text.front() != ':') return InvalidUrl({"only ':' and the port can follow the ']'"});
    colon = 0;
  } else {
    colon = text.find(':');
    if (colon != text.rfind(':')) {
      return InvalidUrl(
          {"there is more than one ':' in host and port; put an IPv6 address in brackets, as in "
           "redis://[::1]:6379, and end a password with '@'"});
    }
    if (absl::Status s = ParseHostName(text.substr(0, colon), url); !s.ok()) return s;
  }
  if (colon == std::string_view::npos) return absl::OkStatus();
  return ParsePort(text.substr(colon + 1), url);
}

// Parses "host:port,host:port". `port` is the default.
absl::StatusOr<std::vector<HostAndPort>> ParseHosts(std::string_view text, uint16_t port) {
  std::vector<HostAndPort> hosts;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    Url one;
    one.port = port;
    if (absl::Status s = ParseHostAndPort(text.substr(0, comma), &one); !s.ok()) return s;
    hosts.push_back({.host = std::move(one.host), .port = one.port});
    if (more) text.remove_prefix(comma + 1);
  }
  return hosts;
}

absl::Status ParseCluster(std::string_view hosts, std::string_view path, Url* url) {
  if (path.size() > 1) {
    return InvalidUrl(
        {"there is something after the nodes; a cluster has no database but 0 (options come after "
         "a '?')"});
  }
  absl::StatusOr<std::vector<HostAndPort>> parsed = ParseHosts(hosts, url->port);
  if (!parsed.ok()) return parsed.status();
  url->nodes = *std::move(parsed);
  return absl::OkStatus();
}

absl::Status ParseSentinels(std::string_view hosts, std::string_view path, Url* url) {
  Sentinels::Options options;
  absl::StatusOr<std::vector<HostAndPort>> parsed = ParseHosts(hosts, Sentinels::kPort);
  if (!parsed.ok()) return parsed.status();
  options.hosts = *std::move(parsed);
  if (path.size() <= 1) {
    return InvalidUrl(
        {"the name of the primary is missing, as its sentinels call it; write, for example, "
         "redis-sentinel://host1,host2,host3/mymaster"});
  }
  absl::StatusOr<std::string> name = PercentDecode(path.substr(1), "the primary's name");
  if (!name.ok()) return name.status();
  // Sentinel itself accepts only these characters in the name of a primary.
  if (!std::all_of(name->begin(), name->end(), IsNameChar)) {
    return InvalidUrl(
        {"the primary's name holds something else than letters, digits, '.', '-' and '_' (the "
         "database is an option: db=2)"});
  }
  options.primary = *std::move(name);
  url->sentinels = std::make_shared<Sentinels>(std::move(options));
  return absl::OkStatus();
}

// ---- Paths, users and passwords.

absl::Status ParseUrlDatabase(std::string_view text, std::string_view part, Url* url) {
  const std::optional<int> db = ParseNumber(text, 0, std::numeric_limits<int>::max());
  if (!db) return InvalidUrl({part, " is not a number from 0 to 2147483647"});
  url->db = *db;
  return absl::OkStatus();
}

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
  // Keeps one leading '/': after "embedded:", two would begin a host.
  const size_t name = path->find_first_not_of('/');
  if (name != std::string::npos && name > 1) path->erase(0, name - 1);
  url->path = *std::move(path);
  return absl::OkStatus();
}

// The parts after the scheme and its ':'.
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

// True for a host and a port alone, which a message can repeat: a name with a dot, an address or
// localhost.
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

// ---- Options.

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

// The TLS options read so far.
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

// `text` may be a secret: no message repeats it.
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

// No message repeats text that follows a password: it may be a part of it.
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

// Sets one option. kNotFound: it does not exist.
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

// ---- The whole.

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

bool BeginsWithScheme(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string name = absl::AsciiStrToLower(Abseil(text.substr(0, colon)));
  return name == kQuorumScheme ||
         std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](const Scheme& scheme) { return name == scheme.name; });
}

// Splits at the commas that a scheme follows. Other commas belong to a URL.
std::vector<std::string> SplitUrls(std::string_view text) {
  std::vector<std::string> members;
  while (!text.empty()) {
    size_t end = text.find(',');
    while (end != std::string_view::npos && !BeginsWithScheme(text.substr(end + 1))) {
      end = text.find(',', end + 1);
    }
    members.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return members;
}

absl::StatusOr<Url> ParseQuorum(std::string_view text) {
  std::vector<Url> members;
  for (const std::string& each : SplitUrls(text)) {
    absl::StatusOr<Url> member = ParseUrl(each);
    if (!member.ok()) return member.status();
    members.push_back(*std::move(member));
  }
  return QuorumOf(std::move(members));
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
