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
#include "src/lock/async_task.h"
#include "src/lock/entry.h"
#include "src/lock/state/request.h"
#include "src/lock/weak_map.h"

namespace redlatch::internal {

class AsyncScript;
class ClientCore;
struct AbandonReply;
struct AsyncReply;

// All that a client waits for without a thread of its own, and the one thread that drives it: it
// sends their scripts, all that are due in one write, reads the answers where no other thread does,
// and runs their completions where the user wants them. It starts when it is first needed.
//
// It takes turns at two things: at tasks, with the core, and at completions, with nothing of the
// core's, which may be destroyed by what a user's code does there. Thread-safe.
class EventDriver : public std::enable_shared_from_this<EventDriver> {
 public:
  // What a user's code is called by, and all that it is given. Where it is destroyed without having
  // been called, that goes back by itself.
  using Completion = absl::AnyInvocable<void() &&>;

  explicit EventDriver(ClientCore& core);
  ~EventDriver();
  EventDriver(const EventDriver&) = delete;
  EventDriver& operator=(const EventDriver&) = delete;

  // Ends all tasks, and from here on leaves the core alone; waits until `until` for what is being
  // released, and a second for completions that run. They may be what calls this.
  void Stop(base::Instant until);

  // Starts the thread if needed. False: it cannot be started, and a task would not begin.
  bool Ready();
  // `key`: of its requests.
  void Begin(std::unique_ptr<AsyncTask> task, std::string_view key = {}) noexcept;
  // Runs it where the user said or, if it is the library's own, on the driver's thread; at once
  // only if no thread can be started.
  enum class Whose : uint8_t { kUsers, kOwn };
  void Complete(Completion completion, Whose whose = Whose::kUsers) noexcept;
  // The tasks that were begun by that object end.
  void StopObject(const void* object);
  // Answers are to come, and nobody reads them.
  void Nudge();
  // The calling thread is this one's.
  bool OnItsThread() const { return thread_id_.load() == std::this_thread::get_id(); }

  // There is a thread, so that it can be left to it what would be waited for.
  bool started() const { return thread_id_.load() != std::thread::id(); }

  // ---- For tasks.

  void Push(AsyncTask& task, unsigned events) noexcept;
  // A thread of the client runs it: it needs the votes of several servers, a cluster redirects it,
  // or it is no part of a grant.
  std::unique_ptr<AsyncReply, AbandonReply> RunInBatch(AsyncTask& task, Entry& entry,
                                                       const Request& request, base::Instant until);
  ClientCore& core() { return core_; }
  // Sees to it that messages about the key reach this client, in such a moment too; else when to
  // try again.
  absl::Status Listen(std::string_view key, base::Instant& again);

 private:
  friend class AsyncScript;
  friend struct AsyncReply;

  void Work();
  void PushHeld(AsyncTask& task, unsigned events) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Signal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Start() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Tasks.
  void TakeTurn();
  void TakeInbox(base::Instant now) ABSL_LOCKS_EXCLUDED(mu_);
  void TakeBack(AsyncTask& task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasRoom(const AsyncTask& task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SetTimer(AsyncTask& task, base::Instant due);
  void StepOf(AsyncTask& task, unsigned events, base::Instant now);
  void StepAll(unsigned events);
  void Settle(base::Instant until);
  void WaitForMore() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Looks for the answer again and again before it sleeps, where that has paid lately. True: there
  // is something to be done.
  bool LookForMore(base::Instant until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool HasMore() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Poll(base::Instant until) ABSL_LOCKS_EXCLUDED(mu_);
  // Sees to a connection to the server that has the key, in a moment that is bounded: so long as
  // that takes, nobody else is served.
  absl::Status Reach(std::string_view key, base::Instant now);

  // Completions.
  void RunCompletions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunRest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Completion completion, Whose whose);

  ClientCore& core_;
  const std::function<void(std::function<void()>)> post_;

  base::Mutex mu_;
  base::CondVar changed_;
  AsyncTask* first_ ABSL_GUARDED_BY(mu_) = nullptr;  // of all tasks
  std::deque<AsyncTask*> inbox_ ABSL_GUARDED_BY(mu_);
  // Tasks that wait until fewer scripts are in flight at their server, by server.
  std::map<const void*, std::list<AsyncTask*>> held_back_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<AsyncTask>> buried_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<Completion, Whose>> completions_ ABSL_GUARDED_BY(mu_);
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool polling_ ABSL_GUARDED_BY(mu_) = false;
  bool completing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool settling_ ABSL_GUARDED_BY(mu_) = false;  // by whoever stops it
  bool settled_ ABSL_GUARDED_BY(mu_) = false;   // its thread leaves the core alone
  bool ended_ ABSL_GUARDED_BY(mu_) = false;     // and everything else
  base::Instant stop_by_ ABSL_GUARDED_BY(mu_);
  base::WakeEvent wake_ ABSL_GUARDED_BY(mu_);
  std::atomic<std::thread::id> thread_id_{};
  std::atomic<size_t> in_flight_count_{0};  // posted, on their way
  WeakMap<std::atomic<size_t>> in_flight_;  // by server

  // Of whoever takes turns at tasks.
  std::vector<std::pair<AsyncTask*, unsigned>> turn_;
  std::set<std::pair<base::Instant, AsyncTask*>> timers_;
  base::Instant reach_again_;  // not before then
  absl::Status unreachable_;
  base::Instant listen_again_;
  absl::Status unsubscribed_;
  bool stalled_ = false;  // a script went unanswered
  bool silent_ = false;   // and none was answered since
  base::WayToWait way_{{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_EVENT_DRIVER_H_
