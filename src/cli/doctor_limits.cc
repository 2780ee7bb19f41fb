// What cuts off clients, or makes them wait.
#include "absl/strings/str_cat.h"
#include "src/cli/doctor_checks.h"
#include "src/cli/measures.h"

namespace redlatch::cli {
namespace {

// Eight clients of redlatch, of two connections each.
constexpr int64_t kFewConnections = 16;

void CheckConnections(const DoctorFacts& facts, Findings& findings) {
  const auto connected = NumberIn(facts.info, "connected_clients");
  const auto most = NumberIn(facts.info, "maxclients");
  if (!connected || !most) {
    findings.Unchecked("connections", "the server does not tell how many it has and takes");
    return;
  }
  const std::string found = absl::StrCat(*connected, " of at most ", *most);
  const int64_t left = *most - *connected;
  if (left < kFewConnections || left < *most / 10) {
    findings.Warn("connections",
                  absl::StrCat(found,
                               "; each process with locks has two, and who gets none gets "
                               "no lock"),
                  WhereToSet(facts),
                  {Setting(facts, "maxclients", absl::StrCat(std::max<int64_t>(1000, 2 * *most)))});
  } else {
    findings.Ok("connections", found);
  }
  const int64_t rejected = NumberIn(facts.info, "rejected_connections").value_or(0);
  if (rejected > 0) {
    findings.Note("connections", absl::StrCat(rejected,
                                              " were turned away since the server "
                                              "started, since there were too many"));
  }
}

void CheckTimeout(const DoctorFacts& facts, Findings& findings) {
  const auto timeout = NumberIn(facts.config, "timeout");
  if (timeout && *timeout > 0) {
    findings.Note("timeout",
                  absl::StrCat("a connection that is idle for ", ShortTime(absl::Seconds(*timeout)),
                               " is closed: the next lock after a pause has to connect anew"),
                  "", {Setting(facts, "timeout", "0")});
  }
  const auto keepalive = NumberIn(facts.config, "tcp-keepalive");
  if (keepalive && *keepalive == 0 && facts.over_network) {
    findings.Note("keepalive",
                  "the server never finds out that a machine has vanished: its waiters keep their "
                  "places until their heartbeats are missed, its connections for ever",
                  "", {Setting(facts, "tcp-keepalive", "60")});
  }
  if (timeout && keepalive && *timeout == 0 && (*keepalive > 0 || !facts.over_network)) {
    findings.Ok("timeout", "idle connections stay");
  }
  if (!timeout || !keepalive) {
    findings.Unchecked("timeout", "CONFIG would tell whether idle connections are closed");
  }
}

void CheckLongScripts(const DoctorFacts& facts, Findings& findings) {
  auto limit = NumberIn(facts.config, "busy-reply-threshold");
  if (!limit) limit = NumberIn(facts.config, "lua-time-limit");
  if (!limit) {
    findings.Unchecked("scripts",
                       "CONFIG would tell after what time a script that hangs is told of");
  } else if (*limit <= 0 || *limit > 10000) {
    findings.Note("scripts",
                  "another program's script that hangs can hardly be ended: the server says BUSY "
                  "too late, or never",
                  "", {Setting(facts, "busy-reply-threshold", "5000")});
  } else {
    findings.Ok("scripts", absl::StrCat("one that runs for ", ShortTime(absl::Milliseconds(*limit)),
                                        " can be ended with SCRIPT KILL"));
  }
}

void CheckClientEviction(const DoctorFacts& facts, Findings& findings) {
  const std::string limit = TextIn(facts.config, "maxmemory-clients").value_or("0");
  if (limit == "0") return;
  findings.Note("clients",
                absl::StrCat("maxmemory-clients is ", limit,
                             ": connections are cut when all together use more, and their waiters "
                             "are late"),
                "", {Setting(facts, "maxmemory-clients", "0")});
}

void CheckEvents(const DoctorFacts& facts, Findings& findings) {
  if (TextIn(facts.config, "notify-keyspace-events").value_or("").empty()) return;
  findings.Note("events",
                "notify-keyspace-events is set: each lock taken costs the server some more "
                "messages; redlatch needs none of them",
                "where nobody else does", {Setting(facts, "notify-keyspace-events", "\"\"")});
}

}  // namespace

void CheckLimits(const DoctorFacts& facts, Findings& findings) {
  CheckConnections(facts, findings);
  CheckTimeout(facts, findings);
  CheckLongScripts(facts, findings);
  CheckClientEviction(facts, findings);
  CheckEvents(facts, findings);
}

}  // namespace redlatch::cli
