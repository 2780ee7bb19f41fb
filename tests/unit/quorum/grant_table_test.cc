#include "src/quorum/quorum.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

constexpr GrantId kGrant = 1;
constexpr absl::Duration kLease = absl::Seconds(30);

struct GrantTableTest : ::testing::Test {
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

struct GrantTableVotes : GrantTableTest {
  using Kind = GrantTable::Count::Kind;
  static constexpr absl::Duration kClaim = absl::Seconds(2);

  GrantTableVotes() { Asks(1); }
  void Asks(uint32_t attempt) { grants_.OnAcquire(kGrant, kLease, now_, attempt); }
  GrantTable::Count Votes(size_t node, uint32_t attempt, uint64_t token,
                          absl::Duration later = absl::ZeroDuration()) {
    return grants_.AddVote(kGrant, node, {.attempt = attempt, .token = token, .claim = kClaim}, 2,
                           now_ + later);
  }
  bool MayGiveBack(uint32_t attempt, NodeSet nodes, absl::Duration later = absl::ZeroDuration()) {
    return grants_.GiveBack(kGrant, attempt, nodes, now_ + later);
  }
};

TEST_F(GrantTableVotes, MajorityForOneTokenGrants) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  Asks(2);
  const GrantTable::Count granted = Votes(2, 2, 7);
  EXPECT_EQ(granted.kind, Kind::kGranted);
  EXPECT_EQ(granted.vote.token, 7U);
  EXPECT_EQ(granted.vote.attempt, 1U) << "the deadline counts from the earliest attempt";
  EXPECT_EQ(Votes(1, 2, 7).kind, Kind::kNothing);
  EXPECT_TRUE(grants_.Stands(kGrant));
}

TEST_F(GrantTableVotes, OneNodeIsNoMajority) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  EXPECT_NE(Votes(0, 1, 7).kind, Kind::kGranted);
}

TEST_F(GrantTableVotes, DifferentTokensMakeItAsk) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  EXPECT_EQ(Votes(1, 1, 8).kind, Kind::kAsk);
  EXPECT_FALSE(grants_.Stands(kGrant));
}

TEST_F(GrantTableVotes, SecondMessageForAttemptIsIgnored) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  Votes(0, 1, 9);  // others know its secret by now
  EXPECT_EQ(Votes(1, 1, 9).kind, Kind::kAsk);
}

TEST_F(GrantTableVotes, GivenBackVoteDoesNotCount) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  EXPECT_TRUE(MayGiveBack(1, Only(0) | Only(1)));
  EXPECT_FALSE(grants_.HasVotes(kGrant));
  EXPECT_EQ(Votes(2, 1, 7).kind, Kind::kAsk);
  EXPECT_NE(Votes(1, 1, 7).kind, Kind::kGranted) << "the node may execute that later";
  Asks(2);
  EXPECT_EQ(Votes(1, 2, 7).kind, Kind::kGranted);
}

TEST_F(GrantTableVotes, NothingIsGivenBackOfGrantByMessage) {
  Votes(0, 1, 7);
  EXPECT_EQ(Votes(1, 1, 7).kind, Kind::kGranted);
  Asks(2);
  EXPECT_FALSE(MayGiveBack(2, Only(2)));
  EXPECT_TRUE(MayGiveBack(2, Only(2), kClaim)) << "it is over by then";
}

TEST_F(GrantTableVotes, LateVotesMakeItAsk) {
  EXPECT_EQ(Votes(0, 1, 7).kind, Kind::kSome);
  EXPECT_EQ(Votes(1, 1, 7, absl::Milliseconds(1800)).kind, Kind::kAsk);
  EXPECT_TRUE(MayGiveBack(1, Only(0)));
}

TEST_F(GrantTableVotes, HealedNodeOutlivesLateGiveBack) {
  Asks(2);
  Votes(0, 1, 7);
  Votes(1, 1, 7);
  grants_.WhileItStands(kGrant, [](const GrantTable::Grant& grant) {
    EXPECT_GT(grant.attempt, 2U);
    EXPECT_EQ(grant.last_token, 7U);
  });
}

TEST_F(GrantTableVotes, SecretsDifferByNodeAttemptAndGrant) {
  const uint64_t secret = grants_.SecretOf(kGrant, 1, 0);
  EXPECT_EQ(grants_.SecretOf(kGrant, 1, 0), secret);
  EXPECT_NE(grants_.SecretOf(kGrant, 1, 1), secret);
  EXPECT_NE(grants_.SecretOf(kGrant, 2, 0), secret);
  EXPECT_NE(grants_.SecretOf(kGrant + 1, 1, 0), secret);
  EXPECT_NE(GrantTable().SecretOf(kGrant, 1, 0), secret);
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
