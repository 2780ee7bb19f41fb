#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "src/cli/look/looker.h"
#include "src/cli/look/sight.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr size_t kMostHoldersNamed = 10;

void SayHolders(std::string_view intro, const Sight& sight) {
  const std::vector<LockInfo::Party>& holders = sight.info.holders;
  std::string text = absl::StrCat(std::string(intro), "\n");
  if (holders.empty()) {  // nobody has a majority of a quorum's servers
    for (const SaidByServer& each : sight.servers) {
      if (!each.hold.empty()) absl::StrAppend(&text, "  at ", each.server, ": ", each.text, "\n");
    }
  }
  const size_t named = std::min(holders.size(), kMostHoldersNamed);
  for (size_t i = 0; i < named; ++i) {
    absl::StrAppend(&text, "  ", LineOf(holders[i], sight), "\n");
  }
  const auto all = std::max(static_cast<size_t>(sight.info.holding), holders.size());
  if (all > named) absl::StrAppend(&text, "  and ", all - named, " more\n");
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::set<std::string> HoldsOf(const Sight& sight) {
  std::set<std::string> holds;
  for (const LockInfo::Party& holder : sight.info.holders) holds.insert(holder.hold);
  for (const SaidByServer& each : sight.servers) {
    if (!each.hold.empty()) holds.insert(each.hold);
  }
  return holds;
}

// Of one server of a quorum.
void WarnOfTheOthers(const LockRow& row) {
  if (!row.is_quorum() || row.whole) return;
  Complain(
      {"warning: this is one server of a quorum, and the lock is broken there alone: whoever has "
       "it at most servers keeps it, and may give it back to this one; to break it, name all of "
       "them: --server redlock:URL,URL,URL"});
}

// Whether the user says so.
bool Confirm() {
  std::fputs(
      "They will be told at once, but may be in the middle of what the lock protects. Break it? "
      "[y/N] ",
      stderr);
  const int first = std::getchar();
  return first == 'y' || first == 'Y';
}

// Servers of a quorum of which it is not known that they have let go of it.
void SayUnbroken(const Sight& seen, const Sight& after) {
  for (size_t i = 0; i < after.servers.size(); ++i) {
    const SaidByServer& now = after.servers[i];
    const bool still = !now.hold.empty() && now.hold == seen.servers[i].hold;
    if (now.failure.ok() && !still) continue;
    Complain({"warning: not broken at ", now.server, ", which may keep it until its lease ends: ",
              still ? "its client has renewed it" : std::string(now.failure.message())});
  }
}

// Breaks what has been looked at.
int BreakIt(Looker& looker, const Sight& seen) {
  if (absl::Status broken = looker.Break(seen); !broken.ok()) return Refuse(broken);
  const absl::StatusOr<Sight> after = looker.LookClosely(seen.row.name);
  if (!after.ok()) {
    Complain({"the lock is broken, but it cannot be determined who has it now: ",
              std::string(after.status().message())});
    return 0;
  }
  SayUnbroken(seen, *after);
  if (after->info.holders.empty()) {
    std::printf("Broken. Nobody holds it now.\n");
  } else {
    SayHolders("Broken. It is now held by:", *after);
  }
  return 0;
}

int AskAndBreak(Looker& looker, const std::string& name, bool yes) {
  const absl::StatusOr<Sight> seen = looker.LookClosely(name);
  if (!seen.ok()) return Refuse(seen.status());
  if (!seen->exists) {
    Complain({"there is no lock \"", Printable(name), "\" at ", looker.name(),
              "; redlatch ls lists the locks in use"});
    return kNo;
  }
  if (seen->may_be_data) {
    Complain({SayMayBeData(seen->row)});
    return kRefused;
  }
  const bool breakable = seen->row.is_known() && !seen->row.is_latch();
  if (seen->row.type != "none" && !breakable) {
    Complain({std::string(looker.Break(*seen).message())});
    return kRefused;
  }
  if (absl::Status undecided = looker.undecided(); !undecided.ok()) return Refuse(undecided);
  if (HoldsOf(*seen).empty()) {
    std::printf("Nobody holds %s: there is nothing to break.\n", Called(seen->row).c_str());
    return 0;
  }
  SayHolders(absl::StrCat("At ", looker.name(), " ", Called(seen->row), " is held by:"), *seen);
  WarnOfTheOthers(seen->row);
  if (yes) return BreakIt(looker, *seen);
  if (isatty(STDIN_FILENO) == 0) {
    Complain({"there is no terminal to ask on; use --yes to break it without asking"});
    return kFailure;
  }
  if (!Confirm()) {
    std::puts("Nothing was done.");
    return kNo;
  }
  const absl::StatusOr<Sight> now = looker.LookClosely(name);
  if (!now.ok()) return Refuse(now.status());
  if (HoldsOf(*now) != HoldsOf(*seen)) {
    Complain({"the lock has other holders by now; nothing was done"});
    return kNo;
  }
  return BreakIt(looker, *seen);
}

}  // namespace

int Break(const std::vector<std::string>& words) {
  bool yes = false;
  CommandLine line("break");
  line.Flag("--yes", &yes);
  line.Operands(1, "say one name: redlatch break NAME");
  line.NeedsName("lock", "say redlatch break NAME; redlatch ls lists them");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const absl::StatusOr<std::unique_ptr<Looker>> looker = Looker::Open(line.server());
  if (!looker.ok()) return Refuse(looker.status());
  return AskAndBreak(**looker, line.operands()[0], yes);
}

}  // namespace redlatch::cli
