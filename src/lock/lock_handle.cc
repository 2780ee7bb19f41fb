#include "src/lock/lock_handle.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/base/atomic.h"
#include "src/base/error_address.h"
#include "src/base/parker.h"
#include "src/base/status.h"
#include "src/base/utf8.h"
#include "src/lock/description.h"
#include "src/lock/kinds.h"
#include "src/lock/operation_task.h"
#include "src/lock/state/acquire_operation.h"
#include "src/lock/thread_driver.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(10);
constexpr absl::Duration kLongestLease = absl::Hours(24 * 365);

// Spins until a token may be used, which takes a few milliseconds at most.
void SpinUntil(base::Instant moment) {
  while (moment != base::Instant() && base::Now() < moment) {
  }
}

std::string TitleOf(const ClientCore& core, const Entry& entry) {
  return absl::StrCat(std::string(entry.type->noun), " ", base::Quoted(entry.name()), " (",
                      core.server(entry.keys.main()), ")");
}

std::string WhyBusy(const LockType& type, BusyWith holder) {
  if (type.use != GrantUse::kExclusive || holder == BusyWith::kOthers) {
    return std::string(type.busy);
  }
  return holder == BusyWith::kThisThread ? "this thread already holds it"
                                         : "another call of this client holds it";
}

// Why a lock may not have this lease. `longest`: what its servers allow.
absl::Status BadLease(absl::Duration lease, bool possible, bool quorum, absl::Duration longest) {
  const std::string asked = "a lease of " + absl::FormatDuration(lease);
  if (!possible) {
    return absl::InvalidArgumentError(asked + " is not possible; it must be 10ms to one year");
  }
  if (quorum) {
    return absl::InvalidArgumentError(absl::StrCat(asked, " could outlive the restart delay of ",
                                                   absl::FormatDuration(longest),
                                                   "; restart_delay= must not be shorter"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      asked, " could outlive the quarantine, which allows ",
      absl::FormatDuration(std::max(longest, absl::ZeroDuration())),
      " (quarantine= must be longer than the lease by the server's min-replicas-max-lag and a "
      "second)"));
}

}  // namespace

absl::Status About(ClientCore& core, const Entry& entry, absl::StatusCode code,
                   absl::string_view message, absl::string_view more) noexcept try {
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  // The title names the server already.
  const bool of_server =
      absl::ConsumePrefix(&message, absl::StrCat(core.server(entry.keys.main()), " "));
  std::string text = absl::StrCat(TitleOf(core, entry), ": ");
  const size_t title = text.size();
  absl::StrAppend(&text, of_server ? "the server " : "", message, more.empty() ? "" : ": ", more);
  // Users learn a lock's keys here, since they are not known before the lock is used.
  if (code == absl::StatusCode::kPermissionDenied &&
      redis::DeniesKey({message.data(), message.size()})) {
    std::string rules = KeyRules(entry.keys.main(), entry.type->redisson());
    for (const KeySet& other : entry.type->others) rules += " " + KeyRules(other.main());
    absl::StrAppend(
        &text, "; this lock's: ACL SETUSER ", core.user(), " ", rules, " ~",
        std::string(kDescriptionKeyPrefix), "*",
        entry.type->quarantined ? " " + PrimaryEpochRule(core.server_group().slot_tag({})) : "");
  }
  if (!base::IsExpected(code)) base::AddAddress(text, title);
  return absl::Status(code, text);
} catch (const std::bad_alloc&) {
  return {code, ""};  // needs no memory
}

absl::Status StatusOf(ClientCore& core, const Entry& entry, const Released& released) noexcept {
  const absl::string_view why = released.failure.message();
  const auto about = [&](absl::StatusCode code, absl::string_view message,
                         absl::string_view more = "") {
    return About(core, entry, code, message, more);
  };
  switch (released.kind) {
    case Released::Kind::kDone:
      return absl::OkStatus();
    case Released::Kind::kUnconfirmed:
      return about(absl::StatusCode::kUnavailable,
                   "the release is not confirmed yet; it is being repeated in the background", why);
    case Released::Kind::kLost:
      return about(absl::StatusCode::kAborted, "the hold was lost before it was released");
    case Released::Kind::kNotHeld:
      return about(absl::StatusCode::kFailedPrecondition, "the calling thread does not hold it");
    case Released::Kind::kRefused:
      return about(released.failure.code(), why);
  }
  return absl::OkStatus();
}

absl::Status LockHandle::CheckLease(absl::Duration lease) const {
  // A latch is never held, so no quarantine applies.
  const absl::Duration longest =
      entry_.type->holds() ? core_->longest_lease() : absl::InfiniteDuration();
  const bool possible = kShortestLease <= lease && lease <= kLongestLease;
  if (possible && lease <= longest) return absl::OkStatus();
  return About(BadLease(lease, possible, core_->is_quorum(), longest));
}

absl::Status CannotStayTaken() {
  return absl::InvalidArgumentError(
      "only a SimpleLock, a ReentrantLock or the write side of a ReentrantReadWriteLock stays "
      "taken after its release, and only without an Owner");
}

absl::Status LockHandle::CheckStaysTaken(absl::Duration at_least) const {
  const LockType& type = *entry_.type;
  if (at_least < absl::ZeroDuration() || at_least > kLongestLease) {
    // An infinite one is packed into a number of nanoseconds.
    const bool finite = at_least < PackedDuration(absl::InfiniteDuration()).get();
    return About(absl::InvalidArgumentError(
        absl::StrCat("a lock cannot stay taken for ",
                     finite ? absl::FormatDuration(at_least) : std::string("ever"),
                     "; it must be zero to one year")));
  }
  const bool fits = type.use == GrantUse::kExclusive && entry_.owner.empty() &&
                    (type.traits.kind == kinds::kSimple || type.traits.kind == kinds::kReentrant ||
                     type.traits.kind == kinds::kReadWrite);
  return fits ? absl::OkStatus() : About(CannotStayTaken());
}

absl::Status LockHandle::CheckGrace(absl::Duration usable, absl::Duration grace) const {
  const bool too_long =
      grace > kLongestLease || (usable <= kLongestLease && usable + grace > kLongestLease);
  if (!too_long) return absl::OkStatus();
  return About(absl::InvalidArgumentError(
      absl::StrCat("LockOptions::grace is ", absl::FormatDuration(grace),
                   "; it and the lease must not be longer than a year together")));
}

absl::Status LockHandle::CheckTerms(const AcquireCall& call) const {
  const absl::Duration at_least = call.terms.at_least.get();
  const LockOptions& options = *call.options;
  const absl::Duration usable = call.terms.lease - options.grace;
  absl::Status bad;
  if (at_least != absl::ZeroDuration()) bad = CheckStaysTaken(at_least);
  bad.Update(CheckGrace(usable, options.grace));
  bad.Update(CheckLease(at_least > call.terms.lease && at_least > absl::ZeroDuration()
                            ? at_least
                            : call.terms.lease));
  if (!bad.ok()) return bad;
  if (options.at_most < usable) {
    return About(absl::InvalidArgumentError(
        absl::StrCat("a lease of ", absl::FormatDuration(usable), " is longer than the ",
                     absl::FormatDuration(options.at_most),
                     " of LockOptions::at_most; make the lease shorter")));
  }
  if (options.stop_margin <= Scaled(usable, 1, 2)) return absl::OkStatus();
  return About(absl::InvalidArgumentError(
      absl::StrCat("LockOptions::stop_margin is ", absl::FormatDuration(options.stop_margin),
                   ", more than half the lease of ", absl::FormatDuration(usable),
                   "; make the lease longer, so that it can be renewed in time")));
}

uint64_t NextThreadNumber() {
  static base::Atomic<uint64_t> last{0};
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
  if (!keys.ok()) return base::WithAddress(keys.status());
  const std::string_view called = type.title.empty() ? name : type.title;
  const auto& label = core->options().stats_label;
  std::string given;
  if (label) RunUsersCode("stats_label", [&] { given = label(called); });
  const auto failure = [&](absl::StatusCode code, absl::string_view why) {
    std::string text = absl::StrCat(std::string(type.noun), " ", base::Quoted(called), ": ");
    const size_t title = text.size();
    absl::StrAppend(&text, why);
    base::AddAddress(text, title);
    return absl::Status(code, text);
  };
  const bool quorum_lock = type.traits.kind == kinds::kQuorum;
  if (core->is_quorum() && !quorum_lock) {
    return failure(absl::StatusCode::kFailedPrecondition,
                   "its client is of a quorum of servers, which only RedLock can ask; use a "
                   "RedLock, or a client of one server");
  }
  if (type.redisson() && core->longest_lease() < absl::InfiniteDuration()) {
    return failure(absl::StatusCode::kFailedPrecondition,
                   "Redisson obeys no quarantine; use a client whose URL has no `quarantine`");
  }
  if (!core->EnsureThreads()) {
    const absl::Status why = base::NoThread();
    return failure(why.code(), why.message());
  }
  const absl::StatusOr<Entry*> entry =
      core->lock_table().Attach(*std::move(keys), type.others.empty() ? owner : type.OthersId(),
                                type, label ? given : called);
  if (!entry.ok()) return failure(entry.status().code(), entry.status().message());
  const absl::Cleanup unrefer = [&] { core->lock_table().Unrefer(**entry); };
  return std::make_shared<LockHandle>(core, **entry);
}

LockHandle::~LockHandle() {
  if (!core_->in_forked_child()) core_->lock_table().Unrefer(entry_);
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
  if (held) core_->ScheduleRequest(entry_, request_at);
  return held;
}

absl::Status LockHandle::Extend(uint64_t hold, absl::Duration lease) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckLease(lease); !bad.ok()) return bad;
  std::optional<Request> request;
  bool renewed = false;
  absl::Duration longest;
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
    state.Expire(now, effects);
    longest = state.LongestExtension(hold, now);
    if (lease <= longest) request = state.Extend(hold, lease, now);
    renewed = !request && state.Valid(hold, now);
  });
  if (longest < lease) {
    return About(absl::InvalidArgumentError(
        absl::StrCat("a lease of ", absl::FormatDuration(lease), " would outlive ",
                     "LockOptions::at_most, which leaves ", absl::FormatDuration(longest))));
  }
  if (renewed) {
    return About(
        absl::FailedPreconditionError("this hold is renewed automatically; only a hold that was "
                                      "acquired with a lease can be extended"));
  }
  if (!request) return About(absl::AbortedError("the hold has ended"));
  return RunRenewal(hold, *request, [](LockState&) {});
}

absl::Status LockHandle::StayTaken(uint64_t hold, absl::Duration at_least) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  // It may be shorter than any lease, since it does not shorten the one that the lock has.
  absl::Status bad = CheckStaysTaken(at_least);
  bad.Update(CheckLease(std::max(at_least, kShortestLease)));
  if (!bad.ok()) return bad;
  std::optional<Request> request;
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
    state.Expire(now, effects);
    request = state.StayTaken(hold, at_least, now);
  });
  if (!request) return About(absl::AbortedError("the hold has ended"));
  return RunRenewal(hold, *request, [&](LockState& state) { state.OnStaysTaken(hold, at_least); });
}

absl::Status LockHandle::RunRenewal(uint64_t hold, const Request& request,
                                    absl::FunctionRef<void(LockState&)> confirmed) {
  const RenewRequest& renewal = std::get<RenewRequest>(request.what);
  const base::Instant until = request.sent + renewal.ack_timeout + core_->command_timeout();
  const Result result = renewal.acks.any() ? core_->batches().Run(entry_, request, until)
                                           : ThreadDriver(*core_, entry_).Run(request, until);
  bool valid = false;
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
    state.OnResult(request, result, now, effects);
    if (result.failed() == nullptr) confirmed(state);
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
  std::string text(what);
  base::AddAddress(text);
  core_->Tell([&](Observer& observer) { observer.OnMisuse(entry_.name(), text); });
}

void LockHandle::RemoveObject(const void* object) {
  if (core_->in_forked_child()) return;
  core_->StopAll(entry_.keys.name(), object);
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
    // Under the state's mutex, so that a thread that comes meanwhile takes nothing before this is
    // done.
    if (--entry_.objects == 0) state.ReleaseStd(now, effects);
  });
}

void LockHandle::ReleaseStd() {
  core_->FeedWithRoom(entry_, [](LockState& state, base::Instant now, Effects& effects) {
    state.ReleaseStd(now, effects);
  });
}

HoldRef LockHandle::See(bool pins, bool draws) const {
  if (core_->in_forked_child()) return {};
  HoldRef held;
  {
    const base::Instant now = base::Now();
    const base::MutexLock lock(entry_.mu);
    LockState& state = entry_.state;
    held = pins ? state.Pin(ThreadNumber(), now) : state.Current(ThreadNumber(), now);
  }
  if (draws && held.hold != 0 && held.token == FencingToken() && entry_.type->may_be_native()) {
    held = DrawToken(std::move(held));
  }
  SpinUntil(held.not_before);
  return held;
}

// The hold was acquired natively, so the server has no token for it yet.
HoldRef LockHandle::DrawToken(HoldRef held) const {
  const base::Instant until = base::Now() + core_->command_timeout();
  std::optional<Request> request;
  core_->Feed(entry_, [&](LockState& state, Effects&) {
    request = state.DrawFor(ThreadNumber(), base::Now());
  });
  if (!request) return held;
  const Result result = ThreadDriver(*core_, entry_).Run(*request, until);
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
    state.OnResult(*request, result, now, effects);
    held = state.Current(ThreadNumber(), now);
  });
  return held;
}

HoldRef LockHandle::OfThisThread() const {
  if (core_->in_forked_child()) return {};
  const base::MutexLock lock(entry_.mu);
  return entry_.state.OfThread(ThreadNumber());
}

absl::StatusOr<redis::Reply> LockHandle::Run(const LuaScript& script,
                                             absl::Span<const std::string> args,
                                             base::Instant deadline, std::string_view own_key) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  absl::StatusOr<redis::Reply> reply =
      core_->runner().RunScript(core_->SubjectOf(entry_), script, args, own_key,
                                std::min(deadline, base::Now() + core_->command_timeout()));
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

void LockHandle::GoOn(const Part& part) {
  core_->Feed(entry_, [&](LockState& state, Effects&) {
    state.CheckHandoverAfter(part.check_after, part.unfinished, base::Now());
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
  // Each call may take the command timeout; there is one per window of waiters.
  const base::Instant deadline = base::Now() + 10 * core_->command_timeout();
  std::vector<std::string> args = {std::move(arg)};
  while (true) {
    const absl::StatusOr<redis::Reply> reply =
        Run(script, args, base::Now() + core_->command_timeout(), own_key);
    if (!reply.ok()) return reply.status();
    Part part = ReadPart(*reply);
    if (part.unfinished && base::Now() < deadline) {
      args = {args[0], std::move(part.next)};
      continue;
    }
    // Earlier calls may have handed a lock over as well.
    if (!part.unfinished && args.size() > 1) {
      part.check_after = std::max(part.check_after, core_->SubjectOf(entry_).claim);
    }
    GoOn(part);
    return absl::OkStatus();
  }
}

absl::StatusOr<std::string> LockHandle::RunUntilAnswered(ScriptOperation::Call call,
                                                         const std::stop_token& stop,
                                                         const base::Atomic<bool>* gone) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  ScriptOperation operation(std::move(call));
  ThreadDriver(*core_, entry_, stop, gone).Drive(operation);
  if (!operation.outcome().ok()) return About(operation.outcome().status());
  return std::move(operation.outcome());
}

void LockHandle::RunUntilAnsweredAsync(
    ScriptOperation::Call call, const void* object, std::stop_token stop,
    absl::AnyInvocable<void(absl::StatusOr<std::string>) &&> then) {
  Begin(std::make_unique<ScriptTask>(core_->event_driver(), entry_, std::move(call), object,
                                     std::move(stop), std::move(then)));
}

// The task has a reference to the entry.
void LockHandle::Begin(std::unique_ptr<EventTask>&& task) {
  LockTable::Refer(entry_);
  absl::Cleanup undo = [this] { core_->lock_table().Unrefer(entry_); };
  core_->event_driver().Begin(std::move(task), entry_.keys.main());
  std::move(undo).Cancel();
}

// ---- Acquisition.

AcquireOperation::Environment LockHandle::EnvironmentOf(const ClientCore& core, uint64_t thread,
                                                        Waker& waker) {
  return {.thread = thread,
          .now = base::Now(),
          .command_timeout = core.command_timeout(),
          .round_trip = core.shortest_round_trip(),
          .unreachable_after = core.options().unreachable_after,
          .waker = &waker};
}

absl::StatusOr<HoldRef> LockHandle::Acquire(const AcquireCall& call, Silence* met) {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  if (absl::Status bad = CheckTerms(call); !bad.ok()) return bad;
  ThreadDriver driver(*core_, entry_, call.stop, call.gone);
  AcquireOperation operation(call, EnvironmentOf(*core_, ThreadNumber(), driver));
  Waiter& waiter = operation.waiter();
  waiter.native = entry_.type->may_be_native() && core_->acquires_natively();
  if (call.face == Face::kStatus) waiter.view = std::make_shared<HoldState>();
  driver.Drive(operation);
  if (waiter.state == Waiter::State::kElsewhere) {
    if (met != nullptr) *met = {.since = waiter.silent_since, .why = std::move(waiter.failure)};
    return HoldRef();
  }
  absl::StatusOr<HoldRef> result = Outcome(operation, call.wait);
  if (entry_.type->holds() && core_->observed()) {
    const absl::Duration waited = base::Now() - operation.began();
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

absl::StatusOr<HoldRef> LockHandle::Outcome(AcquireOperation& operation,
                                            absl::Duration wait) const {
  Waiter& waiter = operation.waiter();
  if (waiter.state != Waiter::State::kGranted) return About(Failure(entry_, waiter, wait));
  // Only a client that has connected knows which leases the server allows.
  if (absl::Status bad = CheckLease(waiter.terms.lease); !bad.ok()) {
    core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects& effects) {
      operation.GiveBack(now, state, effects);
      state.OnTooManyCached(now);
    });
    return bad;
  }
  if (waiter.began < waiter.not_before) SpinUntil(waiter.not_before);
  return HoldRef{.hold = waiter.hold, .token = waiter.token, .view = std::move(waiter.view)};
}

absl::Status LockHandle::Failure(const Entry& entry, const Waiter& waiter, absl::Duration wait) {
  switch (waiter.state) {
    case Waiter::State::kBusy:
      return absl::DeadlineExceededError(absl::StrCat(
          WhyBusy(*entry.type, waiter.busy_with),
          wait <= absl::ZeroDuration() ? ""
                                       : absl::StrCat("; waited ", absl::FormatDuration(wait))));
    case Waiter::State::kDeadlock:
      return absl::FailedPreconditionError(
          "this thread already holds it, and it is not reentrant; ReentrantLock is");
    case Waiter::State::kStopped:
      return absl::CancelledError("the wait was stopped");
    default:
      return waiter.failure;
  }
}

void LockHandle::AcquireAsync(AcquireCall call, Finish finish, Elsewhere elsewhere,
                              EventDriver::Whose whose) {
  EventDriver& driver = core_->event_driver();
  absl::Status bad = core_->Refusal();
  if (bad.ok()) bad = CheckTerms(call);
  if (bad.ok() && !driver.Ready()) bad = About(base::NoThread());
  if (!bad.ok()) return driver.Complete(std::move(finish)(std::move(bad)), whose);
  if (!call.since) call.since = base::Now();
  call.gone = nullptr;  // EventDriver::StopObject() does this
  Begin(std::make_unique<AcquireTask>(driver, entry_, std::move(call), std::move(finish),
                                      std::move(elsewhere), whose));
}

// ---- Release.

absl::Status LockHandle::Release(uint64_t hold, FencingToken token) noexcept {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  ReleaseOperation operation(
      {.hold = hold, .token = token, .deadline = base::Now() + core_->command_timeout()});
  ThreadDriver(*core_, entry_).Drive(operation);
  NoteLeft();
  return EndRelease(operation);
}

void LockHandle::NoteLeft() noexcept {
  const base::Instant now = base::Now();
  const base::MutexLock lock(entry_.mu);
  entry_.state.OnLeft(now);
}

absl::Status LockHandle::EndRelease(const ReleaseOperation& operation) const {
  const Released& released = operation.released();
  // A release that failed earlier says nothing about the next one.
  if (released.kind == Released::Kind::kUnconfirmed && base::Now() >= operation.deadline()) {
    core_->NoteSilence();
  }
  absl::Status status = StatusOf(*core_, entry_, released);
  if (core_->observed()) {
    core_->Tell(
        [&](Observer& observer) { observer.OnReleased(entry_.name(), released.token, status); });
  }
  return status;
}

void LockHandle::ReleaseQuietly(uint64_t hold, FencingToken token) noexcept {
  if (core_->in_forked_child()) return;
  if (core_->event_driver().OnItsThread())
    return ReleaseAsync(hold, token, nullptr);  // without waiting
  EndQuietly({.hold = hold, .token = token, .deadline = core_->ReleaseBy()},
             /*leaves=*/core_->event_driver().started());
}

void LockHandle::Unlock() noexcept {
  if (core_->in_forked_child()) return;
  if (LeaveCachedNow()) return;
  if (entry_.type->traits.reentrant) {
    const base::MutexLock lock(entry_.mu);
    if (entry_.state.UnlockInner(ThreadNumber())) return;
  }
  EndQuietly({.thread = ThreadNumber(), .deadline = core_->ReleaseBy()}, /*leaves=*/false);
}

// For callers that do not need the outcome. It waits for the release only if threads of this client
// wait for the acquire that travels with it. The background repeats an unconfirmed release.
// `leaves`: the event driver waits, since the thread of a user's event loop must not.
void LockHandle::EndQuietly(const ReleaseOperation::Call& call, bool leaves) noexcept {
  ReleaseOperation operation(call);
  ThreadDriver driver(*core_, entry_);
  const Operation::Action action = driver.Begin(operation);
  if (call.hold == 0 && operation.released().kind == Released::Kind::kNotHeld) {
    return Misuse("unlock() by a thread that does not hold it; nothing was released");
  }
  if (operation.has_request()) {
    if (operation.request().acquire() == nullptr) {
      core_->unattended().Send(entry_, operation.request(), operation.released().hold);
      return NoteLeft();
    }
    if (leaves) return Leave(std::move(operation), action, nullptr);
    driver.Drive(operation, action);
  }
  if (!absl::IsUnavailable(EndRelease(operation))) return;
  core_->Feed(entry_, [&](LockState& state, Effects&) { operation.Forget(state); });
}

void LockHandle::ReleaseAsync(uint64_t hold, FencingToken token, Then then) noexcept {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) {
    if (then) core_->event_driver().Complete(std::move(then)(std::move(refused)));
    return;
  }
  ReleaseOperation operation(
      {.hold = hold, .token = token, .deadline = base::Now() + core_->command_timeout()});
  const Operation::Action action = ThreadDriver(*core_, entry_).Begin(operation);
  Leave(std::move(operation), action, std::move(then));
}

// Hands the release to the event driver. An acquire that this client sends before the driver gets
// there must not overtake the release.
void LockHandle::Leave(ReleaseOperation operation, Operation::Action action, Then then) noexcept {
  EventDriver& driver = core_->event_driver();
  if (!driver.Ready()) {  // no thread can be started: this one waits
    ThreadDriver(*core_, entry_).Drive(operation, action);
    absl::Status status = EndRelease(operation);
    if (then) driver.Complete(std::move(then)(std::move(status)));
    return;
  }
  if (operation.has_request() && operation.request().acquire() == nullptr) {
    const base::MutexLock lock(entry_.mu);
    operation.Postpone(entry_.state);
    action = {.kind = Operation::Action::Kind::kSleep, .until = {}};
  }
  std::unique_ptr<EventTask> task = base::WithMemory([&] {
    return std::make_unique<ReleaseTask>(driver, entry_, std::move(operation), action,
                                         std::move(then));
  });
  base::WithMemory([&] { Begin(std::move(task)); });
}

void LockHandle::ReleaseAll(absl::Span<const OwnedHold> holds) noexcept {
  for (const OwnedHold& each : holds) each.handle->ReleaseQuietly(each.held.hold, each.held.token);
}

// ---- Cached grants.

bool LockHandle::LockAgain(const std::shared_ptr<const LockOptions>& options) {
  if (core_->in_forked_child() || entry_.recalled.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  const base::Instant now = base::Now();
  base::Instant request_at;
  {
    const base::MutexLock lock(entry_.mu);
    LockState& state = entry_.state;
    if (options->cache_for > absl::ZeroDuration() &&
        state.TakeCachedNow(ThreadNumber(), options, now)) {
      return true;
    }
    if (!state.Reenter(ThreadNumber(), Face::kStd, /*manual=*/false, now)) return false;
    request_at = state.next_request_at();
  }
  core_->ScheduleRequest(entry_, request_at);
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
  core_->ScheduleRequest(entry_, request_at);
  return true;
}

void LockHandle::GiveBackCached() {
  const GrantId grant = entry_.grant.load(std::memory_order_relaxed);
  if (grant == 0) return;
  std::optional<Request> release;
  core_->FeedWithRoom(entry_, [&](LockState& state, base::Instant now, Effects&) {
    if (!state.cacheable()) {
      state.EndTurn(now);
    } else if (state.in_use()) {
      state.EndCaching(now);
    }
    release = state.NextRelease(now);
  });
  if (release) core_->unattended().Send(entry_, *release, 0);
}

void LockHandle::CopyTriesFrom(const LockHandle& other) {
  other.entry_.mu.Lock();
  const uint32_t tried_s = other.entry_.state.tried_s;
  other.entry_.mu.Unlock();
  const base::MutexLock lock(entry_.mu);
  entry_.state.tried_s = tried_s;
}

}  // namespace redlatch::internal
