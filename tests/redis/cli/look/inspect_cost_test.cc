// A bar: looking at a lock of 100,000 holders or waiters keeps the server from others no longer
// than looking at one of as many as are listed, and tells how many there are. REDLATCH_FULL_BARS=1:
// nor for longer than 5 ms at a time.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
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
#include "tests/support/lock_keys.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

constexpr int kLooks = 10;
constexpr int64_t kMany = 100'000;
constexpr int64_t kListed = 100;
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
    ticket .. ' 2000 0 redlatch:' .. client .. ' 32 ' .. client)
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
  void AddHolds(const std::string& key, int64_t holds = kMany,
                absl::Duration ending = absl::Hours(1)) {
    Eval(kAddHolds, {key}, {absl::StrCat(holds), absl::StrCat(absl::ToInt64Microseconds(ending))});
  }
  void AddWaiters(const std::string& name, const std::string& kind, int64_t waiters = kMany) {
    Eval(kAddWaiters,
         {support::AuxiliaryKey(name, kind + ".queue"),
          support::AuxiliaryKey(name, kind + ".waiters")},
         {absl::StrCat(waiters)});
  }

  // The longest that the server spent on one of the commands of a look.
  template <class Lock>
  absl::Duration LongestCommand(const Lock& lock) {
    server_->Command({"SLOWLOG", "RESET"});
    info_ = lock.Inspect();
    EXPECT_TRUE(info_.ok()) << info_.status();
    absl::Duration longest = absl::ZeroDuration();
    for (const redis::Reply& entry : server_->Command({"SLOWLOG", "GET", "50"}).elements) {
      longest = std::max(longest, absl::Microseconds(entry.elements.at(2).integer));
    }
    EXPECT_GT(longest, absl::ZeroDuration());
    return longest;
  }

  // Of each lock that look counts at which that was least, since a machine that is busy is no fault
  // of a script's; and they are looked at in turn, so that what else it does befalls both.
  template <class Lock>
  void ExpectManyCostWhatFewDo(const Lock& few, const Lock& many) {
    server_->Command({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
    absl::Duration of_few = absl::InfiniteDuration();
    absl::Duration of_many = absl::InfiniteDuration();
    for (int i = 0; i < kLooks; ++i) {
      of_few = std::min(of_few, LongestCommand(few));
      of_many = std::min(of_many, LongestCommand(many));
    }
    std::printf("%s of few, %s of many\n", absl::FormatDuration(of_few).c_str(),
                absl::FormatDuration(of_many).c_str());
    EXPECT_LE(of_many, 2 * of_few);
    if (support::FullBars()) {
      EXPECT_LE(of_many, kBar);
    }
  }

  const std::unique_ptr<support::RedisServer> server_ =
      support::RedisServer::Start({.config = {"slowlog-max-len 1000"}});
  const absl::StatusOr<Client> client_ = Client::Connect(server_->url() + "?command_timeout=10s");
  absl::StatusOr<LockInfo> info_ = absl::UnknownError("");
};

TEST_F(InspectCost, OfASemaphoreWithManyHolders) {
  Semaphore few(*client_, "few", kMany);
  Semaphore semaphore(*client_, "slots", kMany);
  for (Semaphore* each : {&few, &semaphore}) {
    ASSERT_TRUE(each->Acquire().ok());  // stores the capacity
  }
  AddHolds("redlatch:2:{few}:semaphore.permits", kListed);
  AddHolds("redlatch:2:{slots}:semaphore.permits");
  ExpectManyCostWhatFewDo(few, semaphore);
  EXPECT_EQ(info_->holders.size(), kListed);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->used, kMany);
  EXPECT_EQ(info_->holders[0].process.pid, 1) << "whose lease ends first";
  EXPECT_EQ(info_->holders.back().process.pid, kListed);
  EXPECT_EQ(semaphore.holders()->size(), kListed);
  EXPECT_EQ(*semaphore.available(), 0);
}

TEST_F(InspectCost, OfASemaphoreWithManyHoldersOfSeveralPermits) {
  Semaphore few(*client_, "few", 3 * kMany);
  Semaphore semaphore(*client_, "slots", 3 * kMany);
  for (Semaphore* each : {&few, &semaphore}) ASSERT_TRUE(each->Acquire().ok());
  AddHolds("redlatch:2:{few}:semaphore.permits", kListed);
  Eval(kAddWeights, {"few", "redlatch:2:{few}:semaphore.permits"}, {"2"});
  AddHolds("redlatch:2:{slots}:semaphore.permits");
  Eval(kAddWeights, {"slots", "redlatch:2:{slots}:semaphore.permits"}, {"2"});
  ExpectManyCostWhatFewDo(few, semaphore);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->used, 2 * kMany);
  EXPECT_EQ(info_->holders.back().permits, 2);
  EXPECT_EQ(*semaphore.available(), kMany);
}

TEST_F(InspectCost, OfASemaphoreWithManyHoldersThatHaveExpired) {
  Semaphore few(*client_, "few", 3 * kMany);
  Semaphore semaphore(*client_, "slots", 3 * kMany);
  for (Semaphore* each : {&few, &semaphore}) ASSERT_TRUE(each->Acquire().ok());
  AddHolds("redlatch:2:{few}:semaphore.permits", kListed, -absl::Hours(1));
  Eval(kAddWeights, {"few", "redlatch:2:{few}:semaphore.permits"}, {"2"});
  AddHolds("redlatch:2:{slots}:semaphore.permits", kMany, -absl::Hours(1));
  Eval(kAddWeights, {"slots", "redlatch:2:{slots}:semaphore.permits"}, {"2"});
  ExpectManyCostWhatFewDo(few, semaphore);
  EXPECT_EQ(info_->holding, 0);
  EXPECT_TRUE(info_->holders.empty());
}

TEST_F(InspectCost, OfAReadWriteLockWithManyReaders) {
  AddHolds("redlatch:rw:{few}:readers", kListed);
  AddHolds("redlatch:rw:{catalogue}:readers");
  ExpectManyCostWhatFewDo(ReentrantReadWriteLock(*client_, "few"),
                          ReentrantReadWriteLock(*client_, "catalogue"));
  EXPECT_EQ(info_->holders.size(), kListed);
  EXPECT_EQ(info_->holding, kMany);
  EXPECT_EQ(info_->holders[0].owner, "read");
  EXPECT_EQ(info_->holders[0].process.pid, 1);
  EXPECT_EQ(info_->holders.back().process.pid, kListed);
}

TEST_F(InspectCost, OfLocksWithManyWaiters) {
  const std::pair<const char*, const char*> locks[] = {
      {"simple", "simple"}, {"catalogue", "rw"}, {"slots", "semaphore"}};
  for (const auto& [name, kind] : locks) {
    AddWaiters(name, kind);
    AddWaiters(absl::StrCat("few ", name), kind, kListed);
  }
  ExpectManyCostWhatFewDo(SimpleLock(*client_, "few simple"), SimpleLock(*client_, "simple"));
  EXPECT_EQ(info_->waiting, kMany);
  EXPECT_EQ(info_->waiters.size(), 50);
  EXPECT_EQ(info_->waiters[0].process.pid, 1);
  ExpectManyCostWhatFewDo(ReentrantReadWriteLock(*client_, "few catalogue"),
                          ReentrantReadWriteLock(*client_, "catalogue"));
  EXPECT_EQ(info_->waiting, kMany);
  ExpectManyCostWhatFewDo(Semaphore(*client_, "few slots", 1), Semaphore(*client_, "slots", 1));
  EXPECT_EQ(info_->waiting, kMany);
}

}  // namespace
}  // namespace redlatch
