#ifndef REDLATCH_SRC_LOCK_EVENT_TASK_H_
#define REDLATCH_SRC_LOCK_EVENT_TASK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>

#include "src/base/clock.h"

namespace redlatch::internal {

class EventDriver;

// An operation that waits without a thread. An EventDriver owns it and tells it what happens.
class EventTask {
 public:
  enum Event : uint8_t {
    kBegun = 1,
    kWoken = 2,    // by its lock state
    kThrough = 4,  // together with kWoken: the outcome is there
    kStopped = 8,  // its stop token fired, or its object is gone
    kAnswered = 16,
    kTime = 32,    // it is due()
    kEnding = 64,  // the client ends: what can end must end now
    kOver = 128,   // the last call
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
  friend class EventScript;

  // Used by the driver only.
  EventTask* previous_ = nullptr;
  EventTask* next_ = nullptr;
  base::Instant timer_ = base::Instant::Infinite();
  uint8_t events_ = 0;
  bool queued_ = false;
  bool over_ = false;
  bool held_back_ = false;
  std::list<EventTask*>::iterator held_at_;  // if it is held back
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::shared_ptr<std::atomic<size_t>> in_flight_;  // at its server
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_EVENT_TASK_H_
