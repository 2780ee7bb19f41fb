#ifndef REDLATCH_SRC_LOCK_CLIENT_CORE_H_
#define REDLATCH_SRC_LOCK_CLIENT_CORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/stats.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/lock/background.h"
#include "src/lock/counts.h"
#include "src/lock/description.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/lock_table.h"
#include "src/lock/loss_notifier.h"
#include "src/lock/outbox.h"
#include "src/lock/releases.h"
#include "src/lock/request_runner.h"
#include "src/lock/round_trips.h"
#include "src/lock/script_batch.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/operation.h"
#include "src/lock/users_code.h"
#include "src/lock/weak_map.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/server_group/single_server.h"
#include "src/redis/url/url.h"

namespace redlatch::internal {

class PermitPool;
class ReaderGroups;

// What a Client is a handle to: the connections, the machines of all its locks, and the threads
// that drive them. It lives until the last client handle, lock object and lease is gone.
//
// In a forked child, everything but the server group is left as it is for ever: mutexes may be held
// by threads that are not there.
class ClientCore : public std::enable_shared_from_this<ClientCore> {
 public:
  // `make_quorum`: needed if the URL is of a quorum.
  static std::shared_ptr<ClientCore> Make(redis::Url url, ClientOptions options,
                                          QuorumRunner::Make make_quorum, DescriptionPace pace = {},
                                          std::string url_problem = {});
  // The quorum of these servers, whoever asks for it; one that is a quorum already, alone, is it
  // itself. What is wrong with them is told when it is used.
  static std::shared_ptr<ClientCore> QuorumOf(
      const std::vector<std::shared_ptr<ClientCore>>& members, QuorumRunner::Make make_quorum);
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  bool in_forked_child() const { return fork_guard_.InForkedChild(); }
  // kFailedPrecondition in a forked child.
  absl::Status Refusal() const;

  const ClientOptions& options() const { return options_; }
  // All of them, or the one that has the key; for messages.
  const std::string& server() const { return server_; }
  std::string server(std::string_view key) const { return server_group_->server(key); }
  // As ACL SETUSER has it.
  std::string user() const { return url_.user.empty() ? "default" : url_.user; }
  absl::Duration command_timeout() const { return url_.command_timeout; }
  absl::Duration connect_timeout() const { return url_.connect_timeout; }
  // So that none outlives the quarantine after a promotion, or a restart's delay.
  absl::Duration longest_lease() const {
    if (url_.restart_delay > absl::ZeroDuration() && is_quorum()) return url_.restart_delay;
    return url_.quarantine > absl::ZeroDuration()
               ? url_.quarantine - server_group_->grants_alone_for()
               : absl::InfiniteDuration();
  }
  redis::ServerGroup& server_group() { return *server_group_; }
  RequestRunner& runner() {
    return quorum_ == nullptr ? static_cast<RequestRunner&>(server_runner_) : *quorum_;
  }
  bool is_cluster() const { return url_.kind == redis::Url::Kind::kCluster; }
  bool is_quorum() const { return url_.kind == redis::Url::Kind::kQuorum; }
  LockTable& machines() { return inside_->machines; }
  ScriptBatch& batches() { return inside_->batches; }
  // What waits without a thread.
  EventDriver& async() { return *async_; }
  bool observed() const { return options_.observer != nullptr; }
  // Tells the observer, the default one if there is no other: a function of it.
  template <class Event>
  void Tell(Event&& event) {
    RunUsersCode("an Observer", [&] { event(*observer_); });
  }
  // How many holds were lost so far: who keeps holds looks through them when it grows.
  uint64_t losses() const { return losses_.load(std::memory_order_acquire); }

  // Empty in a forked child, but for what does not change.
  ClientStats Stats();

  Subject SubjectOf(const Entry& entry) const;
  Subject SubjectOf(const KeySet& keys, const LockType& type, std::string_view owner) const;
  // An owner for one grant of readers, "read:<a fresh number>:<client>", or, under that write
  // grant, "nest:<a fresh number>:<the grant>": the server tells by it who reads from who writes.
  std::string ReaderName(GrantId write_grant);
  // "<client>:<a fresh number>"
  std::string FreshId();
  WeakMap<ReaderGroups>& readers() { return readers_; }
  WeakMap<PermitPool>& permits() { return permits_; }
  const Identity& identity() const { return identity_; }
  // What this client has counted down.
  Counts& counts() { return counts_; }
  // What it has released.
  Releases& releases() { return releases_; }
  void WakeBackground() { inside_->background.Wake(); }
  // What it is releasing, and nobody waits for.
  Outbox& outbox() { return outbox_; }
  // An observer hears how a release ended, on a thread of the client's own.
  void TellReleasedLater(const Entry& entry, const Released& released);
  // So with what an acquisition came to.
  void TellAcquiredLater(const Entry& entry, FencingToken token, absl::Duration waited,
                         const absl::Status& status);

  // Gives the entry's machine, a LockState& or a LockMachine&, an event, as a function of machine
  // and effects, and sees to what follows of it. All of it or nothing: where memory is lacking
  // here, the process ends.
  template <class Event>
  void Feed(Entry& entry, Event&& event) noexcept;
  // The same for an event that cannot fail, a function of state, time and effects: it waits for the
  // memory that it may need, for as long as a command may take.
  template <class Event>
  void FeedWithRoom(Entry& entry, Event&& event) noexcept;
  // Resumes an operation at the entry's state, with the event and what the client knows of
  // messages.
  Operation::Action Resume(Entry& entry, Operation& operation, Operation::Event event) noexcept;

  // The entry's machine has something to send then.
  void SeeTo(Entry& entry, base::Instant request_at) {
    if (entry.request_timer.IsAfter(request_at)) inside_->background.Schedule(entry, request_at);
  }

  // Runs a script now, on this thread.
  Result Run(Entry& entry, Request request, base::Instant deadline);
  // Sends it, does something else, and then reads the answer, or, where `meanwhile` says that there
  // is no need for it any more, leaves it to whoever reads next. False: it is to be run.
  bool RunAndRead(Entry& entry, Request request, absl::FunctionRef<bool()> meanwhile,
                  base::Instant deadline, std::optional<Result>& result);
  // Before it is sent, in whatever way; and what was answered.
  void MakeReady(const Entry& entry, Request& request);
  Result Hear(const Entry& entry, const Request& request, Result result);
  // By when a release must be confirmed of which nobody waits to hear: at once, so that the renewer
  // sees to it, if one has gone unanswered and the server has not been heard of since. So all of
  // them together are held up once.
  base::Instant ReleaseBy() const {
    const bool silent = silent_.load(std::memory_order_relaxed);
    return base::Now() + (silent ? absl::ZeroDuration() : command_timeout());
  }
  void NoteSilence() { silent_.store(true, std::memory_order_relaxed); }
  void NoteAnswer(const Entry& entry, const Request& request, const Result& result) {
    const AcquireRequest* const acquire = request.acquire();
    if (acquire != nullptr && acquire->listen &&
        std::holds_alternative<AcquireQueued>(result.acquire())) {
      server_group_->subscriptions().NoteSubscribed(entry.keys.main(), !result.unsubscribed,
                                                    request.sent);
    }
    if (std::holds_alternative<RenewRequest>(request.what) && result.unsubscribed) {
      server_group_->subscriptions().NoteSubscribed(entry.keys.main(), false, request.sent);
    }
    if (const auto* const release = std::get_if<ReleaseRequest>(&request.what);
        release != nullptr && !result.failed()) {
      releases_.Add(entry, request, *release);
    }
    if (result.unreachable()) return;
    if (silent_.load(std::memory_order_relaxed)) silent_.store(false, std::memory_order_relaxed);
  }
  // Before it is sent: sees to a subscription that does not bring messages, or may not.
  void Prepare(const Entry& entry, const Request& request);

  // An object of that name goes: its calls that wait end, at whichever machine they do.
  void StopAll(std::string_view name, const void* object);

  // Starts the threads that renew a lock and watch its deadline, without which no lock is asked
  // for. kResourceExhausted if they cannot be started.
  absl::Status SeeToThreads();

  // When the process exits, what no thread has goes back, even if this is never destroyed.
  void GiveBackAtExit();

  // Somebody else wants what that grant has.
  void OnRecall(Entry& entry, GrantId grant, bool tried);

  // Threads that take again what this client keeps call nobody, and may keep the one that listens
  // from a processor: now and then they look for messages themselves.
  void PollMessages(const Entry& entry, base::Instant now) {
    constexpr int64_t kLookEach = 20'000;
    int64_t due = look_at_.load(std::memory_order_relaxed);
    if (now.nanos() < due || !look_at_.compare_exchange_strong(due, now.nanos() + kLookEach))
      return;
    server_group_->subscriptions().Look(entry.keys.main());
  }

  // By the client's own threads.
  void Expire(Entry& entry);
  // Tells people anew who this client is; waits for nobody.
  void Describe();
  void Reconnected();
  void Unsubscribed();
  // There is more that no thread has than a client may keep: what would go first goes now.
  void GiveBackSurplus();

 private:
  struct Inside {
    explicit Inside(ClientCore& owner);
    ~Inside();  // ends the threads, which use all of it
    ClientCore& core;
    LockTable machines;
    ScriptBatch batches;
    Background background;
    LossNotifier notifier;
  };

  ClientCore(redis::Url url, ClientOptions options, QuorumRunner::Make make_quorum,
             DescriptionPace pace, std::string url_problem);
  ~ClientCore();
  std::unique_ptr<redis::ServerGroup> MakeServerGroup(QuorumRunner::Make make_quorum);
  std::unique_ptr<redis::ServerGroup> MakeServerGroup(const redis::Url& url,
                                                      redis::ServerGroup::Events events,
                                                      redis::Membership node = {});
  std::string ChannelName(std::string_view slot_tag) const;
  void Abandon();

  void OnMessage(std::string_view text);
  // The same as Tell(), as a notice of the notifier: see Notifier::Urgency.
  void TellLater(std::function<void(Observer&)> event);
  void TellWhetherItHears(bool hears, std::string_view why);
  void ListenForRecalls(const Entry& entry, bool begins);
  void Finish(Entry& entry, Effects& effects);
  void Post(const Entry& entry, Loss loss);
  void Post(const Entry& entry, Notice notice);

  const base::ForkGuard fork_guard_;
  const redis::Url url_;
  const std::string url_problem_;  // why it is of no use, or empty
  const ClientOptions options_;
  const std::shared_ptr<Observer> observer_;
  const Identity identity_;
  RoundTrips round_trips_;
  WeakMap<ReaderGroups> readers_;
  WeakMap<PermitPool> permits_;
  WeakMap<ClientCore> quorums_;  // of which this one was named first
  Counts counts_{*this};
  Releases releases_{*this};
  Outbox outbox_{*this};
  const std::shared_ptr<EventDriver> async_;
  base::Numbers numbers_;
  std::atomic<uint64_t> losses_{0};
  std::atomic<uint64_t> reconnects_{0};
  std::atomic<bool> silent_{false};
  std::atomic<bool> has_threads_{false};
  std::atomic<int64_t> look_at_{0};      // in ns
  std::atomic<bool> gives_back_{false};  // when the process exits
  std::atomic<size_t> attended_{0};      // entries that keep something, or did lately
  const DescriptionPace pace_;
  const redis::Command description_;
  QuorumRunner* quorum_ = nullptr;  // the server group, if it is one
  // Its threads use all of this object, and are stopped before; its descriptor wakes threads that
  // sleep, which those inside may just be doing.
  std::unique_ptr<redis::ServerGroup> server_group_;
  ServerRunner server_runner_{*server_group_};
  const std::string server_;
  const DescriptionRemover description_remover_;  // behind whatever those below still send
  std::unique_ptr<Inside> inside_;
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
  bool turns_attention = false;
  bool recallable = false;
  {
    const base::MutexLock lock(entry.mu);
    if (entry.recalled.load(std::memory_order_relaxed) != 0 && entry.state.MakeRoom()) {
      const GrantId recalled = entry.recalled.exchange(0);
      entry.state.OnRecall(recalled, base::Now(), entry.tried.exchange(false));
    }
    event(entry.state, effects);
    request_at = entry.state.next_request_at();
    expiry_at = entry.state.next_expiry();
    entry.grant.store(entry.state.grant_id(), std::memory_order_relaxed);
    turns_attention = entry.state.recallable() != entry.state.recallable_noted;
    if (turns_attention) recallable = entry.state.recallable_noted = !entry.state.recallable_noted;
  }
  if (turns_attention) ListenForRecalls(entry, recallable);
  if (!effects.wakes.empty() || !effects.losses.empty() || !effects.notices.empty()) {
    Finish(entry, effects);
  }
  SeeTo(entry, request_at);
  if (entry.expiry_timer.IsAfter(expiry_at)) inside_->notifier.Watch(entry, expiry_at);
}

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_CLIENT_CORE_H_
