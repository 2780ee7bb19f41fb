// What the semaphore's scripts do for those who hold permits.

#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class SemaphoreScriptsTest : public SemaphoreScriptsFixture {};

TEST_F(SemaphoreScriptsTest, SoManyAsTheCapacityGetInAndTheNextIsRefusedOrQueued) {
  EXPECT_EQ(Acquire(One('a')), Granted());
  EXPECT_EQ(Acquire(For(20000, One('b'))), Granted(20000));
  const redis::Reply busy = Ask(Impatient(One('c')));
  EXPECT_EQ(First(busy), "busy");
  EXPECT_GT(busy.elements[1].integer, 19000);
  EXPECT_LE(busy.elements[1].integer, 20000);
  EXPECT_THAT(Waiting(), IsEmpty());
  for (const char client : {'d', 'c'}) {
    const redis::Reply queued = Ask(One(client));
    EXPECT_EQ(First(queued), "queued");
    EXPECT_EQ(queued.elements[2].integer, client == 'd' ? 0 : 1);
    EXPECT_EQ(queued.elements[1].integer > 19000, client == 'd') << "told to the head only";
  }
  EXPECT_THAT(Waiting(), ElementsAre(Hold('d'), Hold('c')));
  EXPECT_THAT(Holding(), UnorderedElementsAre(Hold('a'), Hold('b')));
}

TEST_F(SemaphoreScriptsTest, ItIsAHashThatOutlivesItsHoldsByADay) {
  Ask(One('a'));
  EXPECT_EQ(Field("kind"), "semaphore/2");
  EXPECT_EQ(Field("capacity"), "2");
  EXPECT_EQ(Field("set_by"), "constructor");
  EXPECT_EQ(server_->Integer({"HLEN", name_}), 4);
  EXPECT_GT(Pttl(name_), 86'400'000 + 29'000);
  EXPECT_LE(Pttl(name_), 25 * 3'600'000);
  EXPECT_GT(Pttl(Permits()), 29'000);
  EXPECT_LE(Pttl(Permits()), 30'001);
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 1);
}

TEST_F(SemaphoreScriptsTest, ADayThatIsNearlyOverIsMadeWholeByWhoeverHoldsNext) {
  Ear c(*server_, Channel('c'));
  Ask(One('a'));
  const auto age = [this] {
    const int64_t until = std::stoll(Field("until")) - 700'000'000;
    server_->Command({"HSET", name_, "until", absl::StrCat(until)});
    server_->Command({"PEXPIREAT", name_, absl::StrCat(until / 1000)});
    EXPECT_LT(Pttl(name_), 86'400'000);
  };
  const auto expect_whole = [this] { EXPECT_GT(Pttl(name_), 86'400'000 + 29'000); };
  age();
  EXPECT_EQ(Outcome(One('b')), "granted");
  expect_whole();
  age();
  EXPECT_EQ(Outcome(One('b')), "granted") << "a repeat";
  expect_whole();
  age();
  EXPECT_EQ(Renew(One('a')), kHeld);
  expect_whole();
  Ask(One('c'));
  age();
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(c.Hear(), GrantOf(One('c')));
  expect_whole();
  age();
  EXPECT_EQ(SetCapacity(2), kSet);
  EXPECT_GT(Pttl(name_), 86'400'000);
  EXPECT_EQ(Release(One('b')), kReleased);
}

TEST_F(SemaphoreScriptsTest, AnythingLongerIsNotShortened) {
  const int day = 86'400'000;
  Ask(For(2 * day, One('a')));
  const int64_t key = Pttl(name_), permits = Pttl(Permits());
  EXPECT_GT(key, 3LL * day);
  Ask(For(10, One('b')));
  Renew(For(10, One('a')));
  SetCapacity(3);
  Ask(For(10, Many(2, 'c')));
  Ask(For(10, One('b')));
  EXPECT_GT(Pttl(name_), key - 10'000);
  EXPECT_GT(Pttl(Permits()), permits - 10'000);
}

TEST_F(SemaphoreScriptsTest, AHoldMayHaveManyPermits) {
  capacity_ = 5;
  EXPECT_EQ(Acquire(Many(3, 'a')), Granted());
  EXPECT_EQ(Acquire(Again(Many(3, 'a'))), Granted());
  EXPECT_EQ(Field(Hold('a')), "3");
  EXPECT_EQ(Field("extra"), "2");
  EXPECT_EQ(Outcome(Impatient(Many(3, 'b'))), "busy");
  EXPECT_EQ(Acquire(Impatient(One('c'))), Granted());
  EXPECT_EQ(Acquire(Impatient(One('d'))), Granted());
  EXPECT_EQ(Outcome(Impatient(One('e'))), "busy");
  EXPECT_EQ(Used(), 5);
  EXPECT_EQ(Release(One('d')), kReleased) << "past the weight of another";
  EXPECT_EQ(Used(), 4);
  EXPECT_EQ(Release(Many(3, 'a')), kReleased);
  EXPECT_EQ(Release(Many(3, 'a')), kNotHeld);
  EXPECT_EQ(Used(), 1);
  EXPECT_EQ(Acquire(Impatient(Many(4, 'b'))), Granted());
}

// Expiry.

TEST_F(SemaphoreScriptsTest, AnExpiredHoldThatNobodyHasRemovedCanStillBeReleasedButNotRenewed) {
  for (const int gone_ms : {0, 5000}) {
    for (const int weight : {1, 2}) {
      server_->Command({"FLUSHALL"});
      capacity_ = 3;
      Ask(One('b'));
      Ask(Many(weight, 'a'));
      Expire(Hold('a'));
      EXPECT_EQ(Renew(Many(weight, 'a')), kNotHeld);
      EXPECT_EQ(Release(Many(weight, 'a'), 0, 0, gone_ms), kReleased);
      EXPECT_EQ(Release(Many(weight, 'a'), 0, 0, gone_ms), kNotHeld);
      EXPECT_EQ(Used(), 1);
      ExpectConsistent();
    }
  }
  Ask(One('c'));
  Expire(Hold('c'));
  EXPECT_EQ(Cancel(One('c')), kPassedOn);
}

TEST_F(SemaphoreScriptsTest, WeightsAreVoidWhenAllHoldsHaveExpiredWithTheirKey) {
  capacity_ = 4;
  struct Way {
    std::function<std::string()> call;
    std::string reply;
    int used = 0;
  };
  const std::vector<Way> ways = {{[&] { return Acquire(One('c')); }, Granted(), 1},
                                 {[&] { return Acquire(Many(4, 'c')); }, Granted(), 4},
                                 {[&] { return Acquire(Many(2, 'a')); }, Granted(), 2},
                                 {[&] { return Release(Many(2, 'a')); }, kNotHeld},
                                 {[&] { return Release(Many(2, 'a'), 0, 0, 5000); }, kNotHeld},
                                 {[&] { return Cancel(Many(2, 'a')); }, kUnknown},
                                 {[&] { return SetCapacity(4); }, kSet},
                                 {[&] { return ForceRelease(); }, kFree}};
  for (const Way& way : ways) {
    SCOPED_TRACE(&way - ways.data());
    server_->Command({"FLUSHALL"});
    Ask(For(100, Many(2, 'a')));
    Ask(For(100, Many(2, 'b')));
    AwaitExpiry(Permits());
    EXPECT_EQ(Field("extra"), "2");
    EXPECT_EQ(Used(), 0);
    EXPECT_EQ(way.call(), way.reply);
    EXPECT_EQ(Used(), way.used);
    ExpectConsistent();
  }
}

TEST_F(SemaphoreScriptsTest, ASemaphoreThatWasForgottenWhileHeldIsStoredAnew) {
  Ear c(*server_, Channel('c'));
  Ask(One('a'));
  Ask(One('b'));
  Ask(One('c'));
  server_->Command({"DEL", name_});
  EXPECT_EQ(Renew(One('a')), kHeld);
  EXPECT_EQ(Acquire(Again(One('a'))), Granted());
  EXPECT_EQ(server_->Integer({"EXISTS", name_}), 0) << "only half of it is known";
  EXPECT_EQ(Release(One('a')), kReleased);
  EXPECT_EQ(Acquire(Again(One('c'))), Granted());
  EXPECT_EQ(Field("capacity"), "2");
  EXPECT_EQ(Outcome(Impatient(One('d'))), "busy");
}

// Repeated and late requests.

TEST_F(SemaphoreScriptsTest, AFirstAttemptThatComesAfterTheGrantOfASecondIsAnsweredWithThat) {
  Ask(Again(One('a')));
  Ask(One('b'));
  EXPECT_EQ(Outcome(One('a')), "granted");
  EXPECT_EQ(Outcome(Impatient(One('a'))), "granted");
  EXPECT_THAT(Waiting(), IsEmpty());
  Ask(One('c'));
  EXPECT_EQ(Outcome(One('a')), "granted") << "where somebody waits";
  EXPECT_THAT(Waiting(), ElementsAre(Hold('c')));
}

}  // namespace
}  // namespace redlatch
