// What a client repeats that it has counted down, in whatever order its threads come to tell.
#include "src/engine/runtime/counts.h"

#include "lua/scripts.h"
#include "src/engine/runtime/core.h"
#include "src/redis/url/url.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kCountsPatience = absl::Seconds(10);
constexpr char kCounted[] = "redlatch:2:{latch}:latch.counted";
constexpr absl::Duration kNever = absl::Hours(1);

class CountsTest : public ::testing::Test {
 protected:
  CountsTest() {
    std::vector<std::string> warnings;
    EXPECT_TRUE(core_->deployment().Connect(base::Now() + kCountsPatience, warnings).ok());
    server_->Command(
        {"HSET", "latch", "kind", "latch/2", "incarnation", "it", "total", "4", "count", "4"});
    server_->Command({"PEXPIRE", "latch", "60000"});
  }

  // One that this server has not received.
  engine::Counts::Count Lost(const std::string& id, uint64_t when) const {
    return {.name = "latch",
            .latch = "latch:60000:it",
            .id = id,
            .n = 1,
            .when = when,
            .plan = &plan_,
            .script = &lua::kLatchCountDown};
  }
  bool Received(const std::string& id) {
    return !server_->Command({"ZSCORE", kCounted, id}).is_nil();
  }
  bool AwaitReceived(const std::string& id) {
    return Await([&] { return Received(id); });
  }

  // Before the core, whose thread uses it.
  const engine::Plan plan_ = {
      .scripts = {.acquire = lua::kLatchAcquire, .cancel = lua::kLatchCancel},
      .traits = {.kind = "latch"},
      .sharing = engine::kLatch,
      .noun = "latch",
      .busy = "it has not opened",
      .keys = engine::KeyNames("latch", {"latch.counted"})};
  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
  const std::shared_ptr<engine::Core> core_ =
      engine::Core::Make(*redis::ParseUrl(proxy_.url()), ClientOptions());
  engine::Counts& counts_ = core_->counts();
};

TEST_F(CountsTest, OneOfThisConnectionIsNotRepeatedBeforeItsPace) {
  counts_.Add(Lost("a", 10), counts_.era(), kNever);
  EXPECT_GT(counts_.due(), base::Now() + kNever / 2);
}

TEST_F(CountsTest, OneThatAnEarlierConnectionReceivedIsRepeatedAtOnce) {
  const uint64_t before = counts_.era();
  counts_.RepeatAll();  // as a new connection does: this count was not told yet
  counts_.Add(Lost("a", 10), before, kNever);
  EXPECT_TRUE(AwaitReceived("a"));
}

TEST_F(CountsTest, OneThatIsToldWhileOthersAreRepeatedIsRepeatedToo) {
  const uint64_t before = counts_.era();
  counts_.RepeatAll();
  server_->Command({"SCRIPT", "LOAD", std::string(lua::kLatchCountDown.body)});
  proxy_.Hold(Direction::kToClient);
  counts_.Add(Lost("a", 10), before, kNever);
  EXPECT_TRUE(AwaitReceived("a"));  // its repeat is under way
  counts_.Add(Lost("b", 20), before, kNever);
  counts_.Add(Lost("latest", 30), counts_.era(), kNever);
  proxy_.Heal();
  EXPECT_TRUE(AwaitReceived("b"));
}

TEST_F(CountsTest, OneThatWasToldLateDoesNotHideALaterOne) {
  server_->Command({"ZADD", kCounted, "10", "earlier"});
  server_->Command({"HSET", "latch", "count", "3"});
  counts_.Add(Lost("later", 20), counts_.era(), kNever);
  counts_.Add(Lost("earlier", 10), counts_.era(), absl::Milliseconds(1));
  EXPECT_TRUE(AwaitReceived("later"));
}

}  // namespace
}  // namespace redlatch
