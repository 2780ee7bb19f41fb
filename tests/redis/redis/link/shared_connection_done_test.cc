// Commands whose answer is given to a function.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"

namespace redlatch::redis {
namespace {

class SharedConnectionDoneTest : public ChannelFixture {
 protected:
  // Keeps the answers in the order in which they came.
  SharedConnection::Done Keep() {
    return [this](absl::StatusOr<Reply> answer) { answers_.push_back(std::move(answer)); };
  }

  TransportHooks hooks_;
  std::vector<absl::StatusOr<Reply>> answers_;
};

// Whoever drains lets those lead who wait themselves.
TEST_F(SharedConnectionDoneTest, EachIsCalledOnceAmongThreadsThatCallDrainAndLoseTheConnection) {
  constexpr int kThreads = 4;
  const int each = kSanitized ? 300 : 3000;
  const auto connection = Connected(Proxied());
  std::atomic<int> sent{0};
  std::atomic<int> told{0};
  std::atomic<int> twice{0};
  InThreads(kThreads, [&](int thread) {
    for (int i = 0; i < each; ++i) {
      const auto calls = std::make_shared<std::atomic<int>>(0);
      const auto done = [&, calls](const absl::StatusOr<Reply>&) {
        ++told;
        if (calls->fetch_add(1) > 0) ++twice;
      };
      if (connection->Send({"INCR", "counter"}, done).ok()) ++sent;
      if (i % 7 == thread) {
        const auto reply = connection->Call({"ECHO", "x"}, In(kPatience));
        EXPECT_TRUE(!reply.ok() || reply->text == "x") << "that is another's";
      }
      if (i % 5 == thread) connection->Drain(In(absl::Milliseconds(1)));
      if (thread == 0 && i % 100 == 99) proxy_.ResetAll();
    }
  });
  EXPECT_TRUE(Await([&] { return connection->Drain(In(absl::Milliseconds(10))); }));
  EXPECT_EQ(told, sent);
  EXPECT_GT(sent, 0);
  EXPECT_EQ(twice, 0);
}

TEST_F(SharedConnectionDoneTest, NothingIsSentOverAConnectionThatIsBeingLeft) {
  const auto connection = Connected(Direct());
  connection->MakeAnew("a test wants it");
  EXPECT_TRUE(absl::IsUnavailable(connection->Send({"PING"}, Keep())));
  ASSERT_TRUE(connection->Connect(In(kPatience)).ok());
  ASSERT_TRUE(connection->Send({"PING"}, Keep()).ok());
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  EXPECT_THAT(answers_, ::testing::SizeIs(1));
  EXPECT_EQ(connection->stats().connects, 2u);
}

// Its socket had no room for the second command. Each drain comes to a connection that was idle.
TEST_F(SharedConnectionDoneTest, ADrainThatDoesNotWaitEndsAConnectionThatIsBeingLeft) {
  bool blocked = false;
  hooks_.write = [&](Transport& real, std::string_view bytes) {
    return blocked ? IoResult{.kind = IoResult::Kind::kWantWrite} : real.Write(bytes);
  };
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  blocked = true;
  ASSERT_TRUE(connection->Send({"ECHO", "in flight"}, Keep()).ok());
  ASSERT_TRUE(connection->Send({"ECHO", "behind it"}, Keep()).ok());
  connection->MakeAnew("a test wants it");
  blocked = false;
  for (int i = 0; i < 500 && !connection->Drain(base::Now()); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(6));
  }
  ASSERT_THAT(answers_, ::testing::SizeIs(2));
  EXPECT_EQ(Text(answers_[0]), "\"in flight\"");
  EXPECT_TRUE(NotSent(answers_[1].status())) << answers_[1].status();
}

}  // namespace
}  // namespace redlatch::redis
