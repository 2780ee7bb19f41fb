// A subscription that seems to be fine, and to which nothing comes: a new connection on request.
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/process_stats.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Arrival;
using support::Direction;
using support::Scope;

class SubscriberAnew : public support::SubscriberTestFixture {
 protected:
  support::TcpProxy proxy_{{.port = server_->port()}};
};

TEST_F(SubscriberAnew, AHalfOpenConnectionIsReplacedAndEverythingSubscribedAnew) {
  const auto subscriber = Make(proxy_.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  ASSERT_EQ(Publish("c", "into the void"), 1);

  subscriber->MakeAnew();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_EQ(ears_.Count("down"), 1);
  EXPECT_TRUE(ArrivesSoon("c"));
  EXPECT_TRUE(ArrivesSoon("d"));
  EXPECT_EQ(subscriber->stats().connects, 2);
  EXPECT_EQ(subscriber->stats().breaks, 1);
}

TEST_F(SubscriberAnew, TheThreadThatReadsInItsPlaceIsNotInTheWay) {
  const auto subscriber = Make(proxy_.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  base::Parker parker;
  parker.Arm();
  std::thread waits([&] { EXPECT_EQ(subscriber->Await(parker, Soon()), 7); });
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  subscriber->MakeAnew();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_TRUE(ArrivesSoon("c"));
  parker.Set(7);
  waits.join();
}

TEST_F(SubscriberAnew, WithoutSubscriptionsNothingHappens) {
  const int threads = support::ThreadCount();
  const auto subscriber = Make(proxy_.url());
  subscriber->MakeAnew();
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_EQ(proxy_.stats().accepted, 0);
}

TEST_F(SubscriberAnew, AConnectionThatIsBeingMadeIsLetBe) {
  const auto subscriber = Make(proxy_.url());
  proxy_.SetArrival(Arrival::kIgnore);
  EXPECT_FALSE(subscriber->Subscribe("c", In(absl::Milliseconds(50))).ok());
  for (int i = 0; i < 1000; ++i) subscriber->MakeAnew();
  proxy_.Heal();
  EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_TRUE(ArrivesSoon("c"));
  EXPECT_EQ(subscriber->stats().connects, 1);
  EXPECT_EQ(proxy_.stats().accepted, 1);
}

TEST_F(SubscriberAnew, ItGoesWhereItIsTold) {
  SharedConnection commands(*ParseUrl(proxy_.url()));
  ASSERT_TRUE(commands.Connect(Soon()).ok());
  SubscriberOptions options;
  options.where = [&] { return std::optional<Target>(commands.peer()->target); };
  const auto subscriber = Make(server_->url(), std::move(options));
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  // One of the three was for the commands' connection to see that the address leads to one server.
  EXPECT_EQ(proxy_.stats().accepted, 3);
  EXPECT_TRUE(subscriber->peer()->target.address == commands.peer()->target.address);
  EXPECT_TRUE(ArrivesSoon("c"));
}

TEST_F(SubscriberAnew, APingFindsAHalfOpenConnection) {
  const auto subscriber = Make(
      proxy_.url(), {.ping_interval = absl::Hours(1), .answer_timeout = absl::Milliseconds(200)});
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  subscriber->Ping();
  EXPECT_TRUE(AwaitCalls("ping", 1));
  EXPECT_EQ(ears_.Count("down"), 0);
  proxy_.Drop(Direction::kToClient, Scope::kExisting);
  subscriber->Ping();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_TRUE(ArrivesSoon("c"));
}

TEST_F(SubscriberAnew, TheSubscriberMayEndInTheMidstOfIt) {
  for (int i = 0; i < 100; ++i) {
    auto subscriber = Make(server_->url());
    ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
    subscriber->MakeAnew();
    if (i % 2 == 0) std::this_thread::yield();
    subscriber.reset();
  }
}

}  // namespace
}  // namespace redlatch::redis
