// A bar: no script of the simple and the reentrant lock takes the server longer because 10,000
// wait, hold, or are dead; see script_costs.h.

#include "tests/sim/lua/contract/fixture.h"
#include "tests/sim/lua/script_costs.h"

namespace redlatch {
namespace {

class LockCosts : public LockContract {
 protected:
  Request After(char client, int sequence = 1) const {
    Request request = Claiming(2000, Of(client, sequence));
    request.ticket = "5000000000000000";  // behind them
    return request;
  }

  void EndHold() { server_->Command({"DEL", Leased()}); }

  ScriptCosts costs_{*server_};
  Ear ear_{*server_, Channel('b')};
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockCosts, ::testing::Values(SimpleKind(), ReentrantKind()),
                         NameOfKind);

TEST_P(LockCosts, OfThoseWhoWait) {
  const ScriptCosts::Call waiting = [&](int many) {
    Take(Of('a'));
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
    EndHold();
    Look();
  });
  costs_.Compare("inspect of many", waiting, [&](int) { Inspect(); });
  costs_.Compare("forced release before many", waiting, [&](int) { ForceRelease(); });
}

TEST_P(LockCosts, OfThoseWhoAreDead) {
  const ScriptCosts::Call dead = [&](int many) {
    Take(Of('a'));
    MakeWaiters(many, "redlatch:nobody");
    EndHold();
  };
  costs_.Compare("a look at the dead", dead, [&](int) { Look(); });
  costs_.Compare("release before the dead", dead, [&](int) { Release(Of('a')); });
  costs_.Compare("one asks behind the dead", dead, [&](int i) { Ask(After('d', i)); });
}

class ReentrantCostTest : public LockScriptsFixture {
 protected:
  ReentrantCostTest() : LockScriptsFixture(ReentrantKind()) {}

  Request Job(char client, int sequence = 1) const {
    return For(90000, LockScriptsFixture::Job(client, sequence));
  }
  void MakeHolds(int count, int64_t ending_us) {
    Token(Job('a'));
    Token(Job('b'));
    server_->Command({"EVAL", kMakeExpiries, "2", Auxiliary("holds"), name_, absl::StrCat(count),
                      absl::StrCat(ending_us)});
  }

  ScriptCosts costs_{*server_};
};

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
