#include "src/redis/server_group/cluster_map.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/thread.h"

namespace redlatch::redis {
namespace {

// The pause between refreshes, however many callers ask for one.
constexpr absl::Duration kApart = absl::Milliseconds(100);
// How long one node may take to answer before the next one is asked.
constexpr absl::Duration kMapTimeout = absl::Milliseconds(500);
// Pause before checking again if a call that uses a retired node is over.
constexpr absl::Duration kCloseUnusedEvery = absl::Milliseconds(200);

}  // namespace

ClusterMap::ClusterMap(const Url& url, Hooks hooks)
    : url_(url), name_(url.DebugString()), hooks_(std::move(hooks)) {}

ClusterMap::~ClusterMap() {
  Stop();
  // No call uses the remaining references to nodes.
  for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server.reset();
}

void ClusterMap::Stop() {
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    wake_.SignalAll();
    found_.SignalAll();
  }
  base::Join(thread_);
  // This includes retired nodes, which calls may still use.
  for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server->Stop();
}

absl::Status ClusterMap::StartThread() {
  if (stopping_ || thread_.joinable()) return absl::OkStatus();
  return base::TryStartThread(thread_, "redlatch-map", [this] { Run(); }) ? absl::OkStatus()
                                                                          : base::NoThread();
}

absl::Status ClusterMap::Await(absl::FunctionRef<bool()> known, base::Instant deadline) {
  const base::MutexLock lock(mu_);
  if (known()) return absl::OkStatus();
  if (absl::Status started = StartThread(); !started.ok()) return started;
  refresh_wanted_ = true;
  wake_.SignalOne();
  const uint64_t begun = begun_;
  while (!known() && !stopping_ && base::Now() < deadline) {
    // Waiting does not help against a refusal.
    if (ended_ > begun && !last_failure_.ok() && !absl::IsUnavailable(last_failure_)) break;
    found_.WaitUntil(mu_, deadline);
    refresh_wanted_ = true;
    wake_.SignalOne();
  }
  if (known()) return absl::OkStatus();
  if (!last_failure_.ok()) return MarkNotSent(base::Unshared(last_failure_));
  return MarkNotSent(absl::UnavailableError(absl::StrCat("no node of ", name_, " serves it")));
}

absl::StatusOr<ClusterNodePtr> ClusterMap::AwaitOwner(Slot slot, base::Instant deadline) {
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

absl::Status ClusterMap::AwaitSome(base::Instant deadline) {
  return Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !nodes_.empty(); }, deadline);
}

void ClusterMap::RefreshSoon() {
  const base::MutexLock lock(mu_);
  StartThread().IgnoreError();  // the next caller that waits gets the error
  if (std::exchange(refresh_wanted_, true)) return;
  wake_.SignalOne();
}

bool ClusterMap::Refresh(base::Instant deadline) {
  const base::MutexLock lock(mu_);
  if (!StartThread().ok()) return false;
  refresh_wanted_ = true;
  wake_.SignalOne();
  if (std::this_thread::get_id() == thread_.get_id()) return false;  // called by its chores
  const uint64_t begun = begun_;
  while (ended_ <= begun && !stopping_ && base::Now() < deadline) found_.WaitUntil(mu_, deadline);
  return ended_ > begun;
}

void ClusterMap::Wake() {
  const base::MutexLock lock(mu_);
  StartThread().IgnoreError();
  chores_ = true;
  wake_.SignalOne();
}

void ClusterMap::Run() {
  base::Instant next;
  base::Instant chores_due = base::Instant::Infinite();
  mu_.Lock();
  while (!stopping_) {
    const base::Instant now = base::Now();
    const bool look = refresh_wanted_ && next <= now;
    const bool chores = std::exchange(chores_, false) || chores_due <= now;
    if (!look && !chores) {
      base::Instant until = refresh_wanted_ ? std::min(next, chores_due) : chores_due;
      if (nodes_.size() < open_nodes_) until = std::min(until, now + kCloseUnusedEvery);
      wake_.WaitUntil(mu_, until);
      mu_.Unlock();
      CloseUnused();
      mu_.Lock();
      continue;
    }
    // Chores go first, since a refresh takes longer.
    if (chores) {
      mu_.Unlock();
      chores_due = hooks_.chores();
      mu_.Lock();
    }
    if (!look || stopping_) continue;
    refresh_wanted_ = false;
    ++begun_;
    mu_.Unlock();
    absl::Status status = AskNodes();
    mu_.Lock();
    last_failure_ = std::move(status);
    ended_ = begun_;
    next = base::Now() + base::Jittered(kApart);
    found_.SignalAll();
    chores_ = true;
  }
  mu_.Unlock();
}

// Closes the nodes that no call uses any more.
void ClusterMap::CloseUnused() {
  std::vector<std::unique_ptr<ClusterNode>> dead;
  {
    const base::MutexLock lock(unused_nodes_->mu);
    dead.swap(unused_nodes_->nodes);
  }
  for (const auto& node : dead) node->server->Stop();
  const base::MutexLock lock(mu_);
  for (const auto& node : dead) {
    std::atomic<ClusterNode*>* link = &latest_;
    while (link->load() != node.get()) link = &link->load()->older;
    link->store(node->older);
    --open_nodes_;
  }
}

// The order in which nodes are asked: the one that gave the latest view, those in use, those that
// the user named, the others.
std::vector<HostAndPort> ClusterMap::NodesToAsk() const {
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
bool ClusterMap::IsOurs(const ClusterView& view) const {
  return ids_.empty() || view.ids.empty() ||
         std::any_of(view.ids.begin(), view.ids.end(),
                     [this](const std::string& id) { return ids_.contains(id); });
}

// Takes the view of the first node that is well and not behind, otherwise the newest one.
absl::Status ClusterMap::AskNodes() {
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

void ClusterMap::Take(const ClusterView& view) {
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
    std::erase_if(nodes_, [&view](const auto& node) {
      const bool retired = !view.members.contains(node.first);
      if (retired) node.second->retired = true;
      return retired;
    });
  }
  for (const Slot slot : moved) hooks_.on_moved(slot);
  hooks_.on_view();
  CloseUnused();
}

ClusterNodePtr ClusterMap::NodeAt(const HostAndPort& where) noexcept {
  ClusterNodePtr& node = nodes_[where];
  if (node == nullptr) {
    const auto bury = [unused_nodes = unused_nodes_](ClusterNode* one) {
      const base::MutexLock lock(unused_nodes->mu);
      unused_nodes->nodes.emplace_back(one);
    };
    node = ClusterNodePtr(
        new ClusterNode{.where = where, .number = ++made_, .server = hooks_.make(where)}, bury);
    node->older = latest_.load(std::memory_order_relaxed);
    latest_.store(node.get(), std::memory_order_release);
    ++open_nodes_;
  }
  return node;
}

ClusterNodePtr ClusterMap::ApplyRedirect(const Redirect& redirect, const HostAndPort& where,
                                         bool& moved) {
  const base::MutexLock lock(mu_);
  if (!members_.contains(where)) return nullptr;
  ClusterNodePtr node = NodeAt(where);
  if (redirect.once) return node;
  ClusterNodePtr& owner = owners_[redirect.slot];
  moved = owner != nullptr && owner != node;
  owner = node;
  return node;
}

ClusterNodePtr ClusterMap::Follow(const Redirect& redirect, const HostAndPort& where,
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

std::vector<ClusterNodePtr> ClusterMap::nodes() const {
  const base::MutexLock lock(mu_);
  std::vector<ClusterNodePtr> nodes;
  for (const auto& [where, node] : nodes_) nodes.push_back(node);
  return nodes;
}

void ClusterMap::CloseInForkedChild() {
  for (ClusterNode* node = latest_; node != nullptr; node = node->older) node->server.reset();
}

}  // namespace redlatch::redis
