#include "src/quorum/verdict.h"

#include "src/quorum/vote.h"
#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

using Kind = Verdict::Kind;

Vote Of(const std::string& text) { return ReadVote(TextReply(text)); }
Vote Granted(uint64_t token, bool others = false, int64_t lease_ms = 2000) {
  return Of(absl::StrCat("granted ", token, " ", lease_ms, others ? " 1 " : " 0 ", token));
}
Vote Unanswered() {
  return ReadVote(redis::MarkMayHaveExecuted(absl::UnavailableError("redis://b hung up")));
}

TEST(Verdict, TakesAMajorityOfOneSameToken) {
  const Verdict verdict = Judge(std::vector<Vote>{Granted(7), Granted(7), Granted(7), {}, {}});
  EXPECT_EQ(verdict.kind, Kind::kYes);
  EXPECT_EQ(verdict.token, 7);
}

TEST(Verdict, RaisesTheLargestWhereTokensDiffer) {
  const Verdict verdict =
      Judge(std::vector<Vote>{Granted(7), Granted(9), Granted(7), Of("busy 10"), {}});
  EXPECT_EQ(verdict.kind, Kind::kRaise);
  EXPECT_EQ(verdict.token, 9);
}

TEST(Verdict, WaitsForNobodyWhoCannotChangeIt) {
  const Vote no = Of("queued 100 0 5");
  EXPECT_EQ(Judge(std::vector<Vote>{no, no, no, {}, {}}).kind, Kind::kNo);
  EXPECT_EQ(Judge(std::vector<Vote>{no, no, {}, {}, {}}).kind, Kind::kOpen);
  EXPECT_EQ(Judge(std::vector<Vote>{Granted(7), Granted(7), {}, no, no}).kind, Kind::kOpen);
  EXPECT_EQ(Judge(std::vector<Vote>{Granted(7), Unanswered(), Unanswered(), Unanswered(), {}}).kind,
            Kind::kNoQuorum);
}

TEST(Verdict, DoesNotCountTheYoung) {
  const Vote young = Of("young 500");
  const std::vector<Vote> votes{Granted(7), Granted(7), young, young, young};
  EXPECT_EQ(Judge(votes).kind, Kind::kNo);
  EXPECT_EQ(WaitFor(votes), 500);
}

TEST(Verdict, OfAHoldThatStandsIsOpenToThoseWhoDoNotAnswer) {
  const Vote held = Of("held");
  const Vote not_held = Of("not_held");
  EXPECT_EQ(JudgeStanding(std::vector<Vote>{held, held, held, {}, not_held}).kind, Kind::kYes);
  EXPECT_EQ(JudgeStanding(std::vector<Vote>{held, held, not_held, Unanswered(), Unanswered()}).kind,
            Kind::kNoQuorum);
  EXPECT_EQ(JudgeStanding(std::vector<Vote>{held, held, not_held, not_held, not_held}).kind,
            Kind::kNo);
  EXPECT_EQ(JudgeStanding(std::vector<Vote>{held, held, Of("young 500"), not_held, not_held}).kind,
            Kind::kNoQuorum)
      << "it may still have the hold, and grants it to nobody else";
  EXPECT_EQ(JudgeStanding(std::vector<Vote>{held, Of("young 500"), Of("young 500"), held, {}}).kind,
            Kind::kOpen);
}

TEST(Verdict, GrantsForTheShortestLease) {
  const auto reply = GrantedBy(
      std::vector<Vote>{Granted(7, false, 2000), Granted(7, true, 1500), Granted(7), {}, {}}, 7);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->text, "granted 7 1500 1");
}

TEST(Verdict, QueuesAtTheEarliestTicketAndPassesNotesOn) {
  const std::vector<Vote> votes{
      Of("queued 100 0 9 look 100"), Of("queued 90 2 8"), Of("queued 80 1 9 deaf"), {}, {}};
  EXPECT_EQ(WaitFor(votes), 100);
  EXPECT_EQ(NotGranted(votes, {.wait = true}, 100).text, "queued 100 0 8 look 100 deaf");
  EXPECT_EQ(NotGranted(votes, {.wait = false}, 100).text, "busy 100 look 100");
}

TEST(Verdict, NamesWhoDidNotAnswer) {
  const std::vector<std::string> servers{"redis://a", "redis://b", "redis://c"};
  const absl::Status why =
      WhyNoQuorum(std::vector<Vote>{Granted(7), Unanswered(), {}}, servers, /*stands=*/false);
  EXPECT_TRUE(absl::IsUnavailable(why));
  EXPECT_TRUE(redis::MayHaveExecuted(why));
  EXPECT_THAT(std::string(why.message()), HasSubstr("1 of 3 servers answered, and 2 are needed"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("redis://b hung up"));
  EXPECT_THAT(std::string(why.message()), HasSubstr("redis://c did not answer in time"));
  const absl::Status parted = WhyNoQuorum(
      std::vector<Vote>{Of("held"), Of("not_held"), Unanswered()}, servers, /*stands=*/true);
  EXPECT_THAT(std::string(parted.message()),
              HasSubstr("1 of 3 servers said that they have it, and 2 are needed"));
}

TEST(Verdict, TellsARefusalThatLastsFromAServerThatIsAway) {
  const std::vector<std::string> servers{"redis://a", "redis://b", "redis://c"};
  const Vote refused = ReadVote(absl::PermissionDeniedError("no +evalsha"));
  EXPECT_TRUE(absl::IsPermissionDenied(
      WhyNoQuorum(std::vector<Vote>{refused, refused, Unanswered()}, servers, /*stands=*/false)));
  EXPECT_TRUE(absl::IsPermissionDenied(
      WhyNoQuorum(std::vector<Vote>{refused, Of("held"), Unanswered()}, servers, false)));
  // A hold that stands may yet be renewed where two remain.
  EXPECT_TRUE(absl::IsUnavailable(
      WhyNoQuorum(std::vector<Vote>{refused, Of("held"), Unanswered()}, servers, /*stands=*/true)));
  EXPECT_TRUE(absl::IsPermissionDenied(
      WhyNoQuorum(std::vector<Vote>{refused, refused, Of("held")}, servers, /*stands=*/true)));
}

TEST(Vote, WhatIsNoneOfOursIsForeign) {
  EXPECT_EQ(Of("hello").kind, Vote::Kind::kForeign);
  EXPECT_EQ(Of("granted 7").kind, Vote::Kind::kForeign);
  EXPECT_EQ(Of("").kind, Vote::Kind::kForeign);
}

TEST(Vote, ReadsTermsAndChangesTheTicket) {
  const std::string word = "1 3 1 10000 0 77 2000 1 redlatch:abc";
  const Terms terms = ReadTerms(word);
  EXPECT_EQ(terms.block, 1);
  EXPECT_EQ(terms.attempt, 3);
  EXPECT_TRUE(terms.wait);
  EXPECT_EQ(terms.ticket, 77);
  EXPECT_TRUE(terms.listen);
  EXPECT_EQ(WithTicket(word, 66), "1 3 1 10000 0 66 2000 1 redlatch:abc");
}

}  // namespace
}  // namespace redlatch::quorum
