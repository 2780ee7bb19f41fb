#include "src/engine/runtime/lock_session.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/engine/machine/acquisition.h"
#include "src/engine/protocol/description.h"
#include "src/engine/protocol/kinds.h"
#include "src/engine/runtime/about.h"
#include "src/engine/runtime/async_acquisition.h"
#include "src/engine/runtime/async_release.h"
#include "src/engine/runtime/confirmation.h"
#include "src/engine/runtime/thread_waker.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(10);
constexpr absl::Duration kLongestLease = absl::Hours(24 * 365);

}  // namespace

absl::Status LockSession::CheckLease(absl::Duration lease) const {
  // A latch, which holds nothing, has no quarantine.
  const absl::Duration longest =
      entry_.plan->sharing.holds ? core_->longest_lease() : absl::InfiniteDuration();
  if (kShortestLease <= lease && lease <= std::min(longest, kLongestLease)) return absl::OkStatus();
  if (kShortestLease <= lease && lease <= kLongestLease && core_->is_quorum()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a lease of ", absl::FormatDuration(lease), " could outlive the restart delay of ",
        absl::FormatDuration(longest), "; restart_delay= must not be shorter"));
  }
  if (kShortestLease <= lease && lease <= kLongestLease) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a lease of ", absl::FormatDuration(lease), " could outlive the quarantine, which allows ",
        absl::FormatDuration(std::max(longest, absl::ZeroDuration())),
        " (quarantine= must be longer than the lease by the server's min-replicas-max-lag and a "
        "second)"));
  }
  return absl::InvalidArgumentError(absl::StrCat("a lease of ", absl::FormatDuration(lease),
                                                 " is not possible; it must be 10ms to one year"));
}

absl::Status LockSession::CheckAcks(const LockOptions& options) const {
  constexpr int kMostReplicas = 1000;
  if (core_->is_quorum() && (options.replica_acks != 0 || options.fsync)) {
    return absl::InvalidArgumentError(
        "replica_acks and fsync are not for a RedLock, whose servers are no replicas; leave them "
        "out");
  }
  if (options.replica_acks < 0 || options.replica_acks > kMostReplicas) {
    return absl::InvalidArgumentError(absl::StrCat("replica_acks is ", options.replica_acks,
                                                   "; it must be 0 to ", kMostReplicas));
  }
  if (options.ack_timeout >= absl::Milliseconds(1)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("an ack_timeout of ",
                                                 absl::FormatDuration(options.ack_timeout),
                                                 " is not possible; it must be 1ms or more"));
}

uint64_t NextThreadNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

uint64_t ThreadNumber() {
  thread_local const uint64_t mine = NextThreadNumber();
  return mine;
}

absl::StatusOr<std::shared_ptr<LockSession>> LockSession::Attach(std::shared_ptr<Core> core,
                                                                 std::string_view name,
                                                                 const std::string& owner,
                                                                 const Plan& plan) {
  if (absl::Status refused = core->Refusal(); !refused.ok()) return refused;
  absl::StatusOr<KeySet> keys = KeySet::Make(core->options().key_prefix, name);
  if (!keys.ok()) return keys.status();
  const std::string_view called = plan.title.empty() ? name : plan.title;
  const auto& label = core->options().stats_label;
  std::string given;
  if (label) RunUsersCode("stats_label", [&] { given = label(called); });
  const auto failure = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(code, absl::StrCat(std::string(plan.noun), " \"",
                                           absl::CHexEscape(std::string(called)), "\": ", why));
  };
  const bool quorum_lock = plan.traits.kind == kinds::kQuorum;
  if (core->is_quorum() && !quorum_lock) {
    return failure(absl::StatusCode::kFailedPrecondition,
                   "its client is of a quorum of servers, which only RedLock can ask; use a "
                   "RedLock, or a client of one server");
  }
  const absl::StatusOr<Entry*> entry =
      core->machines().Attach(*std::move(keys), plan.others.empty() ? owner : plan.OthersId(), plan,
                              label ? given : called);
  if (!entry.ok()) return failure(entry.status().code(), entry.status().message());
  const absl::Cleanup unrefer = [&] { core->machines().Unrefer(**entry); };
  return To(core, **entry);
}

std::shared_ptr<LockSession> LockSession::To(std::shared_ptr<Core> core, Entry& entry) {
  auto session = std::make_shared<LockSession>(Key(), std::move(core), entry);
  MachineTable::Refer(entry);
  return session;
}

LockSession::~LockSession() {
  if (!core_->in_forked_child()) core_->machines().Unrefer(entry_);
}

absl::Status LockSession::About(const absl::Status& status) const {
  return engine::About(*core_, entry_, status);
}

std::optional<Held> LockSession::Reenter(Face face, bool manual) {
  if (!entry_.plan->traits.reentrant || core_->in_forked_child()) return std::nullopt;
  const base::Instant now = base::Now();
  std::optional<Held> held;
  base::Instant send_at;
  {
    const base::MutexLock lock(entry_.mu);
    held = entry_.lock().Reenter(ThreadNumber(), face, manual, now);
    send_at = entry_.machine->next_send();
  }
  if (held) core_->SeeTo(entry_, send_at);
  return held;
}

absl::Status LockSession::Extend(uint64_t hold, absl::Duration lease) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(lease); !bad.ok()) return About(bad);
  std::optional<Send> send;
  bool renewed = false;
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    machine.Expire(now, effects);
    send = machine.Extend(hold, lease, now);
    renewed = !send && machine.Valid(hold, now);
  });
  if (renewed) {
    return About(
        absl::FailedPreconditionError("this hold is renewed automatically; only a hold that was "
                                      "acquired with a lease can be extended"));
  }
  if (!send) return About(absl::AbortedError("the hold has ended"));
  const ToRenew& renewal = std::get<ToRenew>(send->what);
  const base::Instant until = send->sent + renewal.patience + core_->command_timeout();
  const Answer answer = renewal.acks.any() ? core_->acked_renewals().Run(entry_, *send, until)
                                           : core_->Run(entry_, *send, until);
  bool valid = false;
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    const base::Instant now = base::Now();
    machine.OnAnswer(*send, answer, now, effects);
    valid = machine.Valid(hold, now);
  });
  if (!valid) return About(absl::AbortedError("the hold was lost before it was extended"));
  return answer.failed() == nullptr ? absl::OkStatus() : About(answer.failed()->why);
}

void LockSession::Misuse(std::string_view what) {
  {
    const base::MutexLock lock(entry_.mu);
    entry_.lock().OnMisuse();
  }
  core_->Tell([&](Observer& observer) { observer.OnMisuse(entry_.name(), what); });
}

Held LockSession::Pin() {
  Held held;
  {
    const base::MutexLock lock(entry_.mu);
    held = entry_.lock().Pin(ThreadNumber());
  }
  while (held.not_before != base::Instant() && base::Now() < held.not_before) {
  }
  return held;
}

void LockSession::RemoveObject(const void* object) {
  if (core_->in_forked_child()) return;
  core_->StopAll(entry_.keys.name(), object);
  FeedWithRoom([&](LockMachine& machine, base::Instant now, Effects& effects) {
    // Under the machine's lock: whoever comes meanwhile takes nothing before this is done.
    if (--entry_.objects == 0) machine.ReleaseStd(now, effects);
  });
}

void LockSession::ReleaseStd() {
  FeedWithRoom([](LockMachine& machine, base::Instant now, Effects& effects) {
    machine.ReleaseStd(now, effects);
  });
}

Held LockSession::Current() const {
  if (core_->in_forked_child()) return {};
  Held held;
  std::optional<LockMachine::Drawn> drawn;
  {
    const base::Instant now = base::Now();
    const base::MutexLock lock(entry_.mu);
    drawn = entry_.lock().Draw(ThreadNumber(), now);
    held = entry_.lock().OfThread(ThreadNumber());
    held.view = entry_.lock().ViewOf(ThreadNumber());
  }
  while (drawn && base::Now() < drawn->not_before) {
  }
  return held;
}

Held LockSession::OfThisThread() const {
  if (core_->in_forked_child()) return {};
  const base::MutexLock lock(entry_.mu);
  return entry_.lock().OfThread(ThreadNumber());
}

bool LockSession::in_use() const {
  if (core_->in_forked_child()) return false;
  const base::MutexLock lock(entry_.mu);
  return entry_.lock().in_use();
}

bool LockSession::reusable() const {
  const base::MutexLock lock(entry_.mu);
  return entry_.lock().reusable();
}

absl::StatusOr<redis::Reply> LockSession::Run(const LuaScript& script,
                                              absl::Span<const std::string> args,
                                              base::Instant deadline, std::string_view own_key) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  Request request(core_->SubjectOf(entry_), script, args, own_key);
  absl::StatusOr<redis::Reply> reply = core_->deployment().Run(
      request.call(), std::min(deadline, base::Now() + core_->command_timeout()));
  if (!reply.ok()) return About(reply.status());
  return reply;
}

absl::StatusOr<LockInfo> LockSession::Inspect(int most_waiters) {
  const absl::StatusOr<redis::Reply> reply =
      Run(entry_.plan->scripts.inspect, {absl::StrCat(most_waiters)});
  if (!reply.ok()) return reply.status();
  absl::StatusOr<LockInfo> info = ReadInspection(*reply);
  if (info.ok()) {
    AddProcesses(core_->deployment(), base::Now() + core_->command_timeout(), *info);
  }
  return info;
}

void LockSession::GoOn() {
  core_->Feed(entry_, [](Bidder& machine, Effects&) {
    machine.LookAfter(absl::Milliseconds(1), base::Now());
  });
}

absl::Status LockSession::ForceRelease() {
  const Plan& plan = *entry_.plan;
  return RunAll(plan.scripts.force_release,
                std::string(kChannelPrefix) + core_->deployment().slot_tag(entry_.keys.main()),
                plan.forced_key);
}

absl::Status LockSession::RunAll(const LuaScript& script, std::string arg,
                                 std::string_view own_key) {
  // Each call may take what a command may; there are as many as there are windows.
  const base::Instant deadline = base::Now() + 10 * core_->command_timeout();
  std::vector<std::string> args = {std::move(arg)};
  while (true) {
    const absl::StatusOr<redis::Reply> reply =
        Run(script, args, base::Now() + core_->command_timeout(), own_key);
    if (!reply.ok()) return reply.status();
    Part part = ReadPart(*reply);
    const bool more = part.look == absl::Milliseconds(1);
    if (more && base::Now() < deadline) {
      args = {args[0], std::move(part.next)};
      continue;
    }
    // Earlier calls may have handed something over as well.
    if (!more && args.size() > 1) {
      part.look = std::max(part.look, core_->SubjectOf(entry_).claim);
    }
    if (part.look > absl::ZeroDuration()) {
      core_->Feed(entry_,
                  [&](Bidder& machine, Effects&) { machine.LookAfter(part.look, base::Now()); });
    }
    return absl::OkStatus();
  }
}

// ---- An acquisition by one thread, from what is wanted to what came of it.

absl::StatusOr<Held> LockSession::Acquire(const Want& want, Silence* met) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(want.terms.lease); !bad.ok()) return About(bad);
  if (want.options != nullptr) {
    if (absl::Status bad = CheckAcks(*want.options); !bad.ok()) return About(bad);
    if (absl::Status bad = CheckStay(*want.options); !bad.ok()) return About(bad);
  }
  if (absl::Status none = core_->SeeToThreads(); !none.ok()) return About(none);
  const base::Instant began = want.since ? *want.since : base::Now();
  std::optional<absl::StatusOr<Held>> granted = AcquireOnce(want, began, met);
  if (!granted) return Held();  // it goes on elsewhere
  absl::StatusOr<Held> result = *std::move(granted);
  if (result.ok() && want.terms.acks.any()) {
    result = Confirmed(want, began, *std::move(result), met);
  }
  // Only a client that has connected knows for certain which leases the server allows.
  if (absl::Status bad = CheckLease(want.terms.lease); result.ok() && !bad.ok()) {
    GiveBack(result->hold, want.face, core_->ReleaseBy());
    EndRest(core_->ReleaseBy());
    result = About(bad);
  }
  if (entry_.plan->sharing.holds && core_->observed()) {
    const absl::Duration waited = base::Now() - began;
    core_->Tell([&](Observer& observer) {
      if (result.ok()) {
        observer.OnAcquired(entry_.name(), result->token, waited);
      } else {
        observer.OnWaitEnded(entry_.name(), waited, result.status());
      }
    });
  }
  return result;
}

std::optional<absl::StatusOr<Held>> LockSession::AcquireOnce(const Want& want, base::Instant began,
                                                             Silence* met) {
  if (want.terms.stays) core_->LookForMessages(entry_, base::Now());
  ThreadWaker waker;
  Acquisition acquisition({.thread = ThreadNumber(),
                           .object = want.object,
                           .face = want.face,
                           .terms = want.terms,
                           .options = want.options,
                           .write_token = want.write_token,
                           .began = began,
                           .wait = want.wait,
                           .met = want.silence,
                           .command_timeout = core_->command_timeout(),
                           .unreachable_after = core_->options().unreachable_after,
                           .waker = &waker});
  Waiter& waiter = acquisition.waiter();
  if (want.face == Face::kStatus) waiter.view = std::make_shared<HoldView>();
  if (Listen(acquisition, want)) Compete(acquisition, waker, want);
  if (waiter.state == Waiter::State::kElsewhere) {
    if (met != nullptr) *met = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    return std::nullopt;
  }
  return Result(*core_, entry_, waiter, want.wait);
}

// A grant that replicas do not have may be lost with its server: it is no thread's before they do.
absl::StatusOr<Held> LockSession::Confirmed(const Want& want, base::Instant began, Held held,
                                            Silence* met) noexcept {
  Confirmation confirmation(*core_, began, want.wait, want.options->ack_timeout);
  for (;;) {
    Answer answer;
    if (const Send* const send = confirmation.Ask(*core_, entry_, held.hold)) {
      answer = core_->acked_renewals().Run(entry_, *send, confirmation.end());
    }
    if (confirmation.Hear(*core_, entry_, answer)) return held;
    GiveBack(held.hold, want.face, confirmation.end());
    const base::Instant again = confirmation.Again();
    if (again.is_infinite() || want.stop.stop_requested()) return About(confirmation.why());
    base::Parker().ParkUntil(again);
    std::optional<absl::StatusOr<Held>> granted = AcquireOnce(want, began, met);
    if (!granted) return Held();
    if (!granted->ok()) return About(confirmation.why());
    held = **std::move(granted);
  }
}

absl::StatusOr<Held> LockSession::Result(Core& core, const Entry& entry, Waiter& waiter,
                                         absl::Duration wait) {
  const auto about = [&](const absl::Status& status) { return engine::About(core, entry, status); };
  switch (waiter.state) {
    case Waiter::State::kGranted:
      while (waiter.began < waiter.not_before && base::Now() < waiter.not_before) {
      }
      return Held{.hold = waiter.hold, .token = waiter.token, .view = std::move(waiter.view)};
    case Waiter::State::kBusy:
      return about(absl::DeadlineExceededError(absl::StrCat(
          std::string(entry.plan->busy),
          wait <= absl::ZeroDuration() ? ""
                                       : absl::StrCat("; waited ", absl::FormatDuration(wait)))));
    case Waiter::State::kDeadlock:
      return about(absl::FailedPreconditionError(
          "this thread already holds it, and it is not reentrant; ReentrantLock is"));
    case Waiter::State::kStopped:
      return about(absl::CancelledError("the wait was stopped"));
    case Waiter::State::kElsewhere:
    case Waiter::State::kFailed:
    case Waiter::State::kWaiting:
      break;
  }
  return about(waiter.failure);
}

// ---- What its thread does until that is decided: runs scripts, listens, and sleeps.

bool LockSession::Listen(Acquisition& acquisition, const Want& want) {
  redis::Deployment& deployment = core_->deployment();
  const std::string_view key = entry_.keys.main();
  if (deployment.listening(key)) return true;
  const base::Instant now = base::Now();
  absl::Status deaf = deployment.Listen(key, now + acquisition.ListenPatience(now), want.stop);
  if (deaf.ok()) return true;
  const base::MutexLock lock(entry_.mu);
  return acquisition.GoOnDeaf(std::move(deaf), now, *entry_.machine);
}

void LockSession::Compete(Acquisition& acquisition, ThreadWaker& waker, const Want& want) noexcept {
  using Kind = Acquisition::Next::Kind;
  const std::stop_callback on_stop(want.stop, [&] {
    {
      const base::MutexLock lock(entry_.mu);
      if (!acquisition.Rouse()) return;
    }
    waker.Wake(/*through=*/false);
  });

  std::optional<Answer> answer;
  while (true) {
    waker.parker.Arm();
    Acquisition::Next next;
    core_->Feed(entry_, [&](Bidder& machine, Effects& effects) {
      const Acquisition::Event event{.answer = answer ? &*answer : nullptr,
                                     .stopped = want.stop.stop_requested(),
                                     .gone = want.gone != nullptr && *want.gone};
      // Under the machine's lock: if it is deafened from here on, that is fed behind this.
      if (want.terms.stays && core_->deployment().hears(entry_.keys.main())) machine.OnHearing();
      next = acquisition.Resume(event, base::Now(), machine, effects);
    });
    answer.reset();
    if (next.kind == Kind::kDone) return;
    if (next.kind == Kind::kRun) {
      const Send& send = acquisition.send();
      // The answer would wake this thread for nothing: it is read if no grant comes soon.
      if (send.unread_for > absl::ZeroDuration() && core_->deployment().hears(entry_.keys.main())) {
        const auto listen = [&] {
          return Doze(acquisition, waker, std::min(next.until, send.sent + send.unread_for));
        };
        if (core_->RunAndRead(entry_, send, listen, next.until, answer)) continue;
      }
      answer = core_->Run(entry_, send, next.until);
      continue;
    }
    if (Sleep(acquisition, waker, next.until) == ThreadWaker::kThrough) return;
  }
}

bool LockSession::Doze(Acquisition& acquisition, ThreadWaker& waker, base::Instant until) {
  {
    const base::MutexLock lock(entry_.mu);
    if (!acquisition.Park()) return acquisition.granted();
  }
  Sleep(acquisition, waker, until);
  const base::MutexLock lock(entry_.mu);
  return acquisition.granted();
}

uint32_t LockSession::Sleep(Acquisition& acquisition, ThreadWaker& waker, base::Instant until) {
  const uint32_t woken = core_->deployment().Await(entry_.keys.main(), waker.parker, until);
  if (woken != base::Parker::kArmed) return woken;
  {
    const base::MutexLock lock(entry_.mu);
    if (!acquisition.Overslept()) return woken;
  }
  return waker.parker.ParkUntil(base::Instant::Infinite());
}

// ---- Release: from a call that ends a hold to the server's word that it has ended.

template <class Event>
LockSession::Ending LockSession::Begin(base::Instant deadline, Event event) {
  Ending ending;
  FeedWithRoom([&](LockMachine& machine, base::Instant now, Effects& effects) {
    ending.released = event(machine, now, effects);
    if (ending.released.kind == Released::Kind::kUnderWay && now < deadline) {
      ending.send = machine.NextSendOf(ending.released.hold, now);
    }
  });
  return ending;
}

LockSession::Ending LockSession::BeginRelease(uint64_t hold, FencingToken token,
                                              base::Instant deadline) {
  return Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Release(hold, now, effects, token);
  });
}

// What the server said to the script of an ending, and whether there is to be another.
void LockSession::Hear(Ending& ending, const Answer& answer, base::Instant deadline) {
  ending = Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    machine.OnAnswer(*ending.send, answer, now, effects);
    return machine.Outcome(ending.released.hold);
  });
}

// Runs what a release made due, until it is confirmed, or its time is over: then the renewer goes
// on with it.
absl::Status LockSession::End(Ending& ending, base::Instant deadline) {
  while (ending.send) Hear(ending, core_->Run(entry_, *ending.send, deadline), deadline);
  // What failed sooner says nothing of the next.
  if (ending.released.kind == Released::Kind::kUnderWay && base::Now() >= deadline) {
    core_->NoteSilence();
  }
  absl::Status status = StatusOf(*core_, entry_, ending.released);
  if (core_->observed()) {
    core_->Tell([&](Observer& observer) {
      observer.OnReleased(entry_.name(), ending.released.token, status);
    });
  }
  return status;
}

// The outcome is not asked for. It is waited for only if threads of this client wait for the bid
// that comes with it. What is not confirmed by then is left to the renewer.
void LockSession::EndQuietly(Ending& ending, base::Instant deadline, bool leaves) {
  if (ending.send && ending.send->bid() == nullptr && core_->MayPostReleaseOf(entry_)) {
    return core_->outbox().Send(entry_, *ending.send, ending.released.hold);
  }
  // An event loop's thread must not wait.
  if (ending.send && leaves) return EndAsync(std::move(ending), nullptr);
  WaitQuietly(ending, deadline);
}

void LockSession::WaitQuietly(Ending& ending, base::Instant deadline) {
  const uint64_t hold = ending.released.hold;
  if (!absl::IsUnavailable(End(ending, deadline))) return;
  core_->Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(hold); });
}

void LockSession::GiveBack(uint64_t hold, Face face, base::Instant until) {
  const base::Instant deadline = std::min(core_->ReleaseBy(), until);
  Ending ending = Begin(deadline, [&](LockMachine& machine, base::Instant now, Effects& effects) {
    return face == Face::kStd ? machine.Unlock(ThreadNumber(), now, effects)
                              : machine.Release(hold, now, effects);
  });
  if (ending.send) return WaitQuietly(ending, deadline);
  core_->Feed(entry_, [&](LockMachine& machine, Effects&) { machine.Forget(hold); });
}

absl::Status LockSession::Release(uint64_t hold, FencingToken token) noexcept {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::Instant deadline = base::Now() + core_->command_timeout();
  Ending ending = BeginRelease(hold, token, deadline);
  return End(ending, deadline);
}

void LockSession::ReleaseQuietly(uint64_t hold, FencingToken token) noexcept {
  if (core_->in_forked_child()) return;
  if (core_->async().OnItsThread())
    return ReleaseAsync(hold, token, nullptr);  // which does not wait
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = BeginRelease(hold, token, deadline);
  EndQuietly(ending, deadline, /*leaves=*/core_->async().started());
}

void LockSession::ReleaseAll(absl::Span<const SessionHold> holds) noexcept {
  for (const SessionHold& each : holds)
    each.session->ReleaseQuietly(each.held.hold, each.held.token);
}

void LockSession::Unlock() noexcept {
  if (core_->in_forked_child()) return;
  if (Leave()) return;
  if (entry_.plan->traits.reentrant) {
    const base::MutexLock lock(entry_.mu);
    if (entry_.lock().ReleaseInner(ThreadNumber(), Face::kStd)) return;
  }
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = Begin(deadline, [](LockMachine& machine, base::Instant now, Effects& effects) {
    return machine.Unlock(ThreadNumber(), now, effects);
  });
  if (ending.released.kind == Released::Kind::kNotHeld) {
    return Misuse("unlock() by a thread that does not hold it; nothing was released");
  }
  EndQuietly(ending, deadline);
}

// ---- Asynchronous calls.

void LockSession::AcquireAsync(Want want, Finish finish, Elsewhere elsewhere,
                               AsyncDriver::Whose whose) noexcept {
  AsyncDriver& driver = core_->async();
  absl::Status bad = core_->Refusal();
  if (bad.ok()) bad = About(CheckLease(want.terms.lease));
  if (bad.ok() && want.options != nullptr) bad = About(CheckAcks(*want.options));
  if (bad.ok() && want.options != nullptr) bad = About(CheckStay(*want.options));
  if (bad.ok()) bad = About(core_->SeeToThreads());
  if (bad.ok() && !driver.Ready()) bad = About(base::NoThread());
  if (!bad.ok()) return driver.Complete(std::move(finish)(std::move(bad)), whose);
  if (!want.since) want.since = base::Now();
  want.gone = nullptr;  // it is told by AsyncDriver::StopObject()
  MachineTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncAcquisition>(driver, entry_, std::move(want),
                                                  std::move(finish), std::move(elsewhere), whose),
               entry_.keys.main());
}

AsyncLetterPtr LockSession::RunInARound(AsyncTask& task, const LuaScript& script,
                                        absl::Span<const std::string> args,
                                        base::Instant deadline) {
  return core_->async().RunInARound(task, entry_, Request(core_->SubjectOf(entry_), script, args),
                                    deadline);
}

void LockSession::ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept {
  AsyncDriver& driver = core_->async();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) {
    if (then) driver.Complete(std::move(then)(std::move(refused)));
    return;
  }
  EndAsync(BeginRelease(hold, token, base::Now() + core_->command_timeout()), std::move(then));
}

void LockSession::EndAsync(Ending ending, Then then) {
  AsyncDriver& driver = core_->async();
  if (!driver.Ready()) {  // it is waited for
    absl::Status status = End(ending, base::Now() + core_->command_timeout());
    if (then) driver.Complete(std::move(then)(std::move(status)));
    return;
  }
  // An acquire request that this client sends before the driver comes to the release must not
  // overtake it.
  if (ending.send && ending.send->bid() == nullptr) {
    const base::MutexLock lock(entry_.mu);
    entry_.lock().Postpone(ending.released.hold);
    ending.send.reset();
  }
  MachineTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncRelease>(driver, entry_, std::move(ending.released),
                                              std::move(ending.send), std::move(then)),
               entry_.keys.main());
}

}  // namespace redlatch::engine
