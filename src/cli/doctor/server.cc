// What kind of server it is, and since when.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

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

}  // namespace redlatch::cli
