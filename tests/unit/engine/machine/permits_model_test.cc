// Permits of several clients against a naive server, through a hostile network, in virtual time.
// REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include "tests/unit/engine/machine/permits_model.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

// What happens when, by chance.
class Schedule : public PermitsModel {
 public:
  using PermitsModel::PermitsModel;

 private:
  void Step() override {
    const int c = Pick(clients());
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
        return Pass();
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

  bool GoOnInCalm(int c) override {
    bool progress = false;
    Expire(c);
    for (Slot& slot : users_[c].slots) {
      if (slot.to_go_on) {
        GoOn(c, slot, false);
        progress = true;
      }
      if (releasing_ && IsHeld(slot) && !failed()) {
        Release(c, slot);
        progress = true;
      }
    }
    return progress;
  }

  // Who has reconnected asks at once, but where a grant came too late to be used; and once more,
  // 1 ms later, if it was refused while its client was taking something back.
  void AllAsk() {
    SettleAll();
    Advance(absl::Milliseconds(2));
    SettleAll();
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
    SettleAll();
    server_.told.clear();
    SetCapacity(1 + static_cast<uint32_t>(Pick(2)));
    SettleAll();
    for (const User& user : users_) {
      for (const Slot& slot : user.slots) {
        EXPECT_FALSE(slot.waiter != nullptr && server_.told.contains(slot.port->grant))
            << slot.port->grant << " waits for more than there is";
      }
    }
  }

  // Whoever loses his permits by force hears it at once.
  void Force() {
    SettleAll();
    std::set<GrantId> held;
    for (const auto& [grant, client] : server_.Known(now_)) {
      if (server_.Has(grant, now_)) held.insert(grant);
    }
    ForceRelease();
    SettleAll();
    for (const User& user : users_) {
      for (const Slot& slot : user.slots) {
        const bool knows = slot.lost || server_.Has(slot.grant, now_);  // or has it anew
        EXPECT_TRUE(!IsHeld(slot) || !held.contains(slot.grant) || knows)
            << slot.grant << " was forced, and its client does not know";
      }
    }
  }

  void CalmDown() override {
    Calm();
    AllLate();
    const bool reconnecting = Chance(2);
    ReconnectAll(reconnecting);
    if (reconnecting) AllAsk();
    if (Chance(2)) Shrink();
    if (forcing_) Force();
    // What nobody knows of ends with its lease; who is not the head of the queue finds that out by
    // his heartbeat. Beside that a heartbeat, or the longest backoff, repairs all.
    const Instant decided_by = now_ + kLongestLease + kLongestLease / 3 + absl::Milliseconds(20) +
                               (reconnecting ? absl::ZeroDuration() : absl::Seconds(1));
    releasing_ = true;
    RunOut([&] { return decided_by; });
    if (failed()) return;
    for (int c = 0; c < clients(); ++c) {
      DropPorts(c);
      EXPECT_EQ(clients_[c]->table.size(), users_[c].free.size())
          << "a machine is kept for nothing";
    }
    // Whose lease must be over is released no more, though the server's clock may be slower.
    now_ = now_ + kLongestLease / 50;
    ExpectOnlyGhosts();
    // What a client has left behind goes with its lease.
    now_ = now_ + kLongestLease;
    EXPECT_TRUE(server_.Known(now_).empty());
  }

  bool releasing_ = false;  // in calm
};

TEST(LockMachinePermitsModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(10000, {{"grants", &Schedule::grants}});
}

}  // namespace
}  // namespace redlatch::engine
