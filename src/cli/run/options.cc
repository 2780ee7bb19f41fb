#include "src/cli/run/options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/cli/term/command_line.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {
namespace {

constexpr absl::Duration kShortestLease = absl::Milliseconds(100);
constexpr absl::Duration kLongestGrace = absl::Seconds(10);  // where none is given

absl::Status CompleteKind(const CommandLine& line, RunOptions& options) {
  const bool shared = line.given("--shared");
  const bool write = line.given("--write");
  if (shared && write) return WrongUsage("--shared and --write exclude each other", "say one");
  if (shared) options.kind = RunKind::kShared;
  if (write) options.kind = RunKind::kWrite;
  if (!line.given("--permits") && !line.given("--capacity")) return absl::OkStatus();
  if (shared || write) {
    return WrongUsage(
        "--shared and --write are for a read-write lock, --permits and --capacity "
        "for a semaphore",
        "a name can only be one of them");
  }
  if (!line.given("--capacity")) {
    return WrongUsage("--permits needs --capacity",
                      "say how many permits there are in all, as in --permits 1 --capacity 4");
  }
  if (options.permits > options.capacity) {
    return WrongUsage("--permits is more than --capacity", "that many can never be free");
  }
  options.kind = RunKind::kPermits;
  return absl::OkStatus();
}

// Which lock a quorum of servers has.
absl::Status CompleteQuorum(const CommandLine& line, RunOptions& options) {
  const absl::StatusOr<redis::Url> url = redis::ParseUrl(options.server);
  // Whoever connects says what is wrong with it.
  if (!url.ok() || url->kind != redis::Url::Kind::kQuorum) return absl::OkStatus();
  for (const char* const option : {"--shared", "--write", "--permits", "--capacity"}) {
    if (!line.given(option)) continue;
    return WrongUsage(absl::StrCat(option,
                                   " is not for a quorum of servers, which has plain locks "
                                   "only"),
                      absl::StrCat("name one server for it, as in --server ",
                                   url->members.front().DebugString()));
  }
  options.kind = RunKind::kQuorum;
  return absl::OkStatus();
}

absl::Status CompleteTimes(const CommandLine& line, RunOptions& options) {
  if (options.lease < kShortestLease || options.lease > absl::Hours(24)) {
    return WrongUsage("--lease is out of range", "say 100ms to 24h");
  }
  if (!line.given("--grace")) options.grace = std::min(options.lease / 3, kLongestGrace);
  if (options.grace > options.lease / 2) {
    return WrongUsage(
        "--grace is more than half of the lease",
        absl::StrCat("the command must be gone before the lease ends, so say at most ",
                     absl::FormatDuration(options.lease / 2), ", or a longer --lease"));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<int> ParseRunOptions(const std::vector<std::string>& words, RunOptions* options) {
  CommandLine line("run");
  bool chosen = false;
  int64_t busy_code = options->busy_code;
  std::string on_lost = "kill";
  line.Flag("--shared", &chosen);
  line.Flag("--write", &chosen);
  line.Number("--permits", 1, &options->permits);
  line.Number("--capacity", 1, &options->capacity);
  line.Time("--wait", &options->wait);
  line.Time("--lease", &options->lease);
  line.Time("--grace", &options->grace);
  line.Choice("--on-lost", {"kill", "warn"}, &on_lost);
  line.Number("--busy-code", 0, &busy_code);
  line.Operands(1, "put -- before the command: redlatch run NAME -- CMD ARGS");
  line.NeedsName("lock", "say redlatch run NAME -- CMD ARGS");
  line.CommandFollows();
  if (const std::optional<int> over = line.Parse(words)) return over;
  if (line.following().empty()) {
    return Refuse(WrongUsage("the command is missing", "say redlatch run NAME -- CMD ARGS"));
  }
  if (busy_code > 255) {
    return Refuse(WrongUsage("--busy-code is out of range", "say 0 to 255"));
  }
  options->name = line.operands()[0];
  options->command = line.following();
  options->kill_on_lost = on_lost == "kill";
  options->busy_code = static_cast<int>(busy_code);
  options->server = line.server();
  absl::Status complete = CompleteKind(line, *options);
  if (complete.ok()) complete = CompleteQuorum(line, *options);
  if (complete.ok()) complete = CompleteTimes(line, *options);
  return complete.ok() ? std::nullopt : std::optional(Refuse(complete));
}

}  // namespace redlatch::cli
