// What a restart forgets, and what a failover loses.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/cli/doctor_checks.h"
#include "src/cli/measures.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kLongestLag = absl::Seconds(10);  // of min-replicas-max-lag, too

void CheckRestart(const DoctorFacts& facts, Findings& findings) {
  const auto append_only = NumberIn(facts.info, "aof_enabled");
  if (!append_only) {
    findings.Unchecked("persistence", "the server does not tell what it keeps over a restart");
    return;
  }
  if (facts.embedded) {
    findings.Note("persistence",
                  "none: a crash of the server forgets who holds; a reboot does, too, but ends the "
                  "holders as well");
    return;
  }
  if (*append_only == 0) {
    const auto save = TextIn(facts.config, "save");
    const char* const found =
        !save ? "no append-only file: a restart forgets who holds, or goes back to a snapshot"
        : save->empty()
            ? "none: a restart forgets who holds, and others get those locks"
            : "snapshots alone: a restart forgets who got a lock since the last one, and others "
              "get those locks";
    findings.Warn("persistence", found,
                  "keep an append-only file; or start it again only when the longest lease has "
                  "passed, and fence what must not be overwritten",
                  {Setting(facts, "appendonly", "yes"), Setting(facts, "appendfsync", "always")});
    return;
  }
  const auto sync = TextIn(facts.config, "appendfsync");
  if (!sync) {
    findings.Note("persistence",
                  "an append-only file; how often it reaches the disk CONFIG would tell",
                  "a machine that fails forgets nothing only with appendfsync always");
  } else if (*sync == "always") {
    findings.Ok("persistence",
                "an append-only file, on the disk before each answer: a restart forgets nothing");
  } else if (*sync == "everysec") {
    findings.Note("persistence",
                  "an append-only file, on the disk each second: the server's end forgets "
                  "nothing, the machine's end a second or two of who holds",
                  "where that is too much", {Setting(facts, "appendfsync", "always")});
  } else {
    findings.Warn(
        "persistence",
        absl::StrCat("an append-only file with appendfsync ", *sync,
                     ": where the machine fails, half a minute of who holds is forgotten"),
        WhereToSet(facts), {Setting(facts, "appendfsync", "always")});
  }
}

// Redis takes no writes at all after some failures to write its own files.
void CheckWrites(const DoctorFacts& facts, Findings& findings) {
  if (TextIn(facts.info, "aof_last_write_status").value_or("ok") != "ok") {
    findings.Bad("disk", "the append-only file can't be written: no lock can be taken or kept",
                 "see the server's log; is its disk full?");
  } else if (TextIn(facts.info, "rdb_last_bgsave_status").value_or("ok") != "ok") {
    const bool goes_on = TextIn(facts.config, "stop-writes-on-bgsave-error") == "no";
    if (goes_on) {
      findings.Warn("disk", "the last snapshot could not be written",
                    "see the server's log; is its disk full?");
    } else {
      findings.Bad("disk",
                   "the last snapshot could not be written, so that the server takes no "
                   "writes: no lock can be taken or kept",
                   "see the server's log; is its disk full? Or let it go on without",
                   {Setting(facts, "stop-writes-on-bgsave-error", "no")});
    }
  } else if (TextIn(facts.info, "aof_last_bgrewrite_status").value_or("ok") != "ok") {
    findings.Warn("disk", "the append-only file could not be rewritten, and grows",
                  "see the server's log; is its disk full?");
  }
}

void CheckEachReplica(const DoctorFacts& facts, Findings& findings) {
  for (const Replica& replica : facts.replicas) {
    if (replica.state != "online") {
      findings.Warn("replicas", absl::StrCat(replica.address, " is not in step: ", replica.state),
                    "see its log; it copies all data first");
    } else if (replica.lag > kLongestLag) {
      findings.Warn(
          "replicas",
          absl::StrCat(replica.address, " was last heard of ", ShortTime(replica.lag), " ago"),
          "see whether it runs, and its network");
    }
  }
}

void CheckFailover(const DoctorFacts& facts, int64_t connected, Findings& findings) {
  const auto wanted = NumberIn(facts.config, "min-replicas-to-write");
  if (!wanted) {
    findings.Unchecked("failover",
                       "CONFIG would tell whether the server goes on alone when it is "
                       "cut off from its replicas",
                       "it should not", {Setting(facts, "min-replicas-to-write", "1")});
    return;
  }
  const int64_t lag = NumberIn(facts.config, "min-replicas-max-lag").value_or(10);
  if (*wanted > connected) {
    findings.Bad("failover",
                 absl::StrCat("min-replicas-to-write is ", *wanted, " with ", connected,
                              " replicas: no lock can be taken or kept"),
                 "bring the replicas back, or ask for fewer",
                 {Setting(facts, "min-replicas-to-write", absl::StrCat(connected))});
  } else if (*wanted == 0) {
    findings.Warn("failover",
                  "a primary that is cut off from its replicas goes on giving locks, while "
                  "one of them that is promoted gives the same",
                  "let it stop then; which, with one replica, also stops it where that one fails",
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
    if (NumberIn(facts.config, "min-replicas-to-write").value_or(0) > 0) {
      CheckFailover(facts, 0, findings);
    } else {
      findings.Note("replicas",
                    "none: where this machine fails, there are no locks until it is back");
    }
    return;
  }
  CheckEachReplica(facts, findings);
  CheckFailover(facts, *connected, findings);
  if (!facts.confirmation.ok()) {
    findings.Unchecked("WAIT", absl::StrCat("whether replicas confirm could not be asked: ",
                                            std::string(facts.confirmation.status().message())));
  } else if (facts.confirmation->replicas < *connected) {
    findings.Warn(
        "WAIT",
        absl::StrCat(facts.confirmation->replicas, " of ", *connected,
                     " replicas had a write within ", ShortTime(facts.confirmation->took)),
        "a failover loses what has not arrived; see the replicas' load and network");
  } else {
    findings.Ok("WAIT", absl::StrCat("all ", *connected, " replicas had a write within ",
                                     ShortTime(facts.confirmation->took),
                                     "; what has not arrived, a failover loses"));
  }
}

}  // namespace redlatch::cli
