// What kind of server it is, and since when.
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "src/cli/doctor_checks.h"
#include "src/cli/measures.h"

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
  if (mode == "cluster") {
    findings.Bad("mode", "a node of a cluster, which redlatch does not support yet",
                 "use a server that runs alone, or the primary of replicas");
  } else if (mode == "sentinel") {
    findings.Bad("mode", "a sentinel: it watches servers and holds no locks",
                 "connect to the primary that it watches; who that is:", {"SENTINEL MASTERS"});
  } else {
    findings.Ok("mode", "runs alone, or as the primary of replicas");
  }
}

// True where nothing else about the server matters.
void CheckRole(const DoctorFacts& facts, Findings& findings) {
  const std::string role = TextIn(facts.info, "role").value_or("");
  if (role == "slave") {
    const std::string primary = absl::StrCat(TextIn(facts.info, "master_host").value_or("?"), ":",
                                             TextIn(facts.info, "master_port").value_or("?"));
    const bool up = TextIn(facts.info, "master_link_status") == "up";
    findings.Bad("role",
                 absl::StrCat("a replica of ", primary, up ? "" : ", to which it has no link"),
                 "locks need the primary: connect to that one");
  } else if (role == "master") {
    findings.Ok("role", "a primary");
  } else if (role != "sentinel") {
    findings.Unchecked("role", "the server does not tell whether it is a primary");
  }
  if (NumberIn(facts.info, "loading").value_or(0) != 0) {
    findings.Bad("role", "it is loading its data, and answers nobody meanwhile",
                 "try again when it is done");
  }
}

void CheckUptime(const DoctorFacts& facts, Findings& findings) {
  const auto seconds = NumberIn(facts.info, "uptime_in_seconds");
  if (!seconds) {
    findings.Unchecked("uptime", "the server does not tell since when it runs");
    return;
  }
  const absl::Duration up = absl::Seconds(*seconds);
  if (up < kUsualLease && !facts.embedded) {
    findings.Note("uptime",
                  absl::StrCat("started ", ShortTime(up),
                               " ago: holds from before may have been forgotten, and leases of 30 "
                               "s, the default, be believed in"),
                  "where that was no plan, see why it started, and what it keeps over a restart");
  } else {
    findings.Ok("uptime", absl::StrCat("for ", ShortTime(up)));
  }
}

void CheckEmbedded(const EmbeddedFacts& embedded, Findings& findings) {
  findings.Ok("embedded", absl::StrCat("a private server of this user's, ",
                                       embedded.started_by_us ? "started just now" : "running",
                                       ", in ", embedded.directory));
  if (embedded.keeper_pid == 0) {
    findings.Unchecked("keeper", absl::StrCat("which process keeps server ", embedded.server_pid,
                                              " could not be found out"));
  } else {
    findings.Ok("keeper", absl::StrCat("process ", embedded.keeper_pid, " keeps server ",
                                       embedded.server_pid, ", and stops it when it is unused"));
  }
}

}  // namespace

void CheckServer(const DoctorFacts& facts, Findings& findings) {
  if (facts.embedded) CheckEmbedded(*facts.embedded, findings);
  if (!facts.info.ok()) {
    const std::string why(facts.info.status().message());
    const std::string found = absl::StrCat("not to be had: ", why);
    const std::string so =
        "without it neither this nor redlatch can see version, role and eviction "
        "policy";
    if (why.find("unknown command") != std::string::npos) {
      findings.Warn("INFO", found, absl::StrCat(so, ": take away its rename-command line"));
    } else {
      findings.Warn("INFO", found, so, {absl::StrCat("ACL SETUSER ", facts.user, " +info")});
    }
    for (const char* const check : {"version", "mode", "role", "uptime"}) {
      findings.Unchecked(check, "INFO would tell");
    }
    return;
  }
  CheckVersion(facts, findings);
  CheckMode(facts, findings);
  CheckRole(facts, findings);
  CheckUptime(facts, findings);
}

}  // namespace redlatch::cli
