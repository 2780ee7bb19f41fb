#include "src/cli/run/run.h"
#include "src/cli/term/command_line.h"
#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

const std::vector<std::string> kCommands = {"run", "ls", "inspect", "break", "capacity", "doctor"};
const std::vector<std::string> kOptions = {"--all", "--json", "--server", "--shared", "--wait"};

TEST(SuggestionTest, FindsMistypedAndAbbreviatedWords) {
  EXPECT_EQ(Suggestion("isnpect", kCommands), "inspect");  // swapped
  EXPECT_EQ(Suggestion("docter", kCommands), "doctor");    // replaced
  EXPECT_EQ(Suggestion("lss", kCommands), "ls");           // one too many
  EXPECT_EQ(Suggestion("brea", kCommands), "break");       // one missing
  EXPECT_EQ(Suggestion("rnu", kCommands), "run");
  EXPECT_EQ(Suggestion("brake", kCommands), "break");  // two wrong, of five
  EXPECT_EQ(Suggestion("--wiat", kOptions), "--wait");
  EXPECT_EQ(Suggestion("--severs", kOptions), "--server");
  EXPECT_EQ(Suggestion("insp", kCommands), "inspect");
  EXPECT_EQ(Suggestion("cap", kCommands), "capacity");
  EXPECT_EQ(Suggestion("--js", kOptions), "--json");
}

TEST(SuggestionTest, IsNoneIfNothingIsNear) {
  for (const char* const word : {"", "x", "status", "unlock", "-v", "--", "--x", "--verbose"}) {
    EXPECT_EQ(Suggestion(word, kCommands), "") << word;
    EXPECT_EQ(Suggestion(word, kOptions), "") << word;
  }
  EXPECT_EQ(Suggestion("ls", {}), "");
}

TEST(SuggestionTest, IsNoneIfTwoAreEquallyNear) {
  EXPECT_EQ(Suggestion("--s", {"--server", "--shared"}), "");
  EXPECT_EQ(Suggestion("--serve", {"--server", "--shared"}), "--server");
  EXPECT_EQ(Suggestion("cat", {"car", "bat", "cut"}), "");
}

TEST(SuggestionTest, DidYouMeanIsASentence) {
  EXPECT_EQ(DidYouMean("lss", kCommands), "; did you mean ls?");
  EXPECT_EQ(DidYouMean("status", kCommands), "");
}

LockInfo::Party Of(const std::string& host, int64_t pid, int64_t permits = 1) {
  LockInfo::Party party;
  party.hold = "0123456789abcdef0123456789abcdef:1";
  party.permits = permits;
  party.process = {.host = host, .pid = pid, .program = "worker"};
  return party;
}

LockInfo HeldBy(std::vector<LockInfo::Party> holders) {
  LockInfo info;
  info.holders = std::move(holders);
  info.holding = static_cast<int64_t>(info.holders.size());
  return info;
}

TEST(WaitWordsTest, NamesTheFirstHolderAndCountsTheOthers) {
  EXPECT_EQ(HoldersText(HeldBy({Of("web1", 4242)})), "held by worker (web1, pid 4242)");
  LockInfo run = HeldBy({Of("web1", 4242)});
  run.holders[0].process.program = "redlatch run: sleep";
  EXPECT_EQ(HoldersText(run), "held by sleep (run, web1, pid 4242)");
  LockInfo many = HeldBy({Of("web1", 1), Of("web2", 2)});
  many.holding = 2000;
  EXPECT_EQ(HoldersText(many), "held by worker (web1, pid 1) and 1999 more");
}

TEST(WaitWordsTest, CountsPermits) {
  LockInfo info = HeldBy({Of("web1", 1, 3), Of("web2", 2, 1)});
  info.capacity = info.used = 4;
  EXPECT_EQ(HoldersText(info), "4 of 4 permits taken, by worker (web1, pid 1) and 1 more");
}

TEST(WaitWordsTest, DescribesAnUnknownHolder) {
  LockInfo info = HeldBy({Of("", 0)});
  EXPECT_EQ(HoldersText(info), "held by client 01234567, process unknown");
  info.holders[0].hold = "cron\x1b";
  EXPECT_EQ(HoldersText(info), "held by \"cron\\x1b\", not by redlatch");
  EXPECT_EQ(HoldersText({}), "");
  info = {};
  info.waiting = 3;
  EXPECT_EQ(HoldersText(info), "3 in line for it");
}

TEST(WaitWordsTest, ShowsOwnPlaceInLine) {
  LockInfo info;
  info.waiters = {Of("web1", 7), Of("web2", 7), Of("web1", 8)};
  info.waiting = 3;
  const auto place = [&](const std::string& host, int64_t pid) {
    return PlaceText(info, {.host = host, .pid = pid, .program = ""});
  };
  EXPECT_EQ(place("web1", 7), "next in line");
  EXPECT_EQ(place("web2", 7), "1 ahead in line");
  EXPECT_EQ(place("web1", 8), "2 ahead in line");
  EXPECT_EQ(place("web3", 7), "3 in line") << "it is not among the listed waiters";
}

TEST(WaitWordsTest, RecognizesAnAncestorThatHasTheLock) {
  const LockInfo info = HeldBy({Of("web2", 10), Of("web1", 20)});
  EXPECT_EQ(HeldAbove(info, "web1", {5, 20, 30}, 1), &info.holders[1]);
  EXPECT_EQ(HeldAbove(info, "web1", {10, 30}, 1), nullptr) << "the process is on another host";
  EXPECT_EQ(HeldAbove(HeldBy({Of("web1", 0)}), "web1", {0}, 1), nullptr)
      << "the process is unknown";
}

TEST(WaitWordsTest, RecognizesAncestorsThatLeaveTooFewPermits) {
  LockInfo info = HeldBy({Of("web1", 10, 2), Of("web1", 20, 1), Of("web1", 30, 5)});
  info.capacity = info.used = 8;
  EXPECT_EQ(HeldAbove(info, "web1", {10, 20}, 5), nullptr) << "the third may return its five";
  EXPECT_NE(HeldAbove(info, "web1", {10, 20}, 6), nullptr);
}

}  // namespace
}  // namespace redlatch::cli
