#ifndef REDLATCH_SRC_LOCK_EVENT_DRIVER_H_
#define REDLATCH_SRC_LOCK_EVENT_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/way_to_wait.h"
#include "src/lock/entry.h"
#include "src/lock/request_runner.h"
#include "src/lock/state/request.h"
#include "src/lock/weak_map.h"

namespace redlatch::internal {

class ClientCore;
class EventDriver;

// An operation that waits without a thread. An EventDriver owns it and tells it what happens.
class EventTask {
 public:
  enum Event : uint8_t {
    kBegun = 1,
    kWoken = 2,    // by its lock state
    kStopped = 4,  // its stop token fired, or its object is gone
    kAnswered = 8,
    kTime = 16,    // it is due()
    kEnding = 32,  // the client ends: what can end must end now
    kOver = 64,    // the last call
  };

  EventTask() = default;
  EventTask(const EventTask&) = delete;
  EventTask& operator=(const EventTask&) = delete;
  virtual ~EventTask() = default;

  // The lock object that began it, or null.
  virtual const void* object() const { return nullptr; }
  // Ends the task when it fires.
  virtual std::stop_token stop() const { return {}; }

 protected:
  // Called with all events since the last call; never concurrently. Returns false when the task is
  // over; the driver destroys it a little later. It must return false at kOver.
  virtual bool Step(unsigned events, base::Instant now) = 0;
  // When Step() is due if no event happens before. Called after each Step().
  virtual base::Instant due() const = 0;

 private:
  friend class EventDriver;

  // Used by the driver only.
  std::list<EventTask*>::iterator place_;  // among all tasks
  base::Instant timer_ = base::Instant::Infinite();
  uint8_t events_ = 0;
  bool queued_ = false;
  bool over_ = false;
  bool held_back_ = false;
  std::list<EventTask*>::iterator held_at_;  // if it is held back
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::shared_ptr<base::Atomic<size_t>> in_flight_;  // at its server
};

// A request in flight for a task. It may outlive the task.
struct EventReply {
  EventReply(EventDriver& driver, EventTask& task);

  // Called by the thread that has read the reply.
  void Arrive();
  // Called by the driver when its task no longer needs the reply. Destroys it, now or when it
  // arrives.
  static void Abandon(EventReply* reply);
  bool HasArrived();

  const std::shared_ptr<EventDriver> driver;
  RequestInFlight posted;  // has a result if another thread ran the request
  std::shared_ptr<base::Atomic<size_t>> count_in_flight;  // includes this one until it arrives

 private:
  EventTask* task_;  // guarded by the driver's mutex, as is `arrived_`
  bool arrived_ = false;
};

struct AbandonEventReply {
  void operator()(EventReply* reply) const { EventReply::Abandon(reply); }
};
using EventReplyPtr = std::unique_ptr<EventReply, AbandonEventReply>;

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
  // `key`: of the task's requests. If it throws std::bad_alloc, the task is still the caller's.
  void Begin(std::unique_ptr<EventTask>&& task, std::string_view key = {});
  // Runs the completion where the user said, or on the driver's thread if it is the library's own.
  // Runs it at once only if no thread can be started.
  enum class Whose : uint8_t { kUsers, kOwn };
  void Complete(Completion completion, Whose whose = Whose::kUsers) noexcept;
  // Ends the tasks that the object began.
  void StopObject(const void* object);
  // Returns true on the driver's thread.
  bool OnItsThread() const { return thread_id_.load() == std::this_thread::get_id(); }

  // Returns true if a thread exists that can take over waiting.
  bool started() const { return thread_id_.load() != std::thread::id(); }

  // ---- For tasks.

  void Push(EventTask& task, unsigned events) noexcept;
  // Sends the request over a connection that is there.
  absl::StatusOr<EventReplyPtr> Post(EventTask& task, Entry& entry, const Request& request);
  // Lets another thread of the client run the request, if it needs several servers, if there is no
  // connection, or if the server has refused it for now.
  EventReplyPtr RunInBatch(EventTask& task, Entry& entry, const Request& request,
                           base::Instant until);
  // A reply came, or did not come in time.
  void NoteReply(bool in_time) {
    silent_ = !in_time;
    stalled_ = stalled_ || !in_time;
  }
  ClientCore& core() { return core_; }
  // Ensures that messages about the key reach this client, in a bounded time. On failure, `again`
  // says when to retry.
  absl::Status Listen(Entry& entry, base::Instant& again);

 private:
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
  void Await(base::Instant until) ABSL_LOCKS_EXCLUDED(mu_);

  // Completions.
  void RunCompletions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunRemaining() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Completion completion, Whose whose);

  ClientCore& core_;
  const std::function<void(std::function<void()>)> post_;

  base::Mutex mu_;
  base::CondVar changed_;
  std::list<EventTask*> tasks_ ABSL_GUARDED_BY(mu_);  // all, in the order in which they began
  // Has room for all, and for those that are over and still in it.
  std::vector<EventTask*> inbox_ ABSL_GUARDED_BY(mu_);
  // Tasks that wait until fewer scripts are in flight at their server, by server.
  std::map<const void*, std::list<EventTask*>> held_back_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<EventTask>> ended_tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::pair<Completion, Whose>> completions_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool awaits_ ABSL_GUARDED_BY(mu_) = false;  // its thread sleeps on `parker_`
  base::Parker parker_;
  bool uses_core_ ABSL_GUARDED_BY(mu_) = false;  // its thread runs, except in completions
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool settling_ ABSL_GUARDED_BY(mu_) = false;  // Stop() waits for the releases
  bool ended_ ABSL_GUARDED_BY(mu_) = false;     // the thread has ended
  base::Atomic<std::thread::id> thread_id_{};
  base::Atomic<size_t> in_flight_count_{0};  // scripts in flight
  WeakMap<base::Atomic<size_t>> in_flight_;  // by server

  // Used only by the thread that takes a turn at tasks.
  std::vector<std::pair<EventTask*, unsigned>> turn_;
  std::set<std::pair<base::Instant, EventTask*>> timers_;
  base::Instant listen_again_;
  absl::Status unsubscribed_;
  bool stalled_ = false;  // a script went unanswered
  bool silent_ = false;   // no script was answered since
  base::WayToWait way_{{.probe = 8, .interval = 64, .weight = 1.0 / 16}};
};

// Runs a completion of the library at a given time, or when the client ends before.
class EventTimer final : public EventTask {
 public:
  EventTimer(EventDriver& driver, base::Instant at, EventDriver::Completion completion)
      : driver_(driver), at_(at), completion_(std::move(completion)) {}

 private:
  bool Step(unsigned events, base::Instant now) override {
    if ((events & (kEnding | kOver)) == 0 && now < at_) return true;
    driver_.Complete(std::move(completion_), EventDriver::Whose::kOwn);
    return false;
  }
  base::Instant due() const override { return at_; }

  EventDriver& driver_;
  const base::Instant at_;
  EventDriver::Completion completion_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_EVENT_DRIVER_H_
