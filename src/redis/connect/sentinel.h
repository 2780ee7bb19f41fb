#ifndef REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_
#define REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/connect/endpoint.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// Leads to the primary that the URL's sentinels name; see SentinelSurvey.
std::unique_ptr<Endpoint> MakeSentinelEndpoint(const Url& url);

// Leads to the sentinels themselves. Any will do, and each call begins with another one.
std::unique_ptr<Endpoint> MakeEndpointOfSentinels(const Url& url);

// Questions to sentinels, and to the servers that they name. Each uses a connection of its own.

// Both take a URL of Kind::kSentinel. The first sets the user, password and TLS for the sentinels;
// the second leads to one of them.
Url AsToSentinels(const Url& url);
Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel);

// Reads an address as sentinels name it; nothing if it is none.
std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port);

struct SentinelAnswer {
  std::string id;  // of the sentinel; its address if it does not tell
  HostAndPort primary;
  int64_t epoch = 0;                // config epoch; 0 if it does not tell
  std::vector<HostAndPort> others;  // further sentinels
};

// kFailedPrecondition: the sentinel knows no primary of that name.
absl::StatusOr<SentinelAnswer> AskSentinel(const Url& url, const HostAndPort& sentinel,
                                           base::Instant deadline);

struct ServerRole {
  bool primary = false;
  std::optional<HostAndPort> replica_of;
};

// Asks a server for its role. A server that refuses this client counts as a primary: the handshake
// then reports why.
absl::StatusOr<ServerRole> AskRole(const Url& url, const HostAndPort& server,
                                   base::Instant deadline);

// One search for the primary that a URL's sentinels name. All are asked at once, each by its own
// thread, since any of them may be dead, slow or wrong. Each server that they name is asked for its
// role, since a sentinel may still name the old primary, or a replica.
//
// A primary is found if all this holds:
//   - the server says that it is a primary;
//   - of several, it has the newest epoch, then the most votes: sentinels that name it;
//   - no other server of that epoch or a newer one has more votes;
//   - all sentinels have answered, or the others had as much time again, and at least `extra_wait`.
// A sentinel that names a replica counts as one that names the replica's primary.
//
// Until one is found, all are asked again four times per second, since a failover may be in
// progress.
class SentinelSurvey : public std::enable_shared_from_this<SentinelSurvey> {
 public:
  SentinelSurvey(const Url& url, absl::Duration extra_wait) : url_(url), extra_wait_(extra_wait) {}

  // Returns the primary, or nothing if `deadline` came first: the search continues, and the next
  // call gets its result sooner. After all have failed, the error names each reason; kUnavailable:
  // another search may succeed. A survey gives one answer.
  absl::StatusOr<std::optional<HostAndPort>> Await(base::Instant deadline);

  // Says why there is no answer yet.
  std::string Why() const;

 private:
  struct Sentinel {
    bool asking = false;
    absl::Status failure;  // its last one
    std::optional<SentinelAnswer> answer;
  };
  struct Server {
    bool asking = false;
    std::optional<ServerRole> role;
    absl::Status failure;
  };
  struct Votes {
    int count = 0;
    int64_t epoch = 0;
  };

  void AskAll();
  void AskOne(const HostAndPort& sentinel);
  bool BeginVisit(const HostAndPort& server) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<HostAndPort> Visit(const HostAndPort& server);
  HostAndPort PrimaryOf(HostAndPort server) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::map<HostAndPort, Votes> Tally() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The known primary with the best votes; nothing if another server has more.
  std::optional<HostAndPort> Leading() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Reasons() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Failure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Url url_;
  const absl::Duration extra_wait_;
  base::Instant asked_;  // this and the next belong to the calling thread
  base::Instant next_question_;
  // When to stop waiting for further answers; set when a primary is found.
  std::optional<base::Instant> wait_until_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::map<HostAndPort, Sentinel> sentinels_ ABSL_GUARDED_BY(mu_);
  std::map<HostAndPort, Server> servers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_
