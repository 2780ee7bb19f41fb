#include "tests/sim/lua/script_costs.h"

#include <gtest/gtest-spi.h>

namespace redlatch {
namespace {

TEST(ScriptCosts, SeeGrowthWithManyWaiters) {
  ScriptServer server;
  ScriptCosts costs(server);
  const auto prepare = [&](int many) {
    server.Do({"EVAL", "for i = 1, ARGV[1] do redis.call('ZADD', KEYS[1], i, i) end", "1", "k",
               std::to_string(many)});
  };
  const auto run = [&](const std::string& script) {
    return [&, script](int) { server.Do({"EVAL", script, "1", "k"}); };
  };
  costs.Compare("a page", prepare, run("return redis.call('ZRANGE', KEYS[1], 0, 63)"));
  for (const char* const script :
       {"return redis.call('ZRANGE', KEYS[1], 0, -1)", "redis.call('DEL', KEYS[1])",
        "for i = 1, redis.call('ZCARD', KEYS[1]) do end"}) {
    EXPECT_NONFATAL_FAILURE(costs.Compare(script, prepare, run(script)), "many");
  }
}

}  // namespace
}  // namespace redlatch
