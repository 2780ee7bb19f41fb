// Whether this user may do all that locks need, and whether they then work.
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/doctor/probes.h"
#include "src/engine/protocol/key_set.h"

namespace redlatch::cli {
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
    const auto [versioned, readers] = engine::KeyBeginnings(facts.prefix);
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

}  // namespace redlatch::cli
