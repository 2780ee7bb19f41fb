#ifndef REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_ORDER_H_
#define REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_ORDER_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "src/engine/machine/timing.h"
#include "tests/unit/engine/machine/reference_semaphore_server.h"

namespace redlatch::engine {

// Nobody is overtaken. Exactly:
//
// A request arrives when the server first queues it. That is its place for as long as the server
// knows it, and again when it returns to the queue and says which ticket it was given; who returns
// without one arrives anew. Arriving is behind all who are queued.
//
// A waiter is live at a moment at which its client listens, it has asked within 2.5 heartbeats, and
// it wants no more permits than there are in all.
//
//   1. Where a request is granted, nobody stays queued who is live and arrived before it did. A
//      request that is granted as it asks, and never had a place, comes after all.
//   2. A waiter that is live leaves the queue only by a grant, or as its client gives it up.
//
// So the overdue, the deaf and those who want too much may be overtaken and dropped, and none else;
// and whoever was, overtakes in his turn when he is back.
class PermitsOrder {
 public:
  using Server = ReferenceSemaphoreServer;

  // Around each script. `send` is null where it is no client's.
  void Before(Server& server, base::Instant now, const Send* send) {
    before_.clear();
    for (const Server::Waiting& each : server.queue(now)) before_[each.bid.grant] = each;
    given_up_ = 0;
    if (send == nullptr) return;
    if (!std::holds_alternative<ToAcquire>(send->what)) {
      given_up_ = send->grant;
    } else if (send->bid()->ticket != 0) {
      const auto [place, anew] = places_.try_emplace(send->grant, send->bid()->ticket);
      place->second = std::min(place->second, send->bid()->ticket);
    } else if (!before_.contains(send->grant)) {
      places_.erase(send->grant);
    }
  }

  void After(Server& server, base::Instant now) {
    std::map<GrantId, Server::Waiting> after;
    for (const Server::Waiting& each : server.queue(now)) after[each.bid.grant] = each;
    uint64_t last = 0;
    for (const auto& [grant, each] : after) {
      if (before_.contains(grant)) last = std::max(last, places_.at(grant));
    }
    for (const auto& [grant, each] : after) {
      if (!places_.try_emplace(grant, each.ticket).second) continue;
      EXPECT_GT(each.ticket, last) << grant << " arrived before somebody who was there";
    }
    for (const GrantId winner : server.granted) {
      const auto place = places_.find(winner);
      const uint64_t came =
          place == places_.end() ? std::numeric_limits<uint64_t>::max() : place->second;
      for (const auto& [grant, each] : after) {
        EXPECT_FALSE(places_.at(grant) < came && IsLive(server, each, now))
            << winner << " has overtaken " << grant;
      }
    }
    for (const auto& [grant, each] : before_) {
      const bool granted =
          std::find(server.granted.begin(), server.granted.end(), grant) != server.granted.end();
      EXPECT_TRUE(granted || after.contains(grant) || grant == given_up_ ||
                  !IsLive(server, each, now))
          << grant << " has lost its place";
    }
    server.granted.clear();
  }

 private:
  static bool IsLive(const Server& server, const Server::Waiting& waiting, base::Instant now) {
    const absl::Duration heartbeat =
        HeartbeatInterval(waiting.bid.terms.lease, Server::kLongestHeartbeat);
    return server.subscribed[waiting.caller.client] && now <= waiting.asked + heartbeat * 5 / 2 &&
           waiting.bid.block <= *server.capacity;
  }

  std::map<GrantId, uint64_t> places_;  // the ticket of each
  std::map<GrantId, Server::Waiting> before_;
  GrantId given_up_ = 0;
};

}  // namespace redlatch::engine

#endif  // REDLATCH_TESTS_UNIT_ENGINE_MACHINE_PERMITS_ORDER_H_
