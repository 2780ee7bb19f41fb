// A mutex on several independent servers, of which any minority may fail.
#ifndef REDLATCH_RED_LOCK_H_
#define REDLATCH_RED_LOCK_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/client.h"
#include "redlatch/export.h"
#include "redlatch/lock_options.h"
#include "redlatch/redis_lock_base.h"

namespace redlatch {

// As those of LockOptions; the servers of a quorum are no replicas, and a RedLock is not cached.
struct RedLockOptions {
  Duration lease = absl::Seconds(30);
  std::optional<Duration> turn = {};
  std::function<void(const LostLease&)> on_lost = {};
};

// A lock that is held when a majority of independent servers say so, and so outlives the failure of
// the others:
//
//   redlatch::RedLock lock({a, b, c, d, e}, "orders:42");
//   std::scoped_lock guard(lock);
//
// Each server is a Client of any kind: a server, one behind sentinels, a cluster. All of them are
// asked at the same time, and the call returns as soon as a majority has decided it. If a majority
// has answered without deciding it, the others are waited for, for half a second at most. The lock
// has connections of its own to the servers, which all RedLocks on the same clients, in the same
// order, share. It takes the ClientOptions of the first client; key prefixes must be equal.
//
// It is used as every lock here: both faces, fencing tokens, RunLocked(), Inspect(). Tokens grow
// whichever majority gives them.
//
// Servers that may lose what they have granted, as by a restart without their data, weaken a
// majority; `restart_delay=` in the URLs sees to that: docs/tutorials/10-quorum.md.
class REDLATCH_EXPORT RedLock final : public RedisLockBase {
 public:
  // The same URL twice is kInvalidArgument at first use. One server under two names would have two
  // votes, and its failure would cost both: name each server once.
  RedLock(const std::vector<Client>& clients, std::string_view name, RedLockOptions options = {});
  // Of a client that was connected to all of them: Client::Connect("redlock:redis://a,redis://b").
  RedLock(Client client, std::string_view name, RedLockOptions options = {});

 private:
  static Client OfQuorum(const std::vector<Client>& clients);
  LockScripts Scripts() const override;
  LockTraits Traits() const override;
  std::vector<std::string> ExtraKeys() const override;
};

}  // namespace redlatch

#endif  // REDLATCH_RED_LOCK_H_
