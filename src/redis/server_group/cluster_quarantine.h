#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_QUARANTINE_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_QUARANTINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/redis/server_group/cluster_map.h"

namespace redlatch::redis {

// Begins the quarantine in all slots of a primary that is new, as whoever locks there would in that
// one slot: so that it is over for all soon after the promotion, and not for each some time after
// it was used first. One client does it, and writes down at the primary's first slot that it is
// done.
class ClusterQuarantine {
 public:
  struct Options {
    const LuaScript* begin = nullptr;  // primary_epoch/begin
    std::string quarantine_ms;
    std::string client;  // whose claim it is
    std::function<std::string(std::string_view slot_tag)> key;
  };
  explicit ClusterQuarantine(Options options) : options_(std::move(options)) {}

  // The node's connection is new: it may be another server, or have lost what it knew.
  void CheckAgain(const SingleServer* server);
  // By one thread; when it is to be called again, at the latest.
  base::Instant GoOn(const ClusterMap& map, base::Instant until);

 private:
  struct Round {
    enum class State : uint8_t { kUnknown, kOurs, kDone };
    State state = State::kUnknown;
    std::string id;          // of the promotion
    std::vector<Slot> left;  // kOurs: to be begun, from the back
    size_t at_once;
    base::Backoff backoff;
    base::Instant next = {};  // when there is something to do again
  };
  enum class Outcome : uint8_t { kOk, kDenied, kFailed };

  void GoOnAt(SingleServer& server, const std::vector<Slot>& slots, Round& round,
              base::Instant until) const;
  void Find(SingleServer& server, const std::vector<Slot>& slots, Round& round,
            base::Instant until) const;
  Outcome Begin(SingleServer& server, absl::Span<const Slot> slots, base::Instant deadline) const;
  std::string KeyOf(Slot slot) const { return options_.key(TagOf(slot) + ":"); }

  const Options options_;
  base::Mutex mu_;
  std::vector<const SingleServer*> to_check_ ABSL_GUARDED_BY(mu_);
  // The one thread's.
  ByClusterNode<Round> rounds_;
  ClusterNodePtr latest_;  // whose turn was last: the next one begins after it
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_QUARANTINE_H_
