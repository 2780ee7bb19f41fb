#ifndef REDLATCH_TESTS_UNIT_QUORUM_RANDOM_QUORUM_H_
#define REDLATCH_TESTS_UNIT_QUORUM_RANDOM_QUORUM_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/quorum/quorum_model.h"

namespace redlatch::quorum {

// What may happen in random schedules.
struct Perils {
  TokenRule rule = TokenRule::kWhereTheHoldStands;
  bool hazardous = false;  // more often, to leases that are kept longer
  Micros forward = 2'000;  // how far each node's clock may step forward in all: within the margin
  bool restarts = false;   // of nodes, empty or with old data
  Micros restart_delay = 0;
};

// Small, and seeded at no cost, since a schedule is short: splitmix64.
class ModelDice {
 public:
  explicit ModelDice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15) {}
  int Pick(int n) {
    uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return static_cast<int>((mixed ^ (mixed >> 31)) % static_cast<uint64_t>(n));
  }
  bool Chance(int n) { return Pick(n) == 0; }
  Micros Around(Micros most) { return Pick(static_cast<int>(2 * most + 1)) - most; }

 private:
  uint64_t state_;
};

// A random schedule: 3 to 5 nodes, 2 to 4 clients, and a network that delays, reorders and loses.
class RandomQuorum : public QuorumModel {
 public:
  RandomQuorum(const Perils& perils, uint64_t seed, bool verbose)
      : QuorumModel(perils.rule, verbose), perils_(perils), dice_(seed) {
    const Micros apart = dice_.Chance(4) ? dice_.Pick(100) : kApart;
    const int nodes = 3 + dice_.Pick(3);
    for (int n = 0; n < nodes; ++n) nodes_.emplace_back(dice_.Around(apart), perils.restart_delay);
    const int clients = 2 + dice_.Pick(kMostClients - 1);
    for (int c = 0; c < clients; ++c) clients_.emplace_back(nodes, dice_.Around(kDrift));
    forward_.assign(nodes_.size(), perils.forward);
    for (auto& links : slow_) {
      for (bool& link : links) link = dice_.Chance(4);
    }
    pace_ = dice_.Chance(2) ? 20 : 200;
    faulty_ = !dice_.Chance(4);
    proposing_ = dice_.Chance(2);
  }

  void Run() {
    for (int step = 0; step < kSteps; ++step) {
      Pass(dice_.Chance(perils_.hazardous ? 80 : 200) ? dice_.Pick(ModelClient::kLease)
                                                      : dice_.Pick(pace_));
      Step();
    }
  }

 private:
  static constexpr int kSteps = 200;
  static constexpr int kMostClients = 4;
  static constexpr Micros kApart = 8'000;
  static constexpr Micros kDrift = 10'000;  // 1 %

  void Step() {
    const int c = dice_.Pick(static_cast<int>(clients_.size()));
    switch (dice_.Pick(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return Act(c);
      case 4:
        if (faulty_ && (perils_.hazardous || dice_.Chance(2))) Mishap();
        return;
      default:
        return Arrive();
    }
  }

  void Act(int c) {
    const ModelClient& client = clients_[c];
    switch (client.state()) {
      case ModelClient::State::kIdle:
        return Begin(c);
      case ModelClient::State::kAsking:
        if (dice_.Chance(10)) return Begin(c);
        [[fallthrough]];
      case ModelClient::State::kRaising:
        if (dice_.Chance(40)) Release(c);
        return;
      case ModelClient::State::kHolding:
        if (client.HoldsAt(now_) && !dice_.Chance(perils_.hazardous ? 8 : 1)) {
          return dice_.Chance(2) ? Renew(c) : void();
        }
        return Release(c);
    }
  }
  void Begin(int c) {
    if (holds_ == kMostHolds) return;
    const int nodes = static_cast<int>(nodes_.size());
    std::vector<int> majority(nodes_.size() / 2 + 1);
    majority[0] = dice_.Pick(nodes);
    for (size_t i = 1; i < majority.size(); ++i) majority[i] = (majority[i - 1] + 1) % nodes;
    WriteTo(std::move(majority));
    Ask(c, proposing_ ? clients_[c].Proposal(now_) : 0, dice_.Chance(2));
  }

  size_t Any() { return static_cast<size_t>(dice_.Pick(static_cast<int>(flight_.size()))); }

  void Arrive() {
    if (flight_.empty()) return;
    size_t i = Any();
    for (int more = 6; more > 0 && IsSlow(flight_[i]); --more) i = Any();
    const Message& message = flight_[i];
    Deliver(message.is_late ? i : FirstLike(message.client, message.node, message.is_answer));
  }

  bool IsSlow(const Message& message) const { return slow_[message.client][message.node]; }

  void Mishap() {
    const int n = dice_.Pick(static_cast<int>(nodes_.size()));
    switch (dice_.Pick(perils_.restarts ? 8 : 4)) {
      case 0:
        return StepClockOf(n);
      case 1:
      case 2:
      case 3:
        return Break();
      case 4:
        return nodes_[n].Save();
      default:
        return Restart(n);
    }
  }
  void StepClockOf(int n) {
    const Micros by = dice_.Around(perils_.hazardous ? ModelClient::kLease : kApart);
    if (by > forward_[n]) return;
    if (by > 0) forward_[n] -= by;
    QuorumModel::StepClock(n, by);
  }
  // A connection breaks: an answer is lost; a request as well, or it is executed after others.
  void Break() {
    if (flight_.empty()) return;
    const size_t i = Any();
    Message& message = flight_[i];
    Say(message.is_answer ? "an answer" : "a request", " of hold ", message.hold, " to node ",
        message.node, " is late or lost");
    message.is_late = true;
    if (message.is_answer || dice_.Chance(2)) flight_.erase(flight_.begin() + ptrdiff_t(i));
  }
  void Restart(int n) {
    const bool with_old_data = dice_.Chance(2);
    Say("node ", n, " restarts", with_old_data ? " with old data" : "");
    nodes_[n].Restart(with_old_data);
    std::erase_if(flight_, [n](const Message& message) { return message.node == n; });
  }

  const Perils perils_;
  ModelDice dice_;
  int pace_;
  bool slow_[kMostClients][ModelClient::kMostNodes] = {};
  bool faulty_;
  bool proposing_;
  std::vector<Micros> forward_;
};

// What came of many schedules.
struct Outcome {
  int schedules = 0;
  int64_t leases = 0;
  int64_t raises = 0;
  int64_t renewals = 0;
  std::vector<int> overlapping;  // seeds
  std::vector<int> falling;
  std::vector<int> repeating;
};

// Runs the schedules of seeds 1 to `count`; or the one of REDLATCH_MODEL_SEED, which tells
// its events.
inline Outcome RunSchedules(std::string_view what, int count, const Perils& perils) {
  Outcome outcome;
  const char* only = std::getenv("REDLATCH_MODEL_SEED");
  const int first = only == nullptr ? 1 : std::atoi(only);
  const int last = only == nullptr ? count : first;
  for (int seed = first; seed <= last; ++seed) {
    RandomQuorum schedule(perils, static_cast<uint64_t>(seed), only != nullptr);
    schedule.Run();
    ++outcome.schedules;
    outcome.leases += schedule.counts().leases;
    outcome.raises += schedule.counts().raises;
    outcome.renewals += schedule.counts().renewals;
    if (schedule.counts().overlaps > 0) outcome.overlapping.push_back(seed);
    if (schedule.counts().falls > 0) outcome.falling.push_back(seed);
    if (schedule.counts().repeats > 0) outcome.repeating.push_back(seed);
  }
  std::cout << what << ": " << outcome.schedules << " schedules, " << outcome.leases << " leases, "
            << outcome.raises << " raised, " << outcome.renewals
            << " renewed; tokens fell or repeated in " << outcome.falling.size()
            << ", leases overlapped in " << outcome.overlapping.size() << "\n";
  return outcome;
}

}  // namespace redlatch::quorum

#endif  // REDLATCH_TESTS_UNIT_QUORUM_RANDOM_QUORUM_H_
