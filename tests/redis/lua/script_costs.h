// What scripts cost the server, by how many wait or hold.
#ifndef REDLATCH_TESTS_REDIS_LUA_SCRIPT_COSTS_H_
#define REDLATCH_TESTS_REDIS_LUA_SCRIPT_COSTS_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>

#include "gtest/gtest.h"
#include "src/redis/wire/reply.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {

// KEYS 1 a zset of expiries, and 2, perhaps, the hash of a writer's holds. ARGV 1 how many, 2 in
// how many us they end.
inline constexpr char kMakeExpiries[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:3', i)
  local expiry = string.format('%.0f', now + ARGV[2] + i)
  redis.call('ZADD', KEYS[1], expiry, hold)
  if KEYS[2] then
    redis.call('HSET', KEYS[2], hold, expiry .. ' 17')
    redis.call('HINCRBY', KEYS[2], 'holds', 1)
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 90000) end
)lua";

// Prints what a script costs by each size, and expects that a crowd makes it no dearer than a few.
// REDLATCH_FULL_BARS=1: up to 100,000, and none may take the server longer than a millisecond.
class ScriptCosts {
 public:
  using Call = std::function<void(int)>;

  explicit ScriptCosts(support::RedisServer& server) : server_(server) {
    server_.Command({"CONFIG", "SET", "slowlog-log-slower-than", "0"});
    server_.Command({"CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 0 0"});
  }

  // `prepare(n)` makes a crowd of n; `call(i)` runs the script once for the i-th time, by EVAL.
  void Compare(const char* what, const Call& prepare, const Call& call) {
    const int64_t few = Least(kFew, prepare, call);
    const int64_t many = Least(kMany, prepare, call);
    std::printf("%-50s us, of %d: %4d, of %d: %4d", what, kFew, static_cast<int>(few), kMany,
                static_cast<int>(many));
    // What grows with their number takes milliseconds.
    EXPECT_LE(many, 4 * few + 200) << what;
    if (support::FullBars()) {
      const int64_t most = Least(kMost, prepare, call);
      std::printf(", of %d: %4d", kMost, static_cast<int>(most));
      EXPECT_LE(std::max(many, most), kBar) << what;
    }
    std::printf("\n");
  }

 private:
  static constexpr int kFew = 640, kMany = 10'000, kMost = 100'000;
  static constexpr int kCalls = 8;
  static constexpr int64_t kBar = 1000;

  // The least that one call took the server, in us: what it needs, whatever else the machine does.
  int64_t Least(int many, const Call& prepare, const Call& call) {
    server_.Command({"FLUSHALL"});
    prepare(many);
    int64_t least = INT64_MAX;
    for (int i = 0; i < kCalls; ++i) {
      server_.Command({"SLOWLOG", "RESET"});
      call(i);
      for (const redis::Reply& entry : server_.Command({"SLOWLOG", "GET", "9"}).elements) {
        if (entry.elements.at(3).elements.at(0).text != "EVAL") continue;
        least = std::min(least, entry.elements.at(2).integer);
      }
    }
    return least;
  }

  support::RedisServer& server_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_LUA_SCRIPT_COSTS_H_
