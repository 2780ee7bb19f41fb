// What the doctor reads in a server's replies, asks it to find out, and prints.
#include "src/cli/doctor/answers.h"

#include <regex>

#include "absl/strings/ascii.h"
#include "lua/scripts.h"
#include "src/cli/doctor/probes.h"
#include "src/cli/doctor/report.h"
#include "src/cli/term/measures.h"
#include "src/cli/term/text.h"
#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

using redis::Reply;
using Type = redis::Reply::Type;
using Outcome = CommandProbe::Outcome;

Reply Text(const std::string& text) { return {.type = Type::kString, .text = text}; }
Reply Number(int64_t number) { return {.type = Type::kInteger, .integer = number}; }
Reply Error(const std::string& text) { return {.type = Type::kError, .text = text}; }
Reply Array(std::vector<Reply> elements) {
  return {.type = Type::kArray, .elements = std::move(elements)};
}

TEST(DoctorAnswers, TakesInfoApart) {
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

TEST(DoctorAnswers, TakesListsApart) {
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

TEST(DoctorAnswers, TakesARefusalForNoAnswer) {
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

TEST(DoctorProbes, TryEveryCommandThatAScriptCalls) {
  std::set<std::string> probed = {"info"};  // a look of its own says whether that is permitted
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

TEST(DoctorProbes, TellWhatIsMissing) {
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
  // As Redis 8 and Valkey 8 put it.
  EXPECT_EQ(ProbeOutcome(Error("NOPERM User app has no permissions to run the 'get' command")),
            Outcome::kNoCommand);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM No permissions to access a key")), Outcome::kNoKey);
  EXPECT_EQ(ProbeOutcome(Error("NOPERM No permissions to access a channel")), Outcome::kNoChannel);
  EXPECT_EQ(ProbeOutcome(Error("ERR unknown command 'EVAL', with args beginning with: ")),
            Outcome::kUnknownToServer);
}

class DoctorReportWidth : public ::testing::TestWithParam<size_t> {};

TEST_P(DoctorReportWidth, FitsLinesAndLeavesCommandsWhole) {
  const std::string long_command = "ACL SETUSER app" + std::string(30, ' ') + std::string(60, '+');
  const std::string report =
      TextReport("redis://h",
                 {{.level = Level::kWarn,
                   .check = "persistence",
                   .found = std::string(12, 'a') + " and more words than one line has room for",
                   .mend = "do this, do that, and do not forget to do the other thing either",
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

TEST(DoctorReport, LetsNoControlCharacterReachATerminal) {
  const std::string report =
      TextReport("redis://h", {{.check = "slow log", .found = "\033[2J\xc2\x9b\xff\n"}}, false);
  EXPECT_THAT(report, HasSubstr("\\x1b[2J\\xc2\\x9b\\xff\\x0a"));
}

TEST(JsonTextTest, EscapesWhatJsonDoesNotTake) {
  EXPECT_EQ(JsonText("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(JsonText("ä€😀"), "\"ä€😀\"");
  EXPECT_EQ(JsonText("\xff\xc0\x80\xed\xa0\x80z\xe2\x82"),
            "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz"
            "\xef\xbf\xbd\xef\xbf\xbd\"");
}

TEST(Measures, ReadLikeSpeech) {
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

TEST(Measures, TakeSpreadsByRank) {
  std::vector<absl::Duration> times;
  for (int i = 100; i >= 1; --i) times.push_back(absl::Milliseconds(i));
  const Spread spread = SpreadOf(times);
  EXPECT_EQ(spread.p50, absl::Milliseconds(50));
  EXPECT_EQ(spread.p99, absl::Milliseconds(99));
  EXPECT_EQ(spread.worst, absl::Milliseconds(100));
  EXPECT_EQ(SpreadOf({absl::Seconds(1)}).p99, absl::Seconds(1));
}

TEST(Measures, AdviseALeaseOfTwentyTimesTheWorst) {
  EXPECT_EQ(ShortestLease(absl::Microseconds(50)), absl::Seconds(1));
  EXPECT_EQ(ShortestLease(absl::Milliseconds(51)), absl::Seconds(2));
  EXPECT_EQ(ShortestLease(absl::Seconds(3)), absl::Seconds(60));
  EXPECT_EQ(ShortestLease(absl::Seconds(4)), absl::Minutes(2));
}

}  // namespace
}  // namespace redlatch::cli
