// TLS under everything that uses a connection.
#include "src/redis/transport/tls_transport.h"

#include "src/redis/connect/connector.h"
#include "src/redis/link/subscriber.h"
#include "tests/redis/redis/transport/tls_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

class TlsTransportTest : public TlsTest {
 protected:
  std::unique_ptr<SharedConnection> To(const std::string& url,
                                       SharedConnectionOptions options = {}) {
    auto connection = std::make_unique<SharedConnection>(UrlOf(url), std::move(options));
    const absl::Status connected = connection->Connect(In(kPatience));
    EXPECT_TRUE(connected.ok()) << connected;
    return connection;
  }
  std::string Proxied(const std::string& options = "") const {
    return UrlAt("127.0.0.1", proxy_.port(), options);
  }

  const std::unique_ptr<RedisServer> server_ = Showing(authority_.Certify());
  TcpProxy proxy_{{.port = server_->tls_port()}};
};

TEST_F(TlsTransportTest, ConnectsByNameAndByAddress) {
  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    EXPECT_EQ(Echo(*To(UrlAt(host, server_->tls_port())), host), host);
  }
}

TEST_F(TlsTransportTest, ThePlainSchemeMayAskForTls) {
  const std::string url =
      absl::StrCat("redis://127.0.0.1:", server_->tls_port(), "?tls=on&ca=", authority_.file());
  EXPECT_EQ(Echo(*To(url), "hello"), "hello");
}

TEST_F(TlsTransportTest, TakesAnyCertificateOnlyWhereThatIsSaid) {
  const auto connection =
      To(absl::StrCat("rediss://127.0.0.1:", server_->tls_port(), "?tls=insecure"));
  EXPECT_EQ(Echo(*connection, "hello"), "hello");
  EXPECT_THAT(connection->server_info().warnings,
              ElementsAre(HasSubstr("is not verified (tls=insecure)")));
  EXPECT_THAT(To(server_->tls_url())->server_info().warnings, IsEmpty());
}

TEST_F(TlsTransportTest, CarriesWhatIsSmallAndWhatIsBig) {
  const auto connection = To(server_->tls_url());
  for (const size_t size : {0, 1, 16383, 16384, 16385, 100'000, 5'000'000}) {
    const std::string text(size, 'x');
    EXPECT_EQ(Echo(*connection, text).size(), size);
  }
}

TEST_F(TlsTransportTest, ManyThreadsGetEachItsOwnReplies) {
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(80)}) {
    const auto connection = To(server_->tls_url(), {.spin = spin});
    InThreads(6, [&](int thread) {
      for (int i = 0; i < 300; ++i) {
        const std::string mine =
            absl::StrCat(thread, ":", i, std::string(thread == 0 ? i * 400 : i, 'x'));
        ASSERT_EQ(Echo(*connection, mine), mine);
      }
    });
    EXPECT_EQ(connection->stats().connects, 1);
    EXPECT_EQ(connection->stats().late, 0);
  }
}

TEST_F(TlsTransportTest, ConnectionsThatAreLostAreMadeAgainAndNobodyGetsAnothersReply) {
  const auto connection = To(Proxied(), {.first_backoff = absl::Milliseconds(1)});
  std::atomic<bool> stop{false};
  std::thread breaker([&] {
    for (int i = 0; i < 30; ++i) {
      EXPECT_TRUE(Await([&] { return connection->peer().has_value(); }));
      const uint64_t breaks = connection->stats().breaks;
      proxy_.ResetAll();
      EXPECT_TRUE(Await([&] { return connection->stats().breaks > breaks; }));
    }
    stop = true;
  });
  std::atomic<int> answered{0};
  InThreads(4, [&](int thread) {
    for (int i = 0; !stop; ++i) {
      const std::string mine = absl::StrCat(thread, ":", i);
      const auto reply = connection->Call({"ECHO", mine}, In(kPatience));
      if (!reply.ok()) continue;
      ASSERT_EQ(reply->text, mine);
      ++answered;
    }
  });
  breaker.join();
  EXPECT_GT(answered, 0);
}

// The handshake takes several steps; a caller may have time for less than one.
TEST_F(TlsTransportTest, GoesOnWhereACallOfLittlePatienceHasStopped) {
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(5));
  for (int i = 0; i < 10; ++i) {
    Connector connector(UrlOf(Proxied()), Handshake::Purpose::kCommands);
    EXPECT_TRUE(Await([&] {
      const auto made = connector.Step(In(absl::Microseconds(200)));
      return made.ok() && made->has_value();
    }));
  }
  // Each connects twice, to see that the address leads to one server.
  EXPECT_LE(proxy_.stats().accepted, 20) << "each goes on with its own";
}

// What the server sends when it shows a certificate is more than what it sends otherwise.
TEST_F(TlsTransportTest, WhoConnectsAgainGoesOnWithTheSession) {
  const auto connection = To(Proxied());
  int64_t before = 0;
  const auto received = [&] {
    EXPECT_EQ(Echo(*connection, "x"), "x");
    const int64_t now = proxy_.stats().bytes_to_client;
    return now - std::exchange(before, now);
  };
  const int64_t first = received();
  for (int i = 0; i < 3; ++i) {
    connection->MakeAnew("a test wants it");
    EXPECT_LT(received(), first - 400);
  }
  EXPECT_EQ(connection->stats().connects, 4);
}

TEST_F(TlsTransportTest, FilesThatHaveChangedAreReadAgain) {
  const Authority other("another authority");
  const std::string ca = authority_.File("ca.pem", "");
  std::ofstream(ca) << std::ifstream(other.file()).rdbuf();
  SharedConnection connection(
      UrlOf(absl::StrCat("rediss://127.0.0.1:", server_->tls_port(), "?ca=", ca)));
  EXPECT_EQ(connection.Connect(In(kPatience)).code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(ca) << std::ifstream(authority_.file()).rdbuf();
  EXPECT_EQ(Echo(connection, "hello"), "hello");
  // Half written, they are not taken.
  std::ofstream(ca) << "-----BEGIN";
  connection.MakeAnew("a test wants it");
  EXPECT_EQ(Echo(connection, "hello"), "hello");
}

TEST_F(TlsTransportTest, AServerThatStallsInTheHandshakeIsGivenUpInTime) {
  proxy_.Hold(Direction::kToClient);
  SharedConnection connection(UrlOf(Proxied("connect_timeout=150ms")));
  const base::Instant began = base::Now();
  EXPECT_EQ(connection.Connect(In(kPatience)).code(), absl::StatusCode::kUnavailable);
  EXPECT_LT(base::Now() - began, absl::Milliseconds(150) + kGrace);
}

TEST_F(TlsTransportTest, CarriesMessages) {
  std::atomic<int> heard{0};
  std::atomic<int> live_again{0};
  SubscriberOptions options{.first_backoff = absl::Milliseconds(1)};
  options.on_message = [&](std::string_view, std::string_view message) {
    heard += message == "hello" ? 1 : 0;
  };
  options.on_live_again = [&] { ++live_again; };
  Subscriber subscriber(UrlOf(Proxied()), std::move(options));
  ASSERT_TRUE(subscriber.Subscribe("c", In(kPatience)).ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server_->Integer({"PUBLISH", "c", "hello"}), 1);
  EXPECT_TRUE(Await([&] { return heard == 20; })) << heard;
  proxy_.ResetAll();
  EXPECT_TRUE(Await([&] { return live_again == 1; }));
  EXPECT_EQ(server_->Integer({"PUBLISH", "c", "hello"}), 1);
  EXPECT_TRUE(Await([&] { return heard == 21; })) << heard;
}

// It closes the descriptor, and says nothing over the connection that its parent goes on using.
TEST_F(TlsTransportTest, AForkedChildMayDeleteAConnection) {
  auto connection = To(server_->tls_url());
  EXPECT_EQ(Echo(*connection, "before"), "before");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    connection.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(Echo(*connection, "after"), "after");
  EXPECT_EQ(connection->stats().connects, 1);
}

}  // namespace
}  // namespace redlatch::redis
