#ifndef REDLATCH_SRC_QUORUM_MAILBOX_H_
#define REDLATCH_SRC_QUORUM_MAILBOX_H_

#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/wire/reply.h"

namespace redlatch::quorum {

// Where the answers of all nodes to one round of questions come in, and what a thread does that
// waits for them. Whoever reads a connection delivers what is there, be it another thread; what
// comes when nobody waits any more is thrown away.
class Mailbox {
 public:
  struct Letter {
    size_t call = 0;
    size_t node = 0;
    absl::StatusOr<redis::Reply> answer;
    bool connected = false;  // in place of an answer: the node can be asked now
  };

  // For the calling thread to wait at.
  static std::shared_ptr<Mailbox> Open();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // Any thread's. Returns at once.
  void Deliver(Letter letter);
  // Nobody waits any more.
  void Close();

  // The rest is its thread's. What came since it was last asked.
  std::vector<Letter> Take();
  // To be polled beside connections, and drained where it is readable; -1: there is none.
  int wake_fd() const { return wake_fd_; }
  static void DrainWake();

 private:
  explicit Mailbox(int wake_fd) : owner_(std::this_thread::get_id()), wake_fd_(wake_fd) {}

  const std::thread::id owner_;
  const int wake_fd_;
  base::Mutex mu_;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Letter> letters_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_MAILBOX_H_
