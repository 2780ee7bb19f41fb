#ifndef REDLATCH_SRC_LOCK_EVENT_DRIVER_H_
#define REDLATCH_SRC_LOCK_EVENT_DRIVER_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/wake_event.h"
#include "src/base/way_to_wait.h"
#include "src/lock/entry.h"
#include "src/lock/event_task.h"
#include "src/lock/state/request.h"
#include "src/lock/weak_map.h"

namespace redlatch::internal {

class EventScript;
class ClientCore;
struct AbandonEventReply;
struct EventReply;

// Drives all operations that wait without a thread, on one thread that starts when it is first
// needed. It sends all due scripts in one write, reads the replies if no other thread does, and
// runs completions where the user wants them.
//
// The thread alternates between tasks, which use the core, and completions, which do not: a user's
// code may destroy the core. Thread-safe.
class EventDriver : public std::enable_shared_from_this<EventDriver> {
 public:
  // Calls a user's code with a result. If it is destroyed without being called, a hold in it is
  // released.
  using Completion = absl::AnyInvocable<void() &&>;

  explicit EventDriver(ClientCore& core);
  ~EventDriver();
  EventDriver(const EventDriver&) = delete;
  EventDriver& operator=(const EventDriver&) = delete;

  // Ends all tasks and stops using the core. Waits until `until` for releases in flight, and one
  // second for running completions. May be called by a completion.
  void Stop(base::Instant until);

  // Starts the thread if needed. Returns false if it cannot be started; then no task would begin.
  bool Ready();
  // `key` is the key of the task's requests.
  void Begin(std::unique_ptr<EventTask> task, std::string_view key = {}) noexcept;
  // Runs the completion where the user said, or on the driver's thread if it is the library's own.
  // Runs it at once only if no thread can be started.
  enum class Whose : uint8_t { kUsers, kOwn };
  void Complete(Completion completion, Whose whose = Whose::kUsers) noexcept;
  // Ends the tasks that the object began.
  void StopObject(const void* object);
  // Lets the driver's thread read replies that no other thread reads.
  void ReadReplies();
  // Returns true on the driver's thread.
  bool OnItsThread() const { return thread_id_.load() == std::this_thread::get_id(); }

  // Returns true if a thread exists that can take over waiting.
  bool started() const { return thread_id_.load() != std::thread::id(); }

  // ---- For tasks.

  void Push(EventTask& task, unsigned events) noexcept;
  // Lets a thread of the client run the request: it needs several servers, a cluster redirects it,
  // or it is not part of a grant.
  std::unique_ptr<EventReply, AbandonEventReply> RunInBatch(EventTask& task, Entry& entry,
                                                            const Request& request,
                                                            base::Instant until);
  ClientCore& core() { return core_; }
  // Ensures that messages about the key reach this client, in a bounded time. On failure, `again`
  // says when to retry.
  absl::Status Listen(std::string_view key, base::Instant& again);

 private:
  friend class EventScript;
  friend struct EventReply;

  void Work();
  void PushHeld(EventTask& task, unsigned events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Signal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Tasks.
  void TakeTurn();
  void TakeInbox(base::Instant now) ABSL_LOCKS_EXCLUDED(mu_);
  void TakeBack(EventTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom(const EventTask& task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetTimer(EventTask& task, base::Instant due);
  void StepOf(EventTask& task, unsigned events, base::Instant now);
  void StepAll(unsigned events);
  void Settle(base::Instant until);
  void WaitForMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Spins before it sleeps, if that has paid lately. Returns true if there is work.
  bool SpinForMore(base::Instant until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Poll(base::Instant until) ABSL_LOCKS_EXCLUDED(mu_);
  // Ensures a connection to the key's server, in a bounded time, since all other tasks wait
  // meanwhile.
  absl::Status Reach(std::string_view key, base::Instant now);

  // Completions.
  void RunCompletions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunRemaining() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Completion completion, Whose whose);

  ClientCore& core_;
  const std::function<void(std::function<void()>)> post_;

  base::Mutex mu_;
  base::CondVar changed_;
  EventTask* first_ ABSL_GUARDED_BY(mu_) = nullptr;  // of all tasks
  std::deque<EventTask*> inbox_ ABSL_GUARDED_BY(mu_);
  // Tasks that wait until fewer scripts are in flight at their server, by server.
  std::map<const void*, std::list<EventTask*>> held_back_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<EventTask>> ended_tasks_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<Completion, Whose>> completions_ ABSL_GUARDED_BY(mu_);
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool polling_ ABSL_GUARDED_BY(mu_) = false;
  bool completing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool settling_ ABSL_GUARDED_BY(mu_) = false;  // Stop() waits for the releases
  bool settled_ ABSL_GUARDED_BY(mu_) = false;   // its thread no longer uses the core
  bool ended_ ABSL_GUARDED_BY(mu_) = false;     // the thread has ended
  base::Instant stop_by_ ABSL_GUARDED_BY(mu_);
  base::WakeEvent wake_ ABSL_GUARDED_BY(mu_);
  std::atomic<std::thread::id> thread_id_{};
  std::atomic<size_t> in_flight_count_{0};  // scripts in flight
  WeakMap<std::atomic<size_t>> in_flight_;  // by server

  // Used only by the thread that takes a turn at tasks.
  std::vector<std::pair<EventTask*, unsigned>> turn_;
  std::set<std::pair<base::Instant, EventTask*>> timers_;
  base::Instant reach_again_;  // the earliest time of the next attempt
  absl::Status unreachable_;
  base::Instant listen_again_;
  absl::Status unsubscribed_;
  bool stalled_ = false;  // a script went unanswered
  bool silent_ = false;   // no script was answered since
  base::WayToWait way_{{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_EVENT_DRIVER_H_
