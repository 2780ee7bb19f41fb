#include "src/redis/connect/sentinel_endpoint.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/base/random.h"
#include "src/redis/connect/sentinel_questions.h"
#include "src/redis/connect/sentinel_survey.h"
#include "src/redis/url/sentinels.h"

namespace redlatch::redis {
namespace {

// For a sentinel that is behind the others after a failover, where the first to answer may be
// wrong. Whoever connects for the first time is not kept waiting.
constexpr absl::Duration kPatience = absl::Milliseconds(50);

constexpr absl::Duration kForgotten = absl::Seconds(1);

class SentinelEndpoint final : public Endpoint {
 public:
  explicit SentinelEndpoint(const Url& url) : url_(url) {}

  absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) override {
    const bool old = last_ + kForgotten < base::Now();
    if (old) {  // nobody waited for what is known from then
      survey_ = nullptr;
      named_ = nullptr;
    }
    last_ = std::max(base::Now(), deadline);
    if (named_ == nullptr) {
      if (survey_ == nullptr) {
        survey_ = std::make_shared<SentinelSurvey>(url_, again_ ? kPatience : absl::ZeroDuration());
        again_ = true;
      }
      auto primary = survey_->Await(deadline);
      if (primary.ok() && !primary->has_value()) {
        return absl::UnavailableError(absl::StrCat("the primary of ", url_.DebugString(),
                                                   " is not found yet: ", survey_->Why()));
      }
      survey_ = nullptr;
      if (!primary.ok()) return primary.status();
      named_ = MakeEndpoint(UrlTowards(url_, **primary));
    }
    auto targets = named_->Targets(deadline);
    if (targets.ok() || base::Now() < deadline) named_ = nullptr;
    return targets;
  }

 private:
  const Url url_;
  bool again_ = false;
  base::Instant last_;  // until when somebody waited
  std::shared_ptr<SentinelSurvey> survey_;
  std::unique_ptr<Endpoint> named_;  // the primary by its name, which is looked up
};

class EndpointOfSentinels final : public Endpoint {
 public:
  explicit EndpointOfSentinels(const Url& url)
      : url_(url), first_(static_cast<size_t>(base::RandomBits() >> 1)) {}

  // Names that are not looked up yet are for the next time.
  absl::StatusOr<std::vector<Target>> Targets(base::Instant deadline) override {
    std::vector<HostAndPort> known = url_.sentinels->Known();
    std::rotate(known.begin(), known.begin() + static_cast<ptrdiff_t>(first_++ % known.size()),
                known.end());
    std::vector<Target> all;
    absl::Status failure;
    std::map<HostAndPort, std::unique_ptr<Endpoint>> before = std::exchange(endpoints_, {});
    for (const HostAndPort& each : known) {
      std::unique_ptr<Endpoint>& endpoint = endpoints_[each] = std::move(before[each]);
      if (endpoint == nullptr) endpoint = MakeEndpoint(UrlOfSentinel(url_, each));
      auto targets = endpoint->Targets(all.empty() ? deadline : base::Now());
      failure.Update(targets.status());
      if (targets.ok()) all.insert(all.end(), targets->begin(), targets->end());
    }
    if (all.empty()) return failure;
    return all;
  }

 private:
  const Url url_;
  size_t first_;
  std::map<HostAndPort, std::unique_ptr<Endpoint>> endpoints_;  // of the known ones
};

}  // namespace

std::unique_ptr<Endpoint> MakeSentinelEndpoint(const Url& url) {
  return std::make_unique<SentinelEndpoint>(url);
}

std::unique_ptr<Endpoint> MakeEndpointOfSentinels(const Url& url) {
  return std::make_unique<EndpointOfSentinels>(url);
}

}  // namespace redlatch::redis
