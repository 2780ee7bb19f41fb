#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/redis/lock_scripts_fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

constexpr char kHeld[] = "[\"held\"]";
constexpr char kReading[] = "[\"held\", 0]";
constexpr char kLastReading[] = "[\"held\", 1]";
constexpr char kNotHeld[] = "[\"not_held\"]";
constexpr char kReleased[] = "[\"released\"]";
constexpr char kLeft[] = "[\"left\"]";
constexpr char kPassedOn[] = "[\"passed_on\"]";
constexpr char kUnknown[] = "[\"unknown\"]";
constexpr char kJob[] = "user:job 7";

class ReadWriteScriptsTest : public LockScriptsFixture {
 protected:
  ReadWriteScriptsTest()
      : LockScriptsFixture({.acquire = lua::kReadWriteAcquire,
                            .release = lua::kReadWriteRelease,
                            .renew = lua::kReadWriteRenew,
                            .cancel = lua::kReadWriteCancel,
                            .inspect = lua::kReadWriteInspect,
                            .force_release = lua::kReadWriteForceRelease}) {}

  const LockScripts& ScriptsFor(const Request& request) const override {
    return request.owner.starts_with("read:") || request.owner.starts_with("nest:") ? reading_
                                                                                    : scripts_;
  }
  std::vector<std::string> OwnKeys() const override { return {Readers(), Markers()}; }
  std::string Readers() const { return "{" + name_ + "}:readers"; }
  std::string Markers() const { return "{" + name_ + "}:write_wait"; }

  static Request Writer(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.more = {"writer_first"};
    return request;
  }
  static Request Fair(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.more = {"phase_fair"};
    return request;
  }
  // A request of that client for the explicit owner that several share.
  static Request Job(char client, int sequence = 1) {
    Request request = Writer(client, sequence);
    request.owner = kJob;
    return request;
  }
  static Request Reader(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = absl::StrCat("read:7:", request.owner);
    return request;
  }
  // A reader under that write hold.
  static Request Nest(const Request& writer, int sequence = 2) {
    Request request = Reader(writer.hold[0], sequence);
    request.owner = absl::StrCat("nest:7:", writer.hold);
    return request;
  }
  static Request Impatient(Request request) {
    request.wait = false;
    return request;
  }
  static Request For(int lease_ms, Request request) {
    request.lease_ms = lease_ms;
    return request;
  }
  static Request Beating(int heartbeat_ms, Request request) {
    request.heartbeat_ms = heartbeat_ms;
    return request;
  }

  std::string Count(const std::string& owner) { return server_->Text({"HGET", name_, owner}); }
  bool Writes(const std::string& hold) { return server_->Integer({"HEXISTS", name_, hold}) == 1; }
  std::vector<std::string> Members(const std::string& key) {
    std::vector<std::string> members;
    for (const redis::Reply& member : server_->Command({"ZRANGE", key, "0", "-1"}).elements) {
      members.push_back(member.text);
    }
    return members;
  }
  std::vector<std::string> Reading() { return Members(Readers()); }
  std::vector<std::string> Marked() { return Members(Markers()); }
  // In how many ms of server time a member's expiry comes.
  double Remaining(const std::string& key, const std::string& hold) {
    const redis::Reply time = server_->Command({"TIME"});
    const double now = std::stod(time.elements[0].text) * 1e6 + std::stod(time.elements[1].text);
    return (std::atof(server_->Text({"ZSCORE", key, hold}).c_str()) - now) / 1000;
  }
  void AwaitEnd(const std::string& key, const std::string& hold) {
    const base::Instant deadline = base::Now() + absl::Seconds(10);
    while (Remaining(key, hold) > 0 && base::Now() < deadline) {
    }
    ASSERT_LE(Remaining(key, hold), 0);
  }
  // As if so much time had passed since the waiter's last heartbeat.
  void MakeOverdue(const std::string& hold) {
    std::string record = server_->Text({"HGET", Waiters(), hold});
    record.replace(0, record.find(' '), "1000");
    server_->Command({"HSET", Waiters(), hold, record});
  }
  // The `granted` that a lone reader gets, with this token.
  static std::string Granted(int64_t token, int others = 0, int lease_ms = 30000) {
    return absl::StrCat("[\"granted\", ", token == 0 ? "0" : absl::StrCat("\"", token, "\""), ", ",
                        lease_ms, ", ", others, "]");
  }
  std::string GrantOf(const Request& request, int64_t token, int waiting) const {
    return absl::StrCat("grant ", request.hold, " ", request.attempt, " ", token, " ",
                        request.lease_ms, " ", waiting, " ", name_);
  }
  int64_t RetryAfter(const Request& request) {
    const redis::Reply reply = Ask(request);
    EXPECT_THAT(First(reply), ::testing::AnyOf("busy", "queued"));
    return reply.elements.size() < 2 ? -2 : reply.elements[1].integer;
  }

  const LockScripts reading_ = {.acquire = lua::kReadWriteAcquireRead,
                                .release = lua::kReadWriteReleaseRead,
                                .renew = lua::kReadWriteRenewRead,
                                .cancel = lua::kReadWriteCancelRead,
                                .inspect = lua::kReadWriteInspect,
                                .force_release = lua::kReadWriteForceRelease};
};

// One side alone.

TEST_F(ReadWriteScriptsTest, AFreeLockIsGrantedToAWriterAsAHashWithTheLeaseAsItsTtl) {
  for (int round = 0; round < 2; ++round) {  // the second finds a fence, and takes the short way
    const int64_t token = Token(Writer('a'));
    EXPECT_EQ(StoredFence(), token);
    EXPECT_EQ(server_->Text({"HGET", name_, "kind"}), "read_write");
    EXPECT_EQ(server_->Integer({"HLEN", name_}), 3);
    EXPECT_EQ(Count(Writer('a').owner), "1");
    EXPECT_THAT(server_->Text({"HGET", name_, Hold('a')}), HasSubstr(absl::StrCat(" ", token)));
    EXPECT_GT(Pttl(name_), 29000);
    EXPECT_LE(Pttl(name_), 30001);
    EXPECT_GT(Pttl(Fence()), 86000000);
    EXPECT_EQ(Release(Writer('a')), kReleased);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << "the fence";
  }
}

TEST_F(ReadWriteScriptsTest, AWriterWritesDownItsPolicy) {
  for (int round = 0; round < 2; ++round) {
    Token(Fair('a'));
    EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
    EXPECT_EQ(Count(Fair('a').owner), "1");
    EXPECT_EQ(Release(Fair('a')), kReleased);
    EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  }
}

TEST_F(ReadWriteScriptsTest, ARepeatedAcquireIsOneHoldWithItsToken) {
  Request request = Writer('a');
  request.block = 8;
  const int64_t token = Token(request);
  EXPECT_EQ(Acquire(request), Granted(token));
  EXPECT_EQ(Count(request.owner), "1");
  EXPECT_EQ(StoredFence(), token + 7);
  EXPECT_EQ(Release(request, token, token + 7), kReleased);
  EXPECT_EQ(StoredFence(), token);
  EXPECT_EQ(Release(request), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, AWriterThatHasTheLockIsLetInAtOnceWithTokensOfItsOwn) {
  Ear ear(*server_, Channel('c'));
  const int64_t first = Token(Job('a'));
  Ask(Writer('c'));
  const int64_t second = Token(Job('b'));
  EXPECT_GT(second, first) << "past the queue";
  EXPECT_EQ(Token(Job('a')), first);
  EXPECT_EQ(Count(kJob), "2");
  EXPECT_EQ(Release(Job('a')), kReleased);
  EXPECT_EQ(Release(Job('a')), kNotHeld);
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Release(Job('b')), kReleased);
  EXPECT_THAT(ear.Hear(), StartsWith("grant " + Hold('c')));
  EXPECT_EQ(Count(Writer('c').owner), "1");
  EXPECT_EQ(Count(kJob), "");
}

TEST_F(ReadWriteScriptsTest, AWriteHoldIsRenewedAndNeverShortened) {
  Token(For(5000, Writer('a')));
  EXPECT_EQ(Renew(For(20000, Writer('a'))), kHeld);
  EXPECT_GT(Pttl(name_), 19000);
  EXPECT_EQ(Renew(For(1000, Writer('a'))), kHeld);
  EXPECT_GT(Pttl(name_), 19000);
  EXPECT_EQ(Renew(Writer('b')), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, ReadersShareTheLockEachWithAnExpiryOfItsOwn) {
  EXPECT_EQ(Acquire(Reader('a')), Granted(0));
  EXPECT_EQ(Acquire(For(5000, Reader('b'))), Granted(0, 0, 5000));
  EXPECT_EQ(Acquire(For(60000, Reader('c'))), Granted(0, 0, 60000));
  EXPECT_THAT(Reading(), ElementsAre(Hold('b'), Hold('a'), Hold('c')));
  EXPECT_NEAR(Remaining(Readers(), Hold('b')), 4500, 500);
  EXPECT_NEAR(Remaining(Readers(), Hold('a')), 29500, 500);
  EXPECT_GT(Pttl(Readers()), 59000);
  for (const char reader : {'a', 'b', 'c'}) EXPECT_EQ(Release(Reader(reader)), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, AShorterReadDoesNotShortenTheKey) {
  Ask(Reader('a'));
  Ask(For(1000, Reader('b')));
  EXPECT_GT(Pttl(Readers()), 29000);
  Ask(For(1000, Reader('b')));
  Renew(For(1000, Reader('b')));
  EXPECT_GT(Pttl(Readers()), 29000);
  Ask(Beating(20, Reader('c')));
  EXPECT_GT(Pttl(Readers()), 29000);
}

TEST_F(ReadWriteScriptsTest, AReadersTokenIsTheLastWritesAndTheFenceStays) {
  const int64_t token = Token(Writer('a'));
  Release(Writer('a'));
  EXPECT_EQ(Acquire(Reader('b')), Granted(token));
  EXPECT_EQ(Acquire(Reader('c')), Granted(token));
  EXPECT_EQ(Acquire(Reader('c')), Granted(token)) << "a repeat";
  EXPECT_EQ(Release(Reader('b'), token - 5, token), kReleased);
  EXPECT_EQ(Cancel(Reader('c')), kPassedOn);
  EXPECT_EQ(StoredFence(), token);
  EXPECT_GT(Token(Writer('a', 2)), token);
}

TEST_F(ReadWriteScriptsTest, ARepeatedReadIsReArmedAndNeverShortened) {
  Ask(For(5000, Reader('a')));
  EXPECT_EQ(Acquire(For(20000, Reader('a'))), Granted(0, 0, 20000));
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Ask(For(1000, Reader('a'))).elements[2].integer, 19000);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Pttl(Readers()), 19000);
  EXPECT_EQ(Reading().size(), 1);
}

TEST_F(ReadWriteScriptsTest, AManualReadIsNotExtendedByARepeat) {
  Request request = For(5000, Reader('a'));
  request.manual = true;
  Ask(request);
  request.lease_ms = 60000;
  EXPECT_LE(Ask(request).elements[2].integer, 5000);
  EXPECT_LE(Remaining(Readers(), Hold('a')), 5000);
}

TEST_F(ReadWriteScriptsTest, AReadIsRenewedAndNeverShortened) {
  Ask(For(5000, Reader('a')));
  EXPECT_EQ(Renew(For(20000, Reader('a'))), kReading);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_GT(Pttl(Readers()), 19000);
  EXPECT_EQ(Renew(For(1000, Reader('a'))), kReading);
  EXPECT_GT(Remaining(Readers(), Hold('a')), 19000);
  EXPECT_EQ(Renew(Reader('b')), kNotHeld);
}

TEST_F(ReadWriteScriptsTest, ACrashedReaderExpiresAloneWhileOthersRenew) {
  Ask(For(30, Reader('a')));
  Ask(Reader('b'));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  AwaitEnd(Readers(), Hold('a'));
  EXPECT_EQ(Release(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('a')), kNotHeld);
  EXPECT_EQ(Renew(Reader('b')), kLastReading);
  EXPECT_THAT(Reading(), ElementsAre(Hold('b')));
  EXPECT_EQ(Outcome(Writer('c')), "queued");
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(Outcome(Writer('c')), "granted");
}

TEST_F(ReadWriteScriptsTest, ReadersThatExpiredAreRemovedByWhoeverReadsNext) {
  for (int way = 0; way < 3; ++way) {
    Ask(Reader('b', 10 + way));
    Ask(For(10, Reader('a', 10 + way)));
    AwaitEnd(Readers(), Hold('a', 10 + way));
    if (way == 0) Ask(Reader('c'));
    if (way == 1) Renew(Reader('c'));
    if (way == 2) Cancel(Reader('c'));
    EXPECT_THAT(Reading(), Not(::testing::Contains(Hold('a', 10 + way)))) << way;
  }
}

TEST_F(ReadWriteScriptsTest, AnExpiredReadIsAcquiredAnew) {
  Ask(Reader('b'));
  Ask(For(10, Reader('a')));
  AwaitEnd(Readers(), Hold('a'));
  EXPECT_EQ(Acquire(Reader('a')), Granted(0));
  EXPECT_GT(Remaining(Readers(), Hold('a')), 29000);
}

// Writers and readers.

TEST_F(ReadWriteScriptsTest, AWriterWaitsForTheLastReaderWhoHandsOver) {
  Ear ear(*server_, Channel('c'));
  Ask(For(5000, Reader('a')));
  Ask(Reader('b'));
  const int64_t retry_after_ms = RetryAfter(Writer('c'));
  EXPECT_GT(retry_after_ms, 4000);
  EXPECT_LE(retry_after_ms, 5000);
  Ask(Writer('d'));
  EXPECT_EQ(Release(Reader('b')), kReleased);
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_EQ(ear.Hear(), GrantOf(Writer('c'), StoredFence(), 1));
  EXPECT_EQ(Count(Writer('c').owner), "1");
  EXPECT_GT(Pttl(name_), 29000);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d')));
  EXPECT_THAT(Marked(), ElementsAre(Hold('d')));
}

TEST_F(ReadWriteScriptsTest, AWriterGetsInWhenTheLastReaderHasExpired) {
  Ask(For(20, Reader('a')));
  EXPECT_LE(RetryAfter(Writer('c')), 20);
  AwaitExpiry(Readers());
  EXPECT_EQ(Outcome(Writer('c')), "granted");
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Marked(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, TheEndOfAWriteWakesAllReadersInOneScriptEachWithItsGrant) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  const int64_t token = Token(Writer('a'));
  Request second = For(60000, Reader('c'));
  second.attempt = 4;
  const int64_t retry_after_ms = RetryAfter(Reader('b'));
  EXPECT_GT(retry_after_ms, 29000);
  EXPECT_LE(retry_after_ms, 30000);
  EXPECT_EQ(Ask(second).elements[2].integer, 1) << "its position";
  Ask(Reader('d'));
  Ask(Reader('e'));
  EXPECT_EQ(Release(Writer('a')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), token, 0));
  EXPECT_EQ(c.Hear(), GrantOf(second, token, 0));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), token, 0));
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('b'), Hold('c'), Hold('d')));
  EXPECT_GT(Pttl(Readers()), 59000);
  EXPECT_THAT(Waiting(), IsEmpty()) << "the one without a subscriber is passed over";
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
  EXPECT_EQ(StoredFence(), token);
}

TEST_F(ReadWriteScriptsTest, ANewReaderQueuesBehindAMarkerAndThoseInsideFinish) {
  Ear b(*server_, Channel('b'));
  EXPECT_EQ(Renew(Reader('a')), kNotHeld);
  Ask(Reader('a'));
  EXPECT_EQ(Renew(Reader('a')), kReading);
  Ask(Writer('b'));
  EXPECT_EQ(Renew(Reader('a')), kLastReading);
  EXPECT_EQ(Acquire(Reader('a')), Granted(0, 1)) << "a repeat";
  const int64_t retry_after_ms = RetryAfter(Reader('c'));
  EXPECT_GT(retry_after_ms, 29000) << "the marker's end";
  EXPECT_LE(retry_after_ms, 30000);
  EXPECT_GT(RetryAfter(Impatient(Reader('d'))), 29000);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c')));
  EXPECT_THAT(Reading(), ElementsAre(Hold('a')));
}

TEST_F(ReadWriteScriptsTest, AMarkerLivesThreeHeartbeatsAndIsRefreshedByEach) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Ask(Beating(1000, Writer('b')));
  EXPECT_NEAR(Remaining(Markers(), Hold('b')), 2500, 500);
  EXPECT_GT(Pttl(Markers()), 2000);
  EXPECT_LE(Pttl(Markers()), 3000);
  Ask(Beating(2000, Writer('b')));
  EXPECT_NEAR(Remaining(Markers(), Hold('b')), 5500, 500);
  Ask(Beating(500, Writer('c')));
  EXPECT_GT(Pttl(Markers()), 5000) << "shortened by another's";
  EXPECT_THAT(Marked(), ElementsAre(Hold('c'), Hold('b')));
  EXPECT_EQ(Cancel(Writer('b')), kLeft);
  EXPECT_THAT(Marked(), ElementsAre(Hold('c')));
  EXPECT_EQ(Release(Writer('c')), kNotHeld);
  EXPECT_THAT(Marked(), IsEmpty());
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, AReaderDoesNotLeaveAMarker) {
  Token(Writer('a'));
  Ask(Reader('b'));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b')));
  EXPECT_THAT(Marked(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, ReadersGoOnWhereTheMarkersHaveExpired) {
  Ear b(*server_, Channel('b')), d(*server_, Channel('d'));
  Ask(Reader('a'));
  Ask(Beating(20, Writer('b')));
  EXPECT_LE(RetryAfter(Reader('c')), 60);
  Ask(Reader('d'));
  AwaitExpiry(Markers());
  EXPECT_EQ(Acquire(Reader('c')), Granted(0));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), 0, 0)) << "for everybody, whoever asks";
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a'), Hold('c'), Hold('d')));
  EXPECT_EQ(b.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, AnImpatientReaderGetsInWhereTheMarkersHaveExpired) {
  Ear b(*server_, Channel('b'));
  Ask(Reader('a'));
  Ask(Beating(20, Writer('b')));
  // Keeps the queue.
  Ask(Writer('e'));
  Cancel(Writer('e'));
  AwaitEnd(Markers(), Hold('b'));
  EXPECT_EQ(Acquire(Impatient(Reader('c'))), Granted(0));
}

TEST_F(ReadWriteScriptsTest, ADeadWriterHoldsNobodyBackThoughItsMarkerLives) {
  Ear e(*server_, Channel('e'));
  Ask(Reader('a'));
  Ask(Writer('b'));  // nobody listens there
  EXPECT_EQ(Acquire(Impatient(Reader('c'))), Granted(0));
  EXPECT_THAT(Marked(), IsEmpty());
  EXPECT_THAT(Waiting(), IsEmpty());
  Ask(Writer('b', 2));
  EXPECT_EQ(Outcome(Writer('e')), "queued");
  EXPECT_EQ(Outcome(Reader('d')), "queued") << "the other writer lives";
  Cancel(Writer('e'));
  EXPECT_THAT(Marked(), IsEmpty());
  EXPECT_EQ(Outcome(Reader('d')), "granted");
}

TEST_F(ReadWriteScriptsTest, ADeadWriterIsPassedOverAndReturnsToItsTicket) {
  Ear c(*server_, Channel('c'));
  Token(Writer('a'));
  Request dead = Writer('b');
  dead.ticket = Ask(dead).elements[3].text;
  Ask(Writer('c'));
  Release(Writer('a'));
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 0));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Marked(), IsEmpty());
  Ask(Writer('d'));
  EXPECT_EQ(Ask(dead).elements[2].integer, 0);
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('d')));
  EXPECT_THAT(Marked(), UnorderedElementsAre(Hold('b'), Hold('d')));
}

TEST_F(ReadWriteScriptsTest, TheLastReaderPassesADeadWriterOver) {
  Ear c(*server_, Channel('c')), d(*server_, Channel('d'));
  Ask(Reader('a'));
  auto b = std::make_unique<Ear>(*server_, Channel('b'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b'), Hold('c'), Hold('d')));
  b.reset();
  // The server may not have seen the end of that connection yet.
  const base::Instant deadline = base::Now() + absl::Seconds(10);
  while (server_->Command({"PUBSUB", "NUMSUB", Channel('b')}).elements[1].integer > 0 &&
         base::Now() < deadline) {
  }
  EXPECT_EQ(Release(Reader('a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), 0, 0));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), 0, 0));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Marked(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, TheCancelOfTheLastWaitingWriterLetsReadersIn) {
  Ear d(*server_, Channel('d')), b(*server_, Channel('b'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Writer('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Cancel(Writer('c')), kLeft);
  EXPECT_EQ(d.Hear(), "");
  EXPECT_EQ(Cancel(Writer('b')), kLeft);
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), 0, 0));
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a'), Hold('d')));
  EXPECT_EQ(Cancel(Writer('b')), kUnknown);
}

TEST_F(ReadWriteScriptsTest, AReaderThatWaitsLeavesWithoutATrace) {
  Token(Writer('a'));
  Ask(Reader('b'));
  EXPECT_EQ(Cancel(Reader('b')), kLeft);
  EXPECT_EQ(Cancel(Reader('b')), kUnknown);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, ACancelOfTheLastReadOrWriteHandsOver) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  EXPECT_EQ(Cancel(Reader('a')), kPassedOn);
  EXPECT_EQ(b.Hear(), GrantOf(Writer('b'), StoredFence(), 1));
  Request block = Writer('b');
  block.block = 1;
  EXPECT_EQ(Cancel(block), kPassedOn);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), StoredFence(), 0));
}

TEST_F(ReadWriteScriptsTest, ACancelGivesTheWholeBlockBack) {
  Request request = Writer('a');
  request.block = 10;
  const int64_t token = Token(request);
  EXPECT_EQ(StoredFence(), token + 9);
  EXPECT_EQ(Cancel(request), kPassedOn);
  EXPECT_EQ(StoredFence(), token - 1);
}

TEST_F(ReadWriteScriptsTest, WritersGoBeforeReadersThatCameEarlier) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Reader('b'));
  Ask(Writer('c'));
  Release(Writer('a'));
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 1));
  EXPECT_EQ(b.Hear(), "");
  Release(Writer('c'));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
}

TEST_F(ReadWriteScriptsTest, WritersGoByTicketThoughTheirMarkersEndInAnotherOrder) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Beating(20000, Writer('b')));
  Ask(Beating(5000, Writer('c')));
  EXPECT_THAT(Marked(), ElementsAre(Hold('c'), Hold('b')));
  Release(Writer('a'));
  EXPECT_THAT(b.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_EQ(c.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, AfterAPhaseFairWriteTheReadersThatWaitGoFirst) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  const int64_t token = Token(Fair('a'));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Release(Fair('a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(Reader('c'), token, 1));
  EXPECT_EQ(d.Hear(), GrantOf(Reader('d'), token, 1));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(Outcome(Reader('e')), "queued") << "it did not wait through the write";
  EXPECT_EQ(Outcome(Reader('e')), "queued");
  Release(Reader('c'));
  EXPECT_EQ(b.Hear(), "");
  Release(Reader('d'));
  EXPECT_EQ(b.Hear(), GrantOf(Fair('b'), StoredFence(), 1));
  EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
  EXPECT_EQ(Count(Fair('b').owner), "1");
}

TEST_F(ReadWriteScriptsTest, APhaseFairWriteIsFollowedByAWriterWhereNoLiveReaderWaits) {
  Ear b(*server_, Channel('b'));
  Token(Fair('a'));
  Ask(Reader('c'));  // dead
  Ask(Writer('b'));
  Release(Fair('a'));
  EXPECT_EQ(b.Hear(), GrantOf(Writer('b'), StoredFence(), 0));
  EXPECT_EQ(server_->Integer({"HEXISTS", name_, "policy"}), 0);
}

TEST_F(ReadWriteScriptsTest, ThePolicyIsThatOfTheWriteThatEnds) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Release(Writer('a'));
  EXPECT_THAT(b.Hear(), StartsWith("grant")) << "writers first";
}

TEST_F(ReadWriteScriptsTest, APhaseFairWriteThatExpiredLetsReadersIn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  server_->Command({"HSET", name_, Hold('a'), "1000 1"});
  EXPECT_EQ(Outcome(Writer('d')), "queued");
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

// Downgrade.

TEST_F(ReadWriteScriptsTest, AReaderUnderItsOwnersWriteGetsInPastQueueAndMarkers) {
  for (const Request& writer : {Writer('a'), Job('a')}) {
    server_->Command({"FLUSHALL"});
    Ear b(*server_, Channel('b'));
    const int64_t token = Token(writer);
    Ask(Writer('b'));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Acquire(Nest(writer)), Granted(token, 1));
    EXPECT_EQ(Renew(Nest(writer)), kLastReading);
    EXPECT_EQ(Outcome(Nest(Writer('c'))), "queued") << "another's";
    EXPECT_EQ(Outcome(Impatient(Reader('a', 9))), "busy");
    EXPECT_EQ(Release(Nest(writer)), kReleased);
    EXPECT_EQ(Renew(writer), kHeld);
    EXPECT_EQ(b.Hear(), "");
  }
}

TEST_F(ReadWriteScriptsTest, ANestedReaderThatWaitedIsTakenOffTheQueue) {
  Token(Writer('a'));
  Ask(Nest(Job('b')));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b', 2)));
  Release(Writer('a'));  // passes b over, as nobody listens there
  Token(Job('b'));
  Ask(Reader('c'));
  EXPECT_EQ(Outcome(Nest(Job('b'))), "granted");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
}

// As it may be another thread's.
TEST_F(ReadWriteScriptsTest, AReaderUnderAWriteThatIsOverWaitsForALaterOneOfItsClient) {
  Token(Writer('a'));
  Release(Writer('a'));
  Token(Writer('a', 3));
  EXPECT_EQ(Outcome(Impatient(Nest(Writer('a')))), "busy");
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "queued");
  EXPECT_EQ(Outcome(Nest(Writer('a', 3), 4)), "granted");
}

TEST_F(ReadWriteScriptsTest, AReaderWaitsForALaterWriteThoughItsOwnIsStillThere) {
  Token(Writer('a'));
  Token(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "queued");
  Release(Writer('a', 3));
  EXPECT_EQ(Outcome(Nest(Writer('a'))), "granted");
}

// The release of the write that it reads under may be late.
TEST_F(ReadWriteScriptsTest, AWriterWaitsForAReaderUnderAnEarlierWriteOfItsClient) {
  Ear a(*server_, Channel('a'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  EXPECT_EQ(Outcome(Impatient(Writer('a', 3))), "busy");
  EXPECT_EQ(Outcome(Writer('a', 3)), "queued");
  Release(Writer('a'));
  EXPECT_EQ(a.Hear(), "");
  Release(Nest(Writer('a')));
  EXPECT_THAT(a.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, ADowngradeLetsWaitingReadersInWhereNoWriterWaits) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  EXPECT_EQ(Release(Writer('a')), kReleased);
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
  EXPECT_EQ(Renew(Nest(Writer('a'))), kReading);
  EXPECT_THAT(Reading(), UnorderedElementsAre(Hold('a', 2), Hold('b')));
  EXPECT_EQ(Acquire(Reader('c')), Granted(StoredFence()));
}

TEST_F(ReadWriteScriptsTest, ADowngradeBeforeAWaitingWriterLetsNobodyElseIn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  EXPECT_GT(RetryAfter(Writer('c')), 29000);
  Release(Writer('a'));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(c.Hear(), "");
  EXPECT_EQ(Renew(Nest(Writer('a'))), kLastReading);
  Release(Nest(Writer('a')));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, APhaseFairDowngradeLetsWaitingReadersInBeforeAWriter) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Ask(Nest(Fair('a')));
  Ask(Writer('c'));
  Ask(Reader('b'));
  Release(Fair('a'));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 1));
  Release(Nest(Fair('a')));
  EXPECT_EQ(c.Hear(), "");
  Release(Reader('b'));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, AWriterWaitsForWriteAndNestedRead) {
  Token(For(5000, Writer('a')));
  Ask(Nest(Writer('a')));
  EXPECT_LE(RetryAfter(Impatient(Writer('b'))), 5000);
  EXPECT_LE(RetryAfter(Impatient(Reader('b'))), 5000);
}

TEST_F(ReadWriteScriptsTest, ARepeatUnderAWriteThatExpiredLetsWaitingReadersIn) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Nest(Writer('a')));
  Ask(Reader('b'));
  server_->Command({"HSET", name_, Hold('a'), "1000 1"});
  EXPECT_EQ(Acquire(Nest(Writer('a'))), Granted(StoredFence()));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), StoredFence(), 0));
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0);
}

// Who comes first.

TEST_F(ReadWriteScriptsTest, WhoDoesNotWaitIsToldWhenItCanPay) {
  Ask(For(5000, Reader('a')));
  Ask(For(20000, Reader('b')));
  const int64_t behind_readers = RetryAfter(Impatient(Writer('c')));
  EXPECT_GT(behind_readers, 4000);  // when the first may be dead, and the others gone
  EXPECT_LE(behind_readers, 5000);
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Marked(), IsEmpty());
  Release(Reader('a'));
  Release(Reader('b'));
  Token(For(7000, Writer('c')));
  const int64_t behind_a_writer = RetryAfter(Impatient(Reader('a', 2)));
  EXPECT_GT(behind_a_writer, 6000);
  EXPECT_LE(behind_a_writer, 7000);
}

TEST_F(ReadWriteScriptsTest, AnExpiredWriteIsFoundByWhoeverAsksAndPassesOn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  const int64_t token = Token(For(20, Writer('a')));
  Ask(Reader('b'));
  Ask(Reader('c'));
  AwaitExpiry(name_);
  EXPECT_EQ(Acquire(Reader('c')), Granted(token));
  EXPECT_EQ(b.Hear(), GrantOf(Reader('b'), token, 0));
  EXPECT_EQ(c.Hear(), "") << "the reply tells it";
  EXPECT_EQ(Release(Writer('a')), kNotHeld);
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, ALateReleaseOfAnExpiredWritePassesOn) {
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Ask(Writer('b'));
  server_->Command({"HSET", name_, Hold('a'), "1000 1"});
  EXPECT_EQ(Release(Writer('a')), kNotHeld);
  EXPECT_THAT(b.Hear(), StartsWith("grant " + Hold('b')));
  EXPECT_FALSE(Writes(Hold('a')));
}

TEST_F(ReadWriteScriptsTest, WhoDoesNotWaitComesAfterThoseWhoDo) {
  {
    Ear b(*server_, Channel('b'));
    Token(For(20, Writer('a')));
    Ask(Writer('b'));
    AwaitExpiry(name_);
    EXPECT_GT(RetryAfter(Impatient(Reader('c'))), 29000);
    EXPECT_THAT(b.Hear(), StartsWith("grant"));
    Release(Writer('b'));
  }
  Ear b(*server_, Channel('b'));
  Token(For(20, Writer('a', 2)));
  Ask(Reader('b', 2));
  AwaitExpiry(name_);
  EXPECT_GT(RetryAfter(Impatient(Writer('c', 2))), 29000);
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
}

TEST_F(ReadWriteScriptsTest, AWriterThatWaitsGoesBeforeReadersOfAnExpiredWrite) {
  Ear b(*server_, Channel('b'));
  Token(For(20, Writer('a')));
  Ask(Reader('b'));
  AwaitExpiry(name_);
  EXPECT_EQ(Outcome(Writer('c')), "granted");
  EXPECT_EQ(b.Hear(), "");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('b')));
}

TEST_F(ReadWriteScriptsTest, AnOverdueWaiterIsPassedOverWhereAnotherLives) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c')), d(*server_, Channel('d'));
  Token(Writer('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  Ask(Reader('d'));
  MakeOverdue(Hold('b'));
  MakeOverdue(Hold('c'));
  Release(Writer('a'));
  EXPECT_THAT(d.Hear(), StartsWith("grant"));
  EXPECT_EQ(b.Hear(), "");
  EXPECT_EQ(c.Hear(), "");
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Marked(), IsEmpty());
}

TEST_F(ReadWriteScriptsTest, WhereAllAreOverdueTheFirstWriterWithASubscriberGetsIt) {
  Ear c(*server_, Channel('c')), d(*server_, Channel('d')), e(*server_, Channel('e'));
  Token(Writer('a'));
  for (const Request& late : {Writer('b'), Reader('e'), Writer('c'), Writer('d')}) {
    Ask(late);
    MakeOverdue(late.hold);
  }
  Release(Writer('a'));
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 2));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('e'), Hold('d')));
  EXPECT_THAT(Marked(), ElementsAre(Hold('d')));
}

TEST_F(ReadWriteScriptsTest, WhereAllAreOverdueReadersGetItTogether) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  for (const Request& late : {Reader('b'), Reader('c')}) {
    Ask(late);
    MakeOverdue(late.hold);
  }
  Release(Writer('a'));
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
}

// Repeated and late requests.

TEST_F(ReadWriteScriptsTest, AnAcquireThatComesAfterItsCancelOrReleaseAcquiresAndQueuesNothing) {
  for (const Request& request : {Writer('a'), Reader('b')}) {
    EXPECT_EQ(Cancel(request, 5000), kUnknown);
    EXPECT_GT(Pttl(Gone(request.hold)), 4000);
    EXPECT_EQ(Outcome(request), "gone");
  }
  Token(Writer('c'));
  Ask(Reader('d'));
  EXPECT_EQ(Cancel(Reader('d'), 5000), kLeft);
  EXPECT_EQ(Outcome(Reader('d')), "gone");
  EXPECT_EQ(Release(Writer('c'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Outcome(Writer('c')), "gone");
  Ask(Reader('e'));
  EXPECT_EQ(Release(Reader('e'), 0, 0, 5000), kReleased);
  EXPECT_EQ(Outcome(Reader('e')), "gone");
  Ask(Reader('f'));
  EXPECT_EQ(Cancel(Reader('f'), 5000), kPassedOn);
  EXPECT_EQ(Outcome(Reader('f')), "gone");
  EXPECT_EQ(Release(Reader('g'), 0, 0, 5000), kNotHeld);
  EXPECT_EQ(Outcome(Reader('g')), "gone");
  EXPECT_EQ(server_->Integer({"EXISTS", name_, Readers(), Queue(), Markers()}), 0);
}

TEST_F(ReadWriteScriptsTest, AHeartbeatThatCrossedItsGrantIsAnsweredWithIt) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Ask(Reader('a'));
  Ask(Writer('b'));
  Ask(Reader('c'));
  Release(Reader('a'));
  EXPECT_EQ(Acquire(Writer('b')), absl::StrCat("[\"granted\", \"", StoredFence(), "\", 30000, 1]"));
  Release(Writer('b'));
  EXPECT_EQ(Acquire(Reader('c')), Granted(StoredFence()));
  EXPECT_THAT(Reading(), ElementsAre(Hold('c')));
}

TEST_F(ReadWriteScriptsTest, AWriterIsQueuedAgainBehindThoseWhoWait) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Writer('a'));
  redis::Reply reply = ReleaseAndQueue(Writer('a'), Writer('a', 2));
  EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
  Ask(Reader('c'));
  Ask(Writer('b'));
  reply = ReleaseAndQueue(Writer('a', 2), Fair('a', 3));
  EXPECT_EQ(reply.elements[1].text, "queued") << reply.DebugString();
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_THAT(Marked(), ElementsAre(Hold('a', 3)));
  EXPECT_EQ(First(ReleaseAndQueue(Writer('a', 2), Writer('a', 4))), "not_held");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c'), Hold('a', 3)));
  Ear a(*server_, Channel('a'));
  Release(Writer('b'));
  EXPECT_THAT(a.Hear(), StartsWith("grant " + Hold('a', 3)));
  EXPECT_EQ(server_->Text({"HGET", name_, "policy"}), "phase_fair");
}

TEST_F(ReadWriteScriptsTest, AReaderIsQueuedAgainWhereAWriterWaits) {
  Ear b(*server_, Channel('b'));
  Ask(Reader('a'));
  redis::Reply reply = ReleaseAndQueue(Reader('a'), Reader('a', 2));
  EXPECT_EQ(reply.elements[1].text, "granted") << reply.DebugString();
  EXPECT_THAT(Reading(), ElementsAre(Hold('a', 2)));
  Ask(Writer('b'));
  reply = ReleaseAndQueue(Reader('a', 2), Reader('a', 3));
  EXPECT_EQ(reply.elements[1].text, "queued") << reply.DebugString();
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_EQ(First(ReleaseAndQueue(Reader('a', 2), Reader('a', 4))), "not_held");
  EXPECT_THAT(Waiting(), ElementsAre(Hold('a', 3)));
  Cancel(Reader('a', 5), 5000);
  Ask(Nest(Writer('b'), 4));
  EXPECT_EQ(ReleaseAndQueue(Nest(Writer('b'), 4), Reader('a', 5)).DebugString(),
            "[\"released\", \"gone\"]");
}

// Refusals.

TEST_F(ReadWriteScriptsTest, KeysOfAnotherTypeOrKindAreRefusedAndUntouched) {
  const std::vector<std::vector<std::string>> others = {
      {"SET", name_, Hold('a')},
      {"HSET", name_, "field", "value"},
      {"HSET", name_, "kind", "reentrant", Of('a').owner, "1"},
      {"SET", Readers(), "x"},
      {"SET", Markers(), "x"}};
  for (const std::vector<std::string>& other : others) {
    server_->Command({"FLUSHALL"});
    server_->Command(other);
    server_->Command({"PEXPIRE", other[1], "30000"});
    std::vector<std::string> replies = {
        Release(Reader('a')), Cancel(Reader('a')), Renew(Reader('a')), Release(Writer('a')),
        Cancel(Writer('a')),  Inspect(),           ForceRelease()};
    if (other[1] != Markers()) {  // which the short ways need not look at
      replies.push_back(Acquire(Writer('a')));
      replies.push_back(Acquire(Reader('a')));
    }
    if (other[1] == name_) replies.push_back(Renew(Writer('a')));
    ExpectRefused(other[1], "WRONGTYPE", replies);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 1) << other[1];
  }
}

TEST_F(ReadWriteScriptsTest, AQueueOrFenceOfAnotherTypeIsRefusedBeforeAnythingIsWritten) {
  for (const std::string& key : {Queue(), Waiters(), Fence()}) {
    server_->Command({"FLUSHALL"});
    Token(Writer('a'));
    Ask(Writer('w'));
    Ask(Nest(Writer('a')));
    server_->Command({"DEL", key});
    server_->Command({"RPUSH", key, "x"});
    server_->Command({"PEXPIRE", key, "30000"});
    const std::string before = server_->Text({"DUMP", name_}) + server_->Text({"DUMP", Readers()});
    ExpectRefused(key, "WRONGTYPE",
                  {Release(Writer('a')), Cancel(Writer('a')), Acquire(Writer('b')),
                   Acquire(Reader('c')), ForceRelease()});
    EXPECT_EQ(server_->Text({"DUMP", name_}) + server_->Text({"DUMP", Readers()}), before) << key;
  }
}

TEST_F(ReadWriteScriptsTest, TheReentrantLockRefusesALockOfThisKind) {
  Token(Writer('a'));
  EXPECT_THAT(Eval(lua::kReentrantAcquire, {Gone(Hold('b'))}, Of('b').Args()).DebugString(),
              HasSubstr("WRONGTYPE"));
}

TEST_F(ReadWriteScriptsTest, FullMemoryRefusesAnAcquireAndNothingElse) {
  Ear c(*server_, Channel('c')), d(*server_, Channel('d')), e(*server_, Channel('e'));
  Token(Job('a'));
  Ask(Nest(Job('a')));
  Ask(Reader('d'));
  Ask(Reader('e'));
  Ask(Writer('c'));
  FillMemory();
  EXPECT_THAT(Acquire(Writer('f')), HasSubstr("OOM"));
  EXPECT_THAT(Acquire(Reader('f')), HasSubstr("OOM"));
  EXPECT_THAT(Acquire(Nest(Job('f'))), HasSubstr("OOM"));
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d'), Hold('e'), Hold('c')));
  EXPECT_EQ(Outcome(Writer('c')), "queued") << "a heartbeat";
  EXPECT_EQ(Outcome(Reader('d')), "queued");
  EXPECT_EQ(Renew(Job('a')), kHeld);
  EXPECT_EQ(Renew(Nest(Job('a'))), kLastReading);
  EXPECT_EQ(Outcome(Nest(Job('a'))), "granted") << "a repeat";
  EXPECT_EQ(Cancel(Job('a'), 5000), kPassedOn);
  EXPECT_EQ(Release(Nest(Job('a')), 0, 0, 5000), kReleased);
  EXPECT_THAT(c.Hear(), StartsWith("grant"));
  EXPECT_EQ(Release(Writer('c'), 0, 0, 5000), kReleased);
  EXPECT_THAT(d.Hear(), StartsWith("grant"));
  EXPECT_THAT(e.Hear(), StartsWith("grant"));
  EXPECT_EQ(Renew(Reader('d')), kReading);
  EXPECT_EQ(Cancel(Reader('d'), 5000), kPassedOn);
  EXPECT_EQ(Release(Reader('e')), kReleased);
  EXPECT_THAT(Acquire(Reader('f')), HasSubstr("OOM"));
  EXPECT_THAT(Acquire(Writer('f')), HasSubstr("OOM"));
  EXPECT_EQ(server_->Integer({"EXISTS", name_, Readers(), Queue(), Waiters(), Markers()}), 0);
}

TEST_F(ReadWriteScriptsTest, EveryKeyHasATtlAfterEveryOperation) {
  Ear b(*server_, Channel('b'));
  const std::vector<std::string> steps = {Acquire(Fair('a')),
                                          Acquire(Nest(Fair('a'))),
                                          Acquire(Writer('b')),
                                          Acquire(Reader('c')),
                                          Renew(Fair('a')),
                                          Renew(Nest(Fair('a'))),
                                          Release(Fair('a')),
                                          Acquire(Writer('b')),
                                          Cancel(Reader('c'), 5000),
                                          Release(Nest(Fair('a')), 0, 0, 5000),
                                          Acquire(Reader('d')),
                                          Cancel(Writer('b'), 5000),
                                          Acquire(Reader('d')),
                                          Acquire(Writer('e')),
                                          ForceRelease()};
  EXPECT_EQ(steps.size(), 15);
  ExpectATtlOnEveryKey();
}

// For people.

TEST_F(ReadWriteScriptsTest, AForcedReleaseTellsWriterAndReadersAndHandsOver) {
  Ear a(*server_, Channel('a')), b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Job('a'));
  Ask(Nest(Job('a')));
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + Hold('a') + "\", \"" + Hold('a', 2) + "\"]");
  EXPECT_EQ(a.Hear(), "forced " + Hold('a') + " " + name_);
  EXPECT_EQ(a.Hear(), "forced " + Hold('a', 2) + " " + name_);
  EXPECT_EQ(Renew(Nest(Job('a'))), kNotHeld);
  Token(Job('a'));
  Token(Job('b'));
  Ask(Writer('c'));
  const std::string reply = ForceRelease();
  EXPECT_THAT(reply, StartsWith("[\"released\", "));
  EXPECT_THAT(reply, HasSubstr(Hold('a')));
  EXPECT_THAT(reply, HasSubstr(Hold('b')));
  EXPECT_EQ(a.Hear(), "forced " + Hold('a') + " " + name_);
  EXPECT_EQ(b.Hear(), "forced " + Hold('b') + " " + name_);
  EXPECT_EQ(c.Hear(), GrantOf(Writer('c'), StoredFence(), 0));
  EXPECT_EQ(Renew(Job('a')), kNotHeld);
  EXPECT_EQ(Release(Writer('c')), kReleased);
  EXPECT_EQ(ForceRelease(), "[\"free\"]");
  Ask(Reader('d'));
  EXPECT_EQ(ForceRelease(), "[\"released\", \"" + Hold('d') + "\"]");
}

TEST_F(ReadWriteScriptsTest, AForcedPhaseFairWriteLetsReadersIn) {
  Ear b(*server_, Channel('b')), c(*server_, Channel('c'));
  Token(Fair('a'));
  Ask(Writer('c'));
  Ask(Reader('b'));
  ForceRelease();
  EXPECT_THAT(b.Hear(), StartsWith("grant"));
  EXPECT_EQ(c.Hear(), "");
}

TEST_F(ReadWriteScriptsTest, InspectShowsWriterReadersAndWaitersAndRemovesNothing) {
  const int64_t token = Token(Job('a'));
  Ask(Nest(Job('a')));
  Ask(Fair('b'));
  Ask(Reader('c'));
  Ask(For(10, Nest(Job('a'), 3)));
  AwaitEnd(Readers(), Hold('a', 3));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(reply.elements[0].text, "read_write");
  EXPECT_EQ(reply.elements[1].text, absl::StrCat(StoredFence()));
  const std::vector<redis::Reply>& holders = reply.elements[2].elements;
  ASSERT_EQ(holders.size(), 2);
  EXPECT_EQ(holders[0].elements[0].text, Hold('a'));
  EXPECT_EQ(holders[0].elements[1].text, kJob);
  EXPECT_GT(holders[0].elements[2].integer, 29000);
  EXPECT_EQ(holders[0].elements[4].text, absl::StrCat(token)) << "since then";
  EXPECT_EQ(reply.elements[5].integer, 2);
  EXPECT_EQ(holders[1].elements[0].text, Hold('a', 2));
  EXPECT_EQ(holders[1].elements[1].text, "read");
  EXPECT_GT(holders[1].elements[2].integer, 29000);
  EXPECT_EQ(reply.elements[3].integer, 2);
  const std::vector<redis::Reply>& waiters = reply.elements[4].elements;
  ASSERT_EQ(waiters.size(), 2);
  EXPECT_EQ(waiters[0].elements[1].text, Fair('b').owner);
  EXPECT_EQ(waiters[1].elements[1].text, Reader('c').owner);
  EXPECT_EQ(Reading().size(), 2) << "the expired one as well";
}

TEST_F(ReadWriteScriptsTest, NamesAndOwnersMayContainAnything) {
  name_ = "an order: 7 \n{x";
  const std::string owner = std::string("user:read:1:\0 a\n%s b", 20);
  Ear b(*server_, Channel('b'));
  Token(Writer('a'));
  Request writer = Fair('b');
  writer.owner = owner;
  Ask(writer);
  EXPECT_THAT(Marked(), ElementsAre(Hold('b'))) << "a writer, whatever its owner is called";
  Release(Writer('a'));
  EXPECT_EQ(b.Hear(), GrantOf(writer, StoredFence(), 0));
  EXPECT_EQ(Count(owner), "1");
  EXPECT_EQ(Outcome(Nest(writer)), "granted");
  EXPECT_EQ(Release(Nest(writer)), kReleased);
  EXPECT_EQ(Release(writer), kReleased);
}

// Any order.

// What the keys say, where an expiry of 1000 is one that the test has put into the past.
struct State {
  std::string writer;  // the owner; "" where nobody writes
  int counted = 0;     // its holds, as the hash says
  std::set<std::string> writes, reads, marked, waiting_writers, waiting_readers;
};

class AnyOrderTest : public ReadWriteScriptsTest {
 protected:
  State Look() {
    State state;
    const std::vector<redis::Reply> fields = server_->Command({"HGETALL", name_}).elements;
    for (size_t i = 0; i + 1 < fields.size(); i += 2) {
      const std::string &field = fields[i].text, &value = fields[i + 1].text;
      if (field == "kind" || field == "policy") continue;
      if (field.find(':') == 32) {
        if (value != kEnded) state.writes.insert(field);
      } else {
        EXPECT_EQ(state.writer, "") << "and " << field;
        state.writer = field;
        state.counted = std::stoi(value);
      }
    }
    if (state.writes.empty()) state.writer.clear();
    for (const std::string& hold : Reading()) {
      if (server_->Text({"ZSCORE", Readers(), hold}) != "1000") state.reads.insert(hold);
    }
    for (const std::string& hold : Marked()) state.marked.insert(hold);
    for (const std::string& hold : Waiting()) {
      const std::string record = server_->Text({"HGET", Waiters(), hold});
      const bool reads =
          record.find(" read:") != record.npos || record.find(" nest:") != record.npos;
      (reads ? state.waiting_readers : state.waiting_writers).insert(hold);
    }
    return state;
  }

  // What must be true between two states of which the second is `asked`'s doing.
  void Check(const State& before, const State& after, const Request& asked, bool settled) {
    EXPECT_EQ(after.marked, after.waiting_writers);
    for (const std::string& hold : after.writes) {
      EXPECT_FALSE(after.waiting_writers.contains(hold));
    }
    for (const std::string& hold : after.reads) {
      EXPECT_FALSE(after.waiting_readers.contains(hold));
      if (before.reads.contains(hold) || after.writer.empty()) continue;
      EXPECT_EQ(hold, asked.hold) << "let in while somebody writes";
      EXPECT_THAT(after.writes, ElementsAre(asked.owner.substr(7)));
    }
    for (const std::string& hold : after.writes) {
      if (before.writes.contains(hold)) continue;
      EXPECT_THAT(after.reads, IsEmpty()) << "a writer was let in to readers";
    }
    if (!settled) return;
    EXPECT_EQ(after.writer.empty() ? 0 : after.counted, static_cast<int>(after.writes.size()));
    if (after.writer.empty() && after.reads.empty()) {
      EXPECT_THAT(after.waiting_writers, IsEmpty());
      EXPECT_THAT(after.waiting_readers, IsEmpty());
    }
    if (after.writer.empty() && after.waiting_writers.empty()) {
      EXPECT_THAT(after.waiting_readers, IsEmpty());
    }
  }

  static constexpr char kEnded[] = "1000 1";
};

TEST_F(AnyOrderTest, WhateverIsAskedNobodyWritesWhileOthersReadAndNobodyIsForgotten) {
  std::mt19937 random(20);
  const auto pick = [&random](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  std::map<char, std::unique_ptr<Ear>> ears;
  std::map<std::string, Request> asked;  // by hold
  int64_t fence = 0;
  int sequence = 0;
  State before = Look();
  for (int step = 0; step < 1000 && !HasFailure(); ++step) {
    const char client = static_cast<char>('a' + pick(5));
    const std::vector<Request> kinds = {Writer(client, ++sequence), Fair(client, sequence),
                                        Job(client, sequence),      Reader(client, sequence),
                                        Reader(client, sequence),   Nest(Writer(client), sequence),
                                        Nest(Job(client), sequence)};
    Request request = kinds[static_cast<size_t>(pick(7))];
    request.wait = pick(4) != 0;
    const int operation = pick(16);
    if (!asked.empty() && (operation < 8 || pick(3) == 0)) {
      request = std::next(asked.begin(), pick(static_cast<int>(asked.size())))->second;
    }
    const std::set<std::string>& holders = before.writes.empty() ? before.reads : before.writes;
    if (operation < 5 && !holders.empty() && pick(2) == 0) {
      const auto holder = std::next(holders.begin(), pick(static_cast<int>(holders.size())));
      if (asked.contains(*holder)) request = asked[*holder];
    }
    bool settled = true;
    std::string what;
    switch (operation) {
      case 0:
      case 1:
      case 2:
        what = Release(request);
        asked.erase(request.hold);
        break;
      case 3:
        what = Cancel(request);
        asked.erase(request.hold);
        break;
      case 4: {
        Request fresh = request;
        fresh.hold = Hold(request.hold[0], ++sequence);
        fresh.wait = true;
        what = ReleaseAndQueue(request, fresh).DebugString();
        asked.erase(request.hold);
        asked[fresh.hold] = fresh;
        request = fresh;
        break;
      }
      case 5:
        what = Renew(request);
        settled = false;
        break;
      case 6:
        if (pick(3) == 0) what = ForceRelease();
        break;
      case 7:  // expires
        if (before.writes.contains(request.hold)) {
          server_->Command({"HSET", name_, request.hold, kEnded});
        }
        if (before.reads.contains(request.hold)) {
          server_->Command({"ZADD", Readers(), "XX", "1000", request.hold});
        }
        settled = false;
        what = "expires";
        break;
      case 8:  // dies or comes back
        if (ears[client] && pick(4) == 0) {
          ears[client].reset();
        } else if (!ears[client]) {
          ears[client] = std::make_unique<Ear>(*server_, Channel(client));
        }
        settled = false;
        break;
      default:
        what = Acquire(request);
        asked[request.hold] = request;
    }
    if (what.empty() || what.find("not_held") != what.npos) settled = false;
    const State after = Look();
    SCOPED_TRACE(absl::StrCat("step ", step, ": ", request.owner, " ", request.hold, " ", what));
    EXPECT_EQ(what.find("ERR"), what.npos);
    Check(before, after, request, settled);
    EXPECT_GE(StoredFence(), fence);
    fence = StoredFence();
    ExpectATtlOnEveryKey();
    before = after;
  }
}

}  // namespace
}  // namespace redlatch
