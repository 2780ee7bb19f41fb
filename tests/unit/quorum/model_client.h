#ifndef REDLATCH_TESTS_UNIT_QUORUM_MODEL_CLIENT_H_
#define REDLATCH_TESTS_UNIT_QUORUM_MODEL_CLIENT_H_

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>

#include "tests/unit/quorum/model_node.h"

namespace redlatch::quorum {

// One client of a quorum: its round, and what it makes of each answer.
class ModelClient {
 public:
  enum class State { kIdle, kAsking, kRaising, kHolding };
  enum class Next { kNothing, kRaise, kReturn, kExtend, kRollBack };

  static constexpr int kMostNodes = 5;
  static constexpr Micros kLease = 20'000;
  static constexpr Micros kMargin = kLease / 100 + 2'000;

  // `drift`: how much slower its clock is, in millionths.
  explicit ModelClient(int nodes = 0, Micros drift = 0) : nodes_(nodes), drift_(drift) {}

  State state() const { return state_; }
  int hold() const { return hold_; }
  int attempt() const { return attempt_; }
  int64_t token() const { return token_; }
  bool HoldsAt(Micros now) const { return state_ == State::kHolding && now < deadline_; }

  // A new hold, or another attempt of the present one. Its lease counts from here. With `all` it
  // waits for every answer, since a majority of them may be one number.
  void Begin(int hold, bool all, Micros now) {
    if (state_ == State::kIdle) attempt_ = 0;
    ++attempt_;
    hold_ = hold;
    waits_for_all_ = all;
    state_ = State::kAsking;
    granted_.reset();
    refused_.reset();
    deadline_ = DeadlineFrom(now);
  }
  void BeginToRaise() {
    state_ = State::kRaising;
    raised_.reset();
    not_raised_.reset();
  }
  void BeginToRenew(Micros now) {
    ++attempt_;
    held_.reset();
    not_held_.reset();
    renewed_deadline_ = DeadlineFrom(now);
  }
  void End() { state_ = State::kIdle; }

  // False where it is too late.
  bool Return(Micros now) {
    if (now >= deadline_) return false;
    state_ = State::kHolding;
    return true;
  }

  bool Extend(Micros now) {
    if (now >= deadline_) return false;
    deadline_ = renewed_deadline_;
    return true;
  }

  Next Acquired(int node, ModelNode::Says says, int64_t token) {
    if (state_ != State::kAsking) return Next::kNothing;
    (says == ModelNode::Says::kGranted ? granted_ : refused_).set(node);
    tokens_[node] = token;
    if (AreTooMany(refused_)) return Next::kRollBack;
    if (!IsMajority(granted_.count())) return Next::kNothing;
    token_ = 0;
    for (int n = 0; n < nodes_; ++n) {
      if (!granted_[n]) continue;
      if (!IsMajority(Answered(tokens_[n]))) {
        token_ = std::max(token_, tokens_[n]);
        continue;
      }
      token_ = tokens_[n];  // and raised already
      return Next::kReturn;
    }
    const bool all_answered = granted_.count() + refused_.count() == static_cast<size_t>(nodes_);
    return waits_for_all_ && !all_answered ? Next::kNothing : Next::kRaise;
  }

  Next Raised(int node, ModelNode::Says says) {
    if (state_ != State::kRaising) return Next::kNothing;
    (says == ModelNode::Says::kRaised ? raised_ : not_raised_).set(node);
    if (IsMajority(raised_.count())) return Next::kReturn;
    return AreTooMany(not_raised_) ? Next::kRollBack : Next::kNothing;
  }

  Next Renewed(int node, ModelNode::Says says) {
    if (state_ != State::kHolding) return Next::kNothing;
    const bool is_majority_already = IsMajority(held_.count());
    (says == ModelNode::Says::kHeld ? held_ : not_held_).set(node);
    if (AreTooMany(not_held_)) return Next::kRollBack;
    return IsMajority(held_.count()) && !is_majority_already ? Next::kExtend : Next::kNothing;
  }
  bool IsToBeHealed(int node) const { return not_held_[node]; }

  // What its proposals are made of.
  void Learn(int64_t token, Micros clock, Micros now) {
    clock_ahead_ = clock - now;
    if (token <= seen_ + now - seen_at_) return;
    seen_ = token;
    seen_at_ = now;
  }
  // The largest token that it has seen, and the time since; at most 1 ms beyond the nodes' clocks.
  int64_t Proposal(Micros now) const {
    return std::min(seen_ + now - seen_at_, now + clock_ahead_ + 1'000);
  }

 private:
  using Nodes = std::bitset<kMostNodes>;

  Micros DeadlineFrom(Micros sent) const {
    const Micros counted = kLease - kMargin;
    return sent + counted + counted * drift_ / 1'000'000;
  }
  bool IsMajority(size_t count) const { return 2 * count > static_cast<size_t>(nodes_); }
  bool AreTooMany(const Nodes& refusals) const {
    return !IsMajority(static_cast<size_t>(nodes_) - refusals.count());
  }
  size_t Answered(int64_t token) const {
    size_t same = 0;
    for (int n = 0; n < nodes_; ++n) {
      if (granted_[n] && tokens_[n] == token) ++same;
    }
    return same;
  }

  int nodes_;
  Micros drift_;
  State state_ = State::kIdle;
  int hold_ = -1;
  int attempt_ = 0;
  bool waits_for_all_ = false;
  Micros deadline_ = 0;
  Micros renewed_deadline_ = 0;
  Nodes granted_, refused_, raised_, not_raised_, held_, not_held_;
  int64_t tokens_[kMostNodes] = {};
  int64_t token_ = 0;
  int64_t seen_ = 0;
  Micros seen_at_ = 0;
  Micros clock_ahead_ = 0;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_MODEL_CLIENT_H_
