#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/base/majority.h"
#include "src/cli/doctor/doctor.h"
#include "src/cli/term/pages.h"
#include "src/lock/key_set.h"

namespace redlatch::cli {
namespace {

using enum Level;

// The values that the rows of a check name: a server's INFO and CONFIG, and those set with Set().
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
  // Sets the value if `holds`.
  Values& Flag(const std::string& name, bool holds) { return holds ? Set(name, 1) : *this; }

 private:
  const DoctorFacts* server_;
  std::map<std::string, std::string, std::less<>> own_;
};
using Items = std::vector<Values>;

// " | " separates alternatives, and " & " the parts of one. True if all parts of one alternative
// hold. A part is "name" (there is such a value), "!name", "name=text", "name!=text", or a
// comparison of numbers such as "name>=3" or "name<other_name". A missing value counts as zero.
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

// Replaces names by their values: {uptime_in_seconds}, or with a unit {timeout:s}, {x:ms}, {x:b}.
// An unknown value becomes "?".
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

struct Row {
  std::string condition;
  std::string level;  // "nothing" if the check finds nothing then
  std::string found = {};
  std::string fix = {};
  std::vector<std::string> commands = {};
};
struct Check {
  std::string name;
  std::string probe;
  std::vector<Row> rows = {};
};

// The checks of checks.table, by section.
const std::map<std::string, std::vector<Check>>& Table() {
  static const auto* const table = [] {
    auto* const read = new std::map<std::string, std::vector<Check>>;
    std::vector<Check>* section = nullptr;
    // A line that is indented by six spaces continues the previous one.
    const std::string text = absl::StrReplaceAll(kDoctorTable, {{"\n      ", " "}});
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      if (absl::ConsumePrefix(&line, "== ")) {
        section = &(*read)[std::string(line)];
      } else if (line[0] != ' ') {
        const std::vector<std::string> words = absl::StrSplit(line, ": ");
        section->push_back({.name = words[0], .probe = words.size() > 1 ? words[1] : ""});
      } else if (absl::ConsumePrefix(&line, "    $ ")) {
        section->back().rows.back().commands.emplace_back(line);
      } else if (absl::ConsumePrefix(&line, "    fix: ")) {
        section->back().rows.back().fix = std::string(line);
      } else {
        const std::pair<std::string, std::string> parts =
            absl::StrSplit(line.substr(2), absl::MaxSplits(": ", 1));
        const std::pair<std::string, std::string> level =
            absl::StrSplit(parts.first, absl::MaxSplits(" if ", 1));
        section->back().rows.push_back(
            {.condition = level.second, .level = level.first, .found = parts.second});
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
                  .fix = Filled(row.fix, v)};
  for (const std::string& command : row.commands) {
    std::string filled = Filled(command, v);
    if (filled[0] == '@') filled.replace(0, 1, v.text("parameter"));
    finding.commands.push_back(std::move(filled));
  }
  return finding;
}

using Probe = std::function<Items(const std::string& name)>;

void Run(const char* section, const Probe& probe, std::vector<Finding>& findings) {
  for (const Check& check : Table().at(section)) {
    for (const Values& item : probe(check.probe)) {
      const auto row = std::ranges::find_if(
          check.rows, [&](const Row& each) { return Holds(each.condition, item); });
      if (row == check.rows.end() || row->level == "nothing") continue;
      findings.push_back(FindingOf(check.name, *row, item));
    }
  }
}

// ---- The values of one server, by their names in the table.

using Outcome = CommandProbe::Outcome;

// Sets the values of the server itself, and of the way to it.
void SetServer(const DoctorFacts& f, Values& v) {
  const absl::string_view why = f.info.status().message();
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
  v.Flag("quarantine", f.quarantine > absl::ZeroDuration());
  v.Set("info_why", why).Flag("info_renamed", absl::StrContains(why, "unknown command"));
  v.Set("cut_off", v.text("master_link_status") == "up" ? "" : ", and not connected to it");
  if (f.embedded) {
    v.Set("begun", f.embedded->started_by_us ? "started just now" : "running")
        .Set("directory", f.embedded->directory)
        .Set("server", f.embedded->server_pid)
        .Set("keeper", f.embedded->keeper_pid);
  }
  if (f.certificate_until) {
    v.Set("days", absl::ToInt64Hours(*f.certificate_until - f.checked_at) / 24)
        .Set("end", absl::FormatTime("%Y-%m-%d", *f.certificate_until, absl::UTCTimeZone()));
  }
}

void SetSentinels(const DoctorFacts& f, Values& v) {
  if (f.sentinels.empty()) return;
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
  v.Set("sentinels", f.sentinels.size())
      .Set("answered", answered)
      .Set("quorum", quorum)
      .Set("views", absl::StrJoin(views, ", "))
      .Set("named", named.size())
      .Set("primary", named.empty() ? "" : named.begin()->first)
      .Set("quorums", absl::StrJoin(quorums, ", "))
      .Flag("quorums_differ", quorums.size() > 1)
      .Set("silence", NumberIn(first, "down-after-milliseconds").value_or(0));
}

// Sets whether this user may run every command that locks need.
void SetPermissions(const DoctorFacts& f, Values& v) {
  std::map<Outcome, std::set<std::string>> commands;
  bool nameless = false;
  for (const CommandProbe& probe : f.probes) {
    if (!probe.optional) commands[probe.outcome].insert(probe.command);
    nameless = nameless || (probe.optional && probe.outcome != Outcome::kAllowed);
  }
  const auto [versioned, readers] = internal::KeyBeginnings(f.prefix);
  const bool all = f.MayDoAll() && !f.probes.empty();
  v.Set("denied", absl::StrJoin(commands[Outcome::kNoCommand], ", "))
      .Set("to_grant", absl::StrJoin(commands[Outcome::kNoCommand], " +"))
      .Set("unknown", absl::StrJoin(commands[Outcome::kUnknownToServer], ", "))
      .Set("keys", commands[Outcome::kNoKey].size())
      .Set("channels", commands[Outcome::kNoChannel].size())
      .Set("versioned", versioned)
      .Set("readers", readers)
      .Flag("nameless", nameless)
      .Set("allowed", all ? commands[Outcome::kAllowed].size() : 0);
}

// Sets how much memory there is for locks, and what a restart forgets.
void SetData(const DoctorFacts& f, Values& v) {
  const auto used = static_cast<int64_t>(v.n("used_memory"));
  const auto limit = static_cast<int64_t>(v.n("maxmemory"));
  const int64_t room = limit != 0 ? limit : static_cast<int64_t>(v.n("total_system_memory"));
  const double share = room == 0 ? 0 : static_cast<double>(used) / static_cast<double>(room);
  const auto percent = static_cast<int64_t>(100 * share);
  v.Set("room", room).Set("percent", percent).Set("twice", 2 * limit);
  v.Set("use", absl::StrCat(ShortSize(used), " of ", ShortSize(room), " used, ", percent, " %",
                            limit != 0 ? "" : "; the only limit is the machine's memory"));
  const auto save = TextIn(f.config, "save");
  v.Set("without_file",
        !save ? "no append-only file: a restart forgets who holds what, or goes back to a snapshot"
        : save->empty() ? "none: a restart forgets who holds what, and gives those locks to others"
                        : "snapshots only: a restart forgets every lock taken since the last one, "
                          "and gives it to others");
}

// Sets what a failover loses, and for how long the server then grants nothing.
void SetFailover(const DoctorFacts& f, Values& v) {
  // A primary that is cut off from its replicas goes on for that many seconds, if it stops at all.
  // A lag of 0 means that it never stops.
  const int64_t lag = NumberIn(f.config, "min-replicas-max-lag").value_or(10);
  const absl::Duration alone = absl::Seconds(lag + 1);
  v.Set("lag", lag).Set("alone", absl::FormatDuration(alone));
  v.Set("unconfirmed_why", f.confirmation.status().message());
  if (f.confirmation.ok()) {
    v.Set("confirmed", f.confirmation->replicas);
    v.Set("confirmed_after", ShortTime(f.confirmation->took));
  }
  const absl::Duration wanted = f.of_quorum ? f.restart_delay : f.quarantine;
  const bool none = f.of_quorum && wanted <= absl::ZeroDuration();
  v.Set("wanted", none ? "none" : absl::FormatDuration(wanted));
  v.Flag("too_short", wanted <= alone)
      .Flag("forbidden", absl::IsPermissionDenied(f.delay.status()));
  v.Set("records",
        f.place == Place::kAlone ? "redlatch:reign" : "all redlatch:{*}:reign* at each primary");
  const std::optional<Holdback> others = !f.of_quorum   ? f.epoch
                                         : f.delay.ok() ? std::optional(*f.delay)
                                                        : std::nullopt;
  if (!others) return;
  v.Set("theirs", absl::FormatDuration(others->length))
      .Set("left", ShortTime(others->until - f.checked_at))
      .Flag("differs", others->length != wanted)
      .Flag("held_back", others->until > f.checked_at);
}

// Sets whether messages reach waiters.
void SetMessages(const DoctorFacts& f, Values& v) {
  const absl::Status& status = f.message.status();
  v.Set("message_why", status.message()).Flag("silent", absl::IsDeadlineExceeded(status));
  v.Flag("message_denied", absl::IsPermissionDenied(status));
  if (f.message.ok()) v.Set("message_took", ShortTime(*f.message));
  // Finds the hard limit of class "pubsub" in "normal 0 0 0 slave 1 2 3 pubsub 4 5 6".
  const std::vector<std::string> words =
      absl::StrSplit(v.text("client-output-buffer-limit"), ' ', absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    int64_t bytes = 0;
    if (words[i] == "pubsub" && absl::SimpleAtoi(words[i + 1], &bytes)) v.Set("hard", bytes);
  }
  if (!f.pubsub_backlogs.ok()) v.Set("backlog_why", f.pubsub_backlogs.status().message());
  constexpr int64_t kSmallBuffer = 1048576;
  int64_t late = 0;
  PubSubBacklog worst;
  for (const PubSubBacklog& backlog : f.pubsub_backlogs.value_or(std::vector<PubSubBacklog>())) {
    if (backlog.bytes < kSmallBuffer) continue;
    ++late;
    if (backlog.bytes > worst.bytes) worst = backlog;
  }
  v.Set("connected", f.pubsub_backlogs.ok() ? f.pubsub_backlogs->size() : 0)
      .Set("late", late)
      .Set("bytes", worst.bytes)
      .Set("latest",
           worst.name.empty() ? worst.address : absl::StrCat(worst.address, " (", worst.name, ")"));
}

// Sets the longest delay of the last 24 hours, and returns its length: zero if there was none.
absl::Duration SetWorst(const std::string& name, const Told<std::vector<Delay>>& delays,
                        Values& v) {
  Delay worst;
  for (const Delay& delay : delays.value_or(std::vector<Delay>())) {
    if (delay.ago < absl::Hours(24) && delay.took > worst.took) worst = delay;
  }
  v.Flag(name + "_told", delays.ok()).Flag(name + "_empty", delays.ok() && delays->empty());
  v.Set(name, worst.what).Set(name + "_ms", absl::ToDoubleMilliseconds(worst.took));
  v.Set(name + "_took", ShortTime(worst.took)).Set(name + "_ago", ShortTime(worst.ago));
  return worst.took;
}

// Sets how fast the server is, and the shortest lease that fits the longest delay.
void SetLatency(const DoctorFacts& f, Values& v) {
  const absl::Duration slow = SetWorst("slow", f.slow_commands, v);
  const absl::Duration stalled = SetWorst("stall", f.latency_spikes, v);
  if (f.pings.empty()) return;
  const Spread spread = SpreadOf(f.pings);
  v.Set("worst_ping", absl::ToInt64Milliseconds(spread.worst))
      .Set("p99", absl::ToInt64Milliseconds(spread.p99))
      .Set("figures",
           absl::StrCat("p50 ", ShortTime(spread.p50), ", p99 ", ShortTime(spread.p99), ", worst ",
                        ShortTime(spread.worst), " of ", f.pings.size(), " PINGs"));
  const absl::Duration worst = std::max({f.slowest_pair / 2, spread.worst, slow, stalled});
  v.Set("least", ShortTime(ShortestLease(worst)))
      .Set("seconds", absl::ToInt64Seconds(ShortestLease(worst)))
      .Set("worst", ShortTime(worst));
}

// How far the server's clock jumped between two readings, beyond what their round trips and a busy
// scheduler can explain. Negative: it jumped back.
absl::Duration Step(const ClockReading& earlier, const ClockReading& later) {
  const absl::Duration passed = later.server - earlier.server;
  const absl::Duration least = later.sent - earlier.received;
  const absl::Duration most = later.received - earlier.sent;
  const absl::Duration slack = absl::Milliseconds(5) + most / 100;
  if (passed < least - slack) return passed - least;
  return passed > most + slack ? passed - most : absl::ZeroDuration();
}

void SetClock(const DoctorFacts& f, Values& v) {
  if (f.clock.size() < 2) return;
  const ClockReading& first = f.clock.front();
  const ClockReading& last = f.clock.back();
  absl::Duration step = Step(first, last);
  for (size_t i = f.clock.size() - 1; i > 0; --i) {
    const absl::Duration here = Step(f.clock[i - 1], f.clock[i]);
    if (absl::AbsDuration(here) >= absl::AbsDuration(step)) step = here;
  }
  const absl::Duration skew = last.server - last.here;
  v.Set("step", absl::ToDoubleSeconds(step))
      .Set("jump", ShortTime(absl::AbsDuration(step)))
      .Set("way", step > absl::ZeroDuration() ? "ahead" : "back")
      .Set("watched", ShortTime(last.received - first.sent))
      .Flag("skewed", absl::AbsDuration(skew) > absl::Seconds(1))
      .Set("skew", ShortTime(absl::AbsDuration(skew)))
      .Set("side", skew > absl::ZeroDuration() ? "ahead of" : "behind");
}

// Sets the limits that disconnect clients, or make them wait.
void SetLimits(const DoctorFacts& f, Values& v) {
  const auto most = static_cast<int64_t>(v.n("maxclients"));
  const double left = v.n("maxclients") - v.n("connected_clients");
  // Eight clients of redlatch have sixteen connections.
  v.Flag("few", left < 16 || left < v.n("maxclients") / 10);
  v.Set("more", std::max<int64_t>(1000, 2 * most));
  auto limit = NumberIn(f.config, "busy-reply-threshold");
  if (!limit) limit = NumberIn(f.config, "lua-time-limit");
  if (limit) v.Set("limit", *limit);
}

Values Whole(const DoctorFacts& f) {
  Values v(&f);
  for (const auto& set : {SetServer, SetSentinels, SetPermissions, SetData, SetFailover,
                          SetMessages, SetLatency, SetClock, SetLimits}) {
    set(f, v);
  }
  return v;
}

Items EachSentinel(const DoctorFacts& f) {
  Items items;
  for (const SentinelView& view : f.sentinels) {
    items.push_back(Values().Set("address", view.address));
    items.back().Set("flags", TextIn(view.master, "flags").value_or("master"));
    if (!view.master.ok()) items.back().Set("why", view.master.status().message());
  }
  return items;
}

// An item for each lock that does not work, one for those that were not tried, and one for those
// that work.
Items Trials(const DoctorFacts& f, Values whole) {
  if (f.place == Place::kReplica) return {};
  whole.Flag("elsewhere", f.locks_elsewhere).Flag("tried", !f.trials.empty());
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

Items EachReplica(const DoctorFacts& f, const Values& whole) {
  Items items;
  if (whole.n("connected_slaves") == 0) return {};
  for (const Replica& replica : f.replicas) {
    items.push_back(Values().Set("address", replica.address).Set("state", replica.state));
    items.back().Set("lag", absl::ToInt64Seconds(replica.lag));
  }
  return items;
}

// ---- The values of a cluster: do its nodes belong together, and serve all slots?

Values Of(const NodeFacts& node) {
  return Values().Set("address", node.address).Set("why", node.reached.message());
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

// How to reach a node that cannot be reached at the address that it announces.
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

// An item for each node that cannot be asked, and for each that other nodes miss; if there are
// none, one item for all nodes.
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

// A move is listed once, even if both of its nodes report it.
void SetMoves(const ClusterFacts& f, Values& v) {
  std::map<std::string, std::string> addresses;
  std::map<int, std::string> ways;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok() && !node.nodes.ok()) v.Set("untold", "").Set("user", node.facts.user);
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
  v.Set("moves", absl::StrJoin(named, ", "));
}

void SetVersions(const std::vector<NodeFacts>& nodes, Values& v) {
  std::map<std::string, std::set<std::string>> versions;
  for (const NodeFacts& node : nodes) {
    const auto valkey = TextIn(node.facts.info, "valkey_version");
    const auto redis = TextIn(node.facts.info, "redis_version");
    if (valkey || redis) {
      versions[valkey ? "Valkey " + *valkey : "Redis " + *redis].insert(node.address);
    }
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", absl::StrJoin(who, ", ")));
  }
  v.Set("versions", absl::StrJoin(each, "; "));
}

Values Whole(const ClusterFacts& f) {
  std::set<std::string> unwell;
  for (const NodeFacts& node : f.nodes) {
    const auto state = TextIn(node.state, "cluster_state");
    if (node.reached.ok() && state && *state != "ok") unwell.insert(node.address);
  }
  Values v;
  v.Set("primaries", std::ranges::count(f.nodes, false, &NodeFacts::is_replica))
      .Set("unserved", f.unserved)
      .Set("slots", f.unserved_slots)
      .Set("unwell", absl::StrJoin(unwell, ", "));
  SetMoves(f, v);
  SetVersions(f.nodes, v);
  return v;
}

// ---- The values of a quorum: are its servers independent, and enough?

Items EachUnreached(const QuorumFacts& f) {
  Items items;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok()) continue;
    items.push_back(Of(node).Flag("down", absl::IsUnavailable(node.reached)));
  }
  return items;
}

// An item for each set of servers that are the same one or have the same data; if there are none,
// one item for all servers.
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

// Sets how far the servers' clocks are apart.
void SetClocks(const QuorumFacts& f, Values& v) {
  std::map<absl::Duration, std::string> clocks;  // by how far they are ahead of this machine's
  for (const NodeFacts& node : f.nodes) {
    if (node.facts.clock.empty()) continue;
    const ClockReading& last = node.facts.clock.back();
    clocks.emplace(last.server - (last.here - (last.received - last.sent) / 2), node.address);
  }
  const auto told = std::ranges::count_if(
      f.nodes, [](const NodeFacts& node) { return !node.facts.clock.empty(); });
  if (told < 2) return;
  const absl::Duration apart = clocks.rbegin()->first - clocks.begin()->first;
  v.Set("ms", absl::ToDoubleMilliseconds(apart))
      .Set("apart", ShortTime(apart))
      .Set("ahead", clocks.rbegin()->second)
      .Set("behind", clocks.begin()->second);
}

Values Whole(const QuorumFacts& f) {
  const size_t all = f.nodes.size();
  Values v;
  v.Set("all", all).Set("less", all - 1).Flag("even", all % 2 == 0).Set("may_fail", (all - 1) / 2);
  v.Set("needed", base::Majority(all));
  v.Set("reached",
        std::ranges::count_if(f.nodes, [](const NodeFacts& node) { return node.reached.ok(); }));
  SetClocks(f, v);
  SetVersions(f.nodes, v);
  return v;
}

// ---- Merging equal findings of several nodes or servers.

// The text without its figures and their units.
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

// True if the findings are equal. Their figures may differ, unless something should be changed.
bool Alike(const Finding& one, const Finding& other) {
  if (one.level != other.level || one.check != other.check || one.commands != other.commands ||
      one.fix != other.fix) {
    return false;
  }
  if (one.level >= kWarn) return one.found == other.found;
  return ShapeOf(one.found) == ShapeOf(other.found);
}

// "all 3 primaries", "127.0.0.1:7001, 127.0.0.1:7002": the checked nodes that have the finding.
// `called`: "primaries".
std::string Where(const Finding& finding, const std::vector<NodeFacts>& nodes,
                  std::string_view called) {
  constexpr size_t kMostNamed = 6;
  size_t found[2] = {};    // primaries, replicas
  size_t checked[2] = {};  // likewise
  for (const NodeFacts& node : nodes) {
    if (!node.reached.ok()) continue;
    ++checked[node.is_replica];
    found[node.is_replica] += std::ranges::count(finding.nodes, node.address);
  }
  const size_t count = finding.nodes.size();
  std::string where;
  if (count == 1) {
    where = finding.nodes.front();
  } else if (found[0] == checked[0] && found[1] == checked[1]) {
    where = absl::StrCat("all ", count, " ", checked[1] > 0 ? "nodes" : std::string(called));
  } else if (found[0] == checked[0] && found[1] == 0) {
    where = absl::StrCat("all ", count, " primaries");
  } else if (found[1] == checked[1] && found[0] == 0) {
    where = absl::StrCat("all ", count, " replicas");
  } else {
    std::vector<std::string> named = finding.nodes;
    named.resize(std::min(count, kMostNamed));
    where = absl::StrJoin(named, ", ");
    if (count > kMostNamed) absl::StrAppend(&where, " and ", count - kMostNamed, " more");
  }
  const bool some_missing = checked[0] + checked[1] < nodes.size();
  if (absl::StartsWith(where, "all ") && some_missing) where += " that answer";
  if (finding.differs) absl::StrAppend(&where, " (figures of ", finding.nodes.front(), ")");
  return where;
}

// Appends the findings of the nodes to those of the whole.
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
      const auto last =  // the previous finding of the same check
          std::ranges::find(merged.rbegin(), merged.rend(), finding.check, &Finding::check);
      merged.insert(last == merged.rend() ? merged.end() : last.base(), std::move(finding));
    }
  }
  for (Finding& finding : merged) {
    finding.where = Where(finding, nodes, called);
    all.push_back(std::move(finding));
  }
}

}  // namespace

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  const Values whole = Whole(facts);
  const Probe probe = [&](const std::string& name) -> Items {
    if (name == "EachSentinel") return EachSentinel(facts);
    if (name == "EachReplica") return EachReplica(facts, whole);
    return name == "Trials" ? Trials(facts, whole) : Items{whole};
  };
  std::vector<Finding> findings;
  const auto run = [&](std::initializer_list<const char*> sections) {
    for (const char* const section : sections) Run(section, probe, findings);
  };
  run({"server"});
  if (facts.place != Place::kAlone) run({"coverage"});
  const bool has_locks = facts.place != Place::kReplica;
  if (has_locks) run({"sentinels"});
  run({"data"});
  // An embedded server has no replicas and no failover.
  if (has_locks && !facts.embedded) run({"replicas"});
  if (has_locks && facts.of_quorum) run({"restarts"});
  if (has_locks && !facts.of_quorum && !facts.embedded) run({"promise"});
  if (has_locks) run({"messages", "latency"});
  run({"limits"});
  return findings;
}

std::vector<Finding> Diagnose(const ClusterFacts& facts) {
  const Values whole = Whole(facts);
  std::vector<Finding> findings;
  const auto probe = [&](const std::string& name) {
    return name == "Seeds" ? Seeds(facts) : name == "Nodes" ? Nodes(facts) : Items{whole};
  };
  Run("cluster", probe, findings);
  AddNodes(facts.nodes, "primaries", findings);
  return findings;
}

std::vector<Finding> Diagnose(const QuorumFacts& facts) {
  const Values whole = Whole(facts);
  std::vector<Finding> findings;
  const auto probe = [&](const std::string& name) {
    return name == "EachUnreached"  ? EachUnreached(facts)
           : name == "Independence" ? Independence(facts)
                                    : Items{whole};
  };
  Run("quorum", probe, findings);
  AddNodes(facts.nodes, "servers", findings);
  return findings;
}

}  // namespace redlatch::cli
