#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_MODEL_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_MODEL_H_

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/unit/engine/machine/permits_world.h"

namespace redlatch::engine {

// What the threads of that world do.
class PermitsModel : public PermitsWorld {
 public:
  using PermitsWorld::PermitsWorld;

 protected:
  void Acquire(int c, Slot& slot) {
    if (slot.port != nullptr) return;
    User& user = users_[c];
    slot = {.port = Borrow(c)};
    slot.most = std::max(user.capacity, server_.capacity.value_or(0));
    slot.permits = 1;
    if (Chance(2)) slot.permits += static_cast<uint32_t>(Pick(Chance(8) ? kMostPermits : 2));
    Waiter& waiter = user.waiters.emplace_back();
    slot.waiter = &waiter;
    waiter.thread = ThreadOf(*slot.port);
    waiter.object = &user.slots[Pick(2)];
    Ask(waiter);
    waiter.terms.permits = slot.permits;
    waiter.terms.capacity = user.capacity;
    Say(c, "/", slot.port->caller.machine, " wants ", slot.permits, ", patience ",
        static_cast<int>(waiter.patience));
    Enter(c, slot);
  }

  // As Compete() does.
  void Enter(int c, Slot& slot) {
    const PortPtr port = slot.port;
    Effects effects;
    port->lock().Acquire(*slot.waiter, Local(c), effects);
    Park(c, slot, effects);
  }
  void Park(int c, Slot& slot, Effects& effects) {
    const PortPtr port = slot.port;
    slot.waiter->parked = slot.waiter->state == Waiter::State::kWaiting;
    if (!slot.waiter->parked) Decided(c, slot);
    Absorb(c, *port, effects);
  }

  // The thread sees its outcome.
  void Decided(int c, Slot& slot) {
    const Waiter& waiter = *slot.waiter;
    Say(c, "/", slot.port->caller.machine, " decided: ", static_cast<int>(waiter.state), " ",
        waiter.failure.ToString());
    slot.waiter = nullptr;
    slot.to_go_on = false;
    switch (waiter.state) {
      case Waiter::State::kGranted:
        return Has(c, slot, waiter);
      case Waiter::State::kBusy:
        EXPECT_NE(waiter.patience, Patience::kEndless);
        break;
      case Waiter::State::kStopped:
        EXPECT_TRUE(slot.stopped);
        break;
      case Waiter::State::kFailed:
        EXPECT_TRUE(absl::IsUnavailable(waiter.failure) ||
                    (absl::IsFailedPrecondition(waiter.failure) &&
                     server_.refused.contains(slot.port->grant)))
            << waiter.failure;
        break;
      default:
        ADD_FAILURE() << static_cast<int>(waiter.state);
    }
    Return(c, std::exchange(slot.port, nullptr));
  }
  void Has(int c, Slot& slot, const Waiter& waiter) {
    LockMachine& machine = slot.port->lock();
    EXPECT_TRUE(holds_.insert(waiter.hold).second) << "granted twice";
    EXPECT_EQ(waiter.token, FencingToken());
    EXPECT_LE(slot.permits, slot.most);
    ++grants_;
    slot.hold = waiter.hold;
    slot.grant = slot.port->grant;
    slot.deadline = machine.Deadline(waiter.hold);
    slot.lost = false;
    EXPECT_TRUE(machine.Valid(waiter.hold, Local(c)));
    EXPECT_EQ(machine.OfThread(waiter.thread).grant, slot.grant);
    EXPECT_EQ(granted_[slot.grant].permits, slot.permits);
  }

  // A thread that was woken, or is `early`.
  void GoOn(int c, Slot& slot, bool early) {
    if (slot.waiter == nullptr || (!slot.to_go_on && !early)) return;
    slot.to_go_on = false;
    const PortPtr port = slot.port;
    Waiter& waiter = *slot.waiter;
    Say(c, "/", port->caller.machine, " looks");
    Effects effects;
    waiter.parked = false;
    if (waiter.state == Waiter::State::kWaiting) {
      port->lock().Poked(waiter, Local(c), effects);
    } else if (waiter.state == Waiter::State::kGranted &&
               !port->lock().Valid(waiter.hold, Local(c))) {
      Say(c, "/", port->caller.machine, " comes too late");
      port->lock().Expire(Local(c), effects);
      waiter.state = Waiter::State::kWaiting;
      port->lock().Acquire(waiter, Local(c), effects);
    }
    Park(c, slot, effects);
  }

  void GiveUp(int c, Slot& slot) {
    if (slot.waiter == nullptr) return;
    const PortPtr port = slot.port;
    Say(c, "/", port->caller.machine, " gives up");
    Effects effects;
    const bool stop = slot.waiter->patience == Patience::kEndless;
    slot.stopped |= stop;
    slot.waiter->parked = false;
    port->lock().GiveUp(*slot.waiter, stop ? Waiter::State::kStopped : Waiter::State::kBusy,
                        Local(c), effects);
    if (slot.waiter->state == Waiter::State::kGranted) {
      slot.to_go_on = true;  // it stands
      return Absorb(c, *port, effects);
    }
    Decided(c, slot);
    Absorb(c, *port, effects);
  }

  // A semaphore object goes.
  void StopAll(int c) {
    User& user = users_[c];
    const void* const object = &user.slots[Pick(2)];
    Say(c, " stops all");
    for (Slot& slot : user.slots) {
      if (slot.waiter == nullptr) continue;
      const PortPtr port = slot.port;
      const bool waits = slot.waiter->state == Waiter::State::kWaiting;
      slot.stopped |= slot.waiter->object == object;
      Effects effects;
      port->lock().StopAll(object, Local(c), effects);
      EXPECT_EQ(waits && slot.waiter->object == object,
                waits && slot.waiter->state != Waiter::State::kWaiting);
      Absorb(c, *port, effects);
    }
  }

  static bool IsHeld(const Slot& slot) { return slot.port != nullptr && slot.waiter == nullptr; }
  void Release(int c, Slot& slot) {
    if (!IsHeld(slot)) return;
    const PortPtr port = slot.port;
    const Slot was = std::exchange(slot, {});
    Effects effects;
    const Released released = port->lock().Release(was.hold, Local(c), effects);
    Say(c, "/", port->caller.machine, " releases ", was.grant, ": ",
        static_cast<int>(released.kind));
    if (was.lost || !effects.losses.empty()) {
      EXPECT_EQ(released.kind, Released::Kind::kLost);
      Return(c, port);
    } else {
      EXPECT_EQ(released.kind, Released::Kind::kUnderWay);
      users_[c].endings.push_back({port, was.hold, was.grant, was.deadline});
      if (Chance(2)) {  // the thread itself
        const std::optional<Send> send = port->lock().NextSendOf(was.hold, Local(c));
        EXPECT_TRUE(send.has_value());
        if (send) SendIt(c, port, *send);
      }
    }
    Absorb(c, *port, effects);
  }
  void ReleaseAgain(int c) {
    std::vector<Ending>& endings = users_[c].endings;
    if (endings.empty()) return;
    const Ending ending = endings.front();
    Effects effects;
    const Released released = ending.port->lock().Release(ending.hold, Local(c), effects);
    if (released.kind != Released::Kind::kUnderWay) {
      endings.erase(endings.begin());
      Over(c, ending, released);
      Return(c, ending.port);
    }
    Absorb(c, *ending.port, effects);
  }

  // A renewal by hand, of a manual hold.
  void Extend(int c, Slot& slot) {
    if (!IsHeld(slot)) return;
    const std::optional<Send> send =
        slot.port->lock().Extend(slot.hold, absl::Milliseconds(500), Local(c));
    if (send) SendIt(c, slot.port, *send);
  }
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_MODEL_H_
