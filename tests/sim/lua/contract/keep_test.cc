// Holds that their clients may keep: who is called, when, and what a renewal tells.

#include "tests/sim/lua/contract/fixture.h"

namespace redlatch {
namespace {

class LockKeepers : public LockContract {
 protected:
  std::string Wanted(const Request& kept) const {
    return absl::StrCat("wanted ", kept.hold, " ", name_);
  }
  int64_t ServerMicros() {
    const redis::Reply time = server_->Command({"TIME"});
    return std::stoll(time.elements[0].text) * 1'000'000 + std::stoll(time.elements[1].text);
  }
  // The words of the answer to a renewal of a kept grant. Its client knows the grant's tokens up
  // to `known`: by default, up to the last that anyone has.
  std::vector<std::string> RenewWords(const Request& kept, int64_t known = 0) {
    const redis::Reply reply = Eval(ScriptsFor(kept).renew, {},
                                    {kept.hold, absl::StrCat(kept.lease_ms), kept.channel(),
                                     absl::StrCat(known > 0 ? known : StoredFence())});
    std::vector<std::string> words;
    for (const redis::Reply& word : reply.elements) {
      const bool number = word.type == redis::Reply::Type::kInteger;
      words.push_back(number ? absl::StrCat(word.integer) : word.text);
    }
    return words;
  }
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockKeepers, ::testing::ValuesIn(KindsWithTokens()),
                         NameOfKind);

// An owner may have several grants of these.
class LockOwners : public LockKeepers {};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockOwners, ::testing::Values(ReentrantKind(), WriteKind()),
                         NameOfKind);

TEST_P(LockKeepers, AreCalledByTheFirstThatIsQueuedAndByItsHeartbeats) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  Take(kept);
  EXPECT_EQ(Outcome(Of('b')), "queued");
  EXPECT_EQ(ear.Hear(), Wanted(kept));
  EXPECT_EQ(ear.Hear(), "") << "once";
  EXPECT_EQ(Outcome(Of('c')), "queued");
  EXPECT_EQ(ear.Hear(), "") << "it has been called";
  EXPECT_EQ(Outcome(Again(Of('c'))), "queued");
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Outcome(Again(Of('b'))), "queued");
  EXPECT_EQ(ear.Hear(), Wanted(kept));
  EXPECT_EQ(ear.Hear(), "");
}

TEST_P(LockKeepers, AreCalledOnAChannelLikeTheCallers) {
  Ear ear(*server_, "redlatch:{tag}:" + std::string(32, 'a'));
  const Request kept = Kept(Of('a'));
  Take(kept);
  for (const int attempt : {1, 2}) {
    Request tagged = Of('b');
    tagged.tag = "{tag}:";
    tagged.attempt = attempt;
    EXPECT_EQ(Outcome(tagged), "queued");
    EXPECT_EQ(ear.Hear(), Wanted(kept)) << attempt;
  }
}

TEST_P(LockKeepers, AreCalledByATryThatSaysSo) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  Take(kept);
  EXPECT_EQ(Outcome(Impatient(Of('b'))), "busy");
  EXPECT_EQ(ear.Hear(), "");
  EXPECT_EQ(Outcome(Calling(Of('b'))), "busy");
  EXPECT_EQ(ear.Hear(), absl::StrCat("tried ", kept.hold, " ", name_));
  EXPECT_EQ(Waiting().size(), 0);
}

TEST_P(LockKeepers, AreToldByARenewalHowManyWait) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  Take(kept);
  EXPECT_EQ(RenewWords(kept).at(1), "0");
  EXPECT_EQ(notes_, "");
  Ask(Of('b'));
  Ask(Of('c'));
  EXPECT_EQ(RenewWords(kept).at(1), "2");
}

TEST_P(LockKeepers, OwnTheTokensUpToTheEndOfTheirHold) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  const int64_t first = Token(kept);
  const int64_t before = ServerMicros();
  const std::vector<std::string> words = RenewWords(kept);
  ASSERT_EQ(words.size(), 3);
  EXPECT_EQ(words[0], "held");
  const int64_t last = std::stoll(words[2]);
  EXPECT_EQ(StoredFence(), last);
  EXPECT_GE(last, before + 1000 * (kept.lease_ms - 1));
  EXPECT_LE(last, ServerMicros() + 1000 * kept.lease_ms);
  EXPECT_GE(std::stoll(RenewWords(kept)[2]), last) << "never fewer";

  EXPECT_EQ(Release(kept, /*used=*/first, /*reserved=*/StoredFence()), kReleased);
  EXPECT_EQ(StoredFence(), first);
  EXPECT_GT(Token(Of('b')), first);
  EXPECT_LE(StoredFence(), ServerMicros());
}

// They were forced to go, and their tokens may still be used; the next that keeps it owns none of
// those.
TEST_P(LockKeepers, GiveNoTokensBackThatWereReservedForAnother) {
  Ear ear(*server_, Channel('a'));
  const Request forced = Kept(For(60'000, Of('a')));
  Take(forced);
  RenewWords(forced);
  const int64_t reserved = StoredFence();
  ForceRelease();
  const Request kept = Kept(Of('b'));
  const int64_t token = Token(kept);
  EXPECT_GT(token, reserved);
  EXPECT_EQ(Release(kept, /*used=*/token, /*reserved=*/0), kReleased);
  EXPECT_EQ(StoredFence(), token);
}

// Its client has heard of the first grant only: an acquire of it was unanswered, or a renewal.
TEST_P(LockKeepers, GiveBackNoOthersTokensWhenReleasedAfterASecondGrant) {
  Ear ear(*server_, Channel('a'));
  for (const bool acquire : {true, false}) {
    const Request kept = For(60'000, Kept(Of('a')));
    const int64_t first = Token(kept);
    RenewWords(kept);
    ForceRelease();
    const int64_t others = Token(Of('b'));
    EXPECT_EQ(Release(Of('b'), others, others), kReleased);
    EXPECT_GT(Token(kept), others);
    EXPECT_EQ(acquire ? Release(kept, first, first, /*gone_ms=*/1000)
                      : Release(kept, first, /*reserved=*/0),
              kReleased);
    EXPECT_GT(StoredFence(), others);
    server_->Command({"FLUSHALL"});
  }
}

// Between the tokens that it knows and the last ones, another grant had some.
TEST_P(LockKeepers, GetNoTokensWhenRenewedAfterASecondGrant) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  const int64_t first = Token(kept);
  ForceRelease();
  const int64_t others = Token(Of('b'));
  EXPECT_EQ(Release(Of('b'), others, others), kReleased);
  const int64_t second = Token(kept);
  EXPECT_EQ(RenewWords(kept, first)[2], "0");
  EXPECT_EQ(StoredFence(), second);
}

// The grant was renewed, and its acquire is repeated.
TEST_P(LockKeepers, RepeatTheirFirstTokenForARepeatedAcquire) {
  Ear ear(*server_, Channel('a'));
  Request kept = Kept(Of('a'));
  kept.block = 16;
  const int64_t first = Token(kept);
  RenewWords(kept);
  EXPECT_EQ(Token(Again(kept)), first);
}

TEST_P(LockKeepers, OwnTheTokensUpToTheLaterEndWhenRenewedTwice) {
  Ear ear(*server_, Channel('a'));
  const Request kept = Kept(Of('a'));
  const int64_t first = Token(kept);
  const int64_t heard = std::stoll(RenewWords(kept, first)[2]);
  const int64_t unheard = std::stoll(RenewWords(For(60'000, kept), heard)[2]);
  EXPECT_GT(unheard, heard);
  const int64_t last = std::stoll(RenewWords(For(90'000, kept), heard)[2]);
  EXPECT_GT(last, unheard);
  EXPECT_EQ(StoredFence(), last);
  EXPECT_EQ(Release(kept, /*used=*/first + 7, /*reserved=*/0), kReleased);
  EXPECT_EQ(StoredFence(), first + 7);
}

// The older of two grants of one owner is released last: its renewal is unanswered, and was lost.
TEST_P(LockOwners, GiveBackNoTokensOfALaterGrantWhenReleasedLate) {
  Ear ear(*server_, Channel('a'));
  const Request older = Kept(Of('a', 1));
  const int64_t first = Token(older);
  Request later = Of('a', 2);
  later.block = 1'000'000;
  const int64_t its_first = Token(later);
  const int64_t its_last = its_first + later.block - 1;
  EXPECT_EQ(RenewWords(older, first)[2], "0") << "those behind its own are the later grant's";
  EXPECT_EQ(Release(later, /*used=*/its_last - 1, /*reserved=*/its_last), kReleased);
  EXPECT_EQ(Release(older, first, /*reserved=*/0), kReleased);
  EXPECT_GE(StoredFence(), its_last - 1);
}

}  // namespace
}  // namespace redlatch
