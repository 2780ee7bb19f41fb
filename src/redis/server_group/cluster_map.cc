#include "src/redis/server_group/cluster_map.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/thread.h"

namespace redlatch::redis {
namespace {

// Between looks, however many ask for one.
constexpr absl::Duration kApart = absl::Milliseconds(100);
// How long one node may take to answer, while there are others.
constexpr absl::Duration kMapPatience = absl::Milliseconds(500);
// Pause before checking again if a call that uses a forgotten node is over.
constexpr absl::Duration kBuryEach = absl::Milliseconds(200);

}  // namespace

ClusterMap::ClusterMap(const Url& url, Hooks hooks)
    : url_(url), name_(url.DebugString()), hooks_(std::move(hooks)) {}

ClusterMap::~ClusterMap() {
  Stop();
  // Remaining references to nodes are no longer used.
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
  // Forgotten nodes, too: calls may still use them.
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
  look_wanted_ = true;
  wake_.SignalOne();
  const uint64_t begun = begun_;
  while (!known() && !stopping_ && base::Now() < deadline) {
    // A refusal lasts until somebody mends something.
    if (ended_ > begun && !last_failure_.ok() && !absl::IsUnavailable(last_failure_)) break;
    found_.WaitUntil(mu_, deadline);
    look_wanted_ = true;
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

void ClusterMap::LookSoon() {
  const base::MutexLock lock(mu_);
  StartThread().IgnoreError();  // the next who needs it is told
  if (std::exchange(look_wanted_, true)) return;
  wake_.SignalOne();
}

bool ClusterMap::Refresh(base::Instant deadline) {
  const base::MutexLock lock(mu_);
  if (!StartThread().ok()) return false;
  look_wanted_ = true;
  wake_.SignalOne();
  if (std::this_thread::get_id() == thread_.get_id()) return false;  // in its chores
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
    const bool look = look_wanted_ && next <= now;
    const bool chores = std::exchange(chores_, false) || chores_due <= now;
    if (!look && !chores) {
      base::Instant until = look_wanted_ ? std::min(next, chores_due) : chores_due;
      if (nodes_.size() < unburied_) until = std::min(until, now + kBuryEach);
      wake_.WaitUntil(mu_, until);
      mu_.Unlock();
      Bury();
      mu_.Lock();
      continue;
    }
    // First, since a look takes longer.
    if (chores) {
      mu_.Unlock();
      chores_due = hooks_.chores();
      mu_.Lock();
    }
    if (!look || stopping_) continue;
    look_wanted_ = false;
    ++begun_;
    mu_.Unlock();
    absl::Status status = Look();
    mu_.Lock();
    last_failure_ = std::move(status);
    ended_ = begun_;
    next = base::Now() + base::Jittered(kApart);
    found_.SignalAll();
    chores_ = true;
  }
  mu_.Unlock();
}

// No call uses these any more.
void ClusterMap::Bury() {
  std::vector<std::unique_ptr<ClusterNode>> dead;
  {
    const base::MutexLock lock(graveyard_->mu);
    dead.swap(graveyard_->nodes);
  }
  for (const auto& node : dead) node->server->Stop();
  const base::MutexLock lock(mu_);
  for (const auto& node : dead) {
    std::atomic<ClusterNode*>* link = &latest_;
    while (link->load() != node.get()) link = &link->load()->older;
    link->store(node->older);
    --unburied_;
  }
}

// The node that gave the latest view, then those in use, those that the user named, the others.
std::vector<HostAndPort> ClusterMap::WhomToAsk() const {
  std::vector<HostAndPort> whom;
  const auto add = [&](const HostAndPort& one) {
    if (std::find(whom.begin(), whom.end(), one) == whom.end()) whom.push_back(one);
  };
  if (told_by_) add(*told_by_);
  for (const ClusterNodePtr& node : nodes()) {
    if (node->server->connected()) add(node->where);
  }
  for (const HostAndPort& each : url_.nodes) add(each);
  const base::MutexLock lock(mu_);
  for (const HostAndPort& each : members_) add(each);
  return whom;
}

// Where an address was, another cluster may be by now.
bool ClusterMap::IsOurs(const ClusterView& view) const {
  return ids_.empty() || view.ids.empty() ||
         std::any_of(view.ids.begin(), view.ids.end(),
                     [this](const std::string& id) { return ids_.contains(id); });
}

// The first who is well and not behind; else whoever is least behind.
absl::Status ClusterMap::Look() {
  absl::Status why;
  std::optional<ClusterView> best;
  std::optional<HostAndPort> told_by;
  for (const HostAndPort& each : WhomToAsk()) {
    {
      const base::MutexLock lock(mu_);
      if (stopping_) break;
    }
    const base::Instant deadline = base::Now() + std::min(kMapPatience, url_.connect_timeout);
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
  epoch_ = best->epoch;  // less than it was, if all who answer are behind: it is another cluster
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
      const bool forgotten = !view.members.contains(node.first);
      if (forgotten) node.second->forgotten = true;
      return forgotten;
    });
  }
  for (const Slot slot : moved) hooks_.on_moved(slot);
  hooks_.on_view();
  Bury();
}

ClusterNodePtr ClusterMap::NodeAt(const HostAndPort& where) noexcept {
  ClusterNodePtr& node = nodes_[where];
  if (node == nullptr) {
    const auto bury = [graveyard = graveyard_](ClusterNode* one) {
      const base::MutexLock lock(graveyard->mu);
      graveyard->nodes.emplace_back(one);
    };
    node = ClusterNodePtr(
        new ClusterNode{.where = where, .number = ++made_, .server = hooks_.make(where)}, bury);
    node->older = latest_.load(std::memory_order_relaxed);
    latest_.store(node.get(), std::memory_order_release);
    ++unburied_;
  }
  return node;
}

ClusterNodePtr ClusterMap::Lead(const Redirect& redirect, const HostAndPort& where, bool& moved) {
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
  ClusterNodePtr node = Lead(redirect, where, moved);
  if (node == nullptr && Refresh(deadline)) node = Lead(redirect, where, moved);
  if (moved) {
    hooks_.on_moved(redirect.slot);
    LookSoon();  // where one has gone, others may
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
