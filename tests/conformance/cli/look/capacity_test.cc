// `redlatch capacity`: how many permits a semaphore has.

#include "tests/conformance/cli/look/fixture.h"

namespace redlatch {
namespace {

class RedlatchCapacityTest : public RedlatchLookTest {
 protected:
  const Client client_ = NewClient();
};

TEST_F(RedlatchCapacityTest, PrintsWhatIsStoredAndSetsIt) {
  Semaphore slots(client_, "slots", 3);
  ASSERT_TRUE(slots.Acquire().ok());
  const Outcome outcome = Redlatch({"capacity", "slots"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "3\n");
  EXPECT_EQ(Redlatch({"capacity", "slots", "2"}).output,
            "semaphore \"slots\": 2 permits in all, 3 before\n");
  EXPECT_EQ(Redlatch({"capacity", "slots"}).output, "2\n");
}

TEST_F(RedlatchCapacityTest, LetsThoseInWhoWereRefusedForNamingAnother) {
  const auto run = [&](const char* capacity) {
    return Redlatch({"run", "--capacity", capacity, "slots", "--", "echo", "ran"});
  };
  ASSERT_EQ(run("3").code, 0);
  const Outcome refused = run("4");
  EXPECT_EQ(refused.code, 123);
  EXPECT_THAT(refused.errors,
              HasSubstr("semaphore \"slots\" has 3 permits in all, not 4; say --capacity 3, or "
                        "change it for everyone: redlatch capacity slots 4\n"));
  EXPECT_EQ(Redlatch({"capacity", "slots", "4"}).code, 0);
  EXPECT_EQ(run("4").output, "ran\n");
  EXPECT_EQ(run("3").output, "ran\n") << "what was set counts, whatever else is said";
}

TEST_F(RedlatchCapacityTest, SetsItBeforeAnybodyHasUsedTheName) {
  const Outcome outcome = Redlatch({"capacity", "slots", "5"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, StartsWith("semaphore \"slots\": 5 permits in all, nobody"));
  EXPECT_EQ(Redlatch({"capacity", "slots"}).output, "5\n");
}

TEST_F(RedlatchCapacityTest, SaysThatThereIsNoSuchSemaphore) {
  const Outcome outcome = Redlatch({"capacity", "no\x1bsuch"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("there is no semaphore \"no\\x1bsuch\""));
}

TEST_F(RedlatchCapacityTest, LeavesAloneWhatIsNoSemaphore) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  server_->Text({"RPUSH", "jobs", "1"});
  for (const char* const name : {"job", "jobs"}) {
    const int64_t keys = server_->Integer({"DBSIZE"});
    for (const Words& words : {Words{"capacity", name}, Words{"capacity", name, "3"}}) {
      const Outcome outcome = Redlatch(words);
      EXPECT_EQ(outcome.code, 123);
      EXPECT_THAT(outcome.errors, HasSubstr("is not a semaphore"));
    }
    EXPECT_EQ(server_->Integer({"DBSIZE"}), keys);
  }
}

}  // namespace
}  // namespace redlatch
