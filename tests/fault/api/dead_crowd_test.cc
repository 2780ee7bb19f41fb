// A bar: 10,000 dead waiters before a live one keep the lock idle for half a second at most, and
// hold up nobody else. On any machine: not until the live one's next heartbeat.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "src/base/clock.h"
#include "tests/fault/api/any_kind.h"
#include "tests/support/punctuality.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr int kCrowd = 10'000;
constexpr absl::Duration kCrowdLease = absl::Seconds(30);

// Takes the only waiter's record, and gives it to so many that came before it, whom nobody hears.
constexpr char kMakeCrowd[] = R"lua(
local queue, waiters
for _, key in ipairs(redis.call('KEYS', '*')) do
  local type = redis.call('TYPE', key).ok
  if string.find(key, 'lock') and string.find(key, 'waiters$') then waiters = key end
  if string.find(key, 'lock') and type == 'zset' and
      (string.find(key, 'queue$') or string.find(key, 'writers$')) then
    queue = key
  end
end
local record = redis.call('HVALS', waiters)[1]
record = string.gsub(record, 'redlatch:%x+', 'redlatch:nobody', 1)
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:1', i)
  redis.call('ZADD', queue, i, hold)
  redis.call('HSET', waiters, hold, record)
end
return redis.call('ZCARD', queue)
)lua";

class DeadCrowd : public ::testing::TestWithParam<std::string_view> {
 protected:
  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};

TEST_P(DeadCrowd, KeepsTheLockIdleForAMomentOnly) {
  const Client client = *Client::Connect(server_->url());
  support::AnyLock lock = MakeLock(GetParam(), client, kCrowdLease);
  // The server compiles a script when it is first used.
  ASSERT_TRUE(lock.Acquire()->Release().ok());
  auto held = lock.Acquire();
  ASSERT_TRUE(held.ok());
  redis::Punctuality punctuality;
  std::atomic<int64_t> released{0};
  std::thread live([&] {
    const Client other = *Client::Connect(server_->url());
    support::AnyLock its = MakeLock(GetParam(), other, kCrowdLease);
    const auto lease = its.Acquire();
    const base::Instant now = base::Now();
    ASSERT_TRUE(lease.ok()) << lease.status();
    const base::Instant since = base::Instant::FromNanos(released);
    punctuality.Note(since + (support::FullBars() ? absl::Milliseconds(500) : absl::Seconds(5)));
    std::printf("%d dead: idle for %s\n", kCrowd, absl::FormatDuration(now - since).c_str());
  });
  const auto waiting = [&] {
    const auto info = lock.Inspect();
    return info.ok() && info->waiting > 0;
  };
  while (!waiting()) std::this_thread::yield();
  ASSERT_EQ(server_->Integer({"EVAL", kMakeCrowd, "0", absl::StrCat(kCrowd)}), kCrowd + 1);
  server_->Command({"CONFIG", "SET", "slowlog-log-slower-than", "1000"});
  server_->Command({"SLOWLOG", "RESET"});
  released = base::Now().nanos();
  EXPECT_TRUE(held->Release().ok());
  live.join();
  EXPECT_TRUE(punctuality.Within(absl::Milliseconds(50)));
  // EVAL compiles the script, which has nothing to do with the crowd; that happens once.
  const redis::Reply log = server_->Command({"SLOWLOG", "GET", "-1"});
  const auto slow = std::count_if(log.elements.begin(), log.elements.end(), [](const auto& entry) {
    return entry.elements[3].elements[0].text != "EVAL";
  });
  std::printf("%d commands over 1 ms\n", static_cast<int>(slow));
  // By the server's clock, which goes on while others have its processor.
  if (support::FullBars()) {
    EXPECT_EQ(slow, 0) << log.DebugString();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DeadCrowd, ::testing::ValuesIn(kAllKinds),
                         [](const auto& kind) { return std::string(kind.param); });

}  // namespace
}  // namespace redlatch
