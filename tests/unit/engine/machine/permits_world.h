#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_WORLD_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_WORLD_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/engine/machine/model_world.h"
#include "tests/unit/engine/machine/permits_order.h"
#include "tests/unit/engine/machine/reference_semaphore_server.h"

namespace redlatch::engine {

// Clients that acquire permits, each acquisition by a machine of its own, as Permits has it; and
// what must be so at each step.
class PermitsWorld : public ModelWorld {
 public:
  PermitsWorld(uint64_t seed, bool verbose) : ModelWorld(seed, verbose) {
    steps_ = 600;
    forcing_ = Chance(6);
    resizing_ = Chance(2);
    const uint32_t capacity = 1 + static_cast<uint32_t>(Pick(kMostPermits));
    for (int left = 1 + Pick(4); left > 0; --left) AddUser(capacity);
    if (Chance(8)) users_[0].capacity = capacity + 1;  // does not agree
    // Of a claim that is shorter than the lease, a quarter is more than ExpiryLead(): else a hold
    // could be granted and lost at once. Claims of real clients are 2 s at least.
    if (Chance(2)) server_.claim = absl::Milliseconds(60 + Pick(60));
    if (Chance(2)) server_.window = 1 + static_cast<size_t>(Pick(4));
  }

  int grants() const { return grants_; }

 protected:
  using Server = ReferenceSemaphoreServer;
  static constexpr int kMostPermits = 5;
  static constexpr int kSlots = 4;

  // A thread, with the one acquisition that it has.
  struct Slot {
    PortPtr port;              // null where it has none
    Waiter* waiter = nullptr;  // under way
    uint32_t permits = 0;
    uint32_t most = 0;  // the largest capacity since it asked
    bool to_go_on = false;
    bool stopped = false;
    // Held.
    uint64_t hold = 0;
    GrantId grant = 0;
    Instant deadline;  // as it was last seen
    bool lost = false;
  };
  struct Ending {  // a release under way
    PortPtr port;
    uint64_t hold;
    GrantId grant;
    Instant deadline;
  };
  struct User {             // what a client has beside its machines
    uint32_t capacity = 0;  // that it expects
    std::vector<PortPtr> free;
    std::vector<Slot> slots;
    std::vector<Ending> endings;
    std::deque<Waiter> waiters;
  };
  struct Granted {  // a hold, as the server last granted it
    uint32_t permits = 0;
    size_t since = 0;  // in capacities_
  };

  void AddUser(uint32_t capacity) {
    AddClient();
    users_.push_back({.capacity = capacity});
    users_.back().slots.resize(kSlots);
  }
  void Die(int c) {
    Replace(c);
    users_[c] = {.capacity = users_[c].capacity, .slots = std::vector<Slot>(kSlots)};
  }

  // As Permits::Borrow() and Return() do.
  PortPtr Borrow(int c) {
    std::vector<PortPtr>& free = users_[c].free;
    if (free.empty()) {
      return AddPort(c, {.sharing = kPermits, .longest_heartbeat = Server::kLongestHeartbeat});
    }
    PortPtr port = std::move(free.back());
    free.pop_back();
    EXPECT_FALSE(port->lock().in_use());  // though it may owe something since
    return port;
  }
  void Return(int c, PortPtr port) {
    if (port->lock().idle()) users_[c].free.push_back(std::move(port));
  }

  // ---- The server.

  Server& server() override { return server_; }
  Answer AtServer(const Caller& caller, const Send& send) override {
    order_.Before(server_, now_, &send);
    const Answer answer = server_.Execute(caller, send, now_);
    Settled(send);
    return answer;
  }
  void SetCapacity(uint32_t capacity) {
    now_ = now_ + absl::Microseconds(1);
    Say("capacity is ", capacity);
    order_.Before(server_, now_, nullptr);
    server_.SetCapacity(capacity, now_);
    Settled({});
    for (User& user : users_) {
      for (Slot& slot : user.slots) slot.most = std::max(slot.most, capacity);
    }
  }
  void ForceRelease() {
    now_ = now_ + absl::Microseconds(1);
    Say("---- force");
    order_.Before(server_, now_, nullptr);
    server_.ForceRelease(now_);
    Settled({});
  }
  void Settled(const Send& send) {
    if (server_.capacity && (capacities_.empty() || capacities_.back() != *server_.capacity)) {
      capacities_.push_back(*server_.capacity);
    }
    if (std::holds_alternative<ToAcquire>(send.what) && send.grant != 0) {
      EXPECT_EQ(BidOf(send).block, BidOf(send).terms.permits);
      wanted_[send.grant] = BidOf(send).terms.permits;
    }
    for (const GrantId grant : server_.granted) {
      Say("the server grants ", grant, ", of ", wanted_[grant]);
      granted_[grant] = {wanted_[grant], capacities_.size() - 1};
    }
    order_.After(server_, now_);
  }

  // ---- What must be so.

  void OnSend(int c, const Send& send) override {
    if (const auto* release = std::get_if<ToRelease>(&send.what)) {
      EXPECT_EQ(release->last_used, release->last_reserved) << "there are no tokens to give back";
      EXPECT_GE(Local(c), not_before_[send.grant]) << "whoever lost it may still be at work";
    }
    if (!std::holds_alternative<ToAcquire>(send.what)) {
      EXPECT_EQ(send.bid(), nullptr) << "nothing is queued again";
      return;
    }
    EXPECT_TRUE(BidOf(send).ticket == tickets_[send.grant] ||
                (BidOf(send).ticket == 0 && missed_.contains(c)))
        << "it forgets its place";
    EXPECT_FALSE(BidOf(send).wait && BidOf(send).block == 0);
  }
  void OnHeard(const Request& request, const Answer& answer) override {
    if (answer.missed) missed_.insert(request.client);
    if (const auto* queued = std::get_if<BidQueued>(&answer.bid())) {
      tickets_[request.send.grant] = queued->ticket;
    }
  }
  void OnTime() override { Check(); }

  void Absorb(int c, Port& port, Effects& effects) override {
    for (Waiter* waiter : effects.wakes) {
      Wake(*waiter);
      for (Slot& slot : users_[c].slots) slot.to_go_on |= slot.waiter == waiter;
    }
    for (const Loss& loss : effects.losses) OnLoss(c, port, loss);
    for (Slot& slot : users_[c].slots) {
      if (slot.port.get() != &port) continue;
      if (slot.waiter != nullptr && slot.waiter->state != Waiter::State::kWaiting) {
        EXPECT_FALSE(slot.waiter->parked) << "decided and not woken";
      }
      if (slot.hold != 0 && !slot.lost) {
        slot.deadline = std::max(slot.deadline, port.lock().Deadline(slot.hold));
      }
    }
    Outcomes(c);
    Check();
  }

  void OnLoss(int c, Port& port, const Loss& loss) {
    Say(c, "/", port.caller.machine, " lost: ", loss.reason);
    EXPECT_TRUE(loss.hold.view->Lost(Local(c)).stop_requested());
    for (Slot& slot : users_[c].slots) {
      if (slot.port.get() != &port || slot.hold == 0) continue;
      ASSERT_EQ(slot.hold, loss.hold.id);
      EXPECT_TRUE(Local(c) + ExpiryLead(kLongestLease) >= slot.deadline ||
                  !server_.Has(slot.grant, now_) || server_.forced.contains(slot.grant))
          << "lost for nothing";
      slot.lost = true;
      if (loss.reason.starts_with("its lease expired")) not_before_[slot.grant] = slot.deadline;
    }
  }

  void Outcomes(int c) {
    std::vector<Ending>& endings = users_[c].endings;
    for (size_t i = 0; i < endings.size();) {
      const Ending ending = endings[i];
      const Released outcome = ending.port->lock().Outcome(ending.hold);
      const bool forgets = outcome.kind == Released::Kind::kUnderWay && Chance(50);
      if (forgets) ending.port->lock().Forget(ending.hold);
      if (outcome.kind == Released::Kind::kUnderWay && !forgets) {
        ++i;
        continue;
      }
      endings.erase(endings.begin() + static_cast<ptrdiff_t>(i));
      if (!forgets) Over(c, ending, outcome);
      Return(c, ending.port);
    }
  }
  void Over(int c, const Ending& ending, const Released& outcome) {
    Say(c, " release of ", ending.grant, " ended: ", static_cast<int>(outcome.kind));
    if (outcome.kind == Released::Kind::kDone) {
      EXPECT_TRUE(server_.released.contains(ending.grant) || server_.forced.contains(ending.grant))
          << "it was lost before";
      EXPECT_TRUE(!server_.Has(ending.grant, now_) || ghosts_.contains(ending.grant));
    } else {
      EXPECT_EQ(outcome.kind, Released::Kind::kLost);
      EXPECT_TRUE(Local(c) >= ending.deadline || server_.forced.contains(ending.grant));
    }
  }

  // Permits that are valid by their clients' own clocks never are more than there were at a time
  // since the oldest of them was granted: who has permits keeps them when the capacity shrinks. Of
  // what was forced a client does not know at once.
  void Check() {
    uint32_t valid = 0;
    size_t since = capacities_.size();
    for (int c = 0; c < clients(); ++c) {
      for (const PortPtr& port : clients_[c]->table) {
        const auto holds = port->lock().holds();
        EXPECT_LE(holds.size(), 1U);
        if (holds.empty() || !port->lock().Valid(holds[0], Local(c))) continue;
        const GrantId grant = port->lock().OfThread(ThreadOf(*port)).grant;
        if (server_.forced.contains(grant)) continue;
        EXPECT_TRUE(server_.Has(grant, now_)) << grant << " is valid, and the server does not know";
        valid += granted_[grant].permits;
        since = std::min(since, granted_[grant].since);
      }
    }
    if (valid == 0) return;
    EXPECT_LE(valid, *std::max_element(capacities_.begin() + static_cast<ptrdiff_t>(since),
                                       capacities_.end()))
        << "more permits than there are";
  }

  static uint64_t ThreadOf(const Port& port) { return static_cast<uint64_t>(port.caller.machine); }
  bool AnyWaits() const override {
    return std::any_of(users_.begin(), users_.end(), [](const User& user) {
      return std::any_of(user.slots.begin(), user.slots.end(),
                         [](const Slot& slot) { return slot.waiter != nullptr; });
    });
  }

  Server server_;
  bool forcing_ = false;
  bool resizing_ = false;
  std::vector<User> users_;  // by client
  PermitsOrder order_;
  std::vector<uint32_t> capacities_;  // all that there were
  std::map<GrantId, uint32_t> wanted_;
  std::map<GrantId, Granted> granted_;
  std::map<GrantId, uint64_t> tickets_;    // as their clients have heard last
  std::set<int> missed_;                   // clients that messages did not reach
  std::map<GrantId, Instant> not_before_;  // lost, and not to be given back before
  std::set<uint64_t> holds_;
  int grants_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_WORLD_H_
