#ifndef REDLATCH_SRC_REDIS_LINK_ACKED_CONNECTION_H_
#define REDLATCH_SRC_REDIS_LINK_ACKED_CONNECTION_H_

#include <functional>
#include <new>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/acks.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/redis/connect/connector.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/transport/open.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {

// A connection on which scripts are run, and replicas then waited for. That takes time in which
// nothing else can be asked there; and WAIT speaks of the connection that says it, so this one is
// never made anew without the caller's knowledge. Thread-safe: callers take turns.
class AckedConnection {
 public:
  // `mark`: a command that writes, whatever is there, and also where memory is full, at a key of
  // its own in the slot of the one it is given. Newer servers answer WAIT behind commands that
  // changed nothing without waiting for what others wrote before; so it stands before each WAIT.
  // `whom`: who is to be asked, and since when that is known; nothing: nobody knows, and a
  // connection that is there is kept.
  using Mark = std::function<Command(std::string_view key)>;
  AckedConnection(const Url& url, Mark mark, std::function<std::optional<Peer>()> whom);
  // In a forked child, in place of destruction: closes the descriptor and touches nothing else.
  static void operator delete(AckedConnection* connection, std::destroying_delete_t);
  AckedConnection(const AckedConnection&) = delete;
  AckedConnection& operator=(const AckedConnection&) = delete;

  // The replies to the commands, and which replicas have them all, and with them whatever was
  // written before: the replication stream keeps the order. `key`: of the first command. An error
  // if that is unknown: nothing may be concluded.
  absl::StatusOr<base::Acks> Run(absl::Span<const Command> commands, std::string_view key,
                                 const base::AcksWanted& wanted, absl::Duration patience,
                                 base::Instant deadline, absl::Span<absl::StatusOr<Reply>> replies);

 private:
  absl::Status Connect(base::Instant deadline);
  absl::StatusOr<base::Acks> Read(const Reply& mark, const Reply& answer, bool fsync) const;

  const Url url_;
  const std::string server_;
  const Mark mark_;
  const std::function<std::optional<Peer>()> whom_;
  const base::ForkGuard fork_guard_;
  base::Mutex mu_;
  std::optional<Peer> peer_;  // of `connection_`, where that was told
  std::optional<PlainConnection> connection_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_LINK_ACKED_CONNECTION_H_
