// What a client has and none of its threads: taken again, left, and given back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/lock/client_core.h"
#include "src/lock/lock_handle.h"

namespace redlatch::internal {
namespace {

// What no thread has and a client keeps all the same; and how many more than must go then go at
// once, so that not each lock that comes has all of them looked at.
constexpr size_t kMostCached = 1024;
constexpr size_t kSpareCached = 64;

// The clients that may keep something. Some are never destroyed.
struct CachingClients {
  const base::ForkGuard fork_guard;
  base::Mutex mu;
  std::vector<std::weak_ptr<ClientCore>> cores ABSL_GUARDED_BY(mu);

  // Null in a forked child whose parent had a thread in here.
  static CachingClients* All();
};

// When the process exits, what no thread has goes back.
void GiveBackAll() {
  std::vector<std::weak_ptr<ClientCore>> cores;
  if (CachingClients* const all = CachingClients::All()) {
    const base::MutexLock lock(all->mu);
    cores.swap(all->cores);
  }
  for (const std::weak_ptr<ClientCore>& each : cores) {
    const std::shared_ptr<ClientCore> core = each.lock();
    if (core == nullptr || core->in_forked_child()) continue;
    core->machines().VisitAll([&](Entry& entry) { LockHandle::To(core, entry)->GiveBackCached(); });
    core->outbox().Flush(base::Now() + core->command_timeout());
  }
}

CachingClients* CachingClients::All() {
  static CachingClients* const all = [] {
    std::atexit(GiveBackAll);
    return new CachingClients;
  }();
  return all->fork_guard.InForkedChild() && !all->mu.IsFree() ? nullptr : all;
}

}  // namespace

// How long a grant may stay with the client, of which the server knows nothing.
absl::Status LockHandle::CheckCaching(const LockOptions& options) const {
  const absl::Duration none = absl::ZeroDuration();
  const absl::Duration turn = ContendedTurn(options), cache_for = options.cache_for;
  if (turn == none && cache_for == none) return absl::OkStatus();
  if (turn < none || cache_for < none) {
    return absl::InvalidArgumentError("LockOptions::turn and cache_for must not be negative");
  }
  if (cache_for > options.lease) {
    return absl::InvalidArgumentError(
        absl::StrCat("LockOptions::cache_for is ", absl::FormatDuration(cache_for),
                     ", longer than the lease of ", absl::FormatDuration(options.lease),
                     "; make the lease longer, or cache it for less"));
  }
  if (cache_for > none && !entry_.type->traits.cacheable) {
    return absl::InvalidArgumentError(
        "LockOptions::cache_for is for classes whose LockTraits are `cacheable`");
  }
  if (cache_for > none) core_->GiveBackAtExit();
  return absl::OkStatus();
}

bool LockHandle::LockAgain(const std::shared_ptr<const LockOptions>& options) {
  const bool reentrant = entry_.type->traits.reentrant;
  const bool kept = options->cache_for > absl::ZeroDuration();
  if ((!reentrant && !kept) || core_->in_forked_child()) return false;
  if (entry_.recalled.load(std::memory_order_relaxed) != 0) return false;
  const base::Instant now = base::Now();
  if (kept) core_->PollMessages(entry_, now);
  const uint64_t thread = ThreadNumber();
  base::Instant request_at;
  {
    const base::MutexLock lock(entry_.mu);
    LockState& state = entry_.state;
    if (kept && state.TakeCachedNow(thread, options, now)) return true;
    if (!reentrant || !state.Reenter(thread, Face::kStd, /*manual=*/false, now)) return false;
    request_at = state.next_request_at();
  }
  core_->SeeTo(entry_, request_at);
  return true;
}

bool LockHandle::LeaveCachedNow() {
  if (!IsCacheable(entry_.grant.load(std::memory_order_relaxed)) ||
      entry_.recalled.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  std::shared_ptr<const LockOptions> ended;
  base::Instant request_at;
  {
    const base::Instant now = base::Now();
    const base::MutexLock lock(entry_.mu);
    if (!entry_.state.recallable_noted || !entry_.state.LeaveCachedNow(ThreadNumber(), now, ended))
      return false;
    request_at = entry_.state.next_request_at();
  }
  core_->SeeTo(entry_, request_at);
  return true;
}

void LockHandle::GiveBackCached() {
  const GrantId grant = entry_.grant.load(std::memory_order_relaxed);
  if (!IsCacheable(grant)) return;
  std::optional<Request> release;
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects&) {
    state.OnRecall(grant, now);
    release = state.NextRelease(now);
  });
  if (release) core_->outbox().Send(entry_, *release, 0);
}

void LockHandle::CopyTriesFrom(const LockHandle& other) {
  uint32_t tried_s = 0;
  {
    const base::MutexLock lock(other.entry_.mu);
    tried_s = other.entry_.state.tried_s;
  }
  const base::MutexLock lock(entry_.mu);
  entry_.state.tried_s = tried_s;
}

// What goes back because another client waits for it is sent by the thread that hears of it.
void ClientCore::OnRecall(Entry& entry, GrantId grant, bool tried) {
  if (tried) entry.tried = true;
  entry.recalled = grant;
  std::optional<Request> release;
  int tries = 0;
  do {
    Feed(entry, [&](LockState& state, Effects&) { release = state.NextRelease(base::Now()); });
  } while (entry.recalled == grant && ++tries < 2);  // still there: it had no memory for it
  if (release) outbox_.Send(entry, *release, 0);
}

void ClientCore::GiveBackAtExit() {
  if (gives_back_.load(std::memory_order_relaxed)) return;
  if (CachingClients* const all = CachingClients::All()) {
    const base::MutexLock lock(all->mu);
    std::erase_if(all->cores, [](const auto& core) { return core.expired(); });
    all->cores.push_back(weak_from_this());
  }
  gives_back_ = true;
}

void ClientCore::Unsubscribed() {
  inside_->machines.VisitAll([this](Entry& entry) {
    if (!entry.type->traits.cacheable) return;
    Feed(entry, [](LockState& state, Effects&) { state.OnUnsubscribed(base::Now()); });
  });
}

void ClientCore::ListenForRecalls(const Entry& entry, bool begins) {
  server_group_->subscriptions().Attend(entry.keys.main(), begins);
  const size_t recallable_noted = begins ? ++attended_ : --attended_;
  if (begins && recallable_noted > kMostCached) inside_->background.TooManyCached();
}

void ClientCore::GiveBackSurplus() {
  if (attended_ <= kMostCached) return;
  std::vector<std::pair<base::Instant, Entry*>> idle;
  inside_->machines.VisitAll([&](Entry& entry) {
    const base::MutexLock lock(entry.mu);
    const base::Instant until = entry.state.cached_until();
    if (until == base::Instant()) return;
    LockTable::Refer(entry);
    idle.emplace_back(until, &entry);
  });
  const size_t going = idle.size() <= kMostCached ? 0 : idle.size() - kMostCached + kSpareCached;
  std::nth_element(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(going), idle.end());
  for (size_t i = 0; i < idle.size(); ++i) {
    Entry& entry = *idle[i].second;
    if (i < going)
      Feed(entry, [](LockState& state, Effects&) { state.OnTooManyCached(base::Now()); });
    inside_->machines.Unrefer(entry);
  }
}

}  // namespace redlatch::internal
