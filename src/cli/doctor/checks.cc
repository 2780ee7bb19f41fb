#include "src/cli/doctor/checks.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/majority.h"
#include "src/cli/term/output.h"
#include "src/cli/term/pages.h"
#include "src/lock/key_set.h"

namespace redlatch::cli {
namespace {

using enum Level;

// What the rows of a check speak of, by name: a server's INFO and CONFIG, and what is set besides.
class Values {
 public:
  explicit Values(const DoctorFacts* server = nullptr) : server_(server) {}

  std::string text(std::string_view name) const {
    if (const auto own = own_.find(name); own != own_.end()) return own->second;
    if (server_ == nullptr) return "";
    return TextIn(server_->info, name).value_or(TextIn(server_->config, name).value_or(""));
  }
  bool has(std::string_view name) const {
    return own_.contains(name) ||
           (server_ != nullptr && (TextIn(server_->info, name) || TextIn(server_->config, name)));
  }
  double n(std::string_view name) const { return std::atof(text(name).c_str()); }

  template <class Value>
  Values& Set(const std::string& name, const Value& value) {
    own_[name] = absl::StrCat(value);
    return *this;
  }
  // Sets it if it holds.
  Values& Flag(const std::string& name, bool holds) { return holds ? Set(name, 1) : *this; }

 private:
  const DoctorFacts* server_;
  std::map<std::string, std::string, std::less<>> own_;
};
using Items = std::vector<Values>;

// True if each part that " & " separates holds, in one of the alternatives that " | " separates:
// "name" (there is such a value), "!name", "name=text", "name!=text", or a comparison of numbers
// such as "name>=3" or "name<other_name". A value that there is not counts as zero.
bool Holds(std::string_view condition, const Values& v) {
  if (condition.empty()) return true;
  const auto part_holds = [&v](absl::string_view part) {
    const bool negated = absl::ConsumePrefix(&part, "!");
    const size_t at = part.find_first_of("<>=!");
    const std::string_view name(part.data(), std::min(at, part.size()));
    if (at == part.npos) return v.has(name) != negated;
    const absl::string_view sign = part.substr(at, part.find_first_not_of("<>=!", at) - at);
    const std::string other(part.substr(at + sign.size()));
    if (sign == "=" || sign == "!=") return (v.text(name) == other) == (sign == "=");
    double bound = 0;
    if (!absl::SimpleAtod(other, &bound)) bound = v.n(other);
    if (sign == "<") return v.n(name) < bound;
    if (sign == ">") return v.n(name) > bound;
    return sign == "<=" ? v.n(name) <= bound : v.n(name) >= bound;
  };
  for (const absl::string_view way : absl::StrSplit(std::string(condition), " | ")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(way, " & ");
    if (std::ranges::all_of(parts, part_holds)) return true;
  }
  return false;
}

// Puts values in the place of their names: {uptime_in_seconds}, or with a unit {timeout:s}, {x:ms},
// {x:b}. A value that is not known is "?".
std::string Filled(std::string_view text, const Values& v) {
  std::string out;
  for (size_t open = 0; (open = text.find('{')) != text.npos;) {
    out += text.substr(0, open);
    text.remove_prefix(open + 1);
    const size_t end = text.find('}');
    const std::string_view name = text.substr(0, std::min(end, text.find(':')));
    const std::string_view unit = text.substr(0, end).substr(name.size());
    if (unit == ":s") {
      out += ShortTime(absl::Seconds(v.n(name)));
    } else if (unit == ":ms") {
      out += ShortTime(absl::Milliseconds(v.n(name)));
    } else if (unit == ":b") {
      out += ShortSize(static_cast<int64_t>(v.n(name)));
    } else {
      out += v.has(name) ? v.text(name) : "?";
    }
    text.remove_prefix(end + 1);
  }
  return out.append(text);
}

// What is to be seen of a server by itself.
Values Whole(const DoctorFacts& f) {
  Values v(&f);
  v.Set("user", f.user)
      .Set("prefix", f.prefix)
      .Set("parameter", f.config.ok() ? "CONFIG SET " : "");
  v.Set("where_to_set",
        f.config.ok() ? "" : "in its configuration, or in the settings of the hosted service");
  v.Flag("info", f.info.ok()).Flag("embedded", f.embedded.has_value());
  v.Flag("is_primary", f.place == Place::kPrimary).Flag("is_replica", f.place == Place::kReplica);
  v.Flag("in_cluster", f.place != Place::kAlone).Flag("of_quorum", f.of_quorum);
  v.Flag("over_network", f.over_network).Flag("has_password", f.has_password);
  v.Flag("eviction_allowed", f.eviction_allowed).Flag("probed", !f.probes.empty());
  v.Flag("restart_delay", f.restart_delay > absl::ZeroDuration());
  return v.Flag("quarantine", f.quarantine > absl::ZeroDuration());
}

struct Row {
  std::string condition;
  std::string level;  // "nothing" if the check finds nothing then
  std::string found = {};
  std::string mend = {};
  std::vector<std::string> commands = {};
};
struct Check {
  std::string name;
  std::string probe;
  std::vector<Row> rows = {};
};

// checks.table, by section.
const std::map<std::string, std::vector<Check>>& Table() {
  static const auto* const table = [] {
    auto* const read = new std::map<std::string, std::vector<Check>>;
    std::vector<Check>* section = nullptr;
    std::string* text = nullptr;  // that the next line may continue
    for (absl::string_view line : absl::StrSplit(kDoctorTable, '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      if (absl::ConsumePrefix(&line, "== ")) {
        section = &(*read)[std::string(line)];
      } else if (line[0] != ' ') {
        const std::vector<std::string> words = absl::StrSplit(line, ": ");
        section->push_back({.name = words[0], .probe = words.size() > 1 ? words[1] : ""});
      } else if (absl::ConsumePrefix(&line, "      ")) {
        absl::StrAppend(text, " ", line);
      } else if (absl::ConsumePrefix(&line, "    $ ")) {
        section->back().rows.back().commands.emplace_back(line);
      } else if (absl::ConsumePrefix(&line, "    fix: ")) {
        text = &section->back().rows.back().mend;
        *text = std::string(line);
      } else {
        const std::pair<std::string, std::string> parts =
            absl::StrSplit(line.substr(2), absl::MaxSplits(": ", 1));
        const std::pair<std::string, std::string> level =
            absl::StrSplit(parts.first, absl::MaxSplits(" if ", 1));
        section->back().rows.push_back({.condition = level.second, .level = level.first});
        text = &section->back().rows.back().found;
        *text = parts.second;
      }
    }
    return read;
  }();
  return *table;
}

Finding FindingOf(const std::string& check, const Row& row, const Values& v) {
  static const std::map<std::string, Level> levels = {
      {"ok", kOk}, {"unchecked", kUnchecked}, {"note", kNote}, {"warn", kWarn}, {"bad", kBad}};
  // A replica holds no locks.
  const bool milder = row.level == "bad" && v.has("replica");
  Finding finding{.level = milder ? kWarn : levels.at(row.level),
                  .check = check,
                  .found = Filled(row.found, v),
                  .mend = Filled(row.mend, v)};
  for (const std::string& command : row.commands) {
    std::string filled = Filled(command, v);
    if (filled[0] == '@') filled.replace(0, 1, v.text("parameter"));
    finding.commands.push_back(std::move(filled));
  }
  return finding;
}

template <class Facts>
using Probes = std::map<std::string, Items (*)(const Facts& facts)>;

template <class Facts>
void Run(const char* section, const Probes<Facts>& probes, const Facts& facts,
         std::vector<Finding>& findings) {
  for (const Check& check : Table().at(section)) {
    for (const Values& item : probes.at(check.probe)(facts)) {
      const auto row = std::ranges::find_if(
          check.rows, [&](const Row& each) { return Holds(each.condition, item); });
      if (row == check.rows.end() || row->level == "nothing") continue;
      findings.push_back(FindingOf(check.name, *row, item));
    }
  }
}

// ---- The server itself, and how it is reached.

Items Info(const DoctorFacts& f) {
  const absl::string_view why = f.info.status().message();
  return {Whole(f).Set("why", why).Flag("renamed", absl::StrContains(why, "unknown command"))};
}

Items Embedded(const DoctorFacts& f) {
  if (!f.embedded) return {};
  return {Whole(f)
              .Set("begun", f.embedded->started_by_us ? "started just now" : "running")
              .Set("directory", f.embedded->directory)
              .Set("server", f.embedded->server_pid)
              .Set("keeper", f.embedded->keeper_pid)};
}

Items Role(const DoctorFacts& f) {
  const bool up = TextIn(f.info, "master_link_status") == "up";
  return {Whole(f).Set("cut_off", up ? "" : ", and not connected to it")};
}

Items Certificate(const DoctorFacts& f) {
  if (!f.certificate_until) return {};
  return {Whole(f)
              .Set("days", absl::ToInt64Hours(*f.certificate_until - f.looked_at) / 24)
              .Set("end", absl::FormatTime("%Y-%m-%d", *f.certificate_until, absl::UTCTimeZone()))};
}

// ---- What monitors the server.

Items EachSentinel(const DoctorFacts& f) {
  Items items;
  for (const SentinelView& view : f.sentinels) {
    items.push_back(Whole(f)
                        .Set("address", view.address)
                        .Set("flags", TextIn(view.master, "flags").value_or("master")));
    if (!view.master.ok()) items.back().Set("why", view.master.status().message());
  }
  return items;
}

Items AllSentinels(const DoctorFacts& f) {
  if (f.sentinels.empty()) return {};
  std::map<std::string, std::vector<std::string>> named;
  std::set<std::string> quorums;
  size_t answered = 0;
  int64_t quorum = 0;
  for (const SentinelView& view : f.sentinels) {
    if (!view.master.ok()) continue;
    ++answered;
    named[view.names].push_back(view.address);
    quorum = std::max(quorum, NumberIn(view.master, "quorum").value_or(0));
    quorums.insert(TextIn(view.master, "quorum").value_or("?"));
  }
  std::vector<std::string> views;
  for (const auto& [primary, who] : named) {
    views.push_back(absl::StrCat(absl::StrJoin(who, " and "), " name ", primary));
  }
  const Told<Fields>& first = f.sentinels.front().master;
  return {Whole(f)
              .Set("all", f.sentinels.size())
              .Set("answered", answered)
              .Set("quorum", quorum)
              .Set("views", absl::StrJoin(views, ", "))
              .Set("named", named.size())
              .Set("primary", named.empty() ? "" : named.begin()->first)
              .Set("quorums", absl::StrJoin(quorums, ", "))
              .Flag("differ", quorums.size() > 1)
              .Set("silence", NumberIn(first, "down-after-milliseconds").value_or(0))};
}

// ---- May this user do all that locks need, and do they then work? Is there memory for them, and
// ---- what does a restart forget?

using Outcome = CommandProbe::Outcome;

Items Commands(const DoctorFacts& f) {
  std::map<Outcome, std::set<std::string>> commands;
  bool nameless = false;
  for (const CommandProbe& probe : f.probes) {
    if (!probe.optional) commands[probe.outcome].insert(probe.command);
    nameless = nameless || (probe.optional && probe.outcome != Outcome::kAllowed);
  }
  const auto [versioned, readers] = internal::KeyBeginnings(f.prefix);
  return {
      Whole(f)
          .Set("denied", absl::StrJoin(commands[Outcome::kNoCommand], ", "))
          .Set("to_grant", absl::StrJoin(commands[Outcome::kNoCommand], " +"))
          .Set("unknown", absl::StrJoin(commands[Outcome::kUnknownToServer], ", "))
          .Set("keys", commands[Outcome::kNoKey].size())
          .Set("channels", commands[Outcome::kNoChannel].size())
          .Set("versioned", versioned)
          .Set("readers", readers)
          .Flag("nameless", nameless)
          .Set("all", f.MayDoAll() && !f.probes.empty() ? commands[Outcome::kAllowed].size() : 0)};
}

// Each lock that does not work, then those that were not tried, then those that work.
Items Trials(const DoctorFacts& f) {
  if (f.place == Place::kReplica) return {};
  Values whole = Whole(f).Flag("elsewhere", f.locks_elsewhere).Flag("tried", !f.trials.empty());
  if (!f.library.ok()) whole.Set("library", f.library.message());
  if (f.locks_elsewhere || !f.library.ok() || f.trials.empty()) return {whole};
  Items items;
  std::vector<std::string> working;
  std::vector<std::string> untried;
  for (const LockTrial& trial : f.trials) {
    if (trial.outcome.ok() || absl::IsCancelled(trial.outcome)) {
      (trial.outcome.ok() ? working : untried).push_back(trial.kind);
      continue;
    }
    items.push_back(whole);
    items.back().Set("failed", trial.kind).Set("why", trial.outcome.message());
  }
  for (const auto& [name, kinds] : {std::pair("untried", untried), std::pair("working", working)}) {
    if (kinds.empty()) continue;
    items.push_back(whole);
    items.back().Set(name, absl::StrJoin(kinds, ", "));
  }
  return items;
}

Items Memory(const DoctorFacts& f) {
  Values v = Whole(f);
  const auto used = static_cast<int64_t>(v.n("used_memory"));
  const auto limit = static_cast<int64_t>(v.n("maxmemory"));
  const int64_t room = limit != 0 ? limit : static_cast<int64_t>(v.n("total_system_memory"));
  const int64_t percent =
      room == 0
          ? 0
          : static_cast<int64_t>(100.0 * static_cast<double>(used) / static_cast<double>(room));
  v.Set("room", room).Set("percent", percent).Set("twice", 2 * limit);
  v.Set("use", absl::StrCat(ShortSize(used), " of ", ShortSize(room), " used, ", percent, " %",
                            limit != 0 ? "" : "; the only limit is the machine's memory"));
  return {v};
}

Items Persistence(const DoctorFacts& f) {
  const auto save = TextIn(f.config, "save");
  return {Whole(f).Set(
      "without_file",
      !save ? "no append-only file: a restart forgets who holds what, or goes back to a snapshot"
      : save->empty() ? "none: a restart forgets who holds what, and gives those locks to others"
                      : "snapshots only: a restart forgets every lock taken since the last one, "
                        "and gives it to others")};
}

// ---- What a failover loses, and what is promised then.

// For so many seconds a primary that is cut off from its replicas goes on, if it stops at all; a
// lag of 0 switches that off.
int64_t LagOf(const DoctorFacts& f) {
  return NumberIn(f.config, "min-replicas-max-lag").value_or(10);
}

// Nothing if the server's failure is the end of it anyway.
Items Replicas(const DoctorFacts& f) {
  if (f.embedded) return {};
  Values v = Whole(f);
  v.Set("lag", LagOf(f));
  v.Set("why", f.confirmation.status().message());
  if (f.confirmation.ok()) {
    v.Set("confirmed", f.confirmation->replicas).Set("took", ShortTime(f.confirmation->took));
  }
  return {v};
}

Items EachReplica(const DoctorFacts& f) {
  Items items;
  if (f.embedded || Whole(f).n("connected_slaves") == 0) return {};
  for (const Replica& replica : f.replicas) {
    items.push_back(Whole(f)
                        .Set("address", replica.address)
                        .Set("state", replica.state)
                        .Set("lag", absl::ToInt64Seconds(replica.lag)));
  }
  return items;
}

Items Quarantine(const DoctorFacts& f) {
  if (f.embedded) return {};
  const absl::Duration alone = absl::Seconds(LagOf(f) + 1);
  Values v = Whole(f);
  v.Set("wanted", absl::FormatDuration(f.quarantine)).Set("lag", LagOf(f));
  v.Set("alone", absl::FormatDuration(alone)).Flag("too_short", f.quarantine <= alone);
  v.Set("records",
        f.place == Place::kAlone ? "redlatch:reign" : "all redlatch:{*}:reign* at each primary");
  if (!f.epoch) return {v};
  return {v.Set("theirs", absl::FormatDuration(f.epoch->length))
              .Set("left", ShortTime(f.epoch->until - f.looked_at))
              .Flag("differs", f.epoch->length != f.quarantine)
              .Flag("held_back", f.epoch->until > f.looked_at)};
}

Items RestartDelay(const DoctorFacts& f) {
  Values v = Whole(f).Flag("forbidden", absl::IsPermissionDenied(f.delay.status()));
  v.Set("wanted",
        f.restart_delay > absl::ZeroDuration() ? absl::FormatDuration(f.restart_delay) : "none");
  if (!f.delay.ok()) return {v};
  return {v.Set("theirs", absl::FormatDuration(f.delay->length))
              .Set("left", ShortTime(f.delay->until - f.looked_at))
              .Flag("differs", f.delay->length != f.restart_delay)
              .Flag("held_back", f.delay->until > f.looked_at)};
}

// ---- Do messages reach waiters, how fast is the server, and what does its clock do?

constexpr int64_t kSmallBuffer = 1048576;

Items Message(const DoctorFacts& f) {
  const absl::Status& status = f.message.status();
  Values v = Whole(f).Set("why", status.message());
  if (f.message.ok()) v.Set("took", ShortTime(*f.message));
  return {v.Flag("denied", absl::IsPermissionDenied(status))
              .Flag("silent", absl::IsDeadlineExceeded(status))};
}

// The hard limit of class "pubsub" in "normal 0 0 0 slave 1 2 3 pubsub 4 5 6".
Items BufferLimit(const DoctorFacts& f) {
  Values v = Whole(f);
  const std::vector<std::string> words =
      absl::StrSplit(v.text("client-output-buffer-limit"), ' ', absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t bytes = 0;
    if (words[i] == "pubsub" && absl::SimpleAtoi(words[i + 1], &bytes)) v.Set("hard", bytes);
  }
  return {v};
}

Items Backlogs(const DoctorFacts& f) {
  if (!f.pubsub_backlogs.ok()) {
    return {Whole(f).Set("why", f.pubsub_backlogs.status().message())};
  }
  int64_t late = 0;
  PubSubBacklog worst;
  for (const PubSubBacklog& backlog : *f.pubsub_backlogs) {
    if (backlog.bytes < kSmallBuffer) continue;
    ++late;
    if (backlog.bytes > worst.bytes) worst = backlog;
  }
  return {Whole(f)
              .Set("connected", f.pubsub_backlogs->size())
              .Set("late", late)
              .Set("bytes", worst.bytes)
              .Set("worst", worst.name.empty()
                                ? worst.address
                                : absl::StrCat(worst.address, " (", worst.name, ")"))};
}

// The longest of the last 24 hours; its length is zero if there was none.
Delay WorstRecent(const Told<std::vector<Delay>>& delays) {
  Delay worst;
  for (const Delay& delay : delays.value_or(std::vector<Delay>())) {
    if (delay.ago < absl::Hours(24) && delay.took > worst.took) worst = delay;
  }
  return worst;
}

Items RoundTrip(const DoctorFacts& f) {
  if (f.pings.empty()) return {Whole(f)};
  const Spread spread = SpreadOf(f.pings);
  return {
      Whole(f)
          .Set("worst", absl::ToInt64Milliseconds(spread.worst))
          .Set("p99", absl::ToInt64Milliseconds(spread.p99))
          .Set("figures", absl::StrCat("p50 ", ShortTime(spread.p50), ", p99 ",
                                       ShortTime(spread.p99), ", worst ", ShortTime(spread.worst),
                                       " of ", f.pings.size(), " PINGs"))};
}

Items WorstOf(const DoctorFacts& f, const Told<std::vector<Delay>>& delays) {
  const Delay worst = WorstRecent(delays);
  return {Whole(f)
              .Flag("told", delays.ok())
              .Flag("empty", delays.ok() && delays->empty())
              .Set("what", worst.what)
              .Set("ms", absl::ToDoubleMilliseconds(worst.took))
              .Set("took", ShortTime(worst.took))
              .Set("ago", ShortTime(worst.ago))};
}
Items SlowCommands(const DoctorFacts& f) { return WorstOf(f, f.slow_commands); }
Items Spikes(const DoctorFacts& f) { return WorstOf(f, f.latency_spikes); }

// What redlatch recommends as the shortest lease, by the longest delay that was seen.
Items RecommendedLease(const DoctorFacts& f) {
  if (f.pings.empty()) return {};
  const absl::Duration worst =
      std::max({f.slowest_pair / 2, *std::ranges::max_element(f.pings),
                WorstRecent(f.slow_commands).took, WorstRecent(f.latency_spikes).took});
  return {Whole(f)
              .Set("least", ShortTime(ShortestLease(worst)))
              .Set("seconds", absl::ToInt64Seconds(ShortestLease(worst)))
              .Set("worst", ShortTime(worst))};
}

// How far the server's clock went beyond what its neighbours in time, TIME's microseconds and a
// scheduler can explain; negative: back.
absl::Duration Step(const ClockReading& earlier, const ClockReading& later) {
  const absl::Duration passed = later.server - earlier.server;
  const absl::Duration least = later.sent - earlier.received;
  const absl::Duration most = later.received - earlier.sent;
  const absl::Duration slack = absl::Milliseconds(5) + most / 100;
  if (passed < least - slack) return passed - least;
  if (passed > most + slack) return passed - most;
  return absl::ZeroDuration();
}

Items Clock(const DoctorFacts& f) {
  if (f.clock.size() < 2) return {Whole(f)};
  const ClockReading& first = f.clock.front();
  const ClockReading& last = f.clock.back();
  absl::Duration step = Step(first, last);
  for (size_t i = f.clock.size() - 1; i > 0; --i) {
    const absl::Duration here = Step(f.clock[i - 1], f.clock[i]);
    if (absl::AbsDuration(here) >= absl::AbsDuration(step)) step = here;
  }
  const absl::Duration skew = last.server - last.here;
  return {Whole(f)
              .Set("step", absl::ToDoubleSeconds(step))
              .Set("jump", ShortTime(absl::AbsDuration(step)))
              .Set("way", step > absl::ZeroDuration() ? "ahead" : "back")
              .Set("watched", ShortTime(last.received - first.sent))
              .Flag("skewed", absl::AbsDuration(skew) > absl::Seconds(1))
              .Set("skew", ShortTime(absl::AbsDuration(skew)))
              .Set("side", skew > absl::ZeroDuration() ? "ahead of" : "behind")};
}

// ---- What disconnects clients, or makes them wait.

Items Connections(const DoctorFacts& f) {
  Values v = Whole(f);
  const auto most = static_cast<int64_t>(v.n("maxclients"));
  const double left = v.n("maxclients") - v.n("connected_clients");
  // Eight clients of redlatch have sixteen connections.
  return {v.Flag("few", left < 16 || left < static_cast<double>(most / 10))
              .Set("more", std::max<int64_t>(1000, 2 * most))};
}

Items ScriptLimit(const DoctorFacts& f) {
  auto limit = NumberIn(f.config, "busy-reply-threshold");
  if (!limit) limit = NumberIn(f.config, "lua-time-limit");
  Values v = Whole(f);
  return {limit ? v.Set("limit", *limit) : v};
}

// ---- Do the nodes form one cluster, and serve all its slots?

Values Of(const NodeFacts& node) {
  return Whole(node.facts).Set("address", node.address).Set("why", node.reached.message());
}

Items EachSeed(const ClusterFacts& f) {
  Items items;
  for (const SeedFacts& seed : f.seeds) {
    Values v = Values().Set("address", seed.address).Set("why", seed.reached.message());
    v.Flag("no_cluster", absl::StrContains(seed.reached.message(), "cluster support disabled"));
    v.Set("knows", seed.primaries.size()).Flag("reached", seed.reached.ok());
    const auto first = std::ranges::find_if(f.seeds, [&](const SeedFacts& each) {
      return &each == &seed || (each.reached.ok() && !each.primaries.empty());
    });
    const bool apart = std::ranges::none_of(
        seed.primaries, [&](const std::string& id) { return first->primaries.contains(id); });
    if (apart && !seed.primaries.empty()) v.Set("other", first->address);
    items.push_back(v);
  }
  return items;
}

Items Seeds(const ClusterFacts& f) {
  Items seeds = EachSeed(f);
  const bool well = std::ranges::all_of(
      seeds, [](const Values& v) { return Holds("reached & knows>0 & !other", v); });
  if (!well) return seeds;
  seeds.erase(seeds.begin() + 1, seeds.end());
  seeds.front().Set("all", f.seeds.size());
  return seeds;
}

Items Slots(const ClusterFacts& f) {
  return {Values()
              .Set("primaries", std::ranges::count(f.nodes, false, &NodeFacts::is_replica))
              .Set("unserved", f.unserved)
              .Set("slots", f.unserved_slots)};
}

Items State(const ClusterFacts& f) {
  std::set<std::string> unwell;
  for (const NodeFacts& node : f.nodes) {
    const auto state = TextIn(node.state, "cluster_state");
    if (node.reached.ok() && state && *state != "ok") unwell.insert(node.address);
  }
  return {Values().Set("unwell", absl::StrJoin(unwell, ", "))};
}

// What leads to a node that is not where it says.
std::string MapOf(const ClusterFacts& f, const NodeFacts& node) {
  for (const SeedFacts& seed : f.seeds) {
    if (seed.announced == node.address && seed.address != node.address) {
      return absl::StrCat("it is reached at ", seed.address, ": add map=", node.address, "/",
                          seed.address, " to the URL");
    }
  }
  return absl::StrCat("if clients reach it elsewhere, as through a tunnel, add map=", node.address,
                      "/HOST:PORT to the URL; else see its cluster-announce-ip, and the network");
}

// Each node that cannot be asked, then those that others miss; or all of them, if there are none.
Items Nodes(const ClusterFacts& f) {
  std::map<std::string, std::set<std::string>> flagged;
  for (const NodeFacts& node : f.nodes) {
    for (const ClusterLine& line : node.nodes.value_or(std::vector<ClusterLine>())) {
      for (const char* const flag : {"fail", "fail?", "handshake"}) {
        if (line.flags.contains(flag)) flagged[flag].insert(line.address);
      }
      if (line.flags.contains("noaddr")) flagged["noaddr"].insert(line.id);
    }
  }
  for (const std::string& failed : flagged["fail"]) flagged["fail?"].erase(failed);
  Items items;
  for (const NodeFacts& node : f.nodes) {
    const bool failed = flagged["fail"].erase(node.address) > 0;
    if (node.reached.ok() && !failed) continue;
    flagged["fail?"].erase(node.address);
    const std::string why(node.reached.message());
    const bool silent = absl::IsUnavailable(node.reached);
    items.push_back(Of(node)
                        .Set("who", absl::StrCat("the ", node.is_replica ? "replica " : "primary ",
                                                 node.address))
                        .Set("so", node.is_replica ? ""
                                                   : absl::StrCat("; no lock in slots ", node.slots,
                                                                  " can be taken or kept"))
                        .Flag("replica", node.is_replica)
                        .Set("trouble", failed                                    ? "failed"
                                        : !silent                                 ? "refuses"
                                        : absl::StartsWith(why, "cannot connect") ? "elsewhere"
                                                                                  : "odd")
                        .Set("map", MapOf(f, node)));
  }
  for (const char* const flag : {"fail", "fail?", "handshake", "noaddr"}) {
    if (flagged[flag].empty()) continue;
    items.push_back(Values().Set("flag", flag).Set("who", absl::StrJoin(flagged[flag], ", ")));
  }
  if (items.empty()) items.push_back(Values().Set("all", f.nodes.size()));
  return items;
}

// A slot that one node gives away and the other takes is said once.
Items Moves(const ClusterFacts& f) {
  std::map<std::string, std::string> addresses;
  std::map<int, std::string> ways;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok() && !node.nodes.ok()) return {Of(node).Set("untold", "")};
    for (const ClusterLine& line : node.nodes.value_or(std::vector<ClusterLine>())) {
      addresses[line.id] = line.address;
    }
  }
  for (const NodeFacts& node : f.nodes) {
    for (const ClusterLine& line : node.nodes.value_or(std::vector<ClusterLine>())) {
      for (const OpenSlot& open : line.open) {
        const auto known = addresses.find(open.other);
        const std::string other = known == addresses.end() ? open.other : known->second;
        ways[open.slot] = open.leaving ? absl::StrCat(node.address, " to ", other)
                                       : absl::StrCat(other, " to ", node.address);
      }
    }
  }
  std::vector<std::string> named;
  for (const auto& [slot, way] : ways) {
    if (named.size() < 5) named.push_back(absl::StrCat(slot, " from ", way));
  }
  if (ways.size() > named.size()) {
    named.push_back(absl::StrCat(ways.size() - named.size(), " more"));
  }
  return {Values().Set("moves", absl::StrJoin(named, ", "))};
}

Items Versions(const std::vector<NodeFacts>& nodes) {
  std::map<std::string, std::set<std::string>> versions;
  for (const NodeFacts& node : nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey || redis) {
      versions[valkey ? "Valkey " + *valkey : "Redis " + *redis].insert(node.address);
    }
  }
  if (versions.size() < 2) return {};
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", absl::StrJoin(who, ", ")));
  }
  return {Values().Set("each", absl::StrJoin(each, "; "))};
}
Items VersionsInCluster(const ClusterFacts& f) { return Versions(f.nodes); }
Items VersionsInQuorum(const QuorumFacts& f) { return Versions(f.nodes); }

// ---- Are the servers of a quorum distinct, and enough?

Items QuorumSize(const QuorumFacts& f) {
  return {Values()
              .Set("all", f.nodes.size())
              .Set("less", f.nodes.size() - 1)
              .Flag("even", f.nodes.size() % 2 == 0)
              .Set("may_fail", (f.nodes.size() - 1) / 2)
              .Set("needed", base::Majority(f.nodes.size()))
              .Set("reached", std::ranges::count_if(f.nodes, [](const NodeFacts& node) {
                     return node.reached.ok();
                   }))};
}

Items EachUnreached(const QuorumFacts& f) {
  Items items;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok()) continue;
    items.push_back(Of(node).Flag("down", absl::IsUnavailable(node.reached)));
  }
  return items;
}

// Servers that are one and the same, or have the same data; else one item for all.
Items Independence(const QuorumFacts& f) {
  Items items;
  std::set<std::set<std::string>> same;
  for (const char* const field : {"run_id", "master_replid"}) {
    std::map<std::string, std::set<std::string>> by_value;
    for (const NodeFacts& node : f.nodes) {
      const auto value = TextIn(node.facts.info, field);
      if (value) by_value[*value].insert(node.address);
    }
    for (const auto& [value, who] : by_value) {
      if (who.size() < 2 || !same.insert(who).second) continue;
      items.push_back(Values().Set(field, absl::StrJoin(who, " and ")));
    }
  }
  if (!items.empty()) return items;
  bool told = true;
  bool all = true;
  for (const NodeFacts& node : f.nodes) {
    all = all && node.reached.ok();
    told = told && (!node.reached.ok() || TextIn(node.facts.info, "run_id"));
  }
  return {Values().Flag("told", told).Set("those", all ? "" : "that answers ")};
}

// By how much a server's clock is ahead of this machine's.
std::vector<std::pair<absl::Duration, std::string>> ClocksOf(const QuorumFacts& f) {
  std::vector<std::pair<absl::Duration, std::string>> clocks;
  for (const NodeFacts& node : f.nodes) {
    if (node.facts.clock.empty()) continue;
    const ClockReading& last = node.facts.clock.back();
    clocks.emplace_back(last.server - (last.here - (last.received - last.sent) / 2), node.address);
  }
  return clocks;
}

Items Clocks(const QuorumFacts& f) {
  const auto clocks = ClocksOf(f);
  if (clocks.size() < 2) return {};
  const auto [behind, ahead] =
      std::ranges::minmax_element(clocks, {}, [](const auto& clock) { return clock.first; });
  const absl::Duration apart = ahead->first - behind->first;
  return {Values()
              .Set("ms", absl::ToDoubleMilliseconds(apart))
              .Set("apart", ShortTime(apart))
              .Set("ahead", ahead->second)
              .Set("behind", behind->second)};
}

// ---- Merges equal findings of several nodes or servers.

// Figures, and the units behind them, do not count.
std::string ShapeOf(const std::string& text) {
  static const auto* const units = new std::set<absl::string_view>{
      "µs", "ms", "s", "min", "h", "days", "bytes", "KiB", "MiB", "GiB", "TiB"};
  std::string shape;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool is_unit = units->contains(word.substr(0, word.find_last_not_of(",)") + 1));
    if (is_unit && absl::EndsWith(shape, "# ")) continue;
    const bool figure = word.find_first_of("0123456789") != word.npos;
    absl::StrAppend(&shape, figure ? "#" : word, " ");
  }
  return shape;
}

// Figures matter only if something is to be changed.
bool Alike(const Finding& one, const Finding& other) {
  if (one.level != other.level || one.check != other.check || one.commands != other.commands ||
      one.mend != other.mend) {
    return false;
  }
  if (one.level >= kWarn) return one.found == other.found;
  return ShapeOf(one.found) == ShapeOf(other.found);
}

// "all 3 primaries", "127.0.0.1:7001, 127.0.0.1:7002": of those that were looked at. `called`:
// "primaries".
std::string Where(const Finding& finding, const std::vector<NodeFacts>& nodes,
                  std::string_view called) {
  constexpr size_t kMostNamed = 6;
  size_t found[2] = {};   // primaries, replicas
  size_t looked[2] = {};  // likewise
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    ++looked[node.is_replica];
    found[node.is_replica] += std::ranges::count(finding.nodes, node.address);
  }
  const size_t count = finding.nodes.size();
  std::string where;
  if (count == 1) {
    where = finding.nodes.front();
  } else if (found[0] == looked[0] && found[1] == looked[1]) {
    where = absl::StrCat("all ", count, " ", looked[1] > 0 ? "nodes" : std::string(called));
  } else if (found[0] == looked[0] && found[1] == 0) {
    where = absl::StrCat("all ", count, " primaries");
  } else if (found[1] == looked[1] && found[0] == 0) {
    where = absl::StrCat("all ", count, " replicas");
  } else {
    std::vector<std::string> named = finding.nodes;
    named.resize(std::min(count, kMostNamed));
    where = absl::StrJoin(named, ", ");
    if (count > kMostNamed) absl::StrAppend(&where, " and ", count - kMostNamed, " more");
  }
  const bool some_missing = looked[0] + looked[1] < nodes.size();
  if (absl::StartsWith(where, "all ") && some_missing) where += " that answer";
  if (finding.differs) absl::StrAppend(&where, " (figures of ", finding.nodes.front(), ")");
  return where;
}

// Adds what was found of the nodes behind what was found of the whole.
void AddNodes(const std::vector<NodeFacts>& nodes, std::string_view called,
              std::vector<Finding>& all) {
  std::vector<Finding> merged;
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    for (Finding& finding : Diagnose(node.facts)) {
      const auto same =
          std::ranges::find_if(merged, [&](const Finding& each) { return Alike(each, finding); });
      if (same != merged.end()) {
        if (same->nodes.back() != node.address) same->nodes.push_back(node.address);
        same->differs = same->differs || same->found != finding.found;
        continue;
      }
      finding.nodes = {node.address};
      const auto last =  // of the same check
          std::ranges::find(merged.rbegin(), merged.rend(), finding.check, &Finding::check);
      merged.insert(last == merged.rend() ? merged.end() : last.base(), std::move(finding));
    }
  }
  for (Finding& finding : merged) {
    finding.where = Where(finding, nodes, called);
    all.push_back(std::move(finding));
  }
}

void RunAll(std::initializer_list<const char*> sections, const DoctorFacts& facts,
            std::vector<Finding>& findings) {
  static const Probes<DoctorFacts> probes = {
      {"", [](const DoctorFacts& f) { return Items{Whole(f)}; }},
      {"AllSentinels", AllSentinels},
      {"Backlogs", Backlogs},
      {"BufferLimit", BufferLimit},
      {"Certificate", Certificate},
      {"Clock", Clock},
      {"Commands", Commands},
      {"Connections", Connections},
      {"EachReplica", EachReplica},
      {"EachSentinel", EachSentinel},
      {"Embedded", Embedded},
      {"Info", Info},
      {"Memory", Memory},
      {"Message", Message},
      {"Persistence", Persistence},
      {"Quarantine", Quarantine},
      {"RecommendedLease", RecommendedLease},
      {"Replicas", Replicas},
      {"RestartDelay", RestartDelay},
      {"Role", Role},
      {"RoundTrip", RoundTrip},
      {"ScriptLimit", ScriptLimit},
      {"SlowCommands", SlowCommands},
      {"Spikes", Spikes},
      {"Trials", Trials}};
  for (const char* const section : sections) Run(section, probes, facts, findings);
}

}  // namespace

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  RunAll({"server"}, facts, findings);
  if (facts.place != Place::kAlone) RunAll({"coverage"}, facts, findings);
  const bool has_locks = facts.place != Place::kReplica;
  if (has_locks) RunAll({"sentinels"}, facts, findings);
  RunAll({"data"}, facts, findings);
  if (has_locks) {
    RunAll({"replicas", facts.of_quorum ? "restarts" : "promise", "messages", "latency"}, facts,
           findings);
  }
  RunAll({"limits"}, facts, findings);
  return findings;
}

std::vector<Finding> Diagnose(const ClusterFacts& facts) {
  static const Probes<ClusterFacts> probes = {
      {"Moves", Moves}, {"Nodes", Nodes}, {"Seeds", Seeds},
      {"Slots", Slots}, {"State", State}, {"VersionsInCluster", VersionsInCluster}};
  std::vector<Finding> findings;
  Run("cluster", probes, facts, findings);
  AddNodes(facts.nodes, "primaries", findings);
  return findings;
}

std::vector<Finding> Diagnose(const QuorumFacts& facts) {
  static const Probes<QuorumFacts> probes = {{"Clocks", Clocks},
                                             {"EachUnreached", EachUnreached},
                                             {"Independence", Independence},
                                             {"QuorumSize", QuorumSize},
                                             {"VersionsInQuorum", VersionsInQuorum}};
  std::vector<Finding> findings;
  Run("quorum", probes, facts, findings);
  AddNodes(facts.nodes, "servers", findings);
  return findings;
}

}  // namespace redlatch::cli
