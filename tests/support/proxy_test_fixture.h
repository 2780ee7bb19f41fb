#ifndef REDLATCH_TESTS_SUPPORT_PROXY_TEST_FIXTURE_H_
#define REDLATCH_TESTS_SUPPORT_PROXY_TEST_FIXTURE_H_

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {

// What the tests of the proxy itself share: a server, the proxy before it, and ears.
class ProxyTestFixture : public ::testing::Test {
 protected:
  static constexpr absl::Duration kSilence = absl::Milliseconds(30);  // an answer would be there
  static constexpr absl::Duration kPatience = absl::Seconds(10);

  enum class Ending : uint8_t { kOpen, kFin, kReset };

  struct Heard {
    std::string bytes;
    Ending ending = Ending::kOpen;
  };

  // What comes on a connection until its stream ends, or nothing more comes within `patience`.
  static Heard Listen(const RawConnection& connection, absl::Duration patience = kPatience) {
    Heard heard;
    for (;;) {
      pollfd wait{connection.descriptor(), POLLIN, 0};
      if (poll(&wait, 1, static_cast<int>(patience / absl::Milliseconds(1))) == 0) return heard;
      char buffer[65536];
      const ssize_t got = recv(wait.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got > 0) {
        heard.bytes.append(buffer, static_cast<size_t>(got));
        continue;
      }
      EXPECT_TRUE(got == 0 || errno == ECONNRESET);
      heard.ending = got == 0 ? Ending::kFin : Ending::kReset;
      return heard;
    }
  }

  static bool SaysNothing(const RawConnection& connection) {
    const Heard heard = Listen(connection, kSilence);
    return heard.bytes.empty() && heard.ending == Ending::kOpen;
  }

  RawConnection Connect(absl::Duration timeout = kPatience) {
    return RawConnection::ToPort(proxy_.port(), timeout);
  }

  bool AwaitWaiting(int64_t bytes) {
    return proxy_.Await([=](const ProxyStats& stats) { return stats.bytes_waiting >= bytes; });
  }
  bool AwaitDropped() {
    return proxy_.Await([](const ProxyStats& stats) { return stats.bytes_dropped > 0; });
  }
  bool AwaitOpen(int connections) {
    return proxy_.Await([=](const ProxyStats& stats) { return stats.open == connections; });
  }

  // Until the server has no client but this question's.
  bool AwaitServerAlone() { return server_->AwaitInfo("connected_clients", "1"); }

  bool AwaitCounter(std::string_view value) {
    const base::Instant deadline = base::Now() + kPatience;
    while (server_->Text({"GET", "counter"}) != value) {
      if (base::Now() > deadline) return false;
    }
    return true;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
};

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_PROXY_TEST_FIXTURE_H_
