#ifndef REDLATCH_SRC_LOCK_ASYNC_TASK_H_
#define REDLATCH_SRC_LOCK_ASYNC_TASK_H_

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

// Something that waits without a thread: an AsyncDriver has it, and tells it what happens.
class AsyncTask {
 public:
  enum Event : uint8_t {
    kBegun = 1,
    kWoken = 2,    // by its machine
    kThrough = 4,  // with that, the outcome is there
    kStopped = 8,  // its stop token fired, or its object is gone
    kAnswered = 16,
    kTime = 32,    // it is due()
    kEnding = 64,  // the client goes: what can end, ends now
    kOver = 128,   // and this is the last moment
  };

  AsyncTask() = default;
  AsyncTask(const AsyncTask&) = delete;
  AsyncTask& operator=(const AsyncTask&) = delete;
  virtual ~AsyncTask() = default;

  // By which it was begun; null: none.
  virtual const void* object() const { return nullptr; }
  // What ends it, from Begin() on.
  virtual std::stop_token stop() const { return {}; }

 protected:
  // One call at a time, with all that has happened since the last. False: it is over, nothing knows
  // of it any more, and it is destroyed a little later. It must be by kOver.
  virtual bool Step(unsigned events, base::Instant now) = 0;
  // When it is to be looked at, if nothing happens before; asked after Step().
  virtual base::Instant due() const = 0;

 private:
  friend class EventDriver;
  friend class AsyncScript;

  // The driver's.
  AsyncTask* previous_ = nullptr;
  AsyncTask* next_ = nullptr;
  base::Instant timer_ = base::Instant::Infinite();
  uint8_t events_ = 0;
  bool queued_ = false;
  bool over_ = false;
  bool held_back_ = false;
  std::list<AsyncTask*>::iterator held_at_;  // if it is held back
  std::optional<std::stop_callback<std::function<void()>>> on_stop_;
  std::shared_ptr<std::atomic<size_t>> in_flight_;  // at its server
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_ASYNC_TASK_H_
