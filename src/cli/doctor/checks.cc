#include "src/cli/doctor/checks.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "src/base/majority.h"
#include "src/cli/term/measures.h"
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

// One row of the table. `found`, `mend` and `commands` are templates for Filled(). There is one
// command per line; "@name value" sets a parameter of the server, by CONFIG SET if this user may
// use CONFIG, else as a line of its configuration. What is bad of a primary is a warning of an item
// with "replica".
struct Row {
  const char* condition;  // see Holds()
  Level level;
  const char* found;  // null: nothing
  const char* mend = "";
  const char* commands = "";
};

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

// A check finds, for each item that its probe returns, the first row that applies; or nothing.
template <class Facts>
struct CheckOf {
  const char* name;
  std::vector<Row> rows;
  Items (*probe)(const Facts& facts) = [](const Facts& facts) { return Items{Whole(facts)}; };
};
using Check = CheckOf<DoctorFacts>;

constexpr char kWhereToSet[] = "{where_to_set}";

Finding FindingOf(const char* check, const Row& row, const Values& v) {
  const bool milder = row.level == kBad && v.has("replica");
  Finding finding{.level = milder ? kWarn : row.level,
                  .check = check,
                  .found = Filled(row.found, v),
                  .mend = Filled(row.mend, v)};
  finding.commands = absl::StrSplit(Filled(row.commands, v), '\n', absl::SkipEmpty());
  for (std::string& command : finding.commands) {
    if (command[0] == '@') command.replace(0, 1, v.text("parameter"));
  }
  return finding;
}

template <class Facts>
void Run(const std::vector<CheckOf<Facts>>& checks, const Facts& facts,
         std::vector<Finding>& findings) {
  for (const CheckOf<Facts>& check : checks) {
    for (const Values& item : check.probe(facts)) {
      const auto row = std::ranges::find_if(
          check.rows, [&](const Row& each) { return Holds(each.condition, item); });
      if (row == check.rows.end() || row->found == nullptr) continue;
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

constexpr char kNeedsRedis[] = "redlatch needs Redis 7.0 or later, or Valkey";
constexpr char kOnlyInfo[] = "only INFO shows it";

const std::vector<Check>& ServerChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"embedded",
       {{"", kOk, "a private server for this user, {begun}, in {directory}"}},
       Embedded},
      {"keeper",
       {{"keeper=0", kUnchecked,
         "the process that watches server {server} could not be determined"},
        {"", kOk, "process {keeper} watches server {server}, and stops it when nobody uses it"}},
       Embedded},
      {"INFO",
       {{"!info & renamed", kWarn, "not available: {why}",
         "without it, neither this command nor redlatch can check the version, role and eviction "
         "policy; remove its rename-command line"},
        {"!info", kWarn, "not available: {why}",
         "without it, neither this command nor redlatch can check the version, role and eviction "
         "policy",
         "ACL SETUSER {user} +info"}},
       Info},
      {"version",
       {{"!info", kUnchecked, kOnlyInfo},
        {"valkey_version", kOk, "Valkey {valkey_version}"},
        {"!redis_version", kBad, "the server does not tell its version", kNeedsRedis},
        {"redis_version<7", kBad, "Redis {redis_version}", kNeedsRedis},
        {"", kOk, "Redis {redis_version}"}}},
      {"mode",
       {{"!info", kUnchecked, kOnlyInfo},
        {"redis_mode=cluster & !in_cluster", kBad,
         "a node of a cluster, of whose locks it has only a part",
         "begin the URL with redis-cluster://"},
        {"redis_mode=cluster", kOk, "a node of a cluster"},
        {"redis_mode=sentinel", kBad, "a Sentinel, which watches servers and cannot hold locks",
         "connect to the primary that it watches, which this command shows:", "SENTINEL MASTERS"},
        {"", kOk, "standalone, or a primary with replicas"}}},
      {"role",
       {{"!info", kUnchecked, kOnlyInfo},
        {"is_replica & role!=slave", kNote,
         "it was a replica when this check began, and is none any more"},
        {"is_replica & master_link_status!=up", kWarn,
         "a replica that is not connected to its primary",
         "see its log; are masteruser and masterauth set? It may take over with old data"},
        {"is_replica", kOk, "a replica, connected to its primary"},
        {"role=slave & in_cluster", kNote,
         "it was a primary when this check began: there was a failover", "check again"},
        {"role=slave & of_quorum", kBad, "a replica of {master_host}:{master_port}{cut_off}",
         "a quorum's servers are primaries, each of its own: name another one"},
        {"role=slave", kBad, "a replica of {master_host}:{master_port}{cut_off}",
         "locks need the primary; connect to that"},
        {"role=master", kOk, "a primary"},
        {"role!=sentinel", kUnchecked, "the server does not tell whether it is a primary"}},
       Role},
      {"role",
       {{"loading>0", kBad, "it is loading its data and does not answer until that is done",
         "try again then"}}},
      {"uptime",
       {{"!info", kUnchecked, kOnlyInfo},
        {"!uptime_in_seconds", kUnchecked, "the server does not tell how long it has been running"},
        {"uptime_in_seconds<30 & !embedded", kNote,
         "started {uptime_in_seconds:s} ago: it may have forgotten earlier holds while their "
         "holders still believe in them (for up to 30 s, the default lease)",
         "if that was not planned, find out why it restarted, and what it keeps across a restart"},
        {"", kOk, "for {uptime_in_seconds:s}"}}},
      {"TLS",
       {{"days<14", kWarn,
         "the server's certificate ends on {end}: no connection can be made from then on",
         "renew it now; redlatch reads its own files again when they change"},
        {"", kOk, "the server's certificate is good until {end}"}},
       Certificate}};
  return *checks;
}

// ---- What becomes of locks while a part of the cluster is down, by one node's settings.

const std::vector<Check>& CoverageChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"coverage",
       {{"!cluster-require-full-coverage", kUnchecked,
         "only CONFIG shows whether a shard that fails stops the others' locks"},
        {"cluster-require-full-coverage=yes", kNote,
         "cluster-require-full-coverage is yes: while one shard is down, no lock of any can be "
         "taken, kept or released",
         "to confine that to its own", "CONFIG SET cluster-require-full-coverage no"},
        {"", kOk, "a shard that is down stops its own locks only"}}},
      {"coverage",
       {{"cluster-allow-pubsubshard-when-down=no", kNote,
         "cluster-allow-pubsubshard-when-down is no: after the cluster was down, clients have to "
         "subscribe again before they hear of their turn",
         "", "CONFIG SET cluster-allow-pubsubshard-when-down yes"}}}};
  return *checks;
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

const std::vector<Check>& SentinelChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"sentinels",
       {{"why", kWarn, "{why}", "start it again, or take it out of the URL"},
        {"flags!=master", kWarn, "{address} calls the primary {flags}",
         "see its log: can it reach the primary?"}},
       EachSentinel},
      {"sentinels",
       {{"named>1", kBad, "they disagree: {views}",
         "a failover may be under way; if it stays so, restart those that are behind"}},
       AllSentinels},
      {"sentinels",
       {{"differ", kWarn, "their quorums differ: {quorums}",
         "SENTINEL SET <name> quorum <number> on each of them"}},
       AllSentinels},
      {"sentinels",
       {{"answered<quorum", kBad,
         "{answered} of them answer, and the quorum is {quorum}: nobody would replace the primary",
         "start the others again"},
        {"all<3", kWarn, "there are {all}: if one fails, nobody replaces the primary",
         "run three, on machines that fail apart"},
        {"answered>=all & named=1", kOk,
         "all {answered} name {primary}, with a quorum of {quorum}; it is replaced when it was "
         "silent for {silence:ms}"}},
       AllSentinels}};
  return *checks;
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

constexpr char kAppend[] = "@appendonly yes\n@appendfsync always";
constexpr char kSeeLog[] = "see the server's log; is its disk full?";

const std::vector<Check>& DataChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"password",
       {{"!has_password & over_network", kNote,
         "none was needed: whoever reaches the server can take and delete every lock",
         "give its users passwords, unless its network is its guard"}}},
      {"permissions", {{"!probed", kUnchecked, "no command could be tried"}}},
      {"permissions",
       {{"denied!=", kBad, "user {user} may not {denied}", "locks need that; grant it",
         "ACL SETUSER {user} +{to_grant}"}},
       Commands},
      {"permissions",
       {{"unknown!=", kBad, "the server does not know {unknown}",
         "locks need that: take away its rename-command lines, or choose another server"}},
       Commands},
      {"permissions",
       {{"keys>0 & prefix=", kBad, "user {user} may not use every name for a lock",
         "say what your locks' names begin with: redlatch doctor --prefix PREFIX; or grant all "
         "names",
         "ACL SETUSER {user} ~*"},
        {"keys>0", kBad,
         "user {user} may not use all of {prefix}..., {versioned}... and {readers}... as keys",
         "locks need them; grant them", "ACL SETUSER {user} ~{prefix}* ~{versioned}* ~{readers}*"}},
       Commands},
      {"permissions",
       {{"channels>0", kBad, "user {user} may not use the channels redlatch:*",
         "nobody would be told that it is his turn; grant them", "ACL SETUSER {user} &redlatch:*"}},
       Commands},
      {"permissions",
       {{"all>0", kOk, "user {user} may run all {all} commands that locks need"}},
       Commands},
      {"names",
       {{"all>0 & nameless", kNote,
         "user {user} may not say or read which process it is: ls and inspect name no host, "
         "process or program",
         "", "ACL SETUSER {user} +mget ~redlatch:client:*"}},
       Commands},
      {"locks",
       {{"elsewhere", kUnchecked, "none that begins with {prefix} is here"},
        {"library", kBad, "redlatch does not take this server: {library}"},
        {"!tried", kUnchecked, "none was tried, for what is said above"},
        {"failed", kBad, "{failed} does not work: {why}"},
        {"untried", kUnchecked, "not tried, for lack of time or of an answer: {untried}"},
        {"", kOk, "taken, kept and released: {working}"}},
       Trials},
      {"eviction",
       {{"!maxmemory_policy | !maxmemory", kUnchecked,
         "the server does not tell whether it evicts keys",
         "maxmemory-policy must be noeviction, or held locks may vanish"},
        {"maxmemory_policy!=noeviction & maxmemory<=0", kWarn,
         "maxmemory-policy {maxmemory_policy}: as soon as maxmemory is set, held locks may be "
         "evicted",
         kWhereToSet, "@maxmemory-policy noeviction"},
        {"maxmemory_policy!=noeviction & eviction_allowed", kWarn,
         "maxmemory-policy {maxmemory_policy}: held locks may be evicted, which ?eviction=allow "
         "accepts",
         kWhereToSet, "@maxmemory-policy noeviction"},
        {"maxmemory_policy!=noeviction", kBad,
         "maxmemory-policy {maxmemory_policy}: held locks may be evicted; redlatch refuses such a "
         "server",
         kWhereToSet, "@maxmemory-policy noeviction"},
        {"", kOk, "none: held locks stay held"}}},
      {"memory",
       {{"!used_memory", kUnchecked, "the server does not tell how much it uses"},
        {"room=0", kUnchecked, "{used_memory:b} used; the server does not tell out of how much"},
        {"maxmemory>0 & percent>=100", kBad, "{use}: no new lock can be taken",
         "remove data, or raise the limit", "@maxmemory {twice}"},
        {"maxmemory>0 & percent>=90", kWarn, "{use}: soon no new lock can be taken",
         "remove data, or raise the limit", "@maxmemory {twice}"},
        {"percent>=90", kWarn, "{use}: the server will become slow, or be killed", "remove data"},
        {"percent>=75", kNote, "{use}"},
        {"", kOk, "{use}"}},
       Memory},
      {"evicted",
       {{"evicted_keys>0", kNote,
         "{evicted_keys} keys were evicted since the server started; some of them may have been "
         "held locks"}}},
      {"persistence",
       {{"!aof_enabled", kUnchecked, "the server does not tell what it keeps across a restart"},
        {"embedded", kNote,
         "none: if the server crashes, it forgets who holds what; so does a reboot, which ends the "
         "holders, too"},
        {"aof_enabled<=0 & of_quorum & restart_delay", kNote,
         "none, or snapshots: a restart forgets what this server has granted, and the restart "
         "delay keeps it from granting that to others"},
        {"aof_enabled<=0 & of_quorum", kWarn,
         "no append-only file: a restart forgets what this server has granted, and a second holder "
         "may get a majority",
         "say restart_delay= in the URL of each server, not shorter than the longest lease; or "
         "keep an append-only file",
         kAppend},
        {"aof_enabled<=0", kWarn, "{without_file}",
         "keep an append-only file; or restart it only after the longest lease has expired, and "
         "fence everything that must not be overwritten",
         kAppend},
        {"!appendfsync", kNote,
         "an append-only file; only CONFIG shows how often it reaches the disk",
         "only with appendfsync always is nothing forgotten if the machine fails"},
        {"appendfsync=always", kOk,
         "an append-only file, on disk before each answer: a restart forgets nothing"},
        {"appendfsync=everysec", kNote,
         "an append-only file, on disk every second: if the server crashes, nothing is forgotten; "
         "if the machine does, the last second or two",
         "if that is too much", "@appendfsync always"},
        {"", kWarn,
         "an append-only file with appendfsync {appendfsync}: if the machine fails, the last half "
         "minute of locks is forgotten",
         kWhereToSet, "@appendfsync always"}},
       Persistence},
      {"disk",  // Redis takes no writes at all after some failures to write its own files
       {{"aof_last_write_status & aof_last_write_status!=ok", kBad,
         "the append-only file cannot be written: no lock can be taken or kept", kSeeLog},
        {"rdb_last_bgsave_status & rdb_last_bgsave_status!=ok & stop-writes-on-bgsave-error=no",
         kWarn, "the last snapshot could not be written", kSeeLog},
        {"rdb_last_bgsave_status & rdb_last_bgsave_status!=ok", kBad,
         "the last snapshot could not be written, so the server accepts no writes: no lock can be "
         "taken or kept",
         "see the server's log; is its disk full? Or let it go on without snapshots",
         "@stop-writes-on-bgsave-error no"},
        {"aof_last_bgrewrite_status & aof_last_bgrewrite_status!=ok", kWarn,
         "the append-only file could not be rewritten and keeps growing", kSeeLog}}}};
  return *checks;
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
  if (!f.reign) return {v};
  return {v.Set("theirs", absl::FormatDuration(f.reign->quarantine))
              .Set("left", ShortTime(f.reign->until - f.looked_at))
              .Flag("differs", f.reign->quarantine != f.quarantine)
              .Flag("held_back", f.reign->until > f.looked_at)};
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

const std::vector<Check>& ReplicaChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"replicas",
       {{"!connected_slaves", kUnchecked, "the server does not tell whether it has any"},
        {"connected_slaves<=0 & is_primary", kWarn,
         "none: if it fails, nobody serves its slots, and no lock there can be taken or kept, "
         "until it is back",
         "add a replica: redis-cli --cluster add-node NEW:PORT ANY:PORT --cluster-slave "
         "--cluster-master-id ID"}},
       Replicas},
      {"replicas",
       {{"state!=online", kWarn, "{address} is not in sync: {state}",
         "see its log; a new replica first copies all data"},
        {"lag>10", kWarn, "{address} was last heard from {lag:s} ago",
         "check whether it is running, and its network"}},
       EachReplica},
      {"failover",
       {{"!connected_slaves", kOk, nullptr},
        {"connected_slaves<=0 & min-replicas-to-write<=0", kOk, nullptr},
        {"!min-replicas-to-write", kUnchecked,
         "only CONFIG shows whether the server goes on alone if it is cut off from its replicas",
         "it should not", "@min-replicas-to-write 1"},
        {"min-replicas-to-write>connected_slaves", kBad,
         "min-replicas-to-write is {min-replicas-to-write} with {connected_slaves} replicas: no "
         "lock can be taken or kept",
         "bring the replicas back, or require fewer", "@min-replicas-to-write {connected_slaves}"},
        {"is_primary & cluster-node-timeout", kOk,
         "a primary that is cut off from most others stops after {cluster-node-timeout:ms}, and a "
         "replica takes over soon after"},
        {"min-replicas-to-write<=0 | lag<=0", kWarn,
         "a primary that is cut off from its replicas keeps granting locks, while a promoted "
         "replica may grant the same ones",
         "make it stop then; with only one replica, it also stops if that replica fails",
         "@min-replicas-to-write 1\n@min-replicas-max-lag 10"},
        {"", kOk, "a primary that is cut off stops after {lag:s}"}},
       Replicas},
      {"replicas",
       {{"connected_slaves & connected_slaves<=0 & min-replicas-to-write<=0 & !in_cluster & "
         "!of_quorum",
         kNote, "none: if this machine fails, there are no locks until it is back"}},
       Replicas},
      {"WAIT",
       {{"connected_slaves<=0", kOk, nullptr},
        {"!confirmed", kUnchecked, "it could not be tested whether replicas confirm writes: {why}"},
        {"confirmed<connected_slaves", kWarn,
         "{confirmed} of {connected_slaves} replicas had a write within {took}",
         "a failover loses what has not arrived; check the replicas' load and network"},
        {"", kOk,
         "all {connected_slaves} replicas had a write within {took}; a failover loses what has not "
         "arrived"}},
       Replicas}};
  return *checks;
}

// docs/guarantees.md says what is promised across a failover.
const std::vector<Check>& PromiseChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"quarantine",
       {{"differs & !quarantine", kBad,
         "others that use this server ask for a quarantine of {theirs}, and this URL for none: its "
         "clients grant what the others hold back",
         "say quarantine={theirs} in each URL; or stop all of them, and delete {records}"},
        {"differs", kBad,
         "others that use this server ask for a quarantine of {theirs}, and this URL for one of "
         "{wanted}: they refuse each other",
         "say quarantine={theirs} in each URL; or stop all of them, and delete {records}"}},
       Quarantine},
      {"quarantine",
       {{"quarantine & !info", kBad, "this user may not run INFO, by which a promotion is known",
         "ACL SETUSER {user} +info; or use replica_acks instead"},
        {"quarantine & held_back", kNote,
         "the server is new, or was promoted: nobody is granted anything for {left} more"}},
       Quarantine},
      {"quarantine",
       {{"!quarantine | !info", kOk, nullptr},
        {"too_short", kBad,
         "{wanted} is too short: a primary that is cut off grants for {alone} more "
         "(min-replicas-max-lag)",
         "make it longer than that and the longest lease together"},
        {"!min-replicas-max-lag", kUnchecked,
         "only CONFIG shows for how long a primary that is cut off goes on: it is taken for the "
         "usual 10 s",
         "ACL SETUSER {user} +config|get"}},
       Quarantine},
      {"quarantine",
       {{"quarantine & info & repl-backlog-ttl>0", kWarn,
         "repl-backlog-ttl is {repl-backlog-ttl} s: a primary without replicas for so long counts "
         "as promoted, and grants nothing for {wanted}",
         kWhereToSet, "@repl-backlog-ttl 0"}},
       Quarantine},
      {"promise",
       {{"!connected_slaves", kOk, nullptr},
        {"in_cluster & !quarantine & connected_slaves<=0", kOk, nullptr},
        {"in_cluster & !quarantine", kNote,
         "one holder at a time; a failover that loses the last writes may give a lock to a second "
         "one, for a lease at most",
         "if that must not be, acquire with replica_acks = 1; fencing tokens grow in any case"},
        {"connected_slaves<=0", kNote,
         "one holder at a time, for as long as this server keeps its data; nothing replaces it if "
         "it fails"},
        {"quarantine & min-replicas-to-write>0 & lag>0", kOk,
         "one holder at a time, also across a failover, after which nobody is granted anything for "
         "{wanted}"},
        {"quarantine", kNote,
         "one holder at a time; a primary that is cut off, and not stopped by "
         "min-replicas-to-write, may grant a lock that the new one grants after the quarantine",
         kWhereToSet, "@min-replicas-to-write 1"},
        {"", kNote,
         "one holder at a time; a failover that loses the last writes may give a lock to a second "
         "one, for a lease at most",
         "if that must not be, acquire with replica_acks = {connected_slaves}, or say quarantine= "
         "in the URL; fencing tokens grow in any case"}},
       Quarantine}};
  return *checks;
}

// What a server of a quorum remembers of the delay after its restart, and what the URL says.
const std::vector<Check>& RestartChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"restarts",
       {{"restart_delay & !info", kBad, "this user may not run INFO, by which a restart is known",
         "without it no vote counts", "ACL SETUSER {user} +info"}}},
      {"restarts",
       {{"restart_delay & forbidden", kBad,
         "this user may not use the key redlatch:quorum, in which a restart is remembered",
         "grant it", "ACL SETUSER {user} ~redlatch:quorum"}},
       RestartDelay},
      {"restarts",
       {{"differs", kBad,
         "others that use this server ask for a restart delay of {theirs}, and this URL for "
         "{wanted}",
         "say restart_delay={theirs} in each URL; or stop all of them, and delete redlatch:quorum"},
        {"held_back", kNote, "the server started lately, and has no vote for {left} more"},
        {"restart_delay", kOk, "a server that has started has no vote for {wanted}"}},
       RestartDelay}};
  return *checks;
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

const std::vector<Check>& MessageChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"messages",
       {{"took", kOk, "a published message arrived after {took}"},
        {"in_cluster & denied", kBad, "sharded channels are refused: {why}",
         "in a cluster redlatch tells waiters of their turn by them; permit them, or, if a hosted "
         "service forbids them, use it without cluster mode",
         "ACL SETUSER {user} +spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub &redlatch:*"},
        {"denied | silent", kBad, "they do not arrive: {why}",
         "those who wait would not be told, and ask several times per second instead; let the "
         "address lead to the primary alone, and permit PUBLISH"},
        {"", kUnchecked, "it could not be tested whether they arrive: {why}"}},
       Message},
      {"buffers",
       {{"!hard", kUnchecked,
         "only CONFIG shows how much may queue for a subscriber before it is disconnected"},
        {"hard>0 & hard<1048576", kWarn,
         "a subscriber is disconnected when {hard:b} are queued for it: a waiter may miss its turn "
         "and get the lock late",
         kWhereToSet, "@client-output-buffer-limit \"pubsub 32mb 8mb 60\""},
        {"hard=0", kOk, "any number of messages may queue for a subscriber"},
        {"", kOk, "{hard:b} may queue for a subscriber"}},
       BufferLimit},
      {"subscribers",
       {{"why", kUnchecked,
         "only CLIENT LIST shows which subscribers do not read their messages: {why}"},
        {"late=0", kOk, "{connected} connected, all of them read their messages"},
        {"", kWarn, "{late} do not read their messages, among them {worst}, {bytes:b} behind",
         "check whether that program is stopped or overloaded"}},
       Backlogs}};
  return *checks;
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

const std::vector<Check>& LatencyChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"round trip",
       {{"!figures", kUnchecked, "PING was not answered"},
        {"worst>=100", kWarn, "{figures}",
         "find what delays it: the network, slow commands, or an overloaded machine"},
        {"p99>=20", kNote, "{figures}"},
        {"", kOk, "{figures}"}},
       RoundTrip},
      {"slow log",
       {{"!told", kUnchecked, "only SLOWLOG shows which commands hold up all others"},
        {"ms>=1000", kWarn,
         "the slowest in the last 24 hours: {what}, {took}, {ago} ago; every renewal had to wait "
         "for it",
         "move that work to another server, since it makes short leases expire", "SLOWLOG GET"},
        {"ms>=100", kWarn,
         "the slowest in the last 24 hours: {what}, {took}, {ago} ago; every renewal had to wait "
         "for it",
         "move that work to another server, or do not use short leases", "SLOWLOG GET"},
        {"what!=", kNote, "the slowest in the last 24 hours: {what}, {took}, {ago} ago"},
        {"", kOk, "nothing in the last 24 hours"}},
       SlowCommands},
      {"stalls",
       {{"!told", kUnchecked, "only LATENCY shows what else has delayed the server"},
        {"latency-monitor-threshold<=0 & empty", kUnchecked,
         "the server does not record delays by forks and disks", "to make it do so",
         "@latency-monitor-threshold 100"},
        {"ms<100", kOk, "none worth mentioning in the last 24 hours"},
        {"", kWarn, "the longest: {what}, {took}", "ask the server what can be done",
         "LATENCY DOCTOR"}},
       Spikes},
      {"lease",
       {{"seconds>30", kWarn, "at least {least}, twenty times the slowest seen ({worst})",
         "the default of 30 s is too short here: fix what is slow, or set LockOptions::lease"},
        {"", kOk, "at least {least}, twenty times the slowest seen ({worst})"}},
       RecommendedLease}};
  return *checks;
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

const std::vector<Check>& LimitChecks() {
  static const auto* const checks = new std::vector<Check>{
      {"clock",
       {{"!watched", kUnchecked, "the server does not tell its time (TIME)"},
        {"step!=0", kWarn, "jumped {jump} {way} within {watched}; leases depend on it",
         "make its machine slew the clock and never step it, as chrony does without makestep",
         "chronyc tracking"},
        {"skewed", kNote,
         "steady over the {watched} of this check; {skew} {side} this machine's clock, which does "
         "not matter to locks",
         "but a successor whose clock is behind would hand out smaller tokens: keep both in step "
         "by NTP",
         "timedatectl timesync-status"},
        {"", kOk, "steady over the {watched} of this check, and in step with this machine's"}},
       Clock},
      {"connections",
       {{"!connected_clients | !maxclients", kUnchecked,
         "the server does not tell how many it has and how many it accepts"},
        {"few", kWarn,
         "{connected_clients} of at most {maxclients}; each process with locks needs two, and a "
         "process that gets none gets no lock",
         kWhereToSet, "@maxclients {more}"},
        {"", kOk, "{connected_clients} of at most {maxclients}"}},
       Connections},
      {"connections",
       {{"connected_clients & maxclients & rejected_connections>0", kNote,
         "{rejected_connections} were rejected since the server started, because there were too "
         "many"}}},
      {"timeout",
       {{"timeout>0", kNote,
         "a connection that is idle for {timeout:s} is closed, so the next lock after a pause has "
         "to reconnect first",
         "", "@timeout 0"}}},
      {"keepalive",
       {{"tcp-keepalive=0 & over_network", kNote,
         "the server never notices that a machine has vanished: that machine's waiters keep their "
         "places until they miss their heartbeats, and its connections stay forever",
         "", "@tcp-keepalive 60"}}},
      {"timeout",
       {{"!timeout | !tcp-keepalive", kUnchecked,
         "only CONFIG shows whether idle connections are closed"},
        {"timeout=0 & tcp-keepalive>0 | timeout=0 & !over_network", kOk,
         "idle connections are kept"}}},
      {"scripts",
       {{"!limit", kUnchecked, "only CONFIG shows when the server reports a script that hangs"},
        {"limit<=0 | limit>10000", kNote,
         "if another program's script hangs, it is hard to end: the server reports BUSY too late, "
         "or never",
         "", "@busy-reply-threshold 5000"},
        {"", kOk, "a script that has run for {limit:ms} can be ended with SCRIPT KILL"}},
       ScriptLimit},
      {"clients",
       {{"maxmemory-clients & maxmemory-clients!=0", kNote,
         "maxmemory-clients is {maxmemory-clients}: connections are cut when they use more in "
         "total, which delays their waiters",
         "", "@maxmemory-clients 0"}}},
      {"events",
       {{"notify-keyspace-events!=", kNote,
         "notify-keyspace-events is set, so each lock costs the server some extra messages; "
         "redlatch does not need them",
         "if nothing else needs them", "@notify-keyspace-events \"\""}}}};
  return *checks;
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

const std::vector<CheckOf<ClusterFacts>>& ClusterChecks() {
  static const auto* const checks = new std::vector<CheckOf<ClusterFacts>>{
      {"seeds",
       {{"all=1", kOk, "{address} is one of its nodes"},
        {"all", kOk, "all {all} are its nodes"},
        {"no_cluster", kBad, "{address} is no node of a cluster", "take it out of the URL"},
        {"!reached", kWarn, "{address} does not serve to begin with: {why}",
         "mend that, or take it out of the URL; clients need one that does"},
        {"knows=0", kBad, "{address} knows of no node that serves slots",
         "join it to the cluster, or take it out of the URL"},
        {"other", kBad,
         "{address} belongs to another cluster than {other}: clients that begin there exclude "
         "nobody here",
         "take one of them out of the URL"}},
       Seeds},
      {"slots",
       {{"unserved>0", kBad,
         "nobody serves {unserved} of them ({slots}): no lock there can be taken or kept",
         "bring their primary back; if it is lost for good, redis-cli --cluster fix HOST:PORT "
         "gives them to others, without their keys"},
        {"", kOk, "all are served, by {primaries} primaries"}},
       Slots},
      {"majority",  // so that two of three can agree that the third is gone
       {{"primaries<3", kWarn,
         "there are {primaries} primaries: if one fails, the others can't agree on who replaces it",
         "run three or more, on machines that fail apart"}},
       Slots},
      {"state",
       {{"unwell=", kOk, "ok at all nodes that answer"},
        {"", kBad, "cluster_state is not ok at {unwell}: no lock can be taken or kept there",
         "see slots and nodes; a node also says so that is cut off from most primaries"}},
       State},
      {"nodes",
       {{"all", kOk, "all {all} can be reached where they say that they are"},
        {"trouble=failed", kBad, "{who} has failed{so}", "start it again, or replace it"},
        {"trouble=odd", kBad, "{who} does not answer as it should: {why}{so}"},
        {"trouble=elsewhere", kBad,
         "{who} can't be reached at the address that it announces: {why}{so}", "{map}"},
        {"trouble=refuses", kBad, "{who} does not let this user in: {why}{so}",
         "each node has users and settings of its own: make them the same at all nodes"},
        {"flag=fail", kWarn, "{who} counts as failed",
         "start it again; if it is gone for good and serves no slots, CLUSTER FORGET its id at "
         "each node"},
        {"flag=fail?", kWarn, "{who} is not heard by some other nodes (pfail)",
         "check its load, and the network between the nodes' bus ports"},
        {"flag=handshake", kWarn, "{who} is in a handshake",
         "if that lasts, the nodes can't reach each other's bus ports"},
        {"", kWarn, "{who} has no known address", "CLUSTER FORGET it at each node"}},
       Nodes},
      {"moves",
       {{"untold", kUnchecked, "only CLUSTER NODES shows slots on the move, and failed nodes", "",
         "ACL SETUSER {user} +cluster|nodes"},
        {"moves=", kOk, "no slot is on the move"},
        {"", kWarn,
         "on the move: slot {moves}; until it is there, locks in it can't be taken, kept or "
         "released",
         "if nobody is moving them, end that with redis-cli --cluster fix HOST:PORT"}},
       Moves},
      {"versions",
       {{"", kWarn, "they differ: {each}",
         "bring all nodes to the same, replicas before their primaries"}},
       VersionsInCluster}};
  return *checks;
}

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

const std::vector<CheckOf<QuorumFacts>>& QuorumChecks() {
  static const auto* const checks = new std::vector<CheckOf<QuorumFacts>>{
      {"quorum",
       {{"all=1", kWarn, "there is one server: if it fails, no lock can be taken or kept",
         "run three or five, on machines that fail apart"},
        {"all=2", kWarn, "there are 2 servers: if one fails, no lock can be taken or kept",
         "run three or five, on machines that fail apart"},
        {"even", kNote, "there are {all} servers, of which {may_fail} may fail: as of {less}",
         "add one, or do without one"},
        {"", kOk, "there are {all} servers, of which {may_fail} may fail"}},
       QuorumSize},
      {"servers",
       {{"down", kWarn, "{address} could not be looked at: {why}",
         "start it again; one that is gone for good is to be replaced in the URLs of all clients "
         "at once"},
        {"", kWarn, "{address} could not be looked at: {why}",
         "each server has users and settings of its own: make them the same"}},
       EachUnreached},
      {"servers",
       {{"reached<needed", kBad,
         "{reached} of {all} answer, and {needed} are needed: no lock can be taken or kept",
         "bring the others back"},
        {"reached>=all", kOk, "all {reached} answer"}},
       QuorumSize},
      {"independence",
       {{"run_id", kBad, "{run_id} are one and the same server, which so has several votes",
         "name each server once"},
        {"master_replid", kBad,
         "{master_replid} have the same data: one is a replica of the other, or both are of a "
         "third",
         "a quorum's servers must be independent: make each a primary of its own (REPLICAOF NO "
         "ONE), or take it out of the URL"},
        {"told", kOk, "each {those}is a server of its own, and no replica of another"},
        {"", kUnchecked, "only INFO of all servers shows whether each is a server of its own"}},
       Independence},
      {"clocks",  // nodes that are further apart agree on a token only after one more question
       {{"ms>500", kWarn,
         "{ahead} is {apart} ahead of {behind}: locks take longer, and fencing tokens may fall if "
         "servers lose their data",
         "keep the clocks of all servers in step by NTP", "chronyc tracking"},
        {"", kOk, "within {apart} of each other"}},
       Clocks},
      {"versions", {{"", kNote, "they differ: {each}"}}, VersionsInQuorum}};
  return *checks;
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

}  // namespace

std::vector<Finding> Diagnose(const DoctorFacts& facts) {
  std::vector<Finding> findings;
  const bool has_locks = facts.place != Place::kReplica;
  Run(ServerChecks(), facts, findings);
  if (facts.place != Place::kAlone) Run(CoverageChecks(), facts, findings);
  if (has_locks) Run(SentinelChecks(), facts, findings);
  Run(DataChecks(), facts, findings);
  if (has_locks) {
    Run(ReplicaChecks(), facts, findings);
    Run(facts.of_quorum ? RestartChecks() : PromiseChecks(), facts, findings);
    Run(MessageChecks(), facts, findings);
    Run(LatencyChecks(), facts, findings);
  }
  Run(LimitChecks(), facts, findings);
  return findings;
}

std::vector<Finding> Diagnose(const ClusterFacts& facts) {
  std::vector<Finding> findings;
  Run(ClusterChecks(), facts, findings);
  AddNodes(facts.nodes, "primaries", findings);
  return findings;
}

std::vector<Finding> Diagnose(const QuorumFacts& facts) {
  std::vector<Finding> findings;
  Run(QuorumChecks(), facts, findings);
  AddNodes(facts.nodes, "servers", findings);
  return findings;
}

}  // namespace redlatch::cli
