// Tests what the doctor finds from the facts about one server.
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lua/scripts.h"
#include "src/cli/doctor/doctor.h"
#include "src/cli/term/output.h"
#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

using ::testing::Field;
using enum Level;

TEST(DoctorFindings, HealthyServerHasNoFindings) {
  const std::vector<Finding> findings = Diagnose(HealthyFacts());
  EXPECT_THAT(findings, Each(AllOf(Field(&Finding::level, kOk), Field(&Finding::fix, IsEmpty()),
                                   Field(&Finding::commands, IsEmpty()))));
  EXPECT_EQ(DoctorExitCode(findings), 0);
}

TEST(DoctorFindings, UnaskedQuestionsAreUnchecked) {
  for (const Finding& finding : Diagnose(Facts())) {
    const Level level = finding.check == "INFO" ? kWarn : kUnchecked;
    EXPECT_EQ(finding.level, level) << finding.check << ": " << finding.found;
  }
}

TEST(DoctorFindings, ExitCodeIsThatOfTheWorstFinding) {
  EXPECT_EQ(DoctorExitCode({}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = kUnchecked}, {.level = kOk}}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = kNote}}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = kWarn}, {.level = kNote}}), kNeedsChange);
  EXPECT_EQ(DoctorExitCode({{.level = kBad}, {.level = kWarn}}), kRefused);
}

TEST(DoctorFindings, NeedsInfo) {
  const Facts facts = HealthyFacts(Error("NOPERM"));
  EXPECT_EQ(Worst(facts, "INFO").level, kWarn);
  EXPECT_THAT(Worst(facts, "INFO").commands, ElementsAre("ACL SETUSER app +info"));
  for (const char* const check : {"version", "mode", "role", "uptime", "eviction", "memory",
                                  "persistence", "replicas", "connections"}) {
    EXPECT_EQ(Worst(facts, check).level, kUnchecked) << check;
  }
}

TEST(DoctorFindings, NoFixUsesConfigSetWithoutConfig) {
  Facts facts = HealthyFacts(kInfo, Error("ERR unknown command 'CONFIG'"));
  facts.Set("maxmemory_policy", "allkeys-lru").Set("used_memory", "950");
  for (const char* const check : {"failover", "buffers", "timeout", "scripts"}) {
    EXPECT_EQ(Worst(facts, check).level, kUnchecked) << check;
  }
  EXPECT_EQ(Worst(facts, "persistence").level, kNote);
  EXPECT_THAT(Worst(facts, "eviction").commands, ElementsAre("maxmemory-policy noeviction"));
  for (const Finding& finding : Diagnose(facts)) {
    EXPECT_THAT(finding.commands, Each(Not(StartsWith("CONFIG"))));
  }
}

// Changes to the facts of a healthy server, and the worst finding of a check after them: nothing,
// or its level and parts of its text. The commands are between > and <.
using Change = std::function<void(Facts&)>;
struct Case {
  std::string_view check;
  std::optional<Level> level;
  std::vector<Change> changes;
  std::vector<std::string> says = {};
};

Change Fact(std::string name, std::string value) {
  return [=](Facts& facts) { facts.Set(name, value); };
}
Change Without(std::string name) {
  return [=](Facts& facts) { facts.texts.erase(name); };
}

void ExpectFound(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    Facts facts = HealthyFacts();
    for (const Change& change : each.changes) change(facts);
    SCOPED_TRACE(absl::StrCat(std::string(each.check), ", case ", &each - cases.data()));
    EXPECT_EQ(!Of(facts, each.check).empty(), each.level.has_value());
    if (!each.level) continue;
    const Finding worst = Worst(facts, each.check);
    EXPECT_EQ(worst.level, *each.level);
    const std::string said = absl::StrCat(worst.found, "\n", worst.fix, "\n> ",
                                          absl::StrJoin(worst.commands, " > "), " <");
    for (const std::string& text : each.says) EXPECT_THAT(said, HasSubstr(text));
  }
}

constexpr std::optional<Level> kNothing;

TEST(DoctorFindings, RefusesServersThatCannotHoldLocks) {
  ExpectFound({
      {"version", kBad, {Fact("redis_version", "6.2.7")}},
      {"version", kOk, {Fact("redis_version", "10.0.1")}},
      {"version", kOk, {Fact("valkey_version", "8.0.0")}, {"Valkey 8.0.0\n"}},
      {"version", kBad, {Without("redis_version")}},
      {"mode", kBad, {Fact("redis_mode", "cluster")}},
      {"mode", kBad, {Fact("redis_mode", "sentinel")}},
      {"role",
       kBad,
       {Fact("role", "slave"), Fact("master_host", "10.0.0.1"), Fact("master_port", "6380"),
        Fact("master_link_status", "up")},
       {"10.0.0.1:6380"}},
      {"role", kBad, {Fact("loading", "1")}},
      {"uptime", kNote, {Fact("uptime_in_seconds", "29")}},
      {"uptime", kOk, {Fact("uptime_in_seconds", "30")}},
  });
}

TEST(DoctorFindings, RefusesEvictionAndGradesMemoryUse) {
  const Change evicts = Fact("maxmemory_policy", "allkeys-lru"), no_limit = Fact("maxmemory", "0");
  const Change full_machine = Fact("used_memory", "100000");
  ExpectFound({
      {"eviction", kBad, {evicts}, {"> CONFIG SET maxmemory-policy noeviction <"}},
      {"eviction", kWarn, {evicts, Fact("eviction_allowed", "1")}},
      {"eviction", kWarn, {evicts, no_limit}},
      {"memory", kOk, {Fact("used_memory", "749")}},
      {"memory", kNote, {Fact("used_memory", "750")}},
      {"memory", kWarn, {Fact("used_memory", "900")}},
      {"memory", kBad, {Fact("used_memory", "1000")}, {"> CONFIG SET maxmemory 2000 <"}},
      // Without a limit it compares with the machine's memory; it is never full by a rule of Redis.
      {"memory", kOk, {no_limit}},
      {"memory", kWarn, {no_limit, full_machine}},
      {"memory", kUnchecked, {no_limit, full_machine, Without("total_system_memory")}},
      {"evicted", kNothing, {Fact("evicted_keys", "0")}},
      {"evicted", kNote, {Fact("evicted_keys", "3")}},
  });
}

TEST(DoctorFindings, GradesPersistenceAndDiskErrors) {
  const Change no_file = Fact("aof_enabled", "0");
  const Change snapshot_fails = Fact("rdb_last_bgsave_status", "err");
  ExpectFound({
      {"persistence",
       kWarn,
       {no_file},
       {"> CONFIG SET appendonly yes > CONFIG SET appendfsync always <"}},
      {"persistence", kWarn, {no_file, Fact("save", "")}, {"nothing is saved"}},
      {"persistence", kWarn, {no_file, Fact("save", "3600 1")}, {"snapshots only"}},
      {"persistence", kNote, {Fact("appendfsync", "everysec")}},
      {"persistence", kWarn, {Fact("appendfsync", "no")}},
      {"disk", kNothing, {}},
      {"disk", kBad, {Fact("aof_last_write_status", "err")}},
      {"disk", kWarn, {Fact("aof_last_bgrewrite_status", "err")}},
      {"disk", kBad, {snapshot_fails}},
      {"disk", kWarn, {snapshot_fails, Fact("stop-writes-on-bgsave-error", "no")}},
  });
}

TEST(DoctorFindings, ChecksTheCertificate) {
  const auto until = [](int days) -> Change {
    return Fact("certificate_until", absl::StrCat(1'700'000'000 + 86400 * days));
  };
  ExpectFound({{"TLS", kNothing, {}},
               {"TLS", kOk, {until(60)}},
               {"TLS", kWarn, {until(5)}, {"ends on 2023-11-19"}}});
}

TEST(DoctorFindings, ChecksTheSentinels) {
  const auto sentinels = [](int count) -> Change {
    return [count](Facts& facts) {
      for (int i = 1; i <= count; ++i) {
        facts.lists["EachSentinel"].push_back(Facts()
                                                  .Set("address", absl::StrCat("10.0.1.", i))
                                                  .Set("ip", "10.0.0.1")
                                                  .Set("port", "6379")
                                                  .Set("quorum", "2")
                                                  .Set("flags", "master")
                                                  .Set("down-after-milliseconds", "5000"));
      }
    };
  };
  const auto says = [](std::string field, std::string value, size_t which = 1) -> Change {
    return [=](Facts& facts) { facts.lists["EachSentinel"][which].Set(field, value); };
  };
  const auto dead = [&](size_t which) { return says("why", "dead", which); };
  ExpectFound({
      {"sentinels", kNothing, {}},
      {"sentinels", kOk, {sentinels(3)}, {"all 3 name 10.0.0.1:6379", "silent for 5 s"}},
      {"sentinels", kBad, {sentinels(3), says("ip", "10.0.0.9", 2)}, {"they disagree"}},
      {"sentinels", kWarn, {sentinels(3), dead(0)}},
      {"sentinels", kBad, {sentinels(3), dead(0), dead(1)}, {"they would not replace"}},
      {"sentinels", kWarn, {sentinels(2)}},
      {"sentinels", kWarn, {sentinels(3), says("quorum", "1")}},
      {"sentinels", kWarn, {sentinels(3), says("flags", "master,s_down")}, {"master,s_down"}},
  });
}

TEST(DoctorFindings, ChecksThePromiseAndEachReplica) {
  const std::string stop = "CONFIG SET min-replicas-to-write 1";
  const Change never_stops = Fact("min-replicas-to-write", "0");
  const Change alone = Fact("connected_slaves", "0");
  ExpectFound({
      {"promise", kNote, {Fact("wanted_ms", "0")}, {"acks.replicas = 1"}},
      {"promise", kNote, {Fact("wanted_ms", "0"), Fact("wait_refused", "1")}, {"acks need it"}},
      {"promise", kOk, {}},
      {"quarantine", kWarn, {Fact("repl-backlog-ttl", "3600")}, {"SET repl-backlog-ttl 0 <"}},
      {"quarantine", kBad, {Without("info")}},
      {"promise", kNote, {never_stops}, {"> " + stop + " <"}},
      {"promise", kNote, {Fact("min-replicas-max-lag", "0")}},  // 0 disables min-replicas-to-write
      {"failover", kWarn, {Fact("min-replicas-max-lag", "0")}},
      {"promise", kNote, {alone}, {"nothing replaces it"}},
      {"replicas",
       kWarn,
       {Fact("slave0", "ip=10.0.0.2,port=6379,state=wait_bgsave,lag=1")},
       {"10.0.0.2:6379 is not in sync"}},
      {"replicas", kWarn, {Fact("slave0", "ip=10.0.0.2,port=6379,state=online,lag=11")}},
      {"WAIT", kWarn, {Fact("confirmed", "0")}},
      {"WAIT", kUnchecked, {Without("confirmed")}},
      {"failover", kWarn, {never_stops}, {"> " + stop}},
      // It requires more replicas than there are: no lock can be taken.
      {"failover", kBad, {Fact("min-replicas-to-write", "2")}},
      {"failover", kBad, {alone}},
      {"failover", kUnchecked, {Without("min-replicas-to-write")}},
      {"failover", kOk, {Without("min-replicas-to-write"), Fact("is_primary", "1")}, {"timeout"}},
      {"failover", kNothing, {alone, never_stops}},
      {"replicas", kNote, {alone, never_stops}},
  });
}

TEST(DoctorFindings, NamesWhatAServerRefuses) {
  const auto script = [](const std::string& command, const std::string& error) -> Change {
    return [=](Facts& facts) { TakeScript(command, Error(error), facts); };
  };
  const std::string refused = "ERR This Redis command is not allowed from script";
  const std::string place = " script: 9a8b, on @user_script:1.";
  const Change no_engine = script("", "ERR Could not find scripting engine 'lua'");
  const Change disabled = script("", "ERR This instance has Lua scripting support disabled");
  const Change no_message = Without("message_took"), denied = Fact("message_denied", "1");
  const Change permitted = [](Facts& facts) { TakeScript("TIME", Text("1"), facts); };
  ExpectFound({
      {"Lua", kNothing, {permitted}},
      {"Lua", kOk, {Fact("called", "TIME, INFO")}, {"scripts run, and may call TIME, INFO"}},
      {"Lua", kNothing, {script("", "NOPERM x"), script("TIME", "MOVED 1 a:1")}},
      {"Lua", kBad, {no_engine}, {"> loadmodule /path/to/libvalkeylua.so <"}},
      {"Lua", kBad, {disabled}, {"--lua"}},
      {"Lua", kBad, {script("", "ERR not in this plan")}, {"scripts are refused", "not in this"}},
      {"Lua", kBad, {script("TIME", refused + place)}, {"call TIME: " + refused + "\n"}},
      {"Lua", kBad, {script("PUBSUB", refused)}, {"whether the next waiter"}},
      {"Lua", kBad, {script("PUBLISH", refused)}, {"tells the next waiter"}},
      {"Lua", kNote, {script("INFO", refused)}, {"quarantine= and restart_delay= need it"}},
      {"Lua", kWarn, {Fact("default_lua_flags", "allow-undeclared-keys")}, {"the whole server"}},
      {"Lua", kBad, {Fact("default_lua_flags", "disable-atomicity")}, {"two holders"}},
      {"version", kWarn, {Fact("dragonfly_version", "df-v1.30.0")}, {"Dragonfly df-v1.30.0, on"}},
      {"version", kWarn, {Fact("garnet_version", "1.0.80")}, {"Garnet 1.0.80, on"}},
      {"version",
       kBad,
       {Fact("redis_version", "6.3.4"), Fact("mvcc_depth", "0")},
       {"KeyDB 6.3.4", "no release of KeyDB will do"}},
      {"version", kBad, {Fact("redis_version", "6.2.7")}, {"Redis 6.2.7"}},
      {"WAIT", kNote, {Fact("wait_refused", "1")}, {"> ACL SETUSER app +wait <"}},
      {"CONFIG", kNothing, {}},
      {"CONFIG", kNote, {Fact("config_unknown", "1")}, {"console"}},
      {"CONFIG", kNote, {Fact("config_denied", "1")}, {"> ACL SETUSER app +config|get <"}},
      {"messages", kBad, {no_message, denied, Fact("sharded", "1")}, {"redis-cluster://"}},
  });
}

TEST(DoctorFindings, DescribesAnEmbeddedServer) {
  const auto embedded = [](int keeper) -> Change {
    return [keeper](Facts& facts) {
      facts.Set("aof_enabled", "0").Set("embedded", 1).Set("directory", "/run/user/1000/redlatch");
      facts.Set("server", 17).Set("keeper", keeper);
    };
  };
  ExpectFound({
      {"embedded", kOk, {embedded(16)}, {"/run/user/1000/redlatch"}},
      {"keeper", kOk, {embedded(16)}, {"process 16 watches server 17"}},
      {"persistence", kNote, {embedded(16)}, {"reboot"}},
      {"replicas", kNothing, {embedded(16)}},
      {"keeper", kUnchecked, {embedded(0)}},
  });
}

TEST(DoctorFindings, NamesTheCommandThatGrantsMissingPermissions) {
  const auto probe = [](const std::string& command, const std::string& outcome) {
    return Fact("probe:" + command, outcome);
  };
  const Change names = Fact("optional:mget", "allowed");
  const Change no_names = Fact("optional:mget", "command");
  const auto trial = [](std::string name, std::string value) -> Change {
    return [=](Facts& facts) { facts.lists["Trials"].push_back(Facts().Set(name, value)); };
  };
  const Change may_not = probe("get", "command"), nor = probe("zadd", "command");
  const std::string keys =
      "> ACL SETUSER app ~orders:* ~redlatch:2:{orders:* ~redlatch:rw:{orders:* <";
  ExpectFound({
      {"permissions", kBad, {may_not, nor}, {"app may not get, zadd\n", "app +get +zadd <"}},
      {"permissions", kBad, {probe("publish", "channel")}, {"> ACL SETUSER app &redlatch:* <"}},
      {"permissions", kBad, {probe("get", "key")}, {"> ACL SETUSER app ~* <", "--prefix"}},
      {"permissions", kBad, {probe("get", "key"), Fact("prefix", "orders:")}, {keys}},
      {"permissions", kBad, {probe("get", "unknown")}, {"rename-command"}},
      // Locks work without descriptions of clients.
      {"names", kNothing, {names}},
      {"names", kNote, {no_names}, {"> ACL SETUSER app +mget ~redlatch:client:* <"}},
      {"permissions", kOk, {no_names}},
      // A trial that was not made does not count as passed.
      {"locks", kUnchecked, {Without("tried"), [](auto& facts) { facts.lists.clear(); }}},
      {"locks", kBad, {trial("failed", "latch")}, {"latch"}},
      {"locks", kUnchecked, {trial("untried", "latch")}},
      {"locks", kBad, {Without("tried"), Fact("library", "too old")}, {"too old"}},
  });
}

TEST(DoctorFindings, ChecksThatMessagesArrive) {
  const Change none = Without("message_took");
  const std::string limit = "client-output-buffer-limit";
  const auto backlogs = [](const Reply& clients) -> Change {
    return [clients](Facts& facts) {
      facts.texts.erase("connected");
      TakeSubscribers(clients, facts);
    };
  };
  const std::string small = "addr=10.0.0.7:1 name= omem=1000\n";
  const std::string large = "addr=10.0.0.8:1 name=billing omem=2097152\n";
  ExpectFound({
      {"messages", kBad, {none, Fact("silent", "1")}},
      {"messages", kBad, {none, Fact("message_denied", "1")}},
      {"messages", kUnchecked, {none}},
      {"buffers", kWarn, {Fact(limit, "normal 0 0 0 pubsub 65536 0 0")}},
      {"buffers", kOk, {Fact(limit, "pubsub 0 0 0")}},
      {"buffers", kUnchecked, {Fact(limit, "normal 0 0 0")}},
      {"buffers", kUnchecked, {Fact(limit, "pubsub")}},
      {"subscribers", kWarn, {backlogs(Text(small + large))}, {"1 do not read", "8:1 (billing)"}},
      {"subscribers", kOk, {backlogs(Text(small))}},
      {"subscribers", kUnchecked, {backlogs(Error("NOPERM"))}},
  });
}

TEST(DoctorFindings, GradesTheServersDelays) {
  const auto pings = [](std::vector<absl::Duration> each) -> Change {
    return [each](Facts& facts) { SetPings(each, facts); };
  };
  std::vector<absl::Duration> slow(100, absl::Milliseconds(20)), slower = slow;
  slower[7] = absl::Milliseconds(100);
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  const auto ago = [](int hours) { return Number(1'700'000'000 - 3600 * hours); };
  const auto keys_ago = [&](int hours) -> Change {
    return [=](Facts& facts) {
      const Reply keys = Array({Number(2), ago(hours), Number(3'000'000), Array({Text("KEYS")})});
      const Reply sort = Array({Number(1), ago(1), Number(50'000), Array({Text("SORT")})});
      TakeDelays("slow", Array({keys, sort}), now, facts);
    };
  };
  const auto fork_ago = [&](int hours) -> Change {
    return [=](Facts& facts) {
      const Reply fork = Array({Text("fork"), ago(hours), Number(7), Number(300)});
      TakeDelays("stall", Array({fork}), now, facts);
    };
  };
  ExpectFound({
      {"round trip", kNote, {pings(slow)}},
      {"round trip", kWarn, {pings(slower)}},
      {"round trip", kUnchecked, {Without("figures")}},
      {"lease", kNothing, {Without("ping_ms")}},
      // Delays older than a day do not count.
      {"slow log", kNote, {keys_ago(25)}, {"SORT, 50 ms"}},
      {"lease", kOk, {keys_ago(25)}, {"at least 1 s"}},
      {"slow log", kWarn, {keys_ago(23)}},
      {"lease", kWarn, {keys_ago(23)}},
      {"slow log", kUnchecked, {Without("slow")}},
      {"stalls", kWarn, {fork_ago(1)}},
      {"lease", kOk, {fork_ago(1)}, {"at least 10 s"}},
      {"stalls", kOk, {fork_ago(30)}},
      {"stalls", kUnchecked, {Fact("latency-monitor-threshold", "0")}},
      {"stalls", kUnchecked, {Without("stall")}},
  });
}

TEST(DoctorFindings, NoticesAClockThatJumpsOrDiffers) {
  const auto clock = [](absl::Duration step, absl::Duration answer, absl::Duration skew) -> Change {
    std::vector<ClockReading> readings = SteadyClock();
    readings[1].server += step;
    readings[1].received += answer;
    for (ClockReading& reading : readings) reading.here += skew;
    return [readings](Facts& facts) { SetClock(readings, facts); };
  };
  const absl::Duration none, step = absl::Milliseconds(200);
  ExpectFound({
      {"clock", kWarn, {clock(step, none, none)}, {"ahead"}},
      {"clock", kWarn, {clock(-absl::Seconds(60), none, none)}, {"back"}},
      {"clock", kOk, {clock(step, step, none)}},
      {"clock", kUnchecked, {Without("watched")}},
      {"clock", kNote, {clock(none, none, absl::Seconds(90))}, {"1.5 min behind"}},
  });
}

TEST(DoctorFindings, ReportsSettingsThatDisconnectClients) {
  const std::string threshold = "busy-reply-threshold";
  const Change local = Without("over_network"), open = Without("has_password");
  const Change old = Without("busy-reply-threshold");
  ExpectFound({
      {"connections", kWarn, {Fact("maxclients", "20")}, {"> CONFIG SET maxclients 1000 <"}},
      {"connections", kOk, {Fact("maxclients", "26")}},
      {"connections", kWarn, {Fact("connected_clients", "9001")}},
      {"connections", kNote, {Fact("rejected_connections", "1")}},
      {"password", kNothing, {}},
      {"password", kNote, {open}},
      {"password", kNothing, {open, local}},
      {"timeout", kNote, {Fact("timeout", "30")}},
      {"keepalive", kNote, {Fact("tcp-keepalive", "0")}},
      {"keepalive", kNothing, {Fact("tcp-keepalive", "0"), local}},
      {"clients", kNothing, {}},
      {"clients", kNote, {Fact("maxmemory-clients", "5%")}},
      {"events", kNothing, {}},
      {"events", kNote, {Fact("notify-keyspace-events", "KEA")}},
      {"scripts", kNote, {Fact(threshold, "0")}},
      {"scripts", kNote, {Fact(threshold, "60000")}},
      {"scripts", kUnchecked, {old}},
      {"scripts", kOk, {old, Fact("lua-time-limit", "5000")}},
  });
}

// Tests how the doctor reads a server's replies, which commands it sends, and what it prints.

TEST(DoctorAnswers, ParsesInfoAndConfig) {
  Facts facts;
  TakeInfo(Text("# Server\r\nrole:master\r\n\r\nmaster_host:::1\r\nserver_mode:cluster\r\n"),
           facts);
  TakeConfig(Array({Text("save"), Text(""), Text("Timeout"), Text("5")}), facts);
  EXPECT_EQ(facts.text("role"), "master");
  EXPECT_EQ(facts.text("master_host"), "::1");
  EXPECT_EQ(facts.text("redis_mode"), "cluster");
  EXPECT_TRUE(facts.has("save"));
  EXPECT_EQ(facts.text("timeout"), "5");
}

TEST(DoctorAnswers, RefusalIsNoAnswer) {
  const absl::Time now = absl::UnixEpoch();
  for (const Reply& reply : {Error("NOPERM no"), Number(1), Reply()}) {
    Facts facts;
    TakeInfo(reply, facts);
    TakeConfig(reply, facts);
    TakeDelays("slow", reply, now, facts);
    TakeSubscribers(reply, facts);
    for (const char* const told : {"info", "config", "slow", "connected"}) {
      EXPECT_FALSE(facts.has(told)) << told;
    }
    EXPECT_THAT(facts.text("info_why"), AnyOf("NOPERM no", "an answer of an unknown form"));
    EXPECT_FALSE(TimeAnswer(reply).ok());
  }
  Facts facts;
  TakeConfig(Array({}), facts);
  EXPECT_FALSE(facts.has("config"));
}

TEST(DoctorProbes, CoverEveryCommandOfTheScripts) {
  std::set<std::string> probed = {"info"};  // the doctor sends INFO anyway
  for (const ProbeWords& probe : ProbesOf("k", "c")) {
    probed.insert(probe.command.substr(0, probe.command.find('|')));
  }
  const std::regex call(R"(call\('([A-Z]+)')");
  int calls = 0;
  for (const LuaScript& script : lua::kAll) {
    if (script.name.starts_with("redisson")) continue;  // not every user needs these
    const std::string body(script.body);
    for (std::sregex_iterator at(body.begin(), body.end(), call); at != std::sregex_iterator();
         ++at) {
      ++calls;
      EXPECT_TRUE(probed.contains(absl::AsciiStrToLower((*at)[1].str())))
          << script.name << " calls " << (*at)[1];
    }
  }
  EXPECT_GT(calls, 100);
}

TEST(DoctorProbes, DistinguishMissingPermissions) {
  EXPECT_EQ(ProbeOutcome(Number(1)), kAllowed);
  const std::string old = "NOPERM this user has no permissions to ";
  const std::pair<std::string, std::string_view> outcomes[] = {
      {"WRONGTYPE Operation against a key", kAllowed},
      {old + "run the 'get' command", "command"},
      {old + "access one of the keys used as arguments", "key"},
      {old + "access one of the channels used as arguments", "channel"},
      // The wording of Redis 8 and Valkey 8.
      {"NOPERM User app has no permissions to run the 'get' command", "command"},
      {"NOPERM No permissions to access a key", "key"},
      {"NOPERM No permissions to access a channel", "channel"},
      {"ERR unknown command 'EVAL', with args beginning with: ", "unknown"}};
  for (const auto& [error, outcome] : outcomes) EXPECT_EQ(ProbeOutcome(Error(error)), outcome);
}

class DoctorReportWidth : public ::testing::TestWithParam<size_t> {};

TEST_P(DoctorReportWidth, WrapsLinesButNotCommands) {
  const std::string long_command = "ACL SETUSER app" + std::string(30, ' ') + std::string(60, '+');
  const std::string report =
      TextReport("redis://h",
                 {{.level = Level::kWarn,
                   .check = "persistence",
                   .found = std::string(12, 'a') + " and more words than one line has room for",
                   .fix = "do this, do that, and do not forget to do the other thing either",
                   .commands = {long_command}}},
                 false, GetParam());
  EXPECT_THAT(report, HasSubstr(long_command));
  EXPECT_THAT(report, HasSubstr("1 to change."));
  EXPECT_THAT(report, Not(HasSubstr("\033")));
  for (size_t at = 0; at < report.size();) {
    const size_t end = report.find('\n', at);
    const std::string line = report.substr(at, end - at);
    if (line.find("ACL SETUSER") == std::string::npos) {
      EXPECT_LE(line.size(), GetParam()) << line;
    }
    at = end + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Wide, DoctorReportWidth, ::testing::Values(40, 60, 80));

TEST(DoctorReport, SaysWhereLinesOfConfigurationBelong) {
  const Reply info = Text(absl::StrReplaceAll(kInfo.text, {{"aof_enabled:1", "aof_enabled:0"}}));
  const std::string setting = "A line such as \"appendonly yes\" is a setting";
  const Facts hosted = HealthyFacts(info, Error("NOPERM"));
  EXPECT_THAT(TextReport("redis://h", Diagnose(hosted), false, 1000), HasSubstr(setting));
  const Facts own = HealthyFacts(info);
  EXPECT_THAT(TextReport("redis://h", Diagnose(own), false, 1000),
              AllOf(HasSubstr("CONFIG SET appendonly yes"), Not(HasSubstr(setting))));
}

TEST(DoctorReport, EscapesControlCharacters) {
  const std::string report =
      TextReport("redis://h", {{.check = "slow log", .found = "\033[2J\xc2\x9b\xff\n"}}, false);
  EXPECT_THAT(report, HasSubstr("\\x1b[2J\\xc2\\x9b\\xff\\x0a"));
}

TEST(JsonTextTest, EscapesInvalidCharacters) {
  EXPECT_EQ(JsonText("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(JsonText("ä€😀"), "\"ä€😀\"");
  EXPECT_EQ(JsonText("\xff\xc0\x80\xed\xa0\x80z\xe2\x82"),
            "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"
            "\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Measures, HaveUnits) {
  EXPECT_EQ(ShortTime(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(ShortTime(absl::Nanoseconds(53'700)), "53.7 µs");
  EXPECT_EQ(ShortTime(absl::Nanoseconds(999'960)), "1 ms");
  EXPECT_EQ(ShortTime(absl::Microseconds(1250)), "1.25 ms");
  EXPECT_EQ(ShortTime(absl::Seconds(30)), "30 s");
  EXPECT_EQ(ShortTime(absl::Seconds(90)), "1.5 min");
  EXPECT_EQ(ShortTime(absl::Hours(48)), "2 days");
  EXPECT_EQ(ShortSize(920 << 10), "920 KiB");
  EXPECT_EQ(ShortSize(0), "0 bytes");
}

TEST(Measures, SpreadHasPercentilesByRank) {
  std::vector<absl::Duration> times;
  for (int i = 100; i >= 1; --i) times.push_back(absl::Milliseconds(i));
  const Spread spread = SpreadOf(times);
  EXPECT_EQ(spread.p50, absl::Milliseconds(50));
  EXPECT_EQ(spread.p99, absl::Milliseconds(99));
  EXPECT_EQ(spread.worst, absl::Milliseconds(100));
  EXPECT_EQ(SpreadOf({absl::Seconds(1)}).p99, absl::Seconds(1));
}

TEST(Measures, ShortestLeaseIsTwentyTimesTheWorst) {
  EXPECT_EQ(ShortestLease(absl::Microseconds(50)), absl::Seconds(1));
  EXPECT_EQ(ShortestLease(absl::Milliseconds(51)), absl::Seconds(2));
  EXPECT_EQ(ShortestLease(absl::Seconds(3)), absl::Seconds(60));
  EXPECT_EQ(ShortestLease(absl::Seconds(4)), absl::Minutes(2));
}

}  // namespace
}  // namespace redlatch::cli
