#ifndef REDLATCH_SRC_LOCK_CLIENT_CORE_H_
#define REDLATCH_SRC_LOCK_CLIENT_CORE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/stats.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/lock/background.h"
#include "src/lock/confirmed_releases.h"
#include "src/lock/counts.h"
#include "src/lock/description.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/lock_table.h"
#include "src/lock/loss_notifier.h"
#include "src/lock/observations.h"
#include "src/lock/request_runner.h"
#include "src/lock/script_batch.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/operation.h"
#include "src/lock/state/timing.h"
#include "src/lock/unattended_requests.h"
#include "src/lock/users_code.h"
#include "src/lock/wake_channels.h"
#include "src/lock/weak_map.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/server_group/single_server.h"
#include "src/redis/url/url.h"

namespace redlatch::internal {

class PermitPool;
class ReaderGroups;

// The latest round trips of a client, from which it derives the length of its claims and turns.
// Thread-safe; a lost update does no harm.
class RoundTrips {
 public:
  void Add(absl::Duration round_trip) {
    const uint32_t at = next_.fetch_add(1, std::memory_order_relaxed) % kKept;
    latest_[at].store(absl::ToInt64Microseconds(round_trip), std::memory_order_relaxed);
  }

  // How long a handover by message makes this client the owner: long enough to confirm it, even
  // over a slow link.
  absl::Duration Claim(absl::Duration shortest = kShortestClaim) const {
    int64_t longest = 0;
    for (const auto& each : latest_) {
      longest = std::max(longest, each.load(std::memory_order_relaxed));
    }
    return std::max(shortest, absl::Microseconds(4 * longest));
  }

  absl::Duration Shortest() const {
    int64_t shortest = latest_[0].load(std::memory_order_relaxed);
    for (const auto& each : latest_) {
      shortest = std::min(shortest, each.load(std::memory_order_relaxed));
    }
    return absl::Microseconds(shortest);
  }

 private:
  static constexpr size_t kKept = 8;

  base::Atomic<uint32_t> next_{0};
  std::array<base::Atomic<int64_t>, kKept> latest_{};
};

// The object behind a Client: its connections, all its lock states, and the threads that drive
// them. It lives until the last client handle, lock object and lease is gone.
//
// In a forked child, everything except the server group is leaked, since threads that do not exist
// there may hold the mutexes.
class ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  // `make_quorum` is required if the URL names a quorum.
  static std::shared_ptr<ClientCore> Make(redis::Url url, ClientOptions options,
                                          QuorumRunner::Make make_quorum, DescriptionPace pace = {},
                                          std::string url_problem = {});
  // Returns the quorum of these servers; equal sets share one. A single server that is a quorum
  // itself is returned as it is. Problems with the servers are reported on use.
  static std::shared_ptr<ClientCore> QuorumOf(
      const std::vector<std::shared_ptr<ClientCore>>& members, QuorumRunner::Make make_quorum);
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  bool in_forked_child() const { return fork_guard_.InForkedChild(); }
  // kFailedPrecondition in a forked child.
  absl::Status Refusal() const { return in_forked_child() ? OfForkedChild() : absl::OkStatus(); }

  const ClientOptions& options() const { return options_; }
  // Lock objects with the same options share them: a client may have very many locks.
  std::shared_ptr<const LockOptions> Share(LockOptions options);
  // All servers, or the one that has the key; for messages.
  const std::string& server() const { return server_; }
  std::string server(std::string_view key) const {
    return is_cluster() && !in_forked_child() ? server_group_->facts(key).name : server_;
  }
  // The user's name in ACL SETUSER.
  std::string user() const { return url_.user.empty() ? "default" : url_.user; }
  absl::Duration command_timeout() const { return url_.command_timeout; }
  absl::Duration shortest_round_trip() const { return round_trips_.Shortest(); }
  absl::Duration connect_timeout() const { return url_.connect_timeout; }
  // No lease may outlive the quarantine after a promotion, or the delay of a restart.
  absl::Duration longest_lease() const {
    if (url_.restart_delay > absl::ZeroDuration() && is_quorum()) return url_.restart_delay;
    return url_.quarantine > absl::ZeroDuration()
               ? url_.quarantine - server_group_->facts({}).grants_alone_for
               : absl::InfiniteDuration();
  }
  redis::ServerGroup& server_group() { return *server_group_; }
  RequestRunner& runner() {
    return quorum_ == nullptr ? static_cast<RequestRunner&>(server_runner_) : *quorum_;
  }
  bool is_cluster() const { return url_.kind == redis::Url::Kind::kCluster; }
  bool is_quorum() const { return url_.kind == redis::Url::Kind::kQuorum; }
  LockTable& lock_table() { return lock_table_; }
  ScriptBatch& batches() { return batches_; }
  // Drives everything that waits without a thread.
  EventDriver& event_driver() { return *event_driver_; }
  bool observed() const { return options_.observer != nullptr; }
  // Calls `event` with the observer, or with the default one if none was set.
  template <class Event>
  void Tell(Event&& event) {
    RunUsersCode("an Observer", [&] { event(*observer_); });
  }
  // A lock may be acquired by SET: no observer needs its token, this user may run native commands,
  // and the server is near enough for the shortest claim.
  bool acquires_natively() const {
    return !observer_needs_tokens_ && !no_native_.load(std::memory_order_relaxed) &&
           round_trips_.Claim() <= kShortestClaim;
  }
  // The number of holds lost so far. Owners of holds check them when it grows.
  uint64_t losses() const { return losses_.load(std::memory_order_acquire); }

  // In a forked child, only what never changes is filled in.
  ClientStats Stats();

  Subject SubjectOf(const NamedLock& lock) const;
  // Returns an owner for one grant of readers: "read:<a fresh number>:<client>", or "nest:<a fresh
  // number>:<the grant>" under a write grant. The server recognizes readers by it.
  std::string ReaderName(GrantId write_grant);
  // "<client>:<a fresh number>"
  std::string FreshId();
  WeakMap<ReaderGroups>& readers() { return readers_; }
  WeakMap<PermitPool>& permits() { return permits_; }
  const Identity& identity() const { return identity_; }
  // The latch counts of this client.
  Counts& counts() { return counts_; }
  // The elections that this client observes.
  Observations& observations() { return observations_; }
  // Makes messages about the lock reach this client.
  absl::Status Subscribe(Entry& entry, base::Instant deadline);
  // The channel of this client for messages about the key.
  std::string ChannelFor(std::string_view key) const {
    return ChannelName(server_group_->slot_tag(key));
  }
  // The latest releases that a server has confirmed to this client.
  ConfirmedReleases& confirmed_releases() { return confirmed_releases_; }
  void WakeBackground() { background_.Wake(); }
  // Releases and acquires that are in flight and that no thread waits for.
  UnattendedRequests& unattended() { return unattended_; }
  // Tells the observer how a release ended, on a thread of the client.
  void TellReleasedLater(const Entry& entry, const Released& released);
  // The same for the outcome of an acquisition.
  void TellAcquiredLater(const Entry& entry, FencingToken token, absl::Duration waited,
                         const absl::Status& status);

  // Calls `event` with the entry's state and effects, and acts on the effects. The process ends if
  // memory is lacking, since a state must not change without its effects.
  template <class Event>
  void Feed(Entry& entry, Event&& event) noexcept;
  // The same for an event that cannot fail: a function of state, time and effects. It first waits
  // up to the command timeout for the memory that the event may need.
  template <class Event>
  void FeedWithRoom(Entry& entry, Event&& event) noexcept;
  // Resumes an operation at the entry's state, with the event and what the client knows of
  // messages.
  Operation::Action Resume(Entry& entry, Operation& operation, Operation::Event event) noexcept;

  // Schedules the entry's next request for that time.
  void ScheduleRequest(Entry& entry, base::Instant request_at) {
    if (entry.request_timer.IsAfter(request_at)) background_.Schedule(entry, request_at);
  }

  // Notes the result of a request, for all drivers.
  void NoteAnswer(const Entry& entry, const Request& request, const Result& result);
  // Returns the result of a posted request, once its reply is there, and notes it.
  Result TakeReply(const Entry& entry, const Request& request, RequestInFlight& posted) noexcept;
  // The deadline of a release that no caller waits for. It has already passed if a release went
  // unanswered and the server has not answered since: the background repeats it. So a silent server
  // delays a thread only once.
  base::Instant ReleaseBy() const {
    const bool silent = silent_.load(std::memory_order_relaxed);
    return base::Now() + (silent ? absl::ZeroDuration() : command_timeout());
  }
  void NoteSilence() { silent_.store(true, std::memory_order_relaxed); }
  // Ends the waiting calls of a lock object that is gone, in every lock state of the name.
  void StopAll(std::string_view name, const void* object);

  // Starts the background and the loss notifier, which every lock requires. Returns false if they
  // cannot be started.
  bool EnsureThreads() { return background_.Ready() && notifier_->Ready(); }

  // The process exits, and this object may never be destroyed: gives back what no thread uses, and
  // waits for the server until `until`.
  void GiveBackAtExit(base::Instant until);

  // Another client wants the lock of that grant.
  void OnRecall(Entry& entry, GrantId grant, bool tried);

  // Called by the client's own threads only.
  void Expire(Entry& entry);
  // Publishes the client's description again, without waiting.
  void Describe();
  void Reconnected();
  void Unsubscribed();
  // Too many grants are cached: gives back those that are next to expire.
  void GiveBackSurplus();

 private:
  ClientCore(redis::Url url, ClientOptions options, QuorumRunner::Make make_quorum,
             DescriptionPace pace, std::string url_problem);
  ~ClientCore();
  std::unique_ptr<redis::ServerGroup> MakeServerGroup(QuorumRunner::Make make_quorum);
  std::unique_ptr<redis::ServerGroup> MakeServerGroup(
      const redis::Url& url, redis::ServerGroup::Events events,
      std::shared_ptr<redis::Listener> listener = nullptr);
  absl::Status OfForkedChild() const;
  std::string ChannelName(std::string_view slot_tag) const;
  void Abandon();

  void OnMessage(std::string_view text);
  void Unlatch(const Entry& entry, const Request& release, const Result& result);
  // The same as Tell(), on the loss notifier's thread.
  void TellLater(std::function<void(Observer&)> event);
  void TellSubscribed(bool subscribed, std::string_view why);
  void ListenForRecalls(const Entry& entry, bool begins, bool caches);
  void Finish(Entry& entry, Effects& effects);
  void Post(const Entry& entry, const LocalHold& lost, const LossReason& because);
  void Post(const Entry& entry, Notice notice);
  void PostWanted(const Entry& entry, Notice notice);

  const base::ForkGuard fork_guard_;
  const redis::Url url_;
  const std::string url_problem_;  // why the URL is unusable, or empty
  const ClientOptions options_;
  const std::shared_ptr<Observer> observer_;
  const bool observer_needs_tokens_;
  const Identity identity_;
  RoundTrips round_trips_;
  base::Mutex share_mu_;
  std::shared_ptr<const LockOptions> shared_options_ ABSL_GUARDED_BY(share_mu_);
  WeakMap<ReaderGroups> readers_;
  WeakMap<PermitPool> permits_;
  WeakMap<ClientCore> quorums_;  // quorums in which this server was named first
  Counts counts_{*this};
  Observations observations_{*this};
  WakeChannels wake_channels_{*this};
  ConfirmedReleases confirmed_releases_{*this};
  UnattendedRequests unattended_{*this};
  const std::shared_ptr<EventDriver> event_driver_;
  base::Numbers numbers_;
  base::Atomic<uint64_t> losses_{0};
  base::Atomic<uint64_t> reconnects_{0};
  base::Atomic<bool> silent_{false};
  base::Atomic<bool> no_native_{false};      // the server refused a native command
  base::Atomic<size_t> caching_entries_{0};  // entries that cache a grant, or did lately
  const DescriptionPace pace_;
  const redis::Command description_;
  QuorumRunner* quorum_ = nullptr;  // the server group, if it is one
  // Its threads use all of this object and are stopped first. Its descriptor wakes sleeping
  // threads of the members below.
  std::unique_ptr<redis::ServerGroup> server_group_;
  ServerRunner server_runner_{*server_group_};
  const std::string server_;
  LockTable lock_table_;
  ScriptBatch batches_{*this};
  Background background_;
  const std::shared_ptr<LossNotifier> notifier_ = std::make_shared<LossNotifier>(*this);
};

template <class Event>
void ClientCore::FeedWithRoom(Entry& entry, Event&& event) noexcept {
  base::Instant until;
  bool ready = false;
  while (!ready) {
    Feed(entry, [&](LockState& state, Effects& effects) {
      const base::Instant now = base::Now();
      if (until == base::Instant()) until = now + command_timeout();
      ready = state.MakeRoom() || until <= now;
      if (ready) event(state, now, effects);
    });
    if (!ready) base::Parker().ParkUntil(base::Now() + absl::Milliseconds(1));
  }
}

template <class Event>
void ClientCore::Feed(Entry& entry, Event&& event) noexcept {
  Effects effects;
  base::Instant request_at;
  base::Instant expiry_at;
  bool recallable_changed = false;
  bool recallable = false;
  bool cacheable = false;
  ChannelListener* left = nullptr;
  {
    const base::MutexLock lock(entry.mu);
    if (entry.recalled.load(std::memory_order_relaxed) != 0 && entry.state.MakeRoom()) {
      const GrantId recalled = entry.recalled.exchange(0);
      entry.state.OnRecall(recalled, base::Now(), effects, entry.tried.exchange(false));
    }
    event(entry.state, effects);
    request_at = entry.state.next_request_at();
    expiry_at = entry.state.next_expiry();
    entry.grant.store(entry.state.grant_id(), std::memory_order_relaxed);
    if (entry.listens != nullptr && entry.listens->acquire != entry.state.pending_acquire()) {
      left = std::exchange(entry.listens, nullptr);
    }
    recallable_changed = entry.state.recallable() != entry.state.recallable_noted;
    if (recallable_changed) {
      recallable = entry.state.recallable_noted = !entry.state.recallable_noted;
      if (recallable) entry.state.cacheable_noted = entry.state.cacheable();
      cacheable = entry.state.cacheable_noted;
    }
  }
  if (left != nullptr) wake_channels_.Leave(*left);
  if (recallable_changed) ListenForRecalls(entry, recallable, cacheable);
  if (!effects.wakes.empty() || !effects.lost.empty() || !effects.notices.empty()) {
    Finish(entry, effects);
  }
  ScheduleRequest(entry, request_at);
  if (entry.expiry_timer.IsAfter(expiry_at)) notifier_->Watch(entry, expiry_at);
}

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_CLIENT_CORE_H_
