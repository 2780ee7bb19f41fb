// What `redlatch doctor` learns about servers, and what it concludes from that.
#ifndef REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
#define REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// ---- Facts, without any judgement.

// Named texts. Fields of INFO and parameters of CONFIG have the server's names; gather.cc and
// checks.cc set the others. A fact that is not known is absent, so that a question that was
// forgotten never counts as checked. checks.table uses all these names.
struct Facts {
  bool has(std::string_view name) const { return texts.contains(name); }
  // Empty if there is none.
  std::string text(std::string_view name) const {
    const auto found = texts.find(name);
    return found == texts.end() ? "" : found->second;
  }
  // Zero if it is no number.
  double n(std::string_view name) const { return std::atof(text(name).c_str()); }

  template <class Value>
  Facts& Set(const std::string& name, const Value& value) {
    texts[name] = absl::StrCat(value);
    return *this;
  }
  // Adds "name=value,name=value", except names that are known already, empty lines and comments.
  Facts& Read(absl::string_view pairs, char between, char equals);
  // Sets the fact if `holds`.
  Facts& Flag(const std::string& name, bool holds) { return holds ? Set(name, 1) : *this; }

  std::map<std::string, std::string, std::less<>> texts;
  // Facts about things of which there may be several, such as "EachSentinel".
  std::map<std::string, std::vector<Facts>> lists;
};

// A node of a cluster, or one server of a quorum.
struct NodeFacts {
  std::string address;      // as the node announces it; of a quorum: its URL without secrets
  bool is_replica = false;  // of a shard
  absl::Status reached = absl::UnknownError("not asked");
  // As Gather() sets them; and "slots" of a primary, such as "0-5460", and "cluster_state".
  Facts facts = {};
  absl::StatusOr<std::vector<ClusterLine>> nodes = absl::UnknownError("not asked");
};

// A cluster, or a quorum, which has no seeds.
struct GroupFacts {
  Facts whole;
  // The nodes that the URL names: "address"; "why" it could not be asked; "knows": the ids of the
  // primaries that it knows; and "announced": its own address, if it tells it.
  std::vector<Facts> seeds;
  std::vector<NodeFacts> nodes;
};

// ---- Collecting the facts, in gather.cc.

// A server to check.
struct CheckTarget {
  redis::Url url;                // of this server
  std::string url_text;          // the URL that clients of its locks use; of a node: the cluster's
  std::string prefix;            // of the locks' names (--prefix); empty: not given
  const Shard* shard = nullptr;  // of a cluster's node: its shard
  bool is_replica = false;       // of the shard: it has no locks, unless the primary fails
  bool of_quorum = false;        // it is one server of a quorum
};

// Asks the server for everything that the checks need. It writes only keys and channels that begin
// with the prefix, "redlatch-doctor:" and a random number, and deletes them. Returns by `deadline`,
// unless the URL's own timeouts are longer. Returns an error if the server can't be reached,
// refuses the login, or stops answering; `facts` are then incomplete.
absl::Status Gather(const CheckTarget& target, base::Instant deadline, Facts* facts);

// Calls Gather() for each node of a cluster, as far as it makes sense for a replica, several at a
// time and for at most `longest` each; also asks the nodes about each other. Or calls it for all
// servers of a quorum at the same time. Returns an error if no server can be checked, or if one of
// a quorum is a cluster.
absl::StatusOr<GroupFacts> GatherGroup(const redis::Url& url, const std::string& url_text,
                                       const std::string& prefix, absl::Duration longest);

// A command that locks need, in a form that changes nothing.
struct ProbeWords {
  std::string command;  // as an ACL rule names it: "zadd", "pubsub|numsub"
  std::vector<std::string> words;
  bool makes_key = false;  // it creates the key, with a TTL
  bool needs_key = false;  // if there is no key, it would create one without a TTL
  bool optional = false;   // locks work without it; only descriptions of clients need it
};

// These probes leave nothing behind if the caller sends those with `makes_key` first and then all
// others in this order. They make `key` a string that expires after some seconds. A command that
// would create a key of another type finds this string, or has arguments that the server refuses
// after it has checked the user's permissions. The last one, DEL, deletes the key. One probe asks
// for the other keys of the lock `key`. A node of a cluster that does not have the key's slot
// refuses each probe, but also only after it has checked the permissions.
std::vector<ProbeWords> ProbesOf(const std::string& key, const std::string& channel,
                                 bool in_cluster = false);

// How the server treats the command when this user sends it: kAllowed, "command" (it is not
// permitted), "key" or "channel" (that name is not permitted), or "unknown" to the server. That is
// the fact "probe:zadd", or "optional:mget".
std::string_view ProbeOutcome(const redis::Reply& reply);
inline constexpr std::string_view kAllowed = "allowed";
inline constexpr absl::string_view kProbe = "probe:", kOptionalProbe = "optional:";

// The facts in replies of Redis, or the reason of a refusal. `now` is the server's time.
void TakeInfo(const redis::Reply& reply, Facts& facts);
void TakeConfig(const redis::Reply& reply, Facts& facts);
// What came of a script that calls this command; of one that calls none if it is empty.
void TakeScript(const std::string& command, const redis::Reply& reply, Facts& facts);
// The longest delay of the last 24 hours, of SLOWLOG GET ("slow") or of LATENCY LATEST ("stall").
void TakeDelays(const std::string& name, const redis::Reply& reply, absl::Time now, Facts& facts);
void TakeSubscribers(const redis::Reply& reply, Facts& facts);
// "<id> <until, in ms> <length, in ms>": until when a server grants nothing, by its own clock, and
// how long that time is after each start, as its clients ask for.
void TakeRecord(const redis::Reply& reply, Facts& facts);
absl::StatusOr<absl::Time> TimeAnswer(const redis::Reply& reply);

struct ClockReading {
  absl::Duration sent;  // on a steady clock, like `received`
  absl::Duration received;
  absl::Time server;  // what TIME answered
  absl::Time here;    // this machine's wall clock when the answer came
};
void SetClock(const std::vector<ClockReading>& readings, Facts& facts);
void SetPings(const std::vector<absl::Duration>& times, Facts& facts);

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
  std::string setting = {};  // the first of these that is a line of the server's configuration
  // The nodes of a cluster or a quorum that have this finding; `where` has them as text. Empty: the
  // finding is about the whole.
  std::vector<std::string> nodes = {};
  std::string where = {};
  bool differs = false;  // the nodes' figures differ; `found` has those of the first node
};

// The findings of all checks, in the order of the table. Findings about a cluster or a quorum come
// first, then those about its nodes. If several nodes have the same finding, it is returned once.
std::vector<Finding> Diagnose(const Facts& told);
std::vector<Finding> Diagnose(const GroupFacts& group);

// ---- The report, in doctor.cc.

// 0, kNeedsChange or kRefused, by the worst finding.
int DoctorExitCode(const std::vector<Finding>& findings);

std::string TextReport(const std::string& server, const std::vector<Finding>& findings, bool colour,
                       size_t width = kPageWidth);
// One object: server, verdict ("well", "change", "unusable", "unreachable"), error, checks.
std::string JsonReport(const std::string& server,
                       const absl::StatusOr<std::vector<Finding>>& findings);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_DOCTOR_H_
