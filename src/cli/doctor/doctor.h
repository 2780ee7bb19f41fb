// What `redlatch doctor` learns of servers, and what it concludes from that.
#ifndef REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
#define REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_

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
#include "src/base/clock.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// ---- Facts about a server: nothing is judged yet.

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

// ---- Collecting them, by gather.cc.

// What is looked at.
struct Patient {
  redis::Url url;        // of one server
  std::string url_text;  // by which its locks are reached: of the whole, if it is a cluster's node
  std::string prefix;
  Place place = Place::kAlone;
  const Shard* shard = nullptr;  // whose node it is
  bool of_quorum = false;        // one of its servers
};

// Asks the server for all that there is to know. It writes nothing but keys and channels that begin
// with the prefix + "redlatch-doctor:" and a random number, and deletes them. Returns by `deadline`
// where the URL's own timeouts are not longer, and not OK where the server can't be reached,
// refuses the login, or stops answering: then `facts` are not all there.
absl::Status Gather(const Patient& patient, base::Instant deadline, DoctorFacts* facts);

// Gather() at each primary and, what makes sense there, at each replica, some at a time, for
// `longest` each; and what the nodes say of each other. Not OK if no node tells who they are.
absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts);

// Looks at all servers of a quorum at the same time, as Gather() does at one, for `longest` at
// most. Not OK if none can be looked at, or if one of them is a cluster.
absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts);

// ---- Every command that locks need, in a form that changes nothing.

struct ProbeWords {
  std::string command;  // as an ACL rule has it
  std::vector<std::string> words;
  bool makes_key = false;  // with a TTL
  bool needs_key = false;  // would make one without a TTL where there is none
  bool optional = false;   // as CommandProbe has it
};

// Those that make `key` first, then all others in this order, leave nothing: `key` is a string that
// vanishes after some seconds. What would make one of another type finds this, or is given what the
// server refuses, but only after it has looked whether the user may. DEL deletes it. One of them
// looks for the other keys of the lock `key`. At a node of a cluster that has not the key's slot
// each is refused, but only after the same look.
std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster = false);

CommandProbe::Outcome ProbeOutcome(const redis::Reply& reply);

// ---- What replies of Redis say, as facts.

// An error reply is an error here, kPermissionDenied where that is why.
Told<Fields> InfoAnswer(const redis::Reply& reply);
Told<Fields> ConfigAnswer(const redis::Reply& reply);
// Of names and values in turn, as CONFIG GET and SENTINEL MASTER answer.
Told<Fields> PairsAnswer(const redis::Reply& reply);
Told<std::vector<Delay>> SlowLogAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<Delay>> LatencyAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<PubSubBacklog>> ClientListAnswer(const redis::Reply& reply);
Told<absl::Time> TimeAnswer(const redis::Reply& reply);
// "<id> <until, in ms> <length, in ms>"; kNotFound if there is nothing.
Told<Holdback> HoldbackAnswer(const redis::Reply& reply);

// From INFO's "slave0:ip=...,port=...,state=online,offset=1,lag=0".
std::vector<Replica> ReplicasIn(const Fields& info);

// ---- Conclusions: pure functions over one table of checks, in checks.cc.

enum class Level : uint8_t {
  kOk,
  kUnchecked,  // the server did not let us look
  kNote,       // good to know; nothing has to be done
  kWarn,       // should be changed
  kBad,        // not fit for locks as it is
};

struct Finding {
  Level level = Level::kOk;
  std::string check;  // "persistence"
  std::string found;  // one sentence
  std::string mend;   // one sentence that says how to fix it; empty if there is nothing to do
  // To be typed as they are: for redis-cli, or lines of the server's configuration if the server
  // lets no user set it.
  std::vector<std::string> commands = {};
  // The nodes of a cluster or a quorum of which this was found, also as text. Empty: the whole.
  std::vector<std::string> nodes = {};
  std::string where = {};
  bool differs = false;  // the nodes' figures differ; `found` has those of the first
};

// One finding or more for each check, in the order of the table. Findings about a cluster or a
// quorum come first, then those of its nodes: what several nodes share is one finding.
std::vector<Finding> Diagnose(const DoctorFacts& facts);
std::vector<Finding> Diagnose(const ClusterFacts& facts);
std::vector<Finding> Diagnose(const QuorumFacts& facts);

// 0, kNeedsChange or kRefused, by the worst finding.
int DoctorExitCode(const std::vector<Finding>& findings);

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width = kPageWidth);
// One object: server, verdict ("well", "change", "unusable"), checks.
std::string JsonReport(const std::string& server, const std::vector<Finding>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
