#include <stop_token>

#include "src/base/clock.h"
#include "src/lock/state/hold_state.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

struct JointHoldStateTest : ::testing::Test {
  static base::Instant At(int seconds) {
    return base::Instant::FromNanos(absl::ToInt64Nanoseconds(absl::Seconds(seconds)));
  }

  const std::shared_ptr<HoldState> a_ = std::make_shared<HoldState>(At(10));
  const std::shared_ptr<HoldState> b_ = std::make_shared<HoldState>(At(20));
  std::optional<JointHoldState> both_{
      std::in_place,
      std::vector<JointHoldState::Part>{{"a", FencingToken(1), a_}, {"b", FencingToken(2), b_}}};
};

TEST_F(JointHoldStateTest, LastsUntilFirstPartEnds) {
  EXPECT_EQ(both_->Deadline(), At(10));
  a_->Prolong(At(30));
  EXPECT_EQ(both_->Deadline(), At(20));
  EXPECT_TRUE(both_->Valid(At(19)));
  EXPECT_FALSE(both_->Valid(At(20)));
}

TEST_F(JointHoldStateTest, IsLostWithFirstLostPart) {
  const std::stop_token lost = both_->Lost(At(1));
  EXPECT_FALSE(lost.stop_requested());
  b_->Lose();
  EXPECT_FALSE(both_->Valid(At(1)));
  EXPECT_FALSE(lost.stop_requested()) << "tokens fire by themselves";
  EXPECT_TRUE(both_->Lost(At(1)).stop_requested());
  b_->Fire();
  EXPECT_TRUE(lost.stop_requested());
  both_.reset();
  a_->Fire();  // the joint one is gone
}

TEST_F(JointHoldStateTest, HasTokenPerUniqueName) {
  EXPECT_EQ(both_->TokenOf("b"), FencingToken(2));
  EXPECT_EQ(both_->TokenOf("c"), FencingToken());
  const JointHoldState same(
      std::vector<JointHoldState::Part>{{"a", FencingToken(1), a_}, {"a", FencingToken(2), b_}});
  EXPECT_EQ(same.TokenOf("a"), FencingToken());
}

TEST_F(JointHoldStateTest, CountsReplicasThatConfirmedAllParts) {
  a_->SetAckedBy(3);
  EXPECT_EQ(both_->acked_by(), 0);
  b_->SetAckedBy(2);
  EXPECT_EQ(both_->acked_by(), 2);
}

}  // namespace
}  // namespace redlatch::internal
