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
    "cluster_down", "new_address",   "crash_many",  "refuse_first"};
static_assert(std::size(kFaultNames) == static_cast<size_t>(FaultKind::kCount));

int64_t OneOf(Random& random, std::initializer_list<int64_t> values) {
  return values.begin()[random.Below(values.size())];
}

// Kinds in equal shares. At a quorum, the simple lock is a RedLock, and a multi-lock is made of
// several of them.
Kind AnyKind(Random& random, Group group) {
  if (group == Group::kQuorum) return random.OneIn(4) ? Kind::kMulti : Kind::kSimple;
  return static_cast<Kind>(random.Below(static_cast<uint64_t>(Kind::kElection) + 1));
}

bool HasMargins(Kind kind) { return kind <= Kind::kReadWrite; }

bool Replicated(Group group) { return group == Group::kSentinel || group == Group::kCluster; }

SharedObject MakeObject(Random& random, int number, const Plan& plan) {
  SharedObject object;
  const bool quorum = plan.group == Group::kQuorum;
  object.kind = AnyKind(random, plan.group);
  const Kind kind = object.kind;
  object.name = absl::StrCat("o", number);
  object.lease_ms = OneOf(random, {300, 600, 1000, 3000, 30'000});
  const int64_t longest = std::max(plan.quarantine_ms, plan.restart_delay_ms) / 2;
  if (longest > 0) object.lease_ms = std::min(object.lease_ms, longest);
  if (kind == Kind::kSemaphore) object.capacity = random.Between(1, kLargestCapacity);
  if (kind == Kind::kLatch) object.capacity = random.Between(1, random.OneIn(4) ? 40 : 6);
  if (kind == Kind::kMulti) {
    object.capacity = 7;  // three names, of which an operation takes any
    object.apart = quorum ? 1 : static_cast<int>(random.Below(3));
  }
  if (random.OneIn(2)) object.turn_ms.reset();
  if (random.OneIn(4)) object.turn_ms = random.Between(1, 50);
  const bool caches = !quorum && kind != Kind::kElection && random.OneIn(4);
  if (caches) object.keep_ms = std::min(OneOf(random, {20, 200, 5000}), object.lease_ms);
  object.phase_fair = random.OneIn(2);
  object.own = kind == Kind::kSimple && !quorum && random.OneIn(6);
  if (object.own) object.keep_ms = 0;
  const bool waits_for_replicas = kind != Kind::kSemaphore && kind != Kind::kLatch &&
                                  object.apart == 0 && Replicated(plan.group) && random.OneIn(3);
  if (waits_for_replicas) object.replica_acks = plan.group == Group::kSentinel ? 2 : 1;
  object.tells = random.OneIn(3) && kind != Kind::kElection && !object.own;  // these refuse it
  if (HasMargins(kind) && !quorum && plan.quarantine_ms == 0 && random.OneIn(4)) {
    object.stop_margin_ms = object.lease_ms / OneOf(random, {2, 3, 10});
    if (random.OneIn(3)) object.grace_ms = OneOf(random, {50, 500, 3000});
    if (random.OneIn(3)) object.at_most_ms = object.lease_ms * OneOf(random, {1, 2, 5});
  }
  return object;
}

// Which operations a plan has, besides what its objects decide.
struct Habits {
  bool native = false;   // simple locks are mostly acquired by lock() and its kin
  bool patient = false;  // some work and some stops come late
  int64_t pause_us = 0;  // the longest pause before an operation
};

Operation MakeOperation(Random& random, const Plan& plan, const Habits& habits) {
  using Interface = Operation::Interface;
  Operation operation;
  operation.object = static_cast<int>(random.Below(plan.objects.size()));
  const SharedObject& object = plan.objects[static_cast<size_t>(operation.object)];
  operation.interface = static_cast<Interface>(random.Below(6));
  if (random.OneIn(object.kind == Kind::kLatch ? 5 : 20)) {
    operation.interface = Interface::kInspect;
  }
  if (plan.administers && random.OneIn(8)) {
    operation.interface = random.OneIn(2) ? Interface::kForceRelease : Interface::kSetCapacity;
  }
  operation.owner = random.OneIn(6);
  operation.leave = static_cast<Operation::Leave>(random.Below(3));
  operation.shared = object.kind == Kind::kReadWrite && !random.OneIn(3);
  operation.nested = random.OneIn(5);
  operation.permits = random.Between(1, object.capacity);
  if (random.OneIn(3)) operation.wait_ms = OneOf(random, {0, 1, 20, 500, 5000});
  if (random.OneIn(5)) operation.lease_ms = OneOf(random, {100, 500, 4000});
  // If a lease ends before its caller is told of the grant, the caller must queue again.
  if (plan.latest_us == 50'000 && operation.lease_ms > 0) {
    operation.lease_ms = std::max<int64_t>(operation.lease_ms, 500);
  }
  if (operation.lease_ms > 0 && random.OneIn(3)) operation.extend_ms = OneOf(random, {200, 2000});
  if (random.OneIn(8)) operation.stop_ms = random.Between(0, habits.patient ? 2000 : 300);
  operation.whole_lease = random.OneIn(4);
  operation.pause_us = random.OneIn(2) ? 0 : random.Between(0, habits.pause_us);
  operation.work_us = random.OneIn(3) ? 0 : random.Between(0, random.OneIn(6) ? 800'000 : 3000);
  if (habits.patient && random.OneIn(4)) operation.work_us = random.Between(0, 4'000'000);
  if (habits.native && object.kind == Kind::kSimple && operation.interface < Interface::kInspect &&
      !random.OneIn(8)) {
    operation.interface =
        random.OneIn(2) ? Interface::kLock : static_cast<Interface>(random.Below(3));
    operation.nested = operation.whole_lease = false;
  }
  if (operation.interface == Interface::kTryLockFor && operation.wait_ms < 0) {
    operation.wait_ms = OneOf(random, {0, 1, 20, 500, 5000});
  }
  if (plan.quarantine_ms > 0) {
    operation.lease_ms = std::min(operation.lease_ms, plan.quarantine_ms / 2);
    operation.extend_ms = std::min(operation.extend_ms, plan.quarantine_ms / 2);
  }
  if (operation.lease_ms > 0) {
    operation.lease_ms = std::max(operation.lease_ms, 2 * object.stop_margin_ms);
    if (object.at_most_ms > 0) {
      operation.lease_ms = std::min(operation.lease_ms, object.at_most_ms);
    }
  }
  const bool may_stay_taken = HasMargins(object.kind) && plan.group != Group::kQuorum &&
                              plan.quarantine_ms == 0 && !object.own && !operation.shared &&
                              !operation.owner && operation.interface >= Interface::kAcquire &&
                              operation.interface <= Interface::kAcquireAsync;
  if (may_stay_taken && random.OneIn(16)) {
    operation.at_least_ms = OneOf(random, {20, 400, 1500});
  }
  return operation;
}

bool Fits(FaultKind kind, Group group) {
  switch (kind) {
    case FaultKind::kFailover:
    case FaultKind::kTwoPrimaries:
    case FaultKind::kReplicaLag:
      return Replicated(group);
    case FaultKind::kSentinelDown:
      return group == Group::kSentinel;
    case FaultKind::kMoveSlot:
    case FaultKind::kClusterDown:
    case FaultKind::kNewAddress:
      return group == Group::kCluster;
    case FaultKind::kClockForward:  // tokens after a failover rely on equal clocks
    case FaultKind::kClockBack:
      return !Replicated(group);
    default:
      return true;
  }
}

enum class Faults : uint8_t {
  kAny,
  kAlike,        // all are of one kind
  kLoseNothing,  // see LosesNothing()
  kPass,         // clients and servers continue afterwards, with all their data
  kAlone,        // clients end, or servers fail over, one by one, and nothing else is wrong
};

FaultKind AnyFault(Random& random, const Plan& plan, Faults which) {
  constexpr FaultKind kPassing[] = {
      FaultKind::kHoldUp, FaultKind::kHoldDown, FaultKind::kCut,   FaultKind::kPartition,
      FaultKind::kDelay,  FaultKind::kSwallow,  FaultKind::kPause, FaultKind::kStopServer};
  const bool alike = which == Faults::kAlike || which == Faults::kAlone;
  if (alike && !plan.faults.empty()) return plan.faults[0].kind;
  if (which == Faults::kPass) return kPassing[random.Below(std::size(kPassing))];
  if (which == Faults::kAlone) {
    return Replicated(plan.group) && random.OneIn(2) ? FaultKind::kFailover : FaultKind::kCrash;
  }
  if (which == Faults::kLoseNothing) {
    return random.OneIn(3) ? FaultKind::kFlushScripts : FaultKind::kKillPubSub;
  }
  return static_cast<FaultKind>(random.Below(static_cast<uint64_t>(FaultKind::kCount)));
}

// Faults come at any time until `span_ms`; those of kAlone are far apart.
void AddFaults(Random& random, Plan& plan, const PlanLimits& limits, Faults which,
               int64_t span_ms) {
  const bool few = which == Faults::kAny || which == Faults::kAlike;
  const bool alone = which == Faults::kAlone;
  const uint64_t count = few ? 1 + random.Below(random.OneIn(3) ? 12 : 4) : alone ? 5 : 12;
  for (int tries = 0; plan.faults.size() < count && tries < 1000; ++tries) {
    const auto nth = static_cast<int64_t>(plan.faults.size());
    const Fault fault{.at_ms = alone ? 500 + nth * 6500 : random.Between(0, span_ms),
                      .kind = AnyFault(random, plan, which),
                      .client = static_cast<int>(random.Below(plan.clients.size())),
                      .server = static_cast<int>(random.Below(static_cast<uint64_t>(plan.servers))),
                      .length_ms = OneOf(random, {2, 20, 200, 1000, 4000}),
                      .detail = random.Bits()};
    const bool wanted = (limits.faults >> static_cast<unsigned>(fault.kind) & 1) != 0;
    if (wanted && Fits(fault.kind, plan.group)) plan.faults.push_back(fault);
  }
  std::sort(plan.faults.begin(), plan.faults.end(),
            [](const Fault& a, const Fault& b) { return a.at_ms < b.at_ms; });
}

// So many waiting clients that the scripts need several calls for them.
void AddManyWaiters(Random& random, Plan& plan) {
  SharedObject object = MakeObject(random, 0, plan);
  if (random.OneIn(2)) object = {.kind = Kind::kLatch, .name = object.name};
  if (object.kind == Kind::kLatch) object.capacity = 2;
  object.lease_ms = 30'000;
  object.at_most_ms = 0;
  plan.objects = {object};
  plan.preempt_one_in = 0;
  plan.administers = false;
  plan.clients.resize(static_cast<size_t>(random.Between(66, 90)));
  for (ClientPlan& client : plan.clients) {
    Operation operation = MakeOperation(random, plan, {.pause_us = 5000});
    operation.interface =
        random.OneIn(2) ? Operation::Interface::kAcquire : Operation::Interface::kAcquireAsync;
    operation.wait_ms = operation.stop_ms = -1;
    operation.at_least_ms = 0;
    operation.work_us = random.Between(0, 1000);
    client.threads = {{operation}};
  }
  // The last client comes when the others wait: it counts, or holds what they want until then.
  Operation last = MakeOperation(random, plan, {});
  last.interface = Operation::Interface::kLock;
  last.pause_us = object.kind == Kind::kLatch ? 300'000 : 0;
  last.work_us = 300'000;
  last.at_least_ms = 0;
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

// Each client has threads, whose operations come at once or are spread over `span_ms`.
void AddClients(Random& random, Plan& plan, Habits habits, int64_t span_ms) {
  plan.clients.resize(
      static_cast<size_t>(random.OneIn(6) ? random.Between(1, 2) : random.Between(3, 5)));
  for (ClientPlan& client : plan.clients) {
    if (random.OneIn(3)) client.clock_speed = random.OneIn(2) ? 1.004 : 0.996;
    client.threads.resize(random.OneIn(2) ? 1 : 1 + random.Below(3));
    const bool spread = span_ms > 3000 || random.OneIn(2);
    for (auto& thread : client.threads) {
      const auto count = random.Between(1, random.OneIn(4) ? 40 : 12);
      habits.pause_us = spread ? 4 * span_ms * 1000 / count : 5000;
      for (int64_t i = 0; i < count; ++i) thread.push_back(MakeOperation(random, plan, habits));
    }
  }
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
    const bool spread = !random.OneIn(4);
    for (auto& thread : client.threads) {
      for (const int64_t begins :
           {quiet_ms, quiet_ms, calm_ms, calm_ms, calm_ms, calm_ms, calm_ms, calm_ms}) {
        Operation operation = MakeOperation(random, plan, {.pause_us = spread ? 2'000'000 : 5000});
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

// Each object becomes one of Redisson's, of its kind if there is such a class, and otherwise a
// lock.
void UseRedisson(Random& random, Plan& plan) {
  for (SharedObject& each : plan.objects) {
    switch (each.kind) {
      case Kind::kReadWrite:
        each.redisson = Redisson::kReadWriteLock;
        break;
      case Kind::kSemaphore:
        each.redisson = random.OneIn(2) ? Redisson::kSemaphore : Redisson::kExpirableSemaphore;
        // If its key is deleted, its number is wrong from then on.
        std::erase_if(plan.faults,
                      [](const Fault& fault) { return fault.kind == FaultKind::kDeleteKey; });
        break;
      case Kind::kLatch:
        each.redisson = Redisson::kLatch;
        break;
      default:
        each.kind = Kind::kReentrant;
        each.capacity = 1;
        each.redisson = static_cast<Redisson>(1 + random.Below(3));
    }
    each.turn_ms = each.keep_ms = each.apart = 0;
    each.own = each.tells = each.phase_fair = false;
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        const SharedObject& object = plan.objects[static_cast<size_t>(each.object)];
        each.at_least_ms = 0;
        if (object.kind == Kind::kReentrant) each.permits = 1;
        const bool counts = object.kind == Kind::kSemaphore || object.kind == Kind::kLatch;
        if (counts && each.interface > Operation::Interface::kInspect) {
          each.interface = Operation::Interface::kInspect;
        }
      }
    }
  }
}

// Most locks wait for the server's disk. It hangs now and then, and more restarts lose what it
// lacks.
void UseDisk(Random& random, Plan& plan) {
  plan.fsync = true;
  const bool losing_nothing = LosesNothing(plan);
  for (SharedObject& each : plan.objects) {
    const bool may = each.kind != Kind::kSemaphore && each.kind != Kind::kLatch && each.apart == 0;
    if (!may || random.OneIn(4)) continue;
    each.fsync = true;
    each.keep_ms = 0;
    each.lease_ms = std::max<int64_t>(each.lease_ms, 3000);  // longer than a restart
    if (each.at_most_ms > 0) each.at_most_ms = std::max(each.at_most_ms, each.lease_ms);
  }
  for (ClientPlan& client : plan.clients) {
    for (auto& thread : client.threads) {
      for (Operation& each : thread) {
        const bool fsync = plan.objects[static_cast<size_t>(each.object)].fsync;
        if (fsync && random.OneIn(4)) each.work_us = random.Between(0, 1'000'000);
      }
    }
  }
  for (Fault& each : plan.faults) {
    if (plan.brief || losing_nothing || random.OneIn(3)) continue;
    each.kind = random.OneIn(3) ? FaultKind::kReplicaLag : FaultKind::kRestartOld;
    each.length_ms = OneOf(random, {2, 20, 200});
  }
}

// The last clients only wait for a lock that the others use all the time, and die.
void CrashForAnHour(Random& random, Plan& plan) {
  constexpr int64_t kHourMs = 3'600'000;
  plan = {.group = plan.group, .servers = plan.group == Group::kSingle ? 1 : 3, .hour = true};
  constexpr Kind kKinds[] = {Kind::kSimple, Kind::kReentrant, Kind::kReadWrite, Kind::kSemaphore};
  const bool quorum = plan.group == Group::kQuorum;
  // At a quorum, a client may die just as its claim becomes a lease.
  plan.objects = {{.kind = quorum ? Kind::kSimple : kKinds[random.Below(std::size(kKinds))],
                   .name = "o0",
                   .lease_ms = quorum || random.OneIn(2) ? 3000 : 30'000}};
  constexpr int kLiving = 3;
  plan.clients.resize(kLiving + kHourCrashers);
  for (size_t i = 0; i < plan.clients.size(); ++i) {
    auto& thread = plan.clients[i].threads.emplace_back();
    for (int64_t at_ms = 0; at_ms < kHourMs; at_ms += 3000) {
      Operation operation = MakeOperation(random, plan, {.pause_us = 300'000});
      operation.interface =
          random.OneIn(2) ? Operation::Interface::kLock : Operation::Interface::kAcquire;
      operation.wait_ms = operation.stop_ms = -1;
      operation.lease_ms = operation.extend_ms = operation.at_least_ms = 0;
      operation.nested = operation.owner = false;
      operation.not_before_ms = at_ms;
      operation.work_us = i < kLiving ? random.Between(500'000, 2'000'000) : 1000;
      thread.push_back(operation);
    }
  }
  for (int64_t at_ms = 5000; at_ms < kHourMs; at_ms += random.Between(2000, 6000)) {
    plan.faults.push_back({.at_ms = at_ms,
                           .kind = FaultKind::kCrash,
                           .client = kLiving + static_cast<int>(random.Below(kHourCrashers)),
                           .length_ms = OneOf(random, {20, 200, 1000}),
                           .detail = random.Bits()});
  }
}

void SetTiming(Random& random, Plan& plan) {
  plan.preempt_one_in = static_cast<uint64_t>(OneOf(random, {0, 100, 20, 5}));
  plan.longest_stall_us = OneOf(random, {0, 0, 20, 300});
  plan.split_one_in = static_cast<uint64_t>(OneOf(random, {0, 0, 10, 2}));
  if (random.OneIn(3)) {
    plan.late_one_in = static_cast<uint64_t>(OneOf(random, {5, 50}));
    plan.latest_us = OneOf(random, {2000, 50'000, 1'500'000});
  }
  if (random.OneIn(3)) plan.server_clock.speed = random.OneIn(2) ? 1.005 : 0.995;
  if (random.OneIn(4)) plan.server_clock.tick = OneOf(random, {10 * kMicro, kMilli});
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

const char* Name(Redisson redisson) {
  constexpr const char* kNames[] = {"",
                                    "Lock",
                                    "FencedLock",
                                    "FairLock",
                                    "ReadWriteLock",
                                    "Semaphore",
                                    "PermitExpirableSemaphore",
                                    "CountDownLatch"};
  return kNames[static_cast<size_t>(redisson)];
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

std::vector<std::string> SharedObject::Names() const {
  if (kind != Kind::kMulti) return {name};
  std::vector<std::string> parts;
  for (int i = 0; i < kPartsOfMulti; ++i) parts.push_back(absl::StrCat("{", name, "}", i));
  return parts;
}

bool Plan::Has(FaultKind kind) const {
  return std::any_of(faults.begin(), faults.end(),
                     [=](const Fault& each) { return each.kind == kind; });
}

std::string Plan::KeyOf(const SharedObject& object) const {
  return absl::StrCat(prefixed ? kKeyPrefix : "", object.name);
}

bool UsesRedisson(const Plan& plan) { return plan.objects[0].redisson != Redisson::kNo; }

bool UsesAcks(const Plan& plan) {
  return std::any_of(plan.objects.begin(), plan.objects.end(),
                     [](const SharedObject& each) { return each.acked(); });
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

namespace {

Plan MakeOwnPlan(Random& random, const PlanLimits& limits) {
  // Each part has its own random numbers, so that a change of one leaves the others as they are.
  Random timing = random.Fork();
  Random objects = random.Fork();
  Random clients = random.Fork();
  Random faults = random.Fork();
  Plan plan;
  plan.group = limits.any_group ? static_cast<Group>(random.Below(4)) : limits.group;
  plan.servers = plan.group == Group::kSingle ? 1 : 3;
  if (plan.group == Group::kSentinel && random.OneIn(2)) plan.quarantine_ms = 4000;
  if (plan.group == Group::kCluster && random.OneIn(48)) plan.quarantine_ms = 4000;
  if (Replicated(plan.group)) plan.min_replicas = plan.quarantine_ms > 0 || random.OneIn(2);
  if (plan.group == Group::kQuorum && random.OneIn(2)) plan.restart_delay_ms = 4000;
  plan.administers = random.OneIn(6);
  SetTiming(timing, plan);
  const int64_t count = random.OneIn(2) ? 1 : random.Between(2, 3);
  for (int i = 0; i < count; ++i) plan.objects.push_back(MakeObject(objects, i, plan));
  // The middle one of the locks of two clients is at a server of its own.
  const bool two = std::any_of(plan.objects.begin(), plan.objects.end(),
                               [](const SharedObject& each) { return each.apart > 1; });
  if (two && plan.group == Group::kSingle) plan.servers = 2;
  plan.prefixed = random.OneIn(6);
  const bool unprotected = plan.quarantine_ms + plan.restart_delay_ms == 0;
  if (random.OneIn(64) && plan.group != Group::kQuorum && plan.quarantine_ms == 0) {
    AddManyWaiters(clients, plan);
    return plan;
  }
  // A run in ten has no faults. Then nothing may take longer than a handover.
  const bool all_faults = limits.faults == PlanLimits().faults;
  const bool calm = limits.faults == 0 || random.OneIn(10);
  Faults which = random.OneIn(4) ? Faults::kAlike : Faults::kAny;
  const bool possible = (limits.faults >> static_cast<unsigned>(FaultKind::kKillPubSub) & 1) != 0;
  if (random.OneIn(8) && possible) which = Faults::kLoseNothing;
  plan.brief = random.OneIn(8) && unprotected && all_faults;
  if (plan.brief) which = Faults::kPass;
  // Clients that end give back what they cache, and repeat what a failover loses. No other fault
  // explains then why a lock stays taken.
  const bool alone = random.OneIn(8) && unprotected && all_faults && !plan.brief;
  if (alone) {
    which = Faults::kAlone;
    plan.late_one_in = plan.latest_us = 0;
    for (SharedObject& each : plan.objects) {
      each.stop_margin_ms = each.grace_ms = 0;
      if (each.keep_ms > 0) each.keep_ms = 5000;
    }
  }
  // Longer leases have later heartbeats, which do not replace a lost message too soon.
  if (plan.brief || alone || (which == Faults::kLoseNothing && unprotected)) {
    for (SharedObject& each : plan.objects) {
      each.lease_ms = alone ? 10'000 : 30'000;
      if (each.at_most_ms > 0) each.at_most_ms = std::max(each.at_most_ms, each.lease_ms);
    }
  }
  const bool soon = which == Faults::kLoseNothing || which == Faults::kPass;
  const int64_t span_ms = alone  ? 30'000
                          : soon ? OneOf(faults, {100, 2000})
                                 : OneOf(faults, {500, 3000, 15'000, 30'000});
  AddClients(clients, plan, {.native = random.OneIn(2), .patient = random.OneIn(4)},
             calm ? 500 : span_ms);
  if (plan.restart_delay_ms > 0 && !plan.administers && all_faults && random.OneIn(4)) {
    RestartOneByOne(faults, plan);
  } else if (!calm) {
    AddFaults(faults, plan, limits, which, span_ms);
  }
  if (!plan.brief) AddCalm(clients, plan);
  return plan;
}

}  // namespace

Plan MakePlan(Random random, const PlanLimits& limits) {
  Plan plan = MakeOwnPlan(random, limits);
  const bool possible = plan.group != Group::kQuorum && plan.quarantine_ms == 0;
  if (possible && random.OneIn(6)) UseRedisson(random, plan);
  const bool all_faults = limits.faults == PlanLimits().faults;
  if (plan.group == Group::kSingle && all_faults && random.OneIn(6)) UseDisk(random, plan);
  if (all_faults && random.OneIn(1000)) CrashForAnHour(random, plan);
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
        // A waiter for one of Redisson's asks once more when it has subscribed.
        if (UsesRedisson(plan) && each.wait_ms == 1) each.wait_ms = 20;
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
      plan.late_one_in = plan.split_one_in = 0;
      return;
    case 'a':
    case 'b':
      return LetOneThreadAcquire(plan, edit[0] == 'a');
    case 'k':
      plan.server_clock = {};
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
      " lets another thread run, or takes up to ", plan.longest_stall_us, " us, one segment in ",
      plan.late_one_in, " is up to ", plan.latest_us, " us late, one in ", plan.split_one_in,
      " is split, server clock x", plan.server_clock.speed, " in steps of ",
      plan.server_clock.tick / 1000, " us", plan.prefixed ? ", key prefix" : "",
      plan.administers ? ", administered" : "", plan.brief ? ", brief" : "",
      plan.one_by_one ? ", one by one" : "", plan.fsync ? ", append-only file" : "",
      plan.hour ? ", an hour of waiters that die" : "", "\n");
  for (const SharedObject& object : plan.objects) {
    absl::StrAppend(
        &text, "  ", object.name, ": ", Name(object.kind),
        object.redisson == Redisson::kNo ? "" : ", Redisson's ", Name(object.redisson),
        ", capacity ", object.capacity, ", lease ", object.lease_ms, " ms, turn ",
        object.turn_ms ? absl::StrCat(*object.turn_ms, " ms") : "by default", ", keep ",
        object.keep_ms, " ms, stop margin ", object.stop_margin_ms, " ms, grace ", object.grace_ms,
        " ms, at most ", object.at_most_ms, " ms", object.phase_fair ? ", phase fair" : "",
        object.own ? ", of a user's own" : "", object.tells ? ", tells" : "",
        object.apart > 0 ? absl::StrCat(", apart, clients ", object.apart) : "",
        object.replica_acks > 0 ? ", with acks" : "", object.fsync ? ", on disk" : "", "\n");
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
