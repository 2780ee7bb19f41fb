// What cuts off clients, or makes them wait.
#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
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

}  // namespace redlatch::cli
