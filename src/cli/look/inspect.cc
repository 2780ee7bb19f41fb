#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "src/cli/look/lock_keys.h"
#include "src/cli/look/looker.h"
#include "src/cli/look/sight.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/text.h"
#include "src/lock/description.h"

namespace redlatch::cli {
namespace {

std::string JsonOf(const LockInfo::Party& party, bool holder, const Sight& sight) {
  JsonObject json;
  json.Text("hold", party.hold);
  if (!party.owner.empty()) json.Text("owner", party.owner);
  AddProcess(party.process, json);
  if (party.since != absl::InfinitePast()) {
    json.Number("since_us", absl::ToUnixMicros(party.since));
    json.Millis(holder ? "held_ms" : "waited_ms", sight.now() - party.since);
  }
  if (holder) json.Millis("remaining_ms", party.remaining);
  if (holder) json.Bool("kept", internal::MayBeKept(party.hold));
  if (sight.row.is_semaphore()) json.Number("permits", party.permits);
  if (sight.row.is_read_write()) {
    json.Text("mode", party.owner.starts_with("read") ? "read" : "write");
  }
  return json.Finish();
}

std::string ListOf(const std::vector<LockInfo::Party>& parties, bool holders, const Sight& sight) {
  std::string list = "[";
  for (const LockInfo::Party& party : parties) {
    absl::StrAppend(&list, list.size() > 1 ? "," : "", JsonOf(party, holders, sight));
  }
  return list + "]";
}

int64_t HoldingOf(const Sight& sight) {
  if (sight.row.whole) return sight.row.holding;
  return std::max({sight.info.holding, static_cast<int64_t>(sight.info.holders.size()),
                   sight.row.is_known() ? 0 : sight.row.holding});
}

// What each server of a quorum says.
std::string ServersOf(const Sight& sight) {
  std::string list = "[";
  for (const SaidByServer& each : sight.servers) {
    JsonObject json;
    json.Text("server", each.server);
    if (each.failure.ok()) {
      json.Text("says", each.text);
    } else {
      json.Text("error", std::string(each.failure.message()));
    }
    if (!each.hold.empty()) {
      json.Text("hold", each.hold);
      json.Millis("remaining_ms", each.remaining);
    }
    absl::StrAppend(&list, list.size() > 1 ? "," : "", json.Finish());
  }
  return list + "]";
}

std::string JsonOf(const Sight& sight, const std::string& server) {
  const LockRow& row = sight.row;
  const LockInfo& info = sight.info;
  JsonObject json;
  json.Text("name", row.name);
  json.Text("server", server);
  json.Text("kind", row.kind.empty() ? "unknown" : row.kind);
  json.Number("holding", HoldingOf(sight));
  if (!row.is_latch()) json.Json("holders", ListOf(info.holders, true, sight));
  json.Number("waiting", info.waiting);
  json.Json("waiters", ListOf(info.waiters, false, sight));
  if (info.last_token.value() > 0)
    json.Number("token", static_cast<int64_t>(info.last_token.value()));
  if (row.is_read_write()) json.Number("waiting_writers", row.waiting_writers);
  if (row.is_semaphore()) {
    json.Number("used", info.used);
    json.Number("capacity", info.capacity);
  }
  if (row.is_latch()) {
    json.Number("to_go", row.to_go);
    json.Number("total", row.total);
  }
  if (row.whole) {
    json.Number("held_on", row.held_on);
    json.Json("servers", ServersOf(sight));
  }
  if (row.type != "none" && (row.is_latch() || !row.is_known())) {
    json.Text("type", row.type);
    json.Millis("ttl_ms", row.remaining);
  }
  return json.Finish();
}

void Say(std::string_view what, const std::string& value) {
  const std::string line = absl::StrCat("  ", Padded(what, 16), value, "\n");
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void SayAll(std::string_view what, const std::vector<LockInfo::Party>& parties, int64_t all,
            const Sight& sight) {
  // Nobody but a program's own kind knows in which order it serves those who wait.
  const bool numbered = parties.size() > 1 && (sight.row.is_known() || sight.row.kind.empty());
  int64_t number = 0;
  for (const LockInfo::Party& party : parties) {
    ++number;
    const std::string place = numbered ? absl::StrCat(number, ". ") : "";
    Say(number == 1 ? what : "", absl::StrCat(place, LineOf(party, sight)));
  }
  if (all > number) Say("", absl::StrCat("and ", all - number, " more"));
}

std::string QuorumState(const LockRow& row) {
  const std::string on = absl::StrCat(" on ", row.held_on, " of ", row.quorum);
  if (row.holding > 0) return absl::StrCat("held", on);
  if (MayBeHeld(row)) {
    return absl::StrCat("granted", on, ", and ", row.unknown,
                        " could not be asked: it is not known whether it is held");
  }
  return row.held_on == 0 ? "free" : absl::StrCat("granted", on, " only: nobody holds it");
}

std::string Heading(const LockRow& row) {
  std::string out = Called(row).substr(4);
  out[0] = static_cast<char>(out[0] & ~0x20);
  if (!row.whole && row.type == "none" && row.kind.empty())
    return absl::StrCat(out, ": nobody holds it");
  if (IsKindOfOurs(row.kind) && !row.is_known()) {
    return absl::StrCat(out, ": another version of redlatch, \"", Printable(row.kind), "\"");
  }
  if (!row.is_known()) {
    return absl::StrCat(out, ": a kind of its own",
                        row.kind.empty() ? "" : absl::StrCat(", \"", Printable(row.kind), "\""));
  }
  if (row.whole) return absl::StrCat(out, ": quorum, ", QuorumState(row));
  const std::string kind = row.is_latch() || row.is_semaphore() ? "" : absl::StrCat(row.kind, ", ");
  return absl::StrCat(out, ": ", kind, StateOf(row));
}

void Print(const Sight& sight, const std::string& server) {
  const LockRow& row = sight.row;
  const LockInfo& info = sight.info;
  std::puts(Heading(row).c_str());
  SayAll("held by", info.holders, HoldingOf(sight), sight);
  SayAll("waiting", info.waiters, info.waiting, sight);
  if (row.waiting_writers > 0) {
    Say("waiting writers", absl::StrCat(row.waiting_writers, ", keeping new readers out"));
  }
  if (info.last_token.value() > 0) Say("last token", absl::StrCat(info.last_token.value()));
  if (row.is_latch()) Say("made for", absl::StrCat(row.total));
  if (row.type != "none" && (row.is_latch() || !row.is_known())) {
    if (!row.is_known()) Say("key", absl::StrCat("a ", row.type));
    Say(row.is_latch() ? "forgotten in" : "key expires in", Brief(row.remaining));
  }
  if (row.whole) {
    for (const SaidByServer& each : sight.servers) {
      Say(&each == &sight.servers.front() ? "servers" : "",
          absl::StrCat(each.server, ": ", each.text));
    }
    return;
  }
  if (row.is_quorum()) {
    Say("quorum", "of several servers, of which this one alone was asked");
  }
  Say("server", server);
}

int Show(Looker& looker, const std::string& name, bool as_json) {
  const absl::StatusOr<Sight> sight = looker.LookClosely(name);
  if (!sight.ok()) return Refuse(sight.status());
  const absl::Status undecided = looker.undecided();
  if (!sight->exists && !undecided.ok()) return Refuse(undecided);
  if (!sight->exists) {
    Complain({"there is no lock \"", Printable(name), "\" at ", looker.name(),
              ", and has not been one in the last day; redlatch ls --all lists what there is"});
    return kNo;
  }
  if (sight->may_be_data && sight->row.type != "string") {
    Complain({SayMayBeData(sight->row)});
    return kNo;
  }
  if (as_json) {
    std::puts(JsonOf(*sight, looker.name()).c_str());
  } else {
    Print(*sight, looker.name());
  }
  std::fflush(stdout);
  return undecided.ok() ? 0 : Refuse(undecided);
}

}  // namespace

int Inspect(const std::vector<std::string>& words) {
  bool as_json = false;
  CommandLine line("inspect");
  line.Flag("--json", &as_json);
  line.Operands(1, "say one name: redlatch inspect NAME");
  line.NeedsName("lock", "say redlatch inspect NAME; redlatch ls lists them");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const absl::StatusOr<std::unique_ptr<Looker>> looker = Looker::Open(line.server());
  if (!looker.ok()) return Refuse(looker.status());
  return Show(**looker, line.operands()[0], as_json);
}

}  // namespace redlatch::cli
