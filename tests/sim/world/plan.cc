#include "tests/sim/world/plan.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/sim/random.h"

namespace redlatch::sim {
namespace {

constexpr const char* kFaultNames[] = {
    "delay",        "hold_up",       "hold_down",   "partition",   "cut",           "swallow",
    "pause",        "suspend",       "crash",       "stop_server", "restart",       "restart_empty",
    "restart_old",  "flush_scripts", "kill_pubsub", "refuse",      "clock_forward", "clock_back",
    "failover",     "two_primaries", "move_slot",   "delete_key",  "replica_lag",   "sentinel_down",
    "cluster_down", "new_address"};
static_assert(std::size(kFaultNames) == static_cast<size_t>(FaultKind::kCount));

int64_t OneOf(Random& random, std::initializer_list<int64_t> values) {
  return values.begin()[random.Below(values.size())];
}

SharedObject MakeObject(Random& random, int number, Group group) {
  SharedObject object;
  // A third of the objects are simple locks, on which the others are built.
  object.kind = random.OneIn(3) ? Kind::kSimple : static_cast<Kind>(random.Below(6));
  if (group == Group::kQuorum) object.kind = Kind::kSimple;  // this makes it a RedLock
  object.name = absl::StrCat("o", number);
  object.lease_ms = OneOf(random, {300, 600, 1000, 3000, 30'000});
  if (object.kind == Kind::kSemaphore) object.capacity = random.Between(1, kLargestCapacity);
  // three names, of which an operation takes any
  if (object.kind == Kind::kMulti) object.capacity = 7;
  if (object.kind == Kind::kLatch) object.capacity = random.Between(1, 6);
  if (number % 2 == 1) object.turn_ms.reset();
  if (random.OneIn(4)) object.turn_ms = random.Between(1, 50);
  if (random.OneIn(4) && group != Group::kQuorum) object.keep_ms = OneOf(random, {20, 200, 5000});
  object.phase_fair = random.OneIn(2);
  return object;
}

Operation MakeOperation(Random& random, const Plan& plan) {
  using Interface = Operation::Interface;
  Operation operation;
  operation.object = static_cast<int>(random.Below(plan.objects.size()));
  const SharedObject& object = plan.objects[static_cast<size_t>(operation.object)];
  operation.interface = static_cast<Interface>(random.Below(6));
  if (random.OneIn(20)) operation.interface = Interface::kInspect;
  if (plan.administers && random.OneIn(8)) {
    operation.interface = random.OneIn(2) ? Interface::kForceRelease : Interface::kSetCapacity;
  }
  operation.owner = random.OneIn(6);
  operation.leave = static_cast<Operation::Leave>(random.Below(3));
  operation.shared = object.kind == Kind::kReadWrite && !random.OneIn(3);
  operation.nested = random.OneIn(5);
  operation.permits = random.Between(1, object.capacity);
  if (operation.interface == Interface::kTryLockFor || random.OneIn(3)) {
    operation.wait_ms = OneOf(random, {0, 1, 20, 500, 5000});
  }
  if (random.OneIn(5)) operation.lease_ms = OneOf(random, {100, 500, 4000});
  if (operation.lease_ms > 0 && random.OneIn(3)) operation.extend_ms = OneOf(random, {200, 2000});
  if (random.OneIn(8)) operation.stop_ms = random.Between(0, 300);
  operation.whole_lease = random.OneIn(4);
  operation.pause_us = random.OneIn(2) ? 0 : random.Between(0, 5000);
  operation.work_us = random.OneIn(3) ? 0 : random.Between(0, random.OneIn(6) ? 800'000 : 3000);
  return operation;
}

bool Replicated(Group group) { return group == Group::kSentinel || group == Group::kCluster; }

bool Fits(FaultKind kind, Group group) {
  switch (kind) {
    case FaultKind::kFailover:
    case FaultKind::kTwoPrimaries:
    case FaultKind::kReplicaLag:
      return group == Group::kSentinel || group == Group::kCluster;
    case FaultKind::kSentinelDown:
      return group == Group::kSentinel;
    case FaultKind::kMoveSlot:
    case FaultKind::kClusterDown:
    case FaultKind::kNewAddress:
      return group == Group::kCluster;
    case FaultKind::kClockForward:  // tokens after a failover rely on equal clocks
    case FaultKind::kClockBack:
      return group == Group::kSingle || group == Group::kQuorum;
    default:
      return true;
  }
}

enum class Faults : uint8_t {
  kAny,
  kAlike,        // all are of one kind
  kLoseNothing,  // see LosesNothing()
  kPass,         // clients and servers continue afterwards, with all their data
};

void AddFaults(Random& random, Plan& plan, const PlanLimits& limits, Faults which) {
  // A run in five has no faults. Then nothing may take longer than a handover.
  if (random.OneIn(5)) return;
  int64_t end = OneOf(random, {500, 3000, 15'000});
  uint64_t count = 1 + random.Below(random.OneIn(3) ? 12 : 4);
  if (which == Faults::kLoseNothing || which == Faults::kPass) {
    count = 12;
    end = random.OneIn(2) ? 100 : 2000;  // while threads work
  }
  // Later kinds exist for replicated servers only.
  const FaultKind last = Replicated(plan.group) ? FaultKind::kNewAddress : FaultKind::kDeleteKey;
  while (plan.faults.size() < count) {
    Fault fault;
    fault.kind = static_cast<FaultKind>(random.Below(static_cast<uint64_t>(last) + 1));
    if (which == Faults::kAlike && !plan.faults.empty()) fault.kind = plan.faults[0].kind;
    if (which == Faults::kLoseNothing) {
      fault.kind = random.OneIn(3) ? FaultKind::kFlushScripts : FaultKind::kKillPubSub;
    }
    fault.at_ms = random.Between(0, end);
    fault.client = static_cast<int>(random.Below(plan.clients.size()));
    fault.server = static_cast<int>(random.Below(static_cast<uint64_t>(plan.servers)));
    fault.length_ms = OneOf(random, {2, 20, 200, 1000, 4000});
    fault.detail = random.Bits();
    if (which == Faults::kPass) {
      constexpr FaultKind kinds[] = {
          FaultKind::kHoldUp, FaultKind::kHoldDown, FaultKind::kCut,   FaultKind::kPartition,
          FaultKind::kDelay,  FaultKind::kSwallow,  FaultKind::kPause, FaultKind::kStopServer};
      fault.kind = kinds[random.Below(std::size(kinds))];
    }
    const bool wanted = (limits.faults >> static_cast<unsigned>(fault.kind) & 1) != 0;
    if (wanted && Fits(fault.kind, plan.group)) plan.faults.push_back(fault);
    if (!wanted && limits.faults == 0) return;
  }
  std::sort(plan.faults.begin(), plan.faults.end(),
            [](const Fault& a, const Fault& b) { return a.at_ms < b.at_ms; });
}

// Makes some runs special. It uses its own random numbers, so the other runs stay unchanged.
void Vary(Random& random, Plan& plan) {
  const bool patient = random.OneIn(4);
  const bool counts = random.OneIn(8) && plan.group != Group::kQuorum;
  const bool apart = random.OneIn(8) && plan.group != Group::kQuorum;
  SharedObject& first = plan.objects[0];
  if (apart) {
    first.kind = Kind::kMulti;
    first.apart = random.OneIn(2) ? 1 : 2;
    first.capacity = 7;
    first.replica_acks = 0;
  } else if (counts) {
    first.kind = Kind::kLatch;
    first.capacity = random.Between(5, 40);
    first.replica_acks = 0;
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        const SharedObject& object = plan.objects[static_cast<size_t>(each.object)];
        if (each.object == 0 && (apart || counts)) {
          each.shared = false;
          each.permits = random.Between(1, object.capacity);
        }
        if (object.kind == Kind::kLatch && counts && random.OneIn(4)) {
          each.interface = Operation::Interface::kInspect;
        }
        if (!patient) continue;
        if (random.OneIn(3)) each.work_us = random.Between(0, 4'000'000);
        if (random.OneIn(3)) each.stop_ms = random.Between(0, 2000);
      }
    }
  }
}

// Makes the first object an election.
void HoldElection(Plan& plan) {
  SharedObject& first = plan.objects[0];
  first.kind = Kind::kElection;
  first.capacity = 1;
  first.keep_ms = first.apart = 0;
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        if (each.object != 0) continue;
        each.shared = false;
        each.permits = 1;
      }
    }
  }
}

// So many waiting clients that the scripts need several calls for them.
void AddManyWaiters(Random& random, Plan& plan) {
  SharedObject object = MakeObject(random, 0, plan.group);
  if (random.OneIn(2)) object.kind = Kind::kLatch;
  if (object.kind == Kind::kLatch) object.capacity = 2;
  object.lease_ms = 30'000;
  plan.objects = {object};
  plan.preempt_one_in = 0;
  plan.administers = false;
  plan.clients.resize(static_cast<size_t>(random.Between(66, 90)));
  for (ClientPlan& client : plan.clients) {
    Operation operation = MakeOperation(random, plan);
    operation.interface =
        random.OneIn(2) ? Operation::Interface::kAcquire : Operation::Interface::kAcquireAsync;
    operation.wait_ms = operation.stop_ms = -1;
    operation.work_us = random.Between(0, 1000);
    client.threads = {{operation}};
  }
  // The last client comes when the others wait: it counts, or holds what they want until then.
  Operation last = MakeOperation(random, plan);
  last.interface = Operation::Interface::kLock;
  last.pause_us = object.kind == Kind::kLatch ? 300'000 : 0;
  last.work_us = 300'000;
  plan.clients.back().threads = {{last, last}};
}

// Each server of a quorum restarts without its data, once the holds have been written again to the
// previous one. One hold outlives all of that.
void RestartOneByOne(Random& random, Plan& plan) {
  plan.one_by_one = true;
  plan.latest_us = std::min<int64_t>(plan.latest_us, 50'000);
  for (SharedObject& each : plan.objects) each.lease_ms = OneOf(random, {1000, 2000});
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      // so that the client renews
      for (Operation& each : thread) each.lease_ms = each.extend_ms = 0;
    }
  }
  const int64_t apart_ms = 5000 + plan.restart_delay_ms;
  for (int server = 0; server < plan.servers; ++server) {
    plan.faults.push_back({.at_ms = (server + 1) * apart_ms,
                           .kind = FaultKind::kRestartEmpty,
                           .server = server,
                           .length_ms = OneOf(random, {2, 20, 200, 1000}),
                           .detail = random.Bits()});
  }
  Operation& lasts = plan.clients[0].threads[0][0];
  lasts = {.object = 0, .work_us = (plan.servers + 1) * apart_ms * 1000};
}

// Once the faults are over and have no effect left, each thread works on: first to find its broken
// connections, and a while later under normal conditions.
void AddCalm(Random& random, Plan& plan) {
  if (plan.faults.empty()) return;
  int64_t longest_ms = 30'000;  // a quiet subscription is pinged after this time
  for (const SharedObject& each : plan.objects) {
    longest_ms = std::max(longest_ms, each.lease_ms + each.grace_ms);
  }
  int64_t quiet_ms = 0;
  for (const Fault& each : plan.faults) quiet_ms = std::max(quiet_ms, each.at_ms + each.length_ms);
  quiet_ms += longest_ms + 17'000 + plan.quarantine_ms + plan.restart_delay_ms;
  const int64_t calm_ms = quiet_ms + 13'000;
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (const int64_t begins : {quiet_ms, calm_ms, calm_ms, calm_ms}) {
        Operation operation = MakeOperation(random, plan);
        operation.interface =
            random.OneIn(2) ? Operation::Interface::kLock : Operation::Interface::kAcquire;
        operation.wait_ms = operation.stop_ms = -1;
        operation.lease_ms = operation.extend_ms = 0;
        operation.not_before_ms = begins;
        thread.push_back(operation);
      }
    }
  }
}

}  // namespace

const char* Name(FaultKind kind) { return kFaultNames[static_cast<size_t>(kind)]; }

const char* Name(Group group) {
  constexpr const char* kNames[] = {"single", "sentinel", "cluster", "quorum"};
  return kNames[static_cast<size_t>(group)];
}

const char* Name(Kind kind) {
  constexpr const char* kNames[] = {"simple lock", "reentrant lock", "read-write lock", "semaphore",
                                    "latch",       "multi-lock",     "election"};
  return kNames[static_cast<size_t>(kind)];
}

bool LosesData(FaultKind kind) {
  switch (kind) {
    case FaultKind::kRestartEmpty:
    case FaultKind::kRestartOld:
    case FaultKind::kFailover:
    case FaultKind::kTwoPrimaries:
    case FaultKind::kDeleteKey:
    case FaultKind::kClockForward:
      return true;
    default:
      return false;
  }
}

bool LosesData(const Plan& plan) {
  return std::any_of(plan.faults.begin(), plan.faults.end(),
                     [](const Fault& each) { return LosesData(each.kind); });
}

bool LosesNothing(const Plan& plan) {
  return std::all_of(plan.faults.begin(), plan.faults.end(), [](const Fault& each) {
    return each.kind == FaultKind::kKillPubSub || each.kind == FaultKind::kFlushScripts;
  });
}

bool Plan::Has(FaultKind kind) const {
  return std::any_of(faults.begin(), faults.end(),
                     [=](const Fault& each) { return each.kind == kind; });
}

bool UsesAcks(const Plan& plan) {
  return std::any_of(plan.objects.begin(), plan.objects.end(),
                     [](const SharedObject& each) { return each.replica_acks > 0; });
}

int64_t LongestLease(const Plan& plan) {
  int64_t longest = 0;
  for (const SharedObject& each : plan.objects) {
    longest = std::max(longest, LongestLease(plan, each));
  }
  return longest;
}

int64_t LongestLease(const Plan& plan, const SharedObject& object) {
  int64_t longest = std::max<int64_t>(2000, object.lease_ms);  // a claim lasts for 2 s
  for (const ClientPlan& client : plan.clients) {
    for (const auto& thread : client.threads) {
      for (const Operation& each : thread) {
        if (&plan.objects[static_cast<size_t>(each.object)] != &object) continue;
        longest = std::max({longest, each.lease_ms, each.extend_ms, each.at_least_ms});
      }
    }
  }
  return longest * 1'000'000 + LongestMargin(plan);
}

int64_t LongestMargin(const Plan& plan) {
  int64_t longest = 0;
  for (const SharedObject& each : plan.objects) {
    longest = std::max(longest, each.stop_margin_ms + each.grace_ms);
  }
  return longest * 1'000'000;
}

Plan MakePlan(uint64_t seed, const PlanLimits& limits) {
  Plan plan = MakePlan(Random(seed), limits);
  plan.seed = seed;
  return plan;
}

// Has the holds of some locks told of waiters. An election refuses that option.
static void LetSomeTell(Random random, Plan& plan) {
  for (SharedObject& each : plan.objects) {
    each.tells = random.OneIn(3) && each.kind != Kind::kElection;
  }
}

// Most operations are lock() and its kin of simple locks, which are acquired natively.
static void PreferNative(Random random, Plan& plan) {
  for (SharedObject& each : plan.objects) {
    if (random.OneIn(4)) continue;
    each.kind = Kind::kSimple;
    each.keep_ms = each.replica_acks = each.apart = 0;
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        if (plan.objects[static_cast<size_t>(each.object)].kind != Kind::kSimple) continue;
        each.shared = each.nested = each.owner = false;
        each.permits = 1;
        if (each.interface >= Operation::Interface::kInspect || random.OneIn(8)) continue;
        each.interface = random.OneIn(2) ? Operation::Interface::kLock
                                         : static_cast<Operation::Interface>(random.Below(3));
        each.whole_lease = false;
        if (each.interface == Operation::Interface::kTryLockFor && each.wait_ms < 0) {
          each.wait_ms = 500;
        }
        each.pause_us *= random.Between(1, 8);
      }
    }
  }
}

// Gives locks a stop_margin, a grace and an at_most, and some operations an at_least.
static void AddMargins(Random random, Plan& plan) {
  for (SharedObject& each : plan.objects) {
    if (each.kind > Kind::kReadWrite) continue;
    each.stop_margin_ms = each.lease_ms / OneOf(random, {2, 3, 10});
    if (random.OneIn(3)) each.grace_ms = OneOf(random, {50, 500, 3000});
    if (random.OneIn(3)) each.at_most_ms = each.lease_ms * OneOf(random, {1, 2, 5});
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        const SharedObject& object = plan.objects[static_cast<size_t>(each.object)];
        const bool may_stay_taken = object.kind <= Kind::kReadWrite && !each.shared &&
                                    !each.owner &&
                                    each.interface >= Operation::Interface::kAcquire &&
                                    each.interface <= Operation::Interface::kAcquireAsync;
        if (may_stay_taken && random.OneIn(4)) each.at_least_ms = OneOf(random, {20, 400, 1500});
        if (each.lease_ms == 0) continue;
        each.lease_ms = std::max(each.lease_ms, 2 * object.stop_margin_ms);
        if (object.at_most_ms > 0) each.lease_ms = std::min(each.lease_ms, object.at_most_ms);
      }
    }
  }
}

Plan MakePlan(Random random, const PlanLimits& limits) {
  Random copy = random;
  Random special = copy.Fork();
  Random native = copy.Fork();
  Random elections = copy.Fork();
  Random margins = copy.Fork();
  const Random tells = copy.Fork();
  Plan plan;
  plan.group = limits.any_group ? static_cast<Group>(random.Below(4)) : limits.group;
  plan.servers = plan.group == Group::kSingle ? 1 : 3;
  if (plan.group == Group::kSentinel && random.OneIn(2)) plan.quarantine_ms = 4000;
  if (plan.group == Group::kCluster && random.OneIn(48)) plan.quarantine_ms = 4000;
  if (Replicated(plan.group)) plan.min_replicas = plan.quarantine_ms > 0 || random.OneIn(2);
  if (plan.group == Group::kQuorum && random.OneIn(2)) plan.restart_delay_ms = 4000;
  plan.preempt_one_in = static_cast<uint64_t>(OneOf(random, {0, 100, 20, 5}));
  if (random.OneIn(3)) {
    plan.late_one_in = static_cast<uint64_t>(OneOf(random, {5, 50}));
    plan.latest_us = OneOf(random, {2000, 50'000, 1'500'000});
  }
  if (random.OneIn(3)) plan.server_clock_speed = random.OneIn(2) ? 1.005 : 0.995;
  plan.administers = random.OneIn(6);
  const int objects = random.OneIn(2) ? 1 : static_cast<int>(random.Between(1, 3));
  for (int i = 0; i < objects; ++i) {
    SharedObject object = MakeObject(random, i, plan.group);
    const int64_t longest = std::max(plan.quarantine_ms, plan.restart_delay_ms) / 2;
    if (longest > 0) object.lease_ms = std::min(object.lease_ms, longest);
    object.keep_ms = std::min(object.keep_ms, object.lease_ms);
    const bool lock = object.kind != Kind::kSemaphore && object.kind != Kind::kLatch;
    if (Replicated(plan.group) && lock && random.OneIn(3)) {
      object.replica_acks = plan.group == Group::kSentinel ? 2 : 1;
    }
    plan.objects.push_back(std::move(object));
  }
  const int64_t clients = random.Between(1, 4);
  for (int64_t i = 0; i < clients; ++i) {
    ClientPlan client;
    if (random.OneIn(3)) client.clock_speed = random.OneIn(2) ? 1.004 : 0.996;
    client.threads.resize(1 + random.Below(3));
    for (auto& thread : client.threads) {
      const uint64_t operations = 1 + random.Below(random.OneIn(4) ? 60 : 20);
      for (uint64_t k = 0; k < operations; ++k) {
        thread.push_back(MakeOperation(random, plan));
        if (plan.quarantine_ms == 0) continue;
        Operation& made = thread.back();
        made.lease_ms = std::min(made.lease_ms, plan.quarantine_ms / 2);
        made.extend_ms = std::min(made.extend_ms, plan.quarantine_ms / 2);
      }
    }
    plan.clients.push_back(std::move(client));
  }
  if (native.OneIn(4) && plan.group != Group::kQuorum && plan.quarantine_ms == 0) {
    PreferNative(native, plan);
  }
  if (special.OneIn(64) && plan.group != Group::kQuorum && plan.quarantine_ms == 0) {
    AddManyWaiters(special, plan);
    LetSomeTell(tells, plan);
    return plan;
  }
  Vary(special, plan);
  if (elections.OneIn(3) && plan.group != Group::kQuorum) HoldElection(plan);
  LetSomeTell(tells, plan);
  Faults which = special.OneIn(4) ? Faults::kAlike : Faults::kAny;
  const bool possible = (limits.faults >> static_cast<unsigned>(FaultKind::kKillPubSub) & 1) != 0;
  if (special.OneIn(8) && possible) {
    which = Faults::kLoseNothing;
    // Longer leases have later heartbeats, which do not replace a lost message too soon.
    const bool any_lease = plan.quarantine_ms + plan.restart_delay_ms == 0;
    for (SharedObject& each : plan.objects) each.lease_ms = any_lease ? 30'000 : each.lease_ms;
  }
  plan.brief = special.OneIn(8) && plan.quarantine_ms + plan.restart_delay_ms == 0 &&
               limits.faults == PlanLimits().faults;
  if (plan.brief) {
    which = Faults::kPass;
    for (SharedObject& each : plan.objects) each.lease_ms = 30'000;
  }
  if (margins.OneIn(4) && plan.group != Group::kQuorum && plan.quarantine_ms == 0) {
    AddMargins(margins, plan);
  }
  const bool may_lose_data = plan.restart_delay_ms > 0 && !plan.administers;
  if (may_lose_data && limits.faults == PlanLimits().faults && special.OneIn(4)) {
    RestartOneByOne(special, plan);
  } else {
    AddFaults(random, plan, limits, which);
  }
  if (!plan.brief) AddCalm(random, plan);
  return plan;
}

namespace {

// The numbers of an edit such as o0.2.5.
std::vector<size_t> Numbers(absl::string_view edit) {
  std::vector<size_t> numbers;
  for (const absl::string_view each : absl::StrSplit(edit.substr(1), '.')) {
    size_t number = 0;
    if (absl::SimpleAtoi(each, &number)) numbers.push_back(number);
  }
  return numbers;
}

// Leaves one thread, which acquires only by AcquireAsync(), or only by Acquire(). What then happens
// does not depend on that choice, except for events that race with the thread itself: a stop, a
// release that it does not wait for, a forced release, the end of the time for which a name stays
// taken, and the message that recalls a cached grant, which a pause lets the client read.
void LetOneThreadAcquire(Plan& plan, bool asynchronously) {
  using Interface = Operation::Interface;
  plan.observes = false;  // an observer's heartbeats race with the thread
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      if (&thread != plan.clients[0].threads.data()) thread.clear();
      for (Operation& each : thread) {
        each.stop_ms = -1;
        each.at_least_ms = 0;
        each.pause_us = std::max<int64_t>(each.pause_us, 200);
        each.leave = Operation::Leave::kRelease;
        if (each.interface == Interface::kForceRelease) each.interface = Interface::kInspect;
        if (each.interface > Interface::kAcquireAsync) continue;
        each.interface = asynchronously ? Interface::kAcquireAsync : Interface::kAcquire;
      }
    }
  }
}

void Apply(Plan& plan, absl::string_view edit, std::vector<size_t>& gone_faults) {
  const std::vector<size_t> at = Numbers(edit);
  switch (edit[0]) {
    case 'f':
      return gone_faults.push_back(at[0]);
    case 'c':
      for (auto& thread : plan.clients[at[0]].threads) thread.clear();
      return;
    case 't':
      return plan.clients[at[0]].threads[at[1]].clear();
    case 'o':
      if (at[2] < plan.clients[at[0]].threads[at[1]].size()) {
        // the place stays, so that others keep theirs
        plan.clients[at[0]].threads[at[1]][at[2]].object = -1;
      }
      return;
    case 'p':
      plan.preempt_one_in = 0;
      return;
    case 'l':
      plan.late_one_in = 0;
      return;
    case 'a':
    case 'b':
      return LetOneThreadAcquire(plan, edit[0] == 'a');
    case 'k':
      plan.server_clock_speed = 1;
      for (ClientPlan& client : plan.clients) client.clock_speed = 1;
      return;
    default:
      plan.schedule = at[0];
  }
}

}  // namespace

Plan Without(Plan plan, const std::string& edits) {
  std::vector<size_t> gone_faults;
  for (const absl::string_view edit : absl::StrSplit(edits, ',', absl::SkipEmpty())) {
    Apply(plan, edit, gone_faults);
  }
  std::sort(gone_faults.rbegin(), gone_faults.rend());
  for (const size_t gone : gone_faults) {
    plan.faults.erase(plan.faults.begin() + static_cast<ptrdiff_t>(gone));
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      std::erase_if(thread, [](const Operation& each) { return each.object < 0; });
    }
  }
  return plan;
}

std::vector<std::string> PossibleEdits(const Plan& plan) {
  std::vector<std::string> edits;
  const auto& clients = plan.clients;
  for (size_t i = clients.size(); i-- > 0;) edits.push_back(absl::StrCat("c", i));
  for (size_t i = plan.faults.size(); i-- > 0;) edits.push_back(absl::StrCat("f", i));
  for (size_t i = clients.size(); i-- > 0;) {
    for (size_t k = clients[i].threads.size(); k-- > 0;) {
      edits.push_back(absl::StrCat("t", i, ".", k));
    }
  }
  for (const char* const each : {"p", "l", "k"}) edits.emplace_back(each);
  for (size_t i = clients.size(); i-- > 0;) {
    for (size_t k = clients[i].threads.size(); k-- > 0;) {
      for (size_t n = clients[i].threads[k].size(); n-- > 0;) {
        edits.push_back(absl::StrCat("o", i, ".", k, ".", n));
      }
    }
  }
  return edits;
}

std::string Describe(const Operation& operation, const Plan& plan) {
  constexpr const char* kInterfaces[] = {"lock",    "try_lock",     "try_lock_for",
                                         "Acquire", "TryAcquire",   "AcquireAsync",
                                         "Inspect", "ForceRelease", "SetCapacity"};
  constexpr const char* kLeaves[] = {"Release", "destroy", "ReleaseAsync"};
  const SharedObject& object = plan.objects[static_cast<size_t>(operation.object)];
  std::string text =
      absl::StrCat(kInterfaces[static_cast<size_t>(operation.interface)], " ", object.name);
  if (operation.shared) absl::StrAppend(&text, " shared");
  if (operation.nested) absl::StrAppend(&text, " twice");
  if (operation.owner) absl::StrAppend(&text, " for the shared owner");
  if (operation.permits > 1) absl::StrAppend(&text, " permits=", operation.permits);
  if (operation.not_before_ms > 0) absl::StrAppend(&text, " from=", operation.not_before_ms, "ms");
  if (operation.pause_us > 0) absl::StrAppend(&text, " after=", operation.pause_us, "us");
  if (operation.wait_ms >= 0) absl::StrAppend(&text, " wait=", operation.wait_ms, "ms");
  if (operation.stop_ms >= 0) absl::StrAppend(&text, " stop=", operation.stop_ms, "ms");
  if (operation.lease_ms > 0) absl::StrAppend(&text, " lease=", operation.lease_ms, "ms");
  if (operation.at_least_ms > 0) absl::StrAppend(&text, " at_least=", operation.at_least_ms, "ms");
  if (operation.whole_lease) absl::StrAppend(&text, " whole_lease");
  if (operation.work_us > 0) absl::StrAppend(&text, " work=", operation.work_us, "us");
  if (operation.extend_ms > 0) absl::StrAppend(&text, " extend=", operation.extend_ms, "ms");
  return absl::StrCat(text, " ", kLeaves[static_cast<size_t>(operation.leave)]);
}

std::string Describe(const Fault& fault) {
  return absl::StrCat("at ", fault.at_ms, " ms: ", Name(fault.kind), " client ", fault.client,
                      " server ", fault.server, " for ", fault.length_ms, " ms, detail ",
                      fault.detail % 1000);
}

std::string Describe(const Plan& plan) {
  std::string text = absl::StrCat(
      "seed ", plan.seed, ": ", Name(plan.group), ", servers ", plan.servers, ", quarantine ",
      plan.quarantine_ms, " ms", plan.min_replicas ? ", min-replicas" : "", ", restart delay ",
      plan.restart_delay_ms, " ms, one system call in ", plan.preempt_one_in,
      " lets another thread run, one segment in ", plan.late_one_in, " is up to ", plan.latest_us,
      " us late, server clock x", plan.server_clock_speed, plan.administers ? ", administered" : "",
      plan.brief ? ", brief" : "", plan.one_by_one ? ", one by one" : "", "\n");
  for (const SharedObject& object : plan.objects) {
    absl::StrAppend(&text, "  ", object.name, ": ", Name(object.kind), ", capacity ",
                    object.capacity, ", lease ", object.lease_ms, " ms, turn ",
                    object.turn_ms ? absl::StrCat(*object.turn_ms, " ms") : "by default", ", keep ",
                    object.keep_ms, " ms, stop margin ", object.stop_margin_ms, " ms, grace ",
                    object.grace_ms, " ms, at most ", object.at_most_ms, " ms",
                    object.phase_fair ? ", phase fair" : "", object.tells ? ", tells" : "",
                    object.apart > 0 ? absl::StrCat(", apart, clients ", object.apart) : "",
                    object.replica_acks > 0 ? ", with acks" : "", "\n");
  }
  for (size_t i = 0; i < plan.clients.size(); ++i) {
    if (plan.clients[i].threads.empty()) continue;
    absl::StrAppend(&text, "  client ", i, ", clock x", plan.clients[i].clock_speed, "\n");
    for (const auto& thread : plan.clients[i].threads) {
      if (thread.empty()) continue;
      absl::StrAppend(&text, "    thread\n");
      for (const Operation& each : thread) {
        absl::StrAppend(&text, "      ", Describe(each, plan), "\n");
      }
    }
  }
  for (const Fault& fault : plan.faults) absl::StrAppend(&text, "  ", Describe(fault), "\n");
  return text;
}

}  // namespace redlatch::sim
