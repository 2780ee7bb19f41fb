#ifndef REDLATCH_SRC_REDIS_CONNECT_PLAIN_CONNECTION_H_
#define REDLATCH_SRC_REDIS_CONNECT_PLAIN_CONNECTION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/redis/connect/connector.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::redis {

// One connection that accepts any server, even one that cannot hold locks, and is never made again.
// One thread at a time.
//
// Every call returns by its deadline. After kUnavailable the connection is unusable.
class PlainConnection {
 public:
  // Connects, and sends user, password and database.
  //   kUnavailable         no connection or no answer, or it hangs up on user and password
  //   kPermissionDenied    user or password are wrong or missing
  //   kFailedPrecondition  it does not have that database
  // Default `endpoint`: the URL's.
  static absl::StatusOr<PlainConnection> Open(const Url& url, base::Instant deadline,
                                              Endpoint endpoint = nullptr);

  absl::StatusOr<Reply> Call(const Command& command, base::Instant deadline);
  // Sends all commands in one write, and returns their replies.
  absl::StatusOr<std::vector<Reply>> CallAll(absl::Span<const Command> commands,
                                             base::Instant deadline);
  void CloseInForkedChild() { dialogue_.transport.reset(); }
  // Returns when the server's certificate expires, if TLS is used.
  std::optional<absl::Time> certificate_until() const {
    return dialogue_.transport->certificate_until();
  }
  // Returns the next reply or message.
  absl::StatusOr<Reply> Receive(base::Instant deadline);

 private:
  explicit PlainConnection(std::string server) : server_(std::move(server)) {}

  absl::StatusOr<std::vector<Reply>> ReadReplies(size_t count, base::Instant deadline);

  std::string server_;
  Dialogue dialogue_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_SRC_REDIS_CONNECT_PLAIN_CONNECTION_H_
