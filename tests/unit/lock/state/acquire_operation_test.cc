#include "src/lock/state/acquire_operation.h"

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using Step = AcquireOperation::Next;

constexpr absl::Duration kCommandTimeout = absl::Seconds(1);
constexpr absl::Duration kUnreachableAfter = absl::Seconds(10);

class AcquisitionTest : public LockStateTest {
 protected:
  // A call, and who drives it.
  struct Thread final : Waker {
    explicit Thread(AcquireOperation::Call call)
        : operation([&] {
            call.waker = this;
            return std::move(call);
          }()) {}
    void Wake(bool through) override { ++(through ? woken_through : woken); }
    State state() { return operation.waiter().state; }

    int woken = 0;
    int woken_through = 0;
    AcquireOperation operation;
  };

  Thread& Call(absl::Duration wait = absl::InfiniteDuration(), uint64_t thread = 1) {
    return threads_.emplace_back(AcquireOperation::Call{
        .thread = thread,
        .terms = {.lease = kLease},
        .options =
            std::make_shared<LockOptions>(LockOptions{.local_window = absl::Milliseconds(5)}),
        .began = now(),
        .wait = wait,
        .command_timeout = kCommandTimeout,
        .unreachable_after = kUnreachableAfter});
  }
  Step Resume(Thread& thread, const AcquireOperation::Event& event = {}) {
    Effects effects;
    const Step next = thread.operation.Resume(event, now(), state(), effects);
    for (Waiter* waiter : effects.wakes) waiter->waker->Wake(/*through=*/false);
    for (Waiter* waiter : effects.through) waiter->waker->Wake(/*through=*/true);
    return next;
  }
  Step Resume(Thread& thread, const Result& result) { return Resume(thread, {.result = &result}); }
  // It asked, and stands in the server's queue.
  Thread& CallAndQueue(absl::Duration wait = absl::InfiniteDuration()) {
    Thread& thread = Call(wait);
    EXPECT_EQ(Resume(thread).kind, Step::Kind::kRun);
    EXPECT_EQ(Resume(thread, Queued()).kind, Step::Kind::kSleep);
    return thread;
  }

 private:
  std::deque<Thread> threads_;
};

TEST_F(AcquisitionTest, WhoseWaitIsOverTakesItsBidBackItself) {
  Thread& thread = CallAndQueue(absl::Milliseconds(200));
  Pass(absl::Milliseconds(200));
  const Step run = Resume(thread);
  ASSERT_EQ(run.kind, Step::Kind::kRun);
  EXPECT_TRUE(std::holds_alternative<CancelRequest>(thread.operation.request().what));
  EXPECT_EQ(run.until, now() + kAnswerGrace);
  EXPECT_EQ(Resume(thread, Cancelled()).kind, Step::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kBusy);
}

TEST_F(AcquisitionTest, SleepsNoLongerThanItsWait) {
  Thread& thread = Call(absl::Milliseconds(200));
  ASSERT_EQ(Resume(thread).kind, Step::Kind::kRun);
  const Step sleep = Resume(thread, Queued());
  ASSERT_EQ(sleep.kind, Step::Kind::kSleep);
  EXPECT_EQ(sleep.until, now() + absl::Milliseconds(200));
}

TEST_F(AcquisitionTest, ThatSleptThroughItsHoldWaitsAnew) {
  Thread& thread = CallAndQueue();
  HearGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
  EXPECT_EQ(thread.state(), State::kGranted);
  Pass(kLease);
  EXPECT_EQ(Resume(thread).kind, Step::Kind::kRun);
  EXPECT_EQ(thread.state(), State::kWaiting);
}

TEST_F(AcquisitionTest, WithoutAnEndGivesUpAServerThatStaysSilent) {
  Thread& thread = Call();
  const base::Instant began = now();
  Step next = Resume(thread);
  while (next.kind != Step::Kind::kDone) {
    ASSERT_LE(now(), began + kUnreachableAfter + absl::Milliseconds(50));
    const bool ran = next.kind == Step::Kind::kRun;
    PassTo(std::max(now(), next.until));
    next = ran ? Resume(thread, Silence()) : Resume(thread);
    if (next.kind == Step::Kind::kSleep && state().next_request_at() < next.until) {
      next.until = state().next_request_at();  // the renewer's, which finds nobody there either
      PassTo(std::max(now(), next.until));
      if (const auto request = state().NextRequest(now())) {
        PassTo(now() + kCommandTimeout);
        Hear(*request, Silence());
      }
      next = Resume(thread);
    }
  }
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_GE(now(), began + kUnreachableAfter);
  EXPECT_TRUE(absl::IsUnavailable(thread.operation.waiter().failure));
}

TEST_F(AcquisitionTest, WithoutASubscriptionGoesOnUnlessItIsRefusedForGood) {
  Thread& thread = Call();
  EXPECT_TRUE(thread.operation.GoOnUnsubscribed(absl::UnavailableError("silence"), now(), state()));
  EXPECT_EQ(Resume(thread).kind, Step::Kind::kRun);

  Thread& refused = Call();
  EXPECT_FALSE(
      refused.operation.GoOnUnsubscribed(absl::PermissionDeniedError("no"), now(), state()));
  EXPECT_EQ(refused.state(), State::kFailed);
}

TEST_F(AcquisitionTest, GivesASubscriptionHalfOfItsTime) {
  EXPECT_EQ(Call().operation.ListenPatience(now()), absl::Milliseconds(500));
  EXPECT_EQ(Call(absl::Milliseconds(60)).operation.ListenPatience(now()),
            (absl::Milliseconds(60) + kAnswerGrace) / 2);
  EXPECT_EQ(Call(absl::ZeroDuration()).operation.ListenPatience(now()), kAnswerGrace / 2);
}

TEST_F(AcquisitionTest, ThatOversleptAwaitsAWakeThatIsOnItsWay) {
  Thread& thread = CallAndQueue();
  EXPECT_FALSE(thread.operation.Overslept());
  EXPECT_EQ(Resume(thread).kind, Step::Kind::kSleep);
  EXPECT_TRUE(thread.operation.NeedsWake());
  EXPECT_TRUE(thread.operation.Overslept());
  EXPECT_FALSE(thread.operation.NeedsWake()) << "it runs";
}

}  // namespace
}  // namespace redlatch::internal
