// Commands whose answer is given to a function.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <vector>

#include "tests/redis/redis/link/shared_connection_fixture.h"

namespace redlatch::redis {
namespace {

class SharedConnectionDoneTest : public ChannelFixture {
 protected:
  // Keeps the answers in the order in which they came.
  SharedConnection::Done Keep() {
    return [this](absl::StatusOr<Reply> answer) { answers_.push_back(std::move(answer)); };
  }

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

}  // namespace
}  // namespace redlatch::redis
