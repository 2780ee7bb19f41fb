// Permits of several clients against a naive server, through a hostile network, in virtual time.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include "tests/unit/engine/machine/permits_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

constexpr int kStepsPerSchedule = 600;

// What happens when, by chance.
class Schedule : public PermitsModel {
 public:
  using PermitsModel::PermitsModel;

  void Run() {
    for (int i = 0; i < kStepsPerSchedule && !failed(); ++i) Step();
    if (!failed()) CalmDown();
  }

 private:
  void Step() {
    const int c = Pick(static_cast<int>(clients_.size()));
    const int what = Pick(20);
    if (StandsStill(c) && what < 11) return;
    Slot& slot = users_[c].slots[Pick(kSlots)];
    switch (what) {
      case 0:
      case 1:
      case 2:
        return Acquire(c, slot);
      case 3:
        return Chance(8) ? GiveUp(c, slot) : GoOn(c, slot, Chance(10));
      case 4:
      case 5:
        return Release(c, slot);
      case 6:
        for (Slot& each : users_[c].slots) GoOn(c, each, false);
        return;
      case 7:
      case 8:
      case 9:
        Fetch(c);
        return;
      case 10:
        DropPorts(c);
        return Expire(c);
      case 11:
      case 12:
      case 13:
        return Network();
      case 14:
        return Messages();
      case 15:
        return Seldom(c, slot);
      case 16:
        return Chance(2) ? Mishap(c) : Late();
      default:
        return Advance(Chance(fast_ ? 2 : 8) ? absl::Milliseconds(Pick(150))
                                             : absl::Microseconds(Pick(3000)));
    }
  }

  void Seldom(int c, Slot& slot) {
    if (resizing_ && Chance(8)) SetCapacity(1 + static_cast<uint32_t>(Pick(kMostPermits)));
    if (forcing_ && Chance(10)) ForceRelease();
    if (StandsStill(c)) return;
    if (Chance(20)) StopAll(c);
    if (Chance(8)) ReleaseAgain(c);
    if (Chance(4)) Extend(c, slot);
  }

  void Mishap(int c) {
    if (!faulty_) return;
    if (Chance(8)) return Die(c);
    if (Chance(8)) return Reconnect(c, Chance(2));
    if (Chance(8)) return StandStill(c, absl::Milliseconds(Pick(600)));
  }

  // Faults have stopped: everything is executed, heard and, where `releasing`, released at once.
  bool Settle(bool releasing) {
    bool progress = false;
    for (int c = 0; c < std::ssize(clients_) && !failed(); ++c) {
      Expire(c);
      for (Slot& slot : users_[c].slots) {
        if (slot.to_go_on) {
          GoOn(c, slot, false);
          progress = true;
        }
        if (releasing && IsHeld(slot) && !failed()) {
          Release(c, slot);
          progress = true;
        }
      }
      while (!failed() && Fetch(c)) progress = true;
    }
    while (!requests_.empty() && !failed()) {
      if (!requests_[0].answer) Execute(requests_[0]);
      Deliver(0, false);
      progress = true;
    }
    while (!server_.messages.empty() && !failed()) {
      DeliverMessage(0, false);
      progress = true;
    }
    return progress;
  }

  // Who has reconnected asks at once, but where a grant came too late to be used; and once more,
  // 1 ms later, if it was refused while its client was taking something back.
  void AllAsk() {
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    Advance(absl::Milliseconds(2));
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    std::set<GrantId> known;
    for (const auto& [grant, client] : server_.Known(now_)) known.insert(grant);
    for (const User& user : users_) {
      for (const Slot& slot : user.slots) {
        if (slot.waiter == nullptr || granted_.contains(slot.port->grant)) continue;
        EXPECT_TRUE(known.contains(slot.port->grant))
            << slot.port->grant << " waits, and the server does not know";
      }
    }
  }

  // Whoever waits for more permits than there will be hears it, and ends, at once.
  void Shrink() {
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    server_.told.clear();
    SetCapacity(1 + static_cast<uint32_t>(Pick(2)));
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    for (const User& user : users_) {
      for (const Slot& slot : user.slots) {
        EXPECT_FALSE(slot.waiter != nullptr && server_.told.contains(slot.port->grant))
            << slot.port->grant << " waits for more than there is";
      }
    }
  }

  // Whoever loses his permits by force hears it at once.
  void Force() {
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    std::set<GrantId> held;
    for (const auto& [grant, client] : server_.Known(now_)) {
      if (server_.Has(grant, now_)) held.insert(grant);
    }
    ForceRelease();
    while (!failed() && Settle(/*releasing=*/false)) {
    }
    for (const User& user : users_) {
      for (const Slot& slot : user.slots) {
        const bool knows = slot.lost || server_.Has(slot.grant, now_);  // or has it anew
        EXPECT_TRUE(!IsHeld(slot) || !held.contains(slot.grant) || knows)
            << slot.grant << " was forced, and its client does not know";
      }
    }
  }

  void CalmDown() {
    Say("---- calm");
    for (auto& client : clients_) client->stands_still_until = now_;
    while (!late_.empty() && !failed()) Late();
    const bool reconnecting = Chance(2);
    for (int c = 0; c < std::ssize(clients_); ++c) {
      if (reconnecting || !server_.subscribed[clients_[c]->id]) Reconnect(c, true);
    }
    if (reconnecting) AllAsk();
    if (Chance(2)) Shrink();
    if (forcing_) Force();
    // What nobody knows of ends with its lease; who is not the head of the queue finds that out by
    // his heartbeat. Beside that a heartbeat, or the longest backoff, repairs all.
    const Instant calm = now_;
    const Instant decided_by = calm + kLongestLease + kLongestLease / 3 + absl::Milliseconds(20) +
                               (reconnecting ? absl::ZeroDuration() : absl::Seconds(1));
    while (!failed()) {
      if (Settle(/*releasing=*/true)) continue;
      const Instant next = NextTimer();
      if (next.is_infinite()) break;
      if (AnyWaits()) {
        ASSERT_LT(next, decided_by) << "a waiter is left undecided";
      }
      ASSERT_LT(next, calm + absl::Seconds(60));
      Advance(std::max(next - now_, absl::Microseconds(1)));
    }
    if (failed()) return;
    EXPECT_FALSE(AnyWaits()) << "nobody does anything for a waiter";
    for (int c = 0; c < std::ssize(clients_); ++c) {
      for (const PortPtr& port : clients_[c]->table) EXPECT_TRUE(port->machine.idle());
      DropPorts(c);
      EXPECT_EQ(clients_[c]->table.size(), users_[c].free.size())
          << "a machine is kept for nothing";
    }
    // Whose lease must be over is released no more, though the server's clock may be slower.
    now_ = now_ + kLongestLease / 50;
    for (const auto& [grant, owner] : server_.Known(now_)) {
      EXPECT_TRUE(IsGhost(grant, owner)) << "the server still has " << grant;
    }
    // What a client has left behind goes with its lease.
    now_ = now_ + kLongestLease;
    EXPECT_TRUE(server_.Known(now_).empty());
  }
};

TEST(LockMachinePermitsModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(2000, {{"grants", &Schedule::grants}});
}

}  // namespace
}  // namespace redlatch::engine
