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
  const uint64_t number;  // counts from 1
  std::unique_ptr<SingleServer> server;
  std::atomic<bool> retired{false};          // it has left the cluster
  std::atomic<ClusterNode*> older{nullptr};  // the node that was made before it
};
// Each call that uses a node has one of these. When the last one is gone, the map's thread closes
// the node's connections.
using ClusterNodePtr = std::shared_ptr<ClusterNode>;
// Orders nodes by their creation, since their addresses in memory are random. Null comes first.
struct OlderNode {
  bool operator()(const ClusterNodePtr& a, const ClusterNodePtr& b) const {
    return (a == nullptr ? 0 : a->number) < (b == nullptr ? 0 : b->number);
  }
};
template <class Value>
using ByClusterNode = std::map<ClusterNodePtr, Value, OlderNode>;

// The map from slots to nodes, as far as it is known, and the thread that refreshes it on request.
// It asks one node after the other, with a pause between refreshes, however many callers ask for
// one. A redirection is believed at once, for its slot, if it leads to a node that the latest view
// names. The client connects to no other node: a node that redirects to made-up addresses costs
// nothing, and the password is not sent there. A node that the latest view does not name is
// retired.
//
// Thread-safe.
class ClusterMap {
 public:
  struct Hooks {
    std::function<std::unique_ptr<SingleServer>(const HostAndPort& where)> make;
    // Another node serves that slot now.
    std::function<void(Slot slot)> on_moved;
    // All of the map is new. Runs on the thread.
    std::function<void()> on_view;
    // Other work for the thread, now and then, and when Wake() is called. Returns when it must be
    // called again at the latest.
    std::function<base::Instant()> chores;
  };

  // REQUIRES: `url` is of Kind::kCluster.
  ClusterMap(const Url& url, Hooks hooks);
  ~ClusterMap();  // calls Stop()

  ClusterNodePtr Owner(Slot slot) const {
    const base::MutexLock lock(mu_);
    return owners_[slot];
  }
  bool IsOwner(Slot slot, const ClusterNode* node) const {
    const base::MutexLock lock(mu_);
    return owners_[slot].get() == node;
  }
  // The owners of all slots.
  std::vector<ClusterNodePtr> owners() const {
    const base::MutexLock lock(mu_);
    return owners_;
  }
  // Waits until the nodes are known. An error says why they are not.
  absl::Status AwaitSome(base::Instant deadline);
  // Waits until the node that serves the slot is known.
  absl::StatusOr<ClusterNodePtr> AwaitOwner(Slot slot, base::Instant deadline);
  // Returns the node at `where`, to which a node redirects. Null if neither the latest view names
  // it, nor a new one that comes by the deadline.
  ClusterNodePtr Follow(const Redirect& redirect, const HostAndPort& where, base::Instant deadline);

  // Requests a refresh: the map may be out of date.
  void RefreshSoon();
  // Requests a refresh and waits until one that began later ends. False: the deadline came first.
  bool Refresh(base::Instant deadline);
  void Wake();

  std::vector<ClusterNodePtr> nodes() const;
  void Stop();
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  void CloseInForkedChild();

 private:
  // Nodes that no call uses any more, for the thread to close. Their last user may be on any
  // thread.
  struct UnusedNodes {
    base::Mutex mu;
    std::vector<std::unique_ptr<ClusterNode>> nodes ABSL_GUARDED_BY(mu);
  };

  absl::Status Await(absl::FunctionRef<bool()> known, base::Instant deadline);
  absl::Status StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run();
  absl::Status AskNodes();
  std::vector<HostAndPort> NodesToAsk() const;
  bool IsOurs(const ClusterView& view) const;
  void Take(const ClusterView& view);
  ClusterNodePtr NodeAt(const HostAndPort& where) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ClusterNodePtr ApplyRedirect(const Redirect& redirect, const HostAndPort& where, bool& moved);
  void CloseUnused();

  const Url url_;
  const std::string name_;
  const Hooks hooks_;
  // The list of all open nodes. It has no lock, for the sake of a forked child.
  std::atomic<ClusterNode*> latest_{nullptr};
  const std::shared_ptr<UnusedNodes> unused_nodes_ = std::make_shared<UnusedNodes>();

  mutable base::Mutex mu_;
  base::CondVar wake_;   // wakes the thread
  base::CondVar found_;  // wakes callers that wait for a refresh
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool refresh_wanted_ ABSL_GUARDED_BY(mu_) = false;
  bool chores_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;  // refreshes
  uint64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status last_failure_ ABSL_GUARDED_BY(mu_);
  std::vector<ClusterNodePtr> owners_ ABSL_GUARDED_BY(mu_) = std::vector<ClusterNodePtr>(kSlots);
  std::map<HostAndPort, ClusterNodePtr> nodes_ ABSL_GUARDED_BY(mu_);
  uint64_t made_ ABSL_GUARDED_BY(mu_) = 0;      // how many nodes so far
  size_t open_nodes_ ABSL_GUARDED_BY(mu_) = 0;  // those in `nodes_`, and retired ones in use
  std::set<HostAndPort> members_ ABSL_GUARDED_BY(mu_);  // named by the latest view
  // Used by the thread: the last view, and the node that gave it.
  std::optional<HostAndPort> told_by_;
  int64_t epoch_ = 0;
  std::set<std::string> ids_;
  std::thread thread_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_MAP_H_
