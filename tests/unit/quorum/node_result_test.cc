#include "src/quorum/node_result.h"

#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::quorum {
namespace {

using Kind = Decision::Kind;
using Results = std::vector<NodeResult>;

template <class What = internal::AcquireRequest>
NodeResult Of(std::string text) {
  const redis::Reply reply{.type = redis::Reply::Type::kString, .text = std::move(text)};
  return ReadNodeResult(Request{.what = What()}, reply);
}
NodeResult Renewed(std::string text) { return Of<internal::RenewRequest>(std::move(text)); }
NodeResult Granted(uint64_t token, bool others = false, int64_t lease_ms = 2000) {
  return Of(absl::StrCat("granted ", token, " ", lease_ms, others ? " 1 " : " 0 ", token));
}
NodeResult Failing(const absl::Status& why) { return ReadNodeResult(Request(), why); }
NodeResult Unanswered() {
  return Failing(redis::MarkMayHaveExecuted(absl::UnavailableError("redis://b hung up")));
}

TEST(NodeResults, MajorityOfOneTokenGrants) {
  const Decision decision = DecideAcquire(Results{Granted(7), Granted(7), Granted(7), {}, {}});
  EXPECT_EQ(decision.kind, Kind::kYes);
  EXPECT_EQ(decision.token, 7);
}

TEST(NodeResults, DifferentTokensAreRaisedToLargest) {
  const Decision decision =
      DecideAcquire(Results{Granted(7), Granted(9), Granted(7), Of("busy 10"), {}});
  EXPECT_EQ(decision.kind, Kind::kRaise);
  EXPECT_EQ(decision.token, 9);
}

TEST(NodeResults, DecisionWaitsOnlyForNodesThatCanChangeIt) {
  const NodeResult no = Of("queued 100 0 5");
  EXPECT_EQ(DecideAcquire(Results{no, no, no, {}, {}}).kind, Kind::kNo);
  EXPECT_EQ(DecideAcquire(Results{no, no, {}, {}, {}}).kind, Kind::kOpen);
  EXPECT_EQ(DecideAcquire(Results{Granted(7), Granted(7), {}, no, no}).kind, Kind::kOpen);
  EXPECT_EQ(DecideAcquire(Results{Granted(7), Unanswered(), Unanswered(), Unanswered(), {}}).kind,
            Kind::kNoMajority);
}

TEST(NodeResults, YoungNodesDoNotCount) {
  const NodeResult young = Of("young 500");
  const Results results{Granted(7), Granted(7), young, young, young};
  EXPECT_EQ(DecideAcquire(results).kind, Kind::kNo);
  EXPECT_EQ(WaitForMajority(results), absl::Milliseconds(500));
}

TEST(NodeResults, UnansweredNodesMayStillHaveTheGrant) {
  const NodeResult held = Renewed("held");
  const NodeResult not_held = Renewed("not_held");
  EXPECT_EQ(DecideHeld(Results{held, held, held, {}, not_held}).kind, Kind::kYes);
  EXPECT_EQ(DecideHeld(Results{held, held, not_held, Unanswered(), Unanswered()}).kind,
            Kind::kNoMajority);
  EXPECT_EQ(DecideHeld(Results{held, held, not_held, not_held, not_held}).kind, Kind::kNo);
  EXPECT_EQ(DecideHeld(Results{held, held, Of("young 500"), not_held, not_held}).kind,
            Kind::kNoMajority)
      << "it may still have the hold, and grants it to no other owner";
  EXPECT_EQ(DecideHeld(Results{held, Of("young 500"), Of("young 500"), held, {}}).kind,
            Kind::kOpen);
}

TEST(NodeResults, ShortestLeaseCounts) {
  const Result result = GrantedResult(
      Results{Granted(7, false, 2000), Granted(7, true, 1500), Granted(7), {}, {}}, 7);
  const auto& granted = std::get<internal::AcquireGranted>(result.acquire());
  EXPECT_EQ(granted.token, 7U);
  EXPECT_EQ(granted.lease, absl::Milliseconds(1500));
  EXPECT_EQ(granted.others, 1);
}

TEST(NodeResults, EarliestTicketAndChecksArePassedOn) {
  const absl::Duration wait = absl::Milliseconds(100);
  const Results results{
      Of("queued 100 0 9 look 100"), Of("queued 90 2 8"), Of("queued 80 1 9 look 1 deaf"), {}, {}};
  EXPECT_EQ(WaitForMajority(results), wait);
  const Result queued = NotGrantedResult(results, {.wait = true}, wait);
  EXPECT_EQ(std::get<internal::AcquireQueued>(queued.acquire()).ticket, 8U);
  EXPECT_EQ(std::get<internal::AcquireQueued>(queued.acquire()).retry_after, wait);
  EXPECT_TRUE(queued.unsubscribed);
  const Result busy = NotGrantedResult(results, {.wait = false}, wait);
  EXPECT_TRUE(std::holds_alternative<internal::AcquireBusy>(busy.acquire()));
  EXPECT_TRUE(busy.unfinished);
  EXPECT_EQ(busy.check_after, absl::Milliseconds(100));
}

TEST(NodeResults, ReleaseIsNotHeldIfNoMajorityHadIt) {
  const auto released = [](std::string text) {
    return Of<internal::ReleaseRequest>(std::move(text));
  };
  const NodeResult cancelled = Of<internal::CancelRequest>("unknown");
  const Result none =
      ReleasedResult(Results{released("released"), released("not_held"), cancelled});
  EXPECT_TRUE(std::holds_alternative<internal::NotHeld>(none.what));
  const Result done = ReleasedResult(
      Results{released("released look 100"), Of<internal::CancelRequest>("passed_on"), {}});
  EXPECT_TRUE(std::holds_alternative<internal::Freed>(done.what));
  EXPECT_EQ(done.check_after, absl::Milliseconds(100));
}

const std::vector<std::string> kServers{"redis://a", "redis://b", "redis://c"};

TEST(NodeResults, FailureNamesServersThatDidNotAnswer) {
  const internal::Failed failed =
      NoMajority(Results{Granted(7), Unanswered(), {}}, kServers, /*stands=*/false);
  EXPECT_TRUE(absl::IsUnavailable(failed.why));
  EXPECT_TRUE(failed.may_have_executed);
  EXPECT_THAT(std::string(failed.why.message()),
              AllOf(HasSubstr("1 of 3 servers answered, and 2 are needed"),
                    HasSubstr("redis://b hung up"), HasSubstr("redis://c did not answer in time")));
  const internal::Failed parted = NoMajority(
      Results{Renewed("held"), Renewed("not_held"), Unanswered()}, kServers, /*stands=*/true);
  EXPECT_THAT(std::string(parted.why.message()),
              HasSubstr("1 of 3 servers said that they have it, and 2 are needed"));
}

TEST(NodeResults, LastingRefusalIsToldFromAbsence) {
  const NodeResult refused = Failing(absl::PermissionDeniedError("no +evalsha"));
  const NodeResult held = Renewed("held");
  const auto code = [](const Results& results, bool stands) {
    return NoMajority(results, kServers, stands).why.code();
  };
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  EXPECT_EQ(code({refused, refused, Unanswered()}, /*stands=*/false), kDenied);
  EXPECT_EQ(code({refused, held, Unanswered()}, /*stands=*/false), kDenied);
  EXPECT_EQ(code({refused, held, Unanswered()}, /*stands=*/true), absl::StatusCode::kUnavailable)
      << "two may yet renew it";
  EXPECT_EQ(code({refused, refused, held}, /*stands=*/true), kDenied);
}

TEST(NodeResult, ReplyOutsideContractIsForeign) {
  for (const char* const text : {"hello", "granted 7", ""}) {
    EXPECT_EQ(Of(text).kind, NodeResult::Kind::kForeign);
  }
}

}  // namespace
}  // namespace redlatch::quorum
