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

// To the primary of which the URL's sentinels know; see SentinelSurvey.
std::unique_ptr<Endpoint> MakeSentinelEndpoint(const Url& url);

// To the sentinels themselves, of which any will do, another one first each time.
std::unique_ptr<Endpoint> MakeEndpointOfSentinels(const Url& url);

// What sentinels, and the servers that they name, are asked; each question on a connection of its
// own.

// `url` is of Kind::kSentinel in both: with the user, password and transport for sentinels; and
// what leads to one of them.
Url AsToSentinels(const Url& url);
Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel);

// As sentinels name them; nothing where that is no address.
std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port);

struct SentinelAnswer {
  std::string id;  // of the sentinel; its address where it does not tell
  HostAndPort primary;
  int64_t epoch = 0;                // of that knowledge; 0 where it does not tell
  std::vector<HostAndPort> others;  // further sentinels
};

// kFailedPrecondition where it does not know a primary of that name.
absl::StatusOr<SentinelAnswer> AskSentinel(const Url& url, const HostAndPort& sentinel,
                                           base::Instant deadline);

struct ServerRole {
  bool primary = false;
  std::optional<HostAndPort> replica_of;
};

// What a server says that it is. One that refuses to be asked counts as a primary: whoever connects
// to it then is told why.
absl::StatusOr<ServerRole> AskRole(const Url& url, const HostAndPort& server,
                                   base::Instant deadline);

// One search for the primary of which a URL's sentinels know. They are asked all at once, each by a
// thread of its own, since any of them may be dead, slow or wrong; and whoever they name is asked
// what it is, since the old primary, or a replica, may be named still.
//
//   a primary is found where a server says that it is one, and
//     of several the newer epoch counts, then who is named by more sentinels, of those that have
//     answered; no other of such an epoch is named by more; and
//     all have answered, or those that have not were given as much time again as that had taken,
//     and at least the patience of whoever asks.
//   a sentinel that names a replica counts as one that names its primary.
//
// While none is found, all are asked again four times a second: a failover may be under way.
class SentinelSurvey : public std::enable_shared_from_this<SentinelSurvey> {
 public:
  SentinelSurvey(const Url& url, absl::Duration patience) : url_(url), patience_(patience) {}

  // The primary, or nothing where `deadline` came first: the search goes on, and the next call has
  // it sooner. An error, after all have failed, says why each has; kUnavailable where another
  // search may succeed. A search is over with its first answer.
  absl::StatusOr<std::optional<HostAndPort>> Await(base::Instant deadline);

  // Why there is no answer yet.
  std::string Why() const;

 private:
  struct Sentinel {
    bool asking = false;
    absl::Status failure;  // of the last question
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
  // The best that is known to be a primary, if there is one and nobody is named by more.
  std::optional<HostAndPort> Leading() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool AnyOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::string Reasons() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Failure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Url url_;
  const absl::Duration patience_;
  base::Instant asked_;  // this and the next are the caller's own
  base::Instant next_question_;
  // For those that have not answered: set when a primary is found.
  std::optional<base::Instant> patient_until_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::map<HostAndPort, Sentinel> sentinels_ ABSL_GUARDED_BY(mu_);
  std::map<HostAndPort, Server> servers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_H_
