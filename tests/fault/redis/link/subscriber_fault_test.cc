// Connections that break, and servers that come and go, under a subscriber.
#include <future>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/wire/codec.h"
#include "tests/support/punctuality.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Direction;
using support::Scope;
using ::testing::AllOf;
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

}  // namespace
}  // namespace redlatch::redis
