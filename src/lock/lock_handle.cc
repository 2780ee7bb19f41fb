#include "src/lock/lock_handle.h"

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
#include "src/lock/about.h"
#include "src/lock/async_acquisition.h"
#include "src/lock/async_release.h"
#include "src/lock/confirmation.h"
#include "src/lock/description.h"
#include "src/lock/kinds.h"
#include "src/lock/state/acquire_operation.h"
#include "src/lock/thread_waker.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(10);
constexpr absl::Duration kLongestLease = absl::Hours(24 * 365);

}  // namespace

absl::Status LockHandle::CheckLease(absl::Duration lease) const {
  // A latch, which holds nothing, has no quarantine.
  const absl::Duration longest =
      entry_.type->holds() ? core_->longest_lease() : absl::InfiniteDuration();
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

absl::Status LockHandle::CheckAcks(const LockOptions& options) const {
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

absl::StatusOr<std::shared_ptr<LockHandle>> LockHandle::Attach(std::shared_ptr<ClientCore> core,
                                                               std::string_view name,
                                                               const std::string& owner,
                                                               const LockType& type) {
  if (absl::Status refused = core->Refusal(); !refused.ok()) return refused;
  absl::StatusOr<KeySet> keys = KeySet::Make(core->options().key_prefix, name);
  if (!keys.ok()) return keys.status();
  const std::string_view called = type.title.empty() ? name : type.title;
  const auto& label = core->options().stats_label;
  std::string given;
  if (label) RunUsersCode("stats_label", [&] { given = label(called); });
  const auto failure = [&](absl::StatusCode code, absl::string_view why) {
    return absl::Status(code, absl::StrCat(std::string(type.noun), " \"",
                                           absl::CHexEscape(std::string(called)), "\": ", why));
  };
  const bool quorum_lock = type.traits.kind == kinds::kQuorum;
  if (core->is_quorum() && !quorum_lock) {
    return failure(absl::StatusCode::kFailedPrecondition,
                   "its client is of a quorum of servers, which only RedLock can ask; use a "
                   "RedLock, or a client of one server");
  }
  const absl::StatusOr<Entry*> entry =
      core->machines().Attach(*std::move(keys), type.others.empty() ? owner : type.OthersId(), type,
                              label ? given : called);
  if (!entry.ok()) return failure(entry.status().code(), entry.status().message());
  const absl::Cleanup unrefer = [&] { core->machines().Unrefer(**entry); };
  return To(core, **entry);
}

std::shared_ptr<LockHandle> LockHandle::To(std::shared_ptr<ClientCore> core, Entry& entry) {
  auto handle = std::make_shared<LockHandle>(Key(), std::move(core), entry);
  LockTable::Refer(entry);
  return handle;
}

LockHandle::~LockHandle() {
  if (!core_->in_forked_child()) core_->machines().Unrefer(entry_);
}

absl::Status LockHandle::About(const absl::Status& status) const {
  return internal::About(*core_, entry_, status);
}

std::optional<HoldRef> LockHandle::Reenter(Face face, bool manual) {
  if (!entry_.type->traits.reentrant || core_->in_forked_child()) return std::nullopt;
  const base::Instant now = base::Now();
  std::optional<HoldRef> held;
  base::Instant request_at;
  {
    const base::MutexLock lock(entry_.mu);
    held = entry_.state.Reenter(ThreadNumber(), face, manual, now);
    request_at = entry_.state.next_request_at();
  }
  if (held) core_->SeeTo(entry_, request_at);
  return held;
}

absl::Status LockHandle::Extend(uint64_t hold, absl::Duration lease) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(lease); !bad.ok()) return About(bad);
  std::optional<Request> request;
  bool renewed = false;
  core_->Feed(entry_, [&](LockState& state, Effects& effects) {
    const base::Instant now = base::Now();
    state.Expire(now, effects);
    request = state.Extend(hold, lease, now);
    renewed = !request && state.Valid(hold, now);
  });
  if (renewed) {
    return About(
        absl::FailedPreconditionError("this hold is renewed automatically; only a hold that was "
                                      "acquired with a lease can be extended"));
  }
  if (!request) return About(absl::AbortedError("the hold has ended"));
  const RenewRequest& renewal = std::get<RenewRequest>(request->what);
  const base::Instant until = request->sent + renewal.patience + core_->command_timeout();
  const Result result = renewal.acks.any() ? core_->acked_renewals().Run(entry_, *request, until)
                                           : core_->Run(entry_, *request, until);
  bool valid = false;
  core_->Feed(entry_, [&](LockState& state, Effects& effects) {
    const base::Instant now = base::Now();
    state.OnResult(*request, result, now, effects);
    valid = state.Valid(hold, now);
  });
  if (!valid) return About(absl::AbortedError("the hold was lost before it was extended"));
  return result.failed() == nullptr ? absl::OkStatus() : About(result.failed()->why);
}

void LockHandle::Misuse(std::string_view what) {
  {
    const base::MutexLock lock(entry_.mu);
    entry_.state.OnMisuse();
  }
  core_->Tell([&](Observer& observer) { observer.OnMisuse(entry_.name(), what); });
}

HoldRef LockHandle::Pin() {
  HoldRef held;
  {
    const base::MutexLock lock(entry_.mu);
    held = entry_.state.Pin(ThreadNumber());
  }
  while (held.not_before != base::Instant() && base::Now() < held.not_before) {
  }
  return held;
}

void LockHandle::RemoveObject(const void* object) {
  if (core_->in_forked_child()) return;
  core_->StopAll(entry_.keys.name(), object);
  FeedWithRoom([&](LockState& state, base::Instant now, Effects& effects) {
    // Under the machine's lock: whoever comes meanwhile takes nothing before this is done.
    if (--entry_.objects == 0) state.ReleaseStd(now, effects);
  });
}

void LockHandle::ReleaseStd() {
  FeedWithRoom([](LockState& state, base::Instant now, Effects& effects) {
    state.ReleaseStd(now, effects);
  });
}

HoldRef LockHandle::Current() const {
  if (core_->in_forked_child()) return {};
  HoldRef held;
  std::optional<LockState::Drawn> drawn;
  {
    const base::Instant now = base::Now();
    const base::MutexLock lock(entry_.mu);
    drawn = entry_.state.Draw(ThreadNumber(), now);
    held = entry_.state.OfThread(ThreadNumber());
    held.view = entry_.state.ViewOf(ThreadNumber());
  }
  while (drawn && base::Now() < drawn->not_before) {
  }
  return held;
}

HoldRef LockHandle::OfThisThread() const {
  if (core_->in_forked_child()) return {};
  const base::MutexLock lock(entry_.mu);
  return entry_.state.OfThread(ThreadNumber());
}

bool LockHandle::in_use() const {
  if (core_->in_forked_child()) return false;
  const base::MutexLock lock(entry_.mu);
  return entry_.state.in_use();
}

bool LockHandle::reusable() const {
  const base::MutexLock lock(entry_.mu);
  return entry_.state.reusable();
}

absl::StatusOr<redis::Reply> LockHandle::Run(const LuaScript& script,
                                             absl::Span<const std::string> args,
                                             base::Instant deadline, std::string_view own_key) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  EncodedRequest request(core_->SubjectOf(entry_), script, args, own_key);
  absl::StatusOr<redis::Reply> reply = core_->server_group().Run(
      request.call(), std::min(deadline, base::Now() + core_->command_timeout()));
  if (!reply.ok()) return About(reply.status());
  return reply;
}

absl::StatusOr<LockInfo> LockHandle::Inspect(int most_waiters) {
  const absl::StatusOr<redis::Reply> reply =
      Run(entry_.type->scripts.inspect, {absl::StrCat(most_waiters)});
  if (!reply.ok()) return reply.status();
  absl::StatusOr<LockInfo> info = ReadInspection(*reply);
  if (info.ok()) {
    AddProcesses(core_->server_group(), base::Now() + core_->command_timeout(), *info);
  }
  return info;
}

void LockHandle::GoOn() {
  core_->Feed(entry_, [](LockState& state, Effects&) {
    state.CheckHandoverAfter(absl::Milliseconds(1), base::Now());
  });
}

absl::Status LockHandle::ForceRelease() {
  const LockType& type = *entry_.type;
  return RunAll(type.scripts.force_release,
                std::string(kChannelPrefix) + core_->server_group().slot_tag(entry_.keys.main()),
                type.forced_key);
}

absl::Status LockHandle::RunAll(const LuaScript& script, std::string arg,
                                std::string_view own_key) {
  // Each call may take what a command may; there are as many as there are windows.
  const base::Instant deadline = base::Now() + 10 * core_->command_timeout();
  std::vector<std::string> args = {std::move(arg)};
  while (true) {
    const absl::StatusOr<redis::Reply> reply =
        Run(script, args, base::Now() + core_->command_timeout(), own_key);
    if (!reply.ok()) return reply.status();
    Part part = ReadPart(*reply);
    const bool more = part.check_after == absl::Milliseconds(1);
    if (more && base::Now() < deadline) {
      args = {args[0], std::move(part.next)};
      continue;
    }
    // Earlier calls may have handed something over as well.
    if (!more && args.size() > 1) {
      part.check_after = std::max(part.check_after, core_->SubjectOf(entry_).claim);
    }
    if (part.check_after > absl::ZeroDuration()) {
      core_->Feed(entry_, [&](LockState& state, Effects&) {
        state.CheckHandoverAfter(part.check_after, base::Now());
      });
    }
    return absl::OkStatus();
  }
}

// ---- An acquisition by one thread, from what is wanted to what came of it.

absl::StatusOr<HoldRef> LockHandle::Acquire(const Want& want, Silence* met) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(want.terms.lease); !bad.ok()) return About(bad);
  if (want.options != nullptr) {
    if (absl::Status bad = CheckAcks(*want.options); !bad.ok()) return About(bad);
    if (absl::Status bad = CheckCaching(*want.options); !bad.ok()) return About(bad);
  }
  if (absl::Status none = core_->SeeToThreads(); !none.ok()) return About(none);
  const base::Instant began = want.since ? *want.since : base::Now();
  std::optional<absl::StatusOr<HoldRef>> granted = AcquireOnce(want, began, met);
  if (!granted) return HoldRef();  // it goes on elsewhere
  absl::StatusOr<HoldRef> result = *std::move(granted);
  if (result.ok() && want.terms.acks.any()) {
    result = Confirmed(want, began, *std::move(result), met);
  }
  // Only a client that has connected knows for certain which leases the server allows.
  if (absl::Status bad = CheckLease(want.terms.lease); result.ok() && !bad.ok()) {
    GiveBack(result->hold, want.face, core_->ReleaseBy());
    GiveBackCached(core_->ReleaseBy());
    result = About(bad);
  }
  if (entry_.type->holds() && core_->observed()) {
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

std::optional<absl::StatusOr<HoldRef>> LockHandle::AcquireOnce(const Want& want,
                                                               base::Instant began, Silence* met) {
  if (want.terms.cacheable) core_->PollMessages(entry_, base::Now());
  ThreadWaker waker;
  AcquireOperation operation({.thread = ThreadNumber(),
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
  Waiter& waiter = operation.waiter();
  if (want.face == Face::kStatus) waiter.view = std::make_shared<HoldState>();
  if (Listen(operation, want)) Compete(operation, waker, want);
  if (waiter.state == Waiter::State::kElsewhere) {
    if (met != nullptr) *met = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    return std::nullopt;
  }
  return OutcomeOf(*core_, entry_, waiter, want.wait);
}

// A grant that replicas do not have may be lost with its server: it is no thread's before they do.
absl::StatusOr<HoldRef> LockHandle::Confirmed(const Want& want, base::Instant began, HoldRef held,
                                              Silence* met) noexcept {
  Confirmation confirmation(*core_, began, want.wait, want.options->ack_timeout);
  for (;;) {
    Result result;
    if (const Request* const request = confirmation.Ask(*core_, entry_, held.hold)) {
      result = core_->acked_renewals().Run(entry_, *request, confirmation.end());
    }
    if (confirmation.Hear(*core_, entry_, result)) return held;
    GiveBack(held.hold, want.face, confirmation.end());
    const base::Instant again = confirmation.Again();
    if (again.is_infinite() || want.stop.stop_requested()) return About(confirmation.why());
    base::Parker().ParkUntil(again);
    std::optional<absl::StatusOr<HoldRef>> granted = AcquireOnce(want, began, met);
    if (!granted) return HoldRef();
    if (!granted->ok()) return About(confirmation.why());
    held = **std::move(granted);
  }
}

absl::StatusOr<HoldRef> LockHandle::OutcomeOf(ClientCore& core, const Entry& entry, Waiter& waiter,
                                              absl::Duration wait) {
  const auto about = [&](const absl::Status& status) {
    return internal::About(core, entry, status);
  };
  switch (waiter.state) {
    case Waiter::State::kGranted:
      while (waiter.began < waiter.not_before && base::Now() < waiter.not_before) {
      }
      return HoldRef{.hold = waiter.hold, .token = waiter.token, .view = std::move(waiter.view)};
    case Waiter::State::kBusy:
      return about(absl::DeadlineExceededError(absl::StrCat(
          std::string(entry.type->busy),
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

bool LockHandle::Listen(AcquireOperation& operation, const Want& want) {
  redis::ServerGroup& server_group = core_->server_group();
  const std::string_view key = entry_.keys.main();
  if (server_group.subscribed(key)) return true;
  const base::Instant now = base::Now();
  absl::Status unsubscribed =
      server_group.Subscribe(key, now + operation.ListenPatience(now), want.stop);
  if (unsubscribed.ok()) return true;
  const base::MutexLock lock(entry_.mu);
  return operation.GoOnUnsubscribed(std::move(unsubscribed), now, entry_.state);
}

void LockHandle::Compete(AcquireOperation& operation, ThreadWaker& waker,
                         const Want& want) noexcept {
  using Kind = AcquireOperation::Next::Kind;
  const std::stop_callback on_stop(want.stop, [&] {
    {
      const base::MutexLock lock(entry_.mu);
      if (!operation.NeedsWake()) return;
    }
    waker.Wake(/*through=*/false);
  });

  std::optional<Result> result;
  while (true) {
    waker.parker.Arm();
    AcquireOperation::Next next;
    core_->Feed(entry_, [&](LockState& state, Effects& effects) {
      const AcquireOperation::Event event{.result = result ? &*result : nullptr,
                                          .stopped = want.stop.stop_requested(),
                                          .gone = want.gone != nullptr && *want.gone};
      // Under the machine's lock: if it is deafened from here on, that is fed behind this.
      if (want.terms.cacheable && core_->server_group().subscribed_now(entry_.keys.main()))
        state.OnSubscribed();
      next = operation.Resume(event, base::Now(), state, effects);
    });
    result.reset();
    if (next.kind == Kind::kDone) return;
    if (next.kind == Kind::kRun) {
      const Request& request = operation.request();
      // The answer would wake this thread for nothing: it is read if no grant comes soon.
      if (request.unread_for > absl::ZeroDuration() &&
          core_->server_group().subscribed_now(entry_.keys.main())) {
        const auto listen = [&] {
          return Doze(operation, waker, std::min(next.until, request.sent + request.unread_for));
        };
        if (core_->RunAndRead(entry_, request, listen, next.until, result)) continue;
      }
      result = core_->Run(entry_, request, next.until);
      continue;
    }
    if (Sleep(operation, waker, next.until) == ThreadWaker::kThrough) return;
  }
}

bool LockHandle::Doze(AcquireOperation& operation, ThreadWaker& waker, base::Instant until) {
  {
    const base::MutexLock lock(entry_.mu);
    if (!operation.Park()) return operation.granted();
  }
  Sleep(operation, waker, until);
  const base::MutexLock lock(entry_.mu);
  return operation.granted();
}

uint32_t LockHandle::Sleep(AcquireOperation& operation, ThreadWaker& waker, base::Instant until) {
  const uint32_t woken = core_->server_group().Await(entry_.keys.main(), waker.parker, until);
  if (woken != base::Parker::kArmed) return woken;
  {
    const base::MutexLock lock(entry_.mu);
    if (!operation.Overslept()) return woken;
  }
  return waker.parker.ParkUntil(base::Instant::Infinite());
}

// ---- Release: from a call that ends a hold to the server's word that it has ended.

template <class Event>
LockHandle::Ending LockHandle::Begin(base::Instant deadline, Event event) {
  Ending ending;
  FeedWithRoom([&](LockState& state, base::Instant now, Effects& effects) {
    ending.released = event(state, now, effects);
    if (ending.released.kind == Released::Kind::kUnderWay && now < deadline) {
      ending.request = state.NextRequestOf(ending.released.hold, now);
    }
  });
  return ending;
}

LockHandle::Ending LockHandle::BeginRelease(uint64_t hold, FencingToken token,
                                            base::Instant deadline) {
  return Begin(deadline, [&](LockState& state, base::Instant now, Effects& effects) {
    return state.Release(hold, now, effects, token);
  });
}

// What the server said to the script of an ending, and whether there is to be another.
void LockHandle::Hear(Ending& ending, const Result& result, base::Instant deadline) {
  ending = Begin(deadline, [&](LockState& state, base::Instant now, Effects& effects) {
    state.OnResult(*ending.request, result, now, effects);
    return state.Outcome(ending.released.hold);
  });
}

// Runs what a release made due, until it is confirmed, or its time is over: then the renewer goes
// on with it.
absl::Status LockHandle::End(Ending& ending, base::Instant deadline) {
  while (ending.request) Hear(ending, core_->Run(entry_, *ending.request, deadline), deadline);
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
void LockHandle::EndQuietly(Ending& ending, base::Instant deadline, bool leaves) {
  if (ending.request && ending.request->acquire() == nullptr && core_->MayPostReleaseOf(entry_)) {
    return core_->outbox().Send(entry_, *ending.request, ending.released.hold);
  }
  // An event loop's thread must not wait.
  if (ending.request && leaves) return EndAsync(std::move(ending), nullptr);
  WaitQuietly(ending, deadline);
}

void LockHandle::WaitQuietly(Ending& ending, base::Instant deadline) {
  const uint64_t hold = ending.released.hold;
  if (!absl::IsUnavailable(End(ending, deadline))) return;
  core_->Feed(entry_, [&](LockState& state, Effects&) { state.Forget(hold); });
}

void LockHandle::GiveBack(uint64_t hold, Face face, base::Instant until) {
  const base::Instant deadline = std::min(core_->ReleaseBy(), until);
  Ending ending = Begin(deadline, [&](LockState& state, base::Instant now, Effects& effects) {
    return face == Face::kStd ? state.Unlock(ThreadNumber(), now, effects)
                              : state.Release(hold, now, effects);
  });
  if (ending.request) return WaitQuietly(ending, deadline);
  core_->Feed(entry_, [&](LockState& state, Effects&) { state.Forget(hold); });
}

absl::Status LockHandle::Release(uint64_t hold, FencingToken token) noexcept {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const base::Instant deadline = base::Now() + core_->command_timeout();
  Ending ending = BeginRelease(hold, token, deadline);
  return End(ending, deadline);
}

void LockHandle::ReleaseQuietly(uint64_t hold, FencingToken token) noexcept {
  if (core_->in_forked_child()) return;
  if (core_->async().OnItsThread())
    return ReleaseAsync(hold, token, nullptr);  // which does not wait
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = BeginRelease(hold, token, deadline);
  EndQuietly(ending, deadline, /*leaves=*/core_->async().started());
}

void LockHandle::ReleaseAll(absl::Span<const OwnedHold> holds) noexcept {
  for (const OwnedHold& each : holds) each.handle->ReleaseQuietly(each.held.hold, each.held.token);
}

void LockHandle::Unlock() noexcept {
  if (core_->in_forked_child()) return;
  if (LeaveCachedNow()) return;
  if (entry_.type->traits.reentrant) {
    const base::MutexLock lock(entry_.mu);
    if (entry_.state.ReleaseInner(ThreadNumber(), Face::kStd)) return;
  }
  const base::Instant deadline = core_->ReleaseBy();
  Ending ending = Begin(deadline, [](LockState& state, base::Instant now, Effects& effects) {
    return state.Unlock(ThreadNumber(), now, effects);
  });
  if (ending.released.kind == Released::Kind::kNotHeld) {
    return Misuse("unlock() by a thread that does not hold it; nothing was released");
  }
  EndQuietly(ending, deadline);
}

// ---- Asynchronous calls.

void LockHandle::AcquireAsync(Want want, Finish finish, Elsewhere elsewhere,
                              EventDriver::Whose whose) noexcept {
  EventDriver& driver = core_->async();
  absl::Status bad = core_->Refusal();
  if (bad.ok()) bad = About(CheckLease(want.terms.lease));
  if (bad.ok() && want.options != nullptr) bad = About(CheckAcks(*want.options));
  if (bad.ok() && want.options != nullptr) bad = About(CheckCaching(*want.options));
  if (bad.ok()) bad = About(core_->SeeToThreads());
  if (bad.ok() && !driver.Ready()) bad = About(base::NoThread());
  if (!bad.ok()) return driver.Complete(std::move(finish)(std::move(bad)), whose);
  if (!want.since) want.since = base::Now();
  want.gone = nullptr;  // it is told by AsyncDriver::StopObject()
  LockTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncAcquisition>(driver, entry_, std::move(want),
                                                  std::move(finish), std::move(elsewhere), whose),
               entry_.keys.main());
}

AsyncReplyPtr LockHandle::RunInARound(AsyncTask& task, const LuaScript& script,
                                      absl::Span<const std::string> args, base::Instant deadline) {
  return core_->async().RunInARound(
      task, entry_, EncodedRequest(core_->SubjectOf(entry_), script, args), deadline);
}

void LockHandle::ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept {
  EventDriver& driver = core_->async();
  if (absl::Status refused = core_->Refusal(); !refused.ok()) {
    if (then) driver.Complete(std::move(then)(std::move(refused)));
    return;
  }
  EndAsync(BeginRelease(hold, token, base::Now() + core_->command_timeout()), std::move(then));
}

void LockHandle::EndAsync(Ending ending, Then then) {
  EventDriver& driver = core_->async();
  if (!driver.Ready()) {  // it is waited for
    absl::Status status = End(ending, base::Now() + core_->command_timeout());
    if (then) driver.Complete(std::move(then)(std::move(status)));
    return;
  }
  // An acquire request that this client sends before the driver comes to the release must not
  // overtake it.
  if (ending.request && ending.request->acquire() == nullptr) {
    const base::MutexLock lock(entry_.mu);
    entry_.state.Postpone(ending.released.hold);
    ending.request.reset();
  }
  LockTable::Refer(entry_);
  driver.Begin(std::make_unique<AsyncRelease>(driver, entry_, std::move(ending.released),
                                              std::move(ending.request), std::move(then)),
               entry_.keys.main());
}

}  // namespace redlatch::internal
