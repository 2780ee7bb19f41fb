#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_

#include <atomic>
#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "redlatch/lua_script.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/random.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/server_group/server_group.h"
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
// Each call that uses a node has one of these. When only the map has one, its thread closes the
// connections of a retired node.
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
  std::vector<ClusterNodePtr> retired_ ABSL_GUARDED_BY(mu_);
  uint64_t made_ ABSL_GUARDED_BY(mu_) = 0;              // how many nodes so far
  std::set<HostAndPort> members_ ABSL_GUARDED_BY(mu_);  // named by the latest view
  // Used by the thread: the last view, and the node that gave it.
  std::optional<HostAndPort> told_by_;
  int64_t epoch_ = 0;
  std::set<std::string> ids_;
  std::thread thread_;
};

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

// Redis Cluster: the primary that serves a key's slot has the key. Each primary has two
// connections, made when they are first needed. Messages come on one channel per slot, which lies
// in that slot, so the node that runs a script knows if it has a subscriber.
//
// If a node says that it no longer serves a channel's slot, the channel is subscribed at the new
// owner, and waiters ask again.
class Cluster final : public ServerGroup, private ScriptRouter {
 public:
  // What this client tells the servers about itself.
  struct Own {
    // Returns the name of its channel with that tag.
    std::function<std::string(std::string_view slot_tag)> channel;
    // A command that stores a description of the client, and the key at which it does.
    std::string description_key;
    Command description;
    AckedConnection::Mark mark;
    ClusterQuarantine::Options quarantine;  // used if the URL has a quarantine
  };
  Cluster(const Url& url, Own own, Events events);
  ~Cluster() override;
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  static void operator delete(Cluster* cluster, std::destroying_delete_t);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  std::string server(std::string_view key) const override;
  // It is not known which node will run the script: the script itself asks.
  ServerIds ids(std::string_view) override { return {}; }
  absl::Duration grants_alone_for() const override;
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  bool Drain(base::Instant until) override;
  void BeginPoll(std::vector<Transport::Polled>& polled) override;
  Realigned Realign() override;
  Stats stats() const override;
  void Stop() override;

  bool subscribed(std::string_view key) const override;
  bool subscribed_now(std::string_view key) const override;
  absl::Status Subscribe(std::string_view key, base::Instant deadline,
                         const std::stop_token& stop) override {
    return SubscribeTo(SlotOf(key), deadline, stop);
  }
  void KeepReading(std::string_view key, bool begins) override;
  void ReadNow(std::string_view key) override;
  uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) override;
  bool asks_if_subscribed(std::string_view key) const override;
  void NoteSubscribed(std::string_view key, bool is_subscribed, base::Instant asked) override;
  void CheckSubscription(std::string_view key, base::Instant now,
                         std::optional<base::Instant> missed_since) override;

 private:
  absl::StatusOr<ScriptServerPtr> OwnerOf(std::string_view key, base::Instant deadline) override;
  bool IsOwnerOf(std::string_view key, const ScriptServer* server) const override;
  ScriptServerPtr Follow(const Redirect& redirect, const ScriptServer& from,
                         base::Instant deadline) override;
  bool Refresh(base::Instant deadline) override;
  std::unique_ptr<SingleServer> MakeNode(const HostAndPort& where);
  absl::Status SubscribeTo(Slot slot, base::Instant deadline, const std::stop_token& stop);
  absl::Status SubscribeOnce(Slot slot, base::Instant deadline, const std::stop_token& stop);
  void Concern(Slot slot);
  void ConcernAllOf(const SingleServer* server);
  void Silent(std::string_view channel);
  void OnView();
  // The node at which the slot's channel is subscribed; null: none.
  ClusterNodePtr SubscribedAt(Slot slot) const;
  // Called by the map's thread.
  base::Instant DoChores();
  void Describe();
  void SubscribeAgain();

  const Url url_;
  const std::string name_;
  const Own own_;
  const Events events_;
  const base::ForkGuard fork_guard_;
  const std::shared_ptr<SubscriberThread> subscriber_thread_ = std::make_shared<SubscriberThread>();
  const ScriptRunner runner_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> view_whole_{false};  // the map is as a node gave it

  mutable base::Mutex mu_;
  // The node at which the slot's channel is subscribed, if it is, and the one that was last asked
  // to.
  std::unordered_map<Slot, ClusterNodePtr> subscribed_at_ ABSL_GUARDED_BY(mu_);
  std::unordered_map<Slot, ClusterNodePtr> asked_at_ ABSL_GUARDED_BY(mu_);
  // The nodes at which KeepReading() was called for a slot; another node may have it now.
  std::multimap<Slot, ClusterNodePtr> read_at_once_at_ ABSL_GUARDED_BY(mu_);
  std::bitset<kSlots> concerned_ ABSL_GUARDED_BY(mu_);  // affected since Realign()
  bool reconnected_ ABSL_GUARDED_BY(mu_) = false;       // since Realign()
  std::bitset<kSlots> wanted_ ABSL_GUARDED_BY(mu_);     // Subscribe() was called
  std::bitset<kSlots> silent_ ABSL_GUARDED_BY(mu_);     // to be subscribed again
  size_t next_silent_ ABSL_GUARDED_BY(mu_) = 0;         // where the next round begins
  bool described_ ABSL_GUARDED_BY(mu_) = false;         // at the present owner of its key
  std::unique_ptr<ClusterQuarantine> quarantine_;       // null: there is no quarantine
  std::unique_ptr<ClusterMap> map_;                     // its thread uses the whole object
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_
