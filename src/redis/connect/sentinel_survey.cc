#include "src/redis/connect/sentinel_survey.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"
#include "src/base/thread.h"

namespace redlatch::redis {
namespace {

constexpr absl::Duration kQuestionsApart = absl::Milliseconds(250);
constexpr int kMostHops = 4;  // from a replica to its primary, which may be one by now

}  // namespace

absl::StatusOr<std::optional<HostAndPort>> SentinelSurvey::Await(base::Instant deadline) {
  for (;;) {
    if (next_question_ <= base::Now()) {
      asked_ = base::Now();
      next_question_ = asked_ + kQuestionsApart;
      AskAll();
    }
    const base::MutexLock lock(mu_);
    const bool all_told = !AnyOpen();
    base::Instant until = std::min(deadline, next_question_);
    if (std::optional<HostAndPort> found = Leading()) {
      const base::Instant now = base::Now();
      if (!patient_until_) patient_until_ = now + std::max(now - asked_, patience_);
      if (all_told || *patient_until_ <= now) return found;
      until = std::min(until, *patient_until_);
    } else if (all_told) {
      return Failure();
    }
    if (deadline <= base::Now()) return std::nullopt;
    changed_.WaitUntil(mu_, until);
  }
}

void SentinelSurvey::AskAll() {
  for (const HostAndPort& each : url_.sentinels->Known()) {
    {
      const base::MutexLock lock(mu_);
      if (std::exchange(sentinels_[each].asking, true)) continue;
    }
    std::thread thread;
    if (base::TryStartThread(thread, "redlatch-ask",
                             [self = shared_from_this(), each] { self->AskOne(each); })) {
      thread.detach();
      continue;
    }
    const base::MutexLock lock(mu_);
    sentinels_[each].asking = false;
    sentinels_[each].failure = base::NoThread();
  }
}

void SentinelSurvey::AskOne(const HostAndPort& sentinel) {
  auto answer = AskSentinel(url_, sentinel, base::Now() + url_.connect_timeout);
  std::set<HostAndPort> others;
  std::optional<HostAndPort> to_visit;
  {
    const base::MutexLock lock(mu_);
    Sentinel& asked = sentinels_[sentinel];
    asked.asking = false;
    asked.failure = answer.status();
    asked.answer = answer.ok() ? std::make_optional(*std::move(answer)) : std::nullopt;
    for (const auto& [address, each] : sentinels_) {
      if (each.answer) others.insert(each.answer->others.begin(), each.answer->others.end());
    }
    if (asked.answer && BeginVisit(asked.answer->primary)) to_visit = asked.answer->primary;
    changed_.SignalAll();
  }
  url_.sentinels->Learn({others.begin(), others.end()});
  for (int hops = 0; hops < kMostHops && to_visit; ++hops) to_visit = Visit(*to_visit);
}

// Whether nobody else visits it, nor need to.
bool SentinelSurvey::BeginVisit(const HostAndPort& server) {
  Server& visited = servers_[server];
  if (visited.asking || (visited.role && visited.role->primary)) return false;
  return visited.asking = true;
}

// Whom to visit next, if anybody: the primary of a replica.
std::optional<HostAndPort> SentinelSurvey::Visit(const HostAndPort& server) {
  auto role = AskRole(url_, server, base::Now() + url_.connect_timeout);
  const base::MutexLock lock(mu_);
  Server& visited = servers_[server];
  visited.asking = false;
  visited.failure = role.status();
  visited.role = role.ok() ? std::make_optional(*std::move(role)) : std::nullopt;
  changed_.SignalAll();
  if (!visited.role || !visited.role->replica_of) return std::nullopt;
  const HostAndPort next = *visited.role->replica_of;
  return BeginVisit(next) ? std::make_optional(next) : std::nullopt;
}

HostAndPort SentinelSurvey::PrimaryOf(HostAndPort server) const {
  for (int hops = 0; hops < kMostHops; ++hops) {
    const auto known = servers_.find(server);
    if (known == servers_.end() || !known->second.role || !known->second.role->replica_of) break;
    server = *known->second.role->replica_of;
  }
  return server;
}

std::map<HostAndPort, SentinelSurvey::Votes> SentinelSurvey::Tally() const {
  std::map<HostAndPort, Votes> tally;
  std::set<std::string> counted;  // a sentinel may have several addresses
  for (const auto& [address, sentinel] : sentinels_) {
    if (!sentinel.answer || !counted.insert(sentinel.answer->id).second) continue;
    Votes& votes = tally[PrimaryOf(sentinel.answer->primary)];
    ++votes.count;
    votes.epoch = std::max(votes.epoch, sentinel.answer->epoch);
  }
  return tally;
}

std::optional<HostAndPort> SentinelSurvey::Leading() const {
  const std::map<HostAndPort, Votes> tally = Tally();
  const Votes* best = nullptr;
  std::optional<HostAndPort> found;
  for (const auto& [address, votes] : tally) {
    const auto server = servers_.find(address);
    const bool primary =
        server != servers_.end() && server->second.role && server->second.role->primary;
    // A promotion has the newer epoch; the old primary may say for seconds that it is one.
    const bool better = best == nullptr || votes.epoch > best->epoch ||
                        (votes.epoch == best->epoch && votes.count > best->count);
    if (!primary || !better) continue;
    best = &votes;
    found = address;
  }
  for (const auto& [address, votes] : tally) {
    if (best != nullptr && votes.epoch >= best->epoch && votes.count > best->count) {
      return std::nullopt;
    }
  }
  return found;
}

bool SentinelSurvey::AnyOpen() const {
  const auto asking = [](const auto& each) { return each.second.asking; };
  return std::any_of(sentinels_.begin(), sentinels_.end(), asking) ||
         std::any_of(servers_.begin(), servers_.end(), asking);
}

std::string SentinelSurvey::Why() const {
  const base::MutexLock lock(mu_);
  return Reasons();
}

std::string SentinelSurvey::Reasons() const {
  std::vector<std::string> reasons;
  for (const auto& [address, sentinel] : sentinels_) {
    if (!sentinel.failure.ok()) reasons.emplace_back(sentinel.failure.message());
    if (sentinel.failure.ok() && !sentinel.answer) {
      reasons.push_back(absl::StrCat("the sentinel at ", address.text(), " has not answered yet"));
    }
    if (!sentinel.answer) continue;
    const HostAndPort& named = sentinel.answer->primary;
    const std::string names =
        absl::StrCat("the sentinel at ", address.text(), " names ", named.text());
    const auto known = servers_.find(named);
    if (known == servers_.end() || known->second.asking) {
      reasons.push_back(absl::StrCat(names, ", which has not answered yet"));
    } else if (!known->second.failure.ok()) {
      reasons.push_back(absl::StrCat(names, ": ", std::string(known->second.failure.message())));
    } else if (known->second.role && !known->second.role->primary) {
      reasons.push_back(absl::StrCat(names, ", which is a replica"));
    }
  }
  return absl::StrJoin(reasons, "; ");
}

// Lasting where each failure is, and in the same way.
absl::Status SentinelSurvey::Failure() const {
  std::set<absl::StatusCode> codes;
  for (const auto& [address, sentinel] : sentinels_) {
    if (!sentinel.failure.ok()) codes.insert(sentinel.failure.code());
    if (sentinel.answer) {
      const auto known = servers_.find(sentinel.answer->primary);
      const bool failed = known != servers_.end() && !known->second.failure.ok();
      codes.insert(failed ? known->second.failure.code() : absl::StatusCode::kUnavailable);
    }
  }
  const absl::StatusCode code = codes.size() == 1 ? *codes.begin() : absl::StatusCode::kUnavailable;
  return {code, absl::StrCat("cannot find the primary of ", url_.DebugString(), ": ", Reasons())};
}

}  // namespace redlatch::redis
