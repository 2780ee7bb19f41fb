// How fast the server answers, and whether its clock can be trusted.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
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

}  // namespace redlatch::cli
