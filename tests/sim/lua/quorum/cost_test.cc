// A bar: no script of one node of a quorum takes the server longer because 10,000 wait or are dead;
// see script_costs.h.

#include "lua/scripts.h"
#include "redlatch/lua_script.h"
#include "tests/sim/lua/script_clients.h"
#include "tests/sim/lua/script_costs.h"

namespace redlatch {
namespace {

class QuorumCost : public ::testing::Test {
 protected:
  static Request By(char client, int sequence = 1) {
    const std::string id(32, client);
    return {.grant = absl::StrCat(id, ":", sequence), .owner = id, .ticket = "5000000000000000"};
  }

  std::string Ask(const Request& request) {
    std::vector<std::string> args = request.Args();
    args.push_back("0 take");
    return Run(lua::kQuorumAcquire, {"gone"}, std::move(args));
  }
  void Take() { EXPECT_EQ(Ask(By('a')).substr(0, 8), "granted "); }
  void Expire() { server_->Command({"DEL", "orders", "turn"}); }
  void Check() { Run(lua::kQuorumCancel, {"gone"}, {By('f').grant, "0", "1"}); }
  void MakeWaiters(int many, const std::string& channel) {
    server_->Command({"EVAL", kMakeWaiters, "2", "queue", "waiters", absl::StrCat(many),
                      std::string(32, 'd'), channel, "1", "1"});
  }
  std::string Run(const LuaScript& script, const std::vector<std::string>& own,
                  const std::vector<std::string>& args) {
    std::vector<std::string> command = {"EVAL", std::string(script.body),
                                        absl::StrCat(5 + own.size())};
    for (const char* key : {"orders", "queue", "waiters", "fence"}) command.emplace_back(key);
    command.insert(command.end(), own.begin(), own.end());
    command.emplace_back("turn");
    command.insert(command.end(), args.begin(), args.end());
    const redis::Reply reply = server_->Command(command);
    EXPECT_NE(reply.type, redis::Reply::Type::kError) << script.name << ": " << reply.text;
    return reply.text;
  }

  const std::unique_ptr<ScriptServer> server_ = std::make_unique<ScriptServer>();
  ScriptCosts costs_{*server_};
  Inbox inbox_{*server_, "redlatch:live"};
};

TEST_F(QuorumCost, DoesNotGrowWithWaiters) {
  const ScriptCosts::Call held = [&](int many) {
    Take();
    MakeWaiters(many, "redlatch:live");
  };
  costs_.Compare("one more queues", held, [&](int i) { Ask(By('b', i)); });
  costs_.Compare("heartbeat among many", held, [&](int) { Ask(Again(By('b'))); });
  costs_.Compare("renewal before many", held, [&](int) {
    Run(lua::kQuorumRenew, {}, {By('a').grant, "30000"});
  });
  costs_.Compare("inspect of many", held, [&](int) { Run(lua::kQuorumInspect, {}, {"50"}); });
  costs_.Compare("a check tells the first of many", held, [&](int) {
    Expire();
    Check();
  });
  costs_.Compare("forced release before many", held,
                 [&](int) { Run(lua::kQuorumForceRelease, {}, {"redlatch:"}); });
}

TEST_F(QuorumCost, DoesNotGrowWithDeadWaiters) {
  const ScriptCosts::Call dead = [&](int many) {
    Take();
    MakeWaiters(many, "redlatch:dead");
    Expire();
  };
  costs_.Compare("a check at the dead", dead, [&](int) { Check(); });
  costs_.Compare("one asks behind the dead", dead, [&](int i) { Ask(By('b', i)); });
  costs_.Compare("release before the dead", dead, [&](int) {
    server_->Command({"SET", "orders", By('a').grant + " 1", "PX", "30000"});
    Run(lua::kQuorumRelease, {}, {By('a').grant, "0"});
  });
}

}  // namespace
}  // namespace redlatch
