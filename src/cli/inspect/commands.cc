#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/inspect/locks.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/term/server.h"
#include "src/lock/description.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

struct LsOptions {
  std::string pattern = "*";
  bool all = false;
  bool json = false;
};

void Print(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

// The figures that only some kinds of locks have.
void AddFigures(const LockRow& row, JsonObject& json) {
  if (row.is_read_write()) json.Number("waiting_writers", row.waiting_writers);
  if (row.is_semaphore()) {
    json.Number("used", row.used);
    json.Number("capacity", row.capacity);
  }
  if (row.is_latch()) {
    json.Number("to_go", row.to_go);
    json.Number("total", row.total);
  }
  if (row.whole) json.Number("held_on", row.held_on);
  if (row.token > 0) json.Number("token", row.token);
}

std::string JsonOf(const LockRow& row) {
  JsonObject json;
  json.Text("name", row.name);
  json.Text("kind", row.kind.empty() ? "unknown" : row.kind);
  json.Bool("in_use", row.in_use());
  json.Number("holding", row.holding);
  if ((row.holding > 0 || row.held_on > 0) && !row.is_latch()) {
    JsonObject holder;
    if (!row.hold.empty()) holder.Text("hold", row.hold);
    AddProcess(row.process, holder);
    holder.Millis("remaining_ms", row.remaining);
    holder.Bool("kept", internal::MayBeCached(row.hold));
    json.Json("holder", holder.Finish());
  }
  json.Number("waiting", row.waiting);
  if (row.is_read_write()) {
    json.Text("mode", row.holding == 0 ? "free" : row.reading ? "read" : "write");
  }
  AddFigures(row, json);
  if (row.whole) {
    json.Number("servers", row.quorum);
    json.Number("not_asked", row.unknown);
  }
  return json.Finish();
}

// Prints the list of `redlatch ls`, line by line.
class List {
 public:
  // `locks`: everything that will be listed; each has a member `name`.
  template <class Locks>
  List(const LsOptions& options, const Locks& locks)
      : options_(options), width_(TerminalWidth()), columns_(width_, LongestName(locks)) {}

  void Take(const LockRow& row) {
    held_ += row.holding > 0 ? 1 : 0;
    waited_for_ += row.waiting > 0 ? 1 : 0;
    if (!options_.all && !row.in_use()) return;
    if (options_.json) return Print(JsonOf(row));
    if (width_ > 0 && shown_ == 0) {
      Print(columns_.Line({"NAME", "KIND", "STATE", "LEASE", "WAITING", "HELD BY"}));
    }
    ++shown_;
    const bool has_lease = (row.holding > 0 || row.held_on > 0) && !row.is_latch();
    std::string holder = has_lease && !row.hold.empty() ? Described(row.process, row.hold) : "";
    if (has_lease && internal::MayBeCached(row.hold)) holder += ", kept";
    if (row.holding > 1) absl::StrAppend(&holder, " and ", row.holding - 1, " more");
    Print(columns_.Line({.name = Printable(row.name),
                         .kind = row.kind.empty() ? "-" : Printable(row.kind),
                         .state = StateOf(row),
                         .lease = has_lease ? Brief(row.remaining) : "-",
                         .waiting = absl::StrCat(row.waiting, row.waiting_writers > 0 ? "w" : ""),
                         .holder = holder}));
  }

  // Prints the totals for people on a terminal. In a pipe it prints them only if no lock was shown,
  // so that an empty list does not look like a failure.
  void SumUp(size_t all, const std::string& server) const {
    if (options_.json || (width_ == 0 && shown_ > 0)) return;
    const char* const named = options_.pattern == "*" ? "" : " of that name";
    std::string line = all == 0 ? absl::StrCat("no locks", named, " at ", server)
                                : absl::StrCat(held_, " held, ", waited_for_, " waited for, of ",
                                               all, named, " at ", server);
    if (shown_ < all) line += "; --all shows unused ones, too";
    std::fprintf(stderr, "%s\n", line.c_str());
  }

 private:
  template <class Locks>
  static size_t LongestName(const Locks& locks) {
    size_t longest = 4;
    for (const auto& lock : locks) longest = std::max(longest, Columns(Printable(lock.name)));
    return longest;
  }

  const LsOptions& options_;
  const size_t width_;  // 0: no terminal
  const ListColumns columns_;
  size_t shown_ = 0;
  int64_t held_ = 0;
  int64_t waited_for_ = 0;
};

// Says which locks are missing because nodes of a cluster did not answer, and returns the exit code
// for that.
int SayMissing(const Server& server) {
  int code = 0;
  for (const absl::Status& why : server.missing()) {
    Complain({"some locks are not shown: ", std::string(why.message())});
    code = std::max(code, absl::IsUnavailable(why) ? kUnreachable : kRefused);
  }
  return code;
}

int Show(Server& server, const LsOptions& options) {
  server.PassOverWhatIsForbidden();
  if (server.is_cluster()) server.PassOverWhatIsUnreachable();
  Progress progress;
  const absl::StatusOr<std::vector<FoundLock>> found = FindLocks(
      server, options.pattern, [&](int64_t keys) { progress.Show("keys scanned", keys); });
  if (!found.ok()) return Refuse(found.status());
  List list(options, *found);
  int64_t read = 0;
  const absl::Status outcome = ReadAllRows(server, *found, [&](const std::vector<LockRow>& rows) {
    progress.Clear();
    for (const LockRow& row : rows) list.Take(row);
    read += static_cast<int64_t>(rows.size());
    // On a terminal, the list itself shows the progress.
    if (TerminalWidth() == 0) progress.Show("locks read", read);
  });
  if (!outcome.ok()) return Refuse(outcome);
  progress.Clear();
  std::fflush(stdout);
  list.SumUp(found->size(), server.name());
  return SayMissing(server);
}

int ShowQuorum(QuorumServers& servers, const LsOptions& options) {
  const QuorumList found = ListQuorum(servers, options.pattern);
  const absl::Status undecided = servers.WhyNoMajority(found.outcomes);
  if (std::ranges::none_of(found.outcomes, &absl::Status::ok)) return Refuse(undecided);
  List list(options, found.rows);
  for (const LockRow& row : found.rows) list.Take(row);
  std::fflush(stdout);
  list.SumUp(found.rows.size(), servers.name());
  if (found.others > 0 && !options.json) {
    std::fprintf(stderr, "%zu locks of other kinds are not shown; list each server by itself\n",
                 found.others);
  }
  if (!undecided.ok()) return Refuse(undecided);
  // The list is complete: each held lock is on a majority, and at least one of these servers
  // answered.
  for (const absl::Status& outcome : found.outcomes) {
    if (!outcome.ok()) Complain({"warning: ", std::string(outcome.message())});
  }
  return 0;
}

std::string JsonOf(const LockInfo::Party& party, bool holder, const Inspection& inspection) {
  JsonObject json;
  json.Text("hold", party.hold);
  if (!party.owner.empty()) json.Text("owner", party.owner);
  AddProcess(party.process, json);
  if (party.since != absl::InfinitePast()) {
    json.Number("since_us", absl::ToUnixMicros(party.since));
    json.Millis(holder ? "held_ms" : "waited_ms", inspection.now() - party.since);
  }
  if (holder) json.Millis("remaining_ms", party.remaining);
  if (holder) json.Bool("kept", internal::MayBeCached(party.hold));
  if (inspection.row.is_semaphore()) json.Number("permits", party.permits);
  if (inspection.row.is_read_write()) {
    json.Text("mode", party.owner.starts_with("read") ? "read" : "write");
  }
  return json.Finish();
}

std::string ListOf(const std::vector<LockInfo::Party>& parties, bool holders,
                   const Inspection& inspection) {
  std::vector<std::string> list;
  for (const LockInfo::Party& party : parties) list.push_back(JsonOf(party, holders, inspection));
  return JsonList(list);
}

int64_t HoldingOf(const Inspection& inspection) {
  if (inspection.row.whole) return inspection.row.holding;
  return std::max({inspection.info.holding, static_cast<int64_t>(inspection.info.holders.size()),
                   inspection.row.is_known() ? 0 : inspection.row.holding});
}

// A list with the answer of each server of a quorum.
std::string ServersOf(const Inspection& inspection) {
  std::vector<std::string> list;
  for (const SaidByServer& each : inspection.servers) {
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
    list.push_back(json.Finish());
  }
  return JsonList(list);
}

std::string JsonOf(const Inspection& inspection, const std::string& server) {
  const LockRow& row = inspection.row;
  const LockInfo& info = inspection.info;
  JsonObject json;
  json.Text("name", row.name);
  json.Text("server", server);
  json.Text("kind", row.kind.empty() ? "unknown" : row.kind);
  json.Number("holding", HoldingOf(inspection));
  if (!row.is_latch()) json.Json("holders", ListOf(info.holders, true, inspection));
  json.Number("waiting", info.waiting);
  json.Json("waiters", ListOf(info.waiters, false, inspection));
  AddFigures(row, json);
  if (row.whole) json.Json("servers", ServersOf(inspection));
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
            const Inspection& inspection) {
  // Only a program's own kind knows in which order it serves its waiters.
  const bool numbered =
      parties.size() > 1 && (inspection.row.is_known() || inspection.row.kind.empty());
  int64_t number = 0;
  for (const LockInfo::Party& party : parties) {
    ++number;
    const std::string place = numbered ? absl::StrCat(number, ". ") : "";
    Say(number == 1 ? what : "", absl::StrCat(place, LineOf(party, inspection)));
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
  return row.held_on == 0 ? "free" : absl::StrCat("granted", on, " only: it has no holder");
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

void Print(const Inspection& inspection, const std::string& server) {
  const LockRow& row = inspection.row;
  const LockInfo& info = inspection.info;
  std::puts(Heading(row).c_str());
  SayAll("held by", info.holders, HoldingOf(inspection), inspection);
  SayAll("waiting", info.waiters, info.waiting, inspection);
  if (row.waiting_writers > 0) {
    Say("waiting writers", absl::StrCat(row.waiting_writers, ", keeping new readers out"));
  }
  if (row.token > 0) Say("last token", absl::StrCat(row.token));
  if (row.is_latch()) Say("made for", absl::StrCat(row.total));
  if (row.type != "none" && (row.is_latch() || !row.is_known())) {
    if (!row.is_known()) Say("key", absl::StrCat("a ", row.type));
    Say(row.is_latch() ? "forgotten in" : "key expires in", Brief(row.remaining));
  }
  if (row.whole) {
    for (const SaidByServer& each : inspection.servers) {
      Say(&each == &inspection.servers.front() ? "servers" : "",
          absl::StrCat(each.server, ": ", each.text));
    }
    return;
  }
  if (row.is_quorum()) {
    Say("quorum", "of several servers, of which this one alone was asked");
  }
  Say("server", server);
}

int Show(Inspector& inspector, const std::string& name, bool as_json) {
  const absl::StatusOr<Inspection> inspection = inspector.InspectLock(name);
  if (!inspection.ok()) return Refuse(inspection.status());
  const absl::Status undecided = inspector.undecided();
  if (!inspection->exists && !undecided.ok()) return Refuse(undecided);
  if (!inspection->exists) {
    Complain({"there is no lock \"", Printable(name), "\" at ", inspector.name(),
              ", and has not been one in the last day; redlatch ls --all lists what there is"});
    return kNo;
  }
  if (inspection->may_be_data && inspection->row.type != "string") {
    Complain({SayMayBeData(inspection->row)});
    return kNo;
  }
  if (as_json) {
    std::puts(JsonOf(*inspection, inspector.name()).c_str());
  } else {
    Print(*inspection, inspector.name());
  }
  std::fflush(stdout);
  return undecided.ok() ? 0 : Refuse(undecided);
}

constexpr size_t kMostHoldersNamed = 10;

void SayHolders(std::string_view intro, const Inspection& inspection) {
  const std::vector<LockInfo::Party>& holders = inspection.info.holders;
  std::string text = absl::StrCat(std::string(intro), "\n");
  if (holders.empty()) {  // no client has a majority of a quorum's servers
    for (const SaidByServer& each : inspection.servers) {
      if (!each.hold.empty()) absl::StrAppend(&text, "  at ", each.server, ": ", each.text, "\n");
    }
  }
  const size_t named = std::min(holders.size(), kMostHoldersNamed);
  for (size_t i = 0; i < named; ++i) {
    absl::StrAppend(&text, "  ", LineOf(holders[i], inspection), "\n");
  }
  const auto all = std::max(static_cast<size_t>(inspection.info.holding), holders.size());
  if (all > named) absl::StrAppend(&text, "  and ", all - named, " more\n");
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::set<std::string> HoldsOf(const Inspection& inspection) {
  std::set<std::string> holds;
  for (const LockInfo::Party& holder : inspection.info.holders) holds.insert(holder.hold);
  for (const SaidByServer& each : inspection.servers) {
    if (!each.hold.empty()) holds.insert(each.hold);
  }
  return holds;
}

// Warns if this is only one server of a quorum.
void WarnOfOtherServers(const LockRow& row) {
  if (!row.is_quorum() || row.whole) return;
  Complain(
      {"warning: this is one server of a quorum, and the lock is broken there alone: a client that "
       "has it at most servers keeps it, and may acquire it here again; to break it, name all "
       "servers: --server redlock:URL,URL,URL"});
}

// True if the user says yes.
bool Confirm() {
  std::fputs(
      "They will be told at once, but may be in the middle of what the lock protects. Break it? "
      "[y/N] ",
      stderr);
  const int first = std::getchar();
  return first == 'y' || first == 'Y';
}

// Names the servers of a quorum at which the lock may not be broken.
void SayUnbroken(const Inspection& seen, const Inspection& after) {
  for (size_t i = 0; i < after.servers.size(); ++i) {
    const SaidByServer& now = after.servers[i];
    const bool still = !now.hold.empty() && now.hold == seen.servers[i].hold;
    if (now.failure.ok() && !still) continue;
    Complain({"warning: not broken at ", now.server, ", which may keep it until its lease ends: ",
              still ? "its client has renewed it" : std::string(now.failure.message())});
  }
}

// Breaks the lock that was inspected, and says who has it now.
int BreakIt(Inspector& inspector, const Inspection& seen) {
  if (absl::Status broken = inspector.Break(seen); !broken.ok()) return Refuse(broken);
  const absl::StatusOr<Inspection> after = inspector.InspectLock(seen.row.name);
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

int AskAndBreak(Inspector& inspector, const std::string& name, bool yes) {
  const absl::StatusOr<Inspection> seen = inspector.InspectLock(name);
  if (!seen.ok()) return Refuse(seen.status());
  if (!seen->exists) {
    Complain({"there is no lock \"", Printable(name), "\" at ", inspector.name(),
              "; redlatch ls lists the locks in use"});
    return kNo;
  }
  if (seen->may_be_data) {
    Complain({SayMayBeData(seen->row)});
    return kRefused;
  }
  const bool breakable = seen->row.is_known() && !seen->row.is_latch();
  if (seen->row.type != "none" && !breakable) {
    Complain({std::string(inspector.Break(*seen).message())});
    return kRefused;
  }
  if (absl::Status undecided = inspector.undecided(); !undecided.ok()) return Refuse(undecided);
  if (HoldsOf(*seen).empty()) {
    std::printf("Nobody holds %s: there is nothing to break.\n", Called(seen->row).c_str());
    return 0;
  }
  SayHolders(absl::StrCat("At ", inspector.name(), " ", Called(seen->row), " is held by:"), *seen);
  WarnOfOtherServers(seen->row);
  if (yes) return BreakIt(inspector, *seen);
  if (isatty(STDIN_FILENO) == 0) {
    Complain({"there is no terminal to ask on; use --yes to break it without asking"});
    return kFailure;
  }
  if (!Confirm()) {
    std::puts("Nothing was done.");
    return kNo;
  }
  const absl::StatusOr<Inspection> now = inspector.InspectLock(name);
  if (!now.ok()) return Refuse(now.status());
  if (HoldsOf(*now) != HoldsOf(*seen)) {
    Complain({"the lock has other holders by now; nothing was done"});
    return kNo;
  }
  return BreakIt(inspector, *seen);
}

// `redlatch COMMAND NAME [FLAG]`: calls `act` with the lock's name, and whether the flag is given.
int RunOnOneLock(const std::string& command, const std::string& flag,
                 const std::vector<std::string>& words,
                 int (*act)(Inspector& inspector, const std::string& name, bool flag)) {
  bool given = false;
  CommandLine line(command);
  line.Flag(flag, &given);
  line.Operands(1, absl::StrCat("say one name: redlatch ", command, " NAME"));
  line.NeedsName("lock", absl::StrCat("say redlatch ", command, " NAME; redlatch ls lists them"));
  if (const std::optional<int> over = line.Parse(words)) return *over;
  const absl::StatusOr<std::unique_ptr<Inspector>> inspector = Inspector::Open(line.server());
  if (!inspector.ok()) return Refuse(inspector.status());
  return act(**inspector, line.operands()[0], given);
}

int Set(const Server& server, const Inspection& seen, const std::string& name, int64_t capacity) {
  if (absl::Status set = SetCapacity(server, name, capacity); !set.ok()) return Refuse(set);
  const std::string before = !seen.exists ? "nobody has used that name lately"
                                          : absl::StrCat(seen.row.capacity, " before");
  std::printf("semaphore \"%s\": %s in all, %s\n", Printable(name).c_str(),
              Counted(capacity, "permit").c_str(), before.c_str());
  return 0;
}

int ShowOrSet(Server& server, const std::string& name, std::optional<int64_t> capacity) {
  const absl::StatusOr<Inspection> seen = InspectLock(server, name);
  if (!seen.ok()) return Refuse(seen.status());
  if (seen->exists && !seen->row.is_semaphore()) {
    Complain({Called(seen->row), " is not a semaphore; redlatch inspect shows what it is"});
    return kRefused;
  }
  if (capacity) return Set(server, *seen, name, *capacity);
  if (!seen->exists) {
    Complain({"there is no semaphore \"", Printable(name), "\" at ", server.name(),
              "; redlatch ls --all lists what there is"});
    return kNo;
  }
  std::printf("%s\n", absl::StrCat(seen->row.capacity).c_str());
  return 0;
}

}  // namespace

int Ls(const std::vector<std::string>& words) {
  LsOptions options;
  CommandLine line("ls");
  line.Flag("--all", &options.all);
  line.Flag("--json", &options.json);
  line.Operands(1, "say one pattern, in quotes: redlatch ls 'orders:*'");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (!line.operands().empty()) options.pattern = line.operands()[0];
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(line.server());
  if (!url.ok()) return Refuse(url.status());
  if (url->kind == redis::Url::Kind::kQuorum) {
    QuorumServers servers(*url, line.server());
    return ShowQuorum(servers, options);
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(line.server());
  if (absl::IsNotFound(server.status())) {
    if (!options.json) std::fprintf(stderr, "%s\n", std::string(server.status().message()).c_str());
    return 0;
  }
  if (!server.ok()) return Refuse(server.status());
  return Show(**server, options);
}

int Inspect(const std::vector<std::string>& words) {
  return RunOnOneLock("inspect", "--json", words, Show);
}

int Break(const std::vector<std::string>& words) {
  return RunOnOneLock("break", "--yes", words, AskAndBreak);
}

int Capacity(const std::vector<std::string>& words) {
  CommandLine line("capacity");
  line.Operands(2, "say redlatch capacity NAME [N]");
  line.NeedsName("semaphore", "say redlatch capacity NAME [N]");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  std::optional<int64_t> capacity;
  if (line.operands().size() > 1) {
    const std::string& number = line.operands()[1];
    if (!absl::SimpleAtoi(number, &capacity.emplace())) {
      return Refuse(WrongUsage(absl::StrCat("\"", Printable(number), "\" is not a number"),
                               "say how many permits there are to be in all"));
    }
  }
  const absl::StatusOr<std::unique_ptr<Server>> server = Server::Open(line.server());
  if (!server.ok()) return Refuse(server.status());
  return ShowOrSet(**server, line.operands()[0], capacity);
}

}  // namespace redlatch::cli
