// What befalls the servers of a quorum, two of five at a time.
#ifndef REDLATCH_TESTS_FAULT_API_QUORUM_NEMESIS_H_
#define REDLATCH_TESTS_FAULT_API_QUORUM_NEMESIS_H_

#include <array>
#include <cstddef>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "tests/fault/soak/plan.h"
#include "tests/support/quorum_group.h"

namespace redlatch::quorum_load {

// Every second two other servers, each pair in turn, and each fault:
//
//   emptied   killed, and at once started again without data
//   frozen    for most of the second
//   absent    killed, and started again after a while
//
// Each pair is itself again when the next one is hit: what it takes to start, and to have a vote
// again after `restart_delay`, is less than a second.
class QuorumNemesis {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);
  static constexpr absl::Duration kFrozen = absl::Milliseconds(900);
  static constexpr absl::Duration kAbsent = absl::Milliseconds(200);

  explicit QuorumNemesis(support::QuorumGroup& servers) : servers_(servers) {}

  // One turn, of a second.
  void HitTwo() {
    const base::Instant begun = base::Now();
    const size_t place = turn_ % kRoundTrip;
    const auto [one, other] = kPairs[place < kPairs.size() ? place : kRoundTrip - place];
    // Each pair meets each fault in three round trips.
    switch ((turn_ + turn_ / kRoundTrip) % 3) {
      case 0:
        Kill(one, other);
        Start(one, other);
        break;
      case 1:
        servers_[one].Stop();
        servers_[other].Stop();
        soak::Pass(begun + kFrozen - base::Now());
        servers_[one].Continue();
        servers_[other].Continue();
        break;
      default:
        Kill(one, other);
        soak::Pass(begun + kAbsent - base::Now());
        Start(one, other);
    }
    ++turn_;
    soak::Pass(begun + kPeriod - base::Now());
  }

 private:
  // Neighbours share no server, so that nobody is hit in two seconds in a row. No circle of all ten
  // is like that: they are gone through there and back.
  struct Pair {
    size_t one;
    size_t other;
  };
  static constexpr std::array<Pair, 10> kPairs = {
      {{0, 1}, {2, 3}, {0, 4}, {1, 2}, {3, 4}, {0, 2}, {1, 3}, {2, 4}, {0, 3}, {1, 4}}};
  static constexpr size_t kRoundTrip = 2 * (kPairs.size() - 1);

  void Kill(size_t one, size_t other) {
    servers_[one].Kill();
    servers_[other].Kill();
  }
  void Start(size_t one, size_t other) {
    servers_[one].Restart();
    servers_[other].Restart();
  }

  support::QuorumGroup& servers_;
  size_t turn_ = 0;
};

}  // namespace redlatch::quorum_load

#endif  // REDLATCH_TESTS_FAULT_API_QUORUM_NEMESIS_H_
