// Tests that the fault proxy forwards, and does what its controls say.
#include <poll.h>
#include <sys/socket.h>

#include <cstring>

#include "tests/support/live_testing.h"

namespace redlatch::support {
namespace {

constexpr int64_t kIncrSize = 27;  // the bytes of INCR counter

struct TcpProxyTest : ::testing::Test {
  static constexpr absl::Duration kSilence = absl::Milliseconds(30);  // an answer would be there
  static constexpr absl::Duration kTimeout = absl::Seconds(10);

  enum class Ending : uint8_t { kOpen, kFin, kReset };

  struct Received {
    std::string bytes;
    Ending ending = Ending::kOpen;
  };

  // Reads from a connection until its stream ends, or until nothing more comes within `timeout`.
  static Received Listen(const RawConnection& connection, absl::Duration timeout = kTimeout) {
    Received received;
    for (;;) {
      pollfd wait{connection.descriptor(), POLLIN, 0};
      if (poll(&wait, 1, static_cast<int>(timeout / absl::Milliseconds(1))) == 0) return received;
      char buffer[65536];
      const ssize_t got = recv(wait.fd, buffer, sizeof(buffer), MSG_DONTWAIT);
      if (got > 0) {
        received.bytes.append(buffer, static_cast<size_t>(got));
        continue;
      }
      EXPECT_TRUE(got == 0 || errno == ECONNRESET);
      received.ending = got == 0 ? Ending::kFin : Ending::kReset;
      return received;
    }
  }

  static bool SaysNothing(const RawConnection& connection) {
    const Received received = Listen(connection, kSilence);
    return received.bytes.empty() && received.ending == Ending::kOpen;
  }

  // Closes with RST.
  static void CloseByReset(const RawConnection& connection) {
    const linger at_once{1, 0};
    setsockopt(connection.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
  RawConnection Connect(absl::Duration timeout = kTimeout) {
    return RawConnection::ToPort(proxy_.port(), timeout);
  }

  // A connection that has been used.
  RawConnection Connected() {
    RawConnection connection = Connect();
    EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
    return connection;
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

  // Waits until the server has no client except the one that asks.
  bool AwaitServerAlone() { return server_->AwaitInfo("connected_clients", "1"); }

  bool AwaitCounter(std::string_view value) {
    const base::Instant deadline = base::Now() + kTimeout;
    while (server_->Text({"GET", "counter"}) != value) {
      if (base::Now() > deadline) return false;
    }
    return true;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
};

TEST_F(TcpProxyTest, ForwardsAndCounts) {
  RawConnection connection = Connect();
  EXPECT_EQ(connection.Command({"PING"}).text, "PONG");
  ASSERT_TRUE(proxy_.Await([](const ProxyStats& now) { return now.bytes_to_client == 7; }));
  const ProxyStats stats = proxy_.stats();
  EXPECT_EQ(stats.accepted, 1);
  EXPECT_EQ(stats.open, 1);
  EXPECT_EQ(stats.bytes_to_server, std::strlen("*1\r\n$4\r\nPING\r\n"));
  { const RawConnection closed = std::move(connection); }
  EXPECT_TRUE(AwaitOpen(0));
  EXPECT_TRUE(AwaitServerAlone());
}

TEST_F(TcpProxyTest, ResetAllReachesBothSides) {
  RawConnection first = Connected();
  RawConnection second = Connected();
  proxy_.ResetAll();
  EXPECT_EQ(proxy_.stats().open, 0);
  EXPECT_EQ(Listen(first).ending, Ending::kReset);
  EXPECT_EQ(Listen(second).ending, Ending::kReset);
  EXPECT_TRUE(AwaitServerAlone());
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, HalfCloseToTheClientLeavesTheOtherDirection) {
  RawConnection connection = Connected();
  proxy_.HalfClose(Direction::kToClient);
  EXPECT_EQ(Listen(connection).ending, Ending::kFin);
  connection.Send({"INCR", "counter"});
  EXPECT_TRUE(AwaitCounter("1"));
}

TEST_F(TcpProxyTest, RefusesOnlyNewConnections) {
  RawConnection old = Connected();
  proxy_.SetArrival(Arrival::kRefuse);
  EXPECT_THAT(Connect().Command({"PING"}).text, HasSubstr("Connection refused"));
  EXPECT_EQ(old.Command({"PING"}).text, "PONG");
  proxy_.SetArrival(Arrival::kServe);
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, IgnoredConnectionIsServedAfterHeal) {
  proxy_.SetArrival(Arrival::kIgnore);
  RawConnection connection = Connect();
  ASSERT_FALSE(connection.broken());
  connection.Send({"PING"});
  EXPECT_TRUE(SaysNothing(connection));
  EXPECT_EQ(proxy_.stats().accepted, 0);
  proxy_.Heal();
  EXPECT_EQ(connection.Receive().text, "PONG");
}

TEST_F(TcpProxyTest, ConnectHangs) {
  RawConnection old = Connected();
  proxy_.SetArrival(Arrival::kHang);
  const base::Instant before = base::Now();
  EXPECT_TRUE(Connect(kSilence).broken());
  EXPECT_GE(base::Now() - before, kSilence);
  EXPECT_EQ(old.Command({"PING"}).text, "PONG");
  proxy_.SetArrival(Arrival::kServe);
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
  EXPECT_EQ(proxy_.stats().accepted, 2);
}

TEST_F(TcpProxyTest, HeldRequestsReachTheServerOnRelease) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"SET", "counter", "0"}).text, "OK");
  proxy_.Hold(Direction::kToServer);
  for (int i = 0; i < 3; ++i) connection.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitWaiting(3 * kIncrSize));
  EXPECT_EQ(server_->Text({"GET", "counter"}), "0");
  EXPECT_TRUE(SaysNothing(connection));
  proxy_.ReleaseHeld();
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(connection.Receive().integer, i);
}

TEST_F(TcpProxyTest, OldConnectionDeliversLateAfterItsClientIsGone) {
  for (const bool by_reset : {false, true}) {
    server_->Command({"SET", "counter", "0"});
    RawConnection old = Connected();
    proxy_.Hold(Direction::kToServer, Scope::kExisting);
    old.Send({"INCRBY", "counter", "10"});
    ASSERT_TRUE(AwaitWaiting(1));
    if (by_reset) CloseByReset(old);
    { const RawConnection closed = std::move(old); }
    EXPECT_EQ(Connect().Command({"INCR", "counter"}).integer, 1);  // a new connection passes
    EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
    proxy_.ReleaseHeld();
    EXPECT_TRUE(AwaitCounter("11"));
    EXPECT_TRUE(AwaitOpen(0));
  }
}

TEST_F(TcpProxyTest, CommandOfADroppedReplyIsExecuted) {
  RawConnection connection = Connect();
  proxy_.Drop(Direction::kToClient);
  connection.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitDropped());
  EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
  EXPECT_TRUE(SaysNothing(connection));
  RawConnection another = Connect();
  another.Send({"PING"});
  EXPECT_TRUE(SaysNothing(another));
  proxy_.Heal();
  EXPECT_EQ(Listen(connection).ending, Ending::kReset);
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, DroppedRequestIsNeverExecuted) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"SET", "counter", "0"}).text, "OK");
  proxy_.Drop(Direction::kToServer, Scope::kExisting);
  connection.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitDropped());
  EXPECT_EQ(Connect().Command({"GET", "counter"}).text, "0");  // a new connection passes
  EXPECT_TRUE(SaysNothing(connection));
}

TEST_F(TcpProxyTest, DropRepliesSilencesThatManyConnections) {
  RawConnection first = Connect();
  RawConnection second = Connected();
  proxy_.DropReplies(1);
  first.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitDropped());
  first.Send({"INCR", "counter"});  // it is executed, and its reply is lost, too
  EXPECT_TRUE(AwaitCounter("2"));
  EXPECT_TRUE(SaysNothing(first));
  EXPECT_EQ(second.Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, CutInPlaceOfTheReply) {
  RawConnection connection = Connected();
  proxy_.CutAfter(Direction::kToClient, 0);
  connection.Send({"INCR", "counter"});
  const Received received = Listen(connection);
  EXPECT_EQ(received.bytes, "");
  EXPECT_EQ(received.ending, Ending::kReset);
  EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, CutInTheMiddleOfARequest) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"SET", "counter", "0"}).text, "OK");
  proxy_.CutAfter(Direction::kToServer, kIncrSize + 10);
  EXPECT_EQ(connection.Command({"INCR", "counter"}).integer, 1);
  connection.Send({"INCR", "counter"});
  EXPECT_EQ(Listen(connection).ending, Ending::kReset);
  EXPECT_TRUE(AwaitServerAlone());
  EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
}

}  // namespace
}  // namespace redlatch::support
