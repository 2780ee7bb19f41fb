#include "tests/support/reserved_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/random.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

constexpr int kFirst = 10000;
constexpr int kCount = 20000;  // up to 29999; outgoing connections begin at 32768
constexpr int kAttempts = 1000;

// A socket bound to the abstract name of `port`; invalid where another has it.
base::UniqueFd Claim(int port) {
  base::UniqueFd claim(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CheckErrno(claim.valid(), "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "redlatch-test-port-" + std::to_string(port);
  std::memcpy(address.sun_path + 1, name.data(), name.size());  // the leading 0 makes it abstract
  const size_t length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  if (bind(claim.get(), reinterpret_cast<sockaddr*>(&address), static_cast<socklen_t>(length)) !=
      0) {
    claim.Reset();
  }
  return claim;
}

bool NobodyListens(int port) {
  const base::UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  CheckErrno(probe.valid(), "socket");
  const int on = 1;
  setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return bind(probe.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
}

}  // namespace

ReservedPort::ReservedPort() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const int port = kFirst + static_cast<int>(base::RandomBits() % kCount);
    base::UniqueFd claim = Claim(port);
    if (!claim.valid() || !NobodyListens(port)) continue;
    number_ = port;
    claim_ = std::move(claim);
    return;
  }
  Fatal("no free TCP port between 10000 and 29999");
}

}  // namespace redlatch::support
