#ifndef REDLATCH_SRC_CLI_LOOK_QUORUM_LOOKER_H_
#define REDLATCH_SRC_CLI_LOOK_QUORUM_LOOKER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/cli/look/looker.h"
#include "src/cli/look/sight.h"
#include "src/cli/term/quorum_servers.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// Looks at the servers of a quorum, all at the same time.
class QuorumLooker final : public Looker {
 public:
  // REQUIRES: `parsed`, of `url`, is a quorum's.
  QuorumLooker(const redis::Url& parsed, std::string_view url) : servers_(parsed, url) {}

  const std::string& name() const override { return servers_.name(); }
  absl::StatusOr<Sight> LookClosely(const std::string& name) override;
  absl::Status undecided() const override { return undecided_; }
  // At each server that has granted it, to whomever. Not OK if a majority cannot be asked.
  absl::Status Break(const Sight& seen) override;

 private:
  QuorumServers servers_;
  absl::Status undecided_;
};

// What the servers' sights come to; `seen`: one for each server. Pure.
Sight SightOfQuorum(const std::string& name, const std::vector<std::string>& servers,
                    const std::vector<absl::StatusOr<Sight>>& seen);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_LOOK_QUORUM_LOOKER_H_
