#ifndef REDLATCH_SRC_CLI_TERM_QUORUM_SERVERS_H_
#define REDLATCH_SRC_CLI_TERM_QUORUM_SERVERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "src/base/majority.h"
#include "src/cli/term/server.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// The servers of a quorum, each of which is looked at by itself, and all at the same time: those
// that cannot be reached cost together what one costs, once.
class QuorumServers {
 public:
  // REQUIRES: `parsed`, of `url`, is a quorum's.
  QuorumServers(const redis::Url& parsed, std::string_view url);

  size_t size() const { return servers_.size(); }
  size_t majority() const { return base::Majority(size()); }
  // The URLs, without users and passwords.
  const std::string& name() const { return name_; }
  const std::string& name(size_t i) const { return servers_[i].name; }

  // Calls `look` with each that can be reached; connects first where that has not been tried. What
  // has become of each.
  std::vector<absl::Status> Look(const std::function<absl::Status(size_t i, Server& server)>& look);

  // OK if a majority of these are; else kUnavailable, or kPermissionDenied and such if that is why.
  absl::Status WhyNoMajority(const std::vector<absl::Status>& outcomes) const;

 private:
  struct One {
    std::string url;
    std::string name;
    absl::Status opened = absl::UnknownError("not tried");
    std::unique_ptr<Server> server;
  };

  const std::string name_;
  std::vector<One> servers_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_QUORUM_SERVERS_H_
