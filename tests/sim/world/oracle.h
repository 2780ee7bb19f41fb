// Watches what the threads of all clients get, and finds the first promise that is broken.
#ifndef REDLATCH_TESTS_SIM_WORLD_ORACLE_H_
#define REDLATCH_TESTS_SIM_WORLD_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/sim/os/kernel.h"

namespace redlatch::sim {

class Oracle {
 public:
  enum class Mode : uint8_t { kExclusive, kShared, kPermits };

  struct Hold {
    std::string name;
    Mode mode = Mode::kExclusive;
    int64_t permits = 0;
    int64_t capacity = 0;
    Process* process = nullptr;
    uint64_t owner = 0;  // holds of one owner do not exclude each other
    uint64_t token = 0;  // 0: has none
    int64_t asked = 0;
    std::function<bool()> valid;
  };

  // The Owner that all clients share.
  static constexpr uint64_t kSharedOwner = 1;

  // `strict`: it demands what no lock over Redis can promise, too, to show what happens then.
  Oracle(Kernel& kernel, bool strict) : kernel_(kernel), strict_(strict) {}

  // A thread begins to ask, and no longer asks. `Asked` returns the largest token of all
  // acquisitions that were over before.
  uint64_t Asked(const std::string& name, Process* process);
  void StoppedAsking(const std::string& name, Process* process);
  // `largest_before`: what Asked() returned.
  uint64_t Granted(Hold hold, uint64_t largest_before);
  void Leaving(uint64_t id);
  void Died(Process* process);

  // Latches. A count is sent, and then confirmed; a waiter is let through.
  // A latch refuses more counts than it was made for, so MayCount() lets only so many begin.
  bool MayCount(const std::string& name, int64_t count) {
    return latches_[name].begun < count && ++latches_[name].begun > 0;
  }
  void Counted(const std::string& name) { ++latches_[name].done; }
  bool MustBeOpen(const std::string& name, int64_t count) { return latches_[name].done >= count; }
  void Opened(const std::string& name, int64_t count);

  // Until then the server may let in a second owner, and tokens may fall: it has lost what it knew.
  void LostData(int64_t until) {
    if (!strict_) unprotected_until_ = std::max(unprotected_until_, until);
  }
  // The same, of these names alone: a release was forced.
  void Forced(const std::vector<std::string>& names, int64_t until) {
    for (const std::string& each : names) objects_[each].unprotected_until = until;
  }
  // Until then the time in which nothing happens is not judged.
  void Excuse(int64_t until) { excused_until_ = std::max(excused_until_, until); }
  // How long an object may have waiters and no owner.
  void SetLongestIdle(int64_t longest) { longest_idle_ = longest; }
  void CheckIdle();

  void Violated(const std::string& what);
  const std::string& violation() const { return violation_; }
  uint64_t grants() const { return grants_; }

 private:
  struct Object {
    std::map<uint64_t, Hold> holds;
    std::map<Process*, int> waiting;
    uint64_t largest_token = 0;
    int64_t idle_since = 0;
    int64_t unprotected_until = 0;
  };
  struct Latch {
    int64_t begun = 0;
    int64_t done = 0;
  };
  bool Valid(const Hold& hold) const;
  void CheckExclusion(const Object& object, const Hold& fresh);
  void CheckToken(const Hold& fresh, uint64_t largest_before);
  bool Idle(Object& object);
  std::string Words(const Hold& hold) const;

  Kernel& kernel_;
  const bool strict_;
  std::map<std::string, Object> objects_;
  std::map<std::string, Latch> latches_;
  uint64_t next_ = 1;
  uint64_t grants_ = 0;
  std::map<uint64_t, std::string> names_;  // of holds
  int64_t unprotected_until_ = 0;
  int64_t excused_until_ = 0;
  int64_t longest_idle_ = kNever;
  std::string violation_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_ORACLE_H_
