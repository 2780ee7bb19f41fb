// A quorum's tokens: by RedLock's rule they grow in every schedule; by one that looks as good they
// do not. REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/test_scale.h"
#include "tests/unit/quorum/quorum_model.h"
#include "tests/unit/quorum/random_quorum.h"

namespace redlatch::quorum {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using State = ModelClient::State;

constexpr int kTokenSchedules = 40'000;

TEST(TokenRule, TokensRaisedWhereTheHoldStandsGrow) {
  const Outcome outcome =
      RunSchedules("raised where the hold stands", support::Scaled(kTokenSchedules), {});
  EXPECT_THAT(outcome.falling, IsEmpty());
  EXPECT_THAT(outcome.overlapping, IsEmpty());
  EXPECT_GT(outcome.leases, outcome.schedules);
  EXPECT_GT(outcome.raises, outcome.schedules);
}

// That these schedules can show it. Never fewer: one in a thousand does.
TEST(TokenRule, TokensWrittenToAnyMajorityMayFall) {
  const Outcome outcome =
      RunSchedules("written to any majority", kTokenSchedules, {.rule = TokenRule::kAnyMajority});
  EXPECT_THAT(outcome.falling, Not(IsEmpty()));
  EXPECT_THAT(outcome.overlapping, IsEmpty());
}

// A step forward ends leases early, before their holders stop believing in them: then one may come
// late with its smaller token, which a store refuses. But no two have the same one.
TEST(TokenRule, ClocksThatStepFurtherThanTheMarginLetLeasesOverlapWithDifferentTokens) {
  const Outcome outcome = RunSchedules("clocks step far forward", 10'000,
                                       {.hazardous = true, .forward = 10 * ModelClient::kLease});
  EXPECT_THAT(outcome.overlapping, Not(IsEmpty()));
  EXPECT_THAT(outcome.repeating, IsEmpty());
}

constexpr int kA = 0;
constexpr int kB = 1;

// Of nodes 0 to 4 the clock of 0 is ahead. B, which is slow, has been granted 3 and 4; A has been
// granted 0, 1 and 2, and its token, which is that of 0, has come to 0, 3 and 4.
QuorumModel WhileARoundIsSlow(TokenRule rule) {
  QuorumModel model(rule, {5'000, 0, 0, 0, 0}, 2);
  model.WriteTo({0, 3, 4});
  model.Ask(kB);
  for (int n : {3, 4}) model.Exchange(kB, n);
  model.Ask(kA);
  for (int n : {3, 4, 0, 1, 2}) model.Exchange(kA, n);
  EXPECT_EQ(model.client(kA).state(), State::kRaising);
  for (int n : {0, 3, 4}) model.Exchange(kA, n);
  return model;
}

// A releases, and B is granted 1 as well.
void PassOn(QuorumModel& model) {
  model.Release(kA);
  model.Execute(kA, 1);
  model.WriteTo({1, 3, 4});
  model.Exchange(kB, 1);
  for (int n : {1, 3, 4}) model.Exchange(kB, n);
  EXPECT_EQ(model.client(kB).state(), State::kHolding);
}

TEST(TokenRule, ATokenWrittenWhereASlowRoundStandsIsNotSeenByIt) {
  QuorumModel model = WhileARoundIsSlow(TokenRule::kAnyMajority);
  EXPECT_EQ(model.client(kA).state(), State::kHolding);
  PassOn(model);
  EXPECT_LT(model.client(kB).token(), model.client(kA).token());
  EXPECT_EQ(model.counts().falls, 1);
}

TEST(TokenRule, ATokenIsRaisedOnTheNodesThatASlowRoundHasYetToAsk) {
  QuorumModel model = WhileARoundIsSlow(TokenRule::kWhereTheHoldStands);
  EXPECT_EQ(model.client(kA).state(), State::kRaising);  // 3 and 4 have refused
  for (int n : {1, 2}) model.Exchange(kA, n);
  EXPECT_EQ(model.client(kA).state(), State::kHolding);
  PassOn(model);
  EXPECT_GT(model.client(kB).token(), model.client(kA).token());
  EXPECT_EQ(model.counts().falls, 0);
}

// B has been granted 0 and 1, and the clock of 1 ends that. A is granted 1 and 2, and releases 2,
// which then grants B: with a larger token than the one that B has chosen by then.
TEST(TokenRule, ATokenIsNotRaisedWhereALargerOneWasGiven) {
  QuorumModel model(TokenRule::kWhereTheHoldStands, {9'000, 0, 9'000}, 2);
  model.Ask(kB, 0, /*waits_for_all=*/false);
  for (int n : {0, 1}) model.Exchange(kB, n);
  ASSERT_EQ(model.client(kB).state(), State::kRaising);
  model.StepClock(1, ModelClient::kLease);
  model.Ask(kA);
  for (int n : {1, 2, 1, 2}) model.Exchange(kA, n);
  ASSERT_EQ(model.client(kA).state(), State::kHolding);
  model.Release(kA);
  model.Execute(kA, 2);
  for (int n : {2, 0, 1, 2}) model.Exchange(kB, n);
  EXPECT_EQ(model.client(kB).state(), State::kIdle);
  EXPECT_EQ(model.counts().leases, 1);
}

TEST(TokenRule, ATokenThatAMajorityAnswersNeedsNoRaising) {
  QuorumModel model(TokenRule::kWhereTheHoldStands, {5'000, 0, -3'000}, 1);
  model.Ask(kA, /*proposal=*/model.now() + 1'000, /*waits_for_all=*/true);
  for (int n : {0, 1}) model.Exchange(kA, n);
  EXPECT_EQ(model.client(kA).state(), State::kAsking);  // they differ: it waits for the last
  model.Exchange(kA, 2);
  EXPECT_EQ(model.client(kA).state(), State::kHolding);
  EXPECT_EQ(model.counts().raises, 0);
}

}  // namespace
}  // namespace redlatch::quorum
