#ifndef REDLATCH_TESTS_SIM_WORLD_CLUSTER_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_CLUSTER_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/redis/redis_server.h"
#include "tests/sim/world/replicated_group.h"

namespace redlatch::sim {

// A cluster of three primaries with one replica each. Slots move between them, and nodes learn
// late of what has changed.
class ClusterGroup final : public ReplicatedGroup {
 public:
  explicit ClusterGroup(const Surroundings& world);

  std::string Url() const override;
  void Tick() override;
  void Inject(const Fault& fault) override;

 private:
  struct Move {
    int slot;
    size_t from, to;  // shards
    int64_t step;     // about that long per key
    int64_t hurries;  // from then on, without pauses
    bool migrating = false;
  };
  struct Knowledge {  // what a node knows
    ClusterView view;
    int64_t told_at = kNever;  // of the latest change
    int64_t says_down_until = 0;
  };

  void Promoted(size_t shard, size_t before) override;
  void Demoted(size_t node) override { Tell(node); }
  void Returned(size_t node) override;
  std::vector<Address> OnMinoritySide(size_t) override { return {}; }
  bool MayTrustAcks(size_t shard) override;
  void FinishMoves(size_t shard) override;

  size_t OwnerOf(int slot) const;
  ClusterView ViewOf(size_t node);
  // The node learns the true state now; the others will learn it later.
  void Tell(size_t node);
  void TellOthers();
  void TellIfDown(size_t node);
  void BeginMove(const Fault& fault);
  void GoOnWithMove(int slot);
  void Finish(int slot);
  void ChangeAddress(const Fault& fault);

  std::map<int, size_t> moved_;  // slots that are not in their original place
  std::map<int, Move> moves_;    // in progress, by slot
  std::vector<Knowledge> known_;
  std::vector<int64_t> received_ = std::vector<int64_t>(3, -kNever);  // when a shard got a slot
  int64_t epoch_ = 1;
  uint32_t addresses_ = 0;  // how many nodes got later
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_CLUSTER_GROUP_H_
