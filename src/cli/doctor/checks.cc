// What the doctor checks, one section for each group of checks.
#include "src/cli/doctor/checks.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "src/base/majority.h"
#include "src/cli/doctor/probes.h"
#include "src/cli/term/measures.h"
#include "src/lock/key_set.h"

namespace redlatch::cli {
namespace {

constexpr int kOldestMajor = 7;
// A restart may have forgotten holds that their owners believe in for so long.
constexpr absl::Duration kUsualLease = absl::Seconds(30);

void CheckVersion(const DoctorFacts& facts, Findings& findings) {
  if (const auto valkey = TextIn(facts.info, "valkey_version")) {
    findings.Ok("version", absl::StrCat("Valkey ", *valkey));
    return;
  }
  const auto redis = TextIn(facts.info, "redis_version");
  if (!redis) {
    findings.Bad("version", "the server does not tell its version",
                 "redlatch needs Redis 7.0 or later, or Valkey");
  } else if (std::atoi(redis->c_str()) < kOldestMajor) {
    findings.Bad("version", absl::StrCat("Redis ", *redis),
                 "redlatch needs Redis 7.0 or later, or Valkey");
  } else {
    findings.Ok("version", absl::StrCat("Redis ", *redis));
  }
}

void CheckMode(const DoctorFacts& facts, Findings& findings) {
  const std::string mode = TextIn(facts.info, "redis_mode").value_or("");
  if (mode == "cluster" && facts.place == Place::kAlone) {
    findings.Bad("mode", "a node of a cluster, of whose locks it has only a part",
                 "begin the URL with redis-cluster://");
  } else if (mode == "cluster") {
    findings.Ok("mode", "a node of a cluster");
  } else if (mode == "sentinel") {
    findings.Bad(
        "mode", "a Sentinel, which watches servers and cannot hold locks",
        "connect to the primary that it watches, which this command shows:", {"SENTINEL MASTERS"});
  } else {
    findings.Ok("mode", "standalone, or a primary with replicas");
  }
}

void CheckReplicaRole(const DoctorFacts& facts, const std::string& role, Findings& findings) {
  if (role != "slave") {
    findings.Note("role", "it was a replica when this check began, and is none any more");
  } else if (TextIn(facts.info, "master_link_status") != "up") {
    findings.Warn("role", "a replica that is not connected to its primary",
                  "see its log; are masteruser and masterauth set? It may take over with old data");
  } else {
    findings.Ok("role", "a replica, connected to its primary");
  }
}

void CheckRole(const DoctorFacts& facts, Findings& findings) {
  const std::string role = TextIn(facts.info, "role").value_or("");
  if (facts.place == Place::kReplica) {
    CheckReplicaRole(facts, role, findings);
  } else if (role == "slave" && facts.place == Place::kPrimary) {
    findings.Note("role", "it was a primary when this check began: there was a failover",
                  "check again");
  } else if (role == "slave") {
    const std::string primary = absl::StrCat(TextIn(facts.info, "master_host").value_or("?"), ":",
                                             TextIn(facts.info, "master_port").value_or("?"));
    const bool up = TextIn(facts.info, "master_link_status") == "up";
    findings.Bad(
        "role", absl::StrCat("a replica of ", primary, up ? "" : ", and not connected to it"),
        facts.of_quorum ? "a quorum's servers are primaries, each of its own: name another one"
                        : "locks need the primary; connect to that");
  } else if (role == "master") {
    findings.Ok("role", "a primary");
  } else if (role != "sentinel") {
    findings.Unchecked("role", "the server does not tell whether it is a primary");
  }
  if (NumberIn(facts.info, "loading").value_or(0) != 0) {
    findings.Bad("role", "it is loading its data and does not answer until that is done",
                 "try again then");
  }
}

void CheckUptime(const DoctorFacts& facts, Findings& findings) {
  const auto seconds = NumberIn(facts.info, "uptime_in_seconds");
  if (!seconds) {
    findings.Unchecked("uptime", "the server does not tell how long it has been running");
    return;
  }
  const absl::Duration up = absl::Seconds(*seconds);
  if (up < kUsualLease && !facts.embedded) {
    findings.Note(
        "uptime",
        absl::StrCat("started ", ShortTime(up),
                     " ago: it may have forgotten earlier holds while their holders still believe "
                     "in them (for up to 30 s, the default lease)"),
        "if that was not planned, find out why it restarted, and what it keeps across a restart");
  } else {
    findings.Ok("uptime", absl::StrCat("for ", ShortTime(up)));
  }
}

void CheckEmbedded(const EmbeddedFacts& embedded, Findings& findings) {
  findings.Ok("embedded", absl::StrCat("a private server for this user, ",
                                       embedded.started_by_us ? "started just now" : "running",
                                       ", in ", embedded.directory));
  if (embedded.keeper_pid == 0) {
    findings.Unchecked("keeper", absl::StrCat("the process that watches server ",
                                              embedded.server_pid, " could not be determined"));
  } else {
    findings.Ok("keeper", absl::StrCat("process ", embedded.keeper_pid, " watches server ",
                                       embedded.server_pid, ", and stops it when nobody uses it"));
  }
}

}  // namespace

void CheckServer(const DoctorFacts& facts, Findings& findings) {
  if (facts.embedded) CheckEmbedded(*facts.embedded, findings);
  if (!facts.info.ok()) {
    const std::string why(facts.info.status().message());
    const std::string found = absl::StrCat("not available: ", why);
    const std::string so =
        "without it, neither this command nor redlatch can check the version, role and eviction "
        "policy";
    if (why.find("unknown command") != std::string::npos) {
      findings.Warn("INFO", found, absl::StrCat(so, "; remove its rename-command line"));
    } else {
      findings.Warn("INFO", found, so, {absl::StrCat("ACL SETUSER ", facts.user, " +info")});
    }
    for (const char* const check : {"version", "mode", "role", "uptime"}) {
      findings.Unchecked(check, "only INFO shows it");
    }
    return;
  }
  CheckVersion(facts, findings);
  CheckMode(facts, findings);
  CheckRole(facts, findings);
  CheckUptime(facts, findings);
}

// ---- May this user do all that locks need, and do they then work?

namespace {

using Outcome = CommandProbe::Outcome;

std::map<Outcome, std::set<std::string>> ByOutcome(const DoctorFacts& facts) {
  std::map<Outcome, std::set<std::string>> commands;
  for (const CommandProbe& probe : facts.probes) {
    if (!probe.optional) commands[probe.outcome].insert(probe.command);
  }
  return commands;
}

std::string Grant(const DoctorFacts& facts, std::string_view rules) {
  return absl::StrCat("ACL SETUSER ", facts.user, " ", std::string(rules));
}

void BadKeys(const DoctorFacts& facts, const std::string& who, Findings& findings) {
  if (facts.prefix.empty()) {
    findings.Bad("permissions", absl::StrCat(who, " may not use every name for a lock"),
                 "say what your locks' names begin with: redlatch doctor --prefix PREFIX; or grant "
                 "all names",
                 {Grant(facts, "~*")});
  } else {
    const auto [versioned, readers] = internal::KeyBeginnings(facts.prefix);
    findings.Bad(
        "permissions",
        absl::StrCat(who, " may not use all of ", facts.prefix, "..., ", versioned, "... and ",
                     readers, "... as keys"),
        "locks need them; grant them",
        {Grant(facts, absl::StrCat("~", facts.prefix, "* ~", versioned, "* ~", readers, "*"))});
  }
}

// Clients say who they are in keys of their own, for whoever asks who holds a lock.
void CheckIntroduction(const DoctorFacts& facts, const std::string& who, Findings& findings) {
  for (const CommandProbe& probe : facts.probes) {
    if (!probe.optional || probe.outcome == Outcome::kAllowed) continue;
    findings.Note("names",
                  absl::StrCat(who,
                               " may not say or read which process it is: ls and inspect name "
                               "no host, process or program"),
                  "", {Grant(facts, "+mget ~redlatch:client:*")});
    return;
  }
}

void CheckPermissions(const DoctorFacts& facts, Findings& findings) {
  if (facts.probes.empty()) {
    findings.Unchecked("permissions", "no command could be tried");
    return;
  }
  auto commands = ByOutcome(facts);
  const std::set<std::string>& denied = commands[Outcome::kNoCommand];
  const std::set<std::string>& unknown = commands[Outcome::kUnknownToServer];
  const std::string who = absl::StrCat("user ", facts.user);
  if (!denied.empty()) {
    findings.Bad("permissions", absl::StrCat(who, " may not ", absl::StrJoin(denied, ", ")),
                 "locks need that; grant it",
                 {Grant(facts, absl::StrCat("+", absl::StrJoin(denied, " +")))});
  }
  if (!unknown.empty()) {
    findings.Bad("permissions",
                 absl::StrCat("the server does not know ", absl::StrJoin(unknown, ", ")),
                 "locks need that: take away its rename-command lines, or choose another server");
  }
  if (!commands[Outcome::kNoKey].empty()) {
    BadKeys(facts, who, findings);
  }
  if (!commands[Outcome::kNoChannel].empty()) {
    findings.Bad("permissions", absl::StrCat(who, " may not use the channels redlatch:*"),
                 "nobody would be told that it is his turn; grant them",
                 {Grant(facts, "&redlatch:*")});
  }
  if (facts.MayDoAll()) {
    findings.Ok("permissions",
                absl::StrCat(who, " may run all ", commands[Outcome::kAllowed].size(),
                             " commands that locks need"));
    CheckIntroduction(facts, who, findings);
  }
}

void CheckLocks(const DoctorFacts& facts, Findings& findings) {
  if (facts.place == Place::kReplica) return;
  if (facts.locks_elsewhere) {
    findings.Unchecked("locks", absl::StrCat("none that begins with ", facts.prefix, " is here"));
    return;
  }
  if (!facts.library.ok()) {
    findings.Bad(
        "locks",
        absl::StrCat("redlatch does not take this server: ", std::string(facts.library.message())),
        "");
    return;
  }
  if (facts.trials.empty()) {
    findings.Unchecked("locks", "none was tried, for what is said above");
    return;
  }
  std::vector<std::string> working;
  std::vector<std::string> untried;
  for (const LockTrial& trial : facts.trials) {
    if (trial.outcome.ok()) {
      working.push_back(trial.kind);
    } else if (absl::IsCancelled(trial.outcome)) {
      untried.push_back(trial.kind);
    } else {
      findings.Bad(
          "locks",
          absl::StrCat(trial.kind, " does not work: ", std::string(trial.outcome.message())), "");
    }
  }
  if (!untried.empty()) {
    findings.Unchecked("locks", absl::StrCat("not tried, for lack of time or of an answer: ",
                                             absl::StrJoin(untried, ", ")));
  }
  if (!working.empty()) {
    findings.Ok("locks", absl::StrCat("taken, kept and released: ", absl::StrJoin(working, ", ")));
  }
}

void CheckPassword(const DoctorFacts& facts, Findings& findings) {
  if (facts.has_password || !facts.over_network) return;
  findings.Note("password",
                "none was needed: whoever reaches the server can take and delete every lock",
                "give its users passwords, unless its network is its guard");
}

}  // namespace

void CheckAccess(const DoctorFacts& facts, Findings& findings) {
  CheckPassword(facts, findings);
  CheckPermissions(facts, findings);
  CheckLocks(facts, findings);
}

// ---- Memory: do held locks stay there, and is there room for new ones?

namespace {

void CheckEviction(const DoctorFacts& facts, Findings& findings) {
  const auto policy = TextIn(facts.info, "maxmemory_policy");
  const auto limit = NumberIn(facts.info, "maxmemory");
  if (!policy || !limit) {
    findings.Unchecked("eviction", "the server does not tell whether it evicts keys",
                       "maxmemory-policy must be noeviction, or held locks may vanish");
    return;
  }
  if (*policy == "noeviction") {
    findings.Ok("eviction", "none: held locks stay held");
    return;
  }
  const std::string mend = WhereToSet(facts);
  const std::vector<std::string> commands = {Setting(facts, "maxmemory-policy", "noeviction")};
  if (*limit == 0) {
    findings.Warn("eviction",
                  absl::StrCat("maxmemory-policy ", *policy,
                               ": as soon as maxmemory is set, held locks may be evicted"),
                  mend, commands);
  } else if (facts.eviction_allowed) {
    findings.Warn("eviction",
                  absl::StrCat("maxmemory-policy ", *policy,
                               ": held locks may be evicted, which ?eviction=allow accepts"),
                  mend, commands);
  } else {
    findings.Bad("eviction",
                 absl::StrCat("maxmemory-policy ", *policy,
                              ": held locks may be evicted; redlatch refuses such a server"),
                 mend, commands);
  }
}

void CheckRoom(const DoctorFacts& facts, Findings& findings) {
  const auto used = NumberIn(facts.info, "used_memory");
  const int64_t limit = NumberIn(facts.info, "maxmemory").value_or(0);
  const int64_t machine = NumberIn(facts.info, "total_system_memory").value_or(0);
  const int64_t room = limit != 0 ? limit : machine;
  if (!used) {
    findings.Unchecked("memory", "the server does not tell how much it uses");
    return;
  }
  if (room == 0) {
    findings.Unchecked("memory", absl::StrCat(ShortSize(*used),
                                              " used; the server does not tell out of how much"));
    return;
  }
  const int64_t percent =
      static_cast<int64_t>(100.0 * static_cast<double>(*used) / static_cast<double>(room));
  const std::string found =
      absl::StrCat(ShortSize(*used), " of ", ShortSize(room), " used, ", percent, " %",
                   limit != 0 ? "" : "; the only limit is the machine's memory");
  std::vector<std::string> commands;
  if (limit != 0) commands = {Setting(facts, "maxmemory", absl::StrCat(2 * limit))};
  if (limit != 0 && percent >= 100) {
    findings.Bad("memory", absl::StrCat(found, ": no new lock can be taken"),
                 "remove data, or raise the limit", commands);
  } else if (percent >= 90) {
    findings.Warn("memory",
                  absl::StrCat(found, limit != 0 ? ": soon no new lock can be taken"
                                                 : ": the server will become slow, or be killed"),
                  limit != 0 ? "remove data, or raise the limit" : "remove data", commands);
  } else if (percent >= 75) {
    findings.Note("memory", found);
  } else {
    findings.Ok("memory", found);
  }
}

void CheckEvicted(const DoctorFacts& facts, Findings& findings) {
  const int64_t evicted = NumberIn(facts.info, "evicted_keys").value_or(0);
  if (evicted > 0) {
    findings.Note(
        "evicted",
        absl::StrCat(
            evicted,
            " keys were evicted since the server started; some of them may have been held locks"));
  }
}

}  // namespace

void CheckMemory(const DoctorFacts& facts, Findings& findings) {
  CheckEviction(facts, findings);
  CheckRoom(facts, findings);
  CheckEvicted(facts, findings);
}

// ---- What a restart or a failover loses.

namespace {

constexpr absl::Duration kLongestLag = absl::Seconds(10);  // of min-replicas-max-lag, too

void CheckRestart(const DoctorFacts& facts, Findings& findings) {
  const auto append_only = NumberIn(facts.info, "aof_enabled");
  if (!append_only) {
    findings.Unchecked("persistence", "the server does not tell what it keeps across a restart");
    return;
  }
  if (facts.embedded) {
    findings.Note("persistence",
                  "none: if the server crashes, it forgets who holds what; so does a reboot, which "
                  "ends the holders, too");
    return;
  }
  if (*append_only == 0 && facts.of_quorum) {
    if (facts.restart_delay > absl::ZeroDuration()) {
      findings.Note("persistence",
                    "none, or snapshots: a restart forgets what this server has granted, and the "
                    "restart delay keeps it from granting that to others");
      return;
    }
    findings.Warn("persistence",
                  "no append-only file: a restart forgets what this server has granted, and a "
                  "second holder may get a majority",
                  "say restart_delay= in the URL of each server, not shorter than the longest "
                  "lease; or keep an append-only file",
                  {Setting(facts, "appendonly", "yes"), Setting(facts, "appendfsync", "always")});
    return;
  }
  if (*append_only == 0) {
    const auto save = TextIn(facts.config, "save");
    const char* const found =
        !save ? "no append-only file: a restart forgets who holds what, or goes back to a snapshot"
        : save->empty() ? "none: a restart forgets who holds what, and gives those locks to others"
                        : "snapshots only: a restart forgets every lock taken since the last one, "
                          "and gives it to others";
    findings.Warn("persistence", found,
                  "keep an append-only file; or restart it only after the longest lease has "
                  "expired, and fence everything that must not be overwritten",
                  {Setting(facts, "appendonly", "yes"), Setting(facts, "appendfsync", "always")});
    return;
  }
  const auto sync = TextIn(facts.config, "appendfsync");
  if (!sync) {
    findings.Note("persistence",
                  "an append-only file; only CONFIG shows how often it reaches the disk",
                  "only with appendfsync always is nothing forgotten if the machine fails");
  } else if (*sync == "always") {
    findings.Ok("persistence",
                "an append-only file, on disk before each answer: a restart forgets nothing");
  } else if (*sync == "everysec") {
    findings.Note("persistence",
                  "an append-only file, on disk every second: if the server crashes, nothing is "
                  "forgotten; if the machine does, the last second or two",
                  "if that is too much", {Setting(facts, "appendfsync", "always")});
  } else {
    findings.Warn(
        "persistence",
        absl::StrCat("an append-only file with appendfsync ", *sync,
                     ": if the machine fails, the last half minute of locks is forgotten"),
        WhereToSet(facts), {Setting(facts, "appendfsync", "always")});
  }
}

// Redis takes no writes at all after some failures to write its own files.
void CheckWrites(const DoctorFacts& facts, Findings& findings) {
  if (TextIn(facts.info, "aof_last_write_status").value_or("ok") != "ok") {
    findings.Bad("disk", "the append-only file cannot be written: no lock can be taken or kept",
                 "see the server's log; is its disk full?");
  } else if (TextIn(facts.info, "rdb_last_bgsave_status").value_or("ok") != "ok") {
    const bool goes_on = TextIn(facts.config, "stop-writes-on-bgsave-error") == "no";
    if (goes_on) {
      findings.Warn("disk", "the last snapshot could not be written",
                    "see the server's log; is its disk full?");
    } else {
      findings.Bad("disk",
                   "the last snapshot could not be written, so the server accepts no writes: no "
                   "lock can be taken or kept",
                   "see the server's log; is its disk full? Or let it go on without snapshots",
                   {Setting(facts, "stop-writes-on-bgsave-error", "no")});
    }
  } else if (TextIn(facts.info, "aof_last_bgrewrite_status").value_or("ok") != "ok") {
    findings.Warn("disk", "the append-only file could not be rewritten and keeps growing",
                  "see the server's log; is its disk full?");
  }
}

void CheckEachReplica(const DoctorFacts& facts, Findings& findings) {
  for (const Replica& replica : facts.replicas) {
    if (replica.state != "online") {
      findings.Warn("replicas", absl::StrCat(replica.address, " is not in sync: ", replica.state),
                    "see its log; a new replica first copies all data");
    } else if (replica.lag > kLongestLag) {
      findings.Warn(
          "replicas",
          absl::StrCat(replica.address, " was last heard from ", ShortTime(replica.lag), " ago"),
          "check whether it is running, and its network");
    }
  }
}

void CheckFailover(const DoctorFacts& facts, int64_t connected, Findings& findings) {
  const auto wanted = NumberIn(facts.config, "min-replicas-to-write");
  if (!wanted) {
    findings.Unchecked(
        "failover",
        "only CONFIG shows whether the server goes on alone if it is cut off from its replicas",
        "it should not", {Setting(facts, "min-replicas-to-write", "1")});
    return;
  }
  const int64_t lag = NumberIn(facts.config, "min-replicas-max-lag").value_or(10);
  if (*wanted > connected) {
    findings.Bad("failover",
                 absl::StrCat("min-replicas-to-write is ", *wanted, " with ", connected,
                              " replicas: no lock can be taken or kept"),
                 "bring the replicas back, or require fewer",
                 {Setting(facts, "min-replicas-to-write", absl::StrCat(connected))});
  } else if (const auto silence = NumberIn(facts.config, "cluster-node-timeout");
             facts.place == Place::kPrimary && silence) {
    findings.Ok("failover", absl::StrCat("a primary that is cut off from most others stops after ",
                                         ShortTime(absl::Milliseconds(*silence)),
                                         ", and a replica takes over soon after"));
  } else if (!StopsAlone(facts)) {
    findings.Warn("failover",
                  "a primary that is cut off from its replicas keeps granting locks, while a "
                  "promoted replica may grant the same ones",
                  "make it stop then; with only one replica, it also stops if that replica fails",
                  {Setting(facts, "min-replicas-to-write", "1"),
                   Setting(facts, "min-replicas-max-lag", "10")});
  } else {
    findings.Ok("failover", absl::StrCat("a primary that is cut off stops after ",
                                         ShortTime(absl::Seconds(lag))));
  }
}

}  // namespace

void CheckStorage(const DoctorFacts& facts, Findings& findings) {
  CheckRestart(facts, findings);
  CheckWrites(facts, findings);
}

void CheckReplicas(const DoctorFacts& facts, Findings& findings) {
  if (facts.embedded) return;
  const auto connected = NumberIn(facts.info, "connected_slaves");
  if (!connected) {
    findings.Unchecked("replicas", "the server does not tell whether it has any");
    return;
  }
  if (*connected == 0) {
    if (facts.place == Place::kPrimary) {
      findings.Warn("replicas",
                    "none: if it fails, nobody serves its slots, and no lock there can be taken or "
                    "kept, until it is back",
                    "add a replica: redis-cli --cluster add-node NEW:PORT ANY:PORT "
                    "--cluster-slave --cluster-master-id ID");
    }
    if (NumberIn(facts.config, "min-replicas-to-write").value_or(0) > 0) {
      CheckFailover(facts, 0, findings);
    } else if (facts.place == Place::kAlone && !facts.of_quorum) {
      findings.Note("replicas", "none: if this machine fails, there are no locks until it is back");
    }
    return;
  }
  CheckEachReplica(facts, findings);
  CheckFailover(facts, *connected, findings);
  if (!facts.confirmation.ok()) {
    findings.Unchecked("WAIT",
                       absl::StrCat("it could not be tested whether replicas confirm writes: ",
                                    std::string(facts.confirmation.status().message())));
  } else if (facts.confirmation->replicas < *connected) {
    findings.Warn(
        "WAIT",
        absl::StrCat(facts.confirmation->replicas, " of ", *connected,
                     " replicas had a write within ", ShortTime(facts.confirmation->took)),
        "a failover loses what has not arrived; check the replicas' load and network");
  } else {
    findings.Ok("WAIT", absl::StrCat("all ", *connected, " replicas had a write within ",
                                     ShortTime(facts.confirmation->took),
                                     "; a failover loses what has not arrived"));
  }
}

// ---- What disconnects clients, or makes them wait.

namespace {

// Eight clients of redlatch, of two connections each.
constexpr int64_t kFewConnections = 16;

void CheckConnections(const DoctorFacts& facts, Findings& findings) {
  const auto connected = NumberIn(facts.info, "connected_clients");
  const auto most = NumberIn(facts.info, "maxclients");
  if (!connected || !most) {
    findings.Unchecked("connections",
                       "the server does not tell how many it has and how many it accepts");
    return;
  }
  const std::string found = absl::StrCat(*connected, " of at most ", *most);
  const int64_t left = *most - *connected;
  if (left < kFewConnections || left < *most / 10) {
    findings.Warn(
        "connections",
        absl::StrCat(
            found,
            "; each process with locks needs two, and a process that gets none gets no lock"),
        WhereToSet(facts),
        {Setting(facts, "maxclients", absl::StrCat(std::max<int64_t>(1000, 2 * *most)))});
  } else {
    findings.Ok("connections", found);
  }
  const int64_t rejected = NumberIn(facts.info, "rejected_connections").value_or(0);
  if (rejected > 0) {
    findings.Note(
        "connections",
        absl::StrCat(rejected,
                     " were rejected since the server started, because there were too many"));
  }
}

void CheckTimeout(const DoctorFacts& facts, Findings& findings) {
  const auto timeout = NumberIn(facts.config, "timeout");
  if (timeout && *timeout > 0) {
    findings.Note("timeout",
                  absl::StrCat("a connection that is idle for ", ShortTime(absl::Seconds(*timeout)),
                               " is closed, so the next lock after a pause has to reconnect first"),
                  "", {Setting(facts, "timeout", "0")});
  }
  const auto keepalive = NumberIn(facts.config, "tcp-keepalive");
  if (keepalive && *keepalive == 0 && facts.over_network) {
    findings.Note(
        "keepalive",
        "the server never notices that a machine has vanished: that machine's waiters keep their "
        "places until they miss their heartbeats, and its connections stay forever",
        "", {Setting(facts, "tcp-keepalive", "60")});
  }
  if (timeout && keepalive && *timeout == 0 && (*keepalive > 0 || !facts.over_network)) {
    findings.Ok("timeout", "idle connections are kept");
  }
  if (!timeout || !keepalive) {
    findings.Unchecked("timeout", "only CONFIG shows whether idle connections are closed");
  }
}

void CheckLongScripts(const DoctorFacts& facts, Findings& findings) {
  auto limit = NumberIn(facts.config, "busy-reply-threshold");
  if (!limit) limit = NumberIn(facts.config, "lua-time-limit");
  if (!limit) {
    findings.Unchecked("scripts", "only CONFIG shows when the server reports a script that hangs");
  } else if (*limit <= 0 || *limit > 10000) {
    findings.Note("scripts",
                  "if another program's script hangs, it is hard to end: the server reports BUSY "
                  "too late, or never",
                  "", {Setting(facts, "busy-reply-threshold", "5000")});
  } else {
    findings.Ok("scripts",
                absl::StrCat("a script that has run for ", ShortTime(absl::Milliseconds(*limit)),
                             " can be ended with SCRIPT KILL"));
  }
}

void CheckClientEviction(const DoctorFacts& facts, Findings& findings) {
  const std::string limit = TextIn(facts.config, "maxmemory-clients").value_or("0");
  if (limit == "0") return;
  findings.Note(
      "clients",
      absl::StrCat("maxmemory-clients is ", limit,
                   ": connections are cut when they use more in total, which delays their waiters"),
      "", {Setting(facts, "maxmemory-clients", "0")});
}

void CheckEvents(const DoctorFacts& facts, Findings& findings) {
  if (TextIn(facts.config, "notify-keyspace-events").value_or("").empty()) return;
  findings.Note("events",
                "notify-keyspace-events is set, so each lock costs the server some extra messages; "
                "redlatch does not need them",
                "if nothing else needs them", {Setting(facts, "notify-keyspace-events", "\"\"")});
}

}  // namespace

void CheckLimits(const DoctorFacts& facts, Findings& findings) {
  CheckConnections(facts, findings);
  CheckTimeout(facts, findings);
  CheckLongScripts(facts, findings);
  CheckClientEviction(facts, findings);
  CheckEvents(facts, findings);
}

// ---- Do messages reach waiters?

namespace {

constexpr int64_t kSmallBuffer = int64_t{1} << 20;

// The hard limit of class "pubsub" in "normal 0 0 0 slave 1 2 3 pubsub 4 5 6"; nothing where it is
// not there.
std::optional<int64_t> PubSubLimit(const std::string& limits) {
  const std::vector<std::string> words = absl::StrSplit(limits, ' ', absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t bytes = 0;
    if (words[i] == "pubsub" && absl::SimpleAtoi(words[i + 1], &bytes)) return bytes;
  }
  return std::nullopt;
}

void CheckBufferLimit(const DoctorFacts& facts, Findings& findings) {
  const auto limits = TextIn(facts.config, "client-output-buffer-limit");
  const std::optional<int64_t> hard = limits ? PubSubLimit(*limits) : std::nullopt;
  if (!hard) {
    findings.Unchecked(
        "buffers",
        "only CONFIG shows how much may queue for a subscriber before it is disconnected");
  } else if (*hard > 0 && *hard < kSmallBuffer) {
    findings.Warn(
        "buffers",
        absl::StrCat("a subscriber is disconnected when ", ShortSize(*hard),
                     " are queued for it: a waiter may miss its turn and get the lock late"),
        WhereToSet(facts),
        {Setting(facts, "client-output-buffer-limit", "\"pubsub 32mb 8mb 60\"")});
  } else {
    findings.Ok("buffers", *hard == 0
                               ? std::string("any number of messages may queue for a subscriber")
                               : absl::StrCat(ShortSize(*hard), " may queue for a subscriber"));
  }
}

void CheckBacklogs(const DoctorFacts& facts, Findings& findings) {
  if (!facts.pubsub_backlogs.ok()) {
    findings.Unchecked(
        "subscribers",
        absl::StrCat("only CLIENT LIST shows which subscribers do not read their messages: ",
                     std::string(facts.pubsub_backlogs.status().message())));
    return;
  }
  int64_t late = 0;
  const PubSubBacklog* worst = nullptr;
  for (const PubSubBacklog& backlog : *facts.pubsub_backlogs) {
    if (backlog.bytes < kSmallBuffer) continue;
    ++late;
    if (worst == nullptr || backlog.bytes > worst->bytes) worst = &backlog;
  }
  if (worst == nullptr) {
    findings.Ok("subscribers", absl::StrCat(facts.pubsub_backlogs->size(),
                                            " connected, all of them read their messages"));
    return;
  }
  findings.Warn("subscribers",
                absl::StrCat(late, " do not read their messages, among them ", worst->address,
                             worst->name.empty() ? "" : absl::StrCat(" (", worst->name, ")"), ", ",
                             ShortSize(worst->bytes), " behind"),
                "check whether that program is stopped or overloaded");
}

}  // namespace

void CheckMessages(const DoctorFacts& facts, Findings& findings) {
  if (facts.message.ok()) {
    findings.Ok("messages",
                absl::StrCat("a published message arrived after ", ShortTime(*facts.message)));
  } else if (facts.place != Place::kAlone && absl::IsPermissionDenied(facts.message.status())) {
    findings.Bad(
        "messages",
        absl::StrCat("sharded channels are refused: ",
                     std::string(facts.message.status().message())),
        "in a cluster redlatch tells waiters of their turn by them; permit them, or, if a hosted "
        "service forbids them, use it without cluster mode",
        {absl::StrCat("ACL SETUSER ", facts.user,
                      " +spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub &redlatch:*")});
  } else if (absl::IsPermissionDenied(facts.message.status()) ||
             absl::IsDeadlineExceeded(facts.message.status())) {
    findings.Bad(
        "messages",
        absl::StrCat("they do not arrive: ", std::string(facts.message.status().message())),
        "those who wait would not be told, and ask several times per second instead; let the "
        "address "
        "lead to the primary alone, and permit PUBLISH");
  } else {
    findings.Unchecked("messages", absl::StrCat("it could not be tested whether they arrive: ",
                                                std::string(facts.message.status().message())));
  }
  CheckBufferLimit(facts, findings);
  CheckBacklogs(facts, findings);
}

// ---- The server's speed and its clock.

namespace {

constexpr absl::Duration kRecent = absl::Hours(24);
// A renewal that waits so long has used up a third of a short lease.
constexpr absl::Duration kSlow = absl::Milliseconds(100);
constexpr absl::Duration kVerySlow = absl::Seconds(1);
constexpr absl::Duration kSlowP99 = absl::Milliseconds(20);
// What TIME's microseconds and a scheduler can explain.
constexpr absl::Duration kClockNoise = absl::Milliseconds(5);
constexpr absl::Duration kSkew = absl::Seconds(1);

// Null: none was recent, or they were not told.
const Delay* WorstRecent(const Told<std::vector<Delay>>& delays) {
  const Delay* worst = nullptr;
  if (!delays.ok()) return nullptr;
  for (const Delay& delay : *delays) {
    if (delay.ago >= kRecent) continue;
    if (worst == nullptr || delay.took > worst->took) worst = &delay;
  }
  return worst;
}

absl::Duration WorstSeen(const DoctorFacts& facts) {
  absl::Duration worst = facts.slowest_pair / 2;
  for (const absl::Duration ping : facts.pings) worst = std::max(worst, ping);
  for (const auto* const delays : {&facts.slow_commands, &facts.latency_spikes}) {
    if (const Delay* const delay = WorstRecent(*delays)) worst = std::max(worst, delay->took);
  }
  return worst;
}

void CheckRoundTrip(const DoctorFacts& facts, Findings& findings) {
  if (facts.pings.empty()) {
    findings.Unchecked("round trip", "PING was not answered");
    return;
  }
  const Spread spread = SpreadOf(facts.pings);
  const std::string found =
      absl::StrCat("p50 ", ShortTime(spread.p50), ", p99 ", ShortTime(spread.p99), ", worst ",
                   ShortTime(spread.worst), " of ", facts.pings.size(), " PINGs");
  if (spread.worst >= kSlow) {
    findings.Warn("round trip", found,
                  "find what delays it: the network, slow commands, or an overloaded machine");
  } else if (spread.p99 >= kSlowP99) {
    findings.Note("round trip", found);
  } else {
    findings.Ok("round trip", found);
  }
}

void CheckSlowCommands(const DoctorFacts& facts, Findings& findings) {
  if (!facts.slow_commands.ok()) {
    findings.Unchecked("slow log", "only SLOWLOG shows which commands hold up all others");
    return;
  }
  const Delay* const worst = WorstRecent(facts.slow_commands);
  if (worst == nullptr) {
    findings.Ok("slow log", "nothing in the last 24 hours");
    return;
  }
  const std::string found =
      absl::StrCat("the slowest in the last 24 hours: ", worst->what, ", ", ShortTime(worst->took),
                   ", ", ShortTime(worst->ago), " ago");
  if (worst->took >= kSlow) {
    findings.Warn("slow log", absl::StrCat(found, "; every renewal had to wait for it"),
                  worst->took >= kVerySlow
                      ? "move that work to another server, since it makes short leases expire"
                      : "move that work to another server, or do not use short leases",
                  {"SLOWLOG GET"});
  } else {
    findings.Note("slow log", found);
  }
}

void CheckSpikes(const DoctorFacts& facts, Findings& findings) {
  if (!facts.latency_spikes.ok()) {
    findings.Unchecked("stalls", "only LATENCY shows what else has delayed the server");
    return;
  }
  if (NumberIn(facts.config, "latency-monitor-threshold").value_or(0) == 0 &&
      facts.latency_spikes->empty()) {
    findings.Unchecked("stalls", "the server does not record delays by forks and disks",
                       "to make it do so", {Setting(facts, "latency-monitor-threshold", "100")});
    return;
  }
  const Delay* const worst = WorstRecent(facts.latency_spikes);
  if (worst == nullptr || worst->took < kSlow) {
    findings.Ok("stalls", "none worth mentioning in the last 24 hours");
  } else {
    findings.Warn("stalls",
                  absl::StrCat("the longest: ", worst->what, ", ", ShortTime(worst->took)),
                  "ask the server what can be done", {"LATENCY DOCTOR"});
  }
}

void HintAtLease(const DoctorFacts& facts, Findings& findings) {
  if (facts.pings.empty()) return;
  const absl::Duration worst = WorstSeen(facts);
  const absl::Duration least = ShortestLease(worst);
  const std::string found = absl::StrCat(
      "at least ", ShortTime(least), ", twenty times the slowest seen (", ShortTime(worst), ")");
  if (least > absl::Seconds(30)) {
    findings.Warn(
        "lease", found,
        "the default of 30 s is too short here: fix what is slow, or set LockOptions::lease");
  } else {
    findings.Ok("lease", found);
  }
}

// How far the server's clock went beyond what its neighbours in time can explain; negative: back.
absl::Duration Step(const ClockReading& earlier, const ClockReading& later) {
  const absl::Duration passed = later.server - earlier.server;
  const absl::Duration least = later.sent - earlier.received;
  const absl::Duration most = later.received - earlier.sent;
  const absl::Duration slack = kClockNoise + most / 100;
  if (passed < least - slack) return passed - least;
  if (passed > most + slack) return passed - most;
  return absl::ZeroDuration();
}

}  // namespace

void CheckLatency(const DoctorFacts& facts, Findings& findings) {
  CheckRoundTrip(facts, findings);
  CheckSlowCommands(facts, findings);
  CheckSpikes(facts, findings);
  HintAtLease(facts, findings);
}

void CheckClock(const DoctorFacts& facts, Findings& findings) {
  if (facts.clock.size() < 2) {
    findings.Unchecked("clock", "the server does not tell its time (TIME)");
    return;
  }
  const ClockReading& first = facts.clock.front();
  const ClockReading& last = facts.clock.back();
  absl::Duration step;
  for (size_t i = 1; i < facts.clock.size(); ++i) {
    const absl::Duration here = Step(facts.clock[i - 1], facts.clock[i]);
    if (absl::AbsDuration(here) > absl::AbsDuration(step)) step = here;
  }
  if (absl::AbsDuration(Step(first, last)) > absl::AbsDuration(step)) step = Step(first, last);
  const std::string watched = ShortTime(last.received - first.sent);
  if (step != absl::ZeroDuration()) {
    findings.Warn(
        "clock",
        absl::StrCat("jumped ", ShortTime(absl::AbsDuration(step)),
                     step > absl::ZeroDuration() ? " ahead" : " back", " within ", watched,
                     "; leases depend on it"),
        "make its machine slew the clock and never step it, as chrony does without makestep",
        {"chronyc tracking"});
    return;
  }
  const absl::Duration skew = last.server - last.here;
  const std::string found = absl::StrCat("steady over the ", watched, " of this check");
  if (absl::AbsDuration(skew) > kSkew) {
    findings.Note("clock",
                  absl::StrCat(found, "; ", ShortTime(absl::AbsDuration(skew)),
                               skew > absl::ZeroDuration() ? " ahead of" : " behind",
                               " this machine's clock, which does not matter to locks"),
                  "but a successor whose clock is behind would hand out smaller tokens: keep both "
                  "in step by NTP",
                  {"timedatectl timesync-status"});
  } else {
    findings.Ok("clock", absl::StrCat(found, ", and in step with this machine's"));
  }
}

// ---- How the server is reached, what monitors it, and what locks survive in a failover.

namespace {

constexpr absl::Duration kSoon = absl::Hours(24 * 14);
constexpr size_t kEnough = 3;  // sentinels, so that one may fail

void CheckViews(const DoctorFacts& facts, Findings& findings) {
  std::map<std::string, std::vector<std::string>> named;
  std::set<std::string> quorums;
  size_t answered = 0;
  int64_t quorum = 0;
  for (const SentinelView& view : facts.sentinels) {
    if (!view.master.ok()) {
      findings.Warn("sentinels", std::string(view.master.status().message()),
                    "start it again, or take it out of the URL");
      continue;
    }
    ++answered;
    named[view.names].push_back(view.address);
    quorum = std::max(quorum, NumberIn(view.master, "quorum").value_or(0));
    quorums.insert(TextIn(view.master, "quorum").value_or("?"));
    const std::string flags = TextIn(view.master, "flags").value_or("master");
    if (flags != "master") {
      findings.Warn("sentinels", absl::StrCat(view.address, " calls the primary ", flags),
                    "see its log: can it reach the primary?");
    }
  }
  if (named.size() > 1) {
    std::vector<std::string> views;
    for (const auto& [primary, who] : named) {
      views.push_back(absl::StrCat(absl::StrJoin(who, " and "), " name ", primary));
    }
    findings.Bad("sentinels", absl::StrCat("they disagree: ", absl::StrJoin(views, ", ")),
                 "a failover may be under way; if it stays so, restart those that are behind");
  }
  if (quorums.size() > 1) {
    findings.Warn("sentinels", absl::StrCat("their quorums differ: ", absl::StrJoin(quorums, ", ")),
                  "SENTINEL SET <name> quorum <number> on each of them");
  }
  if (answered < static_cast<size_t>(quorum)) {
    findings.Bad("sentinels",
                 absl::StrCat(answered, " of them answer, and the quorum is ", quorum,
                              ": nobody would replace the primary"),
                 "start the others again");
  } else if (facts.sentinels.size() < kEnough) {
    findings.Warn("sentinels",
                  absl::StrCat("there are ", facts.sentinels.size(),
                               ": if one fails, nobody replaces the primary"),
                  "run three, on machines that fail apart");
  } else if (answered == facts.sentinels.size() && named.size() == 1) {
    const Told<Fields>& master = facts.sentinels.front().master;
    const int64_t down_after = NumberIn(master, "down-after-milliseconds").value_or(0);
    findings.Ok("sentinels", absl::StrCat("all ", answered, " name ", named.begin()->first,
                                          ", with a quorum of ", quorum,
                                          "; it is replaced when it was silent for ",
                                          ShortTime(absl::Milliseconds(down_after))));
  }
}

// What is wrong with the quarantine that the URL asks for, or does not ask for.
void CheckQuarantine(const DoctorFacts& facts, Findings& findings) {
  const std::string wanted = absl::FormatDuration(facts.quarantine);
  if (facts.reign && facts.reign->quarantine != facts.quarantine) {
    const std::string theirs = absl::FormatDuration(facts.reign->quarantine);
    const bool none = facts.quarantine <= absl::ZeroDuration();
    findings.Bad(
        "quarantine",
        absl::StrCat("others that use this server ask for a quarantine of ", theirs,
                     ", and this URL for ",
                     none ? "none: its clients grant what the others hold back"
                          : absl::StrCat("one of ", wanted, ": they refuse each other")),
        absl::StrCat("say quarantine=", theirs, " in each URL; or stop all of them, and delete ",
                     facts.place == Place::kAlone ? "redlatch:reign"
                                                  : "all redlatch:{*}:reign* at each primary"));
  }
  if (facts.quarantine <= absl::ZeroDuration()) return;
  if (!facts.info.ok()) {
    findings.Bad("quarantine", "this user may not run INFO, by which a promotion is known",
                 absl::StrCat("ACL SETUSER ", facts.user, " +info; or use replica_acks instead"));
    return;
  }
  if (facts.reign && facts.reign->until > facts.looked_at) {
    findings.Note(
        "quarantine",
        absl::StrCat("the server is new, or was promoted: nobody is granted anything for ",
                     ShortTime(facts.reign->until - facts.looked_at), " more"));
  }
  const auto lag = NumberIn(facts.config, "min-replicas-max-lag");
  const absl::Duration alone = absl::Seconds(lag.value_or(10) + 1);
  if (facts.quarantine <= alone) {
    findings.Bad("quarantine",
                 absl::StrCat(wanted, " is too short: a primary that is cut off grants for ",
                              absl::FormatDuration(alone), " more (min-replicas-max-lag)"),
                 "make it longer than that and the longest lease together");
  } else if (!lag) {
    findings.Unchecked("quarantine",
                       "only CONFIG shows for how long a primary that is cut off goes on: it is "
                       "taken for the usual 10 s",
                       absl::StrCat("ACL SETUSER ", facts.user, " +config|get"));
  }
  const auto ttl = NumberIn(facts.config, "repl-backlog-ttl");
  if (ttl.value_or(0) > 0) {
    findings.Warn("quarantine",
                  absl::StrCat("repl-backlog-ttl is ", *ttl,
                               " s: a primary without replicas for so long counts as promoted, "
                               "and grants nothing for ",
                               wanted),
                  WhereToSet(facts), {Setting(facts, "repl-backlog-ttl", "0")});
  }
}

}  // namespace

void CheckCertificate(const DoctorFacts& facts, Findings& findings) {
  if (!facts.certificate_until) return;
  const absl::Duration left = *facts.certificate_until - facts.looked_at;
  const std::string when =
      absl::FormatTime("%Y-%m-%d", *facts.certificate_until, absl::UTCTimeZone());
  if (left < kSoon) {
    findings.Warn("TLS",
                  absl::StrCat("the server's certificate ends on ", when,
                               ": no connection can be made from then on"),
                  "renew it now; redlatch reads its own files again when they change");
  } else {
    findings.Ok("TLS", absl::StrCat("the server's certificate is good until ", when));
  }
}

void CheckSentinels(const DoctorFacts& facts, Findings& findings) {
  if (!facts.sentinels.empty()) CheckViews(facts, findings);
}

// What docs/guarantees.md says of failovers, for this server group.
void CheckPromise(const DoctorFacts& facts, Findings& findings) {
  if (facts.embedded) return;
  CheckQuarantine(facts, findings);
  const auto replicas = NumberIn(facts.info, "connected_slaves");
  if (!replicas) return;
  if (facts.place == Place::kPrimary && facts.quarantine <= absl::ZeroDuration()) {
    if (*replicas == 0) return;
    findings.Note("promise",
                  "one holder at a time; a failover that loses the last writes may give a lock to "
                  "a second one, for a lease at most",
                  "if that must not be, acquire with replica_acks = 1; fencing tokens grow in any "
                  "case");
    return;
  }
  if (*replicas == 0) {
    findings.Note("promise",
                  "one holder at a time, for as long as this server keeps its data; nothing "
                  "replaces it if it fails");
    return;
  }
  const bool stops = StopsAlone(facts);
  if (facts.quarantine > absl::ZeroDuration() && stops) {
    findings.Ok("promise",
                absl::StrCat("one holder at a time, also across a failover, after which nobody is "
                             "granted anything for ",
                             absl::FormatDuration(facts.quarantine)));
    return;
  }
  if (facts.quarantine > absl::ZeroDuration()) {
    findings.Note("promise",
                  "one holder at a time; a primary that is cut off, and not stopped by "
                  "min-replicas-to-write, may grant a lock that the new one grants after the "
                  "quarantine",
                  WhereToSet(facts), {Setting(facts, "min-replicas-to-write", "1")});
    return;
  }
  findings.Note("promise",
                "one holder at a time; a failover that loses the last writes may give a lock to a "
                "second one, for a lease at most",
                absl::StrCat("if that must not be, acquire with replica_acks = ", *replicas,
                             ", or say quarantine= in the URL; fencing tokens grow in any case"));
}

// ---- Do the nodes form one cluster, and serve all its slots?

namespace {

constexpr size_t kMajority = 3;  // primaries, so that two of them can agree that the third is gone
constexpr size_t kMostSlotsNamed = 5;  // slots on the move

std::string Listed(const std::set<std::string>& all) { return absl::StrJoin(all, ", "); }

void CheckSeed(const ClusterFacts& facts, const SeedFacts& seed, Findings& findings) {
  if (absl::StrContains(seed.reached.message(), "cluster support disabled")) {
    findings.Bad("seeds", absl::StrCat(seed.address, " is no node of a cluster"),
                 "take it out of the URL");
  } else if (!seed.reached.ok()) {
    findings.Warn("seeds",
                  absl::StrCat(seed.address, " does not serve to begin with: ",
                               std::string(seed.reached.message())),
                  "mend that, or take it out of the URL; clients need one that does");
  } else if (seed.primaries.empty()) {
    findings.Bad("seeds", absl::StrCat(seed.address, " knows of no node that serves slots"),
                 "join it to the cluster, or take it out of the URL");
  }
  for (const SeedFacts& first : facts.seeds) {
    if (&first == &seed) return;
    if (!first.reached.ok() || first.primaries.empty()) continue;
    const bool apart = std::ranges::none_of(
        seed.primaries, [&](const std::string& id) { return first.primaries.contains(id); });
    if (!apart || seed.primaries.empty()) return;
    findings.Bad("seeds",
                 absl::StrCat(seed.address, " belongs to another cluster than ", first.address,
                              ": clients that begin there exclude nobody here"),
                 "take one of them out of the URL");
    return;
  }
}

void CheckSeeds(const ClusterFacts& facts, Findings& findings) {
  Findings bad;
  for (const SeedFacts& seed : facts.seeds) CheckSeed(facts, seed, bad);
  std::vector<Finding> all = bad.Take();
  if (all.empty()) {
    findings.Ok("seeds", facts.seeds.size() == 1
                             ? absl::StrCat(facts.seeds.front().address, " is one of its nodes")
                             : absl::StrCat("all ", facts.seeds.size(), " are its nodes"));
  }
  for (Finding& each : all) {
    findings.Add(each.level, each.check, std::move(each.found), std::move(each.mend), {});
  }
}

void CheckSlots(const ClusterFacts& facts, Findings& findings) {
  const auto primaries =
      static_cast<size_t>(std::ranges::count(facts.nodes, false, &NodeFacts::is_replica));
  if (facts.unserved > 0) {
    findings.Bad(
        "slots",
        absl::StrCat("nobody serves ", facts.unserved, " of them (", facts.unserved_slots,
                     "): no lock there can be taken or kept"),
        "bring their primary back; if it is lost for good, redis-cli --cluster fix HOST:PORT gives "
        "them to others, without their keys");
  } else {
    findings.Ok("slots", absl::StrCat("all are served, by ", primaries, " primaries"));
  }
  if (primaries < kMajority) {
    findings.Warn(
        "majority",
        absl::StrCat("there are ", primaries,
                     " primaries: if one fails, the others can't agree on who replaces it"),
        "run three or more, on machines that fail apart");
  }
}

using Addresses = std::map<std::string, std::string>;  // by id

Addresses AddressesIn(const ClusterFacts& facts) {
  Addresses addresses;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) addresses[line.id] = line.address;
  }
  return addresses;
}

// A slot that one node gives away and the other takes is said once.
void CheckOpenSlots(const ClusterFacts& facts, const Addresses& addresses, Findings& findings) {
  std::map<int, std::string> ways;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) {
      for (const OpenSlot& open : line.open) {
        const auto known = addresses.find(open.other);
        const std::string other = known == addresses.end() ? open.other : known->second;
        ways[open.slot] = open.leaving ? absl::StrCat(node.address, " to ", other)
                                       : absl::StrCat(other, " to ", node.address);
      }
    }
  }
  if (ways.empty()) {
    findings.Ok("moves", "no slot is on the move");
    return;
  }
  std::vector<std::string> named;
  for (const auto& [slot, way] : ways) {
    if (named.size() < kMostSlotsNamed) named.push_back(absl::StrCat(slot, " from ", way));
  }
  if (ways.size() > named.size()) {
    named.push_back(absl::StrCat(ways.size() - named.size(), " more"));
  }
  findings.Warn("moves",
                absl::StrCat("on the move: slot ", absl::StrJoin(named, ", "),
                             "; until it is there, locks in it can't be taken, kept or released"),
                "if nobody is moving them, end that with redis-cli --cluster fix HOST:PORT");
}

struct Flagged {
  std::set<std::string> failed;
  std::set<std::string> suspected;
  std::set<std::string> unmet;
  std::set<std::string> lost;  // ids
};

Flagged FlaggedIn(const ClusterFacts& facts) {
  Flagged flagged;
  for (const NodeFacts& node : facts.nodes) {
    if (!node.nodes.ok()) continue;
    for (const ClusterLine& line : *node.nodes) {
      if (line.flags.contains("fail")) flagged.failed.insert(line.address);
      if (line.flags.contains("fail?")) flagged.suspected.insert(line.address);
      if (line.flags.contains("handshake")) flagged.unmet.insert(line.address);
      if (line.flags.contains("noaddr")) flagged.lost.insert(line.id);
    }
  }
  for (const std::string& failed : flagged.failed) flagged.suspected.erase(failed);
  return flagged;
}

// What leads to a node that is not where it says.
std::string MapOf(const ClusterFacts& facts, const NodeFacts& node) {
  for (const SeedFacts& seed : facts.seeds) {
    if (seed.announced == node.address && seed.address != node.address) {
      return absl::StrCat("it is reached at ", seed.address, ": add map=", node.address, "/",
                          seed.address, " to the URL");
    }
  }
  return absl::StrCat("if clients reach it elsewhere, as through a tunnel, add map=", node.address,
                      "/HOST:PORT to the URL; else see its cluster-announce-ip, and the network");
}

void CheckUnreached(const ClusterFacts& facts, const NodeFacts& node, bool failed,
                    Findings& findings) {
  const std::string who =
      absl::StrCat(node.is_replica ? "the replica " : "the primary ", node.address);
  const std::string why(node.reached.message());
  const std::string so =
      node.is_replica ? ""
                      : absl::StrCat("; no lock in slots ", node.slots, " can be taken or kept");
  const Level level = node.is_replica ? Level::kWarn : Level::kBad;
  if (failed) {
    findings.Add(level, "nodes", absl::StrCat(who, " has failed", so),
                 "start it again, or replace it", {});
  } else if (absl::IsUnavailable(node.reached) && !why.starts_with("cannot connect")) {
    findings.Add(level, "nodes", absl::StrCat(who, " does not answer as it should: ", why, so), "",
                 {});
  } else if (absl::IsUnavailable(node.reached)) {
    findings.Add(level, "nodes",
                 absl::StrCat(who, " can't be reached at the address that it announces: ", why, so),
                 MapOf(facts, node), {});
  } else {
    findings.Add(level, "nodes", absl::StrCat(who, " does not let this user in: ", why, so),
                 "each node has users and settings of its own: make them the same at all nodes",
                 {});
  }
}

void CheckNodes(const ClusterFacts& facts, Findings& findings) {
  Flagged flagged = FlaggedIn(facts);
  bool well = true;
  for (const NodeFacts& node : facts.nodes) {
    const bool failed = flagged.failed.erase(node.address) > 0;
    if (node.reached.ok() && !failed) continue;
    CheckUnreached(facts, node, failed, findings);
    flagged.suspected.erase(node.address);
    well = false;
  }
  const auto warn = [&](const std::set<std::string>& who, std::string_view what,
                        const std::string& mend) {
    if (who.empty()) return;
    findings.Warn("nodes", absl::StrCat(Listed(who), std::string(what)), mend);
    well = false;
  };
  warn(flagged.failed, " counts as failed",
       "start it again; if it is gone for good and serves no slots, CLUSTER FORGET its id at each "
       "node");
  warn(flagged.suspected, " is not heard by some other nodes (pfail)",
       "check its load, and the network between the nodes' bus ports");
  warn(flagged.unmet, " is in a handshake",
       "if that lasts, the nodes can't reach each other's bus ports");
  warn(flagged.lost, " has no known address", "CLUSTER FORGET it at each node");
  if (well) {
    findings.Ok("nodes", absl::StrCat("all ", facts.nodes.size(),
                                      " can be reached where they say that they are"));
  }
}

void CheckState(const ClusterFacts& facts, Findings& findings) {
  std::set<std::string> unwell;
  for (const NodeFacts& node : facts.nodes) {
    const auto state = TextIn(node.state, "cluster_state");
    if (node.reached.ok() && state && *state != "ok") unwell.insert(node.address);
  }
  if (!unwell.empty()) {
    findings.Bad("state",
                 absl::StrCat("cluster_state is not ok at ", Listed(unwell),
                              ": no lock can be taken or kept there"),
                 "see slots and nodes; a node also says so that is cut off from most primaries");
  } else {
    findings.Ok("state", "ok at all nodes that answer");
  }
}

void CheckVersions(const ClusterFacts& facts, Findings& findings) {
  std::map<std::string, std::set<std::string>> versions;
  for (const NodeFacts& node : facts.nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey) versions["Valkey " + *valkey].insert(node.address);
    if (!valkey && redis) versions["Redis " + *redis].insert(node.address);
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", Listed(who)));
  }
  findings.Warn("versions", absl::StrCat("they differ: ", absl::StrJoin(each, "; ")),
                "bring all nodes to the same, replicas before their primaries");
}

}  // namespace

void CheckCluster(const ClusterFacts& facts, Findings& findings) {
  CheckSeeds(facts, findings);
  CheckSlots(facts, findings);
  CheckState(facts, findings);
  CheckNodes(facts, findings);
  const auto told = std::ranges::find_if(
      facts.nodes, [](const NodeFacts& node) { return node.reached.ok() && !node.nodes.ok(); });
  if (told != facts.nodes.end()) {
    findings.Unchecked("moves", "only CLUSTER NODES shows slots on the move, and failed nodes", "",
                       {absl::StrCat("ACL SETUSER ", told->facts.user, " +cluster|nodes")});
  } else {
    CheckOpenSlots(facts, AddressesIn(facts), findings);
  }
  CheckVersions(facts, findings);
}

// What becomes of locks while a part of the cluster is down, by one node's settings.
void CheckCoverage(const DoctorFacts& facts, Findings& findings) {
  const auto full = TextIn(facts.config, "cluster-require-full-coverage");
  if (!full) {
    findings.Unchecked("coverage",
                       "only CONFIG shows whether a shard that fails stops the others' locks");
  } else if (*full == "yes") {
    findings.Note("coverage",
                  "cluster-require-full-coverage is yes: while one shard is down, no lock of any "
                  "can be taken, kept or released",
                  "to confine that to its own", {"CONFIG SET cluster-require-full-coverage no"});
  } else {
    findings.Ok("coverage", "a shard that is down stops its own locks only");
  }
  if (TextIn(facts.config, "cluster-allow-pubsubshard-when-down").value_or("yes") == "no") {
    findings.Note("coverage",
                  "cluster-allow-pubsubshard-when-down is no: after the cluster was down, clients "
                  "have to subscribe again before they hear of their turn",
                  "", {"CONFIG SET cluster-allow-pubsubshard-when-down yes"});
  }
}

// ---- Merges equal findings of several nodes or servers.

namespace {

constexpr size_t kMostNodesNamed = 6;

bool IsUnit(std::string_view word) {
  static const auto* const units = new std::set<std::string_view>{
      "µs", "ms", "s", "min", "h", "days", "bytes", "KiB", "MiB", "GiB", "TiB"};
  while (!word.empty() && (word.back() == ',' || word.back() == ')')) word.remove_suffix(1);
  return units->contains(word);
}

// A sentence without its figures.
std::string ShapeOf(const std::string& text) {
  std::string shape;
  for (const absl::string_view each : absl::StrSplit(text, ' ')) {
    const std::string_view word(each.data(), each.size());
    const bool figure = word.find_first_of("0123456789") != std::string_view::npos;
    if (IsUnit(word) && shape.ends_with("# ")) continue;
    shape.append(figure ? "#" : word).append(" ");
  }
  return shape;
}

// Figures matter only where something is to be changed.
bool Alike(const Finding& one, const Finding& other) {
  if (one.level != other.level || one.check != other.check || one.commands != other.commands) {
    return false;
  }
  const bool exactly = one.level == Level::kWarn || one.level == Level::kBad;
  return one.mend == other.mend &&
         (exactly ? one.found == other.found : ShapeOf(one.found) == ShapeOf(other.found));
}

using Nodes = std::vector<NodeFacts>;

// "all 3 primaries", "127.0.0.1:7001, 127.0.0.1:7002": of those that were looked at. `called`:
// "primaries".
std::string Where(const Finding& finding, const Nodes& nodes, std::string_view called) {
  size_t found[2] = {};   // primaries, replicas
  size_t looked[2] = {};  // likewise
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    const size_t kind = node.is_replica ? 1 : 0;
    ++looked[kind];
    if (std::ranges::find(finding.nodes, node.address) != finding.nodes.end()) ++found[kind];
  }
  const size_t count = finding.nodes.size();
  const bool all[2] = {found[0] == looked[0], found[1] == looked[1]};
  std::string where;
  if (count == 1) {
    where = finding.nodes.front();
  } else if (all[0] && all[1]) {
    where = absl::StrCat("all ", count, " ", looked[1] > 0 ? "nodes" : std::string(called));
  } else if (all[0] && found[1] == 0) {
    where = absl::StrCat("all ", count, " primaries");
  } else if (all[1] && found[0] == 0) {
    where = absl::StrCat("all ", count, " replicas");
  } else {
    const auto end =
        finding.nodes.begin() + static_cast<ptrdiff_t>(std::min(count, kMostNodesNamed));
    where = absl::StrJoin(finding.nodes.begin(), end, ", ");
    if (count > kMostNodesNamed) absl::StrAppend(&where, " and ", count - kMostNodesNamed, " more");
  }
  const bool is_all = where.starts_with("all ");
  const bool some_missing = looked[0] + looked[1] < nodes.size();
  if (is_all && some_missing) where += " that answer";
  if (finding.differs) absl::StrAppend(&where, " (figures of ", finding.nodes.front(), ")");
  return where;
}

// Behind what was found of the whole.
std::vector<Finding> WithNodes(std::vector<Finding> all, const Nodes& nodes,
                               std::string_view called) {
  std::vector<Finding> merged;
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    for (Finding& finding : Diagnose(node.facts)) {
      const auto same =
          std::ranges::find_if(merged, [&](const Finding& each) { return Alike(each, finding); });
      if (same != merged.end()) {
        if (same->nodes.back() != node.address) same->nodes.push_back(node.address);
        same->differs = same->differs || same->found != finding.found;
        continue;
      }
      finding.nodes = {node.address};
      // Behind what else was found of that.
      const auto last =
          std::ranges::find(merged.rbegin(), merged.rend(), finding.check, &Finding::check);
      merged.insert(last == merged.rend() ? merged.end() : last.base(), std::move(finding));
    }
  }
  for (Finding& finding : merged) {
    finding.where = Where(finding, nodes, called);
    all.push_back(std::move(finding));
  }
  return all;
}

}  // namespace

std::vector<Finding> Diagnose(const ClusterFacts& facts) {
  Findings of_cluster;
  CheckCluster(facts, of_cluster);
  return WithNodes(of_cluster.Take(), facts.nodes, "primaries");
}

std::vector<Finding> Diagnose(const QuorumFacts& facts) {
  Findings of_quorum;
  CheckQuorum(facts, of_quorum);
  return WithNodes(of_quorum.Take(), facts.nodes, "servers");
}

// ---- Are the servers of a quorum distinct, and enough?

namespace {

constexpr size_t kFewest = 3;  // servers, so that one may fail
// Nodes whose clocks differ by more agree on a token only by asking each other once more, and one
// that lost its data hands out smaller ones.
constexpr absl::Duration kApart = absl::Milliseconds(500);

using AddressSet = std::set<std::string>;

void CheckCount(const QuorumFacts& facts, Findings& findings) {
  const size_t count = facts.nodes.size();
  const size_t may_fail = (count - 1) / 2;
  if (count < kFewest) {
    findings.Warn("quorum",
                  count == 1 ? std::string("there is one server: if it fails, no lock can be taken "
                                           "or kept")
                             : absl::StrCat("there are ", count,
                                            " servers: if one fails, no lock can be taken or kept"),
                  "run three or five, on machines that fail apart");
  } else if (count % 2 == 0) {
    findings.Note("quorum",
                  absl::StrCat("there are ", count, " servers, of which ", may_fail,
                               " may fail: as of ", count - 1),
                  "add one, or do without one");
  } else {
    findings.Ok("quorum",
                absl::StrCat("there are ", count, " servers, of which ", may_fail, " may fail"));
  }
}

void CheckReached(const QuorumFacts& facts, Findings& findings) {
  size_t reached = 0;
  for (const NodeFacts& node : facts.nodes) {
    if (node.reached.ok()) {
      ++reached;
      continue;
    }
    findings.Warn(
        "servers", absl::StrCat(node.address, " could not be looked at: ", node.reached.message()),
        absl::IsUnavailable(node.reached)
            ? "start it again; one that is gone for good is to be replaced in the URLs of "
              "all clients at once"
            : "each server has users and settings of its own: make them the same");
  }
  if (reached < base::Majority(facts.nodes.size())) {
    findings.Bad("servers",
                 absl::StrCat(reached, " of ", facts.nodes.size(), " answer, and ",
                              base::Majority(facts.nodes.size()),
                              " are needed: no lock can be taken or kept"),
                 "bring the others back");
  } else if (reached == facts.nodes.size()) {
    findings.Ok("servers", absl::StrCat("all ", reached, " answer"));
  }
}

// Those of which several say the same in that field.
std::vector<AddressSet> SharedBy(const QuorumFacts& facts, std::string_view field) {
  std::map<std::string, AddressSet> by_value;
  for (const NodeFacts& node : facts.nodes) {
    const auto value = TextIn(node.facts.info, field);
    if (value) by_value[*value].insert(node.address);
  }
  std::vector<AddressSet> shared;
  for (auto& [value, who] : by_value) {
    if (who.size() > 1) shared.push_back(std::move(who));
  }
  return shared;
}

void CheckIndependence(const QuorumFacts& facts, Findings& findings) {
  const std::vector<AddressSet> same = SharedBy(facts, "run_id");
  for (const AddressSet& who : same) {
    findings.Bad("independence",
                 absl::StrCat(absl::StrJoin(who, " and "),
                              " are one and the same server, which so "
                              "has several votes"),
                 "name each server once");
  }
  bool replicate = false;
  for (const AddressSet& who : SharedBy(facts, "master_replid")) {
    if (std::ranges::find(same, who) != same.end()) continue;
    replicate = true;
    findings.Bad(
        "independence",
        absl::StrCat(absl::StrJoin(who, " and "),
                     " have the same data: one is a replica of the other, or both are of a "
                     "third"),
        "a quorum's servers must be independent: make each a primary of its own "
        "(REPLICAOF NO ONE), or take it out of the URL");
  }
  if (!same.empty() || replicate) return;
  bool told = true;
  bool all = true;
  for (const NodeFacts& node : facts.nodes) {
    all = all && node.reached.ok();
    told = told && (!node.reached.ok() || TextIn(node.facts.info, "run_id"));
  }
  if (told) {
    findings.Ok("independence", absl::StrCat("each ", all ? "" : "that answers ",
                                             "is a server of its own, and no replica of another"));
  } else {
    findings.Unchecked("independence",
                       "only INFO of all servers shows whether each is a server of its own");
  }
}

// By how much the server's clock is ahead of this machine's.
std::optional<absl::Duration> AheadOfHere(const NodeFacts& node) {
  if (node.facts.clock.empty()) return std::nullopt;
  const ClockReading& last = node.facts.clock.back();
  return last.server - (last.here - (last.received - last.sent) / 2);
}

void CheckClocks(const QuorumFacts& facts, Findings& findings) {
  const NodeFacts* first = nullptr;
  const NodeFacts* last = nullptr;
  for (const NodeFacts& node : facts.nodes) {
    const auto ahead = AheadOfHere(node);
    if (!ahead) continue;
    if (first == nullptr || *ahead < *AheadOfHere(*first)) first = &node;
    if (last == nullptr || *ahead >= *AheadOfHere(*last)) last = &node;
  }
  if (first == last) return;  // of one, or none
  const absl::Duration apart = *AheadOfHere(*last) - *AheadOfHere(*first);
  if (apart > kApart) {
    findings.Warn(
        "clocks",
        absl::StrCat(last->address, " is ", ShortTime(apart), " ahead of ", first->address,
                     ": locks take longer, and fencing tokens may fall if servers lose "
                     "their data"),
        "keep the clocks of all servers in step by NTP", {"chronyc tracking"});
  } else {
    findings.Ok("clocks", absl::StrCat("within ", ShortTime(apart), " of each other"));
  }
}

void CheckQuorumVersions(const QuorumFacts& facts, Findings& findings) {
  std::map<std::string, AddressSet> versions;
  for (const NodeFacts& node : facts.nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey || redis) {
      versions[valkey ? "Valkey " + *valkey : "Redis " + *redis].insert(node.address);
    }
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", absl::StrJoin(who, ", ")));
  }
  findings.Note("versions", absl::StrCat("they differ: ", absl::StrJoin(each, "; ")));
}

}  // namespace

void CheckQuorum(const QuorumFacts& facts, Findings& findings) {
  CheckCount(facts, findings);
  CheckReached(facts, findings);
  CheckIndependence(facts, findings);
  CheckClocks(facts, findings);
  CheckQuorumVersions(facts, findings);
}

// What a server of a quorum remembers of the delay after its restart, and what the URL says.
void CheckRestartDelay(const DoctorFacts& facts, Findings& findings) {
  constexpr std::string_view kCheck = "restarts";
  const absl::Duration wanted = facts.restart_delay;
  const bool delays = wanted > absl::ZeroDuration();
  if (delays && !facts.info.ok()) {
    findings.Bad(kCheck, "this user may not run INFO, by which a restart is known",
                 "without it no vote counts", {absl::StrCat("ACL SETUSER ", facts.user, " +info")});
  }
  if (delays && absl::IsPermissionDenied(facts.delay.status())) {
    findings.Bad(kCheck,
                 "this user may not use the key redlatch:quorum, in which a restart is "
                 "remembered",
                 "grant it", {absl::StrCat("ACL SETUSER ", facts.user, " ~redlatch:quorum")});
  }
  if (facts.delay.ok() && facts.delay->length != wanted) {
    const std::string theirs = absl::FormatDuration(facts.delay->length);
    findings.Bad(kCheck,
                 absl::StrCat("others that use this server ask for a restart delay of ", theirs,
                              ", and this URL for ",
                              delays ? absl::FormatDuration(wanted) : std::string("none")),
                 absl::StrCat("say restart_delay=", theirs,
                              " in each URL; or stop all of them, and delete redlatch:quorum"));
  } else if (facts.delay.ok() && facts.delay->until > facts.looked_at) {
    findings.Note(kCheck, absl::StrCat("the server started lately, and has no vote for ",
                                       ShortTime(facts.delay->until - facts.looked_at), " more"));
  } else if (delays) {
    findings.Ok(kCheck, absl::StrCat("a server that has started has no vote for ",
                                     absl::FormatDuration(wanted)));
  }
}

}  // namespace redlatch::cli
