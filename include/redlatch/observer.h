// Events of a client's locks, as they happen: for metrics and logs.
#ifndef REDLATCH_OBSERVER_H_
#define REDLATCH_OBSERVER_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/export.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"

namespace redlatch {

// Override the events that you need. By default, losses, failed releases, misuse and lost
// subscriptions go to stderr, at most one line per second. The other events do nothing.
//
//   auto observer = std::make_shared<MyObserver>();
//   Client::Connect(url, {.observer = observer});
//
//   the event                                 runs on
//   OnAcquired, OnWaitEnded, OnMisuse         the calling thread, which it delays
//   OnReleased, of Release()                  the calling thread, which it delays
//   OnReleased, of unlock() and destructors   a thread of the client's own
//   all others                                a thread of the client's own
//
// Several events may run at the same time. An event must not call the lock that it reports on. An
// exception is reported on stderr and otherwise ignored.
class REDLATCH_EXPORT Observer {
 public:
  virtual ~Observer() = default;

  // Return false if your functions do not use tokens: lock() may then do without, which makes it
  // faster. The events of such a hold have no token, unless the program has asked for it. By
  // default, each hold from lock() has its token from the start.
  virtual bool needs_tokens() const { return true; }

  // `waited` is the time from the call to the hold.
  virtual void OnAcquired(std::string_view lock, FencingToken token, absl::Duration waited);

  // A call ended without the lock.
  virtual void OnWaitEnded(std::string_view lock, absl::Duration waited, const absl::Status& why);

  // The result of a release, as soon as it is known.
  virtual void OnReleased(std::string_view lock, FencingToken token, const absl::Status& result);

  virtual void OnRenewed(std::string_view lock, FencingToken token);

  // A renewal failed. The hold will be lost after `remaining`, unless a later renewal succeeds.
  virtual void OnAtRisk(std::string_view lock, FencingToken token, absl::Duration remaining,
                        const absl::Status& why);

  // A hold that was at risk was renewed.
  virtual void OnRecovered(std::string_view lock, FencingToken token);

  // A hold was lost. Runs after its stop token has fired, and before LockOptions::on_lost.
  virtual void OnLost(const LostLease& lost);

  // The server refused to release a hold, and the client does not try again: the lock stays taken
  // for up to `remaining`, until its lease ends. This event comes once per hold, even if unlock()
  // or a destructor released it, or if the call that released it returned before the refusal.
  virtual void OnReleaseFailed(std::string_view lock, FencingToken token, absl::Duration remaining,
                               const absl::Status& why);

  // A thread that has no hold called unlock(); nothing was released.
  virtual void OnMisuse(std::string_view lock, std::string_view what);

  // A connection to the server was lost and made again.
  virtual void OnReconnected(std::string_view server);

  // The server does not let this client subscribe to its channel any more, as after a change of the
  // user's ACL rules, so no message reaches it. Calls that would wait for one fail and say why.
  virtual void OnUnsubscribed(std::string_view server, std::string_view why);

  // The server lets this client subscribe again.
  virtual void OnResubscribed(std::string_view server);
};

}  // namespace redlatch

#endif  // REDLATCH_OBSERVER_H_
