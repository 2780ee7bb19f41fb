#ifndef REDLATCH_TESTS_SUPPORT_PROXIED_QUORUM_H_
#define REDLATCH_TESTS_SUPPORT_PROXIED_QUORUM_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/quorum_group.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

// The same servers as one client sees them: through proxies of its own.
class ProxiedQuorum {
 public:
  explicit ProxiedQuorum(QuorumGroup& servers) {
    for (size_t i = 0; i < servers.size(); ++i) {
      proxies_.push_back(std::make_unique<TcpProxy>(TcpProxyOptions{.port = servers[i].port()}));
    }
  }

  TcpProxy& operator[](size_t i) { return *proxies_[i]; }

  std::string url(const std::string& options = {}) const { return QuorumUrl(proxies_, options); }

 private:
  std::vector<std::unique_ptr<TcpProxy>> proxies_;
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_PROXIED_QUORUM_H_
