// A bar: no script of the semaphore takes the server longer because 10,000 have permits, or may
// have them; see script_costs.h, and contract/cost_test.cc for those that wait.

#include "tests/sim/lua/script_costs.h"
#include "tests/sim/lua/semaphore/fixture.h"

namespace redlatch {
namespace {

struct SemaphoreCost : SemaphoreScriptsFixture {
  using Call = ScriptCosts::Call;
  void Costs(const char* what, const Call& prepare, const Call& call) {
    costs_.Compare(what, prepare, call);
  }
  void TearDown() override {}  // what is left of so many is another test's matter

  ScriptCosts costs_{*server_};
  Inbox inbox_{*server_, Channel('b')};
};

TEST_F(SemaphoreCost, DoesNotGrowWithWaitersThatMayEnter) {
  for (const int weight : {1, 2}) {
    const Call many_may_enter = [&](int many) {
      SetCapacity(2);
      Ask(Many(2, 'a'));
      MakeWaiters(many, Channel('b'), weight);
      server_->Command({"HSET", name_, "capacity", "1000000"});
    };
    Costs("a check lets them in", many_may_enter, [&](int) { Check(); });
    Costs("the capacity grows", many_may_enter, [&](int) { SetCapacity(1'000'000); });
    Costs("the capacity shrinks", many_may_enter, [&](int) {
      server_->Command({"HSET", name_, "capacity", "1000000"});
      SetCapacity(1);
    });
  }
}

TEST_F(SemaphoreCost, DoesNotGrowWithGrants) {
  for (const int weight : {1, 3}) {
    const Call holding = [&](int many) {
      SetCapacity(weight * many + 5);
      MakeHolds(many, 60'000'000, weight);
      Ask(For(90000, One('a')));
    };
    Costs("one more gets in", holding, [&](int i) { Ask(One('c', i)); });
    Costs("one of many renews", holding, [&](int) { Renew(One('a')); });
    Costs("one of many ends, and one waits", holding, [&](int i) {
      Ask(Many(5, 'c', i));
      Release(One('a'));
      Ask(One('a'));
    });
    Costs("inspect of many", holding, [&](int) { Inspect(); });
    const Call cached = [&](int many) {
      holding(many);
      for (const std::string& key : {Permits(), name_}) {
        server_->Command({"COPY", key, "copy of " + key});
      }
    };
    const auto as_it_was = [&] {
      for (const std::string& key : {Permits(), name_}) {
        server_->Command({"COPY", "copy of " + key, key, "REPLACE"});
      }
    };
    Costs("forced release of many", cached, [&](int) {
      as_it_was();
      ForceRelease();
    });
    Costs("one gets in, all expired with their key", cached, [&](int i) {
      as_it_was();
      server_->Command({"UNLINK", Permits()});
      Ask(One('c', i));
    });

    const Call expired = [&](int many) {
      SetCapacity(weight * many);
      MakeHolds(many, -1'000'000'000, weight);
      Ask(For(90000, Many(weight, 'a')));
    };
    Costs("one gets in, many expired", expired, [&](int i) { Ask(Impatient(Many(3, 'c', i))); });
    Costs("one renews, many expired", expired, [&](int) { Renew(One('a')); });
    Costs("a check, many expired", expired, [&](int) { Check(); });
    Costs("inspect, many expired", expired, [&](int) { Inspect(); });
  }
}

}  // namespace
}  // namespace redlatch
