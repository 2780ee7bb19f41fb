#ifndef REDLATCH_SRC_CLI_TERM_CLUSTER_SERVER_H_
#define REDLATCH_SRC_CLI_TERM_CLUSTER_SERVER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/cli/term/server.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/url/host_and_port.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// A cluster: each key is at the primary that serves its slot, over one connection each, which is
// made when it is first needed. Redirections are followed, and what a node refuses for now is asked
// again, as long as the patience lasts.
class ClusterServer final : public Server {
 public:
  static absl::StatusOr<std::unique_ptr<Server>> Open(const redis::Url& parsed,
                                                      std::string_view url);

  absl::StatusOr<std::vector<redis::Reply>> Ask(absl::Span<const redis::Command> commands,
                                                absl::Span<const redis::Slot> slots,
                                                Unreachable unreachable) override;
  size_t parts() const override { return nodes_.size(); }
  void FindAllParts() override;
  size_t PartOf(std::string_view key) const override { return owners_[redis::SlotOf(key)]; }
  absl::StatusOr<redis::Reply> AskPart(size_t part, const redis::Command& command) override;
  bool is_cluster() const override { return true; }

 private:
  struct Node {
    redis::HostAndPort where;
    redis::Url url;
    std::optional<redis::PlainConnection> connection = std::nullopt;
    absl::Status failure = absl::OkStatus();  // why it could not be asked, the last time
  };
  // A command that is still to be asked, and of whom.
  struct Pending {
    size_t index = 0;
    size_t node = 0;
    bool asking = false;  // behind ASKING: its slot is on the move
  };
  // One call of Ask().
  struct Call {
    absl::Span<const redis::Command> commands;
    absl::Span<const redis::Slot> slots;
    bool nil_if_unreachable = false;
    base::Instant deadline;
    base::Instant nodes_share = {};  // of it, of the node whose turn it is
    std::vector<redis::Reply> replies;
    std::vector<Pending> again = {};        // in the next round
    absl::Status later = absl::OkStatus();  // why that has to wait, if it has
    bool learned = false;
  };

  ClusterServer(const redis::Url& parsed, std::string_view url)
      : Server(parsed, url), parsed_(parsed) {
    owners_.fill(kNobody);
  }
  absl::Status Learn();
  size_t NodeAt(const redis::HostAndPort& where);
  absl::StatusOr<std::vector<redis::Reply>> AskNode(Node& node,
                                                    absl::Span<const redis::Command> commands,
                                                    base::Instant deadline);
  absl::Status AskAll(std::vector<Pending> pending, Call& call);
  absl::Status AskTogether(absl::Span<const Pending> group, Call& call);
  absl::Status TakeFailure(absl::Span<const Pending> group, const absl::Status& why, Call& call);
  absl::Status TakeError(const Pending& asked, const std::string& error, Call& call);

  static constexpr size_t kNobody = SIZE_MAX;
  const redis::Url parsed_;
  std::deque<Node> nodes_;
  std::array<size_t, redis::kSlots> owners_;  // of nodes_, or kNobody
  bool gave_up_ = false;                      // on what a node refuses for now
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_CLUSTER_SERVER_H_
