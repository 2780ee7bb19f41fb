#include "src/redis/server_group/cluster.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
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
// How many slots one write begins. It costs the server some milliseconds.
constexpr size_t kAtOnce = 64;

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
  std::unique_ptr<SingleServer> server = nullptr;
  base::Atomic<bool> retired{false};          // it has left the cluster
  base::Atomic<ClusterNode*> older{nullptr};  // the node that was made before it
  // Its connection is new: it may be another server, or have lost its data.
  base::Atomic<bool> reconnected{false};
  // When ClusterQuarantine must look at it again.
  base::Instant quarantine_due = {};
  base::Backoff quarantine_backoff{kQuarantineFirstPause, kQuarantineLongestPause};
};

namespace {

ScriptServerPtr ScriptsOf(const ClusterNodePtr& node) {
  return node == nullptr ? nullptr : ScriptServerPtr(node, &node->server->scripts());
}

}  // namespace

// The map from slots to nodes, as far as it is known, and the thread that refreshes it on request.
// It asks one node after the other, with a pause between refreshes, however many callers ask for
// one. A redirection is believed at once, for its slot, if it leads to a node that the latest view
// names. The client connects to no other node: a node that redirects to made-up addresses costs
// nothing, and the password is not sent there. A node that the latest view does not name is
// retired.
//
// Thread-safe.
class ClusterMap final : public ScriptRouter {
 public:
  explicit ClusterMap(Cluster& cluster) : cluster_(cluster) {}
  // REQUIRES: Stop() was called. No call uses the remaining references to nodes.
  ~ClusterMap() { CloseAll(); }

  ClusterNodePtr Owner(Slot slot) const {
    const base::MutexLock lock(mu_);
    return owners_[slot];
  }
  // The owners of all slots.
  std::vector<ClusterNodePtr> owners() const {
    const base::MutexLock lock(mu_);
    return owners_;
  }
  // False after a redirection: the map may lack other slots that have moved with this one.
  bool is_whole() const {
    const base::MutexLock lock(mu_);
    return is_whole_;
  }

  // Waits until the nodes are known. An error says why they are not.
  absl::Status AwaitSome(base::Instant deadline) {
    return Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !nodes_.empty(); }, deadline);
  }

  // Waits until the node that serves the slot is known.
  absl::StatusOr<ClusterNodePtr> AwaitOwner(Slot slot, base::Instant deadline) {
    ClusterNodePtr owner;
    const auto known = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      owner = owners_[slot];
      return owner != nullptr;
    };
    absl::Status found = Await(known, deadline);
    if (!found.ok()) return found;
    return owner;
  }

  absl::StatusOr<ScriptServerPtr> OwnerOf(std::string_view key, base::Instant deadline) override {
    const absl::StatusOr<ClusterNodePtr> owner = AwaitOwner(SlotOf(key), deadline);
    if (!owner.ok()) return owner.status();
    return ScriptsOf(*owner);
  }

  bool IsOwnerOf(std::string_view key, const ScriptServer* server) const override {
    return ScriptsOf(Owner(SlotOf(key))).get() == server;
  }

  // Returns null if neither the latest view names the node, nor a new one that comes by the
  // deadline.
  ScriptServerPtr Follow(const Redirect& redirect, const ScriptServer& from,
                         base::Instant deadline) override {
    HostAndPort where{.host = redirect.host, .port = redirect.port};
    for (const ClusterNodePtr& node : nodes()) {
      if (where.host.empty() && &node->server->scripts() == &from) where.host = node->where.host;
    }
    bool moved = false;
    ClusterNodePtr node = ApplyRedirect(redirect, where, moved);
    if (node == nullptr && Refresh(deadline)) node = ApplyRedirect(redirect, where, moved);
    if (moved) {
      cluster_.Concern(redirect.slot);
      RefreshSoon();  // other slots may have moved, too
    }
    return ScriptsOf(node);
  }

  // Requests a refresh: the map may be out of date.
  void RefreshSoon() {
    const base::MutexLock lock(mu_);
    // If there is no thread, the next caller that waits gets the error.
    if (!std::exchange(refresh_wanted_, true)) worker_.Wake();
  }

  // Requests a refresh and waits until one that began later ends. False: the deadline came first.
  bool Refresh(base::Instant deadline) override {
    const base::MutexLock lock(mu_);
    return worker_.Start() && AwaitRefresh([] { return false; }, deadline);
  }

  // Has the thread do its chores.
  void Wake() { worker_.Wake(); }

  std::vector<ClusterNodePtr> nodes() const {
    const base::MutexLock lock(mu_);
    std::vector<ClusterNodePtr> nodes;
    std::ranges::copy_if(nodes_, std::back_inserter(nodes),
                         [](const ClusterNodePtr& node) { return !node->retired; });
    return nodes;
  }

  // REQUIRES: the cluster is `stopped_`.
  void Stop() {
    {
      const base::MutexLock lock(mu_);
      found_.SignalAll();
    }
    worker_.Stop();
    // This includes retired nodes, which calls may still use.
    for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server->Stop();
  }

  // Closes the descriptors and touches nothing else.
  void CloseAll() {
    for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server.reset();
  }

 private:
  absl::Status Await(absl::FunctionRef<bool()> known, base::Instant deadline) {
    const base::MutexLock lock(mu_);
    while (!known()) {
      if (!worker_.Start()) return base::NoThread();
      const bool refreshed = AwaitRefresh(known, deadline);
      // Waiting does not help against a refusal.
      const bool refused = !last_failure_.ok() && !absl::IsUnavailable(last_failure_);
      if (known() || (refreshed && !refused)) continue;
      if (!last_failure_.ok()) return MarkNotSent(base::Unshared(last_failure_));
      return MarkNotSent(
          absl::UnavailableError(absl::StrCat("no node of ", cluster_.name_, " serves it")));
    }
    return absl::OkStatus();
  }

  // Requests a refresh and waits until one that began later ends (true), or until `enough`.
  bool AwaitRefresh(absl::FunctionRef<bool()> enough, base::Instant deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    refresh_wanted_ = true;
    if (std::this_thread::get_id() == worker_id_) return false;  // called by its chores
    worker_.Wake();
    const uint64_t begun = begun_;
    while (ended_ <= begun && !enough() && !cluster_.stopped_ && base::Now() < deadline) {
      found_.WaitUntil(mu_, deadline);
    }
    return ended_ > begun;
  }

  // The thread's: returns when it is due next.
  base::Instant Work() {
    {
      const base::MutexLock lock(mu_);
      worker_id_ = std::this_thread::get_id();
    }
    // Chores go first, since a refresh takes longer. They also follow each refresh.
    base::WithMemory([this] { cluster_.DoChores(); });
    const bool closed = CloseUnused();
    const base::Instant now = base::Now();
    base::Instant due = closed ? base::Instant::Infinite() : now + kCloseUnusedEvery;
    {
      const base::MutexLock lock(mu_);
      if (refresh_wanted_) due = std::min(due, next_refresh_);
    }
    if (due <= now) RefreshNow();
    return due;  // at once after a refresh
  }

  void RefreshNow() {
    {
      const base::MutexLock lock(mu_);
      refresh_wanted_ = false;
      ++begun_;
    }
    absl::Status status = base::WithMemory([this] { return AskNodes(); });
    next_refresh_ = base::Now() + base::Jittered(kApart);
    const base::MutexLock lock(mu_);
    last_failure_ = std::move(status);
    ended_ = begun_;
    found_.SignalAll();
  }

  // Takes the view of the first node that is well and not behind, otherwise the newest one.
  absl::Status AskNodes() {
    const Url& url = cluster_.url_;
    absl::Status why;
    std::optional<ClusterView> best;
    std::optional<HostAndPort> told_by;
    for (const HostAndPort& each : NodesToAsk()) {
      if (cluster_.stopped_) break;
      const base::Instant deadline = base::Now() + std::min(kMapTimeout, url.connect_timeout);
      absl::StatusOr<ClusterView> view = AskForView(url, each, deadline);
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
    for (const HostAndPort& each : cluster_.url_.nodes) add(each);
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
      is_whole_ = true;
      for (const ClusterNodePtr& node : nodes_) {
        if (!members_.contains(node->where)) node->retired = true;
      }
    }
    for (const Slot slot : moved) cluster_.Concern(slot);
    cluster_.OnView();
  }

  ClusterNodePtr NodeAt(const HostAndPort& where) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const ClusterNodePtr& node : nodes_) {
      if (node->where == where && !node->retired) return node;
    }
    ClusterNodePtr& node = nodes_.emplace_back(new ClusterNode{.where = where});
    node->server = cluster_.MakeServer(*node);
    node->older = latest_.load(std::memory_order_relaxed);
    latest_.store(node.get(), std::memory_order_release);
    return node;
  }

  ClusterNodePtr ApplyRedirect(const Redirect& redirect, const HostAndPort& where, bool& moved) {
    const base::MutexLock lock(mu_);
    if (!members_.contains(where)) return nullptr;
    ClusterNodePtr node = NodeAt(where);
    if (redirect.once) return node;
    ClusterNodePtr& owner = owners_[redirect.slot];
    moved = owner != nullptr && owner != node;
    is_whole_ = is_whole_ && !moved;
    owner = node;
    return node;
  }

  // Closes the retired nodes that no call uses any more. False: others are still in use.
  bool CloseUnused() {
    std::vector<ClusterNodePtr> dead;
    bool closed = false;
    {
      const base::MutexLock lock(mu_);
      const auto open = std::partition(nodes_.begin(), nodes_.end(), [](const auto& node) {
        return !node->retired || node.use_count() > 1;
      });
      dead.assign(open, nodes_.end());
      nodes_.erase(open, nodes_.end());
      closed = std::ranges::none_of(nodes_, [](const auto& node) { return node->retired.load(); });
    }
    for (const auto& node : dead) node->server->Stop();
    const base::MutexLock lock(mu_);
    for (const auto& node : dead) {
      base::Atomic<ClusterNode*>* link = &latest_;
      while (link->load() != node.get()) link = &link->load()->older;
      link->store(node->older);
    }
    return closed;
  }

  Cluster& cluster_;
  // The list of all open nodes. It has no lock, for the sake of a forked child.
  base::Atomic<ClusterNode*> latest_{nullptr};

  mutable base::Mutex mu_;
  base::CondVar found_;  // wakes callers that wait for a refresh
  bool refresh_wanted_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id worker_id_ ABSL_GUARDED_BY(mu_);
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;  // refreshes
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  std::vector<ClusterNodePtr> owners_ ABSL_GUARDED_BY(mu_) = std::vector<ClusterNodePtr>(kSlots);
  bool is_whole_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<ClusterNodePtr> nodes_ ABSL_GUARDED_BY(mu_);  // that are open; some are retired
  std::set<HostAndPort> members_ ABSL_GUARDED_BY(mu_);      // named by the latest view
  // Used by the thread: the last view, and the node that gave it.
  std::optional<HostAndPort> told_by_;
  int64_t epoch_ = 0;
  std::set<std::string> ids_;
  base::Instant next_refresh_;
  base::Worker worker_{"redlatch-map", [this] { return Work(); }};
};

// Begins the quarantine in all slots of a new primary, as the first acquisition in a slot would. So
// it ends soon after the promotion in all slots, and not in each some time after its first use. One
// client does this, and records at the primary's first slot that it is done. That takes long, so it
// does not keep the map's thread.
class ClusterQuarantine {
 public:
  explicit ClusterQuarantine(Cluster& cluster)
      : cluster_(cluster), options_(cluster.own_.quarantine) {}

  // A node's connection is new, or the map.
  void Wake() { worker_.Wake(); }
  // REQUIRES: the cluster is `stopped_`.
  void Stop() { worker_.Stop(); }

 private:
  base::Instant Work() {
    const ClusterMap& map = *cluster_.map_;
    if (!map.is_whole() || cluster_.stopped_) return base::Instant::Infinite();
    const std::vector<ClusterNodePtr> owners = map.owners();
    std::unordered_map<const ClusterNode*, std::vector<Slot>> slots;
    for (int slot = 0; slot < kSlots; ++slot) {
      slots[owners[slot].get()].push_back(static_cast<Slot>(slot));
    }
    base::Instant next = base::Instant::Infinite();
    for (const ClusterNodePtr& node : map.nodes()) {
      const auto its = slots.find(node.get());
      // A node that serves no slot now counts as new when it does.
      if (node->reconnected.exchange(false) || its == slots.end()) {
        node->quarantine_due = {};
        node->quarantine_backoff.Reset();
      }
      if (its == slots.end()) continue;
      if (node->quarantine_due <= base::Now() && !cluster_.stopped_) {
        const bool done = BeginAt(*node->server, its->second);
        node->quarantine_due = base::Now() + (done ? kDay : node->quarantine_backoff.Next());
      }
      next = std::min(next, node->quarantine_due);
    }
    return next;
  }

  // Returns true if the quarantine has begun, or will by other means; false: try again.
  bool BeginAt(SingleServer& server, const std::vector<Slot>& slots) const {
    const auto is = [&](const Command& command, std::string_view expected) {
      const absl::StatusOr<std::string> text = Ask(server, command);
      return text.ok() && *text == expected;
    };
    const std::string id(
        InfoField(Ask(server, {"INFO", "replication"}).value_or(""), "master_replid"));
    if (id.empty()) return false;
    const std::string done_key = KeyOf(slots.front()) + ".begun";
    const std::string taken_key = done_key + id;
    if (is({"GET", done_key}, id)) return true;
    const auto taken = Ask(server, {"SET", taken_key, options_.client, "NX", "PX", kTakenMs});
    // If this user may not, another client does it, or the first use.
    if (absl::IsPermissionDenied(taken.status())) return true;
    const bool ours = taken.value_or("") == "OK" || is({"GET", taken_key}, options_.client);
    if (!ours) return false;
    for (size_t at = 0; at < slots.size(); at += kAtOnce) {
      const absl::Status begun = Begin(server, absl::MakeConstSpan(slots).subspan(at, kAtOnce));
      if (!begun.ok() || cluster_.stopped_) return absl::IsPermissionDenied(begun);
    }
    const auto told = Ask(server, {"SET", done_key, id, "PX", kDayMs});
    return told.ok() || absl::IsPermissionDenied(told.status());
  }

  // Each slot is a call of its own: in those that have moved meanwhile, the first acquisition
  // begins it.
  absl::Status Begin(SingleServer& server, absl::Span<const Slot> slots) const {
    const std::array<std::string_view, 2> args = {"", options_.quarantine_ms};
    std::vector<std::string> keys;
    for (const Slot slot : slots) keys.push_back(KeyOf(slot));
    const std::vector<std::string_view> words(keys.begin(), keys.end());
    std::vector<ScriptCall> calls;
    for (const std::string_view& word : words) {
      calls.push_back(
          {.script = options_.begin, .keys = absl::MakeConstSpan(&word, 1), .args = args});
    }
    std::vector<absl::StatusOr<Reply>> answers(calls.size());
    server.Run(calls, base::Now() + kQuarantineTimeout, absl::MakeSpan(answers), AlwaysWanted);
    absl::Status begun;
    for (const auto& answer : answers) {
      if (absl::IsPermissionDenied(answer.status())) return answer.status();
      if (!answer.ok() && !RedirectOf(answer.status())) begun = answer.status();
    }
    return begun;
  }

  // Returns the reply's text. kPermissionDenied: the server denies the command to this user.
  static absl::StatusOr<std::string> Ask(SingleServer& server, const Command& command) {
    const absl::StatusOr<Reply> reply = server.Call({}, command, base::Now() + kQuarantineTimeout);
    if (!reply.ok()) return absl::UnavailableError(reply.status().message());
    if (reply->is_error()) return ErrorStatus(reply->text, server.connection().server());
    return reply->text;
  }

  std::string KeyOf(Slot slot) const { return options_.key(TagOf(slot) + ":"); }

  Cluster& cluster_;
  const Cluster::Quarantine& options_;
  base::Worker worker_{"redlatch-begins", [this] { return Work(); }};
};

Cluster::Cluster(const Url& url, Own own, Events events)
    : ServerGroup(&runner_, /*sharded=*/true),
      url_(url),
      name_(url.DebugString()),
      own_(std::move(own)),
      events_(std::move(events)),
      map_(std::make_unique<ClusterMap>(*this)),
      runner_(*map_, name_),
      quarantine_(url.quarantine > absl::ZeroDuration() ? std::make_unique<ClusterQuarantine>(*this)
                                                        : nullptr) {}

Cluster::~Cluster() { Stop(); }

void Cluster::operator delete(Cluster* cluster, std::destroying_delete_t) {
  if (cluster->fork_guard_.InForkedChild()) return cluster->map_->CloseAll();
  cluster->~Cluster();
  ::operator delete(cluster);
}

std::unique_ptr<SingleServer> Cluster::MakeServer(ClusterNode& node) {
  Events events = events_;
  events.on_reconnected = [this, &node] {
    OnReconnected(node);
    events_.on_reconnected();
  };
  events.on_down = [this] {
    map_->RefreshSoon();
    if (events_.on_down) events_.on_down();
  };
  events.on_other_channel = [this](std::string_view channel,
                                   std::optional<std::string_view> message) {
    if (events_.on_other_channel && events_.on_other_channel(channel, message)) return true;
    if (message) return false;  // it is of this client's own channel
    Concern(SlotOf(channel));   // this subscribes again before the refresh, which takes longer
    map_->RefreshSoon();
    return true;
  };
  return std::make_unique<SingleServer>(UrlOfNode(url_, node.where), std::string(), std::nullopt,
                                        std::vector<Command>(), own_.mark, std::move(events),
                                        listener_);
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
  const std::vector<ClusterNodePtr> nodes = map_->nodes();
  absl::Status connected;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const base::Instant now = base::Now();
    connected = nodes[i]->server->Connect(
        now + (deadline - now) / static_cast<int64_t>(nodes.size() - i), warnings);
    if (!absl::IsUnavailable(connected)) break;
  }
  return connected;
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
  if (quarantine_ != nullptr) quarantine_->Stop();
}

// ---- The subscriptions of a cluster's client, slot by slot.

ClusterNodePtr Cluster::SubscribedAt(Slot slot) const {
  const base::MutexLock lock(mu_);
  const auto found = channels_.find(slot);
  return found == channels_.end() ? nullptr : found->second.at;
}

Subscription Cluster::subscription(std::string_view key) const {
  const ClusterNodePtr at = SubscribedAt(SlotOf(key));
  const bool acknowledged = at != nullptr && at == map_->Owner(SlotOf(key));
  return {.acknowledged = acknowledged, .live = acknowledged && at->server->connected()};
}

absl::Status Cluster::SubscribeTo(std::string_view key, const std::string& channel,
                                  base::Instant deadline) {
  return SubscribeAtOwner(SlotOf(key), channel, deadline).status();
}

void Cluster::Forget(const std::string& channel) { ForgetExceptAt(nullptr, channel); }

void Cluster::ForgetExceptAt(const ClusterNodePtr& owner, const std::string& channel) {
  for (const ClusterNodePtr& node : map_->nodes()) {
    if (node != owner) node->server->Forget(channel);
  }
}

// Whatever has happened to the channel of the key's slot, this subscribes it where the slot is now.
absl::Status Cluster::Subscribe(std::string_view key, base::Instant deadline) {
  const Slot slot = SlotOf(key);
  const std::string channel = own_.channel(TagOf(slot) + ":");
  uint64_t losses = 0;
  bool again = false;
  {
    const base::MutexLock lock(mu_);
    const Channel& its = channels_[slot];
    losses = its.losses;
    again = losses > 0 && its.at == nullptr;
  }
  if (again) ForgetExceptAt(map_->Owner(slot), channel);
  const absl::StatusOr<ClusterNodePtr> node = SubscribeAtOwner(slot, channel, deadline);
  bool lost = false;
  {
    const base::MutexLock lock(mu_);
    Channel& its = channels_[slot];
    if (!node.ok()) {
      its.at = nullptr;
      ++its.losses;
    } else if (its.losses == losses) {
      its.at = *node;
      // Messages published meanwhile are lost: all waiters must ask.
      if (again) concerned_.set(slot);
    }
    // The thread of the map goes on, unless the subscription is refused for good.
    its.wanted =
        node.ok() || absl::IsUnavailable(node.status()) || absl::IsResourceExhausted(node.status());
    lost = its.wanted && its.at == nullptr;
  }
  if (node.ok() && again) events_.on_reconnected();
  if (lost) map_->RefreshSoon();
  return node.status();
}

absl::StatusOr<ClusterNodePtr> Cluster::SubscribeAtOwner(Slot slot, const std::string& channel,
                                                         base::Instant deadline) {
  base::Backoff backoff(kFirstPause, kLongestPause);
  for (;;) {
    absl::StatusOr<ClusterNodePtr> owner = map_->AwaitOwner(slot, deadline);
    if (!owner.ok()) return owner;
    SingleServer& server = *(*owner)->server;
    const absl::Status subscribed = server.SubscribeTo({}, channel, deadline);
    if (subscribed.ok()) {
      if (map_->Owner(slot) == *owner) return owner;
    } else if (const std::optional<Redirect> redirect = RedirectOf(subscribed)) {
      map_->Follow(*redirect, server.scripts(), deadline);
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
      if (const auto found = channels_.find(slot); found != channels_.end()) at = found->second.at;
      read_at_once_at_.emplace(slot, at);
    } else if (const auto ended = read_at_once_at_.extract(slot)) {
      at = ended.mapped();
    }
  }
  if (at != nullptr) at->server->KeepReading(key, begins);
} catch (const std::bad_alloc&) {  // messages still arrive, only later
}

void Cluster::OnView() {
  if (quarantine_ != nullptr) quarantine_->Wake();
  const base::MutexLock lock(mu_);
  // References to retired nodes would keep their connections open.
  for (auto& [slot, node] : read_at_once_at_) {
    if (node != nullptr && node->retired) node = nullptr;
  }
}

void Cluster::Concern(Slot slot) {
  {
    const base::MutexLock lock(mu_);
    concerned_.set(slot);
    described_ = described_ && slot != SlotOf(own_.description_key);
    if (const auto found = channels_.find(slot); found != channels_.end()) {
      found->second.at = nullptr;
      ++found->second.losses;
    }
  }
  map_->Wake();
  events_.on_reconnected();
}

void Cluster::OnReconnected(ClusterNode& node) {
  node.reconnected = true;
  if (quarantine_ != nullptr) quarantine_->Wake();
  map_->Wake();
  const std::vector<ClusterNodePtr> owners = map_->owners();
  const base::MutexLock lock(mu_);
  for (size_t slot = 0; slot < owners.size(); ++slot) {
    if (owners[slot] == nullptr || owners[slot].get() == &node) concerned_.set(slot);
  }
  described_ = described_ && !concerned_.test(SlotOf(own_.description_key));
  reconnected_ = true;
}

void Cluster::DoChores() {
  Describe();
  SubscribeAgain();
}

void Cluster::Describe() {
  if (map_->Owner(SlotOf(own_.description_key)) == nullptr) return;
  {
    const base::MutexLock lock(mu_);
    if (std::exchange(described_, true)) return;
  }
  Call(own_.description_key, own_.description, base::Now() + kSubscribeTimeout).IgnoreError();
}

void Cluster::SubscribeAgain() {
  const base::Instant until = base::Now() + kRound;
  std::vector<Slot> silent;
  {
    const base::MutexLock lock(mu_);
    for (const auto& [slot, its] : channels_) {
      if (its.wanted && its.at == nullptr) silent.push_back(slot);
    }
  }
  // The slots after those of the last round come first.
  std::rotate(silent.begin(), std::lower_bound(silent.begin(), silent.end(), next_silent_),
              silent.end());
  for (const Slot slot : silent) {
    const base::Instant now = base::Now();
    if (stopped_ || until <= now) return map_->RefreshSoon();  // this calls it again
    next_silent_ = slot + 1;
    Subscribe(TagOf(slot), std::min(until, now + kSubscribeTimeout)).IgnoreError();
  }
}

}  // namespace redlatch::redis
