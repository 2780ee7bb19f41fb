// How the server is reached, who watches over it, and what locks there are worth in a failover.

#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
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

// What docs/guarantees.md says of failovers, for this deployment.
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

}  // namespace redlatch::cli
