#ifndef REDLATCH_SRC_REDIS_LINK_LISTENER_H_
#define REDLATCH_SRC_REDIS_LINK_LISTENER_H_

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

namespace redlatch::redis {

// What a thread polls for a connection, and until when at most.
struct Watched {
  int fd = -1;
  int16_t events = POLLIN;
  base::Instant until = base::Instant::Infinite();
};

// One thread for any number of connections: it sleeps until something has come for one of them, or
// is due, and serves that one. It starts with the first of them.
//
// Thread-safe. A forked child neither uses nor destroys it.
class Listener {
 public:
  class Member {
   public:
    // Handles what came, does what is due, and returns what to wait for next. It must not block.
    virtual Watched Serve() = 0;

   protected:
    ~Member() = default;
  };

  Listener() = default;
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Adds a member, which is served at once.
  absl::Status Add(Member& member);
  // Removes a member: it is not being served now, nor any more. Not to be called in Serve().
  void Remove(Member& member);
  // Serves each member now.
  void Wake() const { wake_.Signal(); }

  void CloseInForkedChild() { wake_.Close(); }

 private:
  struct Place {
    Member* member;
    Watched watched = {.until = base::Instant()};
    bool ready = false;
  };

  base::Instant ServeAndSleep();
  void UpdatePlaces();
  bool Sleep();

  base::WakeEvent wake_;  // opened before the thread starts
  base::Atomic<bool> stopping_{false};
  // The thread's own.
  std::vector<Place> places_;
  std::vector<pollfd> fds_;
  bool woken_ = false;  // since the members were served
  base::Mutex mu_;
  base::CondVar seen_;  // the thread has seen all changes so far
  std::vector<Member*> members_ ABSL_GUARDED_BY(mu_);
  uint64_t changes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t changes_seen_ ABSL_GUARDED_BY(mu_) = 0;
  base::Worker worker_{"redlatch-listen", [this] { return ServeAndSleep(); }};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_LISTENER_H_
