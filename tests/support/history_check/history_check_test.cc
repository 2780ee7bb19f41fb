// Tests that the checker finds violations. Each bad history here is a good one with one change.
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/resources.h"

namespace redlatch::history {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// `end`: the end of the observation; 0: the time of the last event.
std::vector<Violation> Judge(absl::string_view text, int64_t end = 0) {
  const support::TempDir directory;
  const std::string path = directory.path() + "/history";
  std::ofstream(path) << text;
  const auto history = ReadHistory({path});
  EXPECT_TRUE(history.ok()) << history.status();
  HistoryChecker checker;
  for (const HistoryEvent& event : history->events) checker.Add(event);
  checker.Finish(end);
  return checker.violations();
}

struct Change {
  const char* name;
  const char* good;
  const char* from;
  const char* to;
  Rule rule;
  const char* words;
};
class BadHistory : public ::testing::TestWithParam<Change> {};

TEST_P(BadHistory, IsFoundAndTheGoodOnePasses) {
  const Change& change = GetParam();
  EXPECT_THAT(Judge(change.good), IsEmpty());
  const std::string bad = absl::StrReplaceAll(change.good, {{change.from, change.to}});
  ASSERT_NE(bad, change.good);
  const std::vector<Violation> found = Judge(bad);
  ASSERT_FALSE(found.empty()) << bad;
  EXPECT_EQ(found[0].rule, change.rule) << found[0].words;
  EXPECT_THAT(found[0].words, HasSubstr(change.words));
}

constexpr char kTwoHolds[] =
    "1 a acquire object=o owner=A\n10 a ok token=1 until=30\n15 b acquire object=o owner=B\n"
    "20 a release\n21 b ok token=2\n25 a released\n30 b release\n";
constexpr char kLost[] =
    "1 a acquire object=o owner=A\n2 a ok\n9 a lost\n9 b acquire object=o owner=B\n10 b ok\n";
constexpr char kOneOwner[] =
    "1 a acquire object=o kind=reentrant owner=A\n5 a ok token=1\n"
    "6 b acquire object=o kind=reentrant owner=A\n8 b ok token=1\n9 a release\n";
constexpr char kRenewed[] =
    "1 a acquire object=o owner=A\n2 a ok token=1 until=10\n8 a until until=20\n"
    "9 b acquire object=o owner=B\n20 b ok token=2\n";
constexpr char kForced[] =
    "1 a acquire object=o owner=A\n2 a ok token=1\n3 b acquire object=o owner=B\n"
    "10 f force object=o\n12 b ok token=2\n13 f ok\n";
constexpr char kReaders[] =
    "1 w acquire object=o kind=write owner=W\n2 w ok\n3 w release\n"
    "4 r acquire object=o kind=read owner=R\n5 r ok\n"
    "6 s acquire object=o kind=read owner=S\n7 s ok\n8 r release\n9 s release\n"
    "10 x acquire object=o kind=write owner=X\n11 x ok\n";
constexpr char kPermits[] =
    "0 - semaphore object=o permits=3\n1 a acquire object=o kind=permits owner=A permits=2\n"
    "2 a ok until=20\n3 b acquire object=o kind=permits owner=B permits=1\n4 b ok until=30\n"
    "5 c acquire object=o kind=permits owner=C permits=2\n20 c ok until=40\n";
constexpr char kWaiting[] =
    "1 a acquire object=o owner=A\n2 a ok until=200\n100 b acquire object=o owner=B waits=yes\n"
    "150 - calm bound=700\n900 b ok until=910\n";

constexpr Change kChanges[] = {
    {"ReleasedLater", kTwoHolds, "20 a release", "22 a release", Rule::kExclusion,
     "two hold o: A (a, asked at 1, told at 10, token 1, until 30) and B (b, asked at 15"},
    {"NotReleased", kTwoHolds, "20 a release\n21 b ok token=2\n25 a released", "29 b ok",
     Rule::kExclusion, "two hold"},
    {"LostLater", kLost, "9 a lost", "11 a lost", Rule::kExclusion, "two hold"},
    {"TokenFalls", kTwoHolds, "token=1 ", "token=3 ", Rule::kTokens, "does not grow"},
    {"TokenTwice", kTwoHolds, "token=2", "token=1", Rule::kTokens, "does not grow"},
    {"TokenOfTwoAtOnce", kTwoHolds, "10 a ok token=1", "16 a ok token=2", Rule::kTokens, "for two"},
    {"OtherOwner", kOneOwner, "owner=A\n8 b ok token=1", "owner=B\n8 b ok token=2",
     Rule::kExclusion, "two hold"},
    {"TokenOfEndedHold", kOneOwner, "6 b", "5 a release\n5 a released\n6 b", Rule::kTokens, "grow"},
    {"NotReentrant", kOneOwner, "kind=reentrant", "kind=lock", Rule::kTokens, "does not grow"},
    {"RenewedHold", kRenewed, "20 b ok", "19 b ok", Rule::kExclusion, "until 20"},
    {"ValidAgain", kRenewed, "8 a until until=20", "21 a until until=22", Rule::kExclusion, "two"},
    {"ForcedElsewhere", kForced, "force object=o", "force object=p", Rule::kExclusion, "two hold"},
    {"ForcedLater", kForced, "10 f", "13 f", Rule::kExclusion, "two hold"},
    {"ForcedBefore", kForced, "10 f force object=o\n12 b ok token=2\n13 f ok",
     "0 f force object=o\n0 f ok\n12 b ok token=2", Rule::kExclusion, "two hold"},
    {"WriterAmongReaders", kReaders, "9 s release", "12 s release", Rule::kExclusion, "S (s,"},
    {"ReaderAtWriters", kReaders, "3 w release", "6 w release", Rule::kExclusion, "R (r,"},
    {"TooManyPermits", kPermits, "20 c ok", "19 c ok", Rule::kCapacity, "5 permits of o are held"},
    {"WaitsForFreeLock", kWaiting, "900 b", "901 b", Rule::kProgress, "free for 701 from 200"},
    {"WaitsInCalm", kWaiting, "150 - calm bound=700\n900 b", "250 - calm bound=650\n901 b",
     Rule::kProgress, "free for 651 from 250"},
    {"ReturnsTwice", kTwoHolds, "25 a released", "25 a ok", Rule::kFormat, "returns twice"},
    {"NeverBegan", kTwoHolds, "25 a released", "25 c released", Rule::kFormat, "has not begun"},
    {"NotDeclared", kPermits, "0 - semaphore object=o", "0 - semaphore object=p", Rule::kFormat,
     "not declared"},
};

std::string NameOf(const ::testing::TestParamInfo<Change>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(HistoryCheck, BadHistory, ::testing::ValuesIn(kChanges), NameOf);

TEST(HistoryCheck, FindsOverlapsBehindOthersOfTheSameOwner) {
  const auto found = Judge(
      "1 a acquire object=o owner=A\n1 b acquire object=o owner=B\n"
      "1 c acquire object=o owner=B\n10 a ok until=50\n20 b ok until=90\n30 c ok until=40\n");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[1].lines, ElementsAre(1, 3, 4, 6));
}

TEST(HistoryCheck, UnknownCallsAreNeitherCertainNorExcluded) {
  EXPECT_THAT(Judge("1 a acquire object=o owner=A\n2 a unknown\n3 b acquire object=o owner=B\n"
                    "4 b ok token=1\n5 c acquire object=o owner=C\n6 f force object=o\n"
                    "7 f unknown\n9 c ok token=2\n"),
              IsEmpty());
}

TEST(HistoryCheck, OwnerMayShareATokenWithAnUnknownCall) {
  const std::string shared =
      "1 a acquire object=o kind=reentrant owner=A\n2 b acquire object=o kind=reentrant owner=A\n"
      "3 a ok token=1\n4 b unknown\n5 a release\n6 a released\n"
      "7 c acquire object=o kind=reentrant owner=A\n8 c ok token=1\n";
  EXPECT_THAT(Judge(shared), IsEmpty());
  EXPECT_THAT(Judge(absl::StrReplaceAll(shared, {{"b unknown", "b failed"}})), SizeIs(1));
}

TEST(HistoryCheck, FindsACallThatWaitsAtTheEnd) {
  const std::string waiting = "0 - calm bound=5\n1 a acquire object=o waits=yes\n";
  EXPECT_THAT(Judge(waiting, 6), IsEmpty());
  EXPECT_THAT(Judge(waiting, 7), SizeIs(1));
  EXPECT_THAT(Judge(waiting + "6 - storm\n", 7), IsEmpty());
}

TEST(HistoryCheck, MergesFilesWithoutUnfinishedLines) {
  const support::TempDir directory;
  const std::vector<std::string> files = {directory.path() + "/1", directory.path() + "/2"};
  std::ofstream(files[0]) << "# the first\n5 a acquire object=o owner=A\n9 a ok tok";
  std::ofstream(files[1]) << "3 b acquire object=p waits=yes\n";
  const auto history = ReadHistory(files);
  ASSERT_TRUE(history.ok()) << history.status();
  ASSERT_THAT(history->events, SizeIs(2));
  EXPECT_EQ(history->events[0].call, "b");
  EXPECT_EQ(history->Words(history->events[1].line), files[0] + ":2: 5 a acquire object=o owner=A");
  EXPECT_EQ(ReadHistory({"/no/such/file"}).status().code(), absl::StatusCode::kNotFound);
}

TEST(HistoryCheck, WritesLinesThatItReads) {
  for (const char* const line :
       {"1 a acquire object=o kind=permits owner=A waits=yes permits=2", "2 a ok token=7 until=9",
        "3 - semaphore object=o permits=2", "5 - calm bound=7", "7 - storm"}) {
    const auto event = ParseLine(line);
    ASSERT_TRUE(event.ok()) << event.status();
    EXPECT_EQ(ToLine(*event), line);
  }
  for (const char* const line : {"1 a", "x a ok", "1 a sleeps", "1 a ok token=x", "1 a ok nothing",
                                 "1 a acquire kind=big", "1 a calm permits=1"}) {
    EXPECT_FALSE(ParseLine(line).ok()) << line;
  }
}

}  // namespace
}  // namespace redlatch::history
