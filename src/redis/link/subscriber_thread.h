#ifndef REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_THREAD_H_
#define REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_THREAD_H_

#include <poll.h>

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/wake_event.h"
#include "src/base/worker.h"
#include "src/redis/transport/transport.h"

namespace redlatch::redis {

// One thread for the connections of any number of subscribers: it sleeps until something has come
// for one of them, or is due, and serves that one. It starts with the first of them.
//
// Thread-safe. A forked child neither uses nor destroys it.
class SubscriberThread {
 public:
  class Listener {
   public:
    // Handles what came, does what is due, and returns what to wait for next. With a `wake_fd` it
    // is the only listener, and may block until that is readable. With -1, other listeners depend
    // on the thread, and it must not block.
    virtual Awaited Serve(const Readiness& ready, int wake_fd) = 0;

   protected:
    ~Listener() = default;
  };

  SubscriberThread() = default;
  ~SubscriberThread();
  SubscriberThread(const SubscriberThread&) = delete;
  SubscriberThread& operator=(const SubscriberThread&) = delete;

  // Adds a listener, which is served at once.
  absl::Status Add(Listener& listener);
  // Removes a listener: it is not being served now, nor any more. Not to be called in Serve().
  void Remove(Listener& listener);
  // Serves each listener now.
  void Wake() const { wake_.Signal(); }

  void CloseInForkedChild() { wake_.Close(); }

 private:
  struct Place {
    Listener* listener;
    Awaited awaited = {.until = base::Instant()};
    Transport::Polled polled = {};
    Readiness ready = {};
  };

  base::Instant ServeAndSleep();
  void UpdatePlaces();
  bool Sleep();

  base::WakeEvent wake_;  // opened before the thread starts
  base::Atomic<bool> stopping_{false};
  // The thread's own.
  std::vector<Place> places_;
  std::vector<pollfd> fds_;
  bool woken_ = false;  // since the listeners were served
  base::Mutex mu_;
  base::CondVar seen_;  // the thread has seen all changes so far
  std::vector<Listener*> listeners_ ABSL_GUARDED_BY(mu_);
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t changes_seen_ ABSL_GUARDED_BY(mu_) = 0;
  base::Worker worker_{"redlatch-listen", [this] { return ServeAndSleep(); }};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_THREAD_H_
