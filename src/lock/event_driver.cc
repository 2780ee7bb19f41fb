#include "src/lock/event_driver.h"

#include <algorithm>
#include <utility>

#include "src/base/atomic.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

constexpr absl::Duration kDriversTurn = absl::Milliseconds(1);
// An attempt to subscribe continues the last one.
constexpr absl::Duration kListenFor = absl::Milliseconds(5);
constexpr absl::Duration kListenEach = absl::Milliseconds(10);
// Tasks check their subscriptions so rarely that it takes a tenth of the thread's time at most.
constexpr absl::Duration kCheck = absl::Microseconds(20), kCheckEach = absl::Milliseconds(50);
// A thread spins equally long for its own reply; see ConnectionOptions.
constexpr absl::Duration kAskAgain = absl::Microseconds(80);
constexpr size_t kFew = 2;
// The server works on the first scripts of a turn while the others are written.
constexpr size_t kSendEach = 32;
// No task begins while more scripts than this are in flight: a server that takes 2 ms for each
// answers that many within half of the usual command timeout.
constexpr size_t kMostInFlight = 256;
constexpr uint32_t kWoken = 1;

}  // namespace

EventDriver::EventDriver(ClientCore& core) : core_(core), post_(core.options().post) {}

EventDriver::~EventDriver() = default;

void EventDriver::Start() {
  if (started_ || stopping_) return;
  started_ = base::TryStartThread(thread_, "redlatch-async",
                                  [self = shared_from_this()] { self->Work(); });
  uses_core_ = started_;
}

void EventDriver::Signal() {
  if (std::exchange(awaits_, false)) {
    parker_.Set(kWoken);
  } else {
    changed_.SignalAll();
  }
}

bool EventDriver::Ready() {
  const base::MutexLock lock(mu_);
  Start();
  return started_ || stopping_;
}

void EventDriver::Begin(std::unique_ptr<EventTask>&& task, std::string_view key) {
  EventTask* const its = task.get();
  its->in_flight_ = in_flight_.Of(core_.is_cluster() ? core_.server(key) : "",
                                  [] { return std::make_shared<base::Atomic<size_t>>(0); });
  its->events_ = EventTask::kBegun;
  its->queued_ = true;
  // The driver learns of the task only after this, so that it can also be stopped while it is held
  // back.
  its->on_stop_.emplace(its->stop(), [this, its] {
    if (!core_.in_forked_child()) Push(*its, EventTask::kStopped);
  });
  const base::MutexLock lock(mu_);
  const size_t most = tasks_.size() + inbox_.size();
  if (inbox_.capacity() <= most) inbox_.reserve(2 * most + kFew);
  its->place_ = tasks_.insert(tasks_.end(), its);
  inbox_.push_back(task.release());
  Start();
  Signal();
}

void EventDriver::Push(EventTask& task, unsigned events) noexcept {
  const base::MutexLock lock(mu_);
  PushHeld(task, events);
}

void EventDriver::PushHeld(EventTask& task, unsigned events) {
  task.events_ = static_cast<uint8_t>(task.events_ | events);
  if (std::exchange(task.queued_, true) && !task.held_back_) return;
  TakeBack(task);
  inbox_.push_back(&task);
  Signal();
}

EventReply::EventReply(EventDriver& its_driver, EventTask& task)
    : driver(its_driver.shared_from_this()), task_(&task) {}

void EventReply::Arrive() {
  EventTask* task = nullptr;
  {
    const base::MutexLock lock(driver->mu_);
    arrived_ = true;
    if (count_in_flight != nullptr) --*count_in_flight;
    task = task_;
    task != nullptr ? driver->PushHeld(*task, EventTask::kAnswered) : driver->Signal();
  }
  if (task == nullptr) delete this;
}

void EventReply::Abandon(EventReply* reply) {
  {
    const base::MutexLock lock(reply->driver->mu_);
    reply->task_ = nullptr;
    if (!reply->arrived_) return;
  }
  delete reply;
}

bool EventReply::HasArrived() {
  const base::MutexLock lock(driver->mu_);
  return arrived_;
}

absl::StatusOr<EventReplyPtr> EventDriver::Post(EventTask& task, Entry& entry,
                                                const Request& request) {
  auto reply = std::make_unique<EventReply>(*this, task);
  reply->posted.in_flight.done = [its = reply.get()] {
    --its->driver->in_flight_count_;
    its->Arrive();
  };
  reply->posted.in_flight.unhurried = true;
  reply->count_in_flight = task.in_flight_;
  ++in_flight_count_;
  ++*task.in_flight_;
  absl::Status sent = base::WithMemory(
      [&] { return core_.runner().Post(core_.SubjectOf(entry), request, reply->posted); });
  if (sent.ok()) return EventReplyPtr(reply.release());
  --in_flight_count_;
  --*task.in_flight_;
  return sent;
}

EventReplyPtr EventDriver::RunInBatch(EventTask& task, Entry& entry, const Request& request,
                                      base::Instant until) {
  EventReplyPtr reply(new EventReply(*this, task));
  const auto then = [its = reply.get()](Result& result) {
    its->posted.result = std::move(result);
    its->Arrive();
  };
  base::WithMemory([&] { core_.batches().Post(entry, request, then, until); });
  return reply;
}

void EventDriver::StopObject(const void* object) {
  const base::MutexLock lock(mu_);
  for (EventTask* const task : tasks_) {
    if (task->object() == object) PushHeld(*task, EventTask::kStopped);
  }
}

void EventDriver::Work() {
  thread_id_ = std::this_thread::get_id();
  mu_.Lock();
  while (!stopping_) {
    mu_.Unlock();
    TakeTurn();
    mu_.Lock();
    if (!completions_.empty() || !ended_tasks_.empty()) {
      RunCompletions();
    } else if (!HasMore()) {
      WaitForMore();
    }
  }
  uses_core_ = false;
  changed_.SignalAll();
  RunRemaining();
  ended_ = true;
  changed_.SignalAll();
  mu_.Unlock();
}

void EventDriver::TakeTurn() {
  const base::Instant now = base::Now();
  TakeInbox(now);
  size_t stepped = 0;
  for (const auto& [task, events] : turn_) {
    if (++stepped % kSendEach == 0 && in_flight_count_ > 0)
      core_.server_group().Drain(base::Instant());
    if (events == EventTask::kBegun) --*task->in_flight_;
    if (!task->over_) {
      StepOf(*task, events, now);
    } else {
      const base::MutexLock lock(mu_);
      base::Append(ended_tasks_, task);
    }
  }
  turn_.clear();
  // Sends what was posted, and reads the replies that have come.
  if (in_flight_count_ == 0) return;
  core_.server_group().Drain(std::exchange(stalled_, false) ? base::Now() + kDriversTurn
                                                            : base::Instant());
}

// New tasks are held back while too many scripts are in flight at their server, unless one is
// silent, so that all tasks learn of that. Until it is stepped, a task that was let in counts as a
// script, even if it sends none.
void EventDriver::TakeInbox(base::Instant now) {
  const base::MutexLock lock(mu_);
  base::Reserve(turn_, tasks_.size() + inbox_.size());
  for (auto due = timers_.begin(); due != timers_.end() && due->first <= now; ++due) {
    PushHeld(*due->second, EventTask::kTime);
  }
  const auto take = [&](EventTask* task) {
    if (task->events_ == EventTask::kBegun) ++*task->in_flight_;
    task->queued_ = false;
    turn_.emplace_back(task, std::exchange(task->events_, uint8_t{0}));
  };
  for (auto& [server, tasks] : held_back_) {
    while (!tasks.empty() && HasRoom(*tasks.front())) {
      take(tasks.front());
      TakeBack(*tasks.front());
    }
  }
  std::erase_if(held_back_, [](const auto& each) { return each.second.empty(); });
  for (EventTask* const task : inbox_) {
    if (task->events_ != EventTask::kBegun || HasRoom(*task)) {
      take(task);
      continue;
    }
    task->held_back_ = true;
    base::WithMemory([&] {
      mu_.AssertHeld();
      auto& tasks = held_back_[task->in_flight_.get()];
      task->held_at_ = tasks.insert(tasks.end(), task);
    });
    SetTimer(*task, task->due());
  }
  inbox_.clear();
}

void EventDriver::TakeBack(EventTask& task) {
  if (!std::exchange(task.held_back_, false)) return;
  held_back_.at(task.in_flight_.get()).erase(task.held_at_);
}

bool EventDriver::HasRoom(const EventTask& task) const {
  return stopping_ || silent_ || *task.in_flight_ < kMostInFlight;
}

void EventDriver::SetTimer(EventTask& task, base::Instant due) {
  if (!task.timer_.is_infinite()) timers_.erase({task.timer_, &task});
  task.timer_ = due;
  if (!due.is_infinite()) base::WithMemory([&] { timers_.emplace(due, &task); });
}

void EventDriver::StepOf(EventTask& task, unsigned events, base::Instant now) {
  const bool goes_on = base::WithMemory([&] { return task.Step(events, now); });
  const base::Instant due = goes_on ? task.due() : base::Instant::Infinite();
  if (due != task.timer_) {
    SetTimer(task, due);
  } else if ((events & EventTask::kTime) != 0 && due <= now) {
    SetTimer(task, now + kDriversTurn);  // prevents an endless loop
  }
  if (goes_on) return;
  task.on_stop_.reset();
  const base::MutexLock lock(mu_);
  tasks_.erase(task.place_);
  task.over_ = true;
  if (task.queued_) return;  // TakeTurn() ends it
  base::Append(ended_tasks_, &task);
}

// Keys without a subscription attempt come before those with one.
absl::Status EventDriver::Listen(Entry& entry, base::Instant& again) {
  const base::Instant now = base::Now();
  if (entry.type->redisson()) {  // the tasks wait for different channels
    again = now + std::clamp(timers_.size() * kCheck, kDriversTurn, kCheckEach);
    return core_.Subscribe(entry, now);
  }
  again = listen_again_;
  if (now < listen_again_) return unsubscribed_;
  absl::Status unsubscribed = core_.Subscribe(entry, now + kListenFor);
  if (!absl::IsUnavailable(unsubscribed)) return unsubscribed;
  listen_again_ = base::Now() + kListenEach;
  again = listen_again_ + kListenEach;
  unsubscribed_ = std::move(unsubscribed);
  return unsubscribed_;
}

void EventDriver::WaitForMore() {
  const base::Instant until = timers_.empty() ? base::Instant::Infinite() : timers_.begin()->first;
  if (tasks_.empty()) return changed_.WaitUntil(mu_, until);
  const base::Instant began = base::Now();
  // Several scripts are answered together, later the more there are.
  const bool alone = in_flight_count_ > 0 && in_flight_count_ <= kFew;
  if (alone && way_.way() == base::WayToWait::kEager &&
      SpinForMore(std::min(until, began + kAskAgain))) {
    if (inbox_.size() == 1) way_.Record(base::Now() - began);
    return;
  }
  awaits_ = true;
  parker_.Arm();
  mu_.Unlock();
  base::WithMemory([&] { Await(until); });
  mu_.Lock();
  const absl::Duration took = base::Now() - began;
  if (!std::exchange(awaits_, false) && alone && took < kDriversTurn) way_.Record(took);
}

// Reads replies and messages meanwhile, if no other thread does.
void EventDriver::Await(base::Instant until) {
  std::vector<std::shared_ptr<redis::Connection>> connections;
  core_.server_group().AppendConnections(connections);
  redis::Connection::AwaitAny(connections, parker_, until);
}

bool EventDriver::HasMore() const {
  for (const auto& [server, tasks] : held_back_) {
    if (!tasks.empty() && HasRoom(*tasks.front())) return true;
  }
  return !inbox_.empty() || !completions_.empty() || !ended_tasks_.empty() || stopping_;
}

bool EventDriver::SpinForMore(base::Instant until) {
  do {
    mu_.Unlock();
    core_.server_group().Drain(base::Instant());
    mu_.Lock();
    if (HasMore()) return true;
  } while (base::Now() < until);
  return false;
}

void EventDriver::Complete(Completion completion, Whose whose) noexcept {
  if (core_.in_forked_child()) {
    // The client must not be touched there, and its thread does not exist.
    auto shared = std::make_shared<Completion>(std::move(completion));
    const auto run = [self = shared_from_this(), shared] {
      self->Run(std::move(*shared), Whose::kUsers);
    };
    if (post_) return run();
    return base::RunApart("redlatch-async", run);
  }
  if (!Ready()) return Run(std::move(completion), whose);
  const base::MutexLock lock(mu_);
  base::Append(completions_, std::move(completion), whose);
  Signal();
}

void EventDriver::RunCompletions() {
  auto completions = std::exchange(completions_, {});
  auto ended_tasks = std::exchange(ended_tasks_, {});
  uses_core_ = false;
  changed_.SignalAll();
  mu_.Unlock();
  for (auto& [completion, whose] : completions) Run(std::move(completion), whose);
  completions.clear();
  ended_tasks.clear();  // destroys users' options as well
  mu_.Lock();
  uses_core_ = !stopping_;
}

void EventDriver::Run(Completion completion, Whose whose) {
  if (!post_ || whose == Whose::kOwn) {
    return RunUsersCode("a callback", [&] { std::move(completion)(); });
  }
  // The executor may copy the function, but runs it once.
  auto shared = base::WithMemory([] { return std::make_shared<Completion>(); });
  *shared = std::move(completion);
  std::function<void()> run = base::WithMemory([&]() -> std::function<void()> {
    return [shared] {
      Completion its = std::exchange(*shared, nullptr);
      if (its) RunUsersCode("a callback", [&] { std::move(its)(); });
    };
  });
  shared.reset();  // if the executor drops the function, the completion goes with it
  RunUsersCode("ClientOptions::post", [&] { post_(std::move(run)); });
}

// ---- The end. The thread that stops the driver takes over its tasks. It may be the driver's own
// thread, in a completion.

namespace {

constexpr absl::Duration kStopTurn = absl::Milliseconds(1);
constexpr absl::Duration kCompletionsTimeout = absl::Seconds(1);

}  // namespace

void EventDriver::Stop(base::Instant until) {
  mu_.Lock();
  stopping_ = settling_ = true;
  Signal();
  while (uses_core_) changed_.Wait(mu_);
  mu_.Unlock();
  Settle(until);
  mu_.Lock();
  settling_ = false;
  changed_.SignalAll();
  if (!started_) {  // no thread could be started, or none was needed
    RunRemaining();
    ended_ = true;
  }
  const base::Instant end = base::Now() + kCompletionsTimeout;
  while (!ended_ && !OnItsThread() && base::Now() < end) changed_.WaitUntil(mu_, end);
  if (!ended_ && thread_.joinable()) thread_.detach();
  std::thread thread = std::move(thread_);
  mu_.Unlock();
  base::Join(thread);
}

// The core may be gone.
void EventDriver::RunRemaining() {
  for (;;) {
    if (!completions_.empty() || !ended_tasks_.empty()) {
      RunCompletions();
    } else if (settling_) {
      changed_.Wait(mu_);
    } else {
      return;
    }
  }
}

void EventDriver::StepAll(unsigned events) {
  std::vector<EventTask*> all;
  {
    const base::MutexLock lock(mu_);
    base::Reserve(all, tasks_.size());
    all.assign(tasks_.begin(), tasks_.end());
  }
  for (EventTask* const task : all) StepOf(*task, events, base::Now());
}

void EventDriver::Settle(base::Instant until) {
  TakeTurn();
  StepAll(EventTask::kEnding);
  for (;;) {
    TakeTurn();
    {
      const base::MutexLock lock(mu_);
      if (tasks_.empty() || until <= base::Now()) break;
      if (!inbox_.empty()) continue;
    }
    // If another thread reads, it brings the replies.
    if (in_flight_count_ == 0 || !core_.server_group().Drain(base::Now() + kStopTurn)) {
      base::Parker().ParkUntil(base::Now() + kStopTurn);
    }
  }
  StepAll(EventTask::kOver);
  TakeTurn();  // tasks that are over and still in the inbox
}

}  // namespace redlatch::internal
