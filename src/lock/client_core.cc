#include "src/lock/client_core.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "lua/scripts.h"
#include "src/base/error_address.h"
#include "src/base/parker.h"
#include "src/base/short_text.h"
#include "src/base/status.h"
#include "src/lock/description.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"
#include "src/lock/lock_handle.h"
#include "src/redis/server_group/cluster.h"
#include "src/redis/server_group/single_server.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {

namespace {

// How long exit() may wait for servers.
constexpr absl::Duration kLongestExit = absl::Milliseconds(150);
constexpr absl::Duration kExitTurn = absl::Microseconds(200);

// The clients of this process. Some are never destroyed.
struct Clients {
  const base::ForkGuard fork_guard;
  base::Mutex mu;
  std::vector<std::weak_ptr<ClientCore>> cores ABSL_GUARDED_BY(mu);

  // Null in a forked child if a thread of the parent was in here.
  static Clients* All();
};

// A function for std::atexit(): it runs at exit(), or when the plugin that has it is unloaded.
void GiveBackAll() {
  std::vector<std::weak_ptr<ClientCore>> cores;
  if (Clients* const all = Clients::All()) {
    const base::MutexLock lock(all->mu);
    cores.swap(all->cores);
  }
  const base::Instant until = base::Now() + kLongestExit;
  for (const std::weak_ptr<ClientCore>& each : cores) {
    const std::shared_ptr<ClientCore> core = each.lock();
    if (core != nullptr && !core->in_forked_child()) core->GiveBackAtExit(until);
  }
}

Clients* Clients::All() {
  static Clients* const all = [] {
    std::atexit(GiveBackAll);
    return new Clients;
  }();
  return all->fork_guard.InForkedChild() && !all->mu.IsFree() ? nullptr : all;
}

}  // namespace

ClientCore::ClientCore(redis::Url url, ClientOptions options, QuorumRunner::Make make_quorum,
                       DescriptionPace pace, std::string url_problem)
    : url_(std::move(url)),
      url_problem_(std::move(url_problem)),
      options_(std::move(options)),
      observer_(options_.observer ? options_.observer : std::make_shared<Observer>()),
      observer_needs_tokens_(observed() && observer_->needs_tokens()),
      identity_(NewIdentity()),
      event_driver_(std::make_shared<EventDriver>(*this)),
      pace_(pace),
      description_(DescribeCommand(identity_.client, ThisProcess(options_.program), absl::Now(),
                                   pace_.lifetime)),
      server_group_(MakeServerGroup(make_quorum)),
      server_(server_group_->facts({}).name),
      lock_table_(
          {.tells_token = observed(),
           .unreachable_after = options_.unreachable_after,
           .numbers = &numbers_},
          static_cast<size_t>(std::max(options_.stats_names, 0)),
          url_.quarantine > absl::ZeroDuration(),
          [this](size_t entries) {
            background_.MakeRoom(entries);
            notifier_->MakeRoom(entries);
          },
          [this](Entry& entry) {
            background_.Remove(entry);
            notifier_->Remove(entry);
          }),
      background_(*this, pace_.refresh) {}

// Ends the threads, which use all members.
ClientCore::~ClientCore() {
  server_group_->Stop();
  const base::Instant until = base::Now() + command_timeout();
  event_driver_->Stop(until);
  background_.Stop(until);
  unattended_.Flush(until);  // if there was no thread for that
  batches_.Stop();
  notifier_->Stop();
  unattended_.Close();
  // The last command. If the server is unreachable, the description expires.
  base::WithMemory([this] {
    const std::string key = DescriptionKey(identity_.client);
    server_group_->Send(key, redis::Command({"DEL", key})).IgnoreError();
  });
}

// Replaces destruction in a forked child.
void ClientCore::Abandon() { server_group_.reset(); }

std::shared_ptr<ClientCore> ClientCore::Make(redis::Url url, ClientOptions options,
                                             QuorumRunner::Make make_quorum, DescriptionPace pace,
                                             std::string url_problem) {
  std::shared_ptr<ClientCore> core(
      new ClientCore(std::move(url), std::move(options), make_quorum, pace, std::move(url_problem)),
      [](ClientCore* last) {
        // Called when the last client, lock or lease is gone.
        if (last->in_forked_child()) return last->Abandon();
        delete last;
      });
  if (Clients* const all = Clients::All()) {
    const base::MutexLock lock(all->mu);
    std::erase_if(all->cores, [](const auto& each) { return each.expired(); });
    all->cores.push_back(core);
  }
  return core;
}

std::shared_ptr<ClientCore> ClientCore::QuorumOf(
    const std::vector<std::shared_ptr<ClientCore>>& members, QuorumRunner::Make make_quorum) {
  if (members.size() == 1 && members.front()->is_quorum()) return members.front();
  std::vector<redis::Url> urls;
  std::string name;
  std::string problem;
  for (const std::shared_ptr<ClientCore>& member : members) {
    urls.push_back(member->url_);
    absl::StrAppend(&name, member->identity_.client, " ");
    if (member->options_.key_prefix != members.front()->options_.key_prefix) {
      problem = "the clients of a quorum have different key prefixes; give all the same";
    }
  }
  absl::StatusOr<redis::Url> url = redis::QuorumOf(std::move(urls));
  if (!url.ok()) problem = std::string(url.status().message());
  const auto make = [&] {
    return Make(url.ok() ? *std::move(url) : redis::Url{.kind = redis::Url::Kind::kQuorum},
                members.empty() ? ClientOptions() : members.front()->options_, make_quorum, {},
                std::move(problem));
  };
  if (members.empty() || members.front()->in_forked_child()) return make();
  return members.front()->quorums_.Of(name, make);
}

std::shared_ptr<const LockOptions> ClientCore::Share(LockOptions options) {
  auto mine = std::make_shared<const LockOptions>(std::move(options));
  if (mine->on_lost || mine->on_wanted || in_forked_child()) return mine;
  // Names each member, so that a new one does not compile until it is compared.
  const auto all = [](const LockOptions& its) {
    const auto& [lease, turn, cache_for, acks, stop_margin, at_most, grace, on_lost, tell_if_wanted,
                 on_wanted] = its;
    const auto& [replicas, fsync, timeout] = acks;
    const std::array<absl::Duration, 7> times = {
        lease,  turn.value_or(-absl::InfiniteDuration()), cache_for, stop_margin, at_most, grace,
        timeout};
    return std::tuple(times, on_lost == nullptr, tell_if_wanted, on_wanted == nullptr, replicas,
                      fsync);
  };
  const base::MutexLock lock(share_mu_);
  if (shared_options_ == nullptr || all(*shared_options_) != all(*mine)) shared_options_ = mine;
  return shared_options_;
}

absl::Status ClientCore::OfForkedChild() const {
  return base::WithAddress(absl::FailedPreconditionError(
      absl::StrCat("the locks at ", server(),
                   " belong to the process that forked this one; connect again after fork()")));
}

ClientStats ClientCore::Stats() {
  ClientStats stats{.server = server(), .name = url_.client_name, .id = identity_.client};
  if (in_forked_child()) return stats;
  const redis::Connection::Stats connections = server_group_->facts({}).connections;
  stats.connects = connections.connects;
  stats.breaks = connections.breaks;
  stats.reconnects = reconnects_.load(std::memory_order_relaxed);
  stats.late = connections.late;
  stats.locks = lock_table().Stats();
  for (const LockStats& lock : stats.locks) stats.all += lock;
  return stats;
}

Subject ClientCore::SubjectOf(const NamedLock& lock) const {
  const LockType& type = *lock.type;
  const bool own = lock.owner.empty() || type.use == GrantUse::kPermit || !type.others.empty();
  return {.identity = identity_,
          .keys = lock.keys,
          .type = type,
          .owner = own ? identity_.client : lock.owner,
          .claim = round_trips_.Claim(),
          // The deadline of a quorum's claim counts from its first node, rounds before the last.
          .brief_claim =
              is_quorum() ? absl::InfiniteDuration() : round_trips_.Claim(kShortestBriefClaim),
          .listens = type.redisson() && wake_channels_.ListensAt(lock.keys, type),
          .server_group = server_group_.get(),
          .quarantine = url_.quarantine};
}

std::string ClientCore::ReaderName(GrantId write_grant) {
  const uint64_t fresh = numbers_.Next();
  if (write_grant == 0) return absl::StrCat("read:", fresh, ":", identity_.client);
  return absl::StrCat("nest:", fresh, ":", identity_.client, ":", write_grant & ~kCacheable,
                      IsCacheable(write_grant) ? "k" : "");
}

std::string ClientCore::FreshId() { return absl::StrCat(identity_.client, ":", numbers_.Next()); }

Operation::Action ClientCore::Resume(Entry& entry, Operation& operation,
                                     Operation::Event event) noexcept {
  Operation::Action action;
  FeedWithRoom(entry, [&](LockState& state, base::Instant now, Effects& effects) {
    entry.mu.AssertHeld();
    // Under the entry's mutex: if messages stop arriving now, the state is told later.
    const redis::Subscription subscription = server_group_->subscription(entry.keys.main());
    event.subscribed = subscription.acknowledged;
    event.messages_arrive = subscription.live;
    event.listens = entry.listens != nullptr && entry.listens->live(state.pending_acquire());
    action = operation.Resume(event, now, state, effects);
  });
  return action;
}

absl::Status ClientCore::Subscribe(Entry& entry, base::Instant deadline) {
  const std::string_view key = entry.keys.main();
  const bool redisson = entry.type->redisson();
  if (!redisson || !server_group_->subscription(key).acknowledged) {
    absl::Status subscribed = server_group_->Subscribe(key, deadline);
    if (!redisson || !subscribed.ok()) return subscribed;
  }
  return wake_channels_.Listen(entry, deadline);
}

void ClientCore::NoteAnswer(const Entry& entry, const Request& request, const Result& result) {
  const AcquireRequest* const acquire = request.acquire();
  if (result.failed() == nullptr) {
    const auto* const release = std::get_if<ReleaseRequest>(&request.what);
    if (release != nullptr && entry.type->redisson()) Unlatch(entry, request, result);
    const bool flagged =
        release != nullptr && release->native && std::holds_alternative<NotHeld>(result.what);
    // A lock that stays taken ends by itself. A plain release would end it sooner.
    const bool may_repeat = release != nullptr && !flagged && release->taken_until == 0;
    if (may_repeat) confirmed_releases_.Add(entry, request, *release);
    if (acquire != nullptr && release == nullptr) round_trips_.Add(base::Now() - request.sent);
  }
  if (result.no_native) no_native_.store(true, std::memory_order_relaxed);
  if (result.unreachable()) return;
  if (silent_.load(std::memory_order_relaxed)) silent_.store(false, std::memory_order_relaxed);
}

// The answer to an unlock request has come, so it is not repeated.
void ClientCore::Unlatch(const Entry& entry, const Request& release, const Result& result) {
  const bool latched = entry.type->use != GrantUse::kPermit && !release.leaves_tombstone() &&
                       std::holds_alternative<Freed>(result.what);
  if (!latched) return;
  const std::string latch = EncodedRequest::Tombstone(SubjectOf(entry), release.grant);
  server_group_->Send(entry.keys.main(), redis::Command({"DEL", latch})).IgnoreError();
}

Result ClientCore::TakeReply(const Entry& entry, const Request& request,
                             RequestInFlight& posted) noexcept {
  return OrNoMemory([&] {
    const std::string of_key = is_cluster() ? server(entry.keys.main()) : std::string();
    Result result =
        posted.result
            ? *std::move(posted.result)
            : ReadResult(request, redis::ResultOfPost(std::exchange(posted.reply, redis::Reply()),
                                                      is_cluster() ? of_key : server_));
    NoteAnswer(entry, request, result);
    return result;
  });
}

// Any client that may publish can send any message. So each message names the secret id of a grant,
// and only a grant makes this client do more than ask the server or give back a cached grant.
void ClientCore::OnMessage(std::string_view text) {
  constexpr std::string_view kLeader = "leader ";
  if (text.starts_with(kLeader)) return observations_.OnMessage(text.substr(kLeader.size()));
  std::optional<Message> message = ReadMessage(identity_, text);
  if (!message) return;
  using Kind = Message::Kind;
  NewGrant& news = message->news;
  // A forced release may name another key of a lock of several names.
  Entry* const its =
      lock_table_.ReferTo(message->key, news.grant, /*any_name=*/message->kind == Kind::kForced);
  if (its == nullptr) {  // the grant is over, or was never this client's
    if (message->kind != Kind::kRecall || !IsNative(news.grant)) return;
    // Another client waits behind a native release whose reply is unread, or behind a late acquire.
    unattended_.ReadSoon();
    return lock_table_.Visit(message->key, [&](Entry& entry) {
      Feed(entry,
           [&](LockState& state, Effects&) { state.OnUnknownNative(news.grant, base::Now()); });
    });
  }
  if (message->kind == Kind::kRecall || message->kind == Kind::kTried) {
    OnRecall(*its, news.grant, message->kind == Kind::kTried);
  } else {
    news.lease = std::min(news.lease, round_trips_.Claim());
    Feed(*its, [&](LockState& state, Effects& effects) {
      if (message->kind == Kind::kGrant) {
        return state.OnGrant(news, base::Now(), effects, /*proven=*/is_quorum());
      }
      if (message->kind == Kind::kAskAgain) return state.OnAskAgain(news.grant, effects);
      if (message->kind == Kind::kVote) return state.OnVote(news.grant, base::Now());
      state.OnForced(news.grant, base::Now());
    });
  }
  lock_table_.Unrefer(*its);
}

void ClientCore::GiveBackAtExit(base::Instant until) {
  bool open = true;  // a release may need a second attempt, or be on its way by another thread
  while (open && base::Now() < until) {
    open = false;
    lock_table_.VisitAll([&](Entry& entry) {
      std::optional<Request> request;
      Feed(entry, [&](LockState& state, Effects& effects) {
        if (!state.MakeRoom()) return;
        request = state.NextAtExit(until + kLongestExit, base::Now(), effects);
        open |= state.releases(base::Now());
      });
      if (request) unattended_.Send(entry, *request, 0);
    });
    unattended_.Flush(until);
    if (open) base::Parker().ParkUntil(base::Now() + kExitTurn);
  }
}

void ClientCore::StopAll(std::string_view name, const void* object) {
  if (in_forked_child()) return;
  event_driver().StopObject(object);
  base::ShortText<256> key;  // a destructor must not fail
  key.append(options_.key_prefix);
  key.append(name);
  lock_table().Visit(key.view(), [&](Entry& entry) {
    Feed(entry,
         [&](LockState& state, Effects& effects) { state.StopAll(object, base::Now(), effects); });
  });
}

void ClientCore::Expire(Entry& entry) {
  FeedWithRoom(entry, [](LockState& state, base::Instant now, Effects& effects) {
    state.Expire(now, effects);
  });
  lock_table_.Unrefer(entry);
}

void ClientCore::Describe() {
  // If there is no connection, the next one begins with it.
  server_group_->Send(DescriptionKey(identity_.client), description_).IgnoreError();
}

void ClientCore::Finish(Entry& entry, Effects& effects) {
  for (Waiter* const waiter : effects.wakes) waiter->waker->Wake();
  for (const LocalHold& hold : effects.lost) {
    base::WithMemory([&] { Post(entry, hold, effects.lost_because); });
  }
  for (const Notice& notice : effects.notices) base::WithMemory([&] { Post(entry, notice); });
}

// ---- Reports to users, on the client's own threads.

void ClientCore::TellLater(std::function<void(Observer&)> event) {
  notifier_->Post(LossNotifier::Urgency::kNotice, [observer = observer_, event = std::move(event)] {
    RunUsersCode("an Observer", [&] { event(*observer); });
  });
}

void ClientCore::TellReleasedLater(const Entry& entry, const Released& released) {
  base::WithMemory([&] {
    TellLater([lock = std::string(entry.name()), token = released.token,
               status = StatusOf(*this, entry, released)](Observer& observer) {
      observer.OnReleased(lock, token, status);
    });
  });
}

void ClientCore::TellAcquiredLater(const Entry& entry, FencingToken token, absl::Duration waited,
                                   const absl::Status& status) {
  base::WithMemory([&] {
    TellLater([lock = std::string(entry.name()), token, waited, status](Observer& observer) {
      status.ok() ? observer.OnAcquired(lock, token, waited)
                  : observer.OnWaitEnded(lock, waited, status);
    });
  });
}

void ClientCore::TellSubscribed(bool subscribed, std::string_view why) {
  std::string text(why);
  base::AddAddress(text);
  TellLater([subscribed, why = std::move(text), server = server()](Observer& observer) {
    subscribed ? observer.OnResubscribed(server) : observer.OnUnsubscribed(server, why);
  });
}

void ClientCore::Post(const Entry& entry, const LocalHold& hold, const LossReason& because) {
  losses_.fetch_add(1, std::memory_order_release);
  if (hold.view != nullptr) {
    notifier_->Post(LossNotifier::Urgency::kStopToken, [view = hold.view] { view->Fire(); });
  }
  LostLease lost{.lock = std::string(entry.name()),
                 .server = server(entry.keys.main()),
                 .token = hold.token,
                 .reason = because.Text()};
  base::AddAddress(lost.reason);
  auto tell = [observer = observer_, options = hold.options, lost = std::move(lost),
               view = hold.view] {
    // The thread that fires the stop token may not have reached it yet.
    if (view != nullptr) view->Fire();
    RunUsersCode("an Observer", [&] { observer->OnLost(lost); });
    if (options->on_lost) RunUsersCode("on_lost", [&] { options->on_lost(lost); });
  };
  notifier_->Post(LossNotifier::Urgency::kCallback, std::move(tell));
}

void ClientCore::PostWanted(const Entry& entry, Notice notice) {
  constexpr auto kWanted = HoldState::Signal::kWanted;
  const std::shared_ptr<HoldState> view = std::move(notice.view);
  if (view != nullptr) {
    notifier_->Post(LossNotifier::Urgency::kStopToken, [view] { view->Fire(kWanted); });
  }
  if (!notice.options->on_wanted) return;
  WantedLease wanted{.lock = std::string(entry.name()),
                     .server = server(entry.keys.main()),
                     .token = notice.token};
  auto tell = [options = std::move(notice.options), wanted = std::move(wanted), view] {
    if (view != nullptr) view->Fire(kWanted);  // as for a loss
    RunUsersCode("on_wanted", [&] { options->on_wanted(wanted); });
  };
  notifier_->Post(LossNotifier::Urgency::kCallback, std::move(tell));
}

void ClientCore::Post(const Entry& entry, Notice notice) {
  if (notice.kind == Notice::Kind::kWanted) return PostWanted(entry, std::move(notice));
  if (!observed() && notice.kind != Notice::Kind::kReleaseFailed) return;
  notice.why = base::WithAddress(notice.why);
  TellLater([lock = std::string(entry.name()), what = std::move(notice)](Observer& observer) {
    switch (what.kind) {
      case Notice::Kind::kRenewed:
        return observer.OnRenewed(lock, what.token);
      case Notice::Kind::kAtRisk:
        return observer.OnAtRisk(lock, what.token, what.remaining, what.why);
      case Notice::Kind::kRecovered:
        return observer.OnRecovered(lock, what.token);
      case Notice::Kind::kReleaseFailed:
        return observer.OnReleaseFailed(lock, what.token, what.remaining, what.why);
      case Notice::Kind::kWanted:
        return;  // see PostWanted()
    }
  });
}

// ---- The server group, and what a client says of itself there.

namespace {

// The lifetime of a mark in a cluster, which is written but never read.
constexpr absl::Duration kMarkLifetime = absl::Seconds(1);

std::string QuarantineMs(const redis::Url& url) {
  return absl::StrCat(absl::ToInt64Milliseconds(url.quarantine));
}

// The script with which each connection begins: see Handshake.
std::optional<redis::FirstScript> BeginOf(const redis::Url& url, bool of_quorum) {
  if (of_quorum && url.restart_delay > absl::ZeroDuration()) {
    const int64_t delay_ms = absl::ToInt64Milliseconds(url.restart_delay);
    const std::string key = QuorumKey({});
    return redis::FirstScript{
        redis::Command({"EVAL", lua::kQuorumBegin.body, "1", key, absl::StrCat(delay_ms)}), key};
  }
  if (url.quarantine <= absl::ZeroDuration()) return std::nullopt;
  const std::string key = PrimaryEpochKey({});
  return redis::FirstScript{
      redis::Command({"EVAL", lua::kPrimaryEpochBegin.body, "1", key, "", QuarantineMs(url)}), key};
}

// The first commands on each connection. A quorum's node gets its scripts, so that no request waits
// to send one as text.
std::vector<redis::Command> FirstOf(const redis::Command& description, bool of_quorum) {
  std::vector<redis::Command> first = {description};
  if (!of_quorum) return first;
  for (const LuaScript& script :
       {lua::kQuorumAcquire, lua::kQuorumRelease, lua::kQuorumRenew, lua::kQuorumCancel}) {
    first.push_back(redis::Command({"SCRIPT", "LOAD", script.body}));
  }
  return first;
}

}  // namespace

std::unique_ptr<redis::ServerGroup> ClientCore::MakeServerGroup(QuorumRunner::Make make_quorum) {
  redis::ServerGroup::Events events{
      .on_message = [this](std::string_view message) { OnMessage(message); },
      .on_reconnected = [this] { background_.Tell(Background::kReconnected); },
      .on_down = [this] { background_.Tell(Background::kUnsubscribed); },
      .on_subscribed = [this](bool subscribed,
                              std::string_view why) { TellSubscribed(subscribed, why); },
      .on_other_channel =
          [this](std::string_view channel, std::optional<std::string_view> message) {
            return wake_channels_.Take(channel, message);
          }};
  if (url_.kind != redis::Url::Kind::kQuorum) return MakeServerGroup(url_, std::move(events));
  // One thread reads the messages of all nodes.
  const auto listener = std::make_shared<redis::Listener>();
  const auto make = [this, listener](size_t server, redis::ServerGroup::Events its) {
    return MakeServerGroup(url_.members[server], std::move(its), listener);
  };
  auto quorum = make_quorum({.name = url_.DebugString(),
                             .restart_delay = url_.restart_delay,
                             .problem = url_problem_,
                             .servers = url_.members.size(),
                             .make = make},
                            std::move(events));
  quorum_ = quorum.get();
  return quorum;
}

std::string ClientCore::ChannelName(std::string_view tag) const {
  return absl::StrCat(std::string(kChannelPrefix), std::string(tag), identity_.client);
}

std::unique_ptr<redis::ServerGroup> ClientCore::MakeServerGroup(
    const redis::Url& url, redis::ServerGroup::Events events,
    std::shared_ptr<redis::Listener> listener) {
  const auto channel = [this](std::string_view tag) { return ChannelName(tag); };
  const auto mark = [this, process = ThisProcess(options_.program),
                     since = absl::Now()](std::string_view key) {
    const std::string tag = server_group_->slot_tag(key);
    return DescribeCommand(tag + identity_.client, process, since,
                           tag.empty() ? pace_.lifetime : kMarkLifetime, /*even_if_full=*/true);
  };
  if (url.kind == redis::Url::Kind::kCluster) {
    return std::make_unique<redis::Cluster>(
        url,
        redis::Cluster::Own{.channel = channel,
                            .description_key = DescriptionKey(identity_.client),
                            .description = description_,
                            .mark = mark,
                            .quarantine = {.begin = &lua::kPrimaryEpochBegin,
                                           .quarantine_ms = QuarantineMs(url),
                                           .client = identity_.client,
                                           .key = PrimaryEpochKey}},
        std::move(events));
  }
  return std::make_unique<redis::SingleServer>(url, ChannelName({}), BeginOf(url, is_quorum()),
                                               FirstOf(description_, is_quorum()), mark,
                                               std::move(events), std::move(listener));
}

void ClientCore::Reconnected() {
  const auto [concerned, reconnected] =
      base::WithMemory([this] { return server_group_->TakeReconnected(); });
  if (reconnected) {
    reconnects_.fetch_add(1, std::memory_order_relaxed);
    base::WithMemory([this] {
      TellLater([server = server()](Observer& observer) { observer.OnReconnected(server); });
    });
  }
  lock_table_.VisitAll([this, &concerned = concerned](Entry& entry) {
    if (concerned && !concerned(entry.keys.main())) return;
    Feed(entry, [](LockState& state, Effects&) { state.OnReconnected(base::Now()); });
  });
  counts_.RepeatAll(concerned);
  observations_.AskAll(concerned);
  base::WithMemory([this, &concerned = concerned] {
    if (is_cluster()) wake_channels_.SubscribeAgain(concerned);
    confirmed_releases_.RepeatAll(concerned);
  });
}

// ---- Cached grants.

namespace {

// How many grants a client may cache. If there are more, kSpareCached more are given back at once,
// so that not every new lock needs a scan.
constexpr size_t kMostCached = 1024;
constexpr size_t kSpareCached = 64;

}  // namespace

// The thread that reads the message also sends the release, since another client waits for it.
void ClientCore::OnRecall(Entry& entry, GrantId grant, bool tried) {
  if (tried) entry.tried = true;
  entry.recalled = grant;
  std::optional<Request> release;
  int tries = 0;
  do {
    Feed(entry, [&](LockState& state, Effects&) { release = state.NextRelease(base::Now()); });
  } while (entry.recalled == grant && ++tries < 2);  // a recall remains if memory was lacking
  if (release) unattended_.Send(entry, *release, 0);
}

void ClientCore::Unsubscribed() {
  lock_table_.VisitAll([this](Entry& entry) {
    if (!entry.type->traits.cacheable) return;
    FeedWithRoom(entry,
                 [](LockState& state, base::Instant now, Effects&) { state.OnUnsubscribed(now); });
  });
}

void ClientCore::ListenForRecalls(const Entry& entry, bool begins, bool caches) {
  server_group_->KeepReading(entry.keys.main(), begins);
  if (!caches) return;
  const size_t caching = begins ? ++caching_entries_ : --caching_entries_;
  if (begins && caching > kMostCached) background_.Tell(Background::kTooManyCached);
}

void ClientCore::GiveBackSurplus() {
  if (caching_entries_ <= kMostCached) return;
  std::vector<std::pair<base::Instant, Entry*>> cached;
  lock_table_.VisitAll([&](Entry& entry) {
    base::Instant until;
    {
      const base::MutexLock lock(entry.mu);
      until = entry.state.cached_until();
    }
    if (until == base::Instant()) return;
    LockTable::Refer(entry);
    base::Append(cached, until, &entry);
  });
  const size_t going =
      cached.size() <= kMostCached ? 0 : cached.size() - kMostCached + kSpareCached;
  std::nth_element(cached.begin(), cached.begin() + static_cast<std::ptrdiff_t>(going),
                   cached.end());
  for (size_t i = 0; i < cached.size(); ++i) {
    Entry& entry = *cached[i].second;
    if (i < going) {
      FeedWithRoom(
          entry, [](LockState& state, base::Instant now, Effects&) { state.OnTooManyCached(now); });
    }
    lock_table_.Unrefer(entry);
  }
}

}  // namespace redlatch::internal
