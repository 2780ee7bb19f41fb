// The faults of TcpProxy that befall bytes: delay, hold, drop, cut.
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/support/proxy_test_fixture.h"
#include "tests/support/raw_connection.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::support {
namespace {

constexpr int64_t kIncrSize = 27;  // the bytes of INCR counter

class TcpProxyBytesTest : public ProxyTestFixture {
 protected:
  // Closes with RST.
  static void CloseByReset(const RawConnection& connection) {
    const linger at_once{1, 0};
    setsockopt(connection.descriptor(), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  }
};

TEST_F(TcpProxyBytesTest, DelaysEitherDirectionAtFullBandwidth) {
  constexpr absl::Duration kDelay = absl::Milliseconds(40);
  constexpr int kCommands = 1000;
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    proxy_.Delay(direction, kDelay);
    RawConnection connection = Connect();
    const base::Instant before = base::Now();
    for (int i = 0; i < kCommands; ++i) connection.Send({"ECHO", std::to_string(i)});
    EXPECT_EQ(connection.Receive().text, "0");
    EXPECT_GE(base::Now() - before, kDelay);
    for (int i = 1; i < kCommands; ++i) ASSERT_EQ(connection.Receive().text, std::to_string(i));
    EXPECT_LT(base::Now() - before, kDelay * (kCommands / 10));
    proxy_.Heal();
  }
}

TEST_F(TcpProxyBytesTest, HeldRequestsReachTheServerOnRelease) {
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

TEST_F(TcpProxyBytesTest, OldConnectionDeliversLateThoughItsClientIsGone) {
  for (const bool by_reset : {false, true}) {
    server_->Command({"SET", "counter", "0"});
    RawConnection old = Connect();
    ASSERT_EQ(old.Command({"PING"}).text, "PONG");
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

TEST_F(TcpProxyBytesTest, DroppedReplyIsOfACommandThatWasExecuted) {
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

TEST_F(TcpProxyBytesTest, DroppedRequestIsNeverExecuted) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"SET", "counter", "0"}).text, "OK");
  proxy_.Drop(Direction::kToServer, Scope::kExisting);
  connection.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitDropped());
  EXPECT_EQ(Connect().Command({"GET", "counter"}).text, "0");  // a new connection passes
  EXPECT_TRUE(SaysNothing(connection));
}

TEST_F(TcpProxyBytesTest, DropRepliesSilencesSoManyConnections) {
  RawConnection first = Connect();
  RawConnection second = Connect();
  ASSERT_EQ(second.Command({"PING"}).text, "PONG");
  proxy_.DropReplies(1);
  first.Send({"INCR", "counter"});
  ASSERT_TRUE(AwaitDropped());
  first.Send({"INCR", "counter"});  // executed, and unanswered too: a stream has no hole
  EXPECT_TRUE(AwaitCounter("2"));
  EXPECT_TRUE(SaysNothing(first));
  EXPECT_EQ(second.Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyBytesTest, CutInPlaceOfTheReply) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"PING"}).text, "PONG");
  proxy_.CutAfter(Direction::kToClient, 0);
  connection.Send({"INCR", "counter"});
  const Heard heard = Listen(connection);
  EXPECT_EQ(heard.bytes, "");
  EXPECT_EQ(heard.ending, Ending::kReset);
  EXPECT_EQ(server_->Text({"GET", "counter"}), "1");
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyBytesTest, CutInTheMiddleOfARequest) {
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
