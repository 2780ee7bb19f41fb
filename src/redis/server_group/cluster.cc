#include "src/redis/server_group/cluster.h"

#include <algorithm>
#include <bitset>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/random.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// Between attempts that were refused for a reason that passes.
constexpr absl::Duration kFirstBackoff = absl::Milliseconds(2);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(50);
// Of the map's thread, for one slot, and for all that it has to do before it looks again.
constexpr absl::Duration kSubscribePatience = absl::Milliseconds(100);
constexpr absl::Duration kRound = absl::Milliseconds(300);
// Before a channel is tried again whose slot is on the move.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

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
      quarantine_(url.quarantine > absl::ZeroDuration()
                      ? std::make_unique<ClusterQuarantine>(own_.quarantine)
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
      Membership{.thread = subscriber_thread_,
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
  return longest.value_or(absl::Seconds(1));
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

absl::Status Cluster::Post(const ScriptCall& plain, InFlight& in_flight) {
  const ScriptCall call = scripts_.Of(plain);
  const ClusterNodePtr owner = map_->Owner(SlotOf(call.keys.front()));
  if (owner == nullptr) {
    return absl::UnavailableError(absl::StrCat("not sent to ", name_, ": not connected"));
  }
  return owner->server->Post(call, in_flight);
}

bool Cluster::BeginRun(const ScriptCall& plain, InFlight& in_flight) {
  const ScriptCall call = scripts_.Of(plain);
  const ClusterNodePtr owner = map_->Owner(SlotOf(call.keys.front()));
  in_flight.keeps = owner;
  return owner != nullptr && owner->server->BeginRun(call, in_flight);
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

ServerGroup::Realigned Cluster::Realign() {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->Realign();
  const base::MutexLock lock(mu_);
  return {.concerned = [concerned = std::exchange(concerned_, {})](
                           std::string_view key) { return concerned.test(SlotOf(key)); },
          .reconnected = std::exchange(reconnected_, false)};
}

ServerGroup::Stats Cluster::stats() const {
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

// ---- Many calls at once. Each node's share travels in one write; those of several nodes are under
// way at the same time, and a node that is down delays only its own share.

namespace {

// How long a node that is not connected may take in each batch, to become so in time.
constexpr absl::Duration kBriefly = absl::Milliseconds(50);
constexpr absl::Duration kTurn = absl::Milliseconds(1);
// Before what a slot on the move has refused is run again.
constexpr absl::Duration kPause = absl::Milliseconds(5);

// What goes to one node, and what came of it. The answers may come after the caller has left.
struct Share {
  ClusterNodePtr node;
  std::vector<size_t> indexes;  // among all calls
  base::Mutex mu;
  base::CondVar changed;
  bool answered ABSL_GUARDED_BY(mu) = false;
  std::vector<absl::StatusOr<Reply>> answers ABSL_GUARDED_BY(mu);
};
using Shares = std::vector<std::shared_ptr<Share>>;

// One for each node that serves some of those keys; the others are homeless.
Shares ShareOut(const ClusterMap& map, size_t count,
                absl::FunctionRef<std::string_view(size_t index)> key_of,
                std::vector<size_t>& homeless) {
  ByClusterNode<std::shared_ptr<Share>> by_node;
  for (size_t i = 0; i < count; ++i) {
    const ClusterNodePtr owner = map.Owner(SlotOf(key_of(i)));
    if (owner == nullptr) {
      homeless.push_back(i);
      continue;
    }
    std::shared_ptr<Share>& share = by_node[owner];
    if (share == nullptr) share = std::make_shared<Share>();
    share->node = owner;
    share->indexes.push_back(i);
  }
  Shares shares;
  for (auto& [node, share] : by_node) shares.push_back(std::move(share));
  return shares;
}

bool SendShare(const std::shared_ptr<Share>& share,
               absl::FunctionRef<Command(size_t index)> command_of) {
  std::vector<Command> commands;
  for (const size_t i : share->indexes) commands.push_back(command_of(i));
  std::vector<absl::StatusOr<Reply>> room(commands.size());  // the reader needs no memory then
  const absl::Status sent = share->node->server->commands().SendAll(
      commands, [share, room = std::move(room)](absl::Span<absl::StatusOr<Reply>> answers) mutable {
        std::move(answers.begin(), answers.end(), room.begin());
        const base::MutexLock lock(share->mu);
        share->answers = std::move(room);
        share->answered = true;
        share->changed.SignalAll();
      });
  return sent.ok();
}

bool Answered(Share& share, base::Instant until) {
  share.node->server->commands().Drain(until);
  const base::MutexLock lock(share.mu);
  // Where another thread reads the connection, that brings the answers.
  if (!share.answered && base::Now() < until) share.changed.WaitUntil(share.mu, until);
  return share.answered;
}

// The thread that reads a connection may leave it before these answers have come.
void AwaitAll(const Shares& sent, base::Instant deadline) {
  for (bool waits = !sent.empty(); waits && base::Now() < deadline;) {
    waits = false;
    for (const auto& share : sent) {
      waits |= !Answered(*share, std::min(deadline, base::Now() + kTurn));
    }
  }
}

// To be asked once more, by itself: elsewhere, with the script's text, or in a moment.
bool AskAgain(const Reply& reply) {
  if (!reply.is_error()) return false;
  const ErrorCode code = ClassifyError(reply.text);
  return code == ErrorCode::kMoved || code == ErrorCode::kAsk || code == ErrorCode::kNoScript ||
         IsTransient(code);
}

}  // namespace

void Cluster::RunBatch(absl::Span<const ScriptCall> plain, base::Instant deadline,
                       absl::Span<absl::StatusOr<Reply>> results) {
  std::vector<ScriptCall> calls;
  for (const ScriptCall& call : plain) calls.push_back(scripts_.Of(call));
  std::vector<size_t> again;
  const Shares shares = ShareOut(
      *map_, calls.size(), [&](size_t i) { return calls[i].keys.front(); }, again);
  Shares sent;
  Shares unsent;
  const bool alone = shares.size() == 1;
  const auto encode = [&](size_t i) { return EncodeCall(calls[i], /*by_text=*/false); };
  for (const auto& share : shares) {
    (!alone && SendShare(share, encode) ? sent : unsent).push_back(share);
  }
  for (const auto& share : unsent) {
    std::vector<ScriptCall> its;
    for (const size_t i : share->indexes) its.push_back(calls[i]);
    std::vector<absl::StatusOr<Reply>> answers(its.size());
    share->node->server->RunBatchOnce(its,
                                      alone ? deadline : std::min(deadline, base::Now() + kBriefly),
                                      absl::MakeSpan(answers));
    for (size_t i = 0; i < its.size(); ++i) {
      const absl::Status& status = answers[i].status();
      const bool refused = absl::IsUnavailable(status) || absl::IsNotFound(status);
      if (RedirectOf(status) || (refused && !MayHaveExecuted(status))) {
        again.push_back(share->indexes[i]);
      }
      if (absl::IsUnavailable(status)) map_->LookSoon();
      results[share->indexes[i]] = std::move(answers[i]);
    }
  }
  AwaitAll(sent, deadline);
  for (const auto& share : sent) {
    const base::MutexLock lock(share->mu);
    for (size_t i = 0; i < share->indexes.size(); ++i) {
      absl::StatusOr<Reply>& result = results[share->indexes[i]];
      if (!share->answered) {
        result = MarkMayHaveExecuted(
            absl::UnavailableError(share->node->server->server({}) + " did not answer in time"));
      } else if (!share->answers[i].ok() || !share->answers[i]->is_error()) {
        result = std::move(share->answers[i]);
      } else if (AskAgain(*share->answers[i])) {
        again.push_back(share->indexes[i]);
      } else {
        result = ErrorStatus(share->answers[i]->text, share->node->server->server({}));
      }
    }
  }
  for (const size_t i : again) {
    const bool only = calls.size() == 1;
    const base::Instant until = only ? deadline : std::min(deadline, base::Now() + kBriefly);
    results[i] = Run(plain[i], until, AlwaysWanted);
  }
}

std::vector<std::string> Cluster::Get(absl::Span<const std::string> keys, base::Instant deadline) {
  std::vector<std::string> texts(keys.size());
  std::vector<size_t> again;
  const Shares shares = ShareOut(
      *map_, keys.size(), [&](size_t i) { return std::string_view(keys[i]); }, again);
  const auto get = [&](size_t i) { return Command({"GET", keys[i]}); };
  Shares sent;
  for (const auto& share : shares) {
    std::vector<std::string> warnings;
    const base::Instant until = std::min(deadline, base::Now() + kBriefly);
    if (SendShare(share, get) ||
        (share->node->server->Connect(until, warnings).ok() && SendShare(share, get))) {
      sent.push_back(share);
    }
  }
  AwaitAll(sent, deadline);
  for (const auto& share : sent) {
    const base::MutexLock lock(share->mu);
    for (size_t i = 0; share->answered && i < share->indexes.size(); ++i) {
      absl::StatusOr<Reply>& answer = share->answers[i];
      if (answer.ok() && AskAgain(*answer)) again.push_back(share->indexes[i]);
      if (answer.ok() && !answer->is_error()) texts[share->indexes[i]] = std::move(answer->text);
    }
  }
  for (const size_t i : again) {
    absl::StatusOr<Reply> answer =
        Call(keys[i], get(i), std::min(deadline, base::Now() + kBriefly));
    if (answer.ok() && !answer->is_error()) texts[i] = std::move(answer->text);
  }
  return texts;
}

// What was not executed, since the slot moves, is run again: where it is then.
absl::StatusOr<base::Acks> Cluster::RunAcked(absl::Span<const ScriptCall> plain,
                                             const base::AcksWanted& wanted,
                                             absl::Duration patience, base::Instant deadline,
                                             absl::Span<absl::StatusOr<Reply>> results) {
  // Others wait behind these.
  const base::Instant until = std::min(deadline, base::Now() + kBriefly);
  base::Acks all{.replicas = std::numeric_limits<int16_t>::max(), .synced = true};
  absl::Status failure;
  std::vector<size_t> open(plain.size());
  std::iota(open.begin(), open.end(), size_t{0});
  while (!open.empty()) {
    ByClusterNode<std::vector<size_t>> by_node;
    for (const size_t i : open) {
      const auto owner = map_->AwaitOwner(SlotOf(plain[i].keys.front()), deadline);
      if (!owner.ok()) {
        results[i] = failure = owner.status();
        continue;
      }
      by_node[*owner].push_back(i);
    }
    open.clear();
    for (const auto& [node, indexes] : by_node) {
      std::vector<ScriptCall> its;
      for (const size_t i : indexes) its.push_back(scripts_.Of(plain[i]));
      std::vector<absl::StatusOr<Reply>> answers(its.size());
      const absl::StatusOr<base::Acks> acks =
          node->server->RunAcked(its, wanted, patience, deadline, absl::MakeSpan(answers));
      // The client's description lies in the first one's slot.
      const bool all_move = RedirectOf(acks.status()).has_value();
      for (size_t i = 0; i < indexes.size(); ++i) {
        const absl::Status& status = answers[i].status();
        const std::optional<Redirect> redirect = RedirectOf(status);
        if (redirect) map_->Follow(*redirect, *node, until);
        const bool moves = all_move || redirect || RefusedForNow(status);
        if (moves && base::Now() + kPause < until) open.push_back(indexes[i]);
        results[indexes[i]] = redirect   ? StillMoves(status)
                              : all_move ? StillMoves(acks.status())
                                         : std::move(answers[i]);
      }
      if (!acks.ok() && !all_move) {
        failure = acks.status();
        if (NotSent(failure)) map_->LookSoon();
      } else if (acks.ok()) {
        all.replicas = std::min(all.replicas, acks->replicas);
        all.synced = all.synced && acks->synced;
      }
    }
    if (!open.empty()) base::Parker().ParkUntil(base::Now() + kPause);
  }
  if (!failure.ok()) return failure;
  return all;
}

// ---- Where a cluster client's messages come from, slot by slot, and what the map's thread does
// about those that do not come any more.

std::string Cluster::slot_tag(std::string_view key) const { return TagOf(SlotOf(key)) + ":"; }

ClusterNodePtr Cluster::SubscribedAt(Slot slot) const {
  const base::MutexLock lock(mu_);
  const auto found = subscribed_at_.find(slot);
  return found == subscribed_at_.end() ? nullptr : found->second;
}

bool Cluster::subscribed(std::string_view key) const {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get());
}

bool Cluster::subscribed_now(std::string_view key) const {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at != nullptr && map_->IsOwner(SlotOf(key), at.get()) && at->server->live();
}

absl::Status Cluster::Subscribe(std::string_view key, base::Instant deadline,
                                const std::stop_token& stop) {
  return SubscribeTo(SlotOf(key), deadline, stop);
}

absl::Status Cluster::SubscribeTo(Slot slot, base::Instant deadline, const std::stop_token& stop) {
  const ClusterNodePtr before = SubscribedAt(slot);
  {
    const base::MutexLock lock(mu_);
    wanted_.set(slot);
  }
  absl::Status subscribed = SubscribeOnce(slot, deadline, stop);
  bool moved = false;
  {
    const base::MutexLock lock(mu_);
    // Goes on in the background, unless it is refused for good.
    if (absl::IsUnavailable(subscribed)) silent_.set(slot);
    if (!subscribed.ok() && !absl::IsUnavailable(subscribed)) wanted_.reset(slot);
    moved = subscribed.ok() && before != nullptr && before != subscribed_at_[slot];
    if (moved) concerned_.set(slot);
  }
  // What was published meanwhile is lost: all waiters must ask.
  if (moved) events_.on_reconnected();
  if (absl::IsUnavailable(subscribed)) map_->LookSoon();
  return subscribed;
}

absl::Status Cluster::SubscribeOnce(Slot slot, base::Instant deadline,
                                    const std::stop_token& stop) {
  const std::string channel = own_.channel(TagOf(slot) + ":");
  base::Backoff backoff(kFirstPause, kLongestPause);
  for (int redirects = 0;;) {
    const absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(slot, deadline);
    if (!owner.ok()) return owner.status();
    ClusterNode& node = **owner;
    ClusterNodePtr before;
    {
      const base::MutexLock lock(mu_);
      before = std::exchange(asked_at_[slot], *owner);
    }
    if (before != nullptr && before != *owner && !map_->IsOwner(slot, before.get())) {
      before->server->Forget(channel);
    }
    absl::Status subscribed = node.server->SubscribeTo(channel, deadline, stop);
    if (subscribed.ok()) {
      {
        const base::MutexLock lock(mu_);
        subscribed_at_[slot] = *owner;
      }
      if (map_->IsOwner(slot, &node)) return subscribed;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      const bool known = map_->Follow(*redirect, node, deadline) != nullptr;
      if (known && ++redirects % kRedirectsAtOnce != 0) continue;
    } else if (NotSent(subscribed) || absl::IsCancelled(subscribed)) {
      map_->LookSoon();  // the slot has just left
    } else {
      return subscribed;
    }
    const base::Instant next = base::Now() + backoff.Next();
    if (deadline <= next || stop.stop_requested()) {
      return absl::UnavailableError(
          absl::StrCat("the slot of ", channel, " moves (still trying in the background)"));
    }
    base::Parker().ParkUntil(next);
  }
}

uint32_t Cluster::Await(std::string_view key, base::Parker& parker, base::Instant deadline) {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  return at == nullptr ? parker.ParkUntil(deadline) : at->server->Await(key, parker, deadline);
}

void Cluster::Attend(std::string_view key, bool begins) try {
  const Slot slot = SlotOf(key);
  ClusterNodePtr at;
  {
    const base::MutexLock lock(mu_);
    if (begins) {
      if (const auto found = subscribed_at_.find(slot); found != subscribed_at_.end())
        at = found->second;
      attended_.emplace(slot, at);
    } else if (const auto found = attended_.find(slot); found != attended_.end()) {
      at = found->second;
      attended_.erase(found);
    }
  }
  if (at != nullptr) at->server->Attend(key, begins);
} catch (const std::bad_alloc&) {  // it is heard all the same, only not at once
}

void Cluster::Look(std::string_view key) {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  if (at != nullptr) at->server->Look(key);
}

bool Cluster::asks_if_subscribed(std::string_view key) const {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr && owner->server->asks_if_subscribed(key);
}

void Cluster::NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) {
  // One that is just being subscribed anew says nothing of the connections.
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && subscribed(key)) owner->server->NoteSubscribed(key, is_subscribed, asked);
}

void Cluster::CheckSubscription(std::string_view key, base::Instant now,
                                std::optional<base::Instant> missed_since) {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  if (owner != nullptr && subscribed(key)) owner->server->CheckSubscription(key, now, missed_since);
}

// References to forgotten nodes would keep their connections open.
void Cluster::OnView() {
  view_whole_ = true;
  const auto forgotten = [](const auto& each) {
    return each.second != nullptr && each.second->forgotten;
  };
  const base::MutexLock lock(mu_);
  std::erase_if(subscribed_at_, forgotten);
  std::erase_if(asked_at_, forgotten);
  for (auto& each : attended_) {
    if (forgotten(each)) each.second = nullptr;
  }
}

void Cluster::Concern(Slot slot) {
  view_whole_ = false;
  {
    const base::MutexLock lock(mu_);
    concerned_.set(slot);
    described_ = described_ && slot != SlotOf(own_.description_key);
    if (wanted_.test(slot)) silent_.set(slot);
  }
  map_->Wake();
  events_.on_reconnected();
}

void Cluster::ConcernAllOf(const SingleServer* server) {
  if (quarantine_ != nullptr) {
    quarantine_->CheckAgain(server);
    map_->Wake();
  }
  const std::vector<ClusterNodePtr> owners = map_->owners();
  const base::MutexLock lock(mu_);
  for (size_t slot = 0; slot < owners.size(); ++slot) {
    const ClusterNodePtr& owner = owners[slot];
    if (owner == nullptr || owner->server.get() == server) concerned_.set(slot);
  }
  described_ = described_ && !concerned_.test(SlotOf(own_.description_key));
  reconnected_ = true;
}

void Cluster::Silent(std::string_view channel) {
  const Slot slot = SlotOf(channel);
  {
    const base::MutexLock lock(mu_);
    silent_.set(slot);
  }
  map_->Wake();  // before it looks, which takes longer
  map_->LookSoon();
}

base::Instant Cluster::DoChores() {
  Describe();
  SubscribeAnew();
  // What is followed slot by slot is not all that a node has.
  const bool begins = quarantine_ != nullptr && view_whole_;
  return begins ? quarantine_->GoOn(*map_, base::Now() + kRound) : base::Instant::Infinite();
}

void Cluster::Describe() {
  {
    const base::MutexLock lock(mu_);
    if (std::exchange(described_, true)) return;
  }
  Call(own_.description_key, own_.description, base::Now() + kSubscribePatience).IgnoreError();
}

void Cluster::SubscribeAnew() {
  std::bitset<kSlots> silent;
  size_t first = 0;
  {
    const base::MutexLock lock(mu_);
    silent = std::exchange(silent_, {});
    first = next_silent_;
  }
  const base::Instant until = base::Now() + kRound;
  bool subscribed = false;
  for (size_t i = 0, left = silent.count(); i < kSlots && left > 0; ++i) {
    const size_t each = (first + i) % kSlots;
    const auto slot = static_cast<Slot>(each);
    if (!silent.test(slot)) continue;
    const base::Instant now = base::Now();
    if (stopped_ || until <= now) break;
    silent.reset(slot);
    --left;
    const bool done = SubscribeTo(slot, std::min(until, now + kSubscribePatience), {}).ok();
    subscribed |= done;
    const base::MutexLock lock(mu_);
    if (done) concerned_.set(slot);
    next_silent_ = (each + 1) % kSlots;
  }
  if (subscribed) events_.on_reconnected();
  if (silent.none() || stopped_) return;
  {
    const base::MutexLock lock(mu_);
    silent_ |= silent;
  }
  map_->LookSoon();  // which leads here again
}

}  // namespace redlatch::redis
