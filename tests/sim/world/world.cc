#include "tests/sim/world/world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"
#include "src/lock/state/lock_state.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {
namespace {

constexpr int64_t kHeartbeat = 10 * kSecond;
// A command is abandoned if its reply takes longer than the timeout. If all are that slow, nothing
// can be promised, so they are slow only for a while.
constexpr int64_t kSlowLink = 400'000;  // us
constexpr int64_t kSlowest = 10 * kSecond;
// For so long, a dead waiter of one of Redisson's fair locks delays others.
constexpr int64_t kPlaceOfDead = 3 * kHeartbeat;
constexpr int64_t kHour = 3600 * kSecond;
constexpr int64_t kDay = 24 * kHour;
// A fence and a semaphore's capacity last for a day. What describes a server lasts for longer.
constexpr int64_t kLongestLeft = kDay + 2 * kHour;

// A release that the server does not permit is not repeated.
bool Denies(const Fault& fault) {
  return fault.kind == FaultKind::kRefuse && fault.detail % 7 >= 5;
}

bool IsOutOfMemory(const Fault& fault) {
  return fault.kind == FaultKind::kRefuse && fault.detail % 7 == 2;
}

bool Kills(FaultKind kind) { return kind == FaultKind::kCrash || kind == FaultKind::kCrashMany; }

// How much longer keys may last because clocks are set.
int64_t ClockSteps(const Plan& plan) {
  int64_t steps = 0;
  for (const Fault& each : plan.faults) {
    // A node of a quorum that is ahead has the others store larger tokens.
    const bool forward = plan.group == Group::kQuorum && each.kind == FaultKind::kClockForward;
    if (forward || each.kind == FaultKind::kClockBack) steps += each.length_ms * kMilli;
  }
  return steps;
}

bool StaysAfterRelease(const std::string& key) {
  return absl::EndsWith(key, ":fence") || absl::StrContains(key, ".gone.") ||
         absl::StrContains(key, ".forced") || absl::EndsWith(key, ":election.observers") ||
         absl::StartsWith(key, "redlatch:client:") || key == "redlatch:quorum" ||
         absl::StartsWith(key, "redisson_unlock_latch:") || absl::StrContains(key, "reign");
}

}  // namespace

World::World(const Plan& plan) : World(plan, Random(plan.seed * 1000 + plan.schedule)) {}

World::World(const Plan& plan, Random random)
    : plan_(plan),
      longest_lease_(LongestLease(plan)),
      clock_steps_(ClockSteps(plan)),
      kernel_({.random = random,
               .preempt_one_in = plan.preempt_one_in,
               .longest_stall = plan.longest_stall_us * kMicro}),
      random_(kernel_.random().Fork()),
      network_(kernel_),
      oracle_(kernel_, plan.strict),
      start_(kernel_.now()) {
  // Native acquisitions and contention must meet often.
  for (const SharedObject& each : plan.objects) {
    const bool has_queue = each.redisson == Redisson::kNo || each.redisson == Redisson::kFairLock;
    if (each.own || !has_queue) oracle_.Unordered(each.name);
  }
  if (UsesRedisson(plan)) oracle_.UseRedisson();
  internal::longest_native_pause = plan.seed % 4 == 0 ? 1024 : plan.seed % 4;
}

World::~World() = default;

int64_t World::EndOf(const Fault& fault) const {
  // The last bytes that a slow link carries arrive as late as the others.
  const int64_t length = fault.length_ms * kMilli * (fault.kind == FaultKind::kDelay ? 2 : 1);
  const bool silent = fault.kind == FaultKind::kSwallow;
  return start_ + fault.at_ms * kMilli + (silent ? std::max(length, kMostSilence) : length);
}

// The time from which no fault has any effect: leases of dead clients have expired, and each waiter
// has sent a heartbeat.
int64_t World::QuietFrom() const {
  int64_t end = start_ + (plan_.latest_us > kSlowLink ? kSlowest : 0);
  for (const Fault& each : plan_.faults) {
    end = std::max(end, EndOf(each));
  }
  if (plan_.brief) return end + kHeartbeat + 5 * kSecond;
  int64_t rest = plan_.restart_delay_ms > 0 ? plan_.restart_delay_ms * kMilli + kHeartbeat : 0;
  rest += plan_.quarantine_ms * kMilli;
  if (end > start_) rest += LongestLease(plan_) + kHeartbeat + 5 * kSecond;
  if (end > start_ && UsesRedisson(plan_)) rest += kPlaceOfDead;
  for (const Fault& each : plan_.faults) {
    if (each.kind == FaultKind::kClockBack)
      rest += each.length_ms * kMilli;  // so leases are longer
  }
  return end + rest;
}

RunResult World::Run() {
  group_ = ServerGroup::Make({kernel_, network_, oracle_, plan_, [this] {
                                std::vector<Process*> clients;
                                for (const auto& each : actors_) clients.push_back(each->process());
                                return clients;
                              }});
  SetNumbers(/*at_first=*/true);
  const std::vector<std::string> urls = {group_->Url(), group_->OtherUrl()};
  for (size_t i = 0; i < plan_.clients.size(); ++i) {
    actors_.push_back(std::make_unique<Actor>(kernel_, oracle_, plan_, i, urls, QuietFrom()));
    actors_.back()->Start();
    for (const Address& address : group_->Addresses()) {
      Link& link = network_.Between(actors_.back()->process(), address);
      link.late_one_in = plan_.late_one_in;
      link.split_one_in = plan_.split_one_in;
      link.latest = std::max(link.slowest, plan_.latest_us * kMicro);
    }
  }
  int64_t faults_end = start_;
  if (plan_.latest_us > kSlowLink) faults_end = EndLateness();
  for (const Fault& fault : plan_.faults) {
    if (fault.kind == FaultKind::kRestartOld) {
      const int64_t before = static_cast<int64_t>(fault.detail % 400);
      if (!plan_.fsync)
        kernel_.At(start_ + std::max<int64_t>(fault.at_ms - before, 0) * kMilli, [this, &fault] {
          Host& host = group_->HostOf(fault);
          old_copies_[&host] = host.redis().TakeSnapshot().keys;
        });
    }
    kernel_.At(start_ + fault.at_ms * kMilli, [this, &fault] { Inject(fault); });
    faults_end = std::max(faults_end, EndOf(fault));
  }
  if (plan_.restart_delay_ms > 0) {
    faults_end = std::max(faults_end, start_ + plan_.restart_delay_ms * kMilli);
  }
  ExcuseIdleness();
  // By then the hold is renewed, and written again to servers that lost it.
  if (plan_.one_by_one) oracle_.DemandLasting(2 * LongestLease(plan_));
  CheckOften();
  const int64_t limit = QuietFrom() + (plan_.hour ? 3600 : 900) * kSecond;
  const bool done =
      kernel_.Run(limit, [this] { return AllDone() || !oracle_.violation().empty(); });
  if (!done) {
    std::vector<std::string> progress;
    for (const auto& actor : actors_) progress.push_back(actor->Progress());
    oracle_.Violated(
        absl::StrCat("P3: not all threads have ended: ", absl::StrJoin(progress, "; ")));
  }
  if (oracle_.violation().empty()) CheckTheEnd();
  if (Trace::enabled()) kernel_.Describe(stdout);
  result_.violation = oracle_.violation();
  result_.steps = kernel_.steps();
  result_.grants = oracle_.grants();
  if (!plan_.faults.empty()) {
    for (const auto& actor : actors_) {
      result_.calls += actor->calls();
      result_.judged_calls += actor->judged_calls();
    }
    if (!plan_.hour) {  // it would outweigh the others
      result_.used_ms = oracle_.used() / kMilli;
      result_.judged_ms = oracle_.judged() / kMilli;
    }
  }
  result_.hash = kernel_.trace_hash();
  result_.virtual_ms = (kernel_.now() - start_) / kMilli;
  for (const auto& host : group_->hosts()) {
    result_.scripts += host->scripts();
    for (const auto& [id, scripts] : host->redis().counts().grants) result_.requests += scripts;
  }
  return result_;
}

// Returns when segments are no longer late.
int64_t World::EndLateness() {
  const int64_t end = start_ + kSlowest;
  kernel_.At(end, [this] {
    for (const auto& actor : actors_) {
      for (const Address& address : group_->Addresses()) {
        network_.Between(actor->process(), address).late_one_in = 0;
      }
    }
  });
  return end;
}

void World::ExcuseIdleness() {
  // A quorum's next waiter has 100 ms to ask, and split votes cost pauses.
  const bool quorum = plan_.group == Group::kQuorum;
  int64_t handover = (quorum ? 400 : 100) * kMilli;
  // Locks of two clients, taken one by one, are tried in rounds of 50 ms, which fail more often the
  // more clients try.
  for (const SharedObject& each : plan_.objects) {
    const auto clients = static_cast<int64_t>(plan_.clients.size());
    if (each.apart > 1) handover = std::max({handover, 1000 * kMilli, clients * 100 * kMilli});
  }
  // A waiter that needs acks may ask for its grant only with the confirmation, 100 ms later.
  if (UsesAcks(plan_)) handover += 400 * kMilli;
  // Only a heartbeat is promised. For quorums and acks, it may take one after faults; for
  // Redisson's locks, a dead waiter's place may last for longer.
  const int64_t heartbeat = plan_.faults.empty() ? 0 : kHeartbeat + kSecond;
  const int64_t after_faults = quorum || UsesAcks(plan_) ? heartbeat : 0;
  if (UsesRedisson(plan_)) handover = std::max(handover, heartbeat);
  // A client may notice only at its next use that another server has the lock now.
  const bool moved = (plan_.group == Group::kSentinel || plan_.group == Group::kCluster) &&
                     std::any_of(plan_.faults.begin(), plan_.faults.end(),
                                 [](const Fault& each) { return each.kind > FaultKind::kCrash; });
  if (moved) handover += kSecond;
  // It waits for an address that no server has any more, at its next use, for `connect_timeout`.
  if (plan_.Has(FaultKind::kNewAddress)) handover += 2 * kSecond;
  // Messages that are lost with a subscription are made up for by the next subscription.
  const bool repaired = LosesNothing(plan_) && !plan_.faults.empty();
  if (repaired) handover += kSecond;
  // Each waiter that died may be given the lock, and has a claim.
  if (plan_.hour)
    handover = std::max(handover + after_faults, kHourCrashers * 2 * kSecond + kSecond);
  // Of several requests in a row, each may come too late. So may the last release of a client that
  // ends, as it does early if there are no faults.
  if (plan_.latest_us > kSlowLink) {
    handover += kHeartbeat + (plan_.faults.empty() ? LongestLease(plan_) : 0);
  }
  // A server that has restarted is young, or starts its quarantine, at its next use; so does each
  // slot of a cluster.
  handover += (plan_.restart_delay_ms + plan_.quarantine_ms) * kMilli +
              10 * plan_.latest_us * kMicro + LongestMargin(plan_);
  oracle_.SetLongestIdle(handover, handover + after_faults);
  // Young nodes of a quorum queue no waiters, and waiters for changed capacities need not come in
  // order. Nor do those who ask during a quarantine.
  // Nor does Redisson's queue know tickets, by which a waiter whose place was deleted gets it back.
  const bool loses_places = UsesRedisson(plan_) && plan_.Has(FaultKind::kDeleteKey);
  if (plan_.restart_delay_ms == 0 && !plan_.administers && !repaired && !loses_places &&
      plan_.latest_us <= 50'000) {
    int64_t turn_ms = quorum ? 1000 : 5;  // its nodes have no common order
    for (const SharedObject& each : plan_.objects) {
      turn_ms = std::max(turn_ms, each.turn_ms.value_or(0));
    }
    // If several clients split the votes, the first may let another go before it.
    oracle_.JudgeOrder((turn_ms + 15) * kMilli + 10 * plan_.latest_us * kMicro +
                           (moved || after_faults > 0 ? kSecond : 0) +
                           (plan_.faults.empty() ? 0 : plan_.quarantine_ms * kMilli),
                       /*most_overtaken=*/quorum ? 1 : 0);
  }
}

bool World::AllDone() const {
  return std::all_of(actors_.begin(), actors_.end(), [](const auto& each) { return each->done(); });
}

void World::CheckOften() {
  if (AllDone() || !oracle_.violation().empty()) return;
  group_->Tick();
  SetNumbers(/*at_first=*/false);
  oracle_.CheckIdle();
  for (const auto& host : group_->hosts()) {
    const std::string& busy = host->redis().counts().busy;
    if (!busy.empty() && !UsesRedisson(plan_)) oracle_.Violated("P8: " + busy);
    const std::string& brief = host->redis().keys().brief_tombstone();
    // A forced release of a quorum leaves one for what is left of the lease.
    const bool may_be_brief = plan_.administers && plan_.group == Group::kQuorum;
    if (!brief.empty() && !may_be_brief)
      oracle_.Violated(absl::StrCat("P2: the key ", brief, " ends at once"));
  }
  CheckChangedKeys();
  kernel_.After(20 * kMilli + random_.Between(0, 10 * kMilli), [this] { CheckOften(); });
}

void World::CheckChangedKeys() {
  uint64_t commands = 0;
  for (const auto& host : group_->hosts()) commands += host->commands();
  if (std::exchange(commands_, commands) != commands) changed_ = kernel_.now();
  // Replicas may receive the changes later.
  if (kernel_.now() - changed_ < 3 * kSecond) CheckKeys(/*all_gone=*/false);
}

// P6: how long that key may last from now on, by the server's clock.
int64_t World::LongestTtl(const std::string& key) const {
  const int64_t lease = longest_lease_ + longest_lease_ / 100;
  const int64_t steps = clock_steps_;
  if (absl::StartsWith(key, "redlatch:client:")) return kHour + steps;
  const auto ends = [&](std::initializer_list<const char*> suffixes) {
    return std::any_of(suffixes.begin(), suffixes.end(),
                       [&](const char* each) { return absl::EndsWith(key, each); });
  };
  if (key == "redlatch:quorum" || absl::StrContains(key, "reign")) return 30 * kDay + steps;
  // A cached grant reserves tokens for as long as its lease.
  if (ends({":fence"})) return kDay + 100 * kSecond + lease + steps;
  if (absl::StrContains(key, ".gone.")) {
    return (absl::StrContains(key, ":latch.") ? 30 * kSecond : lease) + steps;
  }
  // The longest heartbeat is 10 s. A simple lock's placeholder lives as long as its queue.
  if (ends({".queue", ".waiters", ".writers", ".observers"})) return 30 * kSecond + steps;
  for (const SharedObject& each : plan_.objects) {
    if (each.kind == Kind::kSemaphore && key == plan_.KeyOf(each))
      return kDay + 600 * kSecond + lease + steps;
    if (each.kind == Kind::kLatch && IsOfLatch(key)) return 600 * kSecond + steps;
  }
  return std::max(lease, 30 * kSecond) + steps;
}

// P6: every key ends, none later than it needs to. `all_gone`: it must be gone by now.
void World::CheckKeys(bool all_gone) {
  for (const auto& host : group_->hosts()) {
    // A cluster with a quarantine has a key in each slot.
    const bool many = host->redis().keys().size() > 500 || plan_.hour;
    if (!all_gone && many && !random_.OneIn(50)) continue;
    const Keyspace& keys = host->redis().keys();
    const int64_t now_ms = host->redis().clock() / 1000;
    // Keys that passed at an earlier time pass now.
    CheckedKeys& last = checked_[host.get()];
    if (!all_gone && last.changed == keys.last_change() && last.at_ms <= now_ms) continue;
    last = {.changed = keys.last_change(),
            .at_ms = now_ms,
            .latest_ms = std::max(last.latest_ms, now_ms)};
    std::string first;  // of the keys that break the promise, so that equal runs report the same
    int64_t its_expiry = 0;
    keys.ForEach([&](const std::string& key, int64_t expiry, const Value&) {
      const int64_t left = expiry == kNoExpiry ? kNever : (expiry - now_ms) * kMilli;
      const int64_t longest = LongestTtl(key);
      // No run lasts for half an hour after the last use of what lasts for a day.
      const bool prolonged = longest > kDay && !absl::StrContains(key, ".begun");
      const bool too_short =
          !all_gone && prolonged && left < longest - 2 * clock_steps_ - kHour / 2;
      const bool broken = !LastsForEver(key) &&
                          ((all_gone && longest <= kLongestLeft) || too_short || left > longest);
      if (broken && (first.empty() || key < first)) first = key, its_expiry = expiry;
    });
    if (plan_.hour && !all_gone) CheckSize(*host);
    if (!UsesRedisson(plan_)) CheckCompanions(keys, last.latest_ms);
    if (first.empty()) continue;
    if (all_gone && LongestTtl(first) <= kLongestLeft) {
      return oracle_.Violated(absl::StrCat("P6: the key ", first, " is left behind"));
    }
    return oracle_.Violated(absl::StrCat(
        "P6: the key ", first,
        its_expiry == kNoExpiry ? " has no expiry"
                                : absl::StrCat(" has ", its_expiry - now_ms, " ms left")));
  }
}

// P6: what belongs to a lock's key does not end before it. What had ended by `latest_ms` may be
// back after the clock was set back; scripts rebuild or ignore it.
void World::CheckCompanions(Keyspace keys, int64_t latest_ms) {
  namespace kinds = internal::kinds;
  for (const SharedObject& each : plan_.objects) {
    for (const std::string& name : each.Names()) {
      const std::string main = absl::StrCat(plan_.prefixed ? kKeyPrefix : "", name);
      const int64_t expiry = keys.Expiry(main);
      if (expiry == kNoExpiry) continue;
      for (const std::string_view suffix : {kinds::kHoldsSuffix, kinds::kWriteHoldsSuffix,
                                            kinds::kCountedSuffix, kinds::kLeaderSuffix}) {
        const int64_t its = keys.Expiry(internal::AuxiliaryKey(main, suffix));
        if (its >= expiry || its <= latest_ms) continue;
        // Left over from a lock whose key was deleted: see lua/reentrant/common/grants_key.
        const auto* const lock = std::get_if<Hash>(keys.Find(main));
        const bool counts = suffix == kinds::kHoldsSuffix || suffix == kinds::kWriteHoldsSuffix;
        if (counts && lock != nullptr && lock->Find("holds") == nullptr) continue;
        oracle_.Violated(absl::StrCat("P6: the ", std::string(suffix), " of ", name, " ends ",
                                      expiry - its, " ms before it"));
      }
    }
  }
}

// P6: waiters that died leave nothing that adds up, except their descriptions for an hour.
void World::CheckSize(Host& host) {
  constexpr size_t kMost = 16 << 10;
  size_t size = 0;
  host.redis().keys().ForEach([&](const std::string& key, int64_t, const Value& value) {
    if (!absl::StartsWith(key, "redlatch:client:")) size += key.size() + DumpValue(value).size();
  });
  Trace::Say("the keys of ", ToString(host.address()), " take ", size, " bytes");
  if (size <= kMost) return;
  oracle_.Violated(absl::StrCat("P6: the keys of a lock take ", size, " bytes"));
}

// P2: released locks are gone, although their leases would last longer.
void World::CheckNothingHeld() {
  for (const auto& host : group_->hosts()) {
    for (const std::string& key : host->redis().TakeSnapshot().keys.Keys()) {
      const bool stays =
          StaysAfterRelease(key) ||
          std::any_of(plan_.objects.begin(), plan_.objects.end(), [&](const auto& it) {
            return it.kind == Kind::kSemaphore && plan_.KeyOf(it) == key;  // its capacity
          });
      // A late request may keep its place in a queue until it is overdue. The record of a waiter
      // whose queue was deleted stays until no client has waited for a while.
      const bool queued =
          (plan_.brief || plan_.Has(FaultKind::kDeleteKey)) && absl::StartsWith(key, "redlatch:");
      // A forced release leaves the times of Redisson's readers, as Java does.
      if (plan_.administers && absl::StrContains(key, ":rwlock_timeout:")) continue;
      if (stays || queued || IsOfLatch(key) || LastsForEver(key)) continue;
      return oracle_.Violated(absl::StrCat("P2: the key ", key, " is at ",
                                           ToString(host->address()), ", and nothing is held"));
    }
  }
}

bool World::IsOfLatch(const std::string& key) const {
  return std::any_of(plan_.objects.begin(), plan_.objects.end(), [&](const auto& it) {
    return it.kind == Kind::kLatch &&
           (key == plan_.KeyOf(it) ||
            absl::StartsWith(key, absl::StrCat("redlatch:2:{", plan_.KeyOf(it), "}:")));
  });
}

// Redisson gives no expiry to its numbers, nor to the permits of a semaphore and a fair lock's
// queue.
bool World::LastsForEver(const std::string& key) const {
  return UsesRedisson(plan_) &&
         std::any_of(plan_.objects.begin(), plan_.objects.end(), [&](const SharedObject& it) {
           const std::string name = absl::StrCat("{", plan_.KeyOf(it), "}");
           switch (it.redisson) {
             case Redisson::kFencedLock:
               return key == absl::StrCat("redisson_lock_token:", name);
             case Redisson::kFairLock:
               return key == absl::StrCat("redisson_lock_queue:", name) ||
                      key == absl::StrCat("redisson_lock_timeout:", name);
             case Redisson::kSemaphore:
             case Redisson::kExpirableSemaphore:
               return key == plan_.KeyOf(it) || key == absl::StrCat(name, ":timeout") ||
                      key == absl::StrCat("redlatch:2:", name, ":redisson.permits");
             case Redisson::kLatch:
               return key == plan_.KeyOf(it);
             default:
               return false;
           }
         });
}

// A Java program sets the counts of latches at first, and the permits of semaphores whenever a
// server does not have them.
void World::SetNumbers(bool at_first) {
  if (!UsesRedisson(plan_)) return;
  for (const SharedObject& each : plan_.objects) {
    const bool sets = each.kind == Kind::kSemaphore || (each.kind == Kind::kLatch && at_first);
    const std::string key = plan_.KeyOf(each);
    for (const auto& host : group_->hosts()) {
      if (!sets || !host->up() || host->hangs() || host->redis().Has(key)) continue;
      host->redis().Execute({"SET", key, absl::StrCat(each.capacity)});
    }
  }
}

void World::CheckTheEnd() {
  const auto broken = [this] { return !oracle_.violation().empty(); };
  // A claim that no client took expires by itself, and so does a hold that was lost less than its
  // margin before its client ended.
  kernel_.Run(kernel_.now() + 3 * kSecond + LongestMargin(plan_), broken);
  // Over a slow link, the last release of a client that ends may be lost.
  if (plan_.latest_us <= kSlowLink) CheckNothingHeld();
  kernel_.Run(kernel_.now() + kLongestLeft, broken);
  CheckKeys(/*all_gone=*/true);
}

void World::Inject(const Fault& fault) {
  kernel_.CountStep();
  ++result_.faults[static_cast<size_t>(fault.kind)];
  Trace::Say("fault: ", Describe(fault));
  if (plan_.fsync && fault.kind == FaultKind::kRestartOld) {
    old_copies_[&group_->HostOf(fault)] = group_->HostOf(fault).on_disk();
  }
  if (LosesData(fault.kind) && fault.kind != FaultKind::kClockForward) {
    oracle_.LosesCounts(EndOf(fault) + 2 * kSecond, LosesCounts(fault));
  }
  Excuse(fault);
  InjectIntoNetwork(fault);
  InjectIntoClient(fault);
  InjectIntoServer(fault);
  group_->Inject(fault);
}

// No other fault may delay what a client's end makes the others wait for.
bool World::IsAlone(const Fault& fault) const {
  return plan_.late_one_in == 0 &&
         std::all_of(plan_.faults.begin(), plan_.faults.end(), [&](const Fault& other) {
           const int64_t at = start_ + fault.at_ms * kMilli;
           return Kills(other.kind) || EndOf(other) + 5 * kSecond < at ||
                  start_ + (other.at_ms - 1000) * kMilli > at;
         });
}

// How long clients that end may leave an object taken. If a client has the object or its request is
// in flight, that is its lease; otherwise only a claim, except as guarantees.md says.
int64_t World::LeftTaken(const Fault& fault, const SharedObject& object) {
  const int64_t lease = LongestLease(plan_, object);
  if (!IsAlone(fault) || LongestMargin(plan_) > 0) return lease;
  int64_t sum = 0;
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (!Concerns(fault, i)) continue;
    const Process* const process = actors_[i]->process();
    const bool exits = EndingOf(fault, i) == Actor::Ending::kExit;
    const auto& threads = plan_.clients[i].threads;
    const bool writes_itself =  // threads of the client write releases
        std::any_of(threads.begin(), threads.end(), [](const auto& thread) {
          return std::any_of(thread.begin(), thread.end(), [](const Operation& each) {
            return each.interface == Operation::Interface::kAcquireAsync ||
                   each.leave == Operation::Leave::kReleaseAsync;
          });
        });
    for (const std::string& name : object.Names()) {
      const bool asks = oracle_.HasOrWants(process, name) && (!exits || object.apart > 0);
      const bool keeps = !exits && (object.keep_ms > 0 || writes_itself);
      if (!oracle_.Uses(process, name)) continue;
      if (asks || keeps || oracle_.Has(process, name)) return lease;
      if (!exits) sum += 2 * kSecond;
    }
  }
  return sum;
}

// How long a fault may keep clients waiting for an object after its end.
int64_t World::Recovery(const Fault& fault, const SharedObject& object) {
  // A hold whose client is dead, or that a server has again.
  const bool kills = Kills(fault.kind);
  const bool stays = fault.kind == FaultKind::kRestartOld || fault.kind == FaultKind::kClockBack ||
                     fault.kind == FaultKind::kFailover || fault.kind == FaultKind::kTwoPrimaries ||
                     Denies(fault);
  const bool of_client = fault.kind <= FaultKind::kCrash || fault.kind == FaultKind::kCrashMany;
  const int64_t again = of_client ? kSecond : 2 * kSecond;
  const bool keeps_place = kills && object.redisson == Redisson::kFairLock;
  const int64_t taken = kills ? LeftTaken(fault, object) : 0;
  return again + (stays ? LongestLease(plan_, object) : taken) + (keeps_place ? kPlaceOfDead : 0);
}

// Excuses what the fault may delay, and whose calls may fail.
void World::Excuse(const Fault& fault) {
  if (LosesNothing(plan_)) return;
  int64_t end = EndOf(fault);
  // The last request of a client that ends may arrive when another fault ends.
  for (const Fault& other : plan_.faults) {
    if (Kills(fault.kind) && other.at_ms < fault.at_ms + 1000) end = std::max(end, EndOf(other));
  }
  const auto used_by_the_dead = [&](const std::string& name) {
    return std::any_of(actors_.begin(), actors_.end(), [&](const auto& each) {
      return Concerns(fault, static_cast<size_t>(&each - actors_.data())) &&
             oracle_.Uses(each->process(), name);
    });
  };
  for (const SharedObject& each : plan_.objects) {
    if (plan_.hour) break;  // the bound covers it
    const std::vector<std::string> names = each.Names();
    // If one of several locks stays taken, the others may be waited for as well.
    if (Kills(fault.kind) && std::none_of(names.begin(), names.end(), used_by_the_dead)) continue;
    for (const std::string& name : names) oracle_.Excuse(name, end + Recovery(fault, each));
  }
  // A client may notice that its connection is broken only when it uses that next.
  const bool breaks = fault.kind >= FaultKind::kCut && fault.kind != FaultKind::kPause &&
                      fault.kind != FaultKind::kSuspend;
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (!Concerns(fault, i)) continue;
    // A server's old address does not even refuse a connection.
    const bool silent = fault.kind == FaultKind::kNewAddress;
    const int64_t until = end + (silent ? 35 : breaks ? 5 : 1) * kSecond;
    // A server whose memory is full still renews our own locks.
    const bool renews = IsOutOfMemory(fault) && !UsesRedisson(plan_);
    renews ? actors_[i]->ExcuseCalls(until) : actors_[i]->ExcuseCallsAndLosses(until);
    // It may have missed a message, or its place in the queue may be lost.
    oracle_.Excuse(actors_[i]->process(), end + kHeartbeat + 5 * kSecond);
  }
}

// Living clients repeat the counts that an older copy lacks, if the copy has the latch.
bool World::LosesCounts(const Fault& fault) {
  if (UsesRedisson(plan_) || plan_.Has(FaultKind::kCrash) || plan_.Has(FaultKind::kCrashMany)) {
    return true;
  }
  // The group knows what a new primary lacks.
  if (fault.kind == FaultKind::kFailover || fault.kind == FaultKind::kTwoPrimaries) return false;
  if (fault.kind != FaultKind::kRestartOld) return true;
  const std::vector<std::string> kept = old_copies_[&group_->HostOf(fault)].Keys();
  return std::any_of(plan_.objects.begin(), plan_.objects.end(), [&](const SharedObject& each) {
    return each.kind == Kind::kLatch &&
           std::find(kept.begin(), kept.end(), plan_.KeyOf(each)) == kept.end();
  });
}

void World::InjectIntoNetwork(const Fault& fault) {
  Process* const process = actors_[static_cast<size_t>(fault.client)]->process();
  const Address address = group_->HostOf(fault).address();
  const int64_t length = fault.length_ms * kMilli;
  Link& link = network_.Between(process, address);
  switch (fault.kind) {
    case FaultKind::kDelay:
      link.extra += length;
      return kernel_.After(length, [&link, length] { link.extra -= length; });
    case FaultKind::kHoldUp:
    case FaultKind::kHoldDown:
    case FaultKind::kPartition:
      link.up_held = fault.kind != FaultKind::kHoldDown;
      link.down_held = fault.kind != FaultKind::kHoldUp;
      return kernel_.After(length, [this, process, address] {
        Link& its = network_.Between(process, address);
        its.up_held = its.down_held = false;
        network_.LinkChanged(process, address);
      });
    case FaultKind::kCut:
    case FaultKind::kSwallow: {
      const std::vector<uint64_t> connections = network_.ConnectionsOf(process, address);
      if (connections.empty()) return;
      const uint64_t one = connections[fault.detail % connections.size()];
      return fault.kind == FaultKind::kCut ? network_.Cut(one, length) : network_.Swallow(one);
    }
    default:
      return;
  }
}

void World::InjectIntoClient(const Fault& fault) {
  Actor& actor = *actors_[static_cast<size_t>(fault.client)];
  Process* const process = actor.process();
  const int64_t length = fault.length_ms * kMilli;
  switch (fault.kind) {
    case FaultKind::kPause:
      kernel_.Pause(process);
      return kernel_.After(length, [this, process] { kernel_.Resume(process); });
    case FaultKind::kSuspend:
      kernel_.Suspend(process);
      return kernel_.After(length, [this, process] { kernel_.WakeFromSuspend(process); });
    case FaultKind::kCrash:
      return End(fault, static_cast<size_t>(fault.client));
    case FaultKind::kCrashMany:
      for (size_t i = 0; i < actors_.size(); ++i) {
        if (!Concerns(fault, i)) continue;
        kernel_.After(random_.Between(0, 5 * kMilli), [this, i, &fault] { End(fault, i); });
      }
      return;
    default:
      return;
  }
}

Actor::Ending World::EndingOf(const Fault& fault, size_t client) const {
  const auto how = static_cast<Actor::Ending>((fault.detail / 8 + client) % 3);
  // A waiter that waits on gets through no operation.
  return plan_.hour && how == Actor::Ending::kQuickExit ? Actor::Ending::kKilled : how;
}

void World::End(const Fault& fault, size_t client) {
  Actor& actor = *actors_[client];
  const Process* const process = actor.process();
  if (actor.done() || actor.ends() || process->dead) return;
  if (plan_.hour) {
    const std::string& name = plan_.objects[0].name;
    // While another client has the lock, the waiter cannot be confirming its own grant.
    const auto has = [&](const auto& each) { return oracle_.Has(each->process(), name); };
    const bool waits = oracle_.HasOrWants(process, name) && !oracle_.Has(process, name) &&
                       std::any_of(actors_.begin(), actors_.end(), has);
    if (!waits && kernel_.now() < EndOf(fault)) {
      return kernel_.After(20 * kMilli, [this, &fault, client] { End(fault, client); });
    }
    if (!waits) return;
  }
  const Actor::Ending how = EndingOf(fault, client);
  actor.End(how, [this, &fault] { Excuse(fault); });
  // A process that hangs, or whose threads all wait, is killed then.
  const int64_t latest = how == Actor::Ending::kKilled ? 0 : 200 * kMilli;
  kernel_.After(latest, [this, &fault, &actor, process] {
    if (actor.done() || actor.process() != process) return;
    actor.Die();
    kernel_.After(fault.length_ms * kMilli, [&actor] { actor.Start(); });
  });
}

// Returns true if the fault is not one of other clients.
bool World::Concerns(const Fault& fault, size_t client) const {
  const bool mine = client == static_cast<size_t>(fault.client);
  if (fault.kind == FaultKind::kCrashMany) return !mine;
  return mine || fault.kind > FaultKind::kCrash;
}

void World::InjectIntoServer(const Fault& fault) {
  Host& host = group_->HostOf(fault);
  const int64_t length = fault.length_ms * kMilli;
  switch (fault.kind) {
    case FaultKind::kStopServer:
      return host.Stop(length);
    case FaultKind::kRestart:
    case FaultKind::kRestartEmpty:
    case FaultKind::kRestartOld:
      return Restart(fault, host);
    case FaultKind::kReplicaLag:
      return plan_.fsync ? host.HangDisk(length) : void();
    case FaultKind::kFlushScripts:
      return host.redis().FlushScripts();
    case FaultKind::kKillPubSub:
      return host.redis().KillConnections(RedisServer::Clients::kPubSub);
    case FaultKind::kRefuse:
      return Refuse(fault, host);
    case FaultKind::kRefuseFirst: {
      constexpr bool Conditions::*kWays[] = {&Conditions::loading, &Conditions::out_of_memory,
                                             &Conditions::cannot_save, &Conditions::few_replicas};
      host.redis().conditions.first = kWays[fault.detail % std::size(kWays)];
      host.redis().KillConnections(RedisServer::Clients::kAll);
      return kernel_.After(length, [&host] { host.redis().conditions.first = nullptr; });
    }
    case FaultKind::kClockForward:
      host.clock().offset += length;
      return oracle_.LostData(kernel_.now() + LongestLease(plan_));
    case FaultKind::kClockBack:
      host.clock().offset -= length;
      // If the data is lost after that, tokens rely on a clock that is behind.
      for (const Fault& each : plan_.faults) {
        if (LosesData(each.kind) && each.at_ms + each.length_ms >= fault.at_ms) {
          oracle_.TokensMayFall();
        }
      }
      return;
    case FaultKind::kDeleteKey: {
      const std::vector<std::string> keys = host.redis().TakeSnapshot().keys.Keys();
      if (keys.empty()) return;
      oracle_.LostWrites(kernel_.now() + 2 * LongestLease(plan_));
      host.redis().Execute({"DEL", keys[fault.detail % keys.size()]});
      return;
    }
    default:
      return;
  }
}

void World::Restart(const Fault& fault, Host& host) {
  if (!host.up()) return;
  // First of all, since it ends moves of slots, which move keys.
  group_->GoDown(host, /*silently=*/fault.detail % 2 == 0);
  Keyspace data = host.redis().TakeSnapshot().keys;
  if (fault.kind == FaultKind::kRestartEmpty) data = Keyspace();
  const bool old = fault.kind == FaultKind::kRestartOld;
  if (old) data = old_copies_[&host];
  if (LosesData(fault.kind) && plan_.restart_delay_ms == 0 && group_->Decides(host)) {
    const int64_t until = kernel_.now() + fault.length_ms * kMilli + LongestLease(plan_);
    old&& plan_.fsync ? oracle_.FailedOver(until, /*acks_protect=*/true, false, false)
                      : oracle_.LostWrites(until);
  }
  kernel_.After(fault.length_ms * kMilli, [this, &host, data] { group_->ComeUp(host, data); });
}

void World::Refuse(const Fault& fault, Host& host) {
  RedisServer& redis = host.redis();
  switch (fault.detail % 7) {
    case 0:
      redis.conditions.loading = true;
      break;
    case 1:
      redis.conditions.busy = true;
      break;
    case 2:
      redis.conditions.out_of_memory = true;
      break;
    case 3:
      redis.conditions.cannot_save = true;
      break;
    case 4:
      redis.conditions.few_replicas = true;
      break;
    case 5:
      redis.permissions.denied_commands = {"publish", "spublish"};
      break;
    default:
      redis.permissions.denied_commands = {"evalsha", "eval"};
  }
  kernel_.After(fault.length_ms * kMilli, [&host] {
    host.redis().conditions = {.few_replicas = host.few_replicas()};
    host.redis().permissions = {};
  });
}

}  // namespace redlatch::sim
