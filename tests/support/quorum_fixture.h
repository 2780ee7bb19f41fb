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

// Five servers, a client that sees all of them through proxies of its own, and one that sees three.
class QuorumFixture : public ::testing::Test {
 protected:
  static constexpr char kName[] = "orders:42";

  QuorumFixture() {
    for (const size_t i : {3, 4}) of_three_[i].SetArrival(Arrival::kRefuse);
  }

  bool IsHeldAt(size_t i) { return servers_[i].Integer({"EXISTS", kName}) == 1; }
  bool IsWaitedForAt(size_t i) {
    return servers_[i].Integer({"EXISTS", AuxiliaryKey(kName, "quorum.queue")}) == 1;
  }
  // Neither held nor waited for, there.
  bool Forgets(size_t i) {
    return Await([&] { return !IsHeldAt(i) && !IsWaitedForAt(i); }, absl::Seconds(3));
  }
  int ClientsOf(size_t i) { return std::stoi(servers_[i].Info("connected_clients")); }

  QuorumGroup servers_;
  ProxiedQuorum proxies_{servers_};
  ProxiedQuorum of_three_{servers_};  // the first three
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_QUORUM_FIXTURE_H_
