#ifndef REDLATCH_SRC_LOCK_CONFIRMATION_H_
#define REDLATCH_SRC_LOCK_CONFIRMATION_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/state/request.h"

namespace redlatch::internal {

// An acquisition that counts only when replicas have its grant: until when they may confirm it, and
// whether to ask for the lock anew if they do not. It does nothing but ask its machine.
class Confirmation {
 public:
  // `began`: when the call began; `wait`: how long it waits for the lock.
  Confirmation(const ClientCore& core, base::Instant began, absl::Duration wait,
               absl::Duration ack_timeout);

  // The renewal that replicas have to confirm; null: the hold needs none.
  const Request* Ask(ClientCore& core, Entry& entry, uint64_t hold);
  // Takes its result. False: give the hold back; `why()` says why.
  bool Hear(ClientCore& core, Entry& entry, const Result& result);
  // When to ask for the lock anew after that; infinite: never.
  base::Instant Again();

  // When the call has to return.
  base::Instant end() const { return end_; }
  const absl::Status& why() const { return why_; }

 private:
  const base::Instant end_;
  const base::Instant faults_until_;  // a server that fails is given that time
  const base::Instant acks_until_;    // so are replicas that do not confirm
  base::Backoff backoff_;
  uint64_t hold_ = 0;
  std::optional<Request> request_;
  base::Instant again_until_;
  absl::Status why_;
};

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_CONFIRMATION_H_
