// Calls of the subscriber, its thread and the server, met at awkward moments.
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/fake_server.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Direction;
using support::FakeServer;
using support::ProxyStats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class SubscriberRace : public support::SubscriberTestFixture {
 protected:
  // A subscriber whose callback stays at its first message until it is told to go on.
  std::unique_ptr<Subscriber> MakeSlow(const std::string& url) {
    SubscriberOptions options = ears_.Options();
    options.on_message = [this, hear = options.on_message](std::string_view channel,
                                                           std::string_view message) {
      hear(channel, message);
      if (ears_.heard().size() == 1) go_on_.get_future().wait();
    };
    return std::make_unique<Subscriber>(*ParseUrl(url), std::move(options));
  }

  std::promise<void> go_on_;
};

TEST_F(SubscriberRace, NoUnsubscribeIsOkWhileAMessageOfTheChannelIsBeingDelivered) {
  const auto subscriber = MakeSlow(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "1"), 1);
  ASSERT_EQ(Publish("c", "2"), 1);
  ASSERT_TRUE(ears_.Await("message c 1"));
  const absl::Status first = subscriber->Unsubscribe("c", In(absl::Milliseconds(10)));
  EXPECT_EQ(first.code(), kUnavailable);
  EXPECT_THAT(std::string(first.message()), HasSubstr(server_->url()));
  // Nor the next: it is unknown no sooner than the server has let it go.
  EXPECT_EQ(subscriber->Unsubscribe("c", In(absl::Milliseconds(10))).code(), kUnavailable);
  go_on_.set_value();
  EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
  EXPECT_THAT(ears_.heard(), ElementsAre("message c 1"));
  EXPECT_EQ(Publish("c", "3"), 0);
}

TEST_F(SubscriberRace, AChannelThatIsBeingLeftIsSubscribedAnew) {
  const auto subscriber = MakeSlow(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "1"), 1);
  ASSERT_TRUE(ears_.Await("message c 1"));
  EXPECT_FALSE(subscriber->Unsubscribe("c", base::Now()).ok());
  std::thread again([&] { EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok()); });
  ASSERT_EQ(Publish("c", "2"), 1);  // of the subscription that is being left
  go_on_.set_value();
  again.join();
  ASSERT_EQ(Publish("c", "3"), 1);
  EXPECT_TRUE(ears_.Await("message c 3"));
  EXPECT_THAT(ears_.heard(), ElementsAre("message c 1", "message c 3"));
}

TEST_F(SubscriberRace, AChannelThatIsBeingLeftWhenTheConnectionIsLostDoesNotComeBack) {
  support::TcpProxy proxy({.port = server_->port()});
  const auto subscriber = Make(proxy.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  proxy.Hold(Direction::kToServer);
  std::thread leaver([&] { EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok()); });
  EXPECT_TRUE(AwaitWaiting(proxy));
  // One that is asked for, and one that was left and is asked for again.
  EXPECT_FALSE(subscriber->Subscribe("e", In(absl::Milliseconds(5))).ok());
  EXPECT_FALSE(subscriber->Unsubscribe("d", base::Now()).ok());
  EXPECT_FALSE(subscriber->Subscribe("d", base::Now()).ok());
  proxy.ResetAll();
  proxy.Heal();
  leaver.join();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_EQ(Publish("c", "m"), 0);
  EXPECT_EQ(Publish("d", "m"), 1);
  EXPECT_EQ(Publish("e", "m"), 1);
  EXPECT_TRUE(ears_.Await("message e m"));
  EXPECT_EQ(ears_.Count("message d m"), 1);
}

TEST_F(SubscriberRace, SubscriptionsThatGoOnComingDoNotHoldUpTheNewsOfARecovery) {
  support::TcpProxy proxy({.port = server_->port()});
  proxy.Delay(Direction::kToServer, absl::Milliseconds(30));
  const auto subscriber = Make(proxy.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    // A new one each few milliseconds: at no moment is everything acknowledged.
    for (int i = 0; !stop; ++i) {
      (void)subscriber->Subscribe(std::to_string(i), In(absl::Milliseconds(5)));
    }
  });
  ASSERT_EQ(KillSubscribers(), 1);
  EXPECT_TRUE(ears_.Await("live again"));
  stop = true;
  busy.join();
  EXPECT_EQ(ears_.Count("down"), ears_.Count("live again"));
}

TEST_F(SubscriberRace, TheNewsOfARecoveryComesBeforeTheFirstMessageAfterIt) {
  FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command[0] == "UNSUBSCRIBE") return std::nullopt;
    if (asked.connection == 1 || asked.command[0] != "SUBSCRIBE") return FakeServer::Polite(asked);
    // In one write, and thus most likely in one read.
    return *FakeServer::Polite(asked) + "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
  });
  const auto subscriber = Make(server.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
  EXPECT_TRUE(ears_.Await("down"));
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  EXPECT_TRUE(ears_.Await("message c m"));
  EXPECT_THAT(ears_.heard(), ElementsAre("down", "live again", "message c m"));
}

TEST_F(SubscriberRace, AServerThatHangsUpOnEachSubscriptionIsNotBesieged) {
  FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command[0] == "SUBSCRIBE") return std::nullopt;
    return FakeServer::Polite(asked);
  });
  const auto subscriber = Make(server.url(), {.first_backoff = absl::Milliseconds(20),
                                              .longest_backoff = absl::Milliseconds(200)});
  EXPECT_EQ(subscriber->Subscribe("c", In(absl::Milliseconds(500))).code(), kUnavailable);
  // 10, 20, 40, 80, then 100 ms each, at the least, and one at the start.
  EXPECT_LE(server.connections(), 9);
  EXPECT_GE(server.connections(), 3);
}

TEST_F(SubscriberRace, AnAttemptToConnectThatNobodyNeedsAnyMoreIsGivenUp) {
  support::TcpProxy proxy({.port = server_->port()});
  proxy.Hold(Direction::kToClient);
  const auto subscriber = Make(proxy.url());
  EXPECT_FALSE(subscriber->Subscribe("c", In(absl::Milliseconds(1))).ok());
  EXPECT_TRUE(proxy.Await([](const ProxyStats& stats) { return stats.accepted == 1; }));
  EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
  EXPECT_TRUE(server_->AwaitInfo("connected_clients", "1"));  // the fixture's own
  proxy.Heal();
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  EXPECT_THAT(ears_.heard(), IsEmpty());
}

// A host to look up or a server to start cannot be woken from.
TEST_F(SubscriberRace, TheDestructorDoesNotWaitForAServerThatDoesNotStart) {
  EmbeddedHome home;
  WriteScript(home.Aside("redis-server"), "exec sleep 60\n");
  const std::string path = home.Aside("") + ":" + getenv("PATH");
  ScopedEnvironment environment("PATH", path.c_str());
  ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  auto subscriber = Make("embedded:" + home.directory() + "?connect_timeout=60s");
  EXPECT_EQ(subscriber->Subscribe("c", In(absl::Milliseconds(100))).code(), kUnavailable);
  const base::Instant begun = base::Now();
  subscriber.reset();
  EXPECT_LT(base::Now() - begun, absl::Seconds(2));
}

}  // namespace
}  // namespace redlatch::redis
