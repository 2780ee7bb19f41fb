#ifndef REDLATCH_SRC_ENGINE_RUNTIME_CORE_H_
#define REDLATCH_SRC_ENGINE_RUNTIME_CORE_H_

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
#include "src/engine/protocol/description.h"
#include "src/engine/protocol/wire.h"
#include "src/engine/runtime/acked_renewals.h"
#include "src/engine/runtime/async_driver.h"
#include "src/engine/runtime/counts.h"
#include "src/engine/runtime/entry.h"
#include "src/engine/runtime/machine_table.h"
#include "src/engine/runtime/notifier.h"
#include "src/engine/runtime/outbox.h"
#include "src/engine/runtime/releases.h"
#include "src/engine/runtime/renewer.h"
#include "src/engine/runtime/round_trips.h"
#include "src/engine/runtime/users_code.h"
#include "src/engine/runtime/weak_map.h"
#include "src/redis/deployment/deployment.h"
#include "src/redis/deployment/single_server.h"
#include "src/redis/url/url.h"

namespace redlatch::engine {

class Permits;
class Readers;

// What a Client is a handle to: the connections, the machines of all its locks, and the threads
// that drive them. It lives until the last client handle, lock object and lease is gone.
//
// In a forked child, everything but the deployment is left as it is for ever: mutexes may be held
// by threads that are not there.
class Core : public std::enable_shared_from_this<Core> {
 public:
  static std::shared_ptr<Core> Make(redis::Url url, ClientOptions options,
                                    DescriptionPace pace = {}, std::string url_problem = {});
  // The quorum of these servers, whoever asks for it; one that is a quorum already, alone, is it
  // itself. What is wrong with them is told when it is used.
  static std::shared_ptr<Core> QuorumOf(const std::vector<std::shared_ptr<Core>>& members);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  bool in_forked_child() const { return fork_guard_.InForkedChild(); }
  // kFailedPrecondition in a forked child.
  absl::Status Refusal() const;

  const ClientOptions& options() const { return options_; }
  // All of them, or the one that has the key; for messages.
  const std::string& server() const { return server_; }
  std::string server(std::string_view key) const { return deployment_->server(key); }
  // As ACL SETUSER has it.
  std::string user() const { return url_.user.empty() ? "default" : url_.user; }
  absl::Duration command_timeout() const { return url_.command_timeout; }
  absl::Duration connect_timeout() const { return url_.connect_timeout; }
  // So that none outlives the quarantine after a promotion, or a restart's delay.
  absl::Duration longest_lease() const {
    if (url_.restart_delay > absl::ZeroDuration() && is_quorum()) return url_.restart_delay;
    return url_.quarantine > absl::ZeroDuration()
               ? url_.quarantine - deployment_->grants_alone_for()
               : absl::InfiniteDuration();
  }
  redis::Deployment& deployment() { return *deployment_; }
  bool is_cluster() const { return url_.kind == redis::Url::Kind::kCluster; }
  bool is_quorum() const { return url_.kind == redis::Url::Kind::kQuorum; }
  MachineTable& machines() { return inside_->machines; }
  AckedRenewals& acked_renewals() { return inside_->acked; }
  // What waits without a thread.
  AsyncDriver& async() { return *async_; }
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
  Subject SubjectOf(const KeySet& keys, const Plan& plan, std::string_view owner) const;
  // An owner for one grant of readers, "read:<a fresh number>:<client>", or, under that write
  // grant, "nest:<a fresh number>:<the grant>": the server tells by it who reads from who writes.
  std::string ReaderName(GrantId write_grant);
  // "<client>:<a fresh number>"
  std::string FreshId();
  WeakMap<Readers>& readers() { return readers_; }
  WeakMap<Permits>& permits() { return permits_; }
  const Identity& identity() const { return identity_; }
  // What this client has counted down.
  Counts& counts() { return counts_; }
  // What it has released.
  Releases& releases() { return releases_; }
  void WakeRenewer() { inside_->renewer.Wake(); }
  // What it is releasing, and nobody waits for.
  Outbox& outbox() { return outbox_; }
  // Whether a release can be sent without waiting for what becomes of it.
  bool MayPostReleaseOf(const Entry& entry) noexcept try {
    return deployment_->MayPost(entry.keys.main(), entry.plan->scripts.release);
  } catch (const std::bad_alloc&) {
    return false;
  }
  // An observer hears how a release ended, on a thread of the client's own.
  void TellReleasedLater(const Entry& entry, const Released& released);
  // So with what an acquisition came to.
  void TellAcquiredLater(const Entry& entry, FencingToken token, absl::Duration waited,
                         const absl::Status& status);

  // Gives the entry's machine, a Bidder& or a LockMachine&, an event, as a function of machine and
  // effects, and sees to what follows of it. All of it or nothing: where memory is lacking here,
  // the process ends.
  template <class Event>
  void Feed(Entry& entry, Event&& event) noexcept;

  // The entry's machine has something to send then.
  void SeeTo(Entry& entry, base::Instant send_at) {
    if (entry.send_timer.IsAfter(send_at)) inside_->renewer.Schedule(entry, send_at);
  }

  // Runs a script now, on this thread.
  Answer Run(Entry& entry, Send send, base::Instant deadline);
  // Sends it, does something else, and then reads the answer, or, where `meanwhile` says that there
  // is no need for it any more, leaves it to whoever reads next. False: it is to be run.
  bool RunAndRead(Entry& entry, Send send, absl::FunctionRef<bool()> meanwhile,
                  base::Instant deadline, std::optional<Answer>& answer);
  // Before it is sent, in whatever way; and what was answered.
  void MakeReady(const Entry& entry, Send& send);
  Answer Hear(const Entry& entry, const Send& send, const absl::StatusOr<redis::Reply>& reply);
  // By when a release must be confirmed of which nobody waits to hear: at once, so that the renewer
  // sees to it, if one has gone unanswered and the server has not been heard of since. So all of
  // them together are held up once.
  base::Instant ReleaseBy() const {
    const bool silent = silent_.load(std::memory_order_relaxed);
    return base::Now() + (silent ? absl::ZeroDuration() : command_timeout());
  }
  void NoteSilence() { silent_.store(true, std::memory_order_relaxed); }
  void NoteAnswer(const Entry& entry, const Send& send, const Answer& answer) {
    const Bid* const bid = send.bid();
    if (bid != nullptr && bid->listen && std::holds_alternative<BidQueued>(answer.bid())) {
      deployment_->NoteHearing(entry.keys.main(), !answer.deaf, send.sent);
    }
    if (std::holds_alternative<ToRenew>(send.what) && answer.deaf) {
      deployment_->NoteHearing(entry.keys.main(), false, send.sent);
    }
    if (const auto* const release = std::get_if<ToRelease>(&send.what);
        release != nullptr && !answer.failed()) {
      releases_.Add(entry, send, *release);
    }
    if (answer.unreachable()) return;
    if (silent_.load(std::memory_order_relaxed)) silent_.store(false, std::memory_order_relaxed);
  }
  // Before it is sent: sees to a subscription that does not bring messages, or may not.
  void Prepare(const Entry& entry, const Send& send);

  // An object of that name goes: its calls that wait end, at whichever machine they do.
  void StopAll(std::string_view name, const void* object);

  // Starts the threads that renew a lock and watch its deadline, without which no lock is asked
  // for. kResourceExhausted if they cannot be started.
  absl::Status SeeToThreads();

  // When the process exits, what no thread has goes back, even if this is never destroyed.
  void GiveBackAtExit();

  // Somebody else wants what that grant has.
  void OnWanted(Entry& entry, GrantId grant, bool tried);

  // Threads that take again what this client keeps call nobody, and may keep the one that listens
  // from a processor: now and then they look for messages themselves.
  void LookForMessages(const Entry& entry, base::Instant now) {
    constexpr int64_t kLookEach = 20'000;
    int64_t due = look_at_.load(std::memory_order_relaxed);
    if (now.nanos() < due || !look_at_.compare_exchange_strong(due, now.nanos() + kLookEach))
      return;
    deployment_->Look(entry.keys.main());
  }

  // By the client's own threads.
  void Expire(Entry& entry);
  // Tells people anew who this client is; waits for nobody.
  void Describe();
  void Reconnected();
  void Deafened();
  // There is more that no thread has than a client may keep: what would go first goes now.
  void ThinOut();

 private:
  struct Inside {
    explicit Inside(Core& owner);
    ~Inside();  // ends the threads, which use all of it
    Core& core;
    MachineTable machines;
    AckedRenewals acked;
    Renewer renewer;
    Notifier notifier;
  };

  Core(redis::Url url, ClientOptions options, DescriptionPace pace, std::string url_problem = {});
  ~Core();
  std::unique_ptr<redis::Deployment> MakeDeployment();
  std::unique_ptr<redis::Deployment> MakeDeployment(const redis::Url& url,
                                                    redis::Deployment::Events events,
                                                    redis::Membership node = {});
  std::string ChannelName(std::string_view slot_tag) const;
  void Abandon();

  void OnMessage(std::string_view text);
  // The same as Tell(), as a notice of the notifier: see Notifier::Urgency.
  void TellLater(std::function<void(Observer&)> event);
  void TellWhetherItHears(bool hears, std::string_view why);
  void Attend(const Entry& entry, bool begins);
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
  WeakMap<Readers> readers_;
  WeakMap<Permits> permits_;
  WeakMap<Core> quorums_;  // of which this one was named first
  Counts counts_{*this};
  Releases releases_{*this};
  Outbox outbox_{*this};
  const std::shared_ptr<AsyncDriver> async_;
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
  // Its threads use all of this object, and are stopped before; its descriptor wakes threads that
  // sleep, which those inside may just be doing.
  std::unique_ptr<redis::Deployment> deployment_;
  const std::string server_;
  const Farewell farewell_;  // behind whatever those below still send
  std::unique_ptr<Inside> inside_;
};

template <class Event>
void Core::Feed(Entry& entry, Event&& event) noexcept {
  Effects effects;
  base::Instant send_at;
  base::Instant expiry_at;
  bool turns_attention = false;
  bool attends = false;
  {
    const base::MutexLock lock(entry.mu);
    if (entry.wanted.load(std::memory_order_relaxed) != 0 && entry.machine->MakeRoom()) {
      const GrantId wanted = entry.wanted.exchange(0);
      entry.machine->OnWanted(wanted, base::Now(), entry.tried.exchange(false));
    }
    if constexpr (std::is_invocable_v<Event&, Bidder&, Effects&>) {
      event(*entry.machine, effects);
    } else {
      event(entry.lock(), effects);
    }
    send_at = entry.machine->next_send();
    expiry_at = entry.machine->next_expiry();
    entry.grant.store(entry.machine->grant_id(), std::memory_order_relaxed);
    turns_attention = entry.machine->attends() != entry.machine->attended;
    if (turns_attention) attends = entry.machine->attended = !entry.machine->attended;
  }
  if (turns_attention) Attend(entry, attends);
  if (!effects.wakes.empty() || !effects.through.empty() || !effects.losses.empty() ||
      !effects.notices.empty()) {
    Finish(entry, effects);
  }
  SeeTo(entry, send_at);
  if (entry.expiry_timer.IsAfter(expiry_at)) inside_->notifier.Watch(entry, expiry_at);
}

}  // namespace redlatch::engine

#endif  // REDLATCH_SRC_ENGINE_RUNTIME_CORE_H_
