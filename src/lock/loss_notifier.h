#ifndef REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_
#define REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/timer_heap.h"

namespace redlatch::internal {

class ClientCore;

// Watches over the local deadlines of all holds, and runs the user's code that hears of losses:
// stop tokens, and callbacks after all of them, each kind in the order in which they came.
//
// One thread leads: it waits for deadlines and for something to run. Before it runs it leaves the
// lead to another thread, so that no deadline is ever late for what a user's code does. A stop
// token has 1 ms to itself, a callback 10 ms; if it takes longer, its thread is left to it and the
// rest goes on beside it, up to 64 tokens and eight callbacks at once. Threads start when they are
// needed; one that leads and one that stands by remain. Thread-safe.
class LossNotifier {
 public:
  explicit LossNotifier(ClientCore& core);
  // Ends the threads. Waits a second for what runs; what still runs then is left to itself.
  void Stop();
  LossNotifier(const LossNotifier&) = delete;
  LossNotifier& operator=(const LossNotifier&) = delete;

  // Starts the thread. False: it cannot be started.
  bool Ready();
  void Watch(Entry& entry, base::Instant moment);
  void Remove(Entry& entry);
  // For the timers of so many entries.
  void MakeRoom(size_t entries);

  // A notice stands behind callbacks, and is dropped where they do not keep up.
  enum class Urgency : uint8_t { kStopToken, kCallback, kNotice };
  void Post(Urgency urgency, std::function<void()> code);

 private:
  struct State;  // outlives the notifier where a user's code does not return
  static void Work(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_
