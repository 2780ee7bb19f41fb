#ifndef REDLATCH_TESTS_SUPPORT_QUORUM_GROUP_H_
#define REDLATCH_TESTS_SUPPORT_QUORUM_GROUP_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/redis_server.h"

namespace redlatch::support {

// "redlock:redis://...,redis://...", each with these options.
template <class Servers>
std::string QuorumUrl(const Servers& servers, const std::string& options) {
  std::string text;
  for (const auto& server : servers) {
    absl::StrAppend(&text, text.empty() ? "redlock:" : ",", server->url(),
                    options.empty() ? "" : "?", options);
  }
  return text;
}

// Independent servers of a test's own.
class QuorumGroup {
 public:
  explicit QuorumGroup(size_t size = 5, const RedisServerOptions& options = {}) {
    for (size_t i = 0; i < size; ++i) servers_.push_back(RedisServer::Start(options));
  }

  // Each with options of its own.
  explicit QuorumGroup(const std::vector<RedisServerOptions>& options) {
    for (const RedisServerOptions& each : options) servers_.push_back(RedisServer::Start(each));
  }

  size_t size() const { return servers_.size(); }
  RedisServer& operator[](size_t i) { return *servers_[i]; }

  std::string url(const std::string& options = {}) const { return QuorumUrl(servers_, options); }

  // On how many servers a key is.
  size_t Having(const std::string& key) {
    size_t count = 0;
    for (const auto& server : servers_) {
      count += server->Integer({"EXISTS", key}) > 0 ? 1U : 0U;
    }
    return count;
  }

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_QUORUM_GROUP_H_
