#include "src/redis/deployment/cluster_map.h"

#include <algorithm>
#include <optional>
#include <system_error>
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

}  // namespace

ClusterMap::ClusterMap(const Url& url, Hooks hooks)
    : url_(url), name_(url.DebugString()), hooks_(std::move(hooks)) {}

ClusterMap::~ClusterMap() { Stop(); }

void ClusterMap::Stop() {
  {
    const base::MutexLock lock(mu_);
    stopping_ = true;
    wake_.SignalAll();
    found_.SignalAll();
  }
  base::Join(thread_);
}

absl::Status ClusterMap::StartThread() {
  if (stopping_ || thread_.joinable()) return absl::OkStatus();
  try {
    thread_ = base::StartThread("redlatch-map", [this] { Run(); });
  } catch (const std::system_error& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot start a thread to find the nodes of ", name_, ": ", error.what()));
  }
  return absl::OkStatus();
}

absl::Status ClusterMap::Await(absl::FunctionRef<bool()> known, base::Instant deadline) {
  if (known()) return absl::OkStatus();
  const base::MutexLock lock(mu_);
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

absl::StatusOr<ClusterNode*> ClusterMap::AwaitOwner(Slot slot, base::Instant deadline) {
  absl::Status known = Await([&] { return Owner(slot) != nullptr; }, deadline);
  if (!known.ok()) return known;
  return Owner(slot);
}

absl::Status ClusterMap::AwaitSome(base::Instant deadline) {
  return Await([this] { return latest_.load() != nullptr; }, deadline);
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
      wake_.WaitUntil(mu_, look_wanted_ ? std::min(next, chores_due) : chores_due);
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

// Those that have been of use first.
std::vector<HostAndPort> ClusterMap::WhomToAsk() const {
  std::vector<HostAndPort> whom;
  const auto add = [&](const HostAndPort& one) {
    if (std::find(whom.begin(), whom.end(), one) == whom.end()) whom.push_back(one);
  };
  std::vector<ClusterNode*> known = nodes();
  std::stable_partition(known.begin(), known.end(),
                        [](const ClusterNode* node) { return node->server->connected(); });
  for (const ClusterNode* node : known) add(node->where);
  for (const HostAndPort& each : url_.nodes) add(each);
  const base::MutexLock lock(mu_);
  for (const HostAndPort& each : replicas_) add(each);
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
    }
    if (good) break;
  }
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
    replicas_.clear();
    for (const SlotRange& range : view.ranges) {
      ClusterNode& node = NodeAt(range.primary);
      replicas_.insert(replicas_.end(), range.replicas.begin(), range.replicas.end());
      for (int slot = range.first; slot <= range.last; ++slot) {
        if (Assign(static_cast<Slot>(slot), node)) moved.push_back(static_cast<Slot>(slot));
      }
    }
  }
  for (const Slot slot : moved) hooks_.on_moved(slot);
  hooks_.on_view();
}

ClusterNode& ClusterMap::NodeAt(const HostAndPort& where) {
  std::unique_ptr<ClusterNode>& node = nodes_[where];
  if (node == nullptr) {
    node.reset(new ClusterNode{.where = where,
                               .server = hooks_.make(where),
                               .older = latest_.load(std::memory_order_relaxed)});
    latest_.store(node.get(), std::memory_order_release);
  }
  return *node;
}

// Whether another one had it.
bool ClusterMap::Assign(Slot slot, ClusterNode& node) {
  ClusterNode* const old = owners_[slot].exchange(&node, std::memory_order_acq_rel);
  return old != nullptr && old != &node;
}

ClusterNode& ClusterMap::Follow(const Redirect& redirect, const ClusterNode& from) {
  ClusterNode* node = nullptr;
  bool moved = false;
  {
    const base::MutexLock lock(mu_);
    node = &NodeAt(
        {.host = redirect.host.empty() ? from.where.host : redirect.host, .port = redirect.port});
    if (!redirect.once) moved = Assign(redirect.slot, *node);
  }
  if (moved) {
    hooks_.on_moved(redirect.slot);
    LookSoon();  // where one has gone, others may
  }
  return *node;
}

std::vector<ClusterNode*> ClusterMap::nodes() const {
  std::vector<ClusterNode*> nodes;
  ClusterNode* node = latest_.load(std::memory_order_acquire);
  for (; node != nullptr; node = node->older) nodes.push_back(node);
  return nodes;
}

void ClusterMap::CloseInForkedChild() {
  for (ClusterNode* const node : nodes()) node->server.reset();
}

}  // namespace redlatch::redis
