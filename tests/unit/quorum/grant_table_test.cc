#include "src/quorum/quorum.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

constexpr GrantId kGrant = 1;
constexpr absl::Duration kLease = absl::Seconds(30);

class GrantTableTest : public ::testing::Test {
 protected:
  // How long a node gets the grant when it is healed; zero: it is not healed.
  absl::Duration HealedFor() {
    absl::Duration lease;
    grants_.WhileItStands(kGrant, [&](const GrantTable::Grant& grant) { lease = grant.lease; });
    return lease;
  }

  const base::Instant now_ = base::Now();
  GrantTable grants_;
};

TEST_F(GrantTableTest, RefusedGrantIsNotHealed) {
  grants_.OnAcquire(kGrant, kLease, now_);
  EXPECT_EQ(HealedFor(), absl::ZeroDuration());
}

TEST_F(GrantTableTest, UnconfirmedRenewalProlongsOnlyTombstones) {
  grants_.OnAcquire(kGrant, kLease, now_);
  grants_.OnGranted(kGrant, 1, 7, now_ + kLease);
  grants_.OnRenew(kGrant, absl::Minutes(10), now_);
  EXPECT_LE(HealedFor(), kLease);
  grants_.OnRenewed(kGrant, now_ + absl::Minutes(10));
  EXPECT_GT(HealedFor(), kLease);
  const auto ended = grants_.End(kGrant);
  ASSERT_TRUE(ended.has_value());
  EXPECT_GT(ended->lease, absl::Seconds(500));
  EXPECT_EQ(HealedFor(), absl::ZeroDuration());
}

TEST_F(GrantTableTest, SplitsAreCountedUntilRoundSucceeds) {
  grants_.OnAcquire(kGrant, kLease, now_);
  EXPECT_EQ(grants_.AddSplit(kGrant), 0);
  EXPECT_EQ(grants_.AddSplit(kGrant), 1);
  EXPECT_EQ(grants_.splits(kGrant), 2);
  grants_.OnRenewed(kGrant, now_);
  EXPECT_EQ(grants_.splits(kGrant), 0);
}

TEST_F(GrantTableTest, TurnIsReportedOnceByMajority) {
  grants_.OnAcquire(kGrant, kLease, now_);
  EXPECT_FALSE(grants_.AddFree(kGrant, Only(0), 2).at_majority);
  EXPECT_FALSE(grants_.AddFree(kGrant, Only(0), 2).at_majority);
  EXPECT_TRUE(grants_.AddFree(kGrant, Only(2), 2).is_new);
  EXPECT_FALSE(grants_.AddFree(kGrant, Only(1), 2).is_new);
  EXPECT_TRUE(grants_.AddFree(kGrant, Only(1), 2).at_majority);
}

}  // namespace
}  // namespace redlatch::quorum
