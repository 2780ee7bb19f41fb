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

// Begins the quarantine in all slots of a new primary, as the first acquisition in a slot would. So
// it ends soon after the promotion in all slots, and not in each some time after its first use. One
// client does this, and records at the primary's first slot that it is done.
class ClusterQuarantine {
 public:
  struct Options {
    const LuaScript* begin = nullptr;  // primary_epoch/begin
    std::string quarantine_ms;
    std::string client;  // the client that does it
    std::function<std::string(std::string_view slot_tag)> key;
  };
  explicit ClusterQuarantine(Options options) : options_(std::move(options)) {}

  // The node's connection is new: it may be another server, or have lost its data.
  void CheckAgain(const SingleServer* server);
  // Continues the work until `until`. Only one thread may call it. Returns when it must be called
  // again at the latest.
  base::Instant GoOn(const ClusterMap& map, base::Instant until);

 private:
  struct Round {
    enum class State : uint8_t { kUnknown, kOurs, kDone };
    State state = State::kUnknown;
    std::string id;          // of the primary epoch
    std::vector<Slot> left;  // kOurs: those still to begin, from the back
    size_t at_once;
    base::Backoff backoff;
    base::Instant next = {};  // when to continue
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
  // Used by the one thread.
  ByClusterNode<Round> rounds_;
  ClusterNodePtr latest_;  // the last one that had a turn: the next round begins after it
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_QUARANTINE_H_
