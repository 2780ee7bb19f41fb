#ifndef REDLATCH_TESTS_SIM_WORLD_WORLD_H_
#define REDLATCH_TESTS_SIM_WORLD_WORLD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/world/actor.h"
#include "tests/sim/world/oracle.h"
#include "tests/sim/world/plan.h"
#include "tests/sim/world/server_group.h"

namespace redlatch::sim {

using FaultCounts = std::array<uint32_t, static_cast<size_t>(FaultKind::kCount)>;

struct RunResult {
  std::string violation;  // empty: none
  uint64_t steps = 0;
  uint64_t scripts = 0;
  uint64_t grants = 0;
  uint64_t hash = 0;      // equal for equal runs
  uint64_t requests = 0;  // equal if each grant was asked for and ended by the same scripts
  int64_t virtual_ms = 0;
  // In runs with faults: the calls, and how long objects were in use; and what was judged of both.
  uint64_t calls = 0;
  uint64_t judged_calls = 0;
  int64_t used_ms = 0;
  int64_t judged_ms = 0;
  FaultCounts faults = {};
};

// One run of a plan: servers, clients, and their faults.
class World {
 public:
  explicit World(const Plan& plan);
  // `random` decides the order of events.
  World(const Plan& plan, Random random);
  ~World();

  RunResult Run();

 private:
  void Inject(const Fault& fault);
  bool LosesCounts(const Fault& fault);
  void InjectIntoNetwork(const Fault& fault);
  void InjectIntoClient(const Fault& fault);
  bool Concerns(const Fault& fault, size_t client) const;
  Actor::Ending EndingOf(const Fault& fault, size_t client) const;
  void End(const Fault& fault, size_t client);
  int64_t LeftTaken(const Fault& fault, const SharedObject& object);
  bool IsAlone(const Fault& fault) const;
  void InjectIntoServer(const Fault& fault);
  int64_t Recovery(const Fault& fault, const SharedObject& object);
  void Excuse(const Fault& fault);
  void Restart(const Fault& fault, Host& host);
  void Refuse(const Fault& fault, Host& host);
  void CheckOften();
  void CheckTheEnd();
  void CheckChangedKeys();
  int64_t LongestTtl(const std::string& key) const;
  void CheckKeys(bool all_gone);
  void CheckCompanions(Keyspace keys, int64_t latest_ms);
  void CheckSize(Host& host);
  void CheckNothingHeld();
  bool IsOfLatch(const std::string& key) const;
  bool LastsForEver(const std::string& key) const;
  void SetNumbers(bool at_first);
  int64_t EndOf(const Fault& fault) const;
  int64_t QuietFrom() const;
  bool AllDone() const;
  int64_t EndLateness();
  void ExcuseIdleness();

  struct CheckedKeys {
    uint64_t changed = 0;   // the last change that CheckKeys() has seen
    int64_t at_ms = 0;      // when, by the server's clock
    int64_t latest_ms = 0;  // the largest such time
  };

  const Plan& plan_;
  const int64_t longest_lease_;
  const int64_t clock_steps_;
  Kernel kernel_;
  Random random_;
  Network network_;
  Oracle oracle_;
  std::unique_ptr<ServerGroup> group_;
  std::map<Host*, Keyspace> old_copies_;  // the content of an older copy of a server's data
  std::vector<std::unique_ptr<Actor>> actors_;
  int64_t start_;
  std::map<Host*, CheckedKeys> checked_;
  uint64_t commands_ = 0;  // that the servers have executed
  int64_t changed_ = 0;    // when their number last changed
  RunResult result_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_WORLD_H_
