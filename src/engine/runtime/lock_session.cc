#include "src/engine/runtime/lock_session.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/engine/protocol/description.h"
#include "src/engine/protocol/kinds.h"
#include "src/engine/runtime/about.h"

namespace redlatch::engine {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(10);
constexpr absl::Duration kLongestLease = absl::Hours(24 * 365);

}  // namespace

absl::Status LockSession::CheckLease(absl::Duration lease) const {
  const absl::Duration longest = core_->longest_lease();
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
  return std::make_shared<LockSession>(Key(), std::move(core), **entry);
}

std::shared_ptr<LockSession> LockSession::To(std::shared_ptr<Core> core, Entry& entry) {
  MachineTable::Refer(entry);
  return std::make_shared<LockSession>(Key(), std::move(core), entry);
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

absl::Status LockSession::Extend(uint64_t hold, absl::Duration lease) noexcept {
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
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    // Under the machine's lock: whoever comes meanwhile takes nothing before this is done.
    if (--entry_.objects == 0) machine.ReleaseStd(base::Now(), effects);
  });
}

void LockSession::ReleaseStd() {
  core_->Feed(entry_, [](LockMachine& machine, Effects& effects) {
    machine.ReleaseStd(base::Now(), effects);
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
                                              base::Instant deadline,
                                              std::string_view own_key) {
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

}  // namespace redlatch::engine
