#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_MAP_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_MAP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/server_group/single_server.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

// A primary of a cluster, or a former one.
struct ClusterNode {
  const HostAndPort where;
  const uint64_t number;  // from 1 on
  std::unique_ptr<SingleServer> server;
  std::atomic<bool> forgotten{false};        // no view names it any more
  std::atomic<ClusterNode*> older{nullptr};  // the one before, in the order in which they came
};
// A call that uses a node has one of these; when the last is gone, the map's thread closes the
// node's connections.
using ClusterNodePtr = std::shared_ptr<ClusterNode>;
// The nodes in the order in which they came, since that of their addresses in memory is chance. No
// node comes before all others.
struct OlderNode {
  bool operator()(const ClusterNodePtr& a, const ClusterNodePtr& b) const {
    return (a == nullptr ? 0 : a->number) < (b == nullptr ? 0 : b->number);
  }
};
template <class Value>
using ByClusterNode = std::map<ClusterNodePtr, Value, OlderNode>;

// Which node serves which slot, as far as is known, and the thread that finds out: from one node
// after the other, when somebody asks for it, and never in a hurry, however many do. A redirection
// is believed at once, for its slot, if it leads to a node that the latest view names. The client
// connects to no other, so a node that redirects to made-up addresses costs nothing, and does not
// get the password sent there. A node that the latest view does not name is forgotten.
//
// Thread-safe.
class ClusterMap {
 public:
  struct Hooks {
    std::function<std::unique_ptr<SingleServer>(const HostAndPort& where)> make;
    // Another node serves that slot by now than did.
    std::function<void(Slot slot)> on_moved;
    // All of it is known anew; on the thread.
    std::function<void()> on_view;
    // What else the thread has to do, now and then, and when Wake() is called. When it is to be
    // called again, at the latest.
    std::function<base::Instant()> chores;
  };

  // `url`: of Kind::kCluster.
  ClusterMap(const Url& url, Hooks hooks);
  ~ClusterMap();  // stops

  ClusterNodePtr Owner(Slot slot) const {
    const base::MutexLock lock(mu_);
    return owners_[slot];
  }
  bool IsOwner(Slot slot, const ClusterNode* node) const {
    const base::MutexLock lock(mu_);
    return owners_[slot].get() == node;
  }
  // Of all slots.
  std::vector<ClusterNodePtr> owners() const {
    const base::MutexLock lock(mu_);
    return owners_;
  }
  // Waits until the nodes are known; else why they are not.
  absl::Status AwaitSome(base::Instant deadline);
  // The same for the one that serves a slot.
  absl::StatusOr<ClusterNodePtr> AwaitOwner(Slot slot, base::Instant deadline);
  // The node at `where`, to which a node redirects. Null if neither the latest view names it, nor a
  // new one that comes by the deadline.
  ClusterNodePtr Follow(const Redirect& redirect, const HostAndPort& where, base::Instant deadline);

  // It may be out of date.
  void LookSoon();
  // The same, and waits until it has been looked at since; false where the deadline came first.
  bool Refresh(base::Instant deadline);
  void Wake();

  std::vector<ClusterNodePtr> nodes() const;
  void Stop();
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  void CloseInForkedChild();

 private:
  // Where unused nodes go; their last user may be on any thread.
  struct Graveyard {
    base::Mutex mu;
    std::vector<std::unique_ptr<ClusterNode>> nodes ABSL_GUARDED_BY(mu);
  };

  absl::Status Await(absl::FunctionRef<bool()> known, base::Instant deadline);
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  absl::Status Look();
  std::vector<HostAndPort> WhomToAsk() const;
  bool IsOurs(const ClusterView& view) const;
  void Take(const ClusterView& view);
  ClusterNodePtr NodeAt(const HostAndPort& where) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ClusterNodePtr Lead(const Redirect& redirect, const HostAndPort& where, bool& moved);
  void Bury();

  const Url url_;
  const std::string name_;
  const Hooks hooks_;
  // Of all nodes that are not buried; without a lock, for a forked child.
  std::atomic<ClusterNode*> latest_{nullptr};
  const std::shared_ptr<Graveyard> graveyard_ = std::make_shared<Graveyard>();

  mutable base::Mutex mu_;
  base::CondVar wake_;   // of the thread
  base::CondVar found_;  // of those that wait for it
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool look_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool chores_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;  // looks
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  std::vector<ClusterNodePtr> owners_ ABSL_GUARDED_BY(mu_) = std::vector<ClusterNodePtr>(kSlots);
  std::map<HostAndPort, ClusterNodePtr> nodes_ ABSL_GUARDED_BY(mu_);
  uint64_t made_ ABSL_GUARDED_BY(mu_) = 0;              // nodes, so far
  size_t unburied_ ABSL_GUARDED_BY(mu_) = 0;            // nodes, those in `nodes_` too
  std::set<HostAndPort> members_ ABSL_GUARDED_BY(mu_);  // named by the latest view
  // The thread's: the last view, and the node that gave it.
  std::optional<HostAndPort> told_by_;
  int64_t epoch_ = 0;
  std::set<std::string> ids_;
  std::thread thread_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_MAP_H_
