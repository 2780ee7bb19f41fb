#ifndef REDLATCH_TESTS_SUPPORT_QUORUM_FIXTURE_H_
#define REDLATCH_TESTS_SUPPORT_QUORUM_FIXTURE_H_

#include <cstddef>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/lock_keys.h"
#include "tests/support/proxied_quorum.h"
#include "tests/support/quorum_group.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

// Five servers, and proxies through which a client sees them.
class QuorumFixture : public ::testing::Test {
 protected:
  static constexpr char kName[] = "orders:42";

  bool IsHeldAt(size_t i) { return servers_[i].Integer({"EXISTS", kName}) == 1; }
  bool IsWaitedForAt(size_t i) {
    return servers_[i].Integer({"EXISTS", AuxiliaryKey(kName, "quorum.queue")}) == 1;
  }
  // Neither held nor waited for, there.
  bool Forgets(size_t i) {
    return Await([&] { return !IsHeldAt(i) && !IsWaitedForAt(i); }, absl::Seconds(3));
  }

  QuorumGroup servers_;
  ProxiedQuorum proxies_{servers_};
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_QUORUM_FIXTURE_H_
