#ifndef REDLATCH_SRC_LOCK_COUNTS_H_
#define REDLATCH_SRC_LOCK_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/lock_type.h"
#include "src/lock/state/request.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::internal {

class ClientCore;

// What a client has counted down, and was told that it counted: repeated after a change of server,
// since the present one may not have received it. Of many the latest are kept. Thread-safe.
class Counts {
 public:
  struct Count {
    std::string name;   // of the latch
    std::string latch;  // its incarnation, for the script
    std::string id;
    int64_t n = 0;
    uint64_t when = 0;  // as the server said, in microseconds
    const LockType* type = nullptr;
    const LuaScript* script = nullptr;
  };

  explicit Counts(ClientCore& core) : core_(core) {}
  Counts(const Counts&) = delete;
  Counts& operator=(const Counts&) = delete;

  // Of the connection: it changes with each new one.
  uint64_t era() const;
  // `count` was sent in `sent_in`, or later. From here on the latest is repeated each `pace`, to
  // notice a change of server, until the latch is known to be open, or gone.
  void Add(Count count, uint64_t sent_in, absl::Duration pace);
  // A connection is new: all are repeated that it concerns.
  void RepeatAll(const redis::ServerGroup::Concerned& concerned = nullptr);

  base::Instant due() const;
  // What is due, by the renewer's thread.
  void Repeat();

 private:
  struct Kept {
    Count count;
    uint64_t number = 0;  // of its own
    uint64_t era = 0;
    bool repeat = false;  // as all are after a change of server
  };
  struct Batch {
    uint64_t era = 0;
    std::vector<Kept> kept;
  };

  Batch TakeDue(base::Instant now);
  absl::Duration Timeout() const;
  bool RepeatsAll() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void MarkAll(const redis::ServerGroup::Concerned& concerned = nullptr)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Hear(const Count& count, const Result& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  ClientCore& core_;
  mutable base::Mutex mu_;
  uint64_t era_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Kept> counts_ ABSL_GUARDED_BY(mu_);    // by `era`, then by `when`
  int silent_ ABSL_GUARDED_BY(mu_) = 0;             // batches in a row that went unanswered
  bool more_to_tell_ ABSL_GUARDED_BY(mu_) = false;  // by a repeat of the latest
  absl::Duration pace_ ABSL_GUARDED_BY(mu_) = absl::InfiniteDuration();
  base::Instant due_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_COUNTS_H_
