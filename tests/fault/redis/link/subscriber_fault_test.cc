// Connections that break, and servers that come and go, under a subscriber.
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/wire/codec.h"
#include "tests/support/process_stats.h"
#include "tests/support/punctuality.h"
#include "tests/support/raw_connection.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Arrival;
using support::Direction;
using support::ProxyStats;
using support::Scope;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SubscriberFault : public support::SubscriberTestFixture {
 protected:
  static constexpr absl::Duration kPing = absl::Milliseconds(40);
  static constexpr absl::Duration kAnswer = absl::Milliseconds(80);
  static SubscriberOptions Impatient() {
    return {.ping_interval = kPing, .answer_timeout = kAnswer};
  }
  // Live through the proxy, with one channel: "c".
  std::unique_ptr<Subscriber> MakeLive(SubscriberOptions options = {}) {
    auto subscriber = Make(proxy_.url() + "?connect_timeout=500ms", std::move(options));
    EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok());
    return subscriber;
  }
  void ExpectHealed(int losses = 1) {
    EXPECT_TRUE(ears_.Await("live again", losses));
    EXPECT_TRUE(ArrivesSoon("c"));
  }

  support::TcpProxy proxy_{{.port = server_->port()}};
};

TEST_F(SubscriberFault, SubscribingWhileTheServerIsDownGoesOnInTheBackground) {
  server_->Kill();
  const auto subscriber = Make(server_->url());
  Punctuality punctuality;
  const base::Instant deadline = In(absl::Milliseconds(100));
  const absl::Status subscribed = subscriber->Subscribe("c", deadline);
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(50)));
  EXPECT_EQ(subscribed.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(subscribed.message()),
              AllOf(HasSubstr(server_->url()), HasSubstr("refused"), HasSubstr("background")));
  EXPECT_FALSE(subscriber->live());
  EXPECT_GE(ears_.Count("down"), 1);
  EXPECT_EQ(ears_.Count("live again"), 0);
  server_->Restart();
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(Publish("c", "m"), 1);
  EXPECT_TRUE(ears_.Await("message c m"));
  EXPECT_EQ(ears_.Count("live again"), 1);
}

TEST_F(SubscriberFault, ALossIsToldOnceAndItsEndWhenAllIsLive) {
  constexpr int kChannels = 200;
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(10));
  // All that matters happens in the callback: a message it publishes must reach everybody.
  SubscriberOptions options = ears_.Options();
  std::atomic<int64_t> receivers{0};
  options.on_live_again = [&, hear = options.on_live_again] {
    for (int i = 0; i < kChannels; ++i) receivers += Publish("c" + std::to_string(i), "after");
    hear();
  };
  Subscriber subscriber(*ParseUrl(proxy_.url()), options);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kChannels; i += 4) {
        EXPECT_TRUE(subscriber.Subscribe("c" + std::to_string(i), Soon()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int round = 1; round <= 3; ++round) {
    receivers = 0;
    ears_.Forget();
    ASSERT_EQ(KillSubscribers(), 1);
    EXPECT_TRUE(ears_.Await("live again"));
    EXPECT_EQ(receivers, kChannels);
    for (int i = 0; i < kChannels; ++i) {
      ASSERT_TRUE(ears_.Await("message c" + std::to_string(i) + " after")) << i;
    }
    EXPECT_EQ(ears_.Count("down"), 1);
    EXPECT_EQ(ears_.Count("live again"), 1);
    EXPECT_EQ(ears_.heard().front(), "down");
  }
  EXPECT_EQ(subscriber.stats().connects, 4);
  EXPECT_EQ(subscriber.stats().breaks, 3);
}

TEST_F(SubscriberFault, AConnectionThatWasOfUseIsReplacedAtOnce) {
  const auto subscriber = MakeLive({.first_backoff = absl::Seconds(60)});
  for (int losses = 1; losses <= 3; ++losses) {
    for (int i = 0; i < 20; ++i) Publish("c", "m");
    EXPECT_TRUE(ears_.Await("message c m", 20 * losses));
    ASSERT_EQ(KillSubscribers(), 1);
    EXPECT_TRUE(ears_.Await("live again", losses));
  }
}

TEST_F(SubscriberFault, ARestartedServerIsFoundAgain) {
  const auto subscriber = Make(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  server_->Restart();
  ExpectHealed();
  server_->Shutdown();
  EXPECT_TRUE(ears_.Await("down", 3));
  server_->Restart();
  ExpectHealed(2);
}

TEST_F(SubscriberFault, AServerThatHangsIsNoticedAndAwaited) {
  const auto subscriber = Make(server_->url() + "?connect_timeout=50ms", Impatient());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  server_->Stop();
  EXPECT_TRUE(ears_.Await("down", 2));  // the kernel goes on accepting for it
  EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr("no answer to the handshake"));
  server_->Continue();
  ExpectHealed();
}

TEST_F(SubscriberFault, AClientThatReadsTooSlowlyIsDroppedAndComesBack) {
  server_->Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 64kb 0 0"});
  std::promise<void> go_on;
  SubscriberOptions options = ears_.Options();
  options.on_message = [&, hear = options.on_message](std::string_view channel,
                                                      std::string_view message) {
    if (message == "stay") return go_on.get_future().wait();
    if (message.size() < 100) hear(channel, message);
  };
  Subscriber subscriber(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(subscriber.Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "stay"), 1);
  // What the kernel's buffers hold goes first.
  const std::string filler(1 << 20, '.');
  while (Publish("c", filler) > 0) {
  }
  go_on.set_value();
  ExpectHealed();
  EXPECT_EQ(ears_.heard().front(), "down");
}

TEST_F(SubscriberFault, ASilentConnectionIsNoticedByAPingAndReplaced) {
  for (const Direction lost : {Direction::kToClient, Direction::kToServer}) {
    SCOPED_TRACE(static_cast<int>(lost));
    ears_.Forget();
    const auto subscriber = MakeLive(Impatient());
    const base::Instant begun = base::Now();
    proxy_.Drop(lost, Scope::kExisting);
    EXPECT_TRUE(ears_.Await("down"));
    const absl::Duration noticed = base::Now() - begun;
    EXPECT_GE(noticed, kAnswer);
    EXPECT_LE(noticed, kPing + kAnswer + absl::Milliseconds(500));
    EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr("no answer within 80ms"));
    ExpectHealed();
    proxy_.Heal();
  }
}

TEST_F(SubscriberFault, ASubscriptionThatIsNotAcknowledgedReplacesTheConnection) {
  const auto subscriber = MakeLive({.answer_timeout = absl::Milliseconds(50)});
  proxy_.Drop(Direction::kToServer, Scope::kExisting);
  EXPECT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  EXPECT_EQ(subscriber->stats().breaks, 1);
  EXPECT_TRUE(ArrivesSoon("d"));
  ExpectHealed();
}

TEST_F(SubscriberFault, AfterALongSilenceAnAnswerHasItsTime) {
  const auto subscriber = MakeLive({.answer_timeout = absl::Milliseconds(300)});
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(5));
  EXPECT_FALSE(ears_.Await("down", 1, absl::Milliseconds(400)));
  EXPECT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  EXPECT_EQ(subscriber->stats().breaks, 0);
}

TEST_F(SubscriberFault, WhatAnAbandonedConnectionStillSaysIsHeardByNobody) {
  const auto subscriber = MakeLive(Impatient());
  proxy_.Hold(Direction::kToClient, Scope::kExisting);
  EXPECT_EQ(Publish("c", "late"), 1);
  EXPECT_TRUE(ears_.Await("live again"));
  proxy_.ReleaseHeld();
  ExpectHealed();
  EXPECT_EQ(ears_.Count("message c late"), 0);
}

TEST_F(SubscriberFault, EveryWayToEndAConnectionIsALoss) {
  const auto subscriber = MakeLive(Impatient());
  const std::function<void()> ways[] = {
      [&] { proxy_.ResetAll(); },
      [&] { proxy_.CloseAll(); },
      [&] { proxy_.HalfClose(Direction::kToClient); },
      [&] { proxy_.HalfClose(Direction::kToServer); },
      [&] { EXPECT_EQ(KillSubscribers(), 1); },
  };
  int losses = 0;
  for (const auto& way : ways) {
    way();
    ExpectHealed(++losses);
    EXPECT_EQ(ears_.Count("down"), losses);
  }
}

TEST_F(SubscriberFault, AMessageThatIsCutIsNoMessage) {
  const auto subscriber = MakeLive({.longest_backoff = absl::Milliseconds(5)});
  const std::string message(60, 'm');
  const int size = static_cast<int>(Command({"message", "c", message}).bytes().size());
  for (int bytes = 0, losses = 1; bytes < size; bytes += 3, ++losses) {
    proxy_.CutAfter(Direction::kToClient, bytes);
    EXPECT_EQ(Publish("c", message), 1);
    ASSERT_TRUE(ears_.Await("live again", losses));
  }
  EXPECT_EQ(ears_.Count("message c " + message), 0);
  EXPECT_EQ(subscriber->stats().messages, 0);
}

TEST_F(SubscriberFault, ConnectingIsTriedAgainWhateverStopsIt) {
  const auto subscriber =
      Make(proxy_.url() + "?connect_timeout=50ms", {.longest_backoff = absl::Milliseconds(50)});
  int downs = 0;
  for (const Arrival arrival : {Arrival::kRefuse, Arrival::kIgnore, Arrival::kHang}) {
    proxy_.SetArrival(arrival);
    EXPECT_FALSE(subscriber->Subscribe("c", In(absl::Milliseconds(1))).ok());
    EXPECT_TRUE(ears_.Await("down", downs + 2));
    downs = ears_.Count("down");
  }
  proxy_.Heal();
  EXPECT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ExpectHealed();
}

TEST_F(SubscriberFault, AHundredLossesCostNeitherDescriptorsNorSubscriptions) {
  const auto subscriber = Make(server_->url(), {.longest_backoff = absl::Milliseconds(5)});
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(subscriber->Subscribe("c" + std::to_string(i), Soon()).ok());
  }
  EXPECT_EQ(Publish("c0", "m"), 1);  // the fixture's own connection is there, too
  const int descriptors = support::OpenDescriptors();
  const int threads = support::ThreadCount();
  for (int losses = 1; losses <= 100; ++losses) {
    ASSERT_EQ(KillSubscribers(), 1);
    ASSERT_TRUE(ears_.Await("live again", losses));
  }
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_EQ(ears_.Count("down"), 100);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Publish("c" + std::to_string(i), "m"), 1);
}

}  // namespace
}  // namespace redlatch::redis
