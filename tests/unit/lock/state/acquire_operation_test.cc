#include "src/lock/state/acquire_operation.h"

#include "tests/unit/lock/state/state_fixture.h"

namespace redlatch::internal {
namespace {

using Action = Operation::Action;

constexpr absl::Duration kCommandTimeout = absl::Seconds(1);
constexpr absl::Duration kUnreachableAfter = absl::Seconds(10);

class AcquireOperationTest : public LockStateTest {
 protected:
  // A call and its driver.
  struct Thread final : Waker {
    Thread(const AcquireCall& call, AcquireOperation::Environment environment)
        : operation(call, [&] {
            environment.waker = this;
            return environment;
          }()) {}
    void Wake() override { ++woken; }
    State state() { return operation.waiter().state; }

    int woken = 0;
    AcquireOperation operation;
  };

  Thread& Call(absl::Duration wait = absl::InfiniteDuration(), uint64_t thread = 1) {
    return threads_.emplace_back(
        AcquireCall{
            .terms = {.lease = kLease},
            .wait = wait,
            .options = std::make_shared<LockOptions>(LockOptions{.turn = absl::Milliseconds(5)})},
        AcquireOperation::Environment{.thread = thread,
                                      .now = now(),
                                      .command_timeout = kCommandTimeout,
                                      .unreachable_after = kUnreachableAfter});
  }
  Action Resume(Thread& thread, Operation::Event event = {.subscribed = true}) {
    Effects effects;
    const Action next = thread.operation.Resume(event, now(), state(), effects);
    for (Waiter* waiter : effects.wakes) waiter->waker->Wake();
    return next;
  }
  Action Resume(Thread& thread, const Result& result) {
    return Resume(thread, {.result = &result, .subscribed = true});
  }
  // Calls, and is queued at the server.
  Thread& CallAndQueue(absl::Duration wait = absl::InfiniteDuration()) {
    Thread& thread = Call(wait);
    EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
    EXPECT_EQ(Resume(thread, Queued()).kind, Action::Kind::kSleep);
    return thread;
  }

 private:
  std::deque<Thread> threads_;
};

TEST_F(AcquireOperationTest, CancelsItsRequestWhenItsWaitIsOver) {
  Thread& thread = CallAndQueue(absl::Milliseconds(200));
  EXPECT_EQ(Resume(thread).until, now() + absl::Milliseconds(200));
  Pass(absl::Milliseconds(200));
  const Action run = Resume(thread);
  ASSERT_EQ(run.kind, Action::Kind::kRun);
  EXPECT_TRUE(std::holds_alternative<CancelRequest>(thread.operation.request().what));
  EXPECT_EQ(run.until, now() + kAnswerGrace);
  EXPECT_EQ(Resume(thread, Cancelled()).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kBusy);
}

// A Redisson lock's waiter listens once it is not granted, and asks again when it does.
struct ListeningTest : AcquireOperationTest {
  ListeningTest() { Make({.listens = true}); }
  Action EndSubscribing(Thread& thread, const absl::Status& status) {
    return Resume(thread, {.subscribed_as = &status, .subscribed = true, .listens = status.ok()});
  }
  // Calls, is queued, and is about to listen.
  Thread& CallAndSubscribe() {
    Thread& thread = Call();
    EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
    EXPECT_EQ(Resume(thread, Queued()).kind, Action::Kind::kSubscribe);
    return thread;
  }
  // Listens, and asks again.
  Thread& CallAndListen() {
    Thread& thread = CallAndSubscribe();
    EXPECT_EQ(EndSubscribing(thread, absl::OkStatus()).kind, Action::Kind::kRun);
    const Result queued = Queued();
    EXPECT_EQ(Resume(thread, {.result = &queued, .subscribed = true, .listens = true}).kind,
              Action::Kind::kSleep);
    return thread;
  }
};

// A client with very many waiters would otherwise look at each of them very often.
TEST_F(AcquireOperationTest, HeartbeatsThatAreSoonDueAreSentTogether) {
  CallAndQueue();
  Pass(kThird - absl::Milliseconds(60));
  EXPECT_FALSE(state().NextRequest(now(), absl::Milliseconds(50)));
  Pass(absl::Milliseconds(20));
  EXPECT_FALSE(state().NextRequest(now()));
  const std::optional<Request> heartbeat = state().NextRequest(now(), absl::Milliseconds(50));
  ASSERT_TRUE(heartbeat);
  Deliver(*heartbeat, Queued(0, absl::Milliseconds(200)));
  Pass(absl::Milliseconds(190));
  EXPECT_FALSE(state().NextRequest(now(), absl::Milliseconds(50))) << "the lock is still taken";
  Pass(absl::Milliseconds(11));
  EXPECT_TRUE(state().NextRequest(now()));
}

TEST_F(ListeningTest, AsksAgainOnceItListensAndHeartbeatsDoNotWakeIt) {
  Thread& thread = CallAndListen();
  for (int i = 0; i < 3; ++i) {
    Deliver(FetchDue<AcquireRequest>(), Queued());
    EXPECT_THAT(effects().wakes, IsEmpty());
  }
  Effects effects;
  state().OnAskAgain(state().pending_acquire(), effects);  // the channel may be lost
  EXPECT_THAT(effects.wakes, SizeIs(1));
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
  EXPECT_EQ(Resume(thread, Queued()).kind, Action::Kind::kSubscribe);
}

TEST_F(ListeningTest, AsksNowAndThenIfItCannotListen) {
  Thread& thread = Call();
  ASSERT_EQ(Resume(thread).kind, Action::Kind::kRun);
  Action next = Resume(thread, Queued());
  for (int i = 0; i < 50; ++i) {
    const base::Instant asked = now();
    ASSERT_EQ(next.kind, Action::Kind::kSubscribe);
    ASSERT_EQ(EndSubscribing(thread, absl::UnavailableError("down")).kind, Action::Kind::kRun);
    const Action sleep = Resume(thread, Queued());
    ASSERT_EQ(sleep.kind, Action::Kind::kSleep) << "no tight loop";
    ASSERT_EQ(sleep.until, asked + absl::Milliseconds(500));
    PassTo(sleep.until);
    next = Resume(thread);
  }
  EXPECT_EQ(thread.state(), State::kWaiting) << "the server answers";
}

TEST_F(ListeningTest, LeavesTheQueueIfItMayNotListen) {
  Thread& thread = CallAndSubscribe();
  EXPECT_EQ(EndSubscribing(thread, absl::PermissionDeniedError("no")).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_EQ(state().waiting(), 0);
}

TEST_F(ListeningTest, KeepsGrantThatCameWhileItSubscribed) {
  Thread& thread = CallAndSubscribe();
  DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
  EXPECT_EQ(EndSubscribing(thread, absl::PermissionDeniedError("no")).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kGranted);
}

TEST_F(AcquireOperationTest, WaitsAgainAfterSleepingThroughItsHold) {
  Thread& thread = CallAndQueue();
  DeliverGrant({.grant = state().grant_id(), .attempt = 1, .token = kToken, .lease = kLease});
  EXPECT_EQ(thread.state(), State::kGranted);
  Pass(kLease);
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
  EXPECT_EQ(thread.state(), State::kWaiting);
}

TEST_F(AcquireOperationTest, EndlessWaitGivesUpOnSilentServer) {
  Thread& thread = Call();
  const base::Instant began = now();
  Action next = Resume(thread);
  while (next.kind != Action::Kind::kDone) {
    ASSERT_LE(now(), began + kUnreachableAfter + absl::Milliseconds(50));
    const bool ran = next.kind == Action::Kind::kRun;
    PassTo(std::max(now(), next.until));
    next = ran ? Resume(thread, Silence()) : Resume(thread);
    if (next.kind == Action::Kind::kSleep && state().next_request_at() < next.until) {
      next.until = state().next_request_at();  // the background runs it
      PassTo(std::max(now(), next.until));
      if (const auto request = state().NextRequest(now())) {
        PassTo(now() + kCommandTimeout);
        Deliver(*request, Silence());
      }
      next = Resume(thread);
    }
  }
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_GE(now(), began + kUnreachableAfter);
  EXPECT_TRUE(absl::IsUnavailable(thread.operation.waiter().failure));
}

TEST_F(AcquireOperationTest, AsksWithoutMessagesUnlessRefused) {
  Thread& thread = Call();
  EXPECT_EQ(Resume(thread, Operation::Event{}).kind, Action::Kind::kSubscribe);
  const absl::Status silent = absl::UnavailableError("silence");
  EXPECT_EQ(Resume(thread, {.subscribed_as = &silent}).kind, Action::Kind::kRun);

  Thread& refused = Call();
  EXPECT_EQ(Resume(refused, Operation::Event{}).kind, Action::Kind::kSubscribe);
  const absl::Status denied = absl::PermissionDeniedError("no");
  EXPECT_EQ(Resume(refused, {.subscribed_as = &denied}).kind, Action::Kind::kDone);
  EXPECT_EQ(refused.state(), State::kFailed);
}

TEST_F(AcquireOperationTest, SubscribesForAtMostHalfItsTime) {
  const auto time = [&](Thread& thread) {
    return Resume(thread, Operation::Event{}).until - now();
  };
  EXPECT_EQ(time(Call()), absl::Milliseconds(500));
  EXPECT_EQ(time(Call(absl::Milliseconds(60))), (absl::Milliseconds(60) + kAnswerGrace) / 2);
  EXPECT_EQ(time(Call(absl::ZeroDuration())), kAnswerGrace / 2);
}

TEST_F(AcquireOperationTest, AwaitsPendingWakeAfterOversleeping) {
  Thread& thread = CallAndQueue();
  EXPECT_FALSE(thread.operation.Overslept());
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kSleep);
  EXPECT_TRUE(thread.operation.NeedsWake());
  EXPECT_TRUE(thread.operation.Overslept());
  EXPECT_FALSE(thread.operation.NeedsWake()) << "it runs";
}

// A grant that one replica must confirm.
struct ConfirmedAcquireTest : AcquireOperationTest {
  Thread& CallForAcks(absl::Duration wait = absl::InfiniteDuration()) {
    Thread& thread = Call(wait);
    thread.operation.waiter().terms.acks.replicas = 1;
    EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
    return thread;
  }
  static Result TooFew() {
    return {.what = Failed{.why = absl::UnavailableError("0 of 1"), .too_few = true}};
  }
  // A call whose grant was not confirmed, and is given back.
  Thread& CallInVain(absl::Duration wait = absl::InfiniteDuration(),
                     const Result& result = TooFew()) {
    Thread& thread = CallForAcks(wait);
    EXPECT_EQ(Resume(thread, Granted()).kind, Action::Kind::kConfirm);
    EXPECT_EQ(Resume(thread, result).kind, Action::Kind::kRun);
    return thread;
  }
  // What the call had is given back. Returns until when the call then pauses.
  base::Instant PauseAfter(Thread& thread, const Result& given_back = {.what = Freed()}) {
    const Action pause = Resume(thread, given_back);
    EXPECT_EQ(pause.kind, Action::Kind::kSleep);
    return pause.until;
  }
};

TEST_F(ConfirmedAcquireTest, EndsWhenReplicasConfirmGrant) {
  Thread& thread = CallForAcks();
  ASSERT_EQ(Resume(thread, Granted()).kind, Action::Kind::kConfirm);
  EXPECT_TRUE(std::holds_alternative<RenewRequest>(thread.operation.request().what));
  const Result confirmed{.what = StillHeld{.acked = true, .acked_by = 1}};
  EXPECT_EQ(Resume(thread, confirmed).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kGranted);
}

TEST_F(ConfirmedAcquireTest, AsksAgainIfTooFewReplicasConfirm) {
  Thread& thread = CallInVain();
  EXPECT_TRUE(std::holds_alternative<ReleaseRequest>(thread.operation.request().what));
  PassTo(PauseAfter(thread));
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
  EXPECT_EQ(Resume(thread, Granted()).kind, Action::Kind::kConfirm);
}

TEST_F(ConfirmedAcquireTest, FailsWithReasonWhenItsTimeIsOver) {
  Thread& thread = CallInVain(absl::Milliseconds(1));
  EXPECT_EQ(Resume(thread, {.what = Freed()}).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_EQ(thread.operation.waiter().failure.message(), "given back: 0 of 1");
  EXPECT_TRUE(Quiet());
}

TEST_F(ConfirmedAcquireTest, PauseEndsWithItsObject) {
  for (const Operation::Event event : {Operation::Event{.gone = true}, {.stopped = true}}) {
    Make({});
    Thread& thread = CallInVain();
    const base::Instant until = PauseAfter(thread);
    EXPECT_EQ(Resume(thread).until, until) << "it was woken too early";
    EXPECT_EQ(Resume(thread, event).kind, Action::Kind::kDone);
    EXPECT_EQ(thread.operation.waiter().failure.message(), "given back: 0 of 1");
  }
}

TEST_F(ConfirmedAcquireTest, UnansweredGivingBackIsLeftToTheBackground) {
  Thread& thread = CallInVain(absl::Milliseconds(1));
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kDone);
  Fetch<ReleaseRequest>();
}

TEST_F(ConfirmedAcquireTest, BusyLockDoesNotHideWhyAGrantWasGivenBack) {
  Thread& thread = CallInVain(absl::Milliseconds(100));
  const base::Instant until = PauseAfter(thread, NoResult());
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  PassTo(until);
  ASSERT_EQ(Resume(thread).kind, Action::Kind::kRun);
  ASSERT_EQ(Resume(thread, Queued()).kind, Action::Kind::kSleep);
  Pass(absl::Milliseconds(100));
  ASSERT_EQ(Resume(thread).kind, Action::Kind::kRun);
  EXPECT_EQ(Resume(thread, Cancelled()).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kFailed);
  EXPECT_EQ(thread.operation.waiter().failure.message(), "given back: 0 of 1");
}

TEST_F(ConfirmedAcquireTest, ReaderWhoseGrantWasGivenBackMayJoinElsewhere) {
  Make({.use = GrantUse::kShared});
  Thread& thread = CallInVain();
  const base::Instant until = PauseAfter(thread);
  Answered(Granted(/*others=*/1), {.thread = 2});
  PassTo(until);
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kElsewhere);
}

TEST_F(ConfirmedAcquireTest, RefusedConfirmationIsNotTriedAgain) {
  Thread& thread =
      CallInVain(absl::InfiniteDuration(), Refusal(absl::PermissionDeniedError("no WAIT")));
  EXPECT_EQ(Resume(thread, {.what = Freed()}).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.operation.waiter().failure.message(), "given back: no WAIT");
}

TEST_F(AcquireOperationTest, CallEndsWithItsObject) {
  Thread& thread = Call();
  EXPECT_EQ(Resume(thread, {.subscribed = true, .gone = true}).kind, Action::Kind::kDone);
  EXPECT_EQ(thread.state(), State::kStopped);
  EXPECT_TRUE(Quiet()) << "it has asked for nothing";
  Thread& queued = CallAndQueue();
  Resume(queued, {.subscribed = true, .gone = true});
  EXPECT_EQ(queued.state(), State::kStopped);
}

TEST_F(AcquireOperationTest, AsksIfItIsWokenWhileItSubscribes) {
  Thread& thread = Call();
  ASSERT_EQ(Resume(thread, Operation::Event{}).kind, Action::Kind::kSubscribe);
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
}

TEST_F(AcquireOperationTest, GrantOfACallThatNoDriverFinishesGoesBack) {
  Thread& thread = Call();
  Effects effects;
  thread.operation.GiveBack(now(), state(), effects);
  EXPECT_TRUE(Quiet());
  EXPECT_EQ(Resume(thread).kind, Action::Kind::kRun);
  EXPECT_EQ(Resume(thread, Granted()).kind, Action::Kind::kDone);
  thread.operation.GiveBack(now(), state(), effects);
  Deliver(Fetch<ReleaseRequest>(), ReleasedThen());
  EXPECT_TRUE(state().vacant());
}

TEST_F(AcquireOperationTest, SilenceThatItsWaitHasMetBeforeIsItsFailure) {
  const AcquireCall call{.silence = {.since = now(), .why = absl::UnavailableError("elsewhere")}};
  AcquireOperation operation(call, {.now = now()});
  EXPECT_EQ(operation.waiter().failure, absl::UnavailableError("elsewhere"));
  EXPECT_EQ(operation.waiter().turn.get(), absl::ZeroDuration());
  EXPECT_FALSE(operation.decided());
}

TEST_F(AcquireOperationTest, ReadBesideAWriteHasNoTurn) {
  const AcquireOperation::Environment environment{.now = now()};
  AcquireCall call{.options = std::make_shared<LockOptions>(LockOptions{.turn = kThird})};
  EXPECT_EQ(AcquireOperation(call, environment).waiter().turn.get(), kThird);
  call.write_grant = 1;
  EXPECT_EQ(AcquireOperation(call, environment).waiter().turn.get(), absl::ZeroDuration());
}

}  // namespace
}  // namespace redlatch::internal
