// `redlatch break`: a lock is taken from whoever holds it.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

using ::testing::ContainsRegex;

class RedlatchBreakTest : public RedlatchLookTest {
 protected:
  // Long before the next renewal of a lease of an hour.
  static bool Fires(const std::stop_token& lost) {
    base::Parker parker;
    const std::stop_callback wake(lost, [&] { parker.Set(1); });
    const base::Instant deadline = base::Now() + absl::Seconds(10);
    while (!lost.stop_requested() && base::Now() < deadline) parker.ParkUntil(deadline);
    return lost.stop_requested();
  }

  static constexpr absl::Duration kLong = absl::Hours(1);
  const Client client_ = NewClient({.program = "billing"});
  const Client other_ = NewClient({.program = "other"});
};

TEST_F(RedlatchBreakTest, SaysWhomItHitsTellsItAtOnceAndSaysWhoGotItNext) {
  SimpleLock lock(client_, "job", {.lease = kLong});
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  SimpleLock theirs(other_, "job");
  absl::StatusOr<Lease> got = absl::UnknownError("");
  const Waiting waiting([&](const AcquireOptions& how) { got = theirs.Acquire(how); });
  ASSERT_TRUE(AwaitQueued("redlatch:2:{job}:simple.queue"));

  const Outcome outcome = Redlatch({"break", "--yes", "job"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(
      outcome.output,
      AllOf(ContainsRegex("the lock \"job\" is held by:\n  " + Me("billing") + ", since .*\n"),
            ContainsRegex("Broken. It is now held by:\n  " + Me("other") + ", since ")));
  EXPECT_TRUE(Fires(lease->lost()));
  EXPECT_FALSE(lease->valid());
}

TEST_F(RedlatchBreakTest, BreaksEachKindOfLockForAllItsHolders) {
  ReentrantLock reentrant(client_, "reentrant", {.lease = kLong});
  const auto reentered = reentrant.Acquire();
  ReentrantReadWriteLock read(client_, "read", {.lease = kLong});
  const auto reads = read.AcquireRead();
  ReentrantReadWriteLock more(other_, "read", {.lease = kLong});
  const auto reads_too = more.AcquireRead();
  Semaphore slots(client_, "slots", 4, {.lease = kLong});
  const auto permit = slots.Acquire(2);
  ASSERT_TRUE(reentered.ok() && reads.ok() && reads_too.ok() && permit.ok());
  for (const char* const name : {"reentrant", "read", "slots"}) {
    const Outcome outcome = Redlatch({"break", "--yes", name});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("Broken. Nobody holds it now.\n"));
  }
  EXPECT_TRUE(Fires(reentered->lost()));
  EXPECT_TRUE(Fires(reads->lost()));
  EXPECT_TRUE(Fires(reads_too->lost()));
  EXPECT_TRUE(Fires(permit->lost()));
}

TEST_F(RedlatchBreakTest, EndsTheCommandOfRedlatchRun) {
  const auto run = StartRedlatch({"run", "job", "--", "sh", "-c", "echo held; exec sleep 60"});
  ASSERT_EQ(run->pipe().ReadLine(), "held");
  EXPECT_THAT(Redlatch({"break", "--yes", "job"}).output,
              ContainsRegex(absl::StrCat(Host(), ":[0-9]+ redlatch")));
  EXPECT_EQ(CodeOf(*run), 122);
  EXPECT_THAT(Errors(), HasSubstr("is lost (someone forced its release"));
}

TEST_F(RedlatchBreakTest, AsksOnATerminal) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  for (const char* const answer : {"n", " ", "what"}) {
    const Outcome outcome = OnTerminal("break job", answer);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr("is held by:"), HasSubstr("[y/N]"),
                                      HasSubstr("Nothing was done.")));
  }
  EXPECT_TRUE(lease->valid());
  const Outcome yes = OnTerminal("break job", "y");
  EXPECT_EQ(yes.code, 0) << yes.output;
  EXPECT_THAT(yes.output, HasSubstr("Broken."));
  EXPECT_TRUE(Fires(lease->lost()));
}

TEST_F(RedlatchBreakTest, DemandsAYesWhereNoTerminalIsThere) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  const Outcome outcome = Redlatch({"break", "job"});
  EXPECT_EQ(outcome.code, 125);
  EXPECT_THAT(outcome.errors, HasSubstr("--yes"));
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 1);
}

TEST_F(RedlatchBreakTest, DoesNothingWhereAnotherHasItByTheTimeOfTheAnswer) {
  if (!support::CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
  SimpleLock lock(client_, "job");
  auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  const auto command = StartOnTerminal("exec " REDLATCH_COMMAND " break job");
  ASSERT_THAT(command->pipe().ReadLine().value_or(""), HasSubstr("is held by:"));
  ASSERT_THAT(command->pipe().ReadLine().value_or(""), HasSubstr("billing"));
  ASSERT_TRUE(lease->Release().ok());
  SimpleLock theirs(other_, "job");
  const auto next = theirs.Acquire();
  ASSERT_TRUE(next.ok());
  command->pipe().WriteLine("y");
  EXPECT_THAT(OutputOf(*command), HasSubstr("nothing was done"));
  EXPECT_EQ(CodeOf(*command), 1);
  EXPECT_TRUE(next->valid());
}

TEST_F(RedlatchBreakTest, BreaksTheHoldOfAForeignProgram) {
  server_->Text({"SET", "job", "somebody", "NX", "PX", "60000"});
  const Outcome outcome = Redlatch({"break", "--yes", "job"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("\"somebody\", not by redlatch"));
  EXPECT_EQ(server_->Integer({"EXISTS", "job"}), 0);
}

TEST_F(RedlatchBreakTest, DoesNotTouchWhatMayBeAnotherProgramsData) {
  server_->Text({"SET", "price", "12"});
  server_->Text({"RPUSH", "jobs", "1"});
  for (const char* const key : {"price", "jobs"}) {
    const Outcome outcome = Redlatch({"break", "--yes", key});
    EXPECT_EQ(outcome.code, 123);
    EXPECT_THAT(outcome.errors, HasSubstr("may be another program's data"));
    EXPECT_THAT(outcome.output, IsEmpty());
    EXPECT_EQ(server_->Integer({"EXISTS", key}), 1);
  }
  // Somebody has waited for it: it is a lock.
  server_->Text({"SET", "redlatch:2:{price}:fence", "1", "PX", "60000"});
  EXPECT_EQ(Redlatch({"break", "--yes", "price"}).code, 0) << Errors();
  EXPECT_EQ(server_->Integer({"EXISTS", "price"}), 0);
}

TEST_F(RedlatchBreakTest, RefusesAKeyOfAnotherLockAndDeletesNothing) {
  SimpleLock lock(client_, "job");
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  ReentrantReadWriteLock data(client_, "{data}");
  const auto read = data.AcquireRead();
  const auto client = server_->Command({"KEYS", "redlatch:client:*"}).elements.at(0).text;
  // As SetUp's programs made them, and one that a user gave no expiry.
  const std::string keys[] = {"redlatch:2:{job}:fence", "redlatch:rw.tag:{data}:readers"};
  server_->Command({"PERSIST", keys[0]});
  for (const std::string& key : keys) {
    const Outcome outcome = Redlatch({"break", "--yes", key});
    EXPECT_EQ(outcome.code, 125) << outcome.output;
    EXPECT_THAT(outcome.errors, HasSubstr("\"" + key + "\" is a key of the lock \"" +
                                          (key == keys[0] ? "job" : "{data}") + "\""));
    EXPECT_EQ(server_->Integer({"EXISTS", key}), 1);
    EXPECT_EQ(Redlatch({"inspect", key}).code, 125);
  }
  EXPECT_EQ(Redlatch({"break", "--yes", client}).code, 125);
  EXPECT_EQ(server_->Integer({"EXISTS", client}), 1);
  EXPECT_TRUE(lease->valid());
}

TEST_F(RedlatchBreakTest, SaysWhatCannotBeBroken) {
  CountDownLatch latch(client_, "latch", 5);
  ASSERT_TRUE(latch.CountDown(2).ok());
  const Outcome of_latch = Redlatch({"break", "--yes", "latch"});
  EXPECT_EQ(of_latch.code, 123);
  EXPECT_THAT(of_latch.errors, AllOf(HasSubstr("nobody holds a latch"), HasSubstr("3 more")));
  EXPECT_EQ(latch.Count().value_or(-1), 3);

  server_->Text({"HSET", "own", "kind", "cooldown"});
  server_->Text({"SET", "redlatch:2:{own}:fence", "1"});
  const Outcome of_own = Redlatch({"break", "--yes", "own"});
  EXPECT_EQ(of_own.code, 123);
  EXPECT_THAT(of_own.errors, HasSubstr("ForceRelease()"));
  EXPECT_EQ(server_->Integer({"EXISTS", "own"}), 1);
}

TEST_F(RedlatchBreakTest, LeavesALockOfAnotherVersionAlone) {
  server_->Text({"HSET", "job", "kind", "reentrant/3", "owner", "x", "holds", "1"});
  server_->Text({"PEXPIRE", "job", "60000"});
  const Outcome outcome = Redlatch({"break", "--yes", "job"});
  EXPECT_EQ(outcome.code, 123);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("another version of redlatch, \"reentrant/3\""),
                                    HasSubstr("docs/upgrading.md")));
  EXPECT_THAT(Redlatch({"inspect", "job"}).output, HasSubstr("another version of redlatch"));
  EXPECT_EQ(server_->Integer({"HLEN", "job"}), 3);
}

TEST_F(RedlatchBreakTest, DoesNothingWhereNobodyHoldsIt) {
  SimpleLock lock(client_, "free");
  ASSERT_TRUE(lock.Acquire().ok());
  const Outcome of_free = Redlatch({"break", "--yes", "free"});
  EXPECT_EQ(of_free.code, 0);
  EXPECT_THAT(of_free.output, HasSubstr("nothing to break"));
  const Outcome unused = Redlatch({"break", "--yes", "unused"});
  EXPECT_EQ(unused.code, 1);
  EXPECT_THAT(unused.errors, HasSubstr("there is no lock"));
}

// `redlatch capacity`: how many permits a semaphore has.

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
