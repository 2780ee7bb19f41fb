// A checker that finds nothing proves nothing: each kind of violation is planted here.
#include "tests/support/history_checker.h"

#include <signal.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/lock_history.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace redlatch::support {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

base::Instant At(int64_t ms) { return base::Instant::FromNanos(ms * 1'000'000); }

Acquisition Held(int64_t owner, int64_t invoked, int64_t returned, int64_t until, uint64_t token,
                 int lock = 0) {
  return {.lock = lock,
          .owner = owner,
          .waits = true,
          .outcome = Acquisition::Outcome::kHeld,
          .invoked = At(invoked),
          .returned = At(returned),
          .token = token,
          .certain_until = At(until)};
}

Acquisition Read(int64_t owner, int64_t invoked, int64_t returned, int64_t until, uint64_t token) {
  Acquisition one = Held(owner, invoked, returned, until, token);
  one.shared = true;
  return one;
}

Acquisition Permits(int64_t owner, int64_t invoked, int64_t returned, int64_t until, int permits) {
  Acquisition one = Held(owner, invoked, returned, until, /*token=*/0);
  one.permits = permits;
  return one;
}

Acquisition Unknown(int64_t owner, int64_t invoked) {
  return {.owner = owner, .waits = true, .invoked = At(invoked)};
}

TEST(HistoryChecker, AcceptsHoldsThatFollowOneAnother) {
  const History history{.acquisitions = {Held(1, 0, 10, 20, 1), Held(2, 0, 20, 30, 2),
                                         Held(3, 0, 12, 18, 1, /*lock=*/1), Unknown(4, 5)}};
  EXPECT_THAT(CheckExclusion(history), IsEmpty());
  EXPECT_THAT(CheckTokens(history), IsEmpty());
}

TEST(HistoryChecker, FindsTwoWhoHoldAtTheSameTime) {
  const History history{.acquisitions = {Held(1, 0, 10, 20, 1), Held(2, 0, 19, 30, 2)}};
  EXPECT_THAT(CheckExclusion(history), ElementsAre(HasSubstr("two hold")));
}

TEST(HistoryChecker, FindsAShortHoldWithinALongOne) {
  const History history{
      .acquisitions = {Held(1, 0, 10, 90, 1), Held(1, 12, 13, 95, 1), Held(2, 0, 40, 41, 2)}};
  EXPECT_THAT(CheckExclusion(history), SizeIs(1));
}

TEST(HistoryChecker, FindsAnOverlapBehindAnotherOfTheSameOwner) {
  const History history{
      .acquisitions = {Held(2, 0, 10, 50, 1), Held(1, 0, 20, 90, 2), Held(1, 0, 30, 40, 3)}};
  EXPECT_THAT(CheckExclusion(history), SizeIs(2));
}

TEST(HistoryChecker, LetsOneOwnerHoldTwice) {
  const History history{.acquisitions = {Held(1, 0, 10, 20, 1), Held(1, 0, 12, 30, 2)}};
  EXPECT_THAT(CheckExclusion(history), IsEmpty());
}

TEST(HistoryChecker, LetsPermitsBeHeldUpToTheCapacity) {
  const History history{.acquisitions = {Permits(1, 0, 10, 30, 2), Permits(2, 0, 10, 20, 1),
                                         Permits(3, 0, 20, 30, 1), Permits(1, 0, 30, 40, 3)}};
  EXPECT_THAT(CheckCapacity(history, {3}), IsEmpty());
}

TEST(HistoryChecker, FindsMorePermitsThanThereAre) {
  const History history{.acquisitions = {Permits(1, 0, 10, 90, 2), Permits(1, 0, 20, 30, 1),
                                         Permits(2, 0, 29, 40, 1), Permits(3, 0, 40, 41, 1)}};
  EXPECT_THAT(CheckCapacity(history, {3}), ElementsAre(HasSubstr("4 permits are held")));
}

TEST(HistoryChecker, CountsThePermitsOfEachSemaphoreForItself) {
  History history{.acquisitions = {Permits(1, 0, 10, 90, 2), Permits(2, 0, 20, 30, 2)}};
  history.acquisitions[1].lock = 1;
  EXPECT_THAT(CheckCapacity(history, {2, 2}), IsEmpty());
  EXPECT_THAT(CheckCapacity(history, {2, 1}), SizeIs(1));
}

TEST(HistoryChecker, DoesNotCountPermitsThatWereForced) {
  const History history{.acquisitions = {Permits(1, 0, 10, 90, 3), Permits(2, 0, 25, 30, 1)},
                        .forced = {{.lock = 0, .invoked = At(20), .returned = At(22)}}};
  EXPECT_THAT(CheckCapacity(history, {3}), IsEmpty());
}

TEST(HistoryChecker, LetsReadersHoldAtTheSameTimeWithOneToken) {
  const History history{.acquisitions = {Held(1, 0, 1, 5, 7), Read(2, 0, 10, 30, 7),
                                         Read(3, 0, 20, 40, 7), Read(4, 50, 51, 60, 7)}};
  EXPECT_THAT(CheckExclusion(history), IsEmpty());
  EXPECT_THAT(CheckTokens(history), IsEmpty());
}

TEST(HistoryChecker, FindsAWriterAmongReadersAndAReaderAtAWriters) {
  EXPECT_THAT(CheckExclusion({.acquisitions = {Read(1, 0, 10, 30, 0), Read(2, 0, 11, 12, 0),
                                               Held(3, 0, 20, 40, 1)}}),
              SizeIs(1));
  EXPECT_THAT(CheckExclusion({.acquisitions = {Held(1, 0, 10, 30, 1), Read(2, 0, 20, 40, 1)}}),
              ElementsAre(HasSubstr("read")));
}

TEST(HistoryChecker, FindsAReaderWithATokenOfBeforeTheLastWrite) {
  const History history{.acquisitions = {Held(1, 0, 10, 11, 7), Read(2, 12, 14, 20, 6)}};
  EXPECT_THAT(CheckTokens(history), ElementsAre(HasSubstr("does not grow")));
}

TEST(HistoryChecker, FindsAWriterWithTheTokenOfAnEarlierReader) {
  const History history{.acquisitions = {Read(1, 0, 10, 11, 7), Held(2, 12, 14, 20, 7)}};
  EXPECT_THAT(CheckTokens(history), ElementsAre(HasSubstr("does not grow")));
}

TEST(HistoryChecker, DoubtsAHoldFromTheCallOfAForcedRelease) {
  History history{.acquisitions = {Held(1, 0, 10, 40, 1), Held(2, 0, 20, 30, 2)}};
  history.forced = {{.lock = 0, .invoked = At(15), .returned = At(16)}};
  EXPECT_THAT(CheckExclusion(history), IsEmpty());
  history.forced = {{.lock = 0, .invoked = At(25), .returned = At(26)}};
  EXPECT_THAT(CheckExclusion(history), SizeIs(1));
  history.forced = {{.lock = 1, .invoked = At(15), .returned = At(16)}};
  EXPECT_THAT(CheckExclusion(history), SizeIs(1));
}

TEST(HistoryChecker, IsSureOfAHoldThatWasAskedForAfterAForcedRelease) {
  History history{.acquisitions = {Held(1, 5, 10, 40, 1), Held(2, 5, 20, 30, 2)}};
  history.forced = {{.lock = 0, .invoked = At(1), .returned = At(4)}};
  EXPECT_THAT(CheckExclusion(history), SizeIs(1));
}

TEST(HistoryChecker, FindsATokenThatIsSmallerThanAnEarlierOne) {
  const History history{.acquisitions = {Held(1, 0, 10, 11, 7), Held(2, 12, 14, 20, 6)}};
  EXPECT_THAT(CheckTokens(history), ElementsAre(HasSubstr("does not grow")));
}

TEST(HistoryChecker, AcceptsEitherOrderOfTokensWhereCallsOverlap) {
  const History history{.acquisitions = {Held(1, 0, 10, 11, 7), Held(2, 9, 14, 20, 6)}};
  EXPECT_THAT(CheckTokens(history), IsEmpty());
}

TEST(HistoryChecker, FindsATokenThatTwoWereGiven) {
  const History history{.acquisitions = {Held(1, 0, 10, 11, 7), Held(2, 9, 14, 20, 7)}};
  EXPECT_THAT(CheckTokens(history), ElementsAre(HasSubstr("one token for two")));
}

TEST(HistoryChecker, AcceptsATokenThatTheHoldsOfOneOwnerShare) {
  History history{.acquisitions = {Held(-2, 0, 10, 30, 7), Held(-2, 12, 14, 20, 7)}};
  EXPECT_THAT(CheckTokens(history), IsEmpty());
  history.acquisitions[1].token = 6;
  EXPECT_THAT(CheckTokens(history), ElementsAre(HasSubstr("does not grow")));
  history.acquisitions[1] = Held(-3, 12, 14, 20, 7);
  EXPECT_THAT(CheckTokens(history), SizeIs(2));
  history.acquisitions = {Held(1, 0, 10, 30, 7), Held(1, 12, 14, 20, 7)};  // one thread's
  EXPECT_THAT(CheckTokens(history), SizeIs(2));
}

TEST(HistoryChecker, FindsAWaiterWhoSleepsWhileTheLockIsFree) {
  const History history{.acquisitions = {Held(1, 0, 100, 200, 1), Held(2, 150, 900, 950, 2)}};
  EXPECT_THAT(CheckProgress(history, At(0), At(1000), absl::Milliseconds(699)),
              ElementsAre(HasSubstr("free for 700ms")));
  EXPECT_THAT(CheckProgress(history, At(0), At(1000), absl::Milliseconds(700)), IsEmpty());
  EXPECT_THAT(CheckProgress(history, At(300), At(1000), absl::Milliseconds(650)), IsEmpty());
}

TEST(HistoryChecker, FindsAWaiterWhoNeverGetsAFreeLock) {
  const History history{.acquisitions = {Held(1, 0, 100, 200, 1), Unknown(2, 150)}};
  EXPECT_THAT(CheckProgress(history, At(0), At(1000), absl::Milliseconds(700)), SizeIs(1));
  EXPECT_THAT(CheckProgress(history, At(0), At(1000), absl::Milliseconds(800)), IsEmpty());
}

TEST(HistoryChecker, AcceptsALongWaitForALockThatOthersHave) {
  const History history{
      .acquisitions = {Held(1, 0, 10, 400, 1), Held(2, 0, 410, 800, 2), Held(3, 0, 810, 900, 3)}};
  EXPECT_THAT(CheckProgress(history, At(0), At(1000), absl::Milliseconds(50)), IsEmpty());
}

TEST(LockHistory, IsReadAfterTheWriterWasKilled) {
  const TempDir directory;
  const std::string path = directory.path() + "/history";
  const auto writer = Child::Fork([&](LinePipe& parent) {
    HistoryWriter history(path, 3);
    const uint32_t kept = history.Invoke(5, 7, /*waits=*/true);
    history.Held(kept, 42);
    history.Remaining(kept, At(100), absl::Milliseconds(20));
    history.Remaining(kept, At(110), absl::Milliseconds(30));
    history.Refused(history.Invoke(6, -8, /*waits=*/false));
    const uint32_t lost = history.Invoke(5, 7, /*waits=*/false);
    history.Held(lost, 43);
    history.Remaining(lost, At(100), absl::ZeroDuration());
    history.Invoke(5, 9, /*waits=*/true, /*shared=*/false, /*permits=*/3);
    parent.WriteLine("written");
    parent.ReadLine();
    return 0;
  });
  ASSERT_EQ(writer->pipe().ReadLine(), "written");
  writer->Kill();
  const std::vector<Acquisition> read = ReadHistory(path);
  ASSERT_THAT(read, SizeIs(4));
  EXPECT_EQ(read[0].lock, 5);
  EXPECT_EQ(read[0].owner, 3007);
  EXPECT_TRUE(read[0].waits);
  EXPECT_EQ(read[0].outcome, Acquisition::Outcome::kHeld);
  EXPECT_EQ(read[0].token, 42U);
  EXPECT_EQ(read[0].certain_until, At(140));
  EXPECT_LE(read[0].invoked, read[0].returned);
  EXPECT_EQ(read[1].outcome, Acquisition::Outcome::kRefused);
  EXPECT_EQ(read[1].owner, -8);
  EXPECT_EQ(read[2].certain_until, base::Instant());  // never certain
  EXPECT_EQ(read[3].outcome, Acquisition::Outcome::kUnknown);
  EXPECT_TRUE(read[3].returned.is_infinite());
  EXPECT_EQ(read[0].permits, 1);
  EXPECT_EQ(read[3].permits, 3);
}

}  // namespace
}  // namespace redlatch::support
