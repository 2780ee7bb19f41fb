#include <cstdlib>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
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

Facts& Facts::Read(absl::string_view pairs, char between, char equals) {
  for (absl::string_view pair : absl::StrSplit(pairs, between)) {
    pair = absl::StripAsciiWhitespace(pair);
    if (pair.empty() || pair[0] == '#') continue;
    const std::pair<std::string, std::string> fact =
        absl::StrSplit(pair, absl::MaxSplits(equals, 1));
    texts.insert(fact);
  }
  return *this;
}

namespace {

using enum Level;
using Items = std::vector<Facts>;

// " | " separates alternatives, and " & " the parts of one. True if all parts of one alternative
// hold. A part is "name" (there is such a fact), "!name", "name=text", "name!=text", or a
// comparison of numbers such as "name>=3" or "name<other_name". A missing fact counts as zero.
bool Holds(std::string_view condition, const Facts& f) {
  if (condition.empty()) return true;
  const auto part_holds = [&f](absl::string_view part) {
    const bool negated = absl::ConsumePrefix(&part, "!");
    const size_t at = part.find_first_of("<>=!");
    const std::string_view name(part.data(), std::min(at, part.size()));
    if (at == part.npos) return f.has(name) != negated;
    const absl::string_view sign = part.substr(at, part.find_first_not_of("<>=!", at) - at);
    const std::string other(part.substr(at + sign.size()));
    if (sign == "=" || sign == "!=") return (f.text(name) == other) == (sign == "=");
    double bound = 0;
    if (!absl::SimpleAtod(other, &bound)) bound = f.n(other);
    if (sign == "<") return f.n(name) < bound;
    if (sign == ">") return f.n(name) > bound;
    return sign == "<=" ? f.n(name) <= bound : f.n(name) >= bound;
  };
  for (const absl::string_view way : absl::StrSplit(std::string(condition), " | ")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(way, " & ");
    if (std::ranges::all_of(parts, part_holds)) return true;
  }
  return false;
}

// Replaces names by their facts: {uptime_in_seconds}, or with a unit {timeout:s}, {x:ms}, {x:b}.
// An unknown fact becomes "?".
std::string Filled(std::string_view text, const Facts& f) {
  std::string out;
  for (size_t open = 0; (open = text.find('{')) != text.npos;) {
    out += text.substr(0, open);
    text.remove_prefix(open + 1);
    const size_t end = text.find('}');
    const std::string_view name = text.substr(0, std::min(end, text.find(':')));
    const std::string_view unit = text.substr(0, end).substr(name.size());
    if (unit == ":s") {
      out += ShortTime(absl::Seconds(f.n(name)));
    } else if (unit == ":ms") {
      out += ShortTime(absl::Milliseconds(f.n(name)));
    } else if (unit == ":b") {
      out += ShortSize(static_cast<int64_t>(f.n(name)));
    } else {
      out += f.has(name) ? f.text(name) : "?";
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
  std::string list;  // the check is about each of this list; empty: about the whole
  std::vector<Row> rows = {};
};
struct Section {
  std::string condition;
  std::vector<Check> checks = {};
};

std::pair<std::string, std::string> SplitAt(const char* separator, absl::string_view text) {
  return absl::StrSplit(text, absl::MaxSplits(separator, 1));
}

// The checks of checks.table.
const std::vector<Section>& Table() {
  static const auto* const table = [] {
    auto* const read = new std::vector<Section>;
    // A line that is indented by six spaces continues the previous one.
    const std::string text = absl::StrReplaceAll(kDoctorTable, {{"\n      ", " "}});
    for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      if (line[0] == '#') continue;
      if (absl::StartsWith(line, "== ")) {
        read->push_back({.condition = SplitAt(" if ", line).second});
      } else if (line[0] != ' ') {
        const auto [name, list] = SplitAt(": ", line);
        read->back().checks.push_back({.name = name, .list = list});
      } else if (absl::ConsumePrefix(&line, "    $ ")) {
        read->back().checks.back().rows.back().commands.emplace_back(line);
      } else if (absl::ConsumePrefix(&line, "    fix: ")) {
        read->back().checks.back().rows.back().fix = std::string(line);
      } else {
        const auto [when, found] = SplitAt(": ", line.substr(2));
        const auto [level, condition] = SplitAt(" if ", when);
        read->back().checks.back().rows.push_back(
            {.condition = condition, .level = level, .found = found});
      }
    }
    return read;
  }();
  return *table;
}

Finding FindingOf(const std::string& check, const Row& row, const Facts& f) {
  static const std::map<std::string, Level> levels = {
      {"ok", kOk}, {"unchecked", kUnchecked}, {"note", kNote}, {"warn", kWarn}, {"bad", kBad}};
  // A replica holds no locks.
  const bool milder = row.level == "bad" && f.has("replica");
  Finding finding{.level = milder ? kWarn : levels.at(row.level),
                  .check = check,
                  .found = Filled(row.found, f),
                  .fix = Filled(row.fix, f)};
  for (const std::string& command : row.commands) {
    std::string filled = Filled(command, f);
    if (filled[0] == '@') {
      filled.replace(0, 1, f.text("parameter"));
      if (f.text("parameter").empty() && finding.setting.empty()) finding.setting = filled;
    }
    finding.commands.push_back(std::move(filled));
  }
  return finding;
}

std::vector<Finding> RunTable(const Facts& whole) {
  std::vector<Finding> findings;
  for (const Section& section : Table()) {
    if (!Holds(section.condition, whole)) continue;
    for (const Check& check : section.checks) {
      const auto list = whole.lists.find(check.list);
      const Items items = check.list.empty()          ? Items{whole}
                          : list == whole.lists.end() ? Items()
                                                      : list->second;
      for (const Facts& item : items) {
        const auto row = std::ranges::find_if(
            check.rows, [&](const Row& each) { return Holds(each.condition, item); });
        if (row == check.rows.end() || row->level == "nothing") continue;
        findings.push_back(FindingOf(check.name, *row, item));
      }
    }
  }
  return findings;
}

// ---- Facts that follow from what one server has told.

// Sets the facts about the server itself, and the way to it.
void SetServer(Facts& f) {
  const bool config = f.has("config");
  f.Set("parameter", config ? "CONFIG SET " : "");
  f.Set("where_to_set",
        config ? "" : "in its configuration, or in the settings of the hosted service");
  f.Set("cut_off", f.text("master_link_status") == "up" ? "" : ", and not connected to it");
  if (!f.has("certificate_until")) return;
  const absl::Time end = absl::FromUnixSeconds(static_cast<int64_t>(f.n("certificate_until")));
  const absl::Time now = absl::FromUnixMillis(static_cast<int64_t>(f.n("now_ms")));
  f.Set("days", absl::ToInt64Hours(end - now) / 24)
      .Set("end", absl::FormatTime("%Y-%m-%d", end, absl::UTCTimeZone()));
}

void SetSentinels(Facts& f) {
  const Items& sentinels = f.lists["EachSentinel"];
  if (sentinels.empty()) return;
  std::map<std::string, std::vector<std::string>> named;
  std::set<std::string> quorums;
  size_t answered = 0;
  double quorum = 0;
  for (const Facts& each : sentinels) {
    if (each.has("why")) continue;
    ++answered;
    named[Filled("{ip}:{port}", each)].push_back(each.text("address"));
    quorum = std::max(quorum, each.n("quorum"));
    quorums.insert(Filled("{quorum}", each));
  }
  std::vector<std::string> views;
  for (const auto& [primary, who] : named) {
    views.push_back(absl::StrCat(absl::StrJoin(who, " and "), " name ", primary));
  }
  f.Set("sentinels", sentinels.size())
      .Set("answered", answered)
      .Set("quorum", quorum)
      .Set("views", absl::StrJoin(views, ", "))
      .Set("named", named.size())
      .Set("primary", named.empty() ? "" : named.begin()->first)
      .Set("quorums", absl::StrJoin(quorums, ", "))
      .Flag("quorums_differ", quorums.size() > 1)
      .Set("silence", sentinels.front().n("down-after-milliseconds"));
}

// Sets whether this user may run every command that locks need.
void SetPermissions(Facts& f) {
  std::map<std::string, std::vector<std::string>> commands;  // by how the server treats them
  bool nameless = false;
  for (const auto& [name, outcome] : f.texts) {
    absl::string_view command = name;
    if (absl::ConsumePrefix(&command, kProbe)) commands[outcome].emplace_back(command);
    if (absl::StartsWith(name, kOptionalProbe)) nameless = nameless || outcome != kAllowed;
  }
  const auto [versioned, readers] = internal::KeyBeginnings(f.text("prefix"));
  const std::string allowed(kAllowed);
  f.Flag("probed", !commands.empty())
      .Set("allowed", commands.size() == 1 ? commands[allowed].size() : 0)
      .Set("denied", absl::StrJoin(commands["command"], ", "))
      .Set("to_grant", absl::StrJoin(commands["command"], " +"))
      .Set("unknown", absl::StrJoin(commands["unknown"], ", "))
      .Set("keys", commands["key"].size())
      .Set("channels", commands["channel"].size())
      .Set("versioned", versioned)
      .Set("readers", readers)
      .Flag("nameless", nameless);
}

// Sets what Dragonfly's flags do to every script.
void SetScripts(Facts& f) {
  const std::string flags = f.text("default_lua_flags");
  f.Flag("not_atomic", absl::StrContains(flags, "disable-atomicity"))
      .Flag("global_lock", absl::StrContains(flags, "allow-undeclared-keys"));
}

// Sets how much memory there is for locks, and what a restart forgets.
void SetData(Facts& f) {
  const auto used = static_cast<int64_t>(f.n("used_memory"));
  const auto limit = static_cast<int64_t>(f.n("maxmemory"));
  const int64_t room = limit != 0 ? limit : static_cast<int64_t>(f.n("total_system_memory"));
  const double share = room == 0 ? 0 : static_cast<double>(used) / static_cast<double>(room);
  const auto percent = static_cast<int64_t>(100 * share);
  f.Set("room", room).Set("percent", percent).Set("twice", 2 * limit);
  f.Set("use", absl::StrCat(ShortSize(used), " of ", ShortSize(room), " used, ", percent, " %",
                            limit != 0 ? "" : "; the only limit is the machine's memory"));
  f.Set("without_file",
        !f.has("save")
            ? "no append-only file: a restart forgets which locks are held, or goes back to a "
              "snapshot"
        : f.text("save").empty()
            ? "nothing is saved: a restart forgets which locks are held, and other clients get them"
            : "snapshots only: a restart forgets every lock taken since the last one, and gives it "
              "to others");
}

// Sets the state of each replica, what a failover loses, and for how long the server then grants
// nothing.
void SetFailover(Facts& f) {
  for (const auto& [name, value] : f.texts) {  // "slave0:ip=...,port=...,state=online,lag=0"
    int64_t number = 0;
    const bool is_one = name.starts_with("slave") && absl::SimpleAtoi(name.substr(5), &number);
    if (!is_one || f.n("connected_slaves") == 0) continue;
    Facts& replica = f.lists["EachReplica"].emplace_back().Read(value, ',', '=');
    replica.Set("address", Filled("{ip}:{port}", replica));
  }
  // A primary that is cut off from its replicas goes on for that many seconds, if it stops at all.
  // A lag of 0 means that it never stops.
  const double lag = f.has("min-replicas-max-lag") ? f.n("min-replicas-max-lag") : 10;
  const absl::Duration alone = absl::Seconds(lag + 1);
  f.Set("lag", lag).Set("alone", absl::FormatDuration(alone));
  const double hold_ms = f.n("wanted_ms");  // by the URL: a quarantine or a restart delay
  const absl::Duration wanted = absl::Milliseconds(hold_ms);
  const bool of_quorum = f.has("of_quorum");
  f.Set("wanted", of_quorum && hold_ms <= 0 ? "none" : absl::FormatDuration(wanted))
      .Flag("restart_delay", of_quorum && hold_ms > 0)
      .Flag("quarantine", !of_quorum && hold_ms > 0)
      .Flag("too_short", wanted <= alone);
  f.Set("records",
        f.has("in_cluster") ? "all redlatch:{*}:reign* at each primary" : "redlatch:reign");
  if (!f.has("theirs_ms")) return;
  const double left_ms = f.n("until_ms") - f.n("now_ms");
  f.Set("theirs", absl::FormatDuration(absl::Milliseconds(f.n("theirs_ms"))))
      .Set("left", ShortTime(absl::Milliseconds(left_ms)))
      .Flag("differs", f.n("theirs_ms") != hold_ms)
      .Flag("held_back", left_ms > 0);
}

// Sets the shortest lease that fits the longest delay.
void SetLease(Facts& f) {
  if (!f.has("ping_ms")) return;
  const absl::Duration worst = absl::Milliseconds(
      std::max({f.n("pair_ms") / 2, f.n("ping_ms"), f.n("slow_ms"), f.n("stall_ms")}));
  f.Set("least", ShortTime(ShortestLease(worst)))
      .Set("seconds", absl::ToInt64Seconds(ShortestLease(worst)))
      .Set("worst", ShortTime(worst));
}

// Sets the limits that disconnect clients, or make them wait.
void SetLimits(Facts& f) {
  // Finds the hard limit of class "pubsub" in "normal 0 0 0 slave 1 2 3 pubsub 4 5 6".
  const std::vector<std::string> words =
      absl::StrSplit(f.text("client-output-buffer-limit"), ' ', absl::SkipEmpty());
  const auto pubsub = std::ranges::find(words, "pubsub");
  if (words.end() - pubsub > 1) f.Set("hard", pubsub[1]);
  const double most = f.n("maxclients");
  const double left = most - f.n("connected_clients");
  // Eight clients of redlatch have sixteen connections.
  f.Flag("few", left < 16 || left < most / 10);
  f.Set("more", std::max<int64_t>(1000, 2 * static_cast<int64_t>(most)));
  for (const char* const name : {"lua-time-limit", "busy-reply-threshold"}) {
    if (f.has(name)) f.Set("limit", f.text(name));
  }
}

// ---- The facts of a cluster: do its nodes belong together, and serve all slots?

Facts Of(const NodeFacts& node) {
  return Facts().Set("address", node.address).Set("why", node.reached.message());
}

Items Seeds(const GroupFacts& f) {
  Items items = f.seeds;
  const auto first = std::ranges::find_if(
      f.seeds, [](const Facts& each) { return Holds("knows & knows!=", each); });
  for (Facts& seed : items) {
    seed.Flag("no_cluster", absl::StrContains(seed.text("why"), "cluster support disabled"));
    if (!Holds("knows & knows!=", seed)) continue;  // else `first` is this one, or before it
    const std::set<std::string> known = absl::StrSplit(first->text("knows"), ',');
    const std::vector<std::string> ids = absl::StrSplit(seed.text("knows"), ',');
    const bool apart =
        std::ranges::none_of(ids, [&](const std::string& id) { return known.contains(id); });
    if (apart) seed.Set("other", first->text("address"));
  }
  const bool well = std::ranges::all_of(
      items, [](const Facts& seed) { return Holds("knows & knows!= & !other", seed); });
  return well ? Items{items.front().Set("all", items.size())} : items;
}

// How to reach a node that cannot be reached at the address that it announces.
std::string MapOf(const GroupFacts& f, const NodeFacts& node) {
  for (const Facts& seed : f.seeds) {
    if (seed.text("announced") != node.address || seed.text("address") == node.address) continue;
    return absl::StrCat("it is reached at ", seed.text("address"), ": add map=", node.address, "/",
                        seed.text("address"), " to the URL");
  }
  return absl::StrCat("if clients reach it elsewhere, as through a tunnel, add map=", node.address,
                      "/HOST:PORT to the URL; else see its cluster-announce-ip, and the network");
}

// An item for each node that cannot be asked, and for each that other nodes miss; if there are
// none, one item for all nodes.
Items Nodes(const GroupFacts& f) {
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
    items.push_back(
        Of(node)
            .Set("who",
                 absl::StrCat("the ", node.is_replica ? "replica " : "primary ", node.address))
            .Set("so", node.is_replica
                           ? ""
                           : Filled("; no lock in slots {slots} can be taken or kept", node.facts))
            .Flag("replica", node.is_replica)
            .Set("trouble", failed                                    ? "failed"
                            : !silent                                 ? "refuses"
                            : absl::StartsWith(why, "cannot connect") ? "elsewhere"
                                                                      : "odd")
            .Set("map", MapOf(f, node)));
  }
  for (const char* const flag : {"fail", "fail?", "handshake", "noaddr"}) {
    if (flagged[flag].empty()) continue;
    items.push_back(Facts().Set("flag", flag).Set("who", absl::StrJoin(flagged[flag], ", ")));
  }
  if (items.empty()) items.push_back(Facts().Set("all", f.nodes.size()));
  return items;
}

// A move is listed once, even if both of its nodes report it.
void SetMoves(const GroupFacts& f, Facts& v) {
  std::map<std::string, std::string> addresses;
  std::map<int, std::string> ways;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok() && !node.nodes.ok())
      v.Set("untold", "").Set("user", node.facts.text("user"));
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

void SetVersions(const std::vector<NodeFacts>& nodes, Facts& v) {
  std::map<std::string, std::set<std::string>> versions;
  for (const NodeFacts& node : nodes) {
    const bool valkey = node.facts.has("valkey_version");
    if (!valkey && !node.facts.has("redis_version")) continue;
    versions[Filled(valkey ? "Valkey {valkey_version}" : "Redis {redis_version}", node.facts)]
        .insert(node.address);
  }
  if (versions.size() < 2) return;
  std::vector<std::string> each;
  for (const auto& [version, who] : versions) {
    each.push_back(absl::StrCat(version, " at ", absl::StrJoin(who, ", ")));
  }
  v.Set("versions", absl::StrJoin(each, "; "));
}

void SetCluster(const GroupFacts& f, Facts& v) {
  std::set<std::string> unwell;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok() && Holds("cluster_state & cluster_state!=ok", node.facts)) {
      unwell.insert(node.address);
    }
  }
  v.Set("is", "cluster")
      .Set("primaries", std::ranges::count(f.nodes, false, &NodeFacts::is_replica))
      .Set("unwell", absl::StrJoin(unwell, ", "));
  v.lists["Seeds"] = Seeds(f);
  v.lists["Nodes"] = Nodes(f);
  SetMoves(f, v);
}

// ---- The facts of a quorum: are its servers independent, and enough?

Items EachUnreached(const GroupFacts& f) {
  Items items;
  for (const NodeFacts& node : f.nodes) {
    if (node.reached.ok()) continue;
    items.push_back(Of(node).Flag("down", absl::IsUnavailable(node.reached)));
  }
  return items;
}

// An item for each set of servers that are the same one or have the same data; if there are none,
// one item for all servers.
Items Independence(const GroupFacts& f) {
  Items items;
  std::set<std::set<std::string>> same;
  for (const char* const field : {"run_id", "master_replid"}) {
    std::map<std::string, std::set<std::string>> by_value;
    for (const NodeFacts& node : f.nodes) {
      if (node.facts.has(field)) by_value[node.facts.text(field)].insert(node.address);
    }
    for (const auto& [value, who] : by_value) {
      if (who.size() < 2 || !same.insert(who).second) continue;
      items.push_back(Facts().Set(field, absl::StrJoin(who, " and ")));
    }
  }
  if (!items.empty()) return items;
  bool told = true;
  bool all = true;
  for (const NodeFacts& node : f.nodes) {
    all = all && node.reached.ok();
    told = told && (!node.reached.ok() || node.facts.has("run_id"));
  }
  return {Facts().Flag("told", told).Set("those", all ? "" : "that answers ")};
}

// Sets how far the servers' clocks are apart.
void SetClocks(const GroupFacts& f, Facts& v) {
  std::vector<std::pair<double, std::string>>
      clocks;  // by how far they are ahead of this machine's
  for (const NodeFacts& node : f.nodes) {
    if (node.facts.has("ahead_us")) clocks.emplace_back(node.facts.n("ahead_us"), node.address);
  }
  if (clocks.size() < 2) return;
  const auto [behind, ahead] = std::ranges::minmax(clocks);
  const absl::Duration apart = absl::Microseconds(ahead.first - behind.first);
  v.Set("ms", absl::ToDoubleMilliseconds(apart))
      .Set("apart", ShortTime(apart))
      .Set("ahead", ahead.second)
      .Set("behind", behind.second);
}

void SetQuorum(const GroupFacts& f, Facts& v) {
  const size_t all = f.nodes.size();
  v.Set("is", "quorum")
      .Set("all", all)
      .Set("less", all - 1)
      .Flag("even", all % 2 == 0)
      .Set("may_fail", (all - 1) / 2)
      .Set("needed", base::Majority(all))
      .Set("reached",
           std::ranges::count_if(f.nodes, [](const NodeFacts& node) { return node.reached.ok(); }));
  v.lists["EachUnreached"] = EachUnreached(f);
  v.lists["Independence"] = Independence(f);
  SetClocks(f, v);
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

std::vector<Finding> Diagnose(const Facts& told) {
  Facts facts = told;
  for (const auto& set : {SetServer, SetSentinels, SetPermissions, SetScripts, SetData, SetFailover,
                          SetLease, SetLimits}) {
    set(facts);
  }
  return RunTable(facts);
}

std::vector<Finding> Diagnose(const GroupFacts& group) {
  const bool is_quorum = group.seeds.empty();
  Facts whole = group.whole;
  (is_quorum ? SetQuorum : SetCluster)(group, whole);
  SetVersions(group.nodes, whole);
  std::vector<Finding> findings = RunTable(whole);
  AddNodes(group.nodes, is_quorum ? "servers" : "primaries", findings);
  return findings;
}

}  // namespace redlatch::cli
