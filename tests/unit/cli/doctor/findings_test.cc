// Tests what the doctor finds from the facts about one server.
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
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
  for (const Finding& finding : Diagnose(DoctorFacts())) {
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
  DoctorFacts facts = HealthyFacts();
  facts.info = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "INFO").level, kWarn);
  EXPECT_THAT(Worst(facts, "INFO").commands, ElementsAre("ACL SETUSER app +info"));
  for (const char* const check : {"version", "mode", "role", "uptime", "eviction", "memory",
                                  "persistence", "replicas", "connections"}) {
    EXPECT_EQ(Worst(facts, check).level, kUnchecked) << check;
  }
}

TEST(DoctorFindings, NoFixUsesConfigSetWithoutConfig) {
  DoctorFacts facts = With("maxmemory_policy", "allkeys-lru");
  (*facts.info)["used_memory"] = "950";
  facts.config = absl::FailedPreconditionError("ERR unknown command 'CONFIG'");
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
using Change = std::function<void(DoctorFacts&)>;
struct Case {
  std::string_view check;
  std::optional<Level> level;
  std::vector<Change> changes;
  std::vector<std::string> says = {};
};

Change Info(std::string field, std::string value) {
  return [=](DoctorFacts& facts) { (*facts.info)[field] = value; };
}
Change Config(std::string name, std::string value) {
  return [=](DoctorFacts& facts) { (*facts.config)[name] = value; };
}

void ExpectFound(const std::vector<Case>& cases) {
  for (const Case& each : cases) {
    DoctorFacts facts = HealthyFacts();
    for (const Change& change : each.changes) change(facts);
    SCOPED_TRACE(absl::StrCat(std::string(each.check), ", case ", &each - cases.data()));
    EXPECT_EQ(Mentions(facts, each.check), each.level.has_value());
    if (!each.level) continue;
    const Finding worst = Worst(facts, each.check);
    EXPECT_EQ(worst.level, *each.level);
    const std::string said = absl::StrCat(worst.found, "\n", worst.fix, "\n> ",
                                          absl::StrJoin(worst.commands, " > "), " <");
    for (const std::string& text : each.says) EXPECT_THAT(said, HasSubstr(text));
  }
}

constexpr std::optional<Level> kNothing;
const absl::Status kDenied = absl::PermissionDeniedError("NOPERM");

TEST(DoctorFindings, RefusesServersThatCannotHoldLocks) {
  ExpectFound({
      {"version", kBad, {Info("redis_version", "6.2.7")}},
      {"version", kOk, {Info("redis_version", "10.0.1")}},
      {"version", kOk, {Info("valkey_version", "8.0.0")}, {"Valkey 8.0.0\n"}},
      {"version", kBad, {[](auto& facts) { facts.info->erase("redis_version"); }}},
      {"mode", kBad, {Info("redis_mode", "cluster")}},
      {"mode", kBad, {Info("redis_mode", "sentinel")}},
      {"role",
       kBad,
       {Info("role", "slave"), Info("master_host", "10.0.0.1"), Info("master_port", "6380"),
        Info("master_link_status", "up")},
       {"10.0.0.1:6380"}},
      {"role", kBad, {Info("loading", "1")}},
      {"uptime", kNote, {Info("uptime_in_seconds", "29")}},
      {"uptime", kOk, {Info("uptime_in_seconds", "30")}},
  });
}

TEST(DoctorFindings, RefusesEvictionAndGradesMemoryUse) {
  const Change evicts = Info("maxmemory_policy", "allkeys-lru"), no_limit = Info("maxmemory", "0");
  const Change full_machine = Info("used_memory", "100000");
  ExpectFound({
      {"eviction", kBad, {evicts}, {"> CONFIG SET maxmemory-policy noeviction <"}},
      {"eviction", kWarn, {evicts, [](auto& facts) { facts.eviction_allowed = true; }}},
      {"eviction", kWarn, {evicts, no_limit}},
      {"memory", kOk, {Info("used_memory", "749")}},
      {"memory", kNote, {Info("used_memory", "750")}},
      {"memory", kWarn, {Info("used_memory", "900")}},
      {"memory", kBad, {Info("used_memory", "1000")}, {"> CONFIG SET maxmemory 2000 <"}},
      // Without a limit it compares with the machine's memory; it is never full by a rule of Redis.
      {"memory", kOk, {no_limit}},
      {"memory", kWarn, {no_limit, full_machine}},
      {"memory",
       kUnchecked,
       {no_limit, full_machine, [](auto& facts) { facts.info->erase("total_system_memory"); }}},
      {"evicted", kNothing, {Info("evicted_keys", "0")}},
      {"evicted", kNote, {Info("evicted_keys", "3")}},
  });
}

TEST(DoctorFindings, GradesPersistenceAndDiskErrors) {
  const Change no_file = Info("aof_enabled", "0");
  const Change snapshot_fails = Info("rdb_last_bgsave_status", "err");
  ExpectFound({
      {"persistence",
       kWarn,
       {no_file},
       {"> CONFIG SET appendonly yes > CONFIG SET appendfsync always <"}},
      {"persistence", kWarn, {no_file, Config("save", "")}, {"none"}},
      {"persistence", kWarn, {no_file, Config("save", "3600 1")}, {"snapshots only"}},
      {"persistence", kNote, {Config("appendfsync", "everysec")}},
      {"persistence", kWarn, {Config("appendfsync", "no")}},
      {"disk", kNothing, {}},
      {"disk", kBad, {Info("aof_last_write_status", "err")}},
      {"disk", kWarn, {Info("aof_last_bgrewrite_status", "err")}},
      {"disk", kBad, {snapshot_fails}},
      {"disk", kWarn, {snapshot_fails, Config("stop-writes-on-bgsave-error", "no")}},
  });
}

TEST(DoctorFindings, ChecksTheCertificate) {
  const auto until = [](int days) -> Change {
    return [days](DoctorFacts& facts) {
      facts.checked_at = absl::FromUnixSeconds(1'700'000'000);
      facts.certificate_until = facts.checked_at + absl::Hours(24 * days);
    };
  };
  ExpectFound({{"TLS", kNothing, {}},
               {"TLS", kOk, {until(60)}},
               {"TLS", kWarn, {until(5)}, {"ends on 2023-11-19"}}});
}

TEST(DoctorFindings, ChecksTheSentinels) {
  const auto sentinels = [](int count) -> Change {
    return [count](DoctorFacts& facts) {
      for (int i = 1; i <= count; ++i) {
        facts.sentinels.push_back(
            {.address = absl::StrCat("10.0.1.", i, ":26379"),
             .names = "10.0.0.1:6379",
             .master = Fields{
                 {"quorum", "2"}, {"flags", "master"}, {"down-after-milliseconds", "5000"}}});
      }
    };
  };
  const auto dead = [](size_t i) -> Change {
    return [i](DoctorFacts& facts) { facts.sentinels[i].master = absl::UnavailableError("dead"); };
  };
  const auto says = [](std::string field, std::string value) -> Change {
    return [=](DoctorFacts& facts) { (*facts.sentinels[1].master)[field] = value; };
  };
  ExpectFound({
      {"sentinels", kNothing, {}},
      {"sentinels", kOk, {sentinels(3)}, {"all 3 name 10.0.0.1:6379", "silent for 5 s"}},
      {"sentinels",
       kBad,
       {sentinels(3), [](auto& facts) { facts.sentinels[2].names = "10.0.0.9:6379"; }},
       {"they disagree"}},
      {"sentinels", kWarn, {sentinels(3), dead(0)}},
      {"sentinels", kBad, {sentinels(3), dead(0), dead(1)}, {"nobody would replace the primary"}},
      {"sentinels", kWarn, {sentinels(2)}},
      {"sentinels", kWarn, {sentinels(3), says("quorum", "1")}},
      {"sentinels",
       kWarn,
       {sentinels(3), says("flags", "master,s_down")},
       {"calls the primary master,s_down"}},
  });
}

TEST(DoctorFindings, ChecksThePromiseAndEachReplica) {
  const std::string stop = "CONFIG SET min-replicas-to-write 1";
  const Change never_stops = Config("min-replicas-to-write", "0");
  const Change alone = Info("connected_slaves", "0");
  ExpectFound({
      {"promise",
       kNote,
       {[](auto& facts) { facts.quarantine = absl::ZeroDuration(); }},
       {"acks.replicas = 1"}},
      {"promise", kOk, {}},
      {"quarantine",
       kWarn,
       {Config("repl-backlog-ttl", "3600")},
       {"> CONFIG SET repl-backlog-ttl 0 <"}},
      {"quarantine", kBad, {[](auto& facts) { facts.info = kDenied; }}},
      {"promise", kNote, {never_stops}, {"> " + stop + " <"}},
      {"promise",
       kNote,
       {Config("min-replicas-max-lag", "0")}},  // 0 disables min-replicas-to-write
      {"failover", kWarn, {Config("min-replicas-max-lag", "0")}},
      {"promise", kNote, {alone}, {"nothing replaces it"}},
      {"replicas",
       kWarn,
       {[](auto& facts) { facts.replicas[0].state = "wait_bgsave"; }},
       {"10.0.0.2:6379 is not in sync"}},
      {"replicas", kWarn, {[](auto& facts) { facts.replicas[0].lag = absl::Seconds(11); }}},
      {"WAIT", kWarn, {[](auto& facts) { facts.confirmation->replicas = 0; }}},
      {"WAIT", kUnchecked, {[](auto& facts) { facts.confirmation = kDenied; }}},
      {"failover", kWarn, {never_stops}, {"> " + stop}},
      // It requires more replicas than there are: no lock can be taken.
      {"failover", kBad, {Config("min-replicas-to-write", "2")}},
      {"failover", kBad, {alone}},
      {"failover", kNothing, {alone, never_stops}},
      {"replicas", kNote, {alone, never_stops}},
  });
}

TEST(DoctorFindings, DescribesAnEmbeddedServer) {
  const auto embedded = [](int keeper) -> Change {
    return [keeper](DoctorFacts& facts) {
      (*facts.info)["aof_enabled"] = "0";
      facts.embedded = EmbeddedFacts{
          .directory = "/run/user/1000/redlatch", .server_pid = 17, .keeper_pid = keeper};
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
  using Outcome = CommandProbe::Outcome;
  const auto probe = [](size_t i, Outcome outcome) -> Change {
    return [=](DoctorFacts& facts) { facts.probes[i].outcome = outcome; };
  };
  const Change names = [](DoctorFacts& facts) {
    facts.probes.push_back({.command = "mget", .optional = true});
  };
  const auto trial = [](absl::Status outcome) -> Change {
    return [outcome](DoctorFacts& facts) { facts.trials[1].outcome = outcome; };
  };
  ExpectFound({
      {"permissions",
       kBad,
       {probe(0, Outcome::kNoCommand), probe(1, Outcome::kNoCommand)},
       {"user app may not get, zadd\n", "> ACL SETUSER app +get +zadd <"}},
      {"permissions", kBad, {probe(2, Outcome::kNoChannel)}, {"> ACL SETUSER app &redlatch:* <"}},
      {"permissions", kBad, {probe(0, Outcome::kNoKey)}, {"> ACL SETUSER app ~* <", "--prefix"}},
      {"permissions",
       kBad,
       {probe(0, Outcome::kNoKey), [](auto& facts) { facts.prefix = "orders:"; }},
       {"> ACL SETUSER app ~orders:* ~redlatch:2:{orders:* ~redlatch:rw:{orders:* <"}},
      {"permissions", kBad, {probe(0, Outcome::kUnknownToServer)}, {"rename-command"}},
      // Locks work without descriptions of clients.
      {"names", kNothing, {names}},
      {"names",
       kNote,
       {names, probe(3, Outcome::kNoCommand)},
       {"> ACL SETUSER app +mget ~redlatch:client:* <"}},
      {"permissions", kOk, {names, probe(3, Outcome::kNoCommand)}},
      // A trial that was not made does not count as passed.
      {"locks", kUnchecked, {[](auto& facts) { facts.trials.clear(); }}},
      {"locks", kBad, {trial(absl::FailedPreconditionError("else"))}, {"latch"}},
      {"locks", kUnchecked, {trial(absl::CancelledError("not tried"))}},
      {"locks", kBad, {[](auto& facts) {
         facts.library = absl::FailedPreconditionError("too old");
       }}},
  });
}

TEST(DoctorFindings, ChecksThatMessagesArrive) {
  const auto message = [](const absl::Status& outcome) -> Change {
    return [outcome](DoctorFacts& facts) { facts.message = outcome; };
  };
  const std::string limit = "client-output-buffer-limit";
  const auto backlogs = [](std::vector<PubSubBacklog> each) -> Change {
    return [each](DoctorFacts& facts) { facts.pubsub_backlogs = each; };
  };
  const PubSubBacklog small = {.address = "10.0.0.7:1", .name = "", .bytes = 1000};
  const PubSubBacklog large = {.address = "10.0.0.8:1", .name = "billing", .bytes = 2 << 20};
  ExpectFound({
      {"messages", kBad, {message(absl::DeadlineExceededError("none came"))}},
      {"messages", kBad, {message(kDenied)}},
      {"messages", kUnchecked, {message(absl::FailedPreconditionError("no second one"))}},
      {"buffers", kWarn, {Config(limit, "normal 0 0 0 pubsub 65536 0 0")}},
      {"buffers", kOk, {Config(limit, "pubsub 0 0 0")}},
      {"buffers", kUnchecked, {Config(limit, "normal 0 0 0")}},
      {"buffers", kUnchecked, {Config(limit, "pubsub")}},
      {"subscribers", kWarn, {backlogs({small, large})}, {"1 do not read", "10.0.0.8:1 (billing)"}},
      {"subscribers", kOk, {backlogs({small})}},
      {"subscribers", kUnchecked, {[](auto& facts) { facts.pubsub_backlogs = kDenied; }}},
  });
}

TEST(DoctorFindings, GradesTheServersDelays) {
  const auto pings = [](std::vector<absl::Duration> each) -> Change {
    return [each](DoctorFacts& facts) { facts.pings = each; };
  };
  std::vector<absl::Duration> slow(100, absl::Milliseconds(20)), slower = slow;
  slower[7] = absl::Milliseconds(100);
  const auto keys_ago = [](int hours) -> Change {
    return [hours](DoctorFacts& facts) {
      facts.slow_commands = std::vector<Delay>{
          {.what = "KEYS", .took = absl::Seconds(3), .ago = absl::Hours(hours)},
          {.what = "SORT", .took = absl::Milliseconds(50), .ago = absl::Hours(1)}};
    };
  };
  const auto fork_ago = [](int hours) -> Change {
    return [hours](DoctorFacts& facts) {
      facts.latency_spikes = std::vector<Delay>{
          {.what = "fork", .took = absl::Milliseconds(300), .ago = absl::Hours(hours)}};
    };
  };
  ExpectFound({
      {"round trip", kNote, {pings(slow)}},
      {"round trip", kWarn, {pings(slower)}},
      {"round trip", kUnchecked, {pings({})}},
      {"lease", kNothing, {pings({})}},
      // Delays older than a day do not count.
      {"slow log", kNote, {keys_ago(25)}, {"SORT, 50 ms"}},
      {"lease", kOk, {keys_ago(25)}, {"at least 1 s"}},
      {"slow log", kWarn, {keys_ago(23)}},
      {"lease", kWarn, {keys_ago(23)}},
      {"slow log", kUnchecked, {[](auto& facts) { facts.slow_commands = kDenied; }}},
      {"stalls", kWarn, {fork_ago(1)}},
      {"lease", kOk, {fork_ago(1)}, {"at least 10 s"}},
      {"stalls", kOk, {fork_ago(30)}},
      {"stalls", kUnchecked, {Config("latency-monitor-threshold", "0")}},
      {"stalls", kUnchecked, {[](auto& facts) { facts.latency_spikes = kDenied; }}},
  });
}

TEST(DoctorFindings, NoticesAClockThatJumpsOrDiffers) {
  const auto step = [](absl::Duration by) -> Change {
    return [by](DoctorFacts& facts) { facts.clock[1].server += by; };
  };
  const Change slow_answer = [](DoctorFacts& facts) {
    facts.clock[1].received += absl::Milliseconds(200);
  };
  const Change differs = [](DoctorFacts& facts) {
    for (ClockReading& reading : facts.clock) reading.here += absl::Seconds(90);
  };
  ExpectFound({
      {"clock", kWarn, {step(absl::Milliseconds(200))}, {"ahead"}},
      {"clock", kWarn, {step(-absl::Seconds(60))}, {"back"}},
      {"clock", kOk, {step(absl::Milliseconds(200)), slow_answer}},
      {"clock", kUnchecked, {[](auto& facts) { facts.clock.pop_back(); }}},
      {"clock", kNote, {differs}, {"1.5 min behind"}},
  });
}

TEST(DoctorFindings, ReportsSettingsThatDisconnectClients) {
  const std::string threshold = "busy-reply-threshold";
  const Change local = [](DoctorFacts& facts) { facts.over_network = false; };
  const Change open = [](DoctorFacts& facts) { facts.has_password = false; };
  const Change old = [](DoctorFacts& facts) { facts.config->erase("busy-reply-threshold"); };
  ExpectFound({
      {"connections", kWarn, {Info("maxclients", "20")}, {"> CONFIG SET maxclients 1000 <"}},
      {"connections", kOk, {Info("maxclients", "26")}},
      {"connections", kWarn, {Info("connected_clients", "9001")}},
      {"connections", kNote, {Info("rejected_connections", "1")}},
      {"password", kNothing, {}},
      {"password", kNote, {open}},
      {"password", kNothing, {open, local}},
      {"timeout", kNote, {Config("timeout", "30")}},
      {"keepalive", kNote, {Config("tcp-keepalive", "0")}},
      {"keepalive", kNothing, {Config("tcp-keepalive", "0"), local}},
      {"clients", kNothing, {}},
      {"clients", kNote, {Config("maxmemory-clients", "5%")}},
      {"events", kNothing, {}},
      {"events", kNote, {Config("notify-keyspace-events", "KEA")}},
      {"scripts", kNote, {Config(threshold, "0")}},
      {"scripts", kNote, {Config(threshold, "60000")}},
      {"scripts", kUnchecked, {old}},
      {"scripts", kOk, {old, Config("lua-time-limit", "5000")}},
  });
}

// Tests how the doctor reads a server's replies, which commands it sends, and what it prints.

using redis::Reply;
using Type = redis::Reply::Type;
using Outcome = CommandProbe::Outcome;

Reply Text(const std::string& text) { return {.type = Type::kString, .text = text}; }
Reply Number(int64_t number) { return {.type = Type::kInteger, .integer = number}; }
Reply Error(const std::string& text) { return {.type = Type::kError, .text = text}; }
Reply Array(std::vector<Reply> elements) {
  return {.type = Type::kArray, .elements = std::move(elements)};
}

TEST(DoctorAnswers, ParsesInfo) {
  const auto info =
      InfoAnswer(Text("# Server\r\nrole:master\r\n\r\nslave0:ip=::1,port=7,state=online,offset=1,"
                      "lag=2\r\nslave_read_only:1\r\n"));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->at("role"), "master");
  const std::vector<Replica> replicas = ReplicasIn(*info);
  ASSERT_EQ(replicas.size(), 1U);
  EXPECT_EQ(replicas[0].address, "::1:7");
  EXPECT_EQ(replicas[0].state, "online");
  EXPECT_EQ(replicas[0].lag, absl::Seconds(2));
}

TEST(DoctorAnswers, ParsesLists) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  const auto config = ConfigAnswer(Array({Text("save"), Text(""), Text("timeout"), Text("5")}));
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->at("timeout"), "5");
  const auto slow = SlowLogAnswer(
      Array({Array({Number(1), Number(990), Number(25000), Array({Text("KEYS"), Text("*")})})}),
      now);
  ASSERT_TRUE(slow.ok());
  ASSERT_EQ(slow->size(), 1U);
  EXPECT_EQ(slow->at(0).what, "KEYS");
  EXPECT_EQ(slow->at(0).took, absl::Milliseconds(25));
  EXPECT_EQ(slow->at(0).ago, absl::Seconds(10));
  const auto spikes =
      LatencyAnswer(Array({Array({Text("fork"), Number(900), Number(7), Number(70)})}), now);
  ASSERT_TRUE(spikes.ok());
  EXPECT_EQ(spikes->at(0).took, absl::Milliseconds(70));
  const auto clients = ClientListAnswer(
      Text("id=3 addr=1.2.3.4:5 name=a omem=17 cmd=subscribe\nid=4 addr=b name= omem=0\n"));
  ASSERT_TRUE(clients.ok());
  ASSERT_EQ(clients->size(), 2U);
  EXPECT_EQ(clients->at(0).bytes, 17);
  EXPECT_EQ(clients->at(0).name, "a");
}

TEST(DoctorAnswers, RefusalIsNoAnswer) {
  const absl::Time now = absl::UnixEpoch();
  for (const Reply& reply : {Error("NOPERM no"), Number(1), Reply()}) {
    EXPECT_FALSE(InfoAnswer(reply).ok());
    EXPECT_FALSE(ConfigAnswer(reply).ok());
    EXPECT_FALSE(SlowLogAnswer(reply, now).ok());
    EXPECT_FALSE(LatencyAnswer(reply, now).ok());
    EXPECT_FALSE(ClientListAnswer(reply).ok());
    EXPECT_FALSE(TimeAnswer(reply).ok());
  }
  EXPECT_FALSE(ConfigAnswer(Array({})).ok());
  EXPECT_TRUE(absl::IsPermissionDenied(InfoAnswer(Error("NOPERM no")).status()));
}

TEST(DoctorProbes, CoverEveryCommandOfTheScripts) {
  std::set<std::string> probed = {"info"};  // the doctor sends INFO anyway
  for (const ProbeWords& probe : ProbesOf("k", "c")) {
    probed.insert(probe.command.substr(0, probe.command.find('|')));
  }
  const std::regex call(R"(call\('([A-Z]+)')");
  int calls = 0;
  for (const LuaScript& script : lua::kAll) {
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
  EXPECT_EQ(ProbeOutcome(Number(1)), Outcome::kAllowed);
  EXPECT_EQ(ProbeOutcome(Error("WRONGTYPE Operation against a key")), Outcome::kAllowed);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM this user has no permissions to run the 'get' command")),
            Outcome::kNoCommand);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM this user has no permissions to access one of the keys "
                               "used as arguments")),
            Outcome::kNoKey);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM this user has no permissions to access one of the channels "
                               "used as arguments")),
            Outcome::kNoChannel);
  // The wording of Redis 8 and Valkey 8.
  EXPECT_EQ(ProbeOutcome(Error("NOPERM User app has no permissions to run the 'get' command")),
            Outcome::kNoCommand);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM No permissions to access a key")), Outcome::kNoKey);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM No permissions to access a channel")), Outcome::kNoChannel);
  EXPECT_EQ(ProbeOutcome(Error("ERR unknown command 'EVAL', with args beginning with: ")),
            Outcome::kUnknownToServer);
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
