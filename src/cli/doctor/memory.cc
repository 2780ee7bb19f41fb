// Whether held locks stay in memory, and new ones find room there.
#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/cli/term/measures.h"

namespace redlatch::cli {
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

}  // namespace redlatch::cli
