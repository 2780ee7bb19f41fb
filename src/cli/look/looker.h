#ifndef REDLATCH_SRC_CLI_LOOK_LOOKER_H_
#define REDLATCH_SRC_CLI_LOOK_LOOKER_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/cli/look/sight.h"

namespace redlatch::cli {

// Looks at locks one by one, wherever they are: at a server, in a cluster, or at the servers of a
// quorum.
class Looker {
 public:
  // Errors as those of Server::Open(). Of a quorum, whose servers are reached when it is first
  // asked, only those of the URL.
  static absl::StatusOr<std::unique_ptr<Looker>> Open(std::string_view url);
  virtual ~Looker() = default;
  Looker(const Looker&) = delete;
  Looker& operator=(const Looker&) = delete;

  // The URL, without users and passwords.
  virtual const std::string& name() const = 0;
  // Not OK if no server tells. If so few servers of a quorum tell that they decide nothing, it is
  // what these say, and undecided() says why.
  virtual absl::StatusOr<Sight> LookClosely(const std::string& name) = 0;
  virtual absl::Status undecided() const { return absl::OkStatus(); }
  // What was seen, from whoever has it; see redlatch::cli::Break().
  virtual absl::Status Break(const Sight& seen) = 0;

 protected:
  Looker() = default;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_LOOKER_H_
