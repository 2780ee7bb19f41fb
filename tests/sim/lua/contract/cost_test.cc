// A bar: no script takes the server longer because 10,000 wait, have grants, or are dead; see
// script_costs.h.

#include "tests/sim/lua/contract/fixture.h"
#include "tests/sim/lua/script_costs.h"

namespace redlatch {
namespace {

struct LockCost : LockContract {
  Request After(char client, int sequence = 1) const {
    Request request = Claiming(2000, Of(client, sequence));
    request.ticket = "5000000000000000";  // behind them
    return request;
  }

  void EndHold() { server_->Command({"DEL", Leased(), Auxiliary("turn")}); }

  ScriptCosts costs_{*server_};
  Inbox inbox_{*server_, Channel('b')};
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, LockCost,
                         ::testing::Values(SimpleKind(), ReentrantKind(), WriteKind(),
                                           SemaphoreKind(), QuorumKind()),
                         NameOfKind);

TEST_P(LockCost, DoesNotGrowWithWaiters) {
  const ScriptCosts::Call waiting = [&](int many) {
    Take(Of('a'));
    MakeWaiters(many, Channel('b'));
    Ask(After('c'));
  };
  costs_.Compare("heartbeat among many", waiting, [&](int) { Ask(After('c')); });
  costs_.Compare("one more queues", waiting, [&](int i) { Ask(After('d', i)); });
  costs_.Compare("a try", waiting, [&](int i) { Ask(Impatient(After('d', i))); });
  costs_.Compare("one of many gives up", waiting, [&](int i) {
    Ask(After('d', i));
    Cancel(After('d', i));
  });
  costs_.Compare("renewal before many", waiting, [&](int) { Renew(Of('a')); });
  costs_.Compare("handover to the first of many", waiting, [&](int) {
    EndHold();
    Check();
  });
  costs_.Compare("inspect of many", waiting, [&](int) { Inspect(); });
  costs_.Compare("forced release before many", waiting, [&](int) { ForceRelease(); });
}

TEST_P(LockCost, DoesNotGrowWithDeadWaiters) {
  const ScriptCosts::Call dead = [&](int many) {
    Take(Of('a'));
    MakeWaiters(many, "redlatch:dead");
    EndHold();
  };
  costs_.Compare("a check at the dead", dead, [&](int) { Check(); });
  costs_.Compare("release before the dead", dead, [&](int) { Release(Of('a')); });
  costs_.Compare("one asks behind the dead", dead, [&](int i) { Ask(After('d', i)); });
  costs_.Compare("a try behind the dead", dead, [&](int i) { Ask(Impatient(After('d', i))); });
}

struct ReentrantCost : LockContract {
  Request Job(char client, int sequence = 1) const {
    return For(90000, LockContract::Job(client, sequence));
  }
  void MakeHolds(int count, int64_t ending_us) {
    Token(Job('a'));
    Token(Job('b'));
    server_->Command({"EVAL", kMakeExpiries, "2", Auxiliary("holds"), name_, absl::StrCat(count),
                      absl::StrCat(ending_us)});
  }

  ScriptCosts costs_{*server_};
};
INSTANTIATE_TEST_SUITE_P(OfEachKind, ReentrantCost, ::testing::Values(ReentrantKind(), WriteKind()),
                         NameOfKind);

TEST_P(ReentrantCost, DoesNotGrowWithGrantsOfOwner) {
  const ScriptCosts::Call grants = [&](int many) { MakeHolds(many, 60'000'000); };
  costs_.Compare("one grant more", grants, [&](int i) { Ask(Job('c', i)); });
  costs_.Compare("one of many grants is renewed", grants, [&](int) { Renew(Job('a')); });
  costs_.Compare("one of many grants ends", grants, [&](int i) {
    Ask(Job('c', i));
    Release(Job('c', i));
  });
  costs_.Compare("inspect of many grants", grants, [&](int) { Inspect(); });
  costs_.Compare("forced release of many grants", grants, [&](int) { ForceRelease(); });
  const ScriptCosts::Call expired = [&](int many) { MakeHolds(many, -100'000'000); };
  costs_.Compare("one grant is renewed, many expired", expired, [&](int) { Renew(Job('a')); });
}

}  // namespace
}  // namespace redlatch
