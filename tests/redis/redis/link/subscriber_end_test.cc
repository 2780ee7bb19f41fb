// A subscriber may be destroyed at any moment at which no call of it is in progress.
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/process_stats.h"
#include "tests/support/raw_connection.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/test_scale.h"

namespace redlatch::redis {
namespace {

class SubscriberEnd : public support::SubscriberTestFixture {
 protected:
  // That its end takes no time, leaves nothing, and that nothing is heard after it.
  void ExpectToEndAtOnce(std::unique_ptr<Subscriber> subscriber) {
    const base::Instant begun = base::Now();
    subscriber.reset();
    EXPECT_LT(base::Now() - begun, absl::Seconds(1));
    const auto heard = ears_.heard();
    EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));  // the fixture's own
    Publish("c", "nobody is there");
    EXPECT_EQ(ears_.heard(), heard);
    EXPECT_TRUE(AwaitThreads(threads_));
    EXPECT_EQ(support::OpenDescriptors(), descriptors_);
  }

  const std::string clients_ = server_->Info("connected_clients");  // connects the fixture
  const int threads_ = support::ThreadCount();
  const int descriptors_ = support::OpenDescriptors();
};

TEST_F(SubscriberEnd, WhileACallbackRunsItWaitsForThat) {
  std::atomic<bool> running{false};
  std::atomic<bool> over{false};
  SubscriberOptions options;
  options.on_message = [&](std::string_view, std::string_view) {
    running = true;
    running.notify_all();
    server_->Text({"DEBUG", "SLEEP", "0.1"});
    over = true;
  };
  auto subscriber = std::make_unique<Subscriber>(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "m"), 1);
  running.wait(false);
  subscriber.reset();
  EXPECT_TRUE(over);
}

TEST_F(SubscriberEnd, AmidAFloodOfMessages) {
  std::atomic<bool> stop{false};
  std::thread publisher([&] {
    auto connection = support::RawConnection::ToPort(server_->port());
    const std::string message(1000, 'm');
    while (!stop) {
      for (int i = 0; i < 100; ++i) connection.Send({"PUBLISH", "c", message});
      for (int i = 0; i < 100; ++i) EXPECT_FALSE(connection.Receive().is_error());
    }
  });
  for (int i = 0; i < 20; ++i) {
    auto subscriber = Make(server_->url());
    ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
    EXPECT_TRUE(ears_.Await("message c " + std::string(1000, 'm')));
    const base::Instant begun = base::Now();
    subscriber.reset();
    EXPECT_LT(base::Now() - begun, absl::Seconds(1));
    ears_.Forget();
  }
  stop = true;
  publisher.join();
}

TEST_F(SubscriberEnd, AtAnyMomentOfTheFirstMilliseconds) {
  const int rounds = support::Scaled(400);
  for (int i = 0; i < rounds; ++i) {
    auto subscriber = Make(server_->url());
    (void)subscriber->Subscribe("c", In(absl::Microseconds(5 * i)));
    if (i % 3 == 0) KillSubscribers();
    (void)subscriber->Unsubscribe("c", In(absl::Microseconds(i)));
  }
  ExpectToEndAtOnce(nullptr);
}

}  // namespace
}  // namespace redlatch::redis
