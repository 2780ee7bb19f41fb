#ifndef REDLATCH_TESTS_SIM_WORLD_REPLICATION_H_
#define REDLATCH_TESTS_SIM_WORLD_REPLICATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tests/sim/os/kernel.h"
#include "tests/sim/random.h"
#include "tests/sim/world/host.h"

namespace redlatch::sim {

// Carries what primaries write to their replicas, late, and back how much of it those have. What
// was on its way when a link broke is lost.
class Replication {
 public:
  // `hosts`: `count` of them, later. `acks`: whether clients wait for replicas, so that a primary
  // must know what those have.
  Replication(Kernel& kernel, const std::vector<std::unique_ptr<Host>>& hosts, size_t count,
              Random random, bool acks);

  // The server becomes a replica, and synchronises as soon as both are there.
  void Follow(size_t replica, size_t primary);
  // The replica becomes a primary, with what it has.
  void Promote(size_t replica);
  // Nothing comes through to that replica, or comes through again.
  void Hold(size_t replica, bool held) { links_[replica].held = held; }
  // A server cannot be reached by the others, or can again.
  void Isolate(size_t host, bool isolated) { links_[host].isolated = isolated; }
  // The process of that server has ended, or another has started.
  void Restarted(size_t host);
  // The server has executed something.
  void Written(size_t primary);
  // Makes connections that can be made.
  void GoOn();

  static constexpr size_t kNone = SIZE_MAX;
  size_t PrimaryOf(size_t replica) const { return links_[replica].primary; }
  // Whether the replica has all that its primary had at some moment since it follows it.
  bool InStep(size_t replica) const { return links_[replica].in_step; }
  // Whether the primary hears of the replica.
  bool Connected(size_t replica) const { return InStep(replica) && Open(replica); }

 private:
  struct Link {
    size_t primary = kNone;
    bool in_step = false;
    bool held = false;
    bool isolated = false;
    bool under_way = false;
    int64_t acked = 0;        // as far as the primary has heard
    uint64_t connection = 0;  // counts them
  };

  bool Open(size_t replica) const;
  void Break(size_t replica);
  void Carry(size_t replica);
  void Arrive(size_t replica, uint64_t connection, int64_t offset);
  int64_t Lag();

  Kernel& kernel_;
  const std::vector<std::unique_ptr<Host>>& hosts_;
  Random random_;
  const bool acks_;
  std::vector<Link> links_;  // by replica
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_REPLICATION_H_
