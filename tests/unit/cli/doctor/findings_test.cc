// What the doctor says of the server, its memory and its data.
#include "src/cli/term/outcome.h"
#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

using ::testing::Field;

TEST(DoctorFindings, HasNothingToSayOfAHealthyServer) {
  const std::vector<Finding> findings = Diagnose(HealthyFacts());
  EXPECT_THAT(findings,
              Each(AllOf(Field(&Finding::level, Level::kOk), Field(&Finding::mend, IsEmpty()),
                         Field(&Finding::commands, IsEmpty()))));
  EXPECT_EQ(DoctorExitCode(findings), 0);
}

TEST(DoctorFindings, CountsNothingAsCheckedThatNobodyAsked) {
  for (const Finding& finding : Diagnose(DoctorFacts())) {
    if (finding.check == "INFO") {
      EXPECT_EQ(finding.level, Level::kWarn);
    } else {
      EXPECT_EQ(finding.level, Level::kUnchecked) << finding.check << ": " << finding.found;
    }
  }
}

TEST(DoctorFindings, ExitsByTheWorst) {
  EXPECT_EQ(DoctorExitCode({}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = Level::kUnchecked}, {.level = Level::kOk}}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = Level::kNote}}), 0);
  EXPECT_EQ(DoctorExitCode({{.level = Level::kWarn}, {.level = Level::kNote}}), kNeedsChange);
  EXPECT_EQ(DoctorExitCode({{.level = Level::kBad}, {.level = Level::kWarn}}), kRefused);
}

TEST(DoctorFindings, WantsInfo) {
  DoctorFacts facts = HealthyFacts();
  facts.info = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "INFO").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "INFO").commands, ElementsAre("ACL SETUSER app +info"));
  for (const char* const check : {"version", "mode", "role", "uptime", "eviction", "memory",
                                  "persistence", "replicas", "connections"}) {
    EXPECT_EQ(Worst(facts, check).level, Level::kUnchecked) << check;
  }
}

TEST(DoctorFindings, WithoutConfigSaysWhatItCouldNotSeeAndNeverConfigSet) {
  DoctorFacts facts = With("maxmemory_policy", "allkeys-lru");
  (*facts.info)["used_memory"] = "950";
  facts.config = absl::FailedPreconditionError("ERR unknown command 'CONFIG'");
  for (const char* const check : {"failover", "buffers", "timeout", "scripts"}) {
    EXPECT_EQ(Worst(facts, check).level, Level::kUnchecked) << check;
  }
  EXPECT_EQ(Worst(facts, "persistence").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "eviction").commands, ElementsAre("maxmemory-policy noeviction"));
  for (const Finding& finding : Diagnose(facts)) {
    EXPECT_THAT(finding.commands, Each(Not(StartsWith("CONFIG"))));
  }
}

TEST(DoctorFindings, KnowsWhichServersHoldLocks) {
  EXPECT_EQ(Worst(With("redis_version", "6.2.7"), "version").level, Level::kBad);
  EXPECT_EQ(Worst(With("redis_version", "10.0.1"), "version").level, Level::kOk);
  EXPECT_EQ(Worst(With("valkey_version", "8.0.0"), "version").found, "Valkey 8.0.0");
  DoctorFacts silent = HealthyFacts();
  silent.info->erase("redis_version");
  EXPECT_EQ(Worst(silent, "version").level, Level::kBad);
  EXPECT_EQ(Worst(With("redis_mode", "cluster"), "mode").level, Level::kBad);
  EXPECT_EQ(Worst(With("redis_mode", "sentinel"), "mode").level, Level::kBad);
}

TEST(DoctorFindings, NamesThePrimaryOfAReplica) {
  DoctorFacts facts = With("role", "slave");
  (*facts.info)["master_host"] = "10.0.0.1";
  (*facts.info)["master_port"] = "6380";
  (*facts.info)["master_link_status"] = "up";
  EXPECT_EQ(Worst(facts, "role").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "role").found, HasSubstr("10.0.0.1:6380"));
  EXPECT_EQ(Worst(With("loading", "1"), "role").level, Level::kBad);
}

TEST(DoctorFindings, MentionsARestartAMomentAgo) {
  EXPECT_EQ(Worst(With("uptime_in_seconds", "29"), "uptime").level, Level::kNote);
  EXPECT_EQ(Worst(With("uptime_in_seconds", "30"), "uptime").level, Level::kOk);
}

TEST(DoctorFindings, RefusesEvictionWhereMemoryHasALimit) {
  DoctorFacts facts = With("maxmemory_policy", "allkeys-lru");
  EXPECT_EQ(Worst(facts, "eviction").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "eviction").commands,
              ElementsAre("CONFIG SET maxmemory-policy noeviction"));
  facts.eviction_allowed = true;
  EXPECT_EQ(Worst(facts, "eviction").level, Level::kWarn);
  facts.eviction_allowed = false;
  (*facts.info)["maxmemory"] = "0";
  EXPECT_EQ(Worst(facts, "eviction").level, Level::kWarn);
}

TEST(DoctorFindings, GradesHowFullMemoryIs) {
  EXPECT_EQ(Worst(With("used_memory", "749"), "memory").level, Level::kOk);
  EXPECT_EQ(Worst(With("used_memory", "750"), "memory").level, Level::kNote);
  EXPECT_EQ(Worst(With("used_memory", "900"), "memory").level, Level::kWarn);
  EXPECT_EQ(Worst(With("used_memory", "1000"), "memory").level, Level::kBad);
  EXPECT_THAT(Worst(With("used_memory", "1000"), "memory").commands,
              ElementsAre("CONFIG SET maxmemory 2000"));
  // Of the machine's memory where there is no limit: never out of it by a rule of Redis.
  DoctorFacts unlimited = With("maxmemory", "0");
  EXPECT_EQ(Worst(unlimited, "memory").level, Level::kOk);
  (*unlimited.info)["used_memory"] = "100000";
  EXPECT_EQ(Worst(unlimited, "memory").level, Level::kWarn);
  unlimited.info->erase("total_system_memory");
  EXPECT_EQ(Worst(unlimited, "memory").level, Level::kUnchecked);
}

TEST(DoctorFindings, MentionsKeysThatWereThrownAway) {
  EXPECT_FALSE(Mentions(With("evicted_keys", "0"), "evicted"));
  EXPECT_EQ(Worst(With("evicted_keys", "3"), "evicted").level, Level::kNote);
}

TEST(DoctorFindings, SaysWhatARestartForgets) {
  DoctorFacts facts = With("aof_enabled", "0");
  EXPECT_EQ(Worst(facts, "persistence").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "persistence").commands,
              ElementsAre("CONFIG SET appendonly yes", "CONFIG SET appendfsync always"));
  (*facts.config)["save"] = "";
  EXPECT_THAT(Worst(facts, "persistence").found, StartsWith("none"));
  (*facts.config)["save"] = "3600 1";
  EXPECT_THAT(Worst(facts, "persistence").found, StartsWith("snapshots only"));
  EXPECT_EQ(Worst(WithConfig("appendfsync", "everysec"), "persistence").level, Level::kNote);
  EXPECT_EQ(Worst(WithConfig("appendfsync", "no"), "persistence").level, Level::kWarn);
}

TEST(DoctorFindings, KnowsWhenTheServerTakesNoWrites) {
  EXPECT_FALSE(Mentions(HealthyFacts(), "disk"));
  EXPECT_EQ(Worst(With("aof_last_write_status", "err"), "disk").level, Level::kBad);
  EXPECT_EQ(Worst(With("aof_last_bgrewrite_status", "err"), "disk").level, Level::kWarn);
  DoctorFacts facts = With("rdb_last_bgsave_status", "err");
  EXPECT_EQ(Worst(facts, "disk").level, Level::kBad);
  (*facts.config)["stop-writes-on-bgsave-error"] = "no";
  EXPECT_EQ(Worst(facts, "disk").level, Level::kWarn);
}

TEST(DoctorFindings, LooksAtTheCertificate) {
  DoctorFacts facts = HealthyFacts();
  EXPECT_FALSE(Mentions(facts, "TLS"));
  facts.looked_at = absl::FromUnixSeconds(1'700'000'000);
  facts.certificate_until = facts.looked_at + absl::Hours(24 * 60);
  EXPECT_EQ(Worst(facts, "TLS").level, Level::kOk);
  facts.certificate_until = facts.looked_at + absl::Hours(24 * 5);
  EXPECT_EQ(Worst(facts, "TLS").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "TLS").found, HasSubstr("ends on 2023-11-19"));
}

DoctorFacts WithSentinels(int count) {
  DoctorFacts facts = HealthyFacts();
  for (int i = 1; i <= count; ++i) {
    facts.sentinels.push_back(
        {.address = absl::StrCat("10.0.1.", i, ":26379"),
         .names = "10.0.0.1:6379",
         .master =
             Fields{{"quorum", "2"}, {"flags", "master"}, {"down-after-milliseconds", "5000"}}});
  }
  return facts;
}

TEST(DoctorFindings, LooksAtWhatSentinelsSee) {
  EXPECT_FALSE(Mentions(HealthyFacts(), "sentinels"));
  DoctorFacts facts = WithSentinels(3);
  EXPECT_EQ(Worst(facts, "sentinels").level, Level::kOk);
  EXPECT_THAT(Worst(facts, "sentinels").found,
              AllOf(HasSubstr("all 3 name 10.0.0.1:6379"), HasSubstr("silent for 5 s")));
  facts.sentinels[2].names = "10.0.0.9:6379";
  EXPECT_EQ(Worst(facts, "sentinels").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "sentinels").found, HasSubstr("they disagree"));
  facts = WithSentinels(3);
  facts.sentinels[0].master = absl::UnavailableError("10.0.1.1:26379 is dead");
  EXPECT_EQ(Worst(facts, "sentinels").level, Level::kWarn);
  facts.sentinels[1].master = absl::UnavailableError("10.0.1.2:26379 is dead");
  EXPECT_EQ(Worst(facts, "sentinels").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "sentinels").found, HasSubstr("nobody would replace the primary"));
  EXPECT_EQ(Worst(WithSentinels(2), "sentinels").level, Level::kWarn);
  facts = WithSentinels(3);
  (*facts.sentinels[1].master)["quorum"] = "1";
  EXPECT_EQ(Worst(facts, "sentinels").level, Level::kWarn);
  facts = WithSentinels(3);
  (*facts.sentinels[1].master)["flags"] = "master,s_down";
  EXPECT_THAT(Worst(facts, "sentinels").found, HasSubstr("calls the primary master,s_down"));
}

TEST(DoctorFindings, SaysWhatIsPromised) {
  DoctorFacts facts = HealthyFacts();
  facts.quarantine = absl::ZeroDuration();
  EXPECT_EQ(Worst(facts, "promise").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "promise").mend, HasSubstr("replica_acks = 1"));
  facts = HealthyFacts();
  EXPECT_EQ(Worst(facts, "promise").level, Level::kOk);
  (*facts.config)["repl-backlog-ttl"] = "3600";
  EXPECT_THAT(Worst(facts, "quarantine").commands, ElementsAre("CONFIG SET repl-backlog-ttl 0"));
  (*facts.config)["min-replicas-to-write"] = "0";
  EXPECT_EQ(Worst(facts, "promise").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "promise").commands, ElementsAre("CONFIG SET min-replicas-to-write 1"));
  facts = WithConfig("min-replicas-max-lag", "0");  // which switches that off
  EXPECT_EQ(Worst(facts, "promise").level, Level::kNote);
  EXPECT_EQ(Worst(facts, "failover").level, Level::kWarn);
  facts = HealthyFacts();
  facts.info = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "quarantine").level, Level::kBad);
  facts = With("connected_slaves", "0");
  EXPECT_THAT(Worst(facts, "promise").found, HasSubstr("nothing replaces it"));
}

TEST(DoctorFindings, LooksAtEachReplica) {
  DoctorFacts facts = HealthyFacts();
  facts.replicas[0].state = "wait_bgsave";
  EXPECT_THAT(Worst(facts, "replicas").found, HasSubstr("10.0.0.2:6379 is not in sync"));
  facts = HealthyFacts();
  facts.replicas[0].lag = absl::Seconds(11);
  EXPECT_EQ(Worst(facts, "replicas").level, Level::kWarn);
  facts = HealthyFacts();
  facts.confirmation->replicas = 0;
  EXPECT_EQ(Worst(facts, "WAIT").level, Level::kWarn);
  facts.confirmation = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "WAIT").level, Level::kUnchecked);
}

TEST(DoctorFindings, WantsAPrimaryThatStopsWhenItIsCutOff) {
  DoctorFacts facts = WithConfig("min-replicas-to-write", "0");
  EXPECT_EQ(Worst(facts, "failover").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "failover").commands, Contains("CONFIG SET min-replicas-to-write 1"));
  // More than there are: nobody can lock.
  EXPECT_EQ(Worst(WithConfig("min-replicas-to-write", "2"), "failover").level, Level::kBad);
  facts = With("connected_slaves", "0");
  EXPECT_EQ(Worst(facts, "failover").level, Level::kBad);
  (*facts.config)["min-replicas-to-write"] = "0";
  EXPECT_FALSE(Mentions(facts, "failover"));
  EXPECT_EQ(Worst(facts, "replicas").level, Level::kNote);
}

TEST(DoctorFindings, SaysWhereAnEmbeddedServerIsAndThatItForgets) {
  DoctorFacts facts = With("aof_enabled", "0");
  facts.embedded =
      EmbeddedFacts{.directory = "/run/user/1000/redlatch", .server_pid = 17, .keeper_pid = 16};
  EXPECT_THAT(Worst(facts, "embedded").found, HasSubstr("/run/user/1000/redlatch"));
  EXPECT_THAT(Worst(facts, "keeper").found, HasSubstr("process 16 watches server 17"));
  EXPECT_EQ(Worst(facts, "persistence").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "persistence").found, HasSubstr("reboot"));
  EXPECT_FALSE(Mentions(facts, "replicas"));
  facts.embedded->keeper_pid = 0;
  EXPECT_EQ(Worst(facts, "keeper").level, Level::kUnchecked);
}

using Outcome = CommandProbe::Outcome;

TEST(DoctorFindings, NamesTheLineThatGrantsWhatIsMissing) {
  DoctorFacts facts = HealthyFacts();
  facts.probes[0].outcome = Outcome::kNoCommand;
  facts.probes[1].outcome = Outcome::kNoCommand;
  const Finding commands = Worst(facts, "permissions");
  EXPECT_EQ(commands.level, Level::kBad);
  EXPECT_EQ(commands.found, "user app may not get, zadd");
  EXPECT_THAT(commands.commands, ElementsAre("ACL SETUSER app +get +zadd"));

  facts = HealthyFacts();
  facts.probes[2].outcome = Outcome::kNoChannel;
  EXPECT_THAT(Worst(facts, "permissions").commands, ElementsAre("ACL SETUSER app &redlatch:*"));

  facts = HealthyFacts();
  facts.probes[0].outcome = Outcome::kNoKey;
  EXPECT_THAT(Worst(facts, "permissions").commands, ElementsAre("ACL SETUSER app ~*"));
  EXPECT_THAT(Worst(facts, "permissions").mend, HasSubstr("--prefix"));
  facts.prefix = "orders:";
  EXPECT_THAT(
      Worst(facts, "permissions").commands,
      ElementsAre("ACL SETUSER app ~orders:* ~redlatch:2:{orders:* ~redlatch:rw:{orders:*"));
}

TEST(DoctorFindings, OnlyMentionsWhatLocksDoWithout) {
  DoctorFacts facts = HealthyFacts();
  facts.probes.push_back({.command = "mget", .optional = true});
  EXPECT_FALSE(Mentions(facts, "names"));
  facts.probes.back().outcome = Outcome::kNoCommand;
  EXPECT_EQ(Worst(facts, "names").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "names").commands,
              ElementsAre("ACL SETUSER app +mget ~redlatch:client:*"));
  EXPECT_EQ(Worst(facts, "permissions").level, Level::kOk);
}

TEST(DoctorFindings, KnowsCommandsThatWereRenamed) {
  DoctorFacts facts = HealthyFacts();
  facts.probes[0].outcome = Outcome::kUnknownToServer;
  EXPECT_EQ(Worst(facts, "permissions").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "permissions").mend, HasSubstr("rename-command"));
}

TEST(DoctorFindings, CountsNoTrialAsPassedThatWasNotMade) {
  DoctorFacts facts = HealthyFacts();
  facts.trials.clear();
  EXPECT_EQ(Worst(facts, "locks").level, Level::kUnchecked);
  facts = HealthyFacts();
  facts.trials[1].outcome = absl::FailedPreconditionError("the key is something else");
  EXPECT_EQ(Worst(facts, "locks").level, Level::kBad);
  EXPECT_THAT(Worst(facts, "locks").found, HasSubstr("latch"));
  facts = HealthyFacts();
  facts.trials[1].outcome = absl::CancelledError("not tried");
  EXPECT_EQ(Worst(facts, "locks").level, Level::kUnchecked);
  facts = HealthyFacts();
  facts.library = absl::FailedPreconditionError("it is too old");
  EXPECT_EQ(Worst(facts, "locks").level, Level::kBad);
}

TEST(DoctorFindings, MentionsAServerThatAsksForNoPasswordOverTheNetwork) {
  DoctorFacts facts = HealthyFacts();
  EXPECT_FALSE(Mentions(facts, "password"));
  facts.has_password = false;
  EXPECT_EQ(Worst(facts, "password").level, Level::kNote);
  facts.over_network = false;
  EXPECT_FALSE(Mentions(facts, "password"));
}

TEST(DoctorFindings, WantsMessagesToArrive) {
  DoctorFacts facts = HealthyFacts();
  facts.message = absl::DeadlineExceededError("none came");
  EXPECT_EQ(Worst(facts, "messages").level, Level::kBad);
  facts.message = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "messages").level, Level::kBad);
  facts.message = absl::FailedPreconditionError("no second connection");
  EXPECT_EQ(Worst(facts, "messages").level, Level::kUnchecked);
}

TEST(DoctorFindings, WantsRoomForMessages) {
  const std::string name = "client-output-buffer-limit";
  EXPECT_EQ(Worst(WithConfig(name, "normal 0 0 0 pubsub 65536 0 0"), "buffers").level,
            Level::kWarn);
  EXPECT_EQ(Worst(WithConfig(name, "pubsub 0 0 0"), "buffers").level, Level::kOk);
  EXPECT_EQ(Worst(WithConfig(name, "normal 0 0 0"), "buffers").level, Level::kUnchecked);
  EXPECT_EQ(Worst(WithConfig(name, "pubsub"), "buffers").level, Level::kUnchecked);
}

TEST(DoctorFindings, NamesASubscriberThatDoesNotRead) {
  DoctorFacts facts = HealthyFacts();
  facts.pubsub_backlogs =
      std::vector<PubSubBacklog>{{.address = "10.0.0.7:1", .name = "", .bytes = 1000},
                                 {.address = "10.0.0.8:1", .name = "billing", .bytes = 2 << 20}};
  EXPECT_EQ(Worst(facts, "subscribers").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "subscribers").found, HasSubstr("1 do not read"));
  EXPECT_THAT(Worst(facts, "subscribers").found, HasSubstr("10.0.0.8:1 (billing)"));
  facts.pubsub_backlogs->pop_back();
  EXPECT_EQ(Worst(facts, "subscribers").level, Level::kOk);
  facts.pubsub_backlogs = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "subscribers").level, Level::kUnchecked);
}

TEST(DoctorFindings, GradesRoundTrips) {
  DoctorFacts facts = HealthyFacts();
  facts.pings = std::vector<absl::Duration>(100, absl::Milliseconds(20));
  EXPECT_EQ(Worst(facts, "round trip").level, Level::kNote);
  facts.pings[7] = absl::Milliseconds(100);
  EXPECT_EQ(Worst(facts, "round trip").level, Level::kWarn);
  facts.pings.clear();
  EXPECT_EQ(Worst(facts, "round trip").level, Level::kUnchecked);
  EXPECT_FALSE(Mentions(facts, "lease"));
}

TEST(DoctorFindings, ForgetsSlowCommandsAfterADay) {
  DoctorFacts facts = HealthyFacts();
  facts.slow_commands =
      std::vector<Delay>{{.what = "KEYS", .took = absl::Seconds(3), .ago = absl::Hours(25)},
                         {.what = "SORT", .took = absl::Milliseconds(50), .ago = absl::Hours(1)}};
  EXPECT_EQ(Worst(facts, "slow log").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "slow log").found, HasSubstr("SORT, 50 ms"));
  EXPECT_THAT(Worst(facts, "lease").found, HasSubstr("at least 1 s"));
  facts.slow_commands->at(0).ago = absl::Hours(23);
  EXPECT_EQ(Worst(facts, "slow log").level, Level::kWarn);
  EXPECT_EQ(Worst(facts, "lease").level, Level::kWarn);
  facts.slow_commands = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "slow log").level, Level::kUnchecked);
}

TEST(DoctorFindings, SaysWhatHasStalledTheServer) {
  DoctorFacts facts = HealthyFacts();
  facts.latency_spikes =
      std::vector<Delay>{{.what = "fork", .took = absl::Milliseconds(300), .ago = absl::Hours(1)}};
  EXPECT_EQ(Worst(facts, "stalls").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "lease").found, HasSubstr("at least 10 s"));
  facts.latency_spikes->at(0).ago = absl::Hours(30);
  EXPECT_EQ(Worst(facts, "stalls").level, Level::kOk);
  EXPECT_EQ(Worst(WithConfig("latency-monitor-threshold", "0"), "stalls").level, Level::kUnchecked);
  facts.latency_spikes = absl::PermissionDeniedError("NOPERM");
  EXPECT_EQ(Worst(facts, "stalls").level, Level::kUnchecked);
}

TEST(DoctorFindings, NoticesAClockThatIsStepped) {
  DoctorFacts facts = HealthyFacts();
  facts.clock[1].server += absl::Milliseconds(200);
  EXPECT_THAT(Worst(facts, "clock").found, HasSubstr("ahead"));
  EXPECT_EQ(Worst(facts, "clock").level, Level::kWarn);
  facts.clock[1].server -= absl::Seconds(60);
  EXPECT_THAT(Worst(facts, "clock").found, HasSubstr("back"));
  EXPECT_EQ(Worst(facts, "clock").level, Level::kWarn);
  // A slow answer explains it.
  facts = HealthyFacts();
  facts.clock[1].server += absl::Milliseconds(200);
  facts.clock[1].received += absl::Milliseconds(200);
  EXPECT_EQ(Worst(facts, "clock").level, Level::kOk);
  facts.clock.pop_back();
  EXPECT_EQ(Worst(facts, "clock").level, Level::kUnchecked);
}

TEST(DoctorFindings, MentionsClocksThatDiffer) {
  DoctorFacts facts = HealthyFacts();
  for (ClockReading& reading : facts.clock) reading.here += absl::Seconds(90);
  EXPECT_EQ(Worst(facts, "clock").level, Level::kNote);
  EXPECT_THAT(Worst(facts, "clock").found, HasSubstr("1.5 min behind"));
}

TEST(DoctorFindings, WarnsBeforeConnectionsRunOut) {
  DoctorFacts facts = With("maxclients", "20");
  EXPECT_EQ(Worst(facts, "connections").level, Level::kWarn);
  EXPECT_THAT(Worst(facts, "connections").commands, ElementsAre("CONFIG SET maxclients 1000"));
  (*facts.info)["maxclients"] = "26";
  EXPECT_EQ(Worst(facts, "connections").level, Level::kOk);
  EXPECT_EQ(Worst(With("connected_clients", "9001"), "connections").level, Level::kWarn);
  EXPECT_EQ(Worst(With("rejected_connections", "1"), "connections").level, Level::kNote);
}

TEST(DoctorFindings, MentionsSettingsThatCutClientsOff) {
  EXPECT_EQ(Worst(WithConfig("timeout", "30"), "timeout").level, Level::kNote);
  EXPECT_EQ(Worst(WithConfig("tcp-keepalive", "0"), "keepalive").level, Level::kNote);
  DoctorFacts local = WithConfig("tcp-keepalive", "0");
  local.over_network = false;
  EXPECT_FALSE(Mentions(local, "keepalive"));
  EXPECT_FALSE(Mentions(HealthyFacts(), "clients"));
  EXPECT_EQ(Worst(WithConfig("maxmemory-clients", "5%"), "clients").level, Level::kNote);
  EXPECT_FALSE(Mentions(HealthyFacts(), "events"));
  EXPECT_EQ(Worst(WithConfig("notify-keyspace-events", "KEA"), "events").level, Level::kNote);
}

TEST(DoctorFindings, WantsScriptsThatHangToBeToldOf) {
  EXPECT_EQ(Worst(WithConfig("busy-reply-threshold", "0"), "scripts").level, Level::kNote);
  EXPECT_EQ(Worst(WithConfig("busy-reply-threshold", "60000"), "scripts").level, Level::kNote);
  DoctorFacts old = HealthyFacts();
  old.config->erase("busy-reply-threshold");
  EXPECT_EQ(Worst(old, "scripts").level, Level::kUnchecked);
  (*old.config)["lua-time-limit"] = "5000";
  EXPECT_EQ(Worst(old, "scripts").level, Level::kOk);
}

}  // namespace
}  // namespace redlatch::cli
