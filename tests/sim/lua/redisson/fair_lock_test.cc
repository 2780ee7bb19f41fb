// Redisson's fair lock: its queue is a list, and each waiter has a time until which it keeps its
// place.
#include "tests/sim/lua/redisson/fixture.h"

namespace redlatch {
namespace {

struct RedissonFairScripts : RedissonScripts {
  RedissonFairScripts() : RedissonScripts(RedissonFairLock()) {}
  std::string Alive() const { return Auxiliary("redisson.alive"); }
  static std::string ChannelOf(const std::string& waiter) {
    return absl::StrCat(kWord, ":", waiter);
  }
  // Waiters that keep their places for that long from now on.
  void Queue64(int count, const std::string& first, int ms) {
    for (int i = 0; i < count; ++i) {
      server_->Do({"RPUSH", Queue(), absl::StrCat(first, i)});
      server_->Do(
          {"ZADD", Waiters(), absl::StrCat(server_->clock() / 1000 + ms), absl::StrCat(first, i)});
    }
  }
  int64_t Length() { return server_->Integer({"LLEN", Queue()}); }
};

TEST_F(RedissonFairScripts, FirstComeFirstServed) {
  Inbox b(*server_, ChannelOf(GrantId('b'))), c(*server_, ChannelOf(GrantId('c')));
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(Acquire(Impatient(Of('b'))), Busy(30000));
  EXPECT_EQ(Length(), 0);
  EXPECT_EQ(Acquire(Of('b')), Queued(30000));
  EXPECT_EQ(Acquire(Of('c')), Queued(30000));
  EXPECT_EQ(EndsIn(Waiters(), GrantId('b')), 30000 + kWaitMs);
  EXPECT_EQ(EndsIn(Waiters(), GrantId('c')), 30000 + 2 * kWaitMs)
      << "each adds its own wait_timeout";
  EXPECT_EQ(Acquire(Again(Of('a'))), Granted()) << "a repeat";
  EXPECT_EQ(Release(Of('b')), kNotHeld);
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(b.Next(), "0");
  EXPECT_EQ(Acquire(Of('c')), Queued(30000)) << "b is asked again until it loses its place";
  EXPECT_EQ(b.Next(), "0") << "it may have missed its message";
  EXPECT_EQ(Acquire(Of('a', 2)), Queued(30000));
  EXPECT_EQ(Acquire(Of('b')), Granted());
  EXPECT_EQ(EndsIn(Waiters(), GrantId('c')), 30000 + kWaitMs) << "it moves up";
  EXPECT_EQ(Release(Of('b'), 0, 0, 60000), kReleased);
  EXPECT_EQ(c.Next(), "0");
  EXPECT_EQ(Acquire(Of('b')), kGone);
}

TEST_F(RedissonFairScripts, DeadWaiterLosesItsPlaceAfterThreeHeartbeats) {
  Inbox dead(*server_, ChannelOf(GrantId('b')));
  Ask(Of('a'));
  Ask(Of('b'));
  Ask(Beating(20000, Of('c')));
  EXPECT_EQ(Pttl(Alive()), 60000);
  Expire(name_);
  server_->Pass(30000);
  EXPECT_EQ(Acquire(Of('c')), Granted());
  EXPECT_EQ(dead.Next(), "0") << "it may live, and queues again";
  EXPECT_EQ(Length(), 0);
}

TEST_F(RedissonFairScripts, HeartbeatKeepsThePlace) {
  Ask(For(600'000, Of('a')));
  Ask(Of('b'));
  Ask(Of('c'));
  server_->Do({"ZADD", Waiters(), absl::StrCat(server_->clock() / 1000 + 1000), GrantId('b')});
  Ask(Again(Of('b')));
  EXPECT_EQ(EndsIn(Waiters(), GrantId('b')), kWaitMs);
  server_->Pass(29000);
  Ask(Again(Of('b')));
  server_->Pass(29000);
  EXPECT_EQ(Cancel(Of('a')), kPassedOn);
  EXPECT_EQ(Acquire(Of('b')), Granted());
  EXPECT_EQ(Renew(Of('b')), kHeld);
}

TEST_F(RedissonFairScripts, JavaWaiterKeepsItsPlaceUntilItsTime) {
  Inbox java(*server_, ChannelOf(kJava));
  server_->Do({"RPUSH", Queue(), kJava});
  server_->Do({"ZADD", Waiters(), absl::StrCat(server_->clock() / 1000 + 5000), kJava});
  EXPECT_EQ(Acquire(Impatient(Of('a'))), Busy(5000));
  EXPECT_EQ(java.Next(), "0");
  server_->Pass(5000);
  EXPECT_EQ(Acquire(Impatient(Of('a'))), Granted());
  EXPECT_EQ(java.Next(), "0") << "so that it queues again";
  server_->Do({"RPUSH", Queue(), kJava});
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(Length(), 0) << "a waiter whose time was evicted has none";
}

TEST_F(RedissonFairScripts, CancelLeavesTheQueueOrEndsTheGrant) {
  Ask(Of('a'));
  Ask(Of('b'));
  Ask(Of('c'));
  EXPECT_EQ(Cancel(Of('b'), 5000), kLeft);
  EXPECT_EQ(Acquire(Of('b')), kGone);
  EXPECT_EQ(EndsIn(Waiters(), GrantId('c')), 30000 + kWaitMs) << "as Redisson does";
  Inbox next(*server_, ChannelOf(GrantId('c')));
  EXPECT_EQ(Cancel(Of('d')), kUnknown);
  EXPECT_EQ(Cancel(Of('a')), kPassedOn);
  EXPECT_EQ(next.Next(), "0");
}

TEST_F(RedissonFairScripts, ReleaseQueuesBehindOthers) {
  Ask(Of('a'));
  EXPECT_EQ(ReleaseAndQueue(Of('a'), Of('a', 2)).DebugString(),
            absl::StrCat("[\"released\", ", Granted().substr(1)));
  Ask(Of('b'));
  Inbox next(*server_, ChannelOf(GrantId('b')));
  EXPECT_EQ(ReleaseAndQueue(Of('a', 2), Of('a', 3)).DebugString(),
            "[\"released\", \"queued\", 30000, 0, 0]");
  EXPECT_EQ(next.Next(), "0");
  EXPECT_EQ(Acquire(Of('b')), Granted());
  server_->Do({"SET", Gone(GrantId('b', 2)), "1", "PX", "1000"});
  EXPECT_EQ(ReleaseAndQueue(Of('b'), Of('b', 2)).DebugString(), "[\"released\", \"gone\"]");
}

TEST_F(RedissonFairScripts, PeopleSeeAndEndAllOfIt) {
  EXPECT_EQ(ForceRelease(), kFree);
  Ask(Of('a'));
  Ask(Of('b'));
  server_->Do({"RPUSH", Queue(), kJava});
  const std::string holder =
      absl::StrCat("[[\"", GrantId('a'), "\", \"", std::string(32, 'a'), "\", 30000, 1]]");
  EXPECT_EQ(Inspect(0), absl::StrCat("[\"redisson_fair_lock\", \"0\", ", holder, ", 2, [], 1]"));
  const redis::Reply listed = Eval(scripts_.inspect, {}, {"10"});
  EXPECT_EQ(listed.elements[4].DebugString(),
            absl::StrCat("[[\"", GrantId('b'), "\", \"", std::string(32, 'b'), "\", \"0\"], [\"",
                         kJava, "\", \"\", \"0\"]]"));
  Inbox next(*server_, ChannelOf(GrantId('b')));
  EXPECT_EQ(ForceRelease(), absl::StrCat("[\"released\", \"", GrantId('a'), "\"]"));
  EXPECT_EQ(next.Next(), "0");
  Ask(Of('b'));
  EXPECT_EQ(PartOfForce({"redlatch:", "more"}).DebugString(), kFree);
  EXPECT_TRUE(Exists(name_)) << "another holder has come meanwhile";
}

// The others are for later calls, which the note asks for.
TEST_F(RedissonFairScripts, CallDropsFewOfVeryManyDeadWaiters) {
  const auto refill = [this] {
    server_->Do({"FLUSHALL"});
    Ask(Of('a'));
    Queue64(200, "dead-", 1);
    server_->Pass(2);
  };
  refill();
  const uint64_t before = server_->calls_in_scripts();
  EXPECT_EQ(Release(Of('a')), kReleased);
  EXPECT_EQ(notes_, "look 1");
  EXPECT_LT(server_->calls_in_scripts() - before, 500);
  EXPECT_EQ(Length(), 136);
  EXPECT_EQ(Acquire(Of('b')), Queued(0)) << "a live one may be before it";
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Cancel(Of('c')), kUnknown);
  EXPECT_EQ(notes_, "look 1");
  EXPECT_EQ(Acquire(Of('b')), Granted());
  refill();
  EXPECT_EQ(ForceRelease(), absl::StrCat("[\"released\", \"", GrantId('a'), "\"]"));
  EXPECT_EQ(notes_, "look 1");
}

TEST_F(RedissonFairScripts, FirstOfVeryManyMoveUp) {
  Queue64(100, "0123:", 900'000'000);
  server_->Do({"LPUSH", Queue(), GrantId('a')});
  server_->Do({"ZADD", Waiters(), "9e12", GrantId('a')});
  server_->Do({"ZADD", Alive(), "9e12", GrantId('a')});
  EXPECT_EQ(Acquire(Of('a')), Granted());
  EXPECT_EQ(EndsIn(Waiters(), "0123:0"), 30000 + kWaitMs);
  EXPECT_EQ(EndsIn(Waiters(), "0123:63"), 30000 + 64 * kWaitMs);
  EXPECT_GT(EndsIn(Waiters(), "0123:64"), 800'000'000);
}

}  // namespace
}  // namespace redlatch
