#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"
#include "src/cli/term/server.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {

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

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
