#include "src/engine/machine/debts.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/engine/machine/effects.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {
namespace {

using Kind = Released::Kind;

constexpr uint64_t kHold = 7;

class DebtsTest : public ::testing::Test {
 protected:
  static base::Instant At(int64_t millis) {
    return base::Instant::FromNanos(1'000'000'000) + absl::Milliseconds(millis);
  }
  // The release of grant 1, at the server until 1000, ours until 900.
  void AddRelease(uint64_t hold = kHold) {
    debts_.Add({.send = {.what = ToRelease(), .grant = 1, .lease = absl::Seconds(1)},
                .hold = hold,
                .deadline = At(900),
                .expires = At(1000),
                .due = At(0),
                .releases = true,
                .outcome = {.kind = Kind::kUnderWay, .hold = hold}});
  }
  void AddCancel(GrantId grant, int64_t expires, bool tombstone) {
    debts_.Add({.send = {.what = ToCancel{.tombstone = tombstone}, .grant = grant},
                .expires = At(expires),
                .due = At(0)});
  }
  Send Fetch(int64_t at) {
    auto due = debts_.Next(At(at));
    EXPECT_TRUE(due.has_value()) << at;
    return due ? due->send : Send();
  }
  void Hear(const Send& send, const Answer& answer, int64_t at) {
    debts_.OnAnswer(send, answer, At(at), effects_);
  }
  static Answer Unanswered() {
    return {.what = Failed{.why = absl::UnavailableError("silence"), .may_have_executed = true}};
  }
  static Answer Done() { return {.what = Freed()}; }
  static Answer NotHeld() { return {.what = engine::NotHeld()}; }

  Debts debts_;
  Effects effects_;
};

TEST_F(DebtsTest, ADebtIsFetchedOnceAndGoneWithItsAnswer) {
  AddCancel(1, 1000, false);
  EXPECT_EQ(debts_.due(), At(0));
  const Send send = Fetch(0);
  EXPECT_TRUE(std::holds_alternative<ToCancel>(send.what));
  EXPECT_FALSE(debts_.Next(At(0)).has_value()) << "it is in flight";
  EXPECT_EQ(debts_.due(), base::Instant::Infinite());
  Hear(send, {.what = Cancelled()}, 1);
  EXPECT_TRUE(debts_.empty());
}

TEST_F(DebtsTest, TheOutcomeOfAReleaseWaitsForWhoeverAsks) {
  AddRelease();
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kUnderWay);
  Hear(Fetch(0), Done(), 1);
  EXPECT_EQ(debts_.releasing(), 0U);
  EXPECT_FALSE(debts_.empty());
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kDone);
  EXPECT_TRUE(debts_.empty());
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kLost) << "it was told";
}

TEST_F(DebtsTest, AForgottenReleaseGoesOnAndLeavesNothing) {
  AddRelease();
  debts_.Forget(kHold);
  EXPECT_TRUE(debts_.Has(1));
  Hear(Fetch(0), Done(), 1);
  EXPECT_TRUE(debts_.empty());
}

TEST_F(DebtsTest, OnlyTheFirstTryIsTheFirst) {
  AddRelease();
  const auto first = debts_.NextOf(kHold, At(0));
  ASSERT_TRUE(first.has_value());
  EXPECT_TRUE(first->first);
  Hear(first->send, Unanswered(), 1);
  const auto second = debts_.Next(At(1));  // at once: the connection is another one by then
  ASSERT_TRUE(second.has_value());
  EXPECT_FALSE(second->first);
}

TEST_F(DebtsTest, NotHeldAfterAnUnansweredTryIsThatTrysWorkUnlessTheGrantMayHaveEnded) {
  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), NotHeld(), 899);
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kDone);

  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), NotHeld(), 900);
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kLost);
  EXPECT_EQ(debts_.failed(), 1U);
}

TEST_F(DebtsTest, WhatNothingCanBeLeftOfEndsAsLost) {
  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), Unanswered(), 2);
  EXPECT_FALSE(debts_.Next(At(1000)).has_value());
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kLost);
}

TEST_F(DebtsTest, AGrantThatHasItsLeaseAnewIsOwedForLonger) {
  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), Unanswered(), 2);
  debts_.Prolong(1, At(2000));
  EXPECT_TRUE(debts_.Next(At(1999)).has_value());
}

TEST_F(DebtsTest, ARequestThatAStoppedServerStillHasIsTakenBackBeyondItsTime) {
  AddCancel(1, 1000, true);
  Hear(Fetch(0), Unanswered(), 1);
  EXPECT_TRUE(debts_.Next(At(5000)).has_value());
}

TEST_F(DebtsTest, ARefusalIsToldAndEndsIt) {
  AddRelease();
  Hear(Fetch(0), {.what = Failed{.why = absl::PermissionDeniedError("no")}}, 1);
  ASSERT_EQ(effects_.notices.size(), 1U);
  EXPECT_EQ(effects_.notices[0].kind, Notice::Kind::kReleaseFailed);
  EXPECT_EQ(effects_.notices[0].remaining, absl::Milliseconds(999));
  EXPECT_EQ(debts_.Outcome(kHold).kind, Kind::kRefused);
}

TEST_F(DebtsTest, ARefusalOfTheConnectionAloneIsRepeated) {
  AddRelease();
  Hear(Fetch(0), {.what = Failed{.why = absl::PermissionDeniedError("no"), .not_sent = true}}, 1);
  EXPECT_TRUE(effects_.notices.empty());
  EXPECT_TRUE(debts_.Next(At(1)).has_value());
}

TEST_F(DebtsTest, AServerThatAnswersIsAskedAgainAtOnce) {
  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), Unanswered(), 2);
  EXPECT_GT(debts_.due(), At(2));
  EXPECT_TRUE(debts_.Hurry(At(3)));
  EXPECT_EQ(debts_.due(), At(3));
}

TEST_F(DebtsTest, ARepeatedCallMakesItDueAgain) {
  EXPECT_FALSE(debts_.Repeat(kHold, At(0)).has_value());
  AddRelease();
  Hear(Fetch(0), Unanswered(), 1);
  Hear(Fetch(1), Unanswered(), 2);
  EXPECT_EQ(debts_.Repeat(kHold, At(3))->kind, Kind::kUnderWay);
  EXPECT_EQ(debts_.due(), At(3));
}

TEST_F(DebtsTest, NobodysReleaseIsFoundByNoHold) {
  AddRelease(0);
  EXPECT_FALSE(debts_.NextOf(0, At(0)).has_value());
  EXPECT_FALSE(debts_.Repeat(0, At(0)).has_value());
  EXPECT_TRUE(debts_.Next(At(0)).has_value());
}

}  // namespace
}  // namespace redlatch::engine
