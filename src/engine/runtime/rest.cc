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
#include "src/engine/runtime/core.h"
#include "src/engine/runtime/lock_session.h"

namespace redlatch::engine {
namespace {

// What no thread has and a client keeps all the same; and how many more than must go then go at
// once, so that not each lock that comes has all of them looked at.
constexpr size_t kMostKept = 1024;
constexpr size_t kSpareKept = 64;

// The clients that may keep something. Some are never destroyed.
struct Keepers {
  const base::ForkGuard fork_guard;
  base::Mutex mu;
  std::vector<std::weak_ptr<Core>> cores ABSL_GUARDED_BY(mu);

  // Null in a forked child whose parent had a thread in here.
  static Keepers* All();
};

// When the process exits, what no thread has goes back.
void GiveBackAll() {
  std::vector<std::weak_ptr<Core>> cores;
  if (Keepers* const all = Keepers::All()) {
    const base::MutexLock lock(all->mu);
    cores.swap(all->cores);
  }
  for (const std::weak_ptr<Core>& each : cores) {
    const std::shared_ptr<Core> core = each.lock();
    if (core == nullptr || core->in_forked_child()) continue;
    core->machines().VisitAll([&](Entry& entry) { LockSession::To(core, entry)->EndRest(); });
    core->outbox().Flush(base::Now() + core->command_timeout());
  }
}

Keepers* Keepers::All() {
  static Keepers* const all = [] {
    std::atexit(GiveBackAll);
    return new Keepers;
  }();
  return all->fork_guard.InForkedChild() && !all->mu.IsFree() ? nullptr : all;
}

}  // namespace

// How long a grant may stay with the client, of which the server knows nothing.
absl::Status LockSession::CheckStay(const LockOptions& options) const {
  const absl::Duration none = absl::ZeroDuration();
  if (options.turn == none && options.keep == none) return absl::OkStatus();
  if (options.turn < none || options.keep < none) {
    return absl::InvalidArgumentError("LockOptions::turn and keep must not be negative");
  }
  if (options.keep > options.lease) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LockOptions::keep is ", absl::FormatDuration(options.keep), ", longer than the lease of ",
        absl::FormatDuration(options.lease), "; make the lease longer, or keep it for less"));
  }
  if (options.keep > none && !entry_.plan->traits.keeps) {
    return absl::InvalidArgumentError(
        "LockOptions::keep is for SimpleLock, ReentrantLock and ReentrantReadWriteLock, and for "
        "classes whose LockTraits say so");
  }
  if (options.keep > none) core_->GiveBackAtExit();
  return absl::OkStatus();
}

bool LockSession::LockAgain(const std::shared_ptr<const LockOptions>& options) {
  const bool reentrant = entry_.plan->traits.reentrant;
  const bool kept = options->keep > absl::ZeroDuration();
  if ((!reentrant && !kept) || core_->in_forked_child()) return false;
  if (entry_.wanted.load(std::memory_order_relaxed) != 0) return false;
  const base::Instant now = base::Now();
  if (kept) core_->LookForMessages(entry_, now);
  const uint64_t thread = ThreadNumber();
  base::Instant send_at;
  {
    const base::MutexLock lock(entry_.mu);
    LockMachine& machine = entry_.lock();
    if (kept && machine.Retake(thread, options, now)) return true;
    if (!reentrant || !machine.Reenter(thread, Face::kStd, /*manual=*/false, now)) return false;
    send_at = machine.next_send();
  }
  core_->SeeTo(entry_, send_at);
  return true;
}

bool LockSession::Leave() {
  if (!MayStay(entry_.grant.load(std::memory_order_relaxed)) ||
      entry_.wanted.load(std::memory_order_relaxed) != 0) {
    return false;
  }
  std::shared_ptr<const LockOptions> ended;
  base::Instant send_at;
  {
    const base::Instant now = base::Now();
    const base::MutexLock lock(entry_.mu);
    if (!entry_.machine->attended || !entry_.lock().Leave(ThreadNumber(), now, ended)) return false;
    send_at = entry_.machine->next_send();
  }
  core_->SeeTo(entry_, send_at);
  return true;
}

void LockSession::EndRest(base::Instant until) {
  const GrantId grant = entry_.grant.load(std::memory_order_relaxed);
  if (!MayStay(grant)) return;
  std::optional<Send> release;
  FeedWithRoom([&](LockMachine& machine, base::Instant now, Effects&) {
    machine.OnWanted(grant, now);
    release = machine.NextRelease(now);
  });
  if (!release) return;
  if (core_->MayPostReleaseOf(entry_)) return core_->outbox().Send(entry_, *release, 0);
  // What this thread asks for next must not come before it.
  const Answer answer = core_->Run(entry_, *release, std::min(core_->ReleaseBy(), until));
  core_->Feed(entry_, [&](LockMachine& machine, Effects& effects) {
    machine.OnAnswer(*release, answer, base::Now(), effects);
  });
}

void LockSession::KeepAs(const LockSession& other) {
  uint32_t tried_s = 0;
  {
    const base::MutexLock lock(other.entry_.mu);
    tried_s = other.entry_.machine->tried_s;
  }
  const base::MutexLock lock(entry_.mu);
  entry_.machine->tried_s = tried_s;
}

// What goes back because another client waits for it is sent by the thread that hears of it.
void Core::OnWanted(Entry& entry, GrantId grant, bool tried) {
  const bool posts = MayPostReleaseOf(entry);  // else the renewer sends it
  if (tried) entry.tried = true;
  entry.wanted = grant;
  std::optional<Send> release;
  int tries = 0;
  do {
    Feed(entry, [&](Bidder& machine, Effects&) {
      if (posts) release = machine.NextRelease(base::Now());
    });
  } while (entry.wanted == grant && ++tries < 2);  // still there: it had no memory for it
  if (release) outbox_.Send(entry, *release, 0);
}

void Core::GiveBackAtExit() {
  if (gives_back_.load(std::memory_order_relaxed)) return;
  if (Keepers* const all = Keepers::All()) {
    const base::MutexLock lock(all->mu);
    std::erase_if(all->cores, [](const auto& core) { return core.expired(); });
    all->cores.push_back(weak_from_this());
  }
  gives_back_ = true;
}

void Core::Deafened() {
  inside_->machines.VisitAll([this](Entry& entry) {
    if (!entry.plan->traits.keeps) return;
    Feed(entry, [](Bidder& machine, Effects&) { machine.OnDeaf(base::Now()); });
  });
}

void Core::Attend(const Entry& entry, bool begins) {
  deployment_->Attend(entry.keys.main(), begins);
  const size_t attended = begins ? ++attended_ : --attended_;
  if (begins && attended > kMostKept) inside_->renewer.Crowded();
}

void Core::ThinOut() {
  if (attended_ <= kMostKept) return;
  std::vector<std::pair<base::Instant, Entry*>> idle;
  inside_->machines.VisitAll([&](Entry& entry) {
    const base::MutexLock lock(entry.mu);
    const base::Instant until = entry.machine->rests_until();
    if (until == base::Instant()) return;
    MachineTable::Refer(entry);
    idle.emplace_back(until, &entry);
  });
  const size_t going = idle.size() <= kMostKept ? 0 : idle.size() - kMostKept + kSpareKept;
  std::nth_element(idle.begin(), idle.begin() + static_cast<std::ptrdiff_t>(going), idle.end());
  for (size_t i = 0; i < idle.size(); ++i) {
    Entry& entry = *idle[i].second;
    if (i < going) Feed(entry, [](Bidder& machine, Effects&) { machine.OnCrowded(base::Now()); });
    inside_->machines.Unrefer(entry);
  }
}

}  // namespace redlatch::engine
