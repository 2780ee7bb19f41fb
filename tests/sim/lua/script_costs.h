// How much work a script causes, by the number of waiters and grants.
#ifndef REDLATCH_TESTS_SIM_LUA_SCRIPT_COSTS_H_
#define REDLATCH_TESTS_SIM_LUA_SCRIPT_COSTS_H_

#include "tests/sim/lua/script_server.h"

namespace redlatch {

// KEYS 1 a zset of expiries, and 2, perhaps, the hash of a writer's grants. ARGV 1 how many, 2 in
// how many us they end.
inline constexpr char kMakeExpiries[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local grant = string.format('%032x:3', i)
  local expiry = string.format('%.0f', now + ARGV[2] + i)
  redis.call('ZADD', KEYS[1], expiry, grant)
  if KEYS[2] then
    redis.call('HSET', KEYS[2], grant, expiry .. ' 17')
    redis.call('HINCRBY', KEYS[2], 'holds', 1)
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 90000) end
)lua";

// Expects that many make a script hardly dearer than a few: nothing that it does grows with
// their number.
class ScriptCosts {
 public:
  using Call = std::function<void(int)>;

  explicit ScriptCosts(ScriptServer& server) : server_(server) {}

  // `prepare(n)` makes n of them; `call(i)` runs the script once for the i-th time, by EVAL.
  void Compare(const char* what, const Call& prepare, const Call& call) {
    const uint64_t few = Most(640, prepare, call);
    const uint64_t many = Most(10'000, prepare, call);
    EXPECT_LE(many, few + few / 10 + 100) << what;
    EXPECT_LE(many, kBar) << what;
  }

 private:
  // A millisecond of a server, about.
  static constexpr uint64_t kBar = 20'000;

  // The work of the dearest script.
  uint64_t Most(int many, const Call& prepare, const Call& call) {
    server_.Command({"FLUSHALL"});
    prepare(many);
    server_.MostWork();
    for (int i = 0; i < 8; ++i) call(i);
    return server_.MostWork();
  }

  ScriptServer& server_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_SIM_LUA_SCRIPT_COSTS_H_
