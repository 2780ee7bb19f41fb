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

// Watches the local deadlines of all holds, and runs the user's code that reacts to losses: stop
// tokens first, then callbacks, each in the order in which they came.
//
// One thread leads: it waits for deadlines and for code to run. Before it runs code, it hands the
// lead to another thread, so that a user's code never delays a deadline. If a stop token takes
// longer than 1 ms, or a callback longer than 10 ms, the rest goes on in another thread, up to 64
// tokens and eight callbacks at once. Threads start when they are needed; the leader and one spare
// thread remain. Thread-safe.
class LossNotifier {
 public:
  explicit LossNotifier(ClientCore& core);
  // Ends the threads. Waits one second for running code; then it leaves the code to itself.
  void Stop();
  LossNotifier(const LossNotifier&) = delete;
  LossNotifier& operator=(const LossNotifier&) = delete;

  // Starts the thread if needed. Returns false if it cannot be started.
  bool Ready();
  void Watch(Entry& entry, base::Instant moment);
  void Remove(Entry& entry);
  // Reserves memory for the timers of that many entries.
  void MakeRoom(size_t entries);

  // A notice comes after callbacks, and is dropped if they do not keep up.
  enum class Urgency : uint8_t { kStopToken, kCallback, kNotice };
  void Post(Urgency urgency, std::function<void()> code);

 private:
  struct State;  // outlives the notifier if a user's code does not return
  static void Work(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_LOSS_NOTIFIER_H_
