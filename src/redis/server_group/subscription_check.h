#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_SUBSCRIPTION_CHECK_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_SUBSCRIPTION_CHECK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/random.h"

namespace redlatch::redis {

// Whether messages reach this client. A script that it runs over its command connection tells
// whether the server which runs it has a subscriber of the client's channel. If it has none, though
// the subscription is live, the two connections lead to two servers.
//
//   a waiter asks, and is told                            follows
//   there is a subscriber                                 all is well again
//   none, three times, 50 ms apart                        both connections are made anew
//   none, three times, after each of two such rounds      the client is unsubscribed: waiters poll
//   none, while unsubscribed                              anew, now and then, with back-off
//
// Not thread-safe.
class SubscriptionCheck {
 public:
  enum class Verdict : uint8_t {
    kNothingNew,
    kMakeAnew,         // both connections
    kUnsubscribed,     // from here on
    kSubscribedAgain,  // it was unsubscribed
  };

  // `sent`: when the question was; `live`: since when all subscriptions have been, Infinite() if
  // they are not.
  Verdict Told(bool has_subscriber, base::Instant sent, base::Instant live, base::Instant now);

  bool unsubscribed() const { return unsubscribed_; }

 private:
  static constexpr int kTimes = 3;
  static constexpr int kRounds = 3;
  static constexpr absl::Duration kApart = absl::Milliseconds(50);

  int times_ = 0;   // in this round
  int rounds_ = 0;  // so far
  base::Instant counted_;
  bool unsubscribed_ = false;
  base::Instant next_try_;
  base::Backoff backoff_{absl::Seconds(2), absl::Minutes(1)};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_SUBSCRIPTION_CHECK_H_
