#ifndef REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_
#define REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/parker.h"
#include "src/redis/connect/connector.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"

namespace redlatch::redis {

// The callbacks run on the subscriber's thread, or on one in Await(), one at a time. They are
// redlatch's own code, never a user's: they return at once and do not call the subscriber.
struct SubscriberOptions {
  std::function<void(std::string_view channel, std::string_view message)> on_message;
  // After the connection was lost, or could not be made, all that was subscribed by then is live:
  // what was published meanwhile is lost, and whoever waits for a message must look for himself
  // now. Once for each loss.
  std::function<void()> on_live_again;
  // The connection was lost, or could not be made.
  std::function<void(const absl::Status& why)> on_down;
  // The server does not permit this client a channel that was live, or that Subscribe() has left
  // asked for: it is forgotten.
  std::function<void(std::string_view channel, const absl::Status& why)> on_refused;

  // A connection on which nothing came for so long is asked whether it is alive. Rarely, since each
  // client that waits pays for it, and whoever misses a message has a heartbeat to find out.
  absl::Duration ping_interval = absl::Seconds(30);
  // Where something is due and nothing comes for so long, the connection is given up.
  absl::Duration answer_timeout = absl::Seconds(2);
  absl::Duration first_backoff = absl::Milliseconds(10);
  absl::Duration longest_backoff = absl::Seconds(1);
  // Where to connect to, if that is known; see Connector.
  Whereabouts where;
  TransportFactory open = OpenSocket;
};

// One connection to a server that receives what is published there, and the thread that reads it.
// Both begin with the first Subscribe(). A lost connection is made again, at once or with jittered
// backoff (comeback.h), for as long as there is a subscription, and everything is subscribed anew.
//
//   a channel is     Subscribe()                     Unsubscribe()
//   unknown          asked for; OK when live         OK at once
//   asked for        joins the wait                  forgotten; its Subscribe() ends kCancelled
//   live             OK at once                      OK when the server has acknowledged
//   being left       asked for anew                  joins the wait
//
// What was live once, or left to become so, is tried for until it is unsubscribed, also while the
// server refuses this client altogether: a password may be changed back.
//
// Thread-safe, but for destruction, which no call may overlap. In a forked child every call fails
// with kFailedPrecondition.
class Subscriber {
 public:
  Subscriber(const Url& url, SubscriberOptions options);
  // Stops. In a forked child it only closes.
  ~Subscriber();
  Subscriber(const Subscriber&) = delete;
  Subscriber& operator=(const Subscriber&) = delete;

  // OK when the server has acknowledged: what is published to `channel` from here on arrives, for
  // as long as the connection lives. kUnavailable at `deadline`: the channel stays asked for, and
  // becomes live when the server can be reached. Where the server refuses (no permission for the
  // channel, wrong password) its error, at once, and a channel that was unknown is forgotten.
  // A requested stop ends the wait as the deadline does.
  absl::Status Subscribe(std::string_view channel, base::Instant deadline,
                         const std::stop_token& stop = {});

  // After OK no message of `channel` is delivered any more.
  absl::Status Unsubscribe(std::string_view channel, base::Instant deadline);

  // For whoever was told that messages do not arrive, though the connection seems to be fine: a new
  // one is made, and everything is subscribed anew, whereupon on_live_again is called. Returns at
  // once. Does nothing unless all subscriptions are live: otherwise that is under way already.
  void MakeAnew();

  // The server is asked whether the connection is alive, now rather than after a ping_interval.
  void Ping();

  // Sleeps until the parker, which the caller has armed, is set, or `deadline` comes; its value.
  // For a thread that waits for a message: where it is the only one, it reads the connection itself
  // meanwhile, and is spared the hop from the subscriber's thread. The callbacks may run on it.
  uint32_t Await(base::Parker& parker, base::Instant deadline);

  // Ends the thread; no callback runs afterwards. What was armed for Await() may still be set.
  void Stop();

  // Connected, and every subscription acknowledged.
  bool live() const;

  // Whom it is connected to, and since when all that was subscribed by then is live; nothing while
  // that is not so.
  std::optional<Peer> peer() const;

  struct Stats {
    uint64_t connects = 0;
    uint64_t breaks = 0;
    uint64_t messages = 0;
  };
  Stats stats() const;

 private:
  class Impl;  // all but the answer to fork()
  absl::Status Refusal() const;

  const base::ForkGuard fork_guard_;
  const std::string server_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_SUBSCRIBER_H_
