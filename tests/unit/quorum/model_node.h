#ifndef REDLATCH_TESTS_UNIT_QUORUM_MODEL_NODE_H_
#define REDLATCH_TESTS_UNIT_QUORUM_MODEL_NODE_H_

#include <algorithm>
#include <cstdint>

namespace redlatch::quorum {

// Since nothing in particular; steady where nothing else is said.
using Micros = int64_t;

// One server of a quorum, as far as a single lock needs it. Leases and the restart delay end by its
// own wall clock, as they do on Redis.
class ModelNode {
 public:
  enum class Says { kGranted, kBusy, kGone, kYoung, kRaised, kAbove, kHeld, kNotHeld };

  // `ahead`: of steady time. `delay`: the restart delay, or 0. The node has long been in use.
  explicit ModelNode(Micros ahead = 0, Micros delay = 0) : ahead_(ahead), delay_(delay) {}

  Micros Clock(Micros now) const { return now + ahead_; }
  int64_t fence() const { return data_.fence; }

  // Grants for `lease`, again if `hold` has it; the fence is the token then.
  Says Acquire(int hold, Micros lease, int64_t proposal, Micros now) {
    if (IsYoung(now)) return Says::kYoung;
    if (IsGone(hold)) return Says::kGone;
    const bool again = Holds(hold, now);
    if (!again && Clock(now) < data_.until) return Says::kBusy;
    if (!again) data_.fence = std::max({data_.fence + 1, Clock(now), proposal});
    data_.holder = hold;
    data_.until = Clock(now) + lease;
    return Says::kGranted;
  }

  // Where the hold stands, and was given no larger one.
  Says Raise(int hold, int64_t token, Micros now) {
    if (!Holds(hold, now)) return Says::kNotHeld;
    return data_.fence > token ? Says::kAbove : WriteBack(token);
  }

  // Whoever holds.
  Says WriteBack(int64_t token) {
    data_.fence = std::max(data_.fence, token);
    return Says::kRaised;
  }

  // Where the hold stands; it does not count while the node is young.
  Says Renew(int hold, Micros lease, Micros now) {
    if (!Holds(hold, now)) return Says::kNotHeld;
    data_.until = std::max(data_.until, Clock(now) + lease);
    return IsYoung(now) ? Says::kYoung : Says::kHeld;
  }

  // Of a hold that a majority has and this node has not.
  void Heal(int hold, int64_t token, Micros lease, Micros now) {
    if (!Holds(hold, now)) {
      if (Clock(now) < data_.until || IsGone(hold)) return;
      data_.holder = hold;
      data_.until = Clock(now) + lease;
    }
    WriteBack(token);
  }

  // A request of this hold that comes later finds it gone.
  void Release(int hold) {
    data_.gone |= uint64_t{1} << hold;
    if (data_.holder == hold) data_.until = 0;
  }

  void StepClock(Micros by) { ahead_ += by; }
  void Save() { saved_ = data_; }

  // Comes back with what it has saved, or empty. Its next request is what begins its delay: it is
  // the first to tell that the node's run id is another.
  void Restart(bool with_old_data) {
    data_ = with_old_data ? saved_ : Data{};
    data_.since = kUnknown;
  }

 private:
  static constexpr Micros kUnknown = -1;

  struct Data {
    int holder = -1;
    Micros until = 0;
    int64_t fence = 0;
    uint64_t gone = 0;  // a bit for each hold
    Micros since = 0;
  };

  bool Holds(int hold, Micros now) const {
    return data_.holder == hold && Clock(now) < data_.until;
  }
  bool IsGone(int hold) const { return (data_.gone >> hold & 1) != 0; }
  bool IsYoung(Micros now) {
    if (delay_ == 0) return false;
    if (data_.since == kUnknown) data_.since = Clock(now);
    return Clock(now) < data_.since + delay_;
  }

  Micros ahead_;
  Micros delay_;
  Data data_;
  Data saved_;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_MODEL_NODE_H_
