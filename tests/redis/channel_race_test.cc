// Schedules that a run meets rarely, made to happen: the transport's steps are held up, or fail,
// at the moment that hurts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/redis/channel.h"
#include "src/redis/codec.h"
#include "src/redis/errors.h"
#include "tests/redis/channel_fixture.h"
#include "tests/redis/hooked_transport.h"

namespace redlatch::redis {
namespace {

class ChannelRaceTest : public ChannelFixture {
 protected:
  std::unique_ptr<Channel> Hooked(absl::Duration spin) {
    ChannelOptions options;
    options.spin = spin;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = redis::Hooked(hooks_);
    return Connected(Direct(std::move(options)));
  }

  // The next write takes nothing, as where the kernel's buffer is full.
  void BlockOneWrite() {
    hooks_.write = [blocked = std::make_shared<std::atomic<bool>>(false)](Transport& real,
                                                                          std::string_view bytes) {
      if (!blocked->exchange(true)) return IoResult{.kind = IoResult::Kind::kAgain};
      return real.Write(bytes);
    };
  }

  // Until the leader looks for a reply (again).
  bool AwaitRead() {
    return Await([this, before = hooks_.reads.load()] { return hooks_.reads > before; });
  }

  TransportHooks hooks_;
};

TEST_F(ChannelRaceTest, ALeaderThatSpinsWhileItsWriteIsBlockedSeesThatThereIsRoomAgain) {
  const auto channel = Hooked(absl::Seconds(1));
  BlockOneWrite();
  std::thread leader([&] { EXPECT_EQ(Echo(*channel, "first", In(absl::Seconds(5))), "first"); });
  EXPECT_TRUE(AwaitRead());
  EXPECT_EQ(Echo(*channel, "second", In(absl::Seconds(5))), "second");
  leader.join();
}

TEST_F(ChannelRaceTest, ALeaderThatSpinsForgetsAFollowersBytesWithTheFollower) {
  const auto channel = Hooked(absl::Seconds(1));
  BlockOneWrite();
  std::thread leader([&] { EXPECT_EQ(Echo(*channel, "first", In(absl::Seconds(5))), "first"); });
  EXPECT_TRUE(AwaitRead());
  (void)channel->Call({"ECHO", "impatient"}, In(absl::Milliseconds(1)));
  leader.join();
}

}  // namespace
}  // namespace redlatch::redis
