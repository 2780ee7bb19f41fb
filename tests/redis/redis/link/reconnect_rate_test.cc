// A server that accepts connections and ends them at once is not besieged, at whatever moment it
// does so; and the first reconnection after a loss does not wait.

#include "src/redis/connect/comeback.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

constexpr absl::Duration kRateTime = absl::Seconds(2);
// What back-off allows for in that time, of one connection: 10 ms, 20 ms ... 640 ms, each jittered.
constexpr int kMostConnections = 12;

bool IsOurScript(const FakeServer::Asked& asked) {
  return asked.command[0] == "EVALSHA" && asked.command[1] != std::string(40, '0');
}

// A waiter has a command connection and a subscription.
TEST(ReconnectRate, OfAWaiterIsBoundedWhereverTheServerHangsUp) {
  struct Case {
    const char* at;
    int connections;  // that break
  };
  for (const auto& [at, connections] : {Case{"script", 1}, {"handshake", 2}, {"SUBSCRIBE", 1}}) {
    SCOPED_TRACE(at);
    const std::string where = at;
    FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
      if (where == "handshake" || (where == "script" && IsOurScript(asked))) return std::nullopt;
      if (IsOurScript(asked)) return "+queued 1000 1 1\r\n";
      asked.hang_up = asked.command[0] == where;
      return FakeServer::Polite(asked);
    });
    SimpleLock lock(Connect(server.url(), {.connect = ConnectPolicy::kLazy}), "lock");
    const base::Instant end = base::Now() + kRateTime;
    while (base::Now() < end) {
      EXPECT_FALSE(lock.Acquire({.wait = end - base::Now()}).ok());
    }
    EXPECT_LE(server.connections(), 1 + connections * kMostConnections);
  }
}

TEST(Comeback, IsAtOnceAfterTheFirstLossAndHeldBackAfterThat) {
  redis::Comeback comeback(absl::Hours(1), absl::Hours(1));
  for (const bool at_once : {true, false}) {
    comeback.Made();
    comeback.Heard(1);
    comeback.Lost();
    EXPECT_EQ(comeback.next_attempt() <= base::Now(), at_once);
  }
}

}  // namespace
}  // namespace redlatch
