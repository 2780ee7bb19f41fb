// A forked child and the subscriber of its parent.

#include "src/redis/link/subscriber.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

class SubscriberFork : public support::SubscriberTestFixture {
 protected:
  // What the child returns: 0 is well.
  static int ExitCode(const std::function<int()>& body) {
    auto child = support::Child::Fork([&](support::LinePipe&) { return body(); });
    const auto status = child->WaitFor(kPatience);
    if (!status.has_value()) return -1;  // it hangs
    return status->signal != 0 ? 1000 + status->signal : status->code;
  }

  // So many descriptors, by destroying its copy.
  static void ExpectTheChildToClose(int descriptors, std::unique_ptr<Subscriber>& subscriber) {
    const int code = ExitCode([&] {
      const int before = support::OpenDescriptors();
      subscriber.reset();
      EXPECT_EQ(support::OpenDescriptors(), before - descriptors);
      return HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(code, 0);
  }
};

TEST_F(SubscriberFork, EveryCallIsRefusedInTheChild) {
  const auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  const int code = ExitCode([&] {
    const absl::Status subscribed = subscriber->Subscribe("d", Soon());
    const absl::Status known = subscriber->Subscribe("c", Soon());
    const absl::Status unsubscribed = subscriber->Unsubscribe("c", Soon());
    EXPECT_EQ(subscribed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(known.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(unsubscribed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(subscribed.message()), HasSubstr(server_->url()));
    EXPECT_THAT(std::string(subscribed.message()), HasSubstr("after fork()"));
    EXPECT_FALSE(subscriber->live());
    EXPECT_EQ(subscriber->stats().connects, 0);
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(SubscriberFork, TheChildsDestructorClosesTheGate) {
  auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  const int without = support::OpenDescriptors();
  subscriber->Attend(/*begins=*/true);
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());  // the thread has a turn
  ASSERT_TRUE(Await([&] { return support::OpenDescriptors() == without + 1; }));
  ExpectTheChildToClose(3, subscriber);
  EXPECT_EQ(server_->Integer({"PUBLISH", "c", "m"}), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
}

TEST_F(SubscriberFork, TheChildsDestructorClosesAConnectionThatIsBeingMade) {
  TcpProxy proxy({.port = server_->port()});
  proxy.Hold(Direction::kToClient);
  auto subscriber = Make(proxy.url() + "?connect_timeout=60s");
  std::thread waiter([&] { EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok()); });
  EXPECT_TRUE(AwaitWaiting(proxy));
  ExpectTheChildToClose(2, subscriber);
  proxy.Heal();
  waiter.join();
}

// glibc's condition variables wait in their destructor for their waiters, of which a child has
// none.
TEST_F(SubscriberFork, TheChildsDestructorDoesNotHangWhereAThreadOfTheParentWaited) {
  TcpProxy proxy({.port = server_->port()});
  auto subscriber = Make(proxy.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  proxy.Hold(Direction::kToServer);
  std::thread waiter([&] { EXPECT_TRUE(subscriber->Subscribe("d", Soon()).ok()); });
  // The request could be taken from under the lock: whoever waits has let go of it.
  EXPECT_TRUE(AwaitWaiting(proxy));
  const int code = ExitCode([&] {
    subscriber.reset();
    return 0;
  });
  EXPECT_EQ(code, 0);
  proxy.Heal();
  waiter.join();
}

// A sanitizer's forked children must start no threads.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
// The thread of a parent's subscriber is not there in the child, and glibc gives its memory, by
// which it is known, to the next one that the child starts.
TEST_F(SubscriberFork, AChildsNewSubscriberIsNotMistakenForItsParents) {
  auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  const int code = ExitCode([&] {
    auto own = Make(server_->url());
    const absl::Status subscribed = own->Subscribe("own", Soon());
    EXPECT_TRUE(subscribed.ok()) << subscribed;
    subscriber.reset();
    EXPECT_EQ(server_->Text({"PING"}), "PONG");
    EXPECT_TRUE(own->Subscribe("own too", Soon()).ok());
    own.reset();
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}
#endif

TEST_F(SubscriberFork, AChildIsUnharmedWhateverItsParentsThreadsWereDoing) {
  auto subscriber = Make(server_->url());
  std::atomic<bool> stop{false};
  std::vector<std::thread> busy;
  for (int i = 0; i < 3; ++i) {
    busy.emplace_back([&, i] {
      const std::string channel =
          "a channel with a name long enough to be allocated " + std::to_string(i);
      while (!stop) {
        EXPECT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
        EXPECT_TRUE(subscriber->Unsubscribe(channel, Soon()).ok());
        (void)subscriber->live();
      }
    });
  }
  const int rounds = support::Scaled(300);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    const int code = ExitCode([&] {
      if (subscriber->live() || subscriber->stats().connects != 0) return 1;
      if (subscriber->Subscribe("d", Soon()).ok()) return 2;
      subscriber.reset();
      return 0;
    });
    EXPECT_EQ(code, 0) << "round " << round;
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  EXPECT_EQ(ears_.Count("down"), 0);
}

}  // namespace
}  // namespace redlatch::redis
