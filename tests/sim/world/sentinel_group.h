#ifndef REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_
#define REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/world/replicated_group.h"
#include "tests/sim/world/sentinel.h"

namespace redlatch::sim {

// A primary with two replicas, and three sentinels. Two of these decide on a promotion; each tells
// of it when it has heard.
class SentinelGroup final : public ReplicatedGroup {
 public:
  explicit SentinelGroup(const Surroundings& world);

  std::string Url() const override;
  std::vector<Address> Addresses() const override;
  void Tick() override;
  void Inject(const Fault& fault) override;

 private:
  struct Watcher {
    std::unique_ptr<Sentinel> sentinel;
    size_t isolated_with;  // the server that it is cut off with; all servers' number: none
    int64_t hears_at = 0;  // of the last promotion
  };

  bool MayPromote(size_t shard) override;
  void Promoted(size_t shard, size_t before) override;
  void Demoted(size_t node) override;
  void Returned(size_t node) override;
  std::vector<Address> OnMinoritySide(size_t node) override;
  bool Sees(const Watcher& watcher) const;

  std::vector<Watcher> watchers_;
  int64_t epoch_ = 0;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_SENTINEL_GROUP_H_
