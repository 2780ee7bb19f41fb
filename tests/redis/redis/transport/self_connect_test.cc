// A port without a listener, in the kernel's range for clients: a socket may be connected to itself
// there.
#include <arpa/inet.h>
#include <netinet/in.h>

#include "src/redis/transport/open.h"
#include "src/redis/transport/transport.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

TEST(SelfConnect, IsARefusedConnection) {
  int first = 32768;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  int accepted = 0;
  bool met = false;
  // The kernel walks through the range, odd or even ports first.
  for (int i = 0; i < 60'000 && !met; ++i) {
    Target target;
    auto* address = reinterpret_cast<sockaddr_in*>(&target.address.storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(static_cast<uint16_t>(first + 11'000 + i % 2));
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    target.address.size = sizeof *address;
    auto transport = OpenTransport(target);
    ASSERT_TRUE(transport.ok()) << transport.status();
    IoResult result = (*transport)->Connect();
    while (result.blocked()) {
      (*transport)->Wait(result.wants(), -1, base::Now() + absl::Seconds(10));
      result = (*transport)->Connect();
    }
    met = result.kind == IoResult::Kind::kDone;
    accepted += met ? 1 : 0;
    EXPECT_TRUE(met || result.error == ECONNREFUSED);
  }
  EXPECT_EQ(accepted, 0);
}

}  // namespace
}  // namespace redlatch::redis
