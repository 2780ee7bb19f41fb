#include "src/redis/connect/sentinel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/base/utf8.h"
#include "src/base/words.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port) {
  uint16_t number = 0;
  if (!IsHost(host) || !base::ReadNumber(port, number) || number == 0) return std::nullopt;
  return HostAndPort{.host = std::string(host), .port = number};
}

Url AsToSentinels(const Url& url) {
  const Sentinels::Options& options = url.sentinels->options();
  Url theirs = url;
  theirs.user = options.user;
  theirs.password = options.password;
  theirs.db = 0;
  if (!options.tls) theirs.tls = nullptr;
  return theirs;
}

Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel) {
  return UrlTowards(AsToSentinels(url), sentinel);
}

namespace {

// After a failover the first sentinel to answer may be behind the others. The first connection of a
// client does not wait for them.
constexpr absl::Duration kExtraWait = absl::Milliseconds(50);

constexpr absl::Duration kForgotten = absl::Seconds(1);
constexpr absl::Duration kQuestionsApart = absl::Milliseconds(250);
constexpr int kMostHops = 4;  // from a replica to its primary, which may be a replica itself

// Questions to sentinels, and to the servers that they name. Each uses a connection of its own.

absl::Status Unknown(PlainConnection& connection, const Url& url, const HostAndPort& sentinel,
                     base::Instant deadline) {
  std::vector<std::string> names;
  const auto all = connection.Call(Command({"SENTINEL", "MASTERS"}), deadline);
  if (all.ok()) {
    for (const Reply& each : all->elements)
      names.push_back(base::Shown(ValueOf(each, "name"), 100));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the sentinel at ", sentinel.text(), " knows no primary called '",
                   url.sentinels->options().primary, "'",
                   names.empty() ? "" : absl::StrCat(" (but ", absl::StrJoin(names, ", "), ")")));
}

struct SentinelAnswer {
  std::string id;  // of the sentinel; its address if it does not tell
  HostAndPort primary;
  int64_t epoch = 0;                // config epoch; 0 if it does not tell
  std::vector<HostAndPort> others;  // further sentinels
};

// kFailedPrecondition: the sentinel knows no primary of that name.
absl::StatusOr<SentinelAnswer> AskSentinel(const Url& url, const HostAndPort& sentinel,
                                           base::Instant deadline) {
  auto connection = PlainConnection::Open(UrlOfSentinel(url, sentinel), deadline);
  if (!connection.ok()) return connection.status();
  const std::string& name = url.sentinels->options().primary;
  const Command questions[] = {
      Command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}), Command({"SENTINEL", "MASTER", name}),
      Command({"SENTINEL", "SENTINELS", name}), Command({"SENTINEL", "MYID"})};
  auto replies = connection->CallAll(questions, deadline);
  if (!replies.ok()) return replies.status();
  const Reply& where = (*replies)[0];
  if (where.is_error() && ClassifyError(where.text) == ErrorCode::kUnknownCommand) {
    return absl::FailedPreconditionError(
        absl::StrCat(sentinel.text(),
                     " is no sentinel (sentinels listen on port 26379 by default; "
                     "for a single server, begin the URL with redis://)"));
  }
  if (where.is_error()) {
    return ErrorStatus(where.text, absl::StrCat("the sentinel at ", sentinel.text()));
  }
  if (where.elements.empty()) return Unknown(*connection, url, sentinel, deadline);
  const std::optional<HostAndPort> primary =
      where.elements.size() == 2 ? MakeHostAndPort(where.elements[0].text, where.elements[1].text)
                                 : std::nullopt;
  if (!primary) {
    return absl::UnavailableError(absl::StrCat("the sentinel at ", sentinel.text(),
                                               " names no address: ", where.DebugString()));
  }
  SentinelAnswer answer{.id = sentinel.text(), .primary = *primary, .epoch = 0, .others = {}};
  base::ReadNumber(ValueOf((*replies)[1], "config-epoch"), answer.epoch);
  for (const Reply& each : (*replies)[2].elements) {
    if (auto other = MakeHostAndPort(ValueOf(each, "ip"), ValueOf(each, "port"))) {
      answer.others.push_back(*std::move(other));
    }
  }
  const Reply& id = (*replies)[3];
  if (!id.is_error() && !id.text.empty()) answer.id = id.text;
  return answer;
}

struct ServerRole {
  bool primary = false;
  std::optional<HostAndPort> replica_of;
};

// Asks a server for its role. A server that refuses this client counts as a primary: the handshake
// then reports why.
absl::StatusOr<ServerRole> AskRole(const Url& url, const HostAndPort& server,
                                   base::Instant deadline) {
  auto connection = PlainConnection::Open(UrlTowards(url, server), deadline);
  if (absl::IsPermissionDenied(connection.status())) {
    return ServerRole{.primary = true};
  }
  if (!connection.ok()) return connection.status();
  const Command questions[] = {Command({"ROLE"}), Command({"HELLO"})};
  auto replies = connection->CallAll(questions, deadline);
  if (!replies.ok()) return replies.status();
  const Reply& role = (*replies)[0];
  const Reply& hello = (*replies)[1];
  for (const Reply* each : {&role, &hello}) {
    const ErrorCode error = each->is_error() ? ClassifyError(each->text) : ErrorCode::kOther;
    if (IsTransient(error)) return ErrorStatus(each->text, server.text());
  }
  if (!role.is_error() && role.elements.size() >= 3 && role.elements[0].text != "master") {
    const std::string port = role.elements[2].text.empty()
                                 ? std::to_string(role.elements[2].integer)
                                 : role.elements[2].text;
    return ServerRole{.primary = false, .replica_of = MakeHostAndPort(role.elements[1].text, port)};
  }
  return ServerRole{.primary = ValueOf(hello, "role") != "replica"};
}

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
  absl::StatusOr<std::optional<HostAndPort>> Await(base::Instant deadline) {
    for (;;) {
      if (asked_ + kQuestionsApart <= base::Now()) {
        asked_ = base::Now();
        AskAll();
      }
      const base::MutexLock lock(mu_);
      const bool all_told = !AnyOpen();
      base::Instant until = std::min(deadline, asked_ + kQuestionsApart);
      if (std::optional<HostAndPort> found = Leading()) {
        const base::Instant now = base::Now();
        if (!wait_until_) wait_until_ = now + std::max(now - asked_, extra_wait_);
        if (all_told || *wait_until_ <= now) return found;
        until = std::min(until, *wait_until_);
      } else if (all_told) {
        return Failure();
      }
      if (deadline <= base::Now()) return std::nullopt;
      changed_.WaitUntil(mu_, until);
    }
  }

  // Says why there is no answer yet.
  std::string Why() const {
    const base::MutexLock lock(mu_);
    return Joined(Reasons());
  }

 private:
  struct Sentinel {
    explicit Sentinel(const HostAndPort& at)
        : answer(absl::UnavailableError(
              absl::StrCat("the sentinel at ", at.text(), " has not answered yet"))) {}
    bool asking = false;
    absl::StatusOr<SentinelAnswer> answer;
  };
  struct Server {
    bool asking = false;
    absl::StatusOr<ServerRole> role;
  };
  struct Votes {
    int count = 0;
    int64_t epoch = 0;
  };

  void AskAll() {
    for (const HostAndPort& each : url_.sentinels->Known()) {
      const base::MutexLock lock(mu_);
      Sentinel& sentinel = sentinels_.try_emplace(each, each).first->second;
      if (sentinel.asking) continue;
      sentinel.asking = base::TryStartDetached(
          "redlatch-ask", [self = shared_from_this(), each] { self->AskOne(each); });
      if (!sentinel.asking) sentinel.answer = base::NoThread();
    }
  }

  void AskOne(const HostAndPort& sentinel) {
    auto answer = AskSentinel(url_, sentinel, base::Now() + url_.connect_timeout);
    std::set<HostAndPort> others;
    std::optional<HostAndPort> to_visit;
    {
      const base::MutexLock lock(mu_);
      Sentinel& asked = sentinels_.at(sentinel);
      asked.asking = false;
      asked.answer = std::move(answer);
      for (const auto& [address, each] : sentinels_) {
        if (each.answer.ok()) others.insert(each.answer->others.begin(), each.answer->others.end());
      }
      if (asked.answer.ok() && BeginVisit(asked.answer->primary)) to_visit = asked.answer->primary;
      changed_.SignalAll();
    }
    url_.sentinels->Learn({others.begin(), others.end()});
    for (int hops = 0; hops < kMostHops && to_visit; ++hops) to_visit = Visit(*to_visit);
  }

  // True if this thread must visit the server: no other does, and it is not known to be a primary.
  bool BeginVisit(const HostAndPort& server) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    Server& visited = servers_[server];
    if (visited.asking || (visited.role.ok() && visited.role->primary)) return false;
    return visited.asking = true;
  }

  // Returns the server to visit next, if any: the primary of a replica.
  std::optional<HostAndPort> Visit(const HostAndPort& server) {
    auto role = AskRole(url_, server, base::Now() + url_.connect_timeout);
    const base::MutexLock lock(mu_);
    Server& visited = servers_[server];
    visited = {.asking = false, .role = std::move(role)};
    changed_.SignalAll();
    if (!visited.role.ok() || !visited.role->replica_of) return std::nullopt;
    const HostAndPort next = *visited.role->replica_of;
    return BeginVisit(next) ? std::make_optional(next) : std::nullopt;
  }

  // Null: the server has not said it.
  const ServerRole* RoleOf(const HostAndPort& server) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto known = servers_.find(server);
    return known != servers_.end() && known->second.role.ok() ? &*known->second.role : nullptr;
  }

  HostAndPort PrimaryOf(HostAndPort server) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (int hops = 0; hops < kMostHops; ++hops) {
      const ServerRole* const role = RoleOf(server);
      if (role == nullptr || !role->replica_of) break;
      server = *role->replica_of;
    }
    return server;
  }

  std::map<HostAndPort, Votes> Tally() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::map<HostAndPort, Votes> tally;
    std::set<std::string> counted;  // a sentinel may have several addresses
    for (const auto& [address, sentinel] : sentinels_) {
      if (!sentinel.answer.ok() || !counted.insert(sentinel.answer->id).second) continue;
      Votes& votes = tally[PrimaryOf(sentinel.answer->primary)];
      ++votes.count;
      votes.epoch = std::max(votes.epoch, sentinel.answer->epoch);
    }
    return tally;
  }

  // The known primary with the best votes; nothing if another server has more.
  std::optional<HostAndPort> Leading() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::map<HostAndPort, Votes> tally = Tally();
    const Votes* best = nullptr;
    std::optional<HostAndPort> found;
    for (const auto& [address, votes] : tally) {
      const ServerRole* const role = RoleOf(address);
      // A promotion has the newer epoch; the old primary may say for seconds that it is one.
      const bool better = best == nullptr || votes.epoch > best->epoch ||
                          (votes.epoch == best->epoch && votes.count > best->count);
      if (role == nullptr || !role->primary || !better) continue;
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

  bool AnyOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto asking = [](const auto& each) { return each.second.asking; };
    return std::any_of(sentinels_.begin(), sentinels_.end(), asking) ||
           std::any_of(servers_.begin(), servers_.end(), asking);
  }

  std::vector<absl::Status> Reasons() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    std::vector<absl::Status> reasons;
    for (const auto& [address, sentinel] : sentinels_) {
      if (!sentinel.answer.ok()) {
        reasons.push_back(sentinel.answer.status());
        continue;
      }
      const HostAndPort& named = sentinel.answer->primary;
      const auto known = servers_.find(named);
      const bool answered = known != servers_.end() && !known->second.asking;
      const absl::Status failure = answered ? known->second.role.status() : absl::OkStatus();
      const std::string what = !answered                     ? ", which has not answered yet"
                               : !failure.ok()               ? absl::StrCat(": ", failure.message())
                               : known->second.role->primary ? ", which is a primary"
                                                             : ", which is a replica";
      reasons.emplace_back(
          failure.ok() ? absl::StatusCode::kUnavailable : failure.code(),
          absl::StrCat("the sentinel at ", address.text(), " names ", named.text(), what));
    }
    return reasons;
  }

  static std::string Joined(const std::vector<absl::Status>& reasons) {
    return absl::StrJoin(reasons, "; ", [](std::string* all, const absl::Status& each) {
      absl::StrAppend(all, each.message());
    });
  }

  // The failure lasts if all sentinels failed with the same lasting code.
  absl::Status Failure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const std::vector<absl::Status> reasons = Reasons();
    std::set<absl::StatusCode> codes;
    for (const absl::Status& each : reasons) codes.insert(each.code());
    return {codes.size() == 1 ? *codes.begin() : absl::StatusCode::kUnavailable,
            absl::StrCat("cannot find the primary of ", url_.DebugString(), ": ", Joined(reasons))};
  }

  const Url url_;
  const absl::Duration extra_wait_;
  base::Instant asked_;  // this and the next belong to the calling thread
  // When to stop waiting for further answers; set when a primary is found.
  std::optional<base::Instant> wait_until_;
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::map<HostAndPort, Sentinel> sentinels_ ABSL_GUARDED_BY(mu_);
  std::map<HostAndPort, Server> servers_ ABSL_GUARDED_BY(mu_);
};

class SentinelEndpoint {
 public:
  explicit SentinelEndpoint(const Url& url) : url_(url) {}

  absl::StatusOr<std::vector<Target>> operator()(base::Instant deadline) {
    const bool old = last_ + kForgotten < base::Now();
    if (old) {  // no call waited: the result is out of date
      survey_ = nullptr;
      named_ = nullptr;
    }
    last_ = std::max(base::Now(), deadline);
    if (named_ == nullptr) {
      if (survey_ == nullptr) {
        survey_ =
            std::make_shared<SentinelSurvey>(url_, again_ ? kExtraWait : absl::ZeroDuration());
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
    auto targets = named_(deadline);
    if (targets.ok() || base::Now() < deadline) named_ = nullptr;
    return targets;
  }

 private:
  const Url url_;
  bool again_ = false;
  base::Instant last_;  // until when a call waited
  std::shared_ptr<SentinelSurvey> survey_;
  Endpoint named_;  // the primary by its name, which is looked up
};

class EndpointOfSentinels {
 public:
  explicit EndpointOfSentinels(const Url& url)
      : url_(url), first_(static_cast<size_t>(base::RandomBits() >> 1)) {}

  // A name whose lookup is not finished is used by a later call.
  absl::StatusOr<std::vector<Target>> operator()(base::Instant deadline) {
    std::vector<HostAndPort> known = url_.sentinels->Known();
    std::rotate(known.begin(), known.begin() + static_cast<ptrdiff_t>(first_++ % known.size()),
                known.end());
    std::vector<Target> all;
    absl::Status failure;
    std::map<HostAndPort, Endpoint> before = std::exchange(endpoints_, {});
    for (const HostAndPort& each : known) {
      Endpoint& endpoint = endpoints_[each] = std::move(before[each]);
      if (endpoint == nullptr) endpoint = MakeEndpoint(UrlOfSentinel(url_, each));
      auto targets = endpoint(all.empty() ? deadline : base::Now());
      failure.Update(targets.status());
      if (targets.ok()) all.insert(all.end(), targets->begin(), targets->end());
    }
    if (all.empty()) return failure;
    return all;
  }

 private:
  const Url url_;
  size_t first_;
  std::map<HostAndPort, Endpoint> endpoints_;  // of the known ones
};

}  // namespace

Endpoint MakeSentinelEndpoint(const Url& url) { return SentinelEndpoint(url); }

Endpoint MakeEndpointOfSentinels(const Url& url) { return EndpointOfSentinels(url); }

}  // namespace redlatch::redis
