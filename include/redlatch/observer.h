// What happens to a client's locks, as it happens: for metrics and logs.
#ifndef REDLATCH_OBSERVER_H_
#define REDLATCH_OBSERVER_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/export.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"

namespace redlatch {

// Override what you want to hear of; the rest does nothing, except that losses, failed releases,
// misuse and deafness go to stderr, at most one line per second.
//
//   auto observer = std::make_shared<MyObserver>();
//   Client::Connect(url, {.observer = observer});
//
// OnAcquired, OnWaitEnded, OnMisuse, and OnReleased for a Release(), run on the thread that calls
// the lock, in its way: be quick. The others run on a thread of the client's own; so does
// OnReleased for unlock() and destructors, which do not wait. All may run at the same time on
// several threads, and none may call the lock that it hears of. What one throws is told on stderr
// and otherwise ignored.
class REDLATCH_EXPORT Observer {
 public:
  virtual ~Observer() = default;

  // `waited`: from the call to the hold.
  virtual void OnAcquired(std::string_view lock, FencingToken token, absl::Duration waited);

  // A call ended without the lock.
  virtual void OnWaitEnded(std::string_view lock, absl::Duration waited, const absl::Status& why);

  // What became of a release, as soon as that is known: OK, or why not.
  virtual void OnReleased(std::string_view lock, FencingToken token, const absl::Status& result);

  virtual void OnRenewed(std::string_view lock, FencingToken token);

  // A renewal failed; the hold is lost in `remaining` if none succeeds until then.
  virtual void OnAtRisk(std::string_view lock, FencingToken token, absl::Duration remaining,
                        const absl::Status& why);

  // A hold that was at risk was renewed.
  virtual void OnRecovered(std::string_view lock, FencingToken token);

  // After the stop token has fired, before LockOptions::on_lost.
  virtual void OnLost(const LostLease& lost);

  // The server refused to release a hold, for good: the lock stays taken for up to `remaining`,
  // when its lease ends. Once for each hold, also if the call that released it was unlock(), a
  // destructor, or returned before this was known.
  virtual void OnReleaseFailed(std::string_view lock, FencingToken token, absl::Duration remaining,
                               const absl::Status& why);

  // unlock() by a thread that has no hold; nothing was released.
  virtual void OnMisuse(std::string_view lock, std::string_view what);

  // A connection to the server was lost and made again.
  virtual void OnReconnected(std::string_view server);

  // Messages do not reach this client, for the reason given: those who wait for a lock ask for it
  // several times per second instead of being told.
  virtual void OnUnsubscribed(std::string_view server, std::string_view why);

  // They do again.
  virtual void OnResubscribed(std::string_view server);
};

}  // namespace redlatch

#endif  // REDLATCH_OBSERVER_H_
