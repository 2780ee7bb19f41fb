#include "src/redis/server_group/cluster.h"

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/base/atomic.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/worker.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// The pause between refreshes, however many callers ask for one.
constexpr absl::Duration kApart = absl::Milliseconds(100);
// How long one node may take to answer before the next one is asked.
constexpr absl::Duration kMapTimeout = absl::Milliseconds(500);
// How often to check if the calls that use a retired node are over.
constexpr absl::Duration kCloseUnusedEvery = absl::Milliseconds(200);

// How long one node may take to answer.
constexpr absl::Duration kQuarantineTimeout = absl::Milliseconds(250);
// The pause before the next try, if it cannot be done now or another client does it.
constexpr absl::Duration kQuarantineFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kQuarantineLongestPause = absl::Seconds(10);
// After that, another client may do it instead.
constexpr std::string_view kTakenMs = "10000";
// How often to check if the keys of slots that no client uses must be renewed.
constexpr absl::Duration kDay = absl::Hours(24);
constexpr std::string_view kDayMs = "86400000";
// How many slots one write begins. It costs the server some milliseconds; after a failure, the
// number halves.
constexpr size_t kAtOnce = 256;
constexpr size_t kLeastAtOnce = 16;

bool Denied(const absl::StatusOr<Reply>& reply) {
  return reply.ok() && reply->is_error() && ClassifyError(reply->text) == ErrorCode::kNoPermission;
}

// How long the map's thread may take for one slot, and for all its chores before it refreshes
// again.
constexpr absl::Duration kSubscribeTimeout = absl::Milliseconds(100);
constexpr absl::Duration kRound = absl::Milliseconds(300);
// The pause before a channel whose slot is moving is tried again.
constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(50);

}  // namespace

// A primary of a cluster, or a former one.
struct ClusterNode {
  const HostAndPort where;
  std::unique_ptr<SingleServer> server;
  base::Atomic<bool> retired{false};          // it has left the cluster
  base::Atomic<ClusterNode*> older{nullptr};  // the node that was made before it
};

// The map from slots to nodes, as far as it is known, and the thread that refreshes it on request.
// It asks one node after the other, with a pause between refreshes, however many callers ask for
// one. A redirection is believed at once, for its slot, if it leads to a node that the latest view
// names. The client connects to no other node: a node that redirects to made-up addresses costs
// nothing, and the password is not sent there. A node that the latest view does not name is
// retired.
//
// Thread-safe.
class ClusterMap {
 public:
  struct Hooks {
    std::function<std::unique_ptr<SingleServer>(const HostAndPort& where)> make;
    // Another node serves that slot now.
    std::function<void(Slot slot)> on_moved;
    // All of the map is new. Runs on the thread.
    std::function<void()> on_view;
    // Other work for the thread, now and then, and when Wake() is called. Returns when it must be
    // called again at the latest.
    std::function<base::Instant()> chores;
  };

  // REQUIRES: `url` is of Kind::kCluster.
  ClusterMap(const Url& url, Hooks hooks)
      : url_(url), name_(url.DebugString()), hooks_(std::move(hooks)) {}

  ~ClusterMap() {
    Stop();
    // No call uses the remaining references to nodes.
    for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server.reset();
  }

  ClusterNodePtr Owner(Slot slot) const {
    const base::MutexLock lock(mu_);
    return owners_[slot];
  }
  bool IsOwner(Slot slot, const ClusterNode* node) const {
    const base::MutexLock lock(mu_);
    return owners_[slot].get() == node;
  }
  // The owners of all slots.
  std::vector<ClusterNodePtr> owners() const {
    const base::MutexLock lock(mu_);
    return owners_;
  }
  // Waits until the nodes are known. An error says why they are not.
  absl::Status AwaitSome(base::Instant deadline) {
    return Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !nodes_.empty(); }, deadline);
  }

  // Waits until the node that serves the slot is known.
  absl::StatusOr<ClusterNodePtr> AwaitOwner(Slot slot, base::Instant deadline) {
    ClusterNodePtr owner = Owner(slot);
    if (owner != nullptr) return owner;
    const auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      owner = owners_[slot];
      return owner != nullptr;
    };
    absl::Status found = Await(known, deadline);
    if (!found.ok()) return found;
    return owner;
  }

  // Returns the node at `where`, to which a node redirects. Null if neither the latest view names
  // it, nor a new one that comes by the deadline.
  ClusterNodePtr Follow(const Redirect& redirect, const HostAndPort& where,
                        base::Instant deadline) {
    bool moved = false;
    ClusterNodePtr node = ApplyRedirect(redirect, where, moved);
    if (node == nullptr && Refresh(deadline)) node = ApplyRedirect(redirect, where, moved);
    if (moved) {
      hooks_.on_moved(redirect.slot);
      RefreshSoon();  // other slots may have moved, too
    }
    return node;
  }

  // Requests a refresh: the map may be out of date.
  void RefreshSoon() {
    const base::MutexLock lock(mu_);
    // If there is no thread, the next caller that waits gets the error.
    if (!std::exchange(refresh_wanted_, true)) worker_.Wake();
  }

  // Requests a refresh and waits until one that began later ends. False: the deadline came first.
  bool Refresh(base::Instant deadline) {
    const base::MutexLock lock(mu_);
    if (!worker_.Start()) return false;
    refresh_wanted_ = true;
    worker_.Wake();
    if (std::this_thread::get_id() == worker_id_) return false;  // called by its chores
    const uint64_t begun = begun_;
    while (ended_ <= begun && !stopping_ && base::Now() < deadline) found_.WaitUntil(mu_, deadline);
    return ended_ > begun;
  }

  void Wake() {
    const base::MutexLock lock(mu_);
    chores_ = true;
    worker_.Wake();
  }

  std::vector<ClusterNodePtr> nodes() const {
    const base::MutexLock lock(mu_);
    std::vector<ClusterNodePtr> nodes;
    for (const auto& [where, node] : nodes_) nodes.push_back(node);
    return nodes;
  }

  void Stop() {
    {
      const base::MutexLock lock(mu_);
      stopping_ = true;
      found_.SignalAll();
    }
    worker_.Stop();
    // This includes retired nodes, which calls may still use.
    for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server->Stop();
  }

  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  void CloseInForkedChild() {
    for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server.reset();
  }

 private:
  absl::Status Await(absl::FunctionRef<bool()> known, base::Instant deadline) {
    const base::MutexLock lock(mu_);
    if (known()) return absl::OkStatus();
    if (!worker_.Start()) return base::NoThread();
    refresh_wanted_ = true;
    worker_.Wake();
    const uint64_t begun = begun_;
    while (!known() && !stopping_ && base::Now() < deadline) {
      // Waiting does not help against a refusal.
      if (ended_ > begun && !last_failure_.ok() && !absl::IsUnavailable(last_failure_)) break;
      found_.WaitUntil(mu_, deadline);
      refresh_wanted_ = true;
      worker_.Wake();
    }
    if (known()) return absl::OkStatus();
    if (!last_failure_.ok()) return MarkNotSent(base::Unshared(last_failure_));
    return MarkNotSent(absl::UnavailableError(absl::StrCat("no node of ", name_, " serves it")));
  }

  // The thread's: returns when it is due next.
  base::Instant Work() {
    const base::Instant now = base::Now();
    bool refreshes = false;
    bool chores = false;
    {
      const base::MutexLock lock(mu_);
      worker_id_ = std::this_thread::get_id();
      refreshes = refresh_wanted_ && next_refresh_ <= now;
      chores = std::exchange(chores_, false) || chores_due_ <= now;
    }
    // Chores go first, since a refresh takes longer.
    if (chores) chores_due_ = hooks_.chores();
    if (refreshes) RefreshNow();
    CloseUnused();
    const base::MutexLock lock(mu_);
    if (chores_) return {};
    const base::Instant due = refresh_wanted_ ? std::min(next_refresh_, chores_due_) : chores_due_;
    return retired_.empty() ? due : std::min(due, now + kCloseUnusedEvery);
  }

  void RefreshNow() {
    {
      const base::MutexLock lock(mu_);
      if (stopping_) return;
      refresh_wanted_ = false;
      ++begun_;
    }
    absl::Status status = AskNodes();
    next_refresh_ = base::Now() + base::Jittered(kApart);
    const base::MutexLock lock(mu_);
    last_failure_ = std::move(status);
    ended_ = begun_;
    found_.SignalAll();
    chores_ = true;
  }

  // Takes the view of the first node that is well and not behind, otherwise the newest one.
  absl::Status AskNodes() {
    absl::Status why;
    std::optional<ClusterView> best;
    std::optional<HostAndPort> told_by;
    for (const HostAndPort& each : NodesToAsk()) {
      {
        const base::MutexLock lock(mu_);
        if (stopping_) break;
      }
      const base::Instant deadline = base::Now() + std::min(kMapTimeout, url_.connect_timeout);
      absl::StatusOr<ClusterView> view = AskForView(url_, each, deadline);
      if (!view.ok()) {
        why = view.status();
        continue;
      }
      const bool ours = IsOurs(*view);
      const bool good = ours && view->well && epoch_ <= view->epoch;
      if (!best || good || std::pair(IsOurs(*best), best->epoch) < std::pair(ours, view->epoch)) {
        best = *std::move(view);
        told_by = each;
      }
      if (good) break;
    }
    told_by_ = told_by;
    if (!best) return why;
    epoch_ = best->epoch;  // less than before if no node that answers has the newest view
    ids_ = best->ids;
    Take(*best);
    return absl::OkStatus();
  }

  // The order in which nodes are asked: the one that gave the latest view, those in use, those that
  // the user named, the others.
  std::vector<HostAndPort> NodesToAsk() const {
    std::vector<HostAndPort> nodes;
    const auto add = [&](const HostAndPort& one) {
      if (std::find(nodes.begin(), nodes.end(), one) == nodes.end()) nodes.push_back(one);
    };
    if (told_by_) add(*told_by_);
    for (const ClusterNodePtr& node : this->nodes()) {
      if (node->server->connected()) add(node->where);
    }
    for (const HostAndPort& each : url_.nodes) add(each);
    const base::MutexLock lock(mu_);
    for (const HostAndPort& each : members_) add(each);
    return nodes;
  }

  // True if the view is of the same cluster as before: an address may now lead to another one.
  bool IsOurs(const ClusterView& view) const {
    return ids_.empty() || view.ids.empty() ||
           std::any_of(view.ids.begin(), view.ids.end(),
                       [this](const std::string& id) { return ids_.contains(id); });
  }

  void Take(const ClusterView& view) {
    std::vector<Slot> moved;
    {
      const base::MutexLock lock(mu_);
      members_ = view.members;
      std::vector<ClusterNodePtr> owners(kSlots);
      for (const SlotRange& range : view.ranges) {
        std::fill(owners.begin() + range.first, owners.begin() + range.last + 1,
                  NodeAt(range.primary));
      }
      for (int slot = 0; slot < kSlots; ++slot) {
        const ClusterNodePtr& before = owners_[slot];
        if (before == nullptr) continue;
        if (owners[slot] == nullptr && members_.contains(before->where)) owners[slot] = before;
        if (before != owners[slot]) moved.push_back(static_cast<Slot>(slot));
      }
      owners_ = std::move(owners);
      std::erase_if(nodes_, [&](const auto& node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        const bool retired = !view.members.contains(node.first);
        if (retired) node.second->retired = true;
        if (retired) retired_.push_back(node.second);
        return retired;
      });
    }
    for (const Slot slot : moved) hooks_.on_moved(slot);
    hooks_.on_view();
    CloseUnused();
  }

  ClusterNodePtr NodeAt(const HostAndPort& where) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    ClusterNodePtr& node = nodes_[where];
    if (node == nullptr) {
      node = ClusterNodePtr(new ClusterNode{.where = where, .server = hooks_.make(where)});
      node->older = latest_.load(std::memory_order_relaxed);
      latest_.store(node.get(), std::memory_order_release);
    }
    return node;
  }

  ClusterNodePtr ApplyRedirect(const Redirect& redirect, const HostAndPort& where, bool& moved) {
    const base::MutexLock lock(mu_);
    if (!members_.contains(where)) return nullptr;
    ClusterNodePtr node = NodeAt(where);
    if (redirect.once) return node;
    ClusterNodePtr& owner = owners_[redirect.slot];
    moved = owner != nullptr && owner != node;
    owner = node;
    return node;
  }

  // Closes the retired nodes that no call uses any more.
  void CloseUnused() {
    std::vector<ClusterNodePtr> dead;
    {
      const base::MutexLock lock(mu_);
      const auto used = std::partition(retired_.begin(), retired_.end(),
                                       [](const auto& node) { return node.use_count() > 1; });
      std::move(used, retired_.end(), std::back_inserter(dead));
      retired_.erase(used, retired_.end());
    }
    for (const auto& node : dead) node->server->Stop();
    const base::MutexLock lock(mu_);
    for (const auto& node : dead) {
      base::Atomic<ClusterNode*>* link = &latest_;
      while (link->load() != node.get()) link = &link->load()->older;
      link->store(node->older);
    }
  }

  const Url url_;
  const std::string name_;
  const Hooks hooks_;
  // The list of all open nodes. It has no lock, for the sake of a forked child.
  base::Atomic<ClusterNode*> latest_{nullptr};

  mutable base::Mutex mu_;
  base::CondVar found_;  // wakes callers that wait for a refresh
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool refresh_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool chores_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id worker_id_ ABSL_GUARDED_BY(mu_);
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;  // refreshes
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  std::vector<ClusterNodePtr> owners_ ABSL_GUARDED_BY(mu_) = std::vector<ClusterNodePtr>(kSlots);
  std::map<HostAndPort, ClusterNodePtr> nodes_ ABSL_GUARDED_BY(mu_);
  std::vector<ClusterNodePtr> retired_ ABSL_GUARDED_BY(mu_);
  std::set<HostAndPort> members_ ABSL_GUARDED_BY(mu_);  // named by the latest view
  // Used by the thread: the last view, and the node that gave it.
  std::optional<HostAndPort> told_by_;
  int64_t epoch_ = 0;
  std::set<std::string> ids_;
  base::Instant next_refresh_;
  base::Instant chores_due_ = base::Instant::Infinite();
  base::Worker worker_{"redlatch-map", [this] { return Work(); }};
};

// Begins the quarantine in all slots of a new primary, as the first acquisition in a slot would. So
// it ends soon after the promotion in all slots, and not in each some time after its first use. One
// client does this, and records at the primary's first slot that it is done.
class ClusterQuarantine {
 public:
  explicit ClusterQuarantine(Cluster::Quarantine options) : options_(std::move(options)) {}

  // The node's connection is new: it may be another server, or have lost its data.
  void CheckAgain(const SingleServer* server) {
    const base::MutexLock lock(mu_);
    to_check_.push_back(server);
  }

  // Continues the work until `until`. Only one thread may call it. Returns when it must be called
  // again at the latest.
  base::Instant GoOn(const ClusterMap& map, base::Instant until) {
    struct Owned {
      ClusterNodePtr owner;
      std::vector<Slot> slots;
    };
    std::map<HostAndPort, Owned> nodes;
    Owned* owned = nullptr;
    const std::vector<ClusterNodePtr> owners = map.owners();
    for (int slot = 0; slot < kSlots; ++slot) {
      const ClusterNodePtr& owner = owners[slot];
      if (owner == nullptr) continue;
      if (owned == nullptr || owned->owner != owner) owned = &nodes[owner->where];
      owned->owner = owner;
      owned->slots.push_back(static_cast<Slot>(slot));
    }
    std::vector<const SingleServer*> to_check;
    {
      const base::MutexLock lock(mu_);
      to_check.swap(to_check_);
    }
    // A node that serves no slot now counts as new when it does.
    std::erase_if(rounds_, [&](const auto& round) { return !nodes.contains(round.first); });
    base::Instant next = base::Instant::Infinite();
    auto each = nodes.upper_bound(latest_);
    for (size_t i = 0; i < nodes.size(); ++i, ++each) {
      if (each == nodes.end()) each = nodes.begin();
      const auto& [where, its] = *each;
      SingleServer& server = *its.owner->server;
      Round& round =
          rounds_
              .try_emplace(where,
                           Round{.at_once = kAtOnce,
                                 .backoff = {kQuarantineFirstPause, kQuarantineLongestPause}})
              .first->second;
      if (std::find(to_check.begin(), to_check.end(), &server) != to_check.end()) {
        round.state = Round::State::kUnknown;
        round.next = base::Instant();
      }
      const base::Instant now = base::Now();
      if (round.next <= now && now < until) {
        GoOnAt(server, its.slots, round, until);
        latest_ = where;
      }
      next = std::min(next, round.next);
    }
    return next;
  }

 private:
  struct Round {
    enum class State : uint8_t { kUnknown, kOurs, kDone };
    State state = State::kUnknown;
    std::string id;          // of the primary epoch
    std::vector<Slot> left;  // kOurs: those still to begin, from the back
    size_t at_once;
    base::Backoff backoff;
    base::Instant next = {};  // when to continue
  };
  enum class Outcome : uint8_t { kOk, kDenied, kFailed };

  void GoOnAt(SingleServer& server, const std::vector<Slot>& slots, Round& round,
              base::Instant until) const {
    using enum Round::State;
    if (round.state == kDone) round.state = kUnknown;  // that was a day ago
    if (round.state == kUnknown) Find(server, slots, round, until);
    while (round.state == kOurs && !round.left.empty() && base::Now() < until) {
      const size_t count = std::min(round.at_once, round.left.size());
      const auto some = absl::MakeSpan(round.left).last(count);
      const Outcome outcome =
          Begin(server, some, std::min(until, base::Now() + kQuarantineTimeout));
      if (outcome == Outcome::kDenied)
        round.state = kDone;  // another client, or the first use, does it
      if (outcome == Outcome::kFailed) {
        round.at_once = std::max(round.at_once / 2, kLeastAtOnce);
        break;
      }
      round.left.resize(round.left.size() - count);
      round.backoff.Reset();
      round.next = base::Now();
    }
    if (round.state == kOurs && round.left.empty()) {
      const std::string key = KeyOf(slots.front()) + ".begun";
      const auto told = server.Call({}, Command({"SET", key, round.id, "PX", kDayMs}),
                                    std::min(until, base::Now() + kQuarantineTimeout));
      if ((told.ok() && told->text == "OK") || Denied(told)) round.state = kDone;
    }
    if (round.state == kDone) {
      round.next = base::Now() + kDay;
    } else if (round.next <= base::Now() && until > base::Now()) {
      round.next = base::Now() + round.backoff.Next();
    }
  }

  // Finds out if the work is done, and otherwise takes it over for this client.
  void Find(SingleServer& server, const std::vector<Slot>& slots, Round& round,
            base::Instant until) const {
    using enum Round::State;
    const auto ask = [&](const Command& command) {
      return server.Call({}, command, std::min(until, base::Now() + kQuarantineTimeout));
    };
    const auto text = [](const absl::StatusOr<Reply>& reply) {
      return reply.ok() && !reply->is_error() ? reply->text : std::string();
    };
    round.id = InfoField(text(ask({"INFO", "replication"})), "master_replid");
    if (round.id.empty()) return;
    const std::string done_key = KeyOf(slots.front()) + ".begun";
    const std::string taken_key = done_key + round.id;
    if (text(ask({"GET", done_key})) == round.id) {
      round.state = kDone;
      return;
    }
    const auto taken = ask({"SET", taken_key, options_.client, "NX", "PX", kTakenMs});
    if (Denied(taken)) {
      round.state = kDone;  // another client, or the first use, does it
    } else if (text(taken) == "OK" || text(ask({"GET", taken_key})) == options_.client) {
      round.state = kOurs;
      round.left = slots;
    }
  }

  // Each slot is a call of its own: in those that have moved meanwhile, the first acquisition
  // begins it.
  Outcome Begin(SingleServer& server, absl::Span<const Slot> slots, base::Instant deadline) const {
    const std::array<std::string_view, 2> args = {"", options_.quarantine_ms};
    std::vector<std::string> keys;
    std::transform(slots.begin(), slots.end(), std::back_inserter(keys),
                   [this](Slot slot) { return KeyOf(slot); });
    const std::vector<std::string_view> words(keys.begin(), keys.end());
    std::vector<ScriptCall> calls;
    for (const std::string_view& word : words) {
      calls.push_back(
          {.script = options_.begin, .keys = absl::MakeConstSpan(&word, 1), .args = args});
    }
    std::vector<absl::StatusOr<Reply>> answers(calls.size());
    server.Run(calls, deadline, absl::MakeSpan(answers), AlwaysWanted);
    Outcome outcome = Outcome::kOk;
    for (const auto& answer : answers) {
      if (absl::IsPermissionDenied(answer.status())) return Outcome::kDenied;
      if (!answer.ok() && !RedirectOf(answer.status())) outcome = Outcome::kFailed;
    }
    return outcome;
  }

  std::string KeyOf(Slot slot) const { return options_.key(TagOf(slot) + ":"); }

  const Cluster::Quarantine options_;
  base::Mutex mu_;
  std::vector<const SingleServer*> to_check_ ABSL_GUARDED_BY(mu_);
  // Used by the one thread.
  std::map<HostAndPort, Round> rounds_;
  HostAndPort latest_;  // the last one that was visited: the next round begins after it
};

namespace {

ScriptServerPtr ScriptsOf(const ClusterNodePtr& node) {
  return node == nullptr ? nullptr : ScriptServerPtr(node, &node->server->scripts());
}

}  // namespace

Cluster::Cluster(const Url& url, Own own, Events events)
    : ServerGroup(&runner_, /*sharded=*/true),
      url_(url),
      name_(url.DebugString()),
      own_(std::move(own)),
      events_(std::move(events)),
      runner_(*this, name_),
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
      UrlOfNode(url_, where), std::string(), std::nullopt, std::vector<Command>(), own_.mark,
      std::move(events),
      Membership{.listener = listener_,
                 .on_silent = [this](std::string_view channel) { Silent(channel); },
                 .on_down = [this] { map_->RefreshSoon(); }});
  *self = node.get();
  return node;
}

ServerFacts Cluster::facts(std::string_view key) const {
  const ClusterNodePtr owner = key.empty() ? nullptr : map_->Owner(SlotOf(key));
  if (owner != nullptr) {
    ServerFacts its = owner->server->facts(key);
    // It is not known which node will run a script, so the script itself asks.
    its.primary_epoch.clear();
    its.run_id.clear();
    return its;
  }
  ServerFacts all{.name = name_, .grants_alone_for = absl::Seconds(1)};
  for (const ClusterNodePtr& node : map_->nodes()) {
    const ServerFacts its = node->server->facts({});
    all.grants_alone_for = std::max(all.grants_alone_for, its.grants_alone_for);
    all.connections.connects += its.connections.connects;
    all.connections.breaks += its.connections.breaks;
    all.connections.late += its.connections.late;
  }
  return all;
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

absl::StatusOr<ScriptServerPtr> Cluster::OwnerOf(std::string_view key, base::Instant deadline) {
  absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(SlotOf(key), deadline);
  if (!owner.ok()) return owner.status();
  return ScriptsOf(*owner);
}

bool Cluster::IsOwnerOf(std::string_view key, const ScriptServer* server) const {
  const ClusterNodePtr owner = map_->Owner(SlotOf(key));
  return owner != nullptr && &owner->server->scripts() == server;
}

ScriptServerPtr Cluster::Follow(const Redirect& redirect, const ScriptServer& from,
                                base::Instant deadline) {
  HostAndPort where{.host = redirect.host, .port = redirect.port};
  for (const ClusterNodePtr& node : map_->nodes()) {
    if (where.host.empty() && &node->server->scripts() == &from) where.host = node->where.host;
  }
  return ScriptsOf(map_->Follow(redirect, where, deadline));
}

bool Cluster::Refresh(base::Instant deadline) {
  if (base::Now() < deadline) return map_->Refresh(deadline);
  map_->RefreshSoon();
  return false;
}

bool Cluster::Drain(base::Instant until) {
  bool all = true;
  for (const ClusterNodePtr& node : map_->nodes()) all = node->server->Drain(until) && all;
  return all;
}

void Cluster::AppendConnections(std::vector<std::shared_ptr<Connection>>& connections) {
  for (const ClusterNodePtr& node : map_->nodes()) {
    connections.emplace_back(node, &node->server->connection());
  }
}

ServerGroup::Reconnected Cluster::TakeReconnected() {
  const base::MutexLock lock(mu_);
  Reconnected all{.concerned = [concerned = concerned_](
                                   std::string_view key) { return concerned.test(SlotOf(key)); },
                  .reconnected = std::exchange(reconnected_, false)};
  concerned_.reset();  // only now: the function needed memory
  return all;
}

void Cluster::Stop() {
  stopped_ = true;
  map_->Stop();
}

// ---- The subscriptions of a cluster's client, slot by slot, and how the map's thread repairs
// them.

ClusterNodePtr Cluster::SubscribedAt(Slot slot) const {
  const base::MutexLock lock(mu_);
  const auto found = subscribed_at_.find(slot);
  return found == subscribed_at_.end() ? nullptr : found->second;
}

Subscription Cluster::subscription(std::string_view key) const {
  const Slot slot = SlotOf(key);
  const ClusterNodePtr owner = map_->Owner(slot);
  if (owner == nullptr) return {};
  Subscription its = owner->server->subscription(key);
  its.acknowledged = SubscribedAt(slot) == owner;
  its.live = its.acknowledged && owner->server->connected();
  return its;
}

absl::Status Cluster::SubscribeSlot(Slot slot, base::Instant deadline) {
  const ClusterNodePtr before = SubscribedAt(slot);
  {
    const base::MutexLock lock(mu_);
    wanted_.set(slot);
  }
  absl::Status subscribed =
      SubscribeOnce(slot, own_.channel(TagOf(slot) + ":"), /*own=*/true, deadline);
  bool moved = false;
  {
    const base::MutexLock lock(mu_);
    // The subscription continues in the background, unless it is refused for good.
    if (absl::IsUnavailable(subscribed)) silent_.set(slot);
    if (!subscribed.ok() && !absl::IsUnavailable(subscribed)) wanted_.reset(slot);
    const auto now_at = subscribed_at_.find(slot);
    moved = subscribed.ok() && before != nullptr && now_at != subscribed_at_.end() &&
            before != now_at->second;
    if (moved) concerned_.set(slot);
  }
  // Messages published meanwhile are lost: all waiters must ask.
  if (moved) events_.on_reconnected();
  if (absl::IsUnavailable(subscribed)) map_->RefreshSoon();
  return subscribed;
}

void Cluster::Forget(const std::string& channel) {
  for (const ClusterNodePtr& node : map_->nodes()) node->server->Forget(channel);
}

absl::Status Cluster::SubscribeOnce(Slot slot, const std::string& channel, bool own,
                                    base::Instant deadline) {
  base::Backoff backoff(kFirstPause, kLongestPause);
  for (int redirects = 0;;) {
    const absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(slot, deadline);
    if (!owner.ok()) return owner.status();
    ClusterNode& node = **owner;
    ClusterNodePtr before;
    uint64_t silences = 0;
    if (own) {
      const base::MutexLock lock(mu_);
      before = std::exchange(asked_at_[slot], *owner);
      silences = silences_[slot];
    }
    if (before != nullptr && before != *owner && !map_->IsOwner(slot, before.get())) {
      before->server->Forget(channel);
    }
    absl::Status subscribed = node.server->SubscribeTo({}, channel, deadline);
    if (subscribed.ok()) {
      if (own) {
        const base::MutexLock lock(mu_);
        // Unless the server's refusal has come before the call returned.
        if (silences_[slot] == silences) subscribed_at_[slot] = *owner;
      }
      if (map_->IsOwner(slot, &node)) return subscribed;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      if (runner_.Follow(*redirect, node.server->scripts(), deadline, redirects)) continue;
    } else if (NotSent(subscribed) || absl::IsCancelled(subscribed)) {
      map_->RefreshSoon();  // the slot has just left
    } else {
      return subscribed;
    }
    const base::Instant next = base::Now() + backoff.Next();
    if (deadline <= next || stopped_) {
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

void Cluster::KeepReading(std::string_view key, bool begins) try {
  const Slot slot = SlotOf(key);
  ClusterNodePtr at;
  {
    const base::MutexLock lock(mu_);
    if (begins) {
      if (const auto found = subscribed_at_.find(slot); found != subscribed_at_.end())
        at = found->second;
      read_at_once_at_.emplace(slot, at);
    } else if (const auto found = read_at_once_at_.find(slot); found != read_at_once_at_.end()) {
      at = found->second;
      read_at_once_at_.erase(found);
    }
  }
  if (at != nullptr) at->server->KeepReading(key, begins);
} catch (const std::bad_alloc&) {  // messages still arrive, only later
}

// References to retired nodes would keep their connections open.
void Cluster::OnView() {
  view_whole_ = true;
  const auto retired = [](const auto& each) {
    return each.second != nullptr && each.second->retired;
  };
  const base::MutexLock lock(mu_);
  std::erase_if(subscribed_at_, retired);
  std::erase_if(asked_at_, retired);
  for (auto& each : read_at_once_at_) {
    if (retired(each)) each.second = nullptr;
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
    subscribed_at_.erase(slot);
    ++silences_[slot];
  }
  map_->Wake();  // it subscribes again before the refresh, which takes longer
  map_->RefreshSoon();
}

base::Instant Cluster::DoChores() {
  Describe();
  SubscribeAgain();
  // After a redirection, the map does not have all slots of a new node yet.
  const bool begins = quarantine_ != nullptr && view_whole_;
  return begins ? quarantine_->GoOn(*map_, base::Now() + kRound) : base::Instant::Infinite();
}

void Cluster::Describe() {
  {
    const base::MutexLock lock(mu_);
    if (std::exchange(described_, true)) return;
  }
  Call(own_.description_key, own_.description, base::Now() + kSubscribeTimeout).IgnoreError();
}

void Cluster::SubscribeAgain() {
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
    const bool done = SubscribeSlot(slot, std::min(until, now + kSubscribeTimeout)).ok();
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
  map_->RefreshSoon();  // this calls SubscribeAgain() again
}

}  // namespace redlatch::redis
