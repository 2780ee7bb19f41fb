// What the doctor says of permissions, messages, times and limits.
#include "tests/unit/cli/doctor/fixture.h"

namespace redlatch::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
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
