#include "tests/support/tcp_proxy.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/proxy_test_fixture.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

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

TEST_F(TcpProxyTest, ForwardsMuchInBothDirectionsUnharmed) {
  std::string value;
  for (int i = 0; value.size() < (size_t{24} << 20); ++i) value += std::to_string(i);
  RawConnection connection = Connect();
  for (const absl::Duration delay : {absl::ZeroDuration(), absl::Milliseconds(1)}) {
    proxy_.Delay(Direction::kToServer, delay);
    proxy_.Delay(Direction::kToClient, delay);
    EXPECT_TRUE(connection.Command({"ECHO", value}).text == value);
  }
  EXPECT_EQ(proxy_.stats().bytes_waiting, 0);
}

TEST_F(TcpProxyTest, ListensOnAUnixSocketToo) {
  const TempDir directory;
  const std::string path = directory.path() + "/proxy.sock";
  const TcpProxy proxy({.port = server_->port(), .listen_socket_path = path});
  EXPECT_EQ(proxy.unix_url(), "unix://" + path);
  EXPECT_EQ(RawConnection::ToSocket(path).Command({"PING"}).text, "PONG");
  EXPECT_EQ(RawConnection::ToPort(proxy.port()).Command({"PING"}).text, "PONG");
}

TEST_F(TcpProxyTest, PassesTheServersEndOn) {
  RawConnection connection = Connect();
  EXPECT_EQ(connection.Command({"QUIT"}).text, "OK");
  EXPECT_EQ(Listen(connection).ending, Ending::kFin);
  RawConnection other = Connect();
  EXPECT_EQ(other.Command({"PING"}).text, "PONG");
  server_->Kill();
  EXPECT_NE(Listen(other).ending, Ending::kOpen);
}

TEST_F(TcpProxyTest, PassesTheClientsHalfCloseOn) {
  RawConnection connection = Connect();
  connection.Send({"PING"});
  shutdown(connection.descriptor(), SHUT_WR);
  const Heard heard = Listen(connection);
  EXPECT_EQ(heard.bytes, "+PONG\r\n");
  EXPECT_EQ(heard.ending, Ending::kFin);
}

TEST_F(TcpProxyTest, ResetsClientsWhileTheServerIsDown) {
  server_->Kill();
  EXPECT_THAT(Connect().Command({"PING"}).text, HasSubstr("reset by peer"));
  server_->Restart();
  EXPECT_EQ(Connect().Command({"PING"}).text, "PONG");
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

TEST_F(TcpProxyTest, HalfClosedToTheServerTheServerCloses) {
  RawConnection connection = Connect();
  ASSERT_EQ(connection.Command({"PING"}).text, "PONG");
  proxy_.HalfClose(Direction::kToServer);
  EXPECT_EQ(Listen(connection).ending, Ending::kFin);
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

TEST_F(TcpProxyTest, ConnectToAUnixSocketHangs) {
  const TempDir directory;
  const std::string path = directory.path() + "/proxy.sock";
  TcpProxy proxy({.port = server_->port(), .listen_socket_path = path});
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const base::UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto try_connect = [&] {
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address));
  };
  proxy.SetArrival(Arrival::kHang);
  EXPECT_EQ(try_connect(), -1);
  EXPECT_EQ(errno, EAGAIN);
  proxy.SetArrival(Arrival::kRefuse);
  EXPECT_EQ(try_connect(), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  proxy.Heal();
  EXPECT_EQ(try_connect(), 0);
  EXPECT_EQ(RawConnection::ToSocket(path).Command({"PING"}).text, "PONG");
}

}  // namespace
}  // namespace redlatch::support
