#include "src/quorum/ledger.h"

#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

constexpr char kHold[] = "0123456789abcdef0123456789abcdef:1";

class LedgerTest : public ::testing::Test {
 protected:
  // For how many ms a node is healed; 0: it is not.
  int64_t HealedFor() {
    int64_t lease_ms = 0;
    ledger_.WhileItStands(kHold, [&](const Ledger::Hold& hold) { lease_ms = hold.lease_ms; });
    return lease_ms;
  }

  const base::Instant now_ = base::Now();
  Ledger ledger_;
};

TEST_F(LedgerTest, AHoldThatWasNotGrantedIsNotHealed) {
  ledger_.Begin(kHold, "gone", 30'000, now_);
  EXPECT_EQ(HealedFor(), 0);
}

TEST_F(LedgerTest, ARenewalThatNoMajorityHasConfirmedProlongsTombstonesAndNothingElse) {
  ledger_.Begin(kHold, "gone", 30'000, now_);
  ledger_.Granted(kHold, 1, 7, now_ + absl::Seconds(30));
  ledger_.Renewing(kHold, 600'000, now_);
  EXPECT_LE(HealedFor(), 30'000);
  ledger_.Renewed(kHold, now_ + absl::Minutes(10));
  EXPECT_GT(HealedFor(), 30'000);
  const auto ended = ledger_.End(kHold);
  ASSERT_TRUE(ended.has_value());
  EXPECT_GT(ended->lease_ms, 500'000);
  EXPECT_EQ(HealedFor(), 0);
}

TEST_F(LedgerTest, RoundsInARowThatFailedAreCountedUntilOneDoesNot) {
  ledger_.Begin(kHold, "gone", 30'000, now_);
  EXPECT_EQ(ledger_.Split(kHold), 0);
  EXPECT_EQ(ledger_.Split(kHold), 1);
  EXPECT_EQ(ledger_.splits(kHold), 2);
  ledger_.Renewed(kHold, now_);
  EXPECT_EQ(ledger_.splits(kHold), 0);
}

}  // namespace
}  // namespace redlatch::quorum
