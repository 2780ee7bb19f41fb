#ifndef REDLATCH_SRC_REDIS_URL_URL_H_
#define REDLATCH_SRC_REDIS_URL_URL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/mutex.h"

namespace redlatch::redis {

class Sentinels;
class Tls;

struct HostAndPort {
  std::string host;  // as getaddrinfo() takes it: no brackets, "fe80::1%eth0"
  uint16_t port = 0;

  // "127.0.0.1:6379", "[::1]:6379"
  std::string text() const;
  friend bool operator==(const HostAndPort&, const HostAndPort&) = default;
  friend auto operator<=>(const HostAndPort&, const HostAndPort&) = default;
};

// True if a server's text can be a host: a name or an address, and nothing else.
bool IsHost(std::string_view text);

// A server's address, as a user writes it; include/redlatch/client.h lists the schemes and options.
//
// A host may be [v6], with a zone as in [fe80::1%25eth0]. User, password, path and option values
// are percent-decoded; the scheme's case does not matter. The last '@' before the path ends the
// password. A '/', '?', '#', '%', space or control character in a user or password must be encoded,
// and so must an '@' in a path or an option. A path may hold spaces, as they are or as %20; one at
// its very end must be encoded. Options, joined by '&', are each given at most once.
struct Url {
  enum class Kind : uint8_t { kTcp, kUnix, kEmbedded, kSentinel, kCluster, kQuorum };

  Kind kind = Kind::kTcp;
  std::string host;      // kTcp; as getaddrinfo() takes it: no brackets, "fe80::1%eth0"
  uint16_t port = 6379;  // kTcp
  std::string path;      // kUnix: the socket; kEmbedded: the directory, empty for the default
  std::string user;      // empty for the default user; not kEmbedded
  std::string password;  // any bytes; AUTH is sent if this or the user is not empty
  int db = 0;

  absl::Duration connect_timeout = absl::Seconds(2);
  absl::Duration command_timeout = absl::Seconds(1);
  absl::Duration idle_stop = absl::Seconds(60);
  absl::Duration quarantine = absl::ZeroDuration();  // none
  std::string client_name;
  std::shared_ptr<Tls> tls;              // null: no TLS
  std::shared_ptr<Sentinels> sentinels;  // kSentinel
  std::vector<HostAndPort> nodes;        // kCluster: those that the user named
  // kCluster: the addresses that its nodes announce, and those at which they are reached.
  std::vector<std::pair<HostAndPort, HostAndPort>> mapped;
  std::vector<Url> members;  // kQuorum: its servers; none is a quorum itself
  absl::Duration restart_delay = absl::ZeroDuration();  // none; a quorum has its members'
  bool in_cluster = false;                              // kTcp: a node of a cluster
  bool only_questions = false;  // connections run no scripts, so any server and any user will do
  bool allow_eviction = false;

  // The server and its database, for messages and logs, without user, password and other options.
  // ParseUrl() accepts it.
  //   "redis://[::1]:6379/2", "unix:///run/redis.sock?db=2", "embedded:",
  //   "redis-sentinel://s1:26379,s2:26379/orders", "redis-cluster://n1:6379,n2:6379".
  std::string DebugString() const;

  friend bool operator==(const Url&, const Url&) = default;
};

// The longest path that fits into sockaddr_un, without its final NUL. An embedded server's
// directory must be shorter, since its socket lies in it; the code that makes the socket checks
// that.
inline constexpr size_t kMaxSocketPath = 107;

// Parses a URL. kInvalidArgument: the message names the part that is wrong and says what would be
// right. No message contains the password or a part of the URL that may hold one. It repeats only
// names of options, and a text that is nothing but a host and a port.
absl::StatusOr<Url> ParseUrl(std::string_view text);

// Splits a quorum's URL into those of its servers, as they were written, secrets included; in the
// order of Url::members.
std::vector<std::string> MembersOf(std::string_view quorum);

// Returns the URL of a quorum of this server alone.
std::string AsQuorum(std::string_view member);

// Makes a quorum of these servers. kInvalidArgument: they cannot be one.
absl::StatusOr<Url> QuorumOf(std::vector<Url> members);

// Returns a URL for one of the servers that `url` names, with its other settings.
Url UrlTowards(Url url, const HostAndPort& server);

// Replaces the passwords in a text that may contain URLs by "***".
std::string WithoutPasswords(std::string text);

// The sentinels of a primary, and how to connect to them. If one connection of a URL learns of
// further sentinels, the others know them too. Thread-safe.
class Sentinels {
 public:
  static constexpr uint16_t kPort = 26379;

  struct Options {
    std::vector<HostAndPort> hosts;  // as the URL names them
    std::string primary;             // its name at the sentinels
    std::string user;
    std::string password;
    bool tls = true;  // they speak TLS if the servers do
  };

  explicit Sentinels(Options options) : options_(std::move(options)) {}

  const Options& options() const { return options_; }

  // All known sentinels, those of the URL first.
  std::vector<HostAndPort> Known() const;
  // Notes the further sentinels that one has named. They replace those that an earlier one named,
  // since sentinels come and go.
  void Learn(std::vector<HostAndPort> others);

 private:
  static constexpr size_t kMost = 32;  // learned ones; real groups have a few

  const Options options_;
  mutable base::Mutex mu_;
  std::vector<HostAndPort> learned_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_URL_URL_H_
