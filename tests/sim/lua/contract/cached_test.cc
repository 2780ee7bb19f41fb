// Cached grants: when they are recalled, and what a renewal tells.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

struct LockCached : LockContract {
  std::string Recalled(const Request& cached) const {
    return absl::StrCat("wanted ", cached.grant, " ", name_);
  }
  int64_t ServerMicros() {
    const redis::Reply time = server_->Command({"TIME"});
    return std::stoll(time.elements[0].text) * 1'000'000 + std::stoll(time.elements[1].text);
  }
  // The words of the answer to a renewal of a cacheable grant. Its client knows the grant's tokens
  // up to `known`: by default, up to the last that anyone has.
  std::vector<std::string> RenewWords(const Request& cached, int64_t known = 0) {
    const redis::Reply reply = Eval(ScriptsFor(cached).renew, {},
                                    {cached.grant, absl::StrCat(cached.lease_ms), cached.channel(),
                                     absl::StrCat(known != 0 ? known : StoredFence())});
    std::vector<std::string> words;
    for (const redis::Reply& word : reply.elements) {
      const bool number = word.type == redis::Reply::Type::kInteger;
      words.push_back(number ? absl::StrCat(word.integer) : word.text);
    }
    return words;
  }

  Inbox inbox_{*server_, Channel('a')};
  const Request cached_ = Cacheable(Of('a'));
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockCached, ::testing::ValuesIn(KindsWithTokens()),
                         NameOfKind);

// An owner may have several grants of these.
class LockCachedOfOwner : public LockCached {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockCachedOfOwner,
                         ::testing::Values(ReentrantKind(), WriteKind()), NameOfKind);

TEST_P(LockCached, FirstWaiterRecallsWithEachHeartbeat) {
  Take(cached_);
  EXPECT_EQ(Outcome(Of('b')), "queued");
  EXPECT_EQ(inbox_.Next(), Recalled(cached_));
  EXPECT_EQ(inbox_.Next(), "") << "once";
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_EQ(inbox_.Next(), "") << "it has been recalled";
  EXPECT_EQ(Outcome(Again(Of('c'))), "queued");
  EXPECT_EQ(inbox_.Next(), "");
  EXPECT_EQ(Outcome(Again(Of('b'))), "queued");
  EXPECT_EQ(inbox_.Next(), Recalled(cached_));
  EXPECT_EQ(inbox_.Next(), "");
}

TEST_P(LockCached, RecallUsesChannelLikeTheCallers) {
  Inbox inbox(*server_, "redlatch:{tag}:" + std::string(32, 'a'));
  Take(cached_);
  for (const int attempt : {1, 2}) {
    Request tagged = Of('b');
    tagged.tag = "{tag}:";
    tagged.attempt = attempt;
    EXPECT_EQ(Outcome(tagged), "queued");
    EXPECT_EQ(inbox.Next(), Recalled(cached_)) << attempt;
  }
}

TEST_P(LockCached, TryRecallsIfAskedTo) {
  Take(cached_);
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
  EXPECT_EQ(inbox_.Next(), "");
  EXPECT_EQ(Outcome(Recalling(Of('b'))), "busy");
  EXPECT_EQ(inbox_.Next(), absl::StrCat("tried ", cached_.grant, " ", name_));
  EXPECT_EQ(Waiting().size(), 0);
}

TEST_P(LockCached, RenewalReservesTokensUpToExpiry) {
  const int64_t first = Token(cached_);
  const int64_t before = ServerMicros();
  const std::vector<std::string> words = RenewWords(cached_);
  ASSERT_EQ(words.size(), 3);
  EXPECT_EQ(words[0] + words[1], "held0");
  EXPECT_EQ(notes_, "");
  const int64_t last = std::stoll(words[2]);
  EXPECT_EQ(StoredFence(), last);
  EXPECT_GE(last, before + int64_t{1000} * (cached_.lease_ms - 1));
  EXPECT_LE(last, ServerMicros() + int64_t{1000} * cached_.lease_ms);
  EXPECT_GE(std::stoll(RenewWords(cached_)[2]), last) << "never fewer";

  EXPECT_EQ(Release(cached_, /*used=*/first, /*reserved=*/StoredFence()), kReleased);
  EXPECT_EQ(StoredFence(), first);
  EXPECT_GT(Token(Of('b')), first);
  EXPECT_LE(StoredFence(), ServerMicros());
}

TEST_P(LockCached, RenewalReservesNoTokensForHoldThatIsTold) {
  const Request told = Cacheable(Of('a'));
  const int64_t first = Token(told);
  Ask(Of('b'));
  Ask(Of('c'));
  EXPECT_THAT(RenewWords(told, /*known=*/-1), ElementsAre("held", "2", "0"));
  EXPECT_EQ(StoredFence(), first);
  EXPECT_THAT(RenewWords(told), ElementsAre("held", "2", testing::Ne("0")));
  const int64_t reserved = StoredFence();
  EXPECT_THAT(RenewWords(told, /*known=*/-1), ElementsAre("held", "2", "0"));
  EXPECT_EQ(StoredFence(), reserved);
}

// After a forced release the tokens may still be in use; the next cached grant has none of
// those.
TEST_P(LockCached, ReleaseKeepsTokensOfOtherGrant) {
  const Request forced = Cacheable(For(60'000, Of('a')));
  Take(forced);
  RenewWords(forced);
  const int64_t reserved = StoredFence();
  ForceRelease();
  const Request cached = Cacheable(Of('b'));
  const int64_t token = Token(cached);
  EXPECT_GT(token, reserved);
  EXPECT_EQ(Release(cached, /*used=*/token, /*reserved=*/0), kReleased);
  EXPECT_EQ(StoredFence(), token);
}

// Its client knows of the first grant only: an acquire of it was unanswered, or a renewal.
TEST_P(LockCached, ReleaseAfterSecondGrantKeepsOthersTokens) {
  for (const bool acquire : {true, false}) {
    const Request cached = For(60'000, Cacheable(Of('a')));
    const int64_t first = Token(cached);
    RenewWords(cached);
    ForceRelease();
    const int64_t others = Token(Of('b'));
    EXPECT_EQ(Release(Of('b'), others, others), kReleased);
    EXPECT_GT(Token(cached), others);
    EXPECT_EQ(acquire ? Release(cached, first, first, /*gone_ms=*/1000)
                      : Release(cached, first, /*reserved=*/0),
              kReleased);
    EXPECT_GT(StoredFence(), others);
    server_->Command({"FLUSHALL"});
  }
}

// Between the tokens that it knows and the last ones, another grant had some.
TEST_P(LockCached, RenewalAfterSecondGrantReservesNothing) {
  const int64_t first = Token(cached_);
  ForceRelease();
  const int64_t others = Token(Of('b'));
  EXPECT_EQ(Release(Of('b'), others, others), kReleased);
  const int64_t second = Token(cached_);
  EXPECT_EQ(RenewWords(cached_, first)[2], "0");
  EXPECT_EQ(StoredFence(), second);
}

// The grant was renewed, and its acquire is repeated.
TEST_P(LockCached, RepeatedAcquireGetsFirstToken) {
  Request cached = Cacheable(Of('a'));
  cached.amount = 16;
  const int64_t first = Token(cached);
  RenewWords(cached);
  EXPECT_EQ(Token(Again(cached)), first);
}

TEST_P(LockCached, SecondRenewalReservesUpToLaterExpiry) {
  const int64_t first = Token(cached_);
  const int64_t known = std::stoll(RenewWords(cached_, first)[2]);
  const int64_t unknown = std::stoll(RenewWords(For(60'000, cached_), known)[2]);
  EXPECT_GT(unknown, known);
  const int64_t last = std::stoll(RenewWords(For(90'000, cached_), known)[2]);
  EXPECT_GT(last, unknown);
  EXPECT_EQ(StoredFence(), last);
  EXPECT_EQ(Release(cached_, /*used=*/first + 7, /*reserved=*/0), kReleased);
  EXPECT_EQ(StoredFence(), first + 7);
}

// The older of two grants of one owner is released last: its renewal is unanswered, and was lost.
TEST_P(LockCachedOfOwner, LateReleaseKeepsTokensOfLaterGrant) {
  const Request older = Cacheable(Of('a', 1));
  const int64_t first = Token(older);
  Request later = Of('a', 2);
  later.amount = 1'000'000;
  const int64_t its_first = Token(later);
  const int64_t its_last = its_first + later.amount - 1;
  EXPECT_EQ(RenewWords(older, first)[2], "0") << "those behind its own are the later grant's";
  EXPECT_EQ(Release(later, /*used=*/its_last - 1, /*reserved=*/its_last), kReleased);
  EXPECT_EQ(Release(older, first, /*reserved=*/0), kReleased);
  EXPECT_GE(StoredFence(), its_last - 1);
}

}  // namespace
}  // namespace redlatch
