// Reads and writes that their clients may keep: whom a writer calls, and in how many calls.

#include "tests/sim/lua/read_write/fixture.h"

namespace redlatch {
namespace {

// Makes ARGV[1] reads of the client ARGV[2], that end one after the other, in 30 s or later.
constexpr char kMakeReads[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  redis.call('ZADD', KEYS[1], string.format('%.0f', now + 30000000 + i), ARGV[2] .. ':' .. i .. 'k')
end
redis.call('PEXPIRE', KEYS[1], 60000)
)lua";

class ReadWriteKeepersTest : public ReadWriteScriptsTest {
 protected:
  void MakeReads(int count, char client) {
    server_->Do({"EVAL", kMakeReads, "1", Readers(), absl::StrCat(count), std::string(32, client)});
  }
  // The holds that are wanted, of those who hear there.
  static std::multiset<std::string> Wanted(Ear& ear, const std::string& word = "wanted ") {
    std::multiset<std::string> holds;
    for (std::string heard = ear.Hear(); !heard.empty(); heard = ear.Hear()) {
      EXPECT_THAT(heard, StartsWith(word));
      const size_t begin = word.size();
      holds.insert(heard.substr(begin, heard.find(' ', begin) - begin));
    }
    return holds;
  }
  std::string Calls() { return server_->Text({"HGET", Waiters(), "calls"}); }
};

TEST_F(ReadWriteKeepersTest, AWriterCallsEachReaderOnceSixtyFourAtATime) {
  Ear ear(*server_, Channel('a'));
  MakeReads(200, 'a');
  std::multiset<std::string> called;
  Request writer = Writer('b');
  for (const size_t so_far : {64, 128, 192}) {
    EXPECT_EQ(Outcome(writer), "queued");
    EXPECT_EQ(notes_, "look 1") << so_far;
    called.merge(Wanted(ear));
    EXPECT_THAT(called, SizeIs(so_far));
    writer = Again(writer);
  }
  EXPECT_EQ(Said(Outcome(writer)), Noted("queued", ""));
  called.merge(Wanted(ear));
  EXPECT_THAT(called, SizeIs(200));
  EXPECT_THAT(std::set<std::string>(called.begin(), called.end()), SizeIs(200)) << "none twice";
  EXPECT_EQ(Calls(), "");

  EXPECT_EQ(Outcome(Again(writer)), "queued");
  EXPECT_THAT(Wanted(ear), SizeIs(64)) << "at its heartbeats from the first one on";
}

TEST_F(ReadWriteKeepersTest, AWriterBehindAnotherCallsNobody) {
  Ear ear(*server_, Channel('a')), first(*server_, Channel('b')), second(*server_, Channel('c'));
  EXPECT_EQ(Outcome(Kept(Reader('a'))), "granted");
  EXPECT_EQ(Outcome(Writer('b')), "queued");
  EXPECT_THAT(Wanted(ear), SizeIs(1));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Outcome(Reader('d')), "queued");
  EXPECT_THAT(Wanted(ear), SizeIs(0));
}

TEST_F(ReadWriteKeepersTest, AReaderCallsAWriter) {
  Ear ear(*server_, Channel('a'));
  Token(Kept(Writer('a')));
  for (const int attempt : {1, 2}) {
    Request reader = Reader('b');
    reader.attempt = attempt;
    EXPECT_EQ(Outcome(reader), "queued");
    EXPECT_THAT(Wanted(ear), SizeIs(1)) << attempt;
  }
  EXPECT_EQ(Outcome(Calling(Reader('c'))), "busy");
  EXPECT_THAT(Wanted(ear, "tried "), SizeIs(1));
}

TEST_F(ReadWriteKeepersTest, ARenewalTellsAReaderThatItIsDeaf) {
  const Request kept = Kept(Reader('a'));
  EXPECT_EQ(Outcome(kept), "granted");
  EXPECT_EQ(Said(Renew(kept)), Noted(kReading, "deaf"));
  Ear ear(*server_, Channel('a'));
  EXPECT_EQ(Said(Renew(kept)), Noted(kReading, ""));
}

}  // namespace
}  // namespace redlatch
