// What a forked child destroys of a connection or a subscriber that a thread of its parent was
// using.

#include "absl/types/span.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/transport/open.h"
#include "tests/redis/memory/fork_sweep.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch {
namespace {

class ForkSweep : public support::SubscriberTestFixture {
 protected:
  static constexpr char kOne[] = "a connection with a name that is allocated";
  static constexpr char kOther[] = "another such connection, for the same reason";
};

TEST_F(ForkSweep, AChildMayDestroyASubscriberWhateverACallOfItWasDoing) {
  std::unique_ptr<redis::Subscriber> subscriber;
  const int halts = Sweep(
      [&] {
        subscriber = Make(server_->url());
        EXPECT_TRUE(subscriber->Subscribe(kOne, Soon()).ok());
      },
      [&](int steps) {
        steps_left = steps;
        EXPECT_TRUE(subscriber->Subscribe(kOther, Soon()).ok());
        EXPECT_TRUE(subscriber->Unsubscribe(kOne, Soon()).ok());
        steps_left = -1;
      },
      [&] { subscriber.reset(); });
  EXPECT_GT(halts, 5);
}

TEST_F(ForkSweep, AChildMayDestroyASubscriberWhateverItsThreadWasDoing) {
  std::unique_ptr<redis::Subscriber> subscriber;
  std::atomic<int> next_steps{-1};
  redis::SubscriberOptions options;
  options.open = [&](const redis::Target& target) {
    steps_left = next_steps;  // the subscriber's thread connects
    return redis::OpenTransport(target);
  };
  options.on_message = [](std::string_view, std::string_view) { steps_left = -1; };
  const int halts = Sweep(
      [&] {
        subscriber = std::make_unique<redis::Subscriber>(*redis::ParseUrl(server_->url()), options);
      },
      [&](int steps) {
        next_steps = steps;
        EXPECT_TRUE(subscriber->Subscribe(kOne, Soon()).ok());
        EXPECT_TRUE(subscriber->Subscribe(kOther, Soon()).ok());
        EXPECT_EQ(Publish(kOne, "the end"), 1);
        while (subscriber->stats().messages == 0) {
        }
      },
      [&] { subscriber.reset(); });
  EXPECT_GT(halts, 20);
}

// With a handshake of several answers, and a connection that ends.
TEST_F(ForkSweep, AChildMayDestroyAChannelWhateverACallOfItWasDoing) {
  const auto server = RedisServer::Start({.password = "a secret"});
  const auto url = redis::ParseUrl(
      "redis://:a%20secret@127.0.0.1:" + std::to_string(server->port()) + "/3?name=sweep");
  ASSERT_TRUE(url.ok()) << url.status();
  std::unique_ptr<redis::SharedConnection> connection;
  const int halts = Sweep([&] { connection = std::make_unique<redis::SharedConnection>(*url); },
                          [&](int steps) {
                            steps_left = steps;
                            EXPECT_TRUE(connection->Connect(Soon()).ok());
                            std::vector<absl::StatusOr<redis::Reply>> replies(3);
                            const redis::Command echo{"ECHO", std::string(100, 'x')};
                            connection->CallBatch(std::vector<redis::Command>(3, echo), Soon(),
                                                  absl::MakeSpan(replies));
                            EXPECT_TRUE(connection->Send(echo).ok());
                            EXPECT_TRUE(connection->Call({"QUIT"}, Soon()).ok());
                            while (!connection->Call(echo, Soon()).ok()) {
                            }
                            steps_left = -1;
                          },
                          [&] { connection.reset(); });
  EXPECT_GT(halts, 50);
}

}  // namespace
}  // namespace redlatch
