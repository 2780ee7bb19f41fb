// What `redlatch doctor` learns about servers, and what it concludes from that.
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

// ---- Facts about a server, without any judgement.

using Fields = std::map<std::string, std::string, std::less<>>;

// An answer of the server, or the error that came instead. It is an error until the question was
// asked, so that a forgotten question never counts as checked.
template <typename T>
using Told = absl::StatusOr<T>;

// A command that locks need, and how the server treats it when this user sends it.
struct CommandProbe {
  enum class Outcome : uint8_t {
    kAllowed,
    kNoCommand,        // the command is not permitted
    kNoKey,            // the command is permitted, the key's name is not
    kNoChannel,        // the command is permitted, the channel is not
    kUnknownToServer,  // the command was renamed or removed
  };
  std::string command;  // as an ACL rule has it: "zadd", "pubsub|numsub"
  Outcome outcome = Outcome::kAllowed;
  bool optional = false;  // locks work without it; only descriptions of clients need it
};

// A lock of each kind, taken and released through the library.
struct LockTrial {
  std::string kind;
  absl::Status outcome;
};

struct ClockReading {
  absl::Duration sent;  // on a steady clock, like `received`
  absl::Duration received;
  absl::Time server;  // what TIME answered
  absl::Time here;    // this machine's wall clock when the answer came
};

// A command or an event that delayed all other commands.
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

// What one sentinel says about the primary, or the error that came instead.
struct SentinelView {
  std::string address;
  std::string names;    // the address of the primary, according to this sentinel
  Told<Fields> master;  // SENTINEL MASTER
};

struct PubSubBacklog {
  std::string address;
  std::string name;
  int64_t bytes = 0;
};

// Until when a server grants nothing, by its own clock; and how long that time is after each start,
// as its clients ask for.
struct Holdback {
  absl::Time until;
  absl::Duration length;
};

struct EmbeddedFacts {
  std::string directory;
  int64_t server_pid = 0;
  int64_t keeper_pid = 0;      // 0: unknown
  bool started_by_us = false;  // it was not running before
};

// Which locks a server has.
enum class Place : uint8_t {
  kAlone,    // all of them, with or without replicas
  kPrimary,  // it is the primary of a shard of a cluster: those of the shard
  kReplica,  // it is a replica of a shard: none, unless the primary fails
};

struct DoctorFacts {
  // True if the server refused no command that locks need.
  bool MayDoAll() const {
    return std::ranges::all_of(probes, [](const CommandProbe& probe) {
      return probe.optional || probe.outcome == CommandProbe::Outcome::kAllowed;
    });
  }

  std::string server;  // its URL without secrets
  Place place = Place::kAlone;
  bool locks_elsewhere = false;   // no name that begins with the prefix belongs to its shard
  bool over_network = false;      // neither a Unix socket nor this machine's loopback
  bool eviction_allowed = false;  // by the URL
  absl::Duration quarantine;      // by the URL
  std::optional<Holdback> epoch;  // as clients with a quarantine have recorded it
  bool of_quorum = false;         // it is one server of a quorum
  absl::Duration restart_delay;   // by the URL
  Told<Holdback> delay = absl::UnknownError("not asked");  // kNotFound: none
  absl::Time checked_at;
  std::optional<absl::Time> certificate_until;  // the server's, over TLS
  std::vector<SentinelView> sentinels;          // of a URL that names some
  std::optional<EmbeddedFacts> embedded;
  std::string user = "default";  // the user to name in ACL SETUSER
  bool has_password = false;
  std::string prefix;  // of the locks' names (--prefix); empty: not given

  Told<Fields> info = absl::UnknownError("not asked");
  Told<Fields> config = absl::UnknownError("not asked");

  std::vector<CommandProbe> probes;
  // OK if the library accepts this server. Then `trials` says which locks work there.
  absl::Status library;
  std::vector<LockTrial> trials;
  absl::Duration slowest_pair;  // to acquire and release a trial's lock
  // The time from a PUBLISH on one connection until another connection had the message.
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
  std::set<std::string> primaries;  // ids of the nodes that serve slots, according to this node
  std::string announced;            // its own address, if it tells it
};

// A node that serves slots, or a replica of one.
struct NodeFacts {
  std::string address;  // as the node announces it
  bool is_replica = false;
  std::string slots;  // "0-5460", of a primary
  absl::Status reached = absl::UnknownError("not asked");
  DoctorFacts facts;
  Told<Fields> state = absl::UnknownError("not asked");  // CLUSTER INFO
  Told<std::vector<ClusterLine>> nodes = absl::UnknownError("not asked");
};

struct ClusterFacts {
  std::string server;  // the URL without secrets
  std::vector<SeedFacts> seeds;
  std::vector<NodeFacts> nodes;
  size_t unserved = 0;         // slots that no node serves, according to at least one node
  std::string unserved_slots;  // "0-99, 200"
};

struct QuorumFacts {
  std::string server;            // the URL without secrets
  absl::Duration restart_delay;  // by the URL
  std::vector<NodeFacts> nodes;  // its servers; `address` is the URL of each, without secrets
};

// The value of that name; nullopt if the server told none.
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

// ---- Collecting the facts, in gather.cc.

// A server to check.
struct CheckTarget {
  redis::Url url;        // of this server
  std::string url_text;  // the URL that clients of its locks use; of a node: the cluster's
  std::string prefix;
  Place place = Place::kAlone;
  const Shard* shard = nullptr;  // of a cluster's node: its shard
  bool of_quorum = false;        // it is one server of a quorum
};

// Asks the server for everything that the checks need. It writes only keys and channels that begin
// with the prefix, "redlatch-doctor:" and a random number, and deletes them. Returns by `deadline`,
// unless the URL's own timeouts are longer. Returns an error if the server can't be reached,
// refuses the login, or stops answering; `facts` are then incomplete.
absl::Status Gather(const CheckTarget& target, base::Instant deadline, DoctorFacts* facts);

// Calls Gather() for each primary and, as far as it makes sense, for each replica, several at a
// time and for at most `longest` each. Also asks the nodes about each other. Returns an error if no
// node tells which nodes there are.
absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts);

// Calls Gather() for all servers of a quorum at the same time, for at most `longest`. Returns an
// error if none of them can be checked, or if one of them is a cluster.
absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts);

// ---- Every command that locks need, in a form that changes nothing.

struct ProbeWords {
  std::string command;  // as an ACL rule names it
  std::vector<std::string> words;
  bool makes_key = false;  // it creates the key, with a TTL
  bool needs_key = false;  // if there is no key, it would create one without a TTL
  bool optional = false;   // as in CommandProbe
};

// These probes leave nothing behind if the caller sends those with `makes_key` first and then all
// others in this order. They make `key` a string that expires after some seconds. A command that
// would create a key of another type finds this string, or has arguments that the server refuses
// after it has checked the user's permissions. The last one, DEL, deletes the key. One probe asks
// for the other keys of the lock `key`. A node of a cluster that does not have the key's slot
// refuses each probe, but also only after it has checked the permissions.
std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster = false);

CommandProbe::Outcome ProbeOutcome(const redis::Reply& reply);

// ---- Reading replies of Redis.

// An error reply becomes an error: kPermissionDenied if the user lacks a permission.
Told<Fields> InfoAnswer(const redis::Reply& reply);
Told<Fields> ConfigAnswer(const redis::Reply& reply);
// Reads alternating names and values, as CONFIG GET and SENTINEL MASTER return them.
Told<Fields> PairsAnswer(const redis::Reply& reply);
Told<std::vector<Delay>> SlowLogAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<Delay>> LatencyAnswer(const redis::Reply& reply, absl::Time now);
Told<std::vector<PubSubBacklog>> ClientListAnswer(const redis::Reply& reply);
Told<absl::Time> TimeAnswer(const redis::Reply& reply);
// Reads "<id> <until, in ms> <length, in ms>"; kNotFound if the key does not exist.
Told<Holdback> HoldbackAnswer(const redis::Reply& reply);

// Reads INFO's "slave0:ip=...,port=...,state=online,offset=1,lag=0".
std::vector<Replica> ReplicasIn(const Fields& info);

// ---- Conclusions: pure functions over one table of checks, in checks.cc and checks.table.

enum class Level : uint8_t {
  kOk,
  kUnchecked,  // the server did not allow the check
  kNote,       // good to know; nothing has to be done
  kWarn,       // should be changed
  kBad,        // not fit for locks as it is
};

struct Finding {
  Level level = Level::kOk;
  std::string check;  // "persistence"
  std::string found;  // one sentence
  std::string fix;    // one sentence that says how to fix it; empty if there is nothing to do
  // Commands for redis-cli, to be copied as they are; or lines of the server's configuration if
  // this user may not use CONFIG.
  std::vector<std::string> commands = {};
  // The nodes of a cluster or a quorum that have this finding; `where` has them as text. Empty: the
  // finding is about the whole.
  std::vector<std::string> nodes = {};
  std::string where = {};
  bool differs = false;  // the nodes' figures differ; `found` has those of the first node
};

// The findings of all checks, in the order of the table. Findings about a cluster or a quorum come
// first, then those about its nodes. If several nodes have the same finding, it is returned once.
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
