// What `redlatch doctor` has learnt of a server: nothing here is judged yet.
#ifndef REDLATCH_SRC_CLI_DOCTOR_FACTS_H_
#define REDLATCH_SRC_CLI_DOCTOR_FACTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "src/cli/term/server.h"

namespace redlatch::cli {

using Fields = std::map<std::string, std::string, std::less<>>;

// What was asked for, or why the server did not tell. As long as nobody has asked it is an error
// too, so that nothing counts as checked by being forgotten.
template <typename T>
using Told = absl::StatusOr<T>;

// A command that locks need, as the server took it from this user.
struct CommandProbe {
  enum class Outcome : uint8_t {
    kAllowed,
    kNoCommand,        // not permitted
    kNoKey,            // the command is, the key's name is not
    kNoChannel,        // likewise
    kUnknownToServer,  // renamed or removed there
  };
  std::string command;  // as an ACL rule has it: "zadd", "pubsub|numsub"
  Outcome outcome = Outcome::kAllowed;
  bool optional = false;  // locks do without; people are told less
};

// A lock of each kind, taken and released through the library.
struct LockTrial {
  std::string kind;
  absl::Status outcome;
};

struct ClockReading {
  absl::Duration sent;  // on a steady clock, as `received`
  absl::Duration received;
  absl::Time server;  // what TIME answered
  absl::Time here;    // this machine's wall clock on receiving it
};

// What all others had to wait for.
struct Delay {
  std::string what;  // a command, or an event
  absl::Duration took;
  absl::Duration ago;
};

struct Replica {
  std::string address;
  std::string state;  // "online"
  absl::Duration lag;
};

struct Confirmation {  // of WAIT
  int64_t replicas = 0;
  absl::Duration took;
};

// What one sentinel says of the primary, or why it says nothing.
struct SentinelView {
  std::string address;
  std::string names;    // whom it takes for the primary
  Told<Fields> master;  // SENTINEL MASTER
};

struct PubSubBacklog {
  std::string address;
  std::string name;
  int64_t bytes = 0;
};

// Until when a server grants nothing, by its own clock, and for how long its clients ask for that
// when it has started.
struct Holdback {
  absl::Time until;
  absl::Duration length;
};

struct EmbeddedFacts {
  std::string directory;
  int64_t server_pid = 0;
  int64_t keeper_pid = 0;      // 0: not known
  bool started_by_us = false;  // none ran before
};

// What a server is to its locks.
enum class Place : uint8_t {
  kAlone,    // it has all of them, replicas of its own or not
  kPrimary,  // of a shard of a cluster
  kReplica,  // likewise: it has none, and will have if the primary fails
};

struct DoctorFacts {
  // Nothing that locks need was refused.
  bool MayDoAll() const {
    return std::ranges::all_of(probes, [](const CommandProbe& probe) {
      return probe.optional || probe.outcome == CommandProbe::Outcome::kAllowed;
    });
  }

  std::string server;  // its URL without secrets
  Place place = Place::kAlone;
  bool locks_elsewhere = false;   // no name that begins with the prefix is of its shard
  bool over_network = false;      // neither a Unix socket nor this machine's loopback
  bool eviction_allowed = false;  // by the URL
  absl::Duration quarantine;      // by the URL
  std::optional<Holdback> epoch;  // that clients with a quarantine have recorded
  bool of_quorum = false;         // one of its servers
  absl::Duration restart_delay;   // by the URL
  Told<Holdback> delay = absl::UnknownError("not asked");  // kNotFound: none
  absl::Time looked_at;
  std::optional<absl::Time> certificate_until;  // the server's, over TLS
  std::vector<SentinelView> sentinels;          // of a URL that names some
  std::optional<EmbeddedFacts> embedded;
  std::string user = "default";  // whom ACL SETUSER has to name
  bool has_password = false;
  std::string prefix;  // of the locks' names, as the doctor was told; empty: not told

  Told<Fields> info = absl::UnknownError("not asked");
  Told<Fields> config = absl::UnknownError("not asked");

  std::vector<CommandProbe> probes;
  // Whether the library takes this server, and then what it did there.
  absl::Status library;
  std::vector<LockTrial> trials;
  absl::Duration slowest_pair;  // of a trial's lock: acquired and released
  // Published by one connection, until another had it.
  Told<absl::Duration> message = absl::UnknownError("not asked");
  std::vector<absl::Duration> pings;
  std::vector<ClockReading> clock;

  Told<std::vector<Delay>> slow_commands = absl::UnknownError("not asked");
  Told<std::vector<Delay>> latency_spikes = absl::UnknownError("not asked");
  std::vector<Replica> replicas;
  Told<Confirmation> confirmation = absl::UnknownError("not asked");
  Told<std::vector<PubSubBacklog>> pubsub_backlogs = absl::UnknownError("not asked");
};

// ---- What `redlatch doctor` has found out about a cluster, not judged yet.

// A node that the URL names.
struct SeedFacts {
  std::string address;
  absl::Status reached = absl::UnknownError("not asked");
  std::set<std::string> primaries;  // ids of those that it knows to serve slots
  std::string announced;            // its own address, if it tells that
};

// A node that serves slots, or a replica of one.
struct NodeFacts {
  std::string address;  // that it announces
  bool is_replica = false;
  std::string slots;  // "0-5460"; of a primary
  absl::Status reached = absl::UnknownError("not asked");
  DoctorFacts facts;
  Told<Fields> state = absl::UnknownError("not asked");  // CLUSTER INFO
  Told<std::vector<ClusterLine>> nodes = absl::UnknownError("not asked");
};

struct ClusterFacts {
  std::string server;  // the URL without secrets
  std::vector<SeedFacts> seeds;
  std::vector<NodeFacts> nodes;
  size_t unserved = 0;         // slots of which some node knows nobody who serves them
  std::string unserved_slots;  // "0-99, 200"
};

// ---- What `redlatch doctor` has found out about a quorum of servers, not judged yet.

struct QuorumFacts {
  std::string server;            // the URL without secrets
  absl::Duration restart_delay;  // by the URL
  std::vector<NodeFacts> nodes;  // its servers; `address` is the URL of each, without secrets
};

// What the server told under that name; nothing if it told nothing.
inline std::optional<std::string> TextIn(const Told<Fields>& fields, std::string_view name) {
  if (!fields.ok()) return std::nullopt;
  const auto found = fields->find(name);
  return found == fields->end() ? std::nullopt : std::optional(found->second);
}
inline std::optional<int64_t> NumberIn(const Told<Fields>& fields, std::string_view name) {
  int64_t number = 0;
  if (!absl::SimpleAtoi(TextIn(fields, name).value_or(""), &number)) return std::nullopt;
  return number;
}

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_FACTS_H_
