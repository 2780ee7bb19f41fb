#ifndef REDLATCH_SRC_CLI_TERM_ONE_SERVER_H_
#define REDLATCH_SRC_CLI_TERM_ONE_SERVER_H_

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "src/cli/term/server.h"
#include "src/redis/connect/plain_connection.h"

namespace redlatch::cli {

// All keys are at one server, over one connection.
class OneServer final : public Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Open(const redis::Url& parsed,
                                                      std::string_view url);

  absl::StatusOr<std::vector<redis::Reply>> Ask(absl::Span<const redis::Command> commands,
                                                absl::Span<const redis::Slot> slots,
                                                Unreachable unreachable) override;
  size_t parts() const override { return 1; }
  size_t PartOf(std::string_view) const override { return 0; }
  absl::StatusOr<redis::Reply> AskPart(size_t part, const redis::Command& command) override;
  bool is_cluster() const override { return false; }

 private:
  OneServer(const redis::Url& parsed, std::string_view url, redis::PlainConnection connection);
  // Records whether it is a replica. An error: it cannot hold locks, so there are none to show.
  absl::Status LookAtHello(const redis::Url& parsed);

  redis::PlainConnection connection_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_ONE_SERVER_H_
