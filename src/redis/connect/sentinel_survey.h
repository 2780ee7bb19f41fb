#ifndef REDLATCH_SRC_REDIS_CONNECT_SENTINEL_SURVEY_H_
#define REDLATCH_SRC_REDIS_CONNECT_SENTINEL_SURVEY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/connect/sentinel_questions.h"
#include "src/redis/url/sentinels.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

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

#endif  // REDLATCH_SRC_REDIS_CONNECT_SENTINEL_SURVEY_H_
