// A forked child and the subscriber of its parent.

#include "src/redis/link/subscriber.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using SubscriberFork = support::SubscriberTestFixture;

TEST_F(SubscriberFork, TheChildsDestructorClosesTheGate) {
  auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  const int without = support::OpenDescriptors();
  subscriber->Attend(/*begins=*/true);
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());  // the thread has a turn
  ASSERT_TRUE(Await([&] { return support::OpenDescriptors() == without + 1; }));
  const int code = support::CodeOfFork([&] {
    const int before = support::OpenDescriptors();
    subscriber.reset();
    EXPECT_EQ(support::OpenDescriptors(), before - 3);
    return HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(server_->Integer({"PUBLISH", "c", "m"}), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
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
  const int code = support::CodeOfFork([&] {
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
  const int code = support::CodeOfFork([&] {
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

}  // namespace
}  // namespace redlatch::redis
