#include "src/redis/deployment/cluster.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// Between attempts that were refused for a reason that passes.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(2);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(50);

// At a node to which a slot is on its way.
absl::StatusOr<Reply> CallAsking(ClusterNode& node, const Command& command,
                                 base::Instant deadline) {
  const Command commands[] = {Command({"ASKING"}), command};
  absl::StatusOr<Reply> answers[2];
  node.server->commands().CallBatch(commands, deadline, absl::MakeSpan(answers));
  return std::move(answers[1]);
}

absl::StatusOr<Reply> RunAsking(ClusterNode& node, const ScriptCall& call, base::Instant deadline) {
  auto answer = CallAsking(node, EncodeCall(call, /*by_text=*/false), deadline);
  if (answer.ok() && answer->is_error() && ClassifyError(answer->text) == ErrorCode::kNoScript) {
    answer = CallAsking(node, EncodeCall(call, /*by_text=*/true), deadline);
  }
  if (!answer.ok() || !answer->is_error()) return answer;
  return ErrorStatus(answer->text, node.server->server({}));
}

}  // namespace

absl::Status Cluster::StillMoves(const absl::Status& redirected, bool known) const {
  const Redirect redirect = RedirectOf(redirected).value_or(Redirect());
  if (known) {
    return absl::UnavailableError(absl::StrCat("its slot ", redirect.slot,
                                               " is on the move, for longer than this could wait"));
  }
  return absl::UnavailableError(absl::StrCat(
      "its slot ", redirect.slot, " is said to be at ",
      HostAndPort{.host = redirect.host, .port = redirect.port}.text(), ", which ", name_,
      " does not name (to learn of a node without slots, its user needs "
      "+cluster|shards)"));
}

Cluster::Cluster(const Url& url, Own own, Events events)
    : url_(url),
      name_(url.DebugString()),
      own_(std::move(own)),
      events_(std::move(events)),
      reigns_(url.quarantine > absl::ZeroDuration() ? std::make_unique<ClusterReigns>(own_.reigns)
                                                    : nullptr),
      map_(std::make_unique<ClusterMap>(
          url,
          ClusterMap::Hooks{.make = [this](const HostAndPort& where) { return MakeNode(where); },
                            .on_moved = [this](Slot slot) { Concern(slot); },
                            .on_view = [this] { OnView(); },
                            .chores = [this] { return DoChores(); }})) {}

Cluster::~Cluster() { Stop(); }

void Cluster::operator delete(Cluster* cluster, std::destroying_delete_t) {
  if (cluster->fork_guard_.InForkedChild()) return cluster->map_->CloseInForkedChild();
  cluster->~Cluster();
  ::operator delete(cluster);
}

std::unique_ptr<SingleServer> Cluster::MakeNode(const HostAndPort& where) {
  auto self = std::make_shared<const SingleServer*>(nullptr);
  Events events = events_;
  events.on_reconnected = [this, self] {
    ConcernAllOf(*self);
    events_.on_reconnected();
  };
  auto node = std::make_unique<SingleServer>(
      UrlOfNode(url_, where), std::string(), std::vector<Command>(), own_.mark, std::move(events),
      Membership{.thread = listening_thread_,
                 .on_silent = [this](std::string_view channel) { Silent(channel); },
                 .on_down = [this] { map_->LookSoon(); }});
  *self = node.get();
  return node;
}

absl::Duration Cluster::grants_alone_for() const {
  std::optional<absl::Duration> longest;
  for (const ClusterNodePtr& node : map_->nodes()) {
    if (!node->server->known()) continue;
    longest = std::max(longest.value_or(absl::ZeroDuration()), node->server->grants_alone_for());
  }
  return longest.value_or(ServerInfo().longest_replica_lag + absl::Seconds(1));
}

std::string Cluster::server(std::string_view key) const {
  const ClusterNodePtr owner = key.empty() ? nullptr : map_->Owner(SlotOf(key));
  return owner == nullptr ? name_ : owner->server->server({});
}

absl::Status Cluster::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  if (absl::Status found = map_->AwaitSome(deadline); !found.ok()) return found;
  std::vector<ClusterNodePtr> nodes;
  for (ClusterNodePtr& each : map_->owners()) {
    const bool known = std::find(nodes.rbegin(), nodes.rend(), each) != nodes.rend();
    if (each != nullptr && !known) nodes.push_back(std::move(each));
  }
  absl::Status connected;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const base::Instant now = base::Now();
    connected = nodes[i]->server->Connect(
        now + (deadline - now) / static_cast<int64_t>(nodes.size() - i), warnings);
    if (!absl::IsUnavailable(connected)) break;
  }
  return connected;
}

absl::StatusOr<Reply> Cluster::AskOwner(Slot slot, base::Instant deadline, StillWanted still_wanted,
                                        Ask ask) {
  base::Backoff backoff(kFirstBackoff, kLongestBackoff);
  ClusterNodePtr asked_once;
  for (int redirects = 0;;) {
    ClusterNodePtr node = std::exchange(asked_once, nullptr);
    const bool asking = node != nullptr;
    if (!asking) {
      absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(slot, deadline);
      if (!owner.ok()) return owner.status();
      node = *std::move(owner);
    }
    absl::StatusOr<Reply> answer = ask(node, asking);
    if (answer.ok()) return answer;
    const std::optional<Redirect> redirect = RedirectOf(answer.status());
    if (absl::IsUnavailable(answer.status())) map_->LookSoon();
    // Not sent, or refused for now: elsewhere it may be another matter.
    const bool not_sent = NotSent(answer.status()) && (absl::IsUnavailable(answer.status()) ||
                                                       absl::IsNotFound(answer.status()));
    const bool elsewhere = not_sent || (RefusedForNow(answer.status()) &&
                                        (asking || !map_->IsOwner(slot, node.get())));
    if (!redirect && !elsewhere) return answer;
    const absl::Status redirected = answer.status();
    if (redirect) answer = StillMoves(redirected);
    if (deadline <= base::Now() || !still_wanted()) return answer;
    if (redirect) {
      ClusterNodePtr next = map_->Follow(*redirect, *node, deadline);
      const bool known = next != nullptr;
      if (!known) answer = StillMoves(redirected, false);
      if (redirect->once) asked_once = std::move(next);
      if (known && ++redirects % kRedirectsAtOnce != 0) continue;
    } else if (!map_->IsOwner(slot, node.get()) || (not_sent && map_->Refresh(deadline))) {
      continue;
    }
    const base::Instant next = base::Now() + backoff.Next();
    if (deadline <= next) return answer;
    base::Parker().ParkUntil(next);
  }
}

absl::StatusOr<Reply> Cluster::Call(std::string_view key, const Command& command,
                                    base::Instant deadline) {
  return AskOwner(SlotOf(key), deadline, AlwaysWanted,
                  [&](const ClusterNodePtr& node, bool asking) -> absl::StatusOr<Reply> {
                    absl::StatusOr<Reply> answer = asking
                                                       ? CallAsking(*node, command, deadline)
                                                       : node->server->Call(key, command, deadline);
                    if (!answer.ok() || !answer->is_error()) return answer;
                    absl::Status refused = ErrorStatus(answer->text, node->server->server({}));
                    if (RedirectOf(refused)) return refused;
                    return answer;
                  });
}

absl::StatusOr<Reply> Cluster::Run(const ScriptCall& plain, base::Instant deadline,
                                   StillWanted still_wanted) {
  const ScriptCall call = scripts_.Of(plain);
  const Slot slot = SlotOf(call.keys.front());
  return AskOwner(slot, deadline, still_wanted, [&](const ClusterNodePtr& node, bool asking) {
    if (asking) return RunAsking(*node, call, deadline);
    return node->server->Run(call, deadline, [&] {
      map_->LookSoon();  // it was refused for now
      return map_->IsOwner(slot, node.get()) && still_wanted();
    });
  });
}

absl::Status Cluster::Send(std::string_view key, const Command& command, Done done) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner == nullptr) {
    return absl::UnavailableError(absl::StrCat("not sent to ", name_, ": not connected"));
  }
  return owner->server->Send(key, command, std::move(done));
}

bool Cluster::Drain(std::string_view key, base::Instant until) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner == nullptr || owner->server->Drain(key, until);
}

bool Cluster::MayPost(std::string_view key, const LuaScript& script) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr &&
         owner->server->MayPost(key, *scripts_.Of(ScriptCall{.script = &script}).script);
}

absl::Status Cluster::Post(const ScriptCall& plain, Exchange& exchange) {
  const ScriptCall call = scripts_.Of(plain);
  const ClusterNodePtr owner = map_->Owner(SlotOf(call.keys.front()));
  if (owner == nullptr) {
    return absl::UnavailableError(absl::StrCat("not sent to ", name_, ": not connected"));
  }
  return owner->server->Post(call, exchange);
}

bool Cluster::BeginRun(const ScriptCall& plain, Exchange& exchange) {
  const ScriptCall call = scripts_.Of(plain);
  const ClusterNodePtr owner = map_->Owner(SlotOf(call.keys.front()));
  exchange.keeps = owner;
  return owner != nullptr && owner->server->BeginRun(call, exchange);
}

bool Cluster::DrainAll(base::Instant until) {
  bool all = true;
  for (const ClusterNodePtr& node : map_->nodes()) all = node->server->DrainAll(until) && all;
  return all;
}

Transport::Polled Cluster::BeginPoll(std::string_view key) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner == nullptr ? Transport::Polled() : owner->server->BeginPoll(key);
}

void Cluster::BeginPollAll(std::vector<Transport::Polled>& polled) {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->BeginPollAll(polled);
}

Deployment::Realigned Cluster::Realign() {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->Realign();
  const base::MutexLock lock(mu_);
  return {.concerned = [concerned = std::exchange(concerned_, {})](
                           std::string_view key) { return concerned.test(SlotOf(key)); },
          .reconnected = std::exchange(reconnected_, false)};
}

Deployment::Stats Cluster::stats() const {
  Stats sum;
  for (const ClusterNodePtr& node : map_->nodes()) {
    const Stats stats = node->server->stats();
    sum.connects += stats.connects;
    sum.breaks += stats.breaks;
    sum.late += stats.late;
  }
  return sum;
}

void Cluster::Stop() {
  stopped_ = true;
  map_->Stop();
}

}  // namespace redlatch::redis
