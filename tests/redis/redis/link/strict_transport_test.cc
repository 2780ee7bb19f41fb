// The proof that TLS will fit: all that uses a transport calls it one thread at a time, and waits
// for what a step wants rather than for what its name says.
#include "tests/redis/redis/link/strict_transport.h"

#include "src/redis/connect/connector.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

void ExpectPutToTheTest(const StrictCounts& counts) {
  EXPECT_EQ(counts.meetings, 0);
  EXPECT_GT(counts.writes_that_read, 0);
  EXPECT_GT(counts.reads_that_write, 0);
}

using StrictConnectorTest = ChannelFixture;

TEST_F(StrictConnectorTest, GoesOnWhereACallOfLittlePatienceHasStopped) {
  StrictCounts counts;
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(5));
  for (int i = 0; i < 20; ++i) {
    Connector connector(UrlOf(proxy_.url()), Handshake::Purpose::kCommands, Strict(counts));
    EXPECT_TRUE(Await([&] {
      const auto made = connector.Step(In(absl::Microseconds(200)));
      return made.ok() && made->has_value();
    }));
  }
  ExpectPutToTheTest(counts);
}

TEST_F(StrictConnectorTest, ManyThreadsGetEachItsOwnReplies) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 250;
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(80)}) {
    for (const size_t most_bytes : {0, 200'000}) {
      StrictCounts counts;
      const auto connection = Connected(Direct({.spin = spin, .open = Strict(counts)}));
      InThreads(kThreads, [&](int thread) {
        for (int i = 0; i < kCalls; ++i) {
          const std::string mine =
              absl::StrCat(thread, ":", i, std::string(i * most_bytes / kCalls, 'x'));
          ASSERT_EQ(Echo(*connection, mine), mine);
          if (i % 5 == 0) {
            ASSERT_TRUE(connection->Send({"INCR", "sent"}).ok());
          }
        }
      });
      EXPECT_EQ(connection->stats().connects, 1);
      EXPECT_EQ(connection->stats().late, 0);
      ExpectPutToTheTest(counts);
    }
  }
}

using StrictSubscriberTest = support::SubscriberTestFixture;

TEST_F(StrictSubscriberTest, MessagesArriveWhileGuestsReadAndChannelsComeAndGo) {
  constexpr int kMessages = 300;
  constexpr uint32_t kHeard = 1;
  StrictCounts counts;
  base::Parker parker;
  SubscriberOptions options;
  options.open = Strict(counts);
  options.on_message = [&](std::string_view channel, std::string_view) {
    if (channel == "c") parker.Set(kHeard);
  };
  const auto subscriber = std::make_unique<Subscriber>(*ParseUrl(server_->url()), options);
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  std::atomic<bool> stop{false};
  std::vector<std::thread> others;
  for (const char* channel : {"d", "e"}) {
    others.emplace_back([&, channel] {
      while (!stop) {
        EXPECT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
        subscriber->Ping();
        EXPECT_TRUE(subscriber->Unsubscribe(channel, Soon()).ok());
      }
    });
  }
  for (int i = 0; i < kMessages; ++i) {
    parker.Arm();
    EXPECT_EQ(Publish("c", std::to_string(i)), 1);
    EXPECT_EQ(subscriber->Await(parker, Soon()), kHeard);
  }
  stop = true;
  for (std::thread& each : others) each.join();
  EXPECT_EQ(subscriber->stats().breaks, 0);
  ExpectPutToTheTest(counts);
}

}  // namespace
}  // namespace redlatch::redis
