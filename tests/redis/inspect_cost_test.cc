// A bar: looking at a lock of 100,000 holders or waiters keeps the server from others for 5 ms at
// most at a time, and tells how many there are.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kLooks = 5;
#else
constexpr int kLooks = 20;
#endif
constexpr int64_t kMany = 100'000;
constexpr int64_t kListed = 1000;
constexpr absl::Duration kBar = absl::Milliseconds(5);

// Each has a client of its own that has described itself. KEYS: a zset of expiries. ARGV: how many,
// and by how much later than now they end, in us.
constexpr char kAddHolds[] = R"lua(
local time = redis.call('TIME')
local expiry = time[1] * 1000000 + time[2] + ARGV[2]
for i = 1, tonumber(ARGV[1]) do
  local client = string.format('%032x', i)
  redis.call('ZADD', KEYS[1], string.format('%.0f', expiry + i), client .. ':' .. i)
  redis.call('SET', 'redlatch:client:' .. client, i .. ' 1 host program')
end
)lua";

// KEYS: queue, waiters. ARGV: how many, and the owner that each has.
constexpr char kAddWaiters[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local client = string.format('%032x', i)
  local ticket = string.format('%.0f', now + i)
  redis.call('ZADD', KEYS[1], ticket, client .. ':' .. i)
  redis.call('HSET', KEYS[2], client .. ':' .. i, string.format('%.0f 30000 1 1 1 10000 0 ', now) ..
    ticket .. ' redlatch:' .. client .. ' ' .. client)
  redis.call('SET', 'redlatch:client:' .. client, i .. ' 1 host program')
end
)lua";

// KEYS: the semaphore, its permits. ARGV: the permits of each hold.
constexpr char kAddWeights[] = R"lua(
local holds = redis.call('ZRANGE', KEYS[2], 0, -1)
for _, hold in ipairs(holds) do
  redis.call('HSET', KEYS[1], hold, ARGV[1])
end
redis.call('HINCRBY', KEYS[1], 'extra', #holds * (ARGV[1] - 1))
)lua";

class InspectCost : public ::testing::Test {
 protected:
  void Eval(const std::string& script, const std::vector<std::string>& keys,
            const std::vector<std::string>& args) {
    std::vector<std::string> command = {"EVAL", script, absl::StrCat(keys.size())};
    command.insert(command.end(), keys.begin(), keys.end());
    command.insert(command.end(), args.begin(), args.end());
    const redis::Reply reply = server_->Command(command);
    ASSERT_FALSE(reply.is_error()) << reply.DebugString();
  }
  void AddHolds(const std::string& key, absl::Duration ending = absl::Hours(1)) {
    Eval(kAddHolds, {key}, {absl::StrCat(kMany), absl::StrCat(absl::ToInt64Microseconds(ending))});
  }
  void AddWaiters(const std::string& name) {
    Eval(kAddWaiters, {"{" + name + "}:queue", "{" + name + "}:waiters"}, {absl::StrCat(kMany)});
  }

  // The longest that the server spent on one of the commands of a look: that of the look where that
  // was least, since a machine that is busy is no fault of a script's.
  absl::Duration LongestCommand(const std::function<absl::StatusOr<LockInfo>()>& look) {
    absl::Duration least = absl::InfiniteDuration();
    server_->Command({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
    for (int i = 0; i < kLooks; ++i) {
      server_->Command({"SLOWLOG", "RESET"});
      info_ = look();
      EXPECT_TRUE(info_.ok()) << info_.status();
      absl::Duration longest = absl::ZeroDuration();
      for (const redis::Reply& entry : server_->Command({"SLOWLOG", "GET", "50"}).elements) {
        longest = std::max(longest, absl::Microseconds(entry.elements.at(2).integer));
      }
      EXPECT_GT(longest, absl::ZeroDuration());
      least = std::min(least, longest);
    }
    RecordProperty("microseconds", std::to_string(absl::ToInt64Microseconds(least)));
    return least;
  }

  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.config = {"slowlog-max-len 1000"}});
  const absl::StatusOr<Client> client_ = Client::Connect(server_->url() + "?command_timeout=10s");
  absl::StatusOr<LockInfo> info_ = absl::UnknownError("");
};

TEST_F(InspectCost, OfASemaphoreWithManyHolders) {
  Semaphore semaphore(*client_, "slots", kMany);
  ASSERT_TRUE(semaphore.Acquire().ok());  // stores the capacity
  AddHolds("{slots}:permits");
  EXPECT_LE(LongestCommand([&] { return semaphore.Inspect(); }), kBar);
  EXPECT_EQ(info_->holders.size(), kListed);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->used, kMany);
  EXPECT_EQ(info_->holders[0].process.pid, 1) << "whose lease ends first";
  EXPECT_EQ(info_->holders.back().process.pid, kListed);
  EXPECT_EQ(semaphore.holders()->size(), kListed);
  EXPECT_EQ(*semaphore.available(), 0);
}

TEST_F(InspectCost, OfASemaphoreWithManyHoldersOfSeveralPermits) {
  Semaphore semaphore(*client_, "slots", 3 * kMany);
  ASSERT_TRUE(semaphore.Acquire().ok());
  AddHolds("{slots}:permits");
  Eval(kAddWeights, {"slots", "{slots}:permits"}, {"2"});
  EXPECT_LE(LongestCommand([&] { return semaphore.Inspect(); }), kBar);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->used, 2 * kMany);
  EXPECT_EQ(info_->holders.back().permits, 2);
  EXPECT_EQ(*semaphore.available(), kMany);
}

TEST_F(InspectCost, OfASemaphoreWithManyHoldersThatHaveExpired) {
  Semaphore semaphore(*client_, "slots", 3 * kMany);
  ASSERT_TRUE(semaphore.Acquire().ok());
  AddHolds("{slots}:permits", -absl::Hours(1));
  Eval(kAddWeights, {"slots", "{slots}:permits"}, {"2"});
  EXPECT_LE(LongestCommand([&] { return semaphore.Inspect(); }), kBar);
  EXPECT_EQ(info_->holding, 0);
  EXPECT_TRUE(info_->holders.empty());
}

TEST_F(InspectCost, OfAReadWriteLockWithManyReaders) {
  ReentrantReadWriteLock lock(*client_, "catalogue");
  AddHolds("{catalogue}:readers");
  EXPECT_LE(LongestCommand([&] { return lock.Inspect(); }), kBar);
  EXPECT_EQ(info_->holders.size(), kListed);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->holders[0].owner, "read");
  EXPECT_EQ(info_->holders[0].process.pid, 1);
  EXPECT_EQ(info_->holders.back().process.pid, kListed);
}

TEST_F(InspectCost, OfLocksWithManyWaiters) {
  for (const char* name : {"simple", "catalogue", "slots"}) AddWaiters(name);
  SimpleLock simple(*client_, "simple");
  ReentrantReadWriteLock catalogue(*client_, "catalogue");
  Semaphore slots(*client_, "slots", 1);
  EXPECT_LE(LongestCommand([&] { return simple.Inspect(); }), kBar);
  EXPECT_EQ(info_->waiting, kMany);
  EXPECT_EQ(info_->waiters.size(), 100);
  EXPECT_EQ(info_->waiters[0].process.pid, 1);
  EXPECT_LE(LongestCommand([&] { return catalogue.Inspect(); }), kBar);
  EXPECT_EQ(info_->waiting, kMany);
  EXPECT_LE(LongestCommand([&] { return slots.Inspect(); }), kBar);
  EXPECT_EQ(info_->waiting, kMany);
}

}  // namespace
}  // namespace redlatch
