// What happens in one simulated run, except the order of events: it is made from a seed, written as
// text, and reduced while the failure stays.
#ifndef REDLATCH_TESTS_SIM_WORLD_PLAN_H_
#define REDLATCH_TESTS_SIM_WORLD_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/os/kernel.h"
#include "tests/sim/random.h"

namespace redlatch::sim {

enum class Group : uint8_t { kSingle, kSentinel, kCluster, kQuorum };
enum class Kind : uint8_t {
  kSimple,
  kReentrant,
  kReadWrite,
  kSemaphore,
  kLatch,
  kMulti,
  kElection
};

// One of the classes that share their locks with Java's Redisson, in place of its kind's own class.
enum class Redisson : uint8_t {
  kNo,
  kLock,
  kFencedLock,
  kFairLock,
  kReadWriteLock,
  kSemaphore,
  kExpirableSemaphore,
  kLatch
};

struct SharedObject {
  Kind kind = Kind::kSimple;
  Redisson redisson = Redisson::kNo;  // in all objects of a plan, or in none
  std::string name;
  int64_t capacity = 1;  // of a semaphore; of a latch, the counts until it opens
  int64_t lease_ms = 1000;
  std::optional<int64_t> turn_ms = 0;  // none: the default
  int64_t keep_ms = 0;
  int64_t stop_margin_ms = 0;
  int64_t grace_ms = 0;
  int64_t at_most_ms = 0;  // 0: no limit
  bool phase_fair = false;
  bool own = false;    // a lock class of a user's own
  bool tells = false;  // its holds are told of waiters
  int replica_acks = 0;
  bool fsync = false;  // its grants count when they are on the server's disk

  bool acked() const { return replica_acks > 0 || fsync; }
  // For a multi-lock, the number of the process's clients to which its locks belong, which are
  // taken one after the other; 0: they are taken together.
  int apart = 0;

  std::vector<std::string> Names() const;
};
inline constexpr int kPartsOfMulti = 3;
inline constexpr int kHourCrashers = 2;

// How a thread uses an object once: what it waits for, what it does inside, and how it leaves.
struct Operation {
  // The last three take no lock: they inspect it, and change what others have.
  enum class Interface : uint8_t {
    kLock,
    kTryLock,
    kTryLockFor,
    kAcquire,
    kTryAcquire,
    kAcquireAsync,
    kInspect,
    kForceRelease,
    kSetCapacity,
  };
  enum class Leave : uint8_t { kRelease, kDestroy, kReleaseAsync };

  int object = 0;
  Interface interface = Interface::kAcquire;
  Leave leave = Leave::kRelease;
  bool shared = false;  // reads
  // Does once more what the kind allows: enters again inside, counts again with the same id, has
  // the name stay taken later, leads by RunElected(), asks for the leader.
  bool nested = false;
  bool whole_lease = false;
  bool owner = false;  // acquires for an Owner that all clients share, where the kind allows it
  int64_t permits = 1;
  int64_t wait_ms = -1;   // -1: endless
  int64_t lease_ms = 0;   // 0: the client renews
  int64_t extend_ms = 0;  // 0: is not extended
  int64_t at_least_ms = 0;
  int64_t stop_ms = -1;  // when a stop is requested; -1: never
  int64_t not_before_ms = 0;
  int64_t pause_us = 0;  // before the request
  int64_t work_us = 0;   // inside
};

struct ClientPlan {
  double clock_speed = 1;
  std::vector<std::vector<Operation>> threads;
};

inline constexpr char kKeyPrefix[] = "app:";
inline constexpr int64_t kLargestCapacity = 4;  // of a semaphore

enum class FaultKind : uint8_t {
  kDelay,         // a link is slow for a while
  kHoldUp,        // nothing reaches the server
  kHoldDown,      // nothing reaches the client
  kPartition,     // neither
  kCut,           // a connection is reset; what it carried may arrive late
  kSwallow,       // a half-open connection: the client receives nothing more over it
  kPause,         // a client is stopped, perhaps past its lease
  kSuspend,       // a client's machine sleeps
  kCrash,         // a client is killed, or exits; another process takes its place
  kStopServer,    // a server is stopped, and continues
  kRestart,       // a server restarts with its data
  kRestartEmpty,  // a server restarts without data
  kRestartOld,    // a server restarts with an older copy
  kFlushScripts,  // SCRIPT FLUSH
  kKillPubSub,    // CLIENT KILL TYPE pubsub
  kRefuse,        // an error for a while: LOADING, BUSY, OOM, NOPERM, MISCONF, READONLY, NOREPLICAS
  kClockForward,  // a server's clock steps
  kClockBack,
  kFailover,      // a replica is promoted, and a suffix of the writes may be lost
  kTwoPrimaries,  // both grant for a while
  kMoveSlot,      // slots move while locks are used
  kDeleteKey,     // another program deletes a key of a lock
  kReplicaLag,    // a replica, or the server's disk, receives nothing for a while
  kSentinelDown,  // a sentinel does not answer
  kClusterDown,   // a node says CLUSTERDOWN for a while
  kNewAddress,    // a node of a cluster gets a new address
  kCrashMany,     // all clients but one are killed, or exit, within a few ms
  kRefuseFirst,   // connections end; for a while, a server refuses the first write on each new one
  kCount,
};

struct Fault {
  int64_t at_ms = 0;
  FaultKind kind = FaultKind::kDelay;
  int client = 0;
  int server = 0;
  int64_t length_ms = 0;
  uint64_t detail = 0;  // selects among what the kind leaves open
};

struct Plan {
  uint64_t seed = 0;
  uint64_t schedule = 0;  // another order of events for the same plan
  Group group = Group::kSingle;
  int servers = 1;
  int64_t quarantine_ms = 0;     // of a server group with replicas
  bool min_replicas = false;     // a primary without replicas refuses writes
  int64_t restart_delay_ms = 0;  // of a quorum
  uint64_t preempt_one_in = 0;
  int64_t longest_stall_us = 0;  // a thread that is interrupted may stand still for that long
  uint64_t late_one_in = 0;
  int64_t latest_us = 0;
  uint64_t split_one_in = 0;  // segments; parts of them are joined with earlier ones
  Clock server_clock;
  bool strict = false;  // also judged by what no lock over Redis can promise
  // The run ends before the leases do: everything that clients could not release during the faults
  // must be released by then.
  bool brief = false;
  // The server has an append-only file, and kRestartOld loses what is not on the disk yet.
  bool fsync = false;
  // Two clients end again and again while they wait, for an hour.
  bool hour = false;
  // The servers of a quorum lose their data one after the other, and holds outlive that.
  bool one_by_one = false;
  bool prefixed = false;     // clients have a key_prefix
  bool administers = false;  // some operations force releases and change capacities
  bool observes = true;      // elections
  std::vector<SharedObject> objects;
  std::vector<ClientPlan> clients;
  std::vector<Fault> faults;  // in order of time

  bool Has(FaultKind kind) const;
  std::string KeyOf(const SharedObject& object) const;
};

struct PlanLimits {
  bool any_group = true;
  Group group = Group::kSingle;
  uint64_t faults = ~uint64_t{0};  // allowed kinds, by bit
};

// Faults, if there are any, cost no lease and make no call fail: clients recover at once.
bool LosesNothing(const Plan& plan);
bool UsesRedisson(const Plan& plan);
// Returns true if clients wait for replicas.
bool UsesAcks(const Plan& plan);
// In nanoseconds, and not shorter than a claim.
int64_t LongestLease(const Plan& plan);
int64_t LongestLease(const Plan& plan, const SharedObject& object);
// The longest time, in nanoseconds, that a lock stays taken after its hold was lost.
int64_t LongestMargin(const Plan& plan);

Plan MakePlan(uint64_t seed, const PlanLimits& limits);
Plan MakePlan(Random random, const PlanLimits& limits);
// Removes parts of a plan. `edits` names them by their place in the seed's plan, separated by
// commas: f3 a fault, c1 a client, t0.2 a thread, o0.2.5 an operation, p the preemptions, l late
// segments, k the speeds of clocks; s4 is another order of events.
Plan Without(Plan plan, const std::string& edits);
// Every single edit that the plan still allows, large ones first.
std::vector<std::string> PossibleEdits(const Plan& plan);
std::string Describe(const Plan& plan);
std::string Describe(const Operation& operation, const Plan& plan);
std::string Describe(const Fault& fault);
const char* Name(FaultKind kind);
const char* Name(Group group);
const char* Name(Kind kind);
const char* Name(Redisson redisson);

// Faults after which a server has forgotten its grants.
bool LosesData(FaultKind kind);
bool LosesData(const Plan& plan);

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_PLAN_H_
