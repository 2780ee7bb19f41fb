#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/cli/look/list_columns.h"
#include "src/cli/look/lock_finder.h"
#include "src/cli/look/lock_rows.h"
#include "src/cli/look/processes.h"
#include "src/cli/look/quorum_list.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/commands.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/quorum_servers.h"
#include "src/cli/term/server.h"
#include "src/cli/term/terminal.h"
#include "src/cli/term/text.h"
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
    holder.Bool("kept", internal::MayBeKept(row.hold));
    json.Json("holder", holder.Finish());
  }
  json.Number("waiting", row.waiting);
  if (row.is_read_write()) {
    json.Text("mode", row.holding == 0 ? "free" : row.reading ? "read" : "write");
    json.Number("waiting_writers", row.waiting_writers);
  }
  if (row.is_semaphore()) {
    json.Number("used", row.used);
    json.Number("capacity", row.capacity);
  }
  if (row.is_latch()) {
    json.Number("to_go", row.to_go);
    json.Number("total", row.total);
  }
  if (row.whole) {
    json.Number("held_on", row.held_on);
    json.Number("servers", row.quorum);
    json.Number("not_asked", row.unknown);
  }
  if (row.token > 0) json.Number("token", row.token);
  return json.Finish();
}

// The list, a line at a time.
class List {
 public:
  // `locks`: what will be listed, of which each has a name.
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
    if (has_lease && internal::MayBeKept(row.hold)) holder += ", kept";
    if (row.holding > 1) absl::StrAppend(&holder, " and ", row.holding - 1, " more");
    Print(columns_.Line({.name = Printable(row.name),
                         .kind = row.kind.empty() ? "-" : Printable(row.kind),
                         .state = StateOf(row),
                         .lease = has_lease ? Brief(row.remaining) : "-",
                         .waiting = absl::StrCat(row.waiting, row.waiting_writers > 0 ? "w" : ""),
                         .holder = holder}));
  }

  // Where people look; and where there is nothing, so that this is no failure.
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

// The exit code, for what the nodes of a cluster that did not answer would have told.
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
  Processes processes;
  List list(options, *found);
  const absl::Span<const FoundLock> all(*found);
  for (size_t at = 0; at < all.size(); at += kLookedAtTogether) {
    const absl::StatusOr<std::vector<LockRow>> rows =
        LookAt(server, all.subspan(at, kLookedAtTogether), processes);
    if (!rows.ok()) return Refuse(rows.status());
    progress.Clear();
    for (const LockRow& row : *rows) list.Take(row);
    // Else what is listed shows how far it is.
    if (TerminalWidth() == 0) {
      progress.Show("locks read", static_cast<int64_t>(at + rows->size()));
    }
  }
  progress.Clear();
  std::fflush(stdout);
  list.SumUp(all.size(), server.name());
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
  // All that is held is on a majority, of which one at least has been asked.
  for (const absl::Status& outcome : found.outcomes) {
    if (!outcome.ok()) Complain({"warning: ", std::string(outcome.message())});
  }
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

}  // namespace redlatch::cli
