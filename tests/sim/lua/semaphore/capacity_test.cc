// The semaphore's capacity, what its scripts refuse, and what they tell people.

#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

struct SemaphoreCapacity : SemaphoreScriptsFixture {
  Request Expecting(int64_t capacity, Request request) {
    request.more = {absl::StrCat(capacity)};
    return request;
  }
};

TEST_F(SemaphoreCapacity, OtherCapacityIsRefused) {
  Ask(One('a'));
  const std::string before = server_->Text({"DUMP", name_});
  for (const Request& request :
       {One('b'), Impatient(One('b')), Many(2, 'b'), Again(One('b'), "17")}) {
    const std::string reply = Acquire(Expecting(3, request));
    EXPECT_THAT(reply, StartsWith("error REFUSED its capacity is 2, and this object expects 3"));
  }
  EXPECT_EQ(server_->Text({"DUMP", name_}), before);
  EXPECT_THAT(Waiting(), IsEmpty());
  Release(One('a'));
  EXPECT_THAT(Acquire(Expecting(1, One('a', 2))), HasSubstr("REFUSED"));
}

TEST_F(SemaphoreCapacity, TooManyPermitsAreRefused) {
  EXPECT_THAT(Acquire(Many(3, 'a')), StartsWith("error REFUSED 3 permits are more than its "
                                                "capacity, 2"));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
  Ask(Many(2, 'a'));
  EXPECT_THAT(Acquire(Impatient(Many(3, 'b'))), HasSubstr("REFUSED"));
  EXPECT_THAT(Waiting(), IsEmpty());
}

TEST_F(SemaphoreCapacity, SetCapacityOverridesConstructors) {
  EXPECT_EQ(SetCapacity(1), kSet);
  EXPECT_EQ(Field("set_by"), "set_capacity");
  EXPECT_GT(Pttl(name_), 86'400'000);
  EXPECT_EQ(Acquire(Expecting(7, One('a'))), Granted());
  EXPECT_EQ(Outcome(Impatient(Expecting(7, One('b')))), "busy");
  EXPECT_THAT(Acquire(Expecting(7, Many(2, 'b'))),
              StartsWith("error REFUSED 2 permits are more than its capacity, 1"));
  Ask(One('b'));
  EXPECT_EQ(SetCapacity(1), kSet);
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b')));
  EXPECT_EQ(Field("capacity"), "1");
}

TEST_F(SemaphoreCapacity, LargestNumbersAreExact) {
  capacity_ = INT64_MAX;
  for (const char client : {'a', 'b'}) EXPECT_EQ(Acquire(One(client)), Granted());
  EXPECT_EQ(Field("capacity"), absl::StrCat(INT64_MAX));
  EXPECT_THAT(Acquire(Expecting(5, One('c'))), HasSubstr(absl::StrCat("is ", INT64_MAX, ",")));
  name_ = "other";
  capacity_ = int64_t{1} << 53;
  Request most = One('a');
  most.amount = INT32_MAX;
  EXPECT_EQ(Acquire(most), Granted());
  EXPECT_EQ(Acquire(Again(most)), Granted());
  EXPECT_EQ(Used(), INT32_MAX);
  EXPECT_EQ(Release(most), kReleased);
}

TEST_F(SemaphoreCapacity, ShrinkingWaitsForReturnedPermits) {
  for (const int weight : {1, 2}) {
    server_->Command({"FLUSHALL"});
    Inbox b(*server_, Channel('b'));
    SetCapacity(4 * weight);
    for (int i = 1; i <= 4; ++i) Ask(Many(weight, 'a', i));
    Ask(Many(weight, 'b'));
    SetCapacity(2 * weight);
    for (int i = 1; i <= 2; ++i) {
      EXPECT_EQ(Renew(Many(weight, 'a', i)), kHeld);
      EXPECT_EQ(Release(Many(weight, 'a', i)), kReleased);
      EXPECT_EQ(b.Next(), "");
      EXPECT_EQ(Outcome(Impatient(Many(weight, 'c'))), "busy");
    }
    EXPECT_EQ(Used(), 2 * weight);
    EXPECT_EQ(Release(Many(weight, 'a', 3)), kReleased);
    EXPECT_EQ(b.Next(), GrantOf(Many(weight, 'b')));
    ExpectConsistent();
  }
}

TEST_F(SemaphoreCapacity, ShrinkingRefusesTooLargeWaiters) {
  Inbox b(*server_, Channel('b')), c(*server_, Channel('c'));
  SetCapacity(5);
  Ask(One('a'));
  Ask(Many(5, 'b'));
  Ask(One('c'));
  EXPECT_THAT(Waiting(), ElementsAre(GrantId('b'), GrantId('c')));
  SetCapacity(4);
  EXPECT_EQ(b.Next(), "forced " + GrantId('b') + " " + name_);
  EXPECT_EQ(c.Next(), GrantOf(One('c')));
  EXPECT_THAT(Waiting(), IsEmpty());
  EXPECT_THAT(Acquire(Again(Many(5, 'b'), "17")), HasSubstr("REFUSED"));
  EXPECT_EQ(Cancel(Many(5, 'b'), 5000), kUnknown);
}

// Refusals.

TEST_F(SemaphoreCapacity, ForeignKeysAreRefusedBeforeWrites) {
  for (const int waiting : {0, 1}) {
    for (const std::string& key : {Permits(), Queue(), Waiters()}) {
      SCOPED_TRACE(absl::StrCat(key, " ", waiting));
      server_->Command({"FLUSHALL"});
      Ask(One('a'));
      Ask(One('b'));
      if (waiting == 1) Ask(One('c'));
      server_->Command({"DEL", key});
      server_->Command({"RPUSH", key, "x"});
      server_->Command({"PEXPIRE", key, "30000"});
      const auto dump = [this] {
        return server_->Text({"DUMP", name_}) + server_->Text({"DUMP", Permits()}) +
               server_->Text({"DUMP", Queue()}) + server_->Text({"DUMP", Waiters()});
      };
      const std::string before = dump();
      std::vector<std::string> replies = {Acquire(One('d')), Acquire(Many(2, 'd')),
                                          Cancel(One('x'))};
      if (key != Waiters() || waiting == 1) {  // which is read only if a client waits
        for (std::string reply : {Release(One('a')), Release(One('a'), 0, 0, 5000),
                                  Cancel(One('a')), SetCapacity(5), ForceRelease()}) {
          replies.push_back(std::move(reply));
        }
      }
      ExpectRefused(key, "WRONGTYPE", replies);
      EXPECT_EQ(dump(), before);
    }
  }
}

TEST_F(SemaphoreCapacity, FullMemoryRefusesNewSemaphore) {
  FillMemory();
  for (const Request& request : {One('f'), Impatient(One('f')), Many(2, 'f')}) {
    EXPECT_THAT(Acquire(request), HasSubstr("OOM"));
  }
  EXPECT_THAT(SetCapacity(3), HasSubstr("OOM"));
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
}

// For people.

TEST_F(SemaphoreCapacity, InspectShowsGrantsAndWritesNothing) {
  EXPECT_EQ(Inspect(), "[\"semaphore\", \"0\", [], 0, [], 0, 0, 0]");
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
  capacity_ = 4;
  Ask(For(20000, One('a')));
  Ask(Many(2, 'b'));
  Ask(One('x'));
  Ask(Many(3, 'c'));
  Ask(One('d'));
  Expire(GrantId('x'));
  const redis::Reply reply = Eval(scripts_.inspect, {}, {"1"});
  EXPECT_EQ(reply.elements[0].text, "semaphore");
  const std::vector<redis::Reply>& holders = reply.elements[2].elements;
  ASSERT_EQ(holders.size(), 2) << "none that expired";
  EXPECT_EQ(holders[0].elements[0].text, GrantId('a'));
  EXPECT_EQ(holders[0].elements[1].text, Of('a').client());
  EXPECT_NEAR(static_cast<double>(holders[0].elements[2].integer), 19500, 500);
  EXPECT_EQ(holders[0].elements[3].integer, 1);
  EXPECT_EQ(holders[1].elements[0].text, GrantId('b'));
  EXPECT_EQ(holders[1].elements[3].integer, 2);
  EXPECT_EQ(reply.elements[3].integer, 2);
  const std::vector<redis::Reply>& waiters = reply.elements[4].elements;
  ASSERT_EQ(waiters.size(), 1);
  EXPECT_EQ(waiters[0].elements[0].text, GrantId('c'));
  EXPECT_EQ(waiters[0].elements[1].text, Of('c').owner);
  EXPECT_EQ(waiters[0].elements[3].integer, 3);
  EXPECT_EQ(reply.elements[5].integer, 2) << "holders";
  EXPECT_EQ(reply.elements[6].integer, 4);
  EXPECT_EQ(reply.elements[7].integer, 3);
  EXPECT_EQ(Eval(scripts_.inspect, {}, {"0"}).DebugString(),
            "[\"semaphore\", \"0\", [], 2, [], 2, 4, 3]");
  EXPECT_THAT(Holding(), Contains(GrantId('x')));
}

}  // namespace
}  // namespace redlatch
