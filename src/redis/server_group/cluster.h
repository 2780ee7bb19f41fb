#ifndef REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_
#define REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_

#include <bitset>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "redlatch/lua_script.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/server_group/single_server.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

class ClusterMap;
class ClusterQuarantine;
struct ClusterNode;
// Each call that uses a node has one of these. When only the map has one, its thread closes the
// connections of a retired node.
using ClusterNodePtr = std::shared_ptr<ClusterNode>;

// Redis Cluster: the primary that serves a key's slot has the key. Each primary has a
// connection, made when it is first needed. Messages come on one channel per slot, which lies
// in that slot, so the node that runs a script knows if it has a subscriber.
//
// If a node says that it no longer serves a channel's slot, the channel is subscribed at the new
// owner, and waiters ask again.
class Cluster final : public ServerGroup {
 public:
  // How ClusterQuarantine begins a quarantine.
  struct Quarantine {
    const LuaScript* begin = nullptr;  // primary_epoch/begin
    std::string quarantine_ms;
    std::string client;  // the client that does it
    std::function<std::string(std::string_view slot_tag)> key;
  };
  // What this client tells the servers about itself.
  struct Own {
    // Returns the name of its channel with that tag.
    std::function<std::string(std::string_view slot_tag)> channel;
    // A command that stores a description of the client, and the key at which it does.
    std::string description_key;
    Command description;
    AckedConnection::Mark mark;
    Quarantine quarantine;  // used if the URL has a quarantine
  };
  Cluster(const Url& url, Own own, Events events);
  ~Cluster() override;
  // In a forked child, in place of destruction: closes the descriptors and touches nothing else.
  static void operator delete(Cluster* cluster, std::destroying_delete_t);
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  ServerFacts facts(std::string_view key) const override;
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  bool Drain(base::Instant until) override;
  void AppendConnections(std::vector<std::shared_ptr<Connection>>& connections) override;
  Reconnected TakeReconnected() override;
  void Stop() override;

  Subscription subscription(std::string_view key) const override;
  absl::Status Subscribe(std::string_view key, base::Instant deadline) override;
  absl::Status SubscribeTo(std::string_view key, const std::string& channel,
                           base::Instant deadline) override;
  void Forget(const std::string& channel) override;
  void KeepReading(std::string_view key, bool begins) override;
  uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) override;

 private:
  friend class ClusterMap;
  friend class ClusterQuarantine;
  // This client's channel in a slot. The slot's locks need it where the slot is.
  struct Channel {
    ClusterNodePtr at;    // where it is subscribed; null: nowhere
    bool wanted = false;  // if it is nowhere, the map's thread subscribes it
    uint64_t losses = 0;  // how often it was given up, or could not be subscribed
  };

  ClusterNodePtr SubscribedAt(Slot slot) const;
  // Returns the node at which it is subscribed.
  absl::StatusOr<ClusterNodePtr> SubscribeAtOwner(Slot slot, const std::string& channel,
                                                  base::Instant deadline);
  void ForgetExceptAt(const ClusterNodePtr& owner, const std::string& channel);
  // The slot has moved, or its node has given up the channel.
  void Concern(Slot slot);
  void OnReconnected(ClusterNode& node);
  // Called by the map.
  std::unique_ptr<SingleServer> MakeServer(ClusterNode& node);
  void OnView();
  // Called by the map's thread.
  void DoChores();
  void Describe();
  void SubscribeAgain();

  const Url url_;
  const std::string name_;
  const Own own_;
  const Events events_;
  const base::ForkGuard fork_guard_;
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  base::Atomic<bool> stopped_{false};
  int next_silent_ = 0;  // where SubscribeAgain() begins

  mutable base::Mutex mu_;
  std::map<Slot, Channel> channels_ ABSL_GUARDED_BY(mu_);
  // The nodes at which KeepReading() was called for a slot; another node may have it now.
  std::multimap<Slot, ClusterNodePtr> read_at_once_at_ ABSL_GUARDED_BY(mu_);
  std::bitset<kSlots> concerned_ ABSL_GUARDED_BY(mu_);  // affected since TakeReconnected()
  bool reconnected_ ABSL_GUARDED_BY(mu_) = false;       // since TakeReconnected()
  bool described_ ABSL_GUARDED_BY(mu_) = false;         // at the present owner of its key
  // Their threads use the whole object.
  const std::unique_ptr<ClusterMap> map_;
  const ScriptRunner runner_;
  const std::unique_ptr<ClusterQuarantine> quarantine_;  // null: the URL has no quarantine
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_SERVER_GROUP_CLUSTER_H_
