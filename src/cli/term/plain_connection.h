#ifndef REDLATCH_SRC_CLI_TERM_PLAIN_CONNECTION_H_
#define REDLATCH_SRC_CLI_TERM_PLAIN_CONNECTION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/base/clock.h"
#include "src/redis/transport/transport.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/reply.h"

namespace redlatch::cli {

// One connection that takes any server for what it is: unlike redis::SharedConnection it refuses
// none, and is never made again. So one can look at a server that can't hold locks. One thread at a
// time.
//
// Every call returns by its deadline; after kUnavailable the connection is of no more use.
class PlainConnection {
 public:
  // Connects, and says user, password and database.
  //   kUnavailable         no connection, or no answer
  //   kPermissionDenied    user or password are wrong, or missing
  //   kFailedPrecondition  it does not have that database
  static absl::StatusOr<PlainConnection> Open(const redis::Url& url, base::Instant deadline);

  PlainConnection(PlainConnection&&) = default;
  PlainConnection& operator=(PlainConnection&&) = default;

  absl::StatusOr<redis::Reply> Call(const redis::Command& command, base::Instant deadline);
  // All in one write; as many replies.
  absl::StatusOr<std::vector<redis::Reply>> CallAll(absl::Span<const redis::Command> commands,
                                                    base::Instant deadline);
  // The next reply, or message.
  absl::StatusOr<redis::Reply> Receive(base::Instant deadline);

 private:
  explicit PlainConnection(std::string server) : server_(std::move(server)) {}

  absl::Status Connect(const redis::Url& url, base::Instant deadline);
  absl::Status ConnectTo(const redis::SocketAddress& address, base::Instant deadline);
  absl::Status Greet(const redis::Url& url, base::Instant deadline);
  absl::Status Send(std::string_view bytes, base::Instant deadline);
  absl::Status Broken(std::string_view why) const;

  std::string server_;
  std::unique_ptr<redis::Transport> transport_;
  redis::ReplyParser parser_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_PLAIN_CONNECTION_H_
