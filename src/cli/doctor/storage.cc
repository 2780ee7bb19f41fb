// What a restart forgets, and what a failover loses.

#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
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

}  // namespace redlatch::cli
