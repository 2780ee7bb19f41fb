// Cached reads and writes: which ones a writer recalls, and in how many calls.

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

struct ReadWriteCached : ReadWriteScripts {
  void MakeReads(int count, char client) {
    server_->Do({"EVAL", kMakeReads, "1", Readers(), absl::StrCat(count), std::string(32, client)});
  }
  // The grants that are recalled on that channel.
  static std::multiset<std::string> Recalled(Inbox& inbox, const std::string& word = "wanted ") {
    std::multiset<std::string> grants;
    for (std::string message = inbox.Next(); !message.empty(); message = inbox.Next()) {
      EXPECT_THAT(message, StartsWith(word));
      const size_t begin = word.size();
      grants.insert(message.substr(begin, message.find(' ', begin) - begin));
    }
    return grants;
  }
  std::string Progress() { return server_->Text({"HGET", Waiters(), "calls"}); }
};

TEST_F(ReadWriteCached, WriterRecallsSixtyFourReadersPerCall) {
  Inbox inbox(*server_, Channel('a'));
  MakeReads(200, 'a');
  std::multiset<std::string> recalled;
  Request writer = Writer('b');
  for (const size_t so_far : {64, 128, 192}) {
    EXPECT_EQ(Outcome(writer), "queued");
    EXPECT_EQ(notes_, "look 1") << so_far;
    recalled.merge(Recalled(inbox));
    EXPECT_THAT(recalled, SizeIs(so_far));
    writer = Again(writer);
  }
  EXPECT_EQ(Said(Outcome(writer)), Noted("queued", ""));
  recalled.merge(Recalled(inbox));
  EXPECT_THAT(recalled, SizeIs(200));
  EXPECT_THAT(std::set<std::string>(recalled.begin(), recalled.end()), SizeIs(200)) << "none twice";
  EXPECT_EQ(Progress(), "");

  EXPECT_EQ(Outcome(Again(writer)), "queued");
  EXPECT_THAT(Recalled(inbox), SizeIs(64)) << "at its heartbeats from the first one on";
}

TEST_F(ReadWriteCached, SecondWriterRecallsNothing) {
  Inbox inbox(*server_, Channel('a')), first(*server_, Channel('b')),
      second(*server_, Channel('c'));
  EXPECT_EQ(Outcome(Cacheable(Reader('a'))), "granted");
  EXPECT_EQ(Outcome(Writer('b')), "queued");
  EXPECT_THAT(Recalled(inbox), SizeIs(1));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Outcome(Reader('d')), "queued");
  EXPECT_THAT(Recalled(inbox), SizeIs(0));
}

TEST_F(ReadWriteCached, ReaderRecallsWriter) {
  Inbox inbox(*server_, Channel('a'));
  Token(Cacheable(Writer('a')));
  for (const int attempt : {1, 2}) {
    Request reader = Reader('b');
    reader.attempt = attempt;
    EXPECT_EQ(Outcome(reader), "queued");
    EXPECT_THAT(Recalled(inbox), SizeIs(1)) << attempt;
  }
  EXPECT_EQ(Outcome(Recalling(Reader('c'))), "busy");
  EXPECT_THAT(Recalled(inbox, "tried "), SizeIs(1));
}

TEST_F(ReadWriteCached, RenewalTellsReaderItIsUnsubscribed) {
  const Request cached = Cacheable(Reader('a'));
  EXPECT_EQ(Outcome(cached), "granted");
  EXPECT_EQ(Said(Renew(cached)), Noted(kReading, "deaf"));
  Inbox inbox(*server_, Channel('a'));
  EXPECT_EQ(Said(Renew(cached)), Noted(kReading, ""));
}

}  // namespace
}  // namespace redlatch
