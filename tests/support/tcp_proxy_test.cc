#include "tests/support/tcp_proxy.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/proxy_test_fixture.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"

namespace redlatch::support {
namespace {

using ::testing::HasSubstr;

class TcpProxyTest : public ProxyTestFixture {};

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
  RawConnection first = Connect();
  RawConnection second = Connect();
  ASSERT_EQ(first.Command({"PING"}).text, "PONG");
  ASSERT_EQ(second.Command({"PING"}).text, "PONG");
  proxy_.ResetAll();
  EXPECT_EQ(proxy_.stats().open, 0);
  EXPECT_EQ(Listen(first).ending, Ending::kReset);
  EXPECT_EQ(Listen(second).ending, Ending::kReset);
  EXPECT_TRUE(AwaitServerAlone());
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, ResetReachesTheClientThoughAnotherProcessHasTheSocket) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"PING"}).text, "PONG");
  const auto child = Child::Fork([](LinePipe& parent) { return parent.ReadLine().has_value(); });
  proxy_.ResetAll();
  EXPECT_EQ(Listen(connection).ending, Ending::kReset);
}

TEST_F(TcpProxyTest, CloseAllIsAnOrderlyEndForBothSides) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"PING"}).text, "PONG");
  proxy_.Hold(Direction::kToServer);
  connection.Send({"PING"});  // bytes that wait must not make a reset of it
  ASSERT_TRUE(AwaitWaiting(1));
  proxy_.CloseAll();
  EXPECT_EQ(Listen(connection).ending, Ending::kFin);
  EXPECT_TRUE(AwaitServerAlone());
  { const RawConnection closed = std::move(connection); }
  EXPECT_TRUE(AwaitOpen(0));
}

TEST_F(TcpProxyTest, HalfClosedToTheClientTheServerStillHears) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"PING"}).text, "PONG");
  proxy_.HalfClose(Direction::kToClient);
  EXPECT_EQ(Listen(connection).ending, Ending::kFin);
  connection.Send({"INCR", "counter"});
  EXPECT_TRUE(AwaitCounter("1"));
}

TEST_F(TcpProxyTest, RefusesNewConnectionsOnly) {
  RawConnection old = Connect();
  ASSERT_EQ(old.Command({"PING"}).text, "PONG");
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
  RawConnection old = Connect();
  ASSERT_EQ(old.Command({"PING"}).text, "PONG");
  proxy_.SetArrival(Arrival::kHang);
  const base::Instant before = base::Now();
  EXPECT_TRUE(Connect(kSilence).broken());
  EXPECT_GE(base::Now() - before, kSilence);
  EXPECT_EQ(old.Command({"PING"}).text, "PONG");
  proxy_.SetArrival(Arrival::kServe);
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
  EXPECT_EQ(proxy_.stats().accepted, 2);
}

}  // namespace
}  // namespace redlatch::support
