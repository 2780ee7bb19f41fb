// A mutex on several independent servers, of which any minority may fail.
#ifndef REDLATCH_RED_LOCK_H_
#define REDLATCH_RED_LOCK_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/duration.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// These are as in LockOptions. There are no acks, because the servers of a quorum have no replicas
// to wait for, and a RedLock is not cached.
struct RedLockOptions {
  Duration lease = absl::Seconds(30);
  std::optional<Duration> turn = {};
  std::function<void(const LostLease&)> on_lost = {};
};

// A mutex that a client holds if a majority of independent servers has granted it. It survives the
// failure of a minority. Its methods and its state table are those of RedisLockBase.
//
//   redlatch::RedLock lock({a, b, c, d, e}, "orders:42");
//   std::scoped_lock guard(lock);
//
//   of the servers               lock()
//   a majority grants            holds; the others are not waited for
//   a majority refuses           waits
//   a majority has answered,     waits for the others, for half a second at most
//     but has decided nothing
//   a majority is unreachable    throws after the client's `unreachable_after`
//
// Each client may be connected to a single server, to Sentinel or to a cluster. The lock opens
// connections of its own to these servers. All RedLocks on the same clients in the same order share
// them. The ClientOptions of the first client apply, and all clients must have the same key_prefix.
// Fencing tokens grow, whichever majority grants them. A server that may forget its grants, for
// example by a restart without its data, weakens a majority unless the URLs say `restart_delay=`:
// docs/tutorials/10-quorum.md.
class REDLATCH_EXPORT RedLock final : public RedisLockBase {
 public:
  // If a URL appears twice, the first use fails with kInvalidArgument. Name each server only once:
  // a server with two names would have two votes, and its failure would cost both.
  RedLock(const std::vector<Client>& clients, std::string_view name, RedLockOptions options = {});
  // With a client that is connected to all servers:
  // Client::Connect("redlock:redis://a,redis://b,...").
  RedLock(const Client& client, std::string_view name, RedLockOptions options = {});

 private:
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_RED_LOCK_H_
