// Tests `redlatch ls` and `redlatch inspect` with very many locks: none of their commands reads all
// keys, or all fields of one key, at once. (tests/sim/lua/*/cost_test.cc tests what the scripts
// cost.)
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

using LsCost = RedlatchOutputTest;

TEST_F(LsCost, NoCommandReadsAllLocksOrAllHolders) {
  const int locks = std::max(support::Scaled(100'000), 5000);
  // Three of ten locks have waiters, and one semaphore has very many holders.
  constexpr char kMake[] = R"lua(
for i = 1, tonumber(ARGV[1]) do
  local name, hold = (i % 10 < 3 and 'x:' or 'lock:') .. i, string.format('%032x:1', i)
  redis.call('SET', name, hold, 'PX', 3600000)
  redis.call('SET', 'redlatch:2:{' .. name .. '}:fence', i, 'PX', 3600000)
  redis.call('ZADD', 'redlatch:2:{slots}:semaphore.permits', 4e15, hold)
  if i % 10 < 3 then
    redis.call('ZADD', 'redlatch:2:{' .. name .. '}:simple.queue', 1, hold .. '3')
  end
end
return redis.call('HSET', 'slots', 'kind', 'semaphore/2', 'capacity', 9, 'set_by', 'constructor')
)lua";
  server_->Do({"EVAL", kMake, "0", absl::StrCat(locks)});
  server_->Do({"CONFIG", "RESETSTAT"});
  const Outcome all = Redlatch({"ls", "--all", "--json"});
  EXPECT_EQ(std::count(all.output.begin(), all.output.end(), '\n'), locks + 1) << all.errors;
  const Outcome some = Redlatch({"ls", "x*"});
  EXPECT_EQ(std::count(some.output.begin(), some.output.end(), '\n'), locks * 3 / 10);
  const Outcome slots = Redlatch({"inspect", "slots", "--json"});
  EXPECT_EQ(Json(slots.output, "(rows[0]['holding'], len(rows[0]['holders']))"),
            absl::StrCat("(", locks, ", 100)"));
  EXPECT_EQ(Redlatch({"inspect", "x:1"}).code, 0);
  const std::string commands = server_->Text({"INFO", "commandstats"});
  EXPECT_THAT(commands, HasSubstr("cmdstat_scan:"));
  for (const char* const whole : {"keys", "hgetall", "hkeys", "hvals", "smembers", "sort"}) {
    EXPECT_THAT(commands, Not(HasSubstr(absl::StrCat("cmdstat_", whole, ":"))));
  }
}

}  // namespace
}  // namespace redlatch
