// A bar: no script of the simple and the reentrant lock takes the server longer because 10,000
// wait, hold, or are dead; see script_costs.h.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/redis/lua/lock_scripts_fixture.h"
#include "tests/redis/lua/script_costs.h"

namespace redlatch {
namespace {

// KEYS 1 the queue, 2 its records; ARGV 1 how many, 2 the channel of all of them.
constexpr char kMakeWaiters[] = R"lua(
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:1', i)
  redis.call('ZADD', KEYS[1], i, hold)
  redis.call('HSET', KEYS[2], hold,
    '9000000000000000 30000 1 1 1 10000 0 ' .. i .. ' 2000 0 ' .. ARGV[2] .. ' 1 x')
end
redis.call('PEXPIRE', KEYS[1], 60000)
redis.call('PEXPIRE', KEYS[2], 60000)
)lua";

// KEYS 1 the hash, 2 the zset of its holds; ARGV 1 how many, 2 in how many us they end.
constexpr char kMakeHolds[] = R"lua(
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for i = 1, tonumber(ARGV[1]) do
  local hold = string.format('%032x:3', i)
  local expiry = string.format('%.0f', now + ARGV[2] + i)
  redis.call('ZADD', KEYS[2], expiry, hold)
  redis.call('HSET', KEYS[1], hold, expiry .. ' 17')
  redis.call('HINCRBY', KEYS[1], 'holds', 1)
end
redis.call('PEXPIRE', KEYS[1], 90000)
redis.call('PEXPIRE', KEYS[2], 90000)
)lua";

class LockCosts : public LockScriptsFixture {
 protected:
  explicit LockCosts(LockScripts scripts) : LockScriptsFixture(std::move(scripts)) {}

  static Request After(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.ticket = "5000000000000000";  // behind them
    request.claim_ms = 2000;
    return request;
  }
  void MakeWaiters(int count, std::string_view channel) {
    server_->Command(
        {"EVAL", kMakeWaiters, "2", Queue(), Waiters(), absl::StrCat(count), std::string(channel)});
  }

  void OfWaiters() {
    const ScriptCosts::Call waiting = [&](int many) {
      Token(Of('a'));
      MakeWaiters(many, Channel('b'));
      Ask(After('c'));
    };
    costs_.Compare("heartbeat among many", waiting, [&](int) { Ask(After('c')); });
    costs_.Compare("one more queues", waiting, [&](int i) { Ask(After('d', i)); });
    costs_.Compare("one of many gives up", waiting, [&](int i) {
      Ask(After('d', i));
      Cancel(After('d', i));
    });
    costs_.Compare("renewal before many", waiting, [&](int) { Renew(Of('a')); });
    costs_.Compare("hand-over to the first of many", waiting, [&](int) {
      server_->Command({"DEL", name_});
      Cancel(Of('f', 99));
    });
    costs_.Compare("inspect of many", waiting, [&](int) { Inspect(); });
    costs_.Compare("forced release before many", waiting, [&](int) { ForceRelease(); });
  }

  void OfTheDead() {
    const ScriptCosts::Call dead = [&](int many) {
      Token(Of('a'));
      MakeWaiters(many, "redlatch:nobody");
      server_->Command({"DEL", name_});
    };
    costs_.Compare("a look at the dead", dead, [&](int) { Cancel(Of('f', 99)); });
    costs_.Compare("release before the dead", dead, [&](int) { Release(Of('a')); });
    costs_.Compare("one asks behind the dead", dead, [&](int i) { Ask(After('d', i)); });
  }

 private:
  Ear ear_{*server_, Channel('b')};

 protected:
  ScriptCosts costs_{*server_};
};

class SimpleCostTest : public LockCosts {
 protected:
  SimpleCostTest() : LockCosts(SimpleScripts()) {}
};

TEST_F(SimpleCostTest, OfThoseWhoWait) { OfWaiters(); }
TEST_F(SimpleCostTest, OfThoseWhoAreDead) { OfTheDead(); }

class ReentrantCostTest : public LockCosts {
 protected:
  ReentrantCostTest() : LockCosts(ReentrantScripts()) {}

  std::vector<std::string> OwnKeys() const override { return {Auxiliary("holds")}; }
  static Request Job(char client, int sequence = 1) {
    Request request = Of(client, sequence);
    request.owner = "user:job 7";
    request.lease_ms = 90000;
    return request;
  }
  void MakeHolds(int count, int64_t ending_us) {
    Token(Job('a'));
    Token(Job('b'));
    server_->Command({"EVAL", kMakeHolds, "2", name_, Auxiliary("holds"), absl::StrCat(count),
                      absl::StrCat(ending_us)});
  }
};

TEST_F(ReentrantCostTest, OfThoseWhoWait) { OfWaiters(); }
TEST_F(ReentrantCostTest, OfThoseWhoAreDead) { OfTheDead(); }

TEST_F(ReentrantCostTest, OfTheHoldsOfOneOwner) {
  const ScriptCosts::Call holds = [&](int many) { MakeHolds(many, 60'000'000); };
  costs_.Compare("one hold more", holds, [&](int i) { Ask(Job('c', i)); });
  costs_.Compare("one of many holds is renewed", holds, [&](int) { Renew(Job('a')); });
  costs_.Compare("one of many holds ends", holds, [&](int i) {
    Ask(Job('c', i));
    Release(Job('c', i));
  });
  costs_.Compare("inspect of many holds", holds, [&](int) { Inspect(); });
  costs_.Compare("forced release of many holds", holds, [&](int) { ForceRelease(); });
  const ScriptCosts::Call expired = [&](int many) { MakeHolds(many, -100'000'000); };
  costs_.Compare("one hold is renewed, many expired", expired, [&](int) { Renew(Job('a')); });
}

}  // namespace
}  // namespace redlatch
