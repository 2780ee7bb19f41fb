// Servers that speak TLS, and connections to them.
#include <netinet/in.h>
#include <sys/socket.h>

#include "src/redis/connect/connector.h"
#include "src/redis/link/connection.h"
#include "src/redis/transport/tls.h"
#include "tests/redis/redis/link/connection_fixture.h"
#include "tests/support/authority.h"

namespace redlatch::redis {
namespace {

struct TlsTest : ::testing::Test {
  using Authority = support::Authority;
  using RedisServer = support::RedisServer;

  // A server with the certificate in this file, which `authority_` has signed.
  std::unique_ptr<RedisServer> Showing(const std::string& cert, bool of_clients = false) const {
    return RedisServer::Start(
        {.tls =
             support::ServerTls{.cert = cert, .ca = authority_.file(), .of_clients = of_clients}});
  }
  std::string UrlAt(const std::string& host, int port, const std::string& options = "") const {
    return absl::StrCat("rediss://", host, ":", port, "?ca=", authority_.file(),
                        options.empty() ? "" : "&", options);
  }
  static absl::Status Connect(const std::string& url) {
    Connection connection(UrlOf(url));
    return connection.Connect(In(kAmpleTime));
  }
  // Connects, which must fail before its time is over, and returns the message.
  static std::string WhyNot(const std::string& url,
                            absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
    const base::Instant began = base::Now();
    const absl::Status status = Connect(url);
    EXPECT_LT(base::Now() - began, kAmpleTime / 2) << status;
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  Authority authority_;
};

// TLS under connections.

struct TlsTransportTest : TlsTest {
  std::unique_ptr<Connection> To(const std::string& url, ConnectionOptions options = {}) {
    auto connection = std::make_unique<Connection>(UrlOf(url), std::move(options));
    const absl::Status connected = connection->Connect(In(kAmpleTime));
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

TEST_F(TlsTransportTest, AcceptsAnyCertificateOnlyIfInsecure) {
  const auto connection =
      To(absl::StrCat("rediss://127.0.0.1:", server_->tls_port(), "?tls=insecure"));
  EXPECT_EQ(Echo(*connection, "hello"), "hello");
  EXPECT_THAT(connection->server_info().warnings,
              ElementsAre(HasSubstr("is not verified (tls=insecure)")));
  EXPECT_THAT(To(server_->tls_url())->server_info().warnings, IsEmpty());
}

TEST_F(TlsTransportTest, CarriesSmallAndBigValues) {
  const auto connection = To(server_->tls_url());
  for (const size_t size : {0, 1, 16383, 16384, 16385, 100'000, 5'000'000}) {
    const std::string text(size, 'x');
    EXPECT_EQ(Echo(*connection, text).size(), size);
  }
}

TEST_F(TlsTransportTest, ReconnectsWithoutMixingUpReplies) {
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
  Crew().Start(4, [&](int thread) {
    for (int i = 0; !stop; ++i) {
      const std::string mine = absl::StrCat(thread, ":", i);
      const auto reply = connection->Call({"ECHO", mine}, In(kAmpleTime));
      if (!reply.ok()) continue;
      ASSERT_EQ(reply->text, mine);
      ++answered;
    }
  });
  breaker.join();
  EXPECT_GT(answered, 0);
}

// A server that shows its certificate sends more bytes than one that resumes a session.
TEST_F(TlsTransportTest, ReconnectResumesSession) {
  const auto connection = To(Proxied());
  int64_t before = 0;
  const auto received = [&] {
    EXPECT_EQ(Echo(*connection, "x"), "x");
    const int64_t now = proxy_.stats().bytes_to_client;
    return now - std::exchange(before, now);
  };
  const int64_t first = received();
  for (int i = 0; i < 3; ++i) {
    connection->Replace("a test wants it");
    EXPECT_LT(received(), first - 400);
  }
  EXPECT_EQ(connection->stats().connects, 4);
}

TEST_F(TlsTransportTest, ChangedFilesAreReadAgain) {
  const Authority other("another authority");
  const std::string ca = authority_.File("ca.pem", "");
  std::ofstream(ca) << std::ifstream(other.file()).rdbuf();
  Connection connection(
      UrlOf(absl::StrCat("rediss://127.0.0.1:", server_->tls_port(), "?ca=", ca)));
  EXPECT_EQ(connection.Connect(In(kAmpleTime)).code(), absl::StatusCode::kFailedPrecondition);
  std::ofstream(ca) << std::ifstream(authority_.file()).rdbuf();
  EXPECT_EQ(Echo(connection, "hello"), "hello");
  // A half-written file is ignored.
  std::ofstream(ca) << "-----BEGIN";
  connection.Replace("a test wants it");
  EXPECT_EQ(Echo(connection, "hello"), "hello");
}

TEST_F(TlsTransportTest, StallInHandshakeEndsInTime) {
  proxy_.Hold(Direction::kToClient);
  Connection connection(UrlOf(Proxied("connect_timeout=150ms")));
  Punctuality punctuality;
  const base::Instant deadline = In(absl::Milliseconds(150));
  EXPECT_EQ(connection.Connect(In(kAmpleTime)).code(), absl::StatusCode::kUnavailable);
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_F(TlsTransportTest, CarriesMessages) {
  std::atomic<int> received{0};
  std::atomic<int> live_again{0};
  ConnectionOptions options{.first_backoff = absl::Milliseconds(1)};
  options.on_message = [&](std::string_view, std::string_view message) {
    received += message == "hello" ? 1 : 0;
  };
  options.on_reconnected = [&] { ++live_again; };
  Connection connection(UrlOf(Proxied()), std::move(options));
  ASSERT_TRUE(connection.Subscribe("c", In(kAmpleTime)).ok());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server_->Integer({"PUBLISH", "c", "hello"}), 1);
  EXPECT_TRUE(Await([&] { return received == 20; })) << received;
  proxy_.ResetAll();
  EXPECT_TRUE(Await([&] { return live_again == 1; }));
  EXPECT_EQ(server_->Integer({"PUBLISH", "c", "hello"}), 1);
  EXPECT_TRUE(Await([&] { return received == 21; })) << received;
}

// The child closes the descriptor, and sends nothing over its parent's connection.
TEST_F(TlsTransportTest, ForkedChildMayDeleteConnection) {
  auto connection = To(server_->tls_url());
  EXPECT_EQ(Echo(*connection, "before"), "before");
  const int code = support::CodeOfFork([&] {
    connection.reset();
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(Echo(*connection, "after"), "after");
  EXPECT_EQ(connection->stats().connects, 1);
}

// Messages say what is wrong with certificates and protocols, and how to fix it.

struct TlsRefusalTest : TlsTest {
  std::string Good() { return authority_.Certify(); }
};

TEST_F(TlsRefusalTest, UnknownAuthority) {
  const auto server = Showing(Good());
  EXPECT_THAT(WhyNot(absl::StrCat("rediss://127.0.0.1:", server->tls_port())),
              AllOf(HasSubstr(absl::StrCat("rediss://127.0.0.1:", server->tls_port())),
                    HasSubstr("signed by 'redlatch test authority'"), HasSubstr("ca=")));
  const Authority other("another authority");
  EXPECT_THAT(WhyNot(absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", other.file())),
              AllOf(HasSubstr("which is not in ca=" + other.file())));
}

TEST_F(TlsRefusalTest, ExpiredOrFutureCertificate) {
  const auto expired = Showing(
      authority_.Certify({.valid_from = -absl::Hours(48), .valid_until = -absl::Hours(24)}));
  EXPECT_THAT(WhyNot(expired->tls_url()), AllOf(HasSubstr("has expired, on 20"), HasSubstr("renew"),
                                                Not(HasSubstr("certificate of this client"))));
  const auto early =
      Showing(authority_.Certify({.valid_from = absl::Hours(24), .valid_until = absl::Hours(48)}));
  EXPECT_THAT(WhyNot(early->tls_url()),
              AllOf(HasSubstr("is not valid before 20"), HasSubstr("clock")));
}

TEST_F(TlsRefusalTest, AddressListedAsAHostName) {
  const auto server = Showing(authority_.Certify({.names = {"DNS:127.0.0.1"}}));
  EXPECT_THAT(WhyNot(UrlAt("127.0.0.1", server->tls_port())),
              AllOf(HasSubstr("names 127.0.0.1 as a host, not as an IP address"),
                    Not(HasSubstr("and not for 127.0.0.1"))));
}

TEST_F(TlsRefusalTest, CertificateOfAnotherHost) {
  const auto server = Showing(authority_.Certify({.names = {"redis.example", "10.1.2.3"}}));
  for (const char* host : {"127.0.0.1", "localhost", "[::1]"}) {
    EXPECT_THAT(
        WhyNot(UrlAt(host, server->tls_port())),
        AllOf(HasSubstr("is for redis.example, 10.1.2.3"), HasSubstr("servername=redis.example")));
  }
  EXPECT_EQ(Connect(UrlAt("localhost", server->tls_port(), "servername=redis.example")),
            absl::OkStatus());
  EXPECT_EQ(Connect(UrlAt("localhost", server->tls_port(), "servername=10.1.2.3")),
            absl::OkStatus());
  EXPECT_THAT(WhyNot(UrlAt("localhost", server->tls_port(), "servername=redis.examples")),
              HasSubstr("not for redis.examples"));
}

TEST_F(TlsRefusalTest, CommonNameIsNotAHostName) {
  for (const std::vector<std::string>& names : {std::vector<std::string>(), {"10.1.2.3"}}) {
    for (const char* subject : {"localhost", "127.0.0.1", "*.example"}) {
      const auto server = Showing(authority_.Certify({.subject = subject, .names = names}));
      for (const char* url : {"localhost", "127.0.0.1", "redis.example"}) {
        EXPECT_THAT(
            WhyNot(UrlAt("localhost", server->tls_port(), absl::StrCat("servername=", url))),
            HasSubstr(names.empty() ? "subjectAltName" : "is for 10.1.2.3"));
      }
    }
  }
}

TEST_F(TlsRefusalTest, RevokedCertificate) {
  const std::string good = Good(), bad = Good();
  const auto server = Showing(good), revoked = Showing(bad);
  const auto at = [](const auto& which, const std::string& ca) {
    return absl::StrCat("rediss://127.0.0.1:", which->tls_port(), "?ca=", ca);
  };
  const std::string directory = authority_.Directory();
  authority_.File(absl::StrCat(directory.substr(directory.rfind('/') + 1), "/notes.rst"),
                  "no list");
  for (const bool in_directory : {false, true}) {
    const auto list = [&](absl::Duration valid_for) {
      if (!in_directory) return authority_.FileWithRevoked({bad}, valid_for);
      authority_.RevokeIn(directory, {bad}, valid_for);
      return directory;
    };
    EXPECT_EQ(Connect(at(revoked, in_directory ? directory : authority_.file())), absl::OkStatus())
        << "there is no CRL yet";
    const std::string ca = list(absl::Hours(24));
    EXPECT_EQ(Connect(at(server, ca)), absl::OkStatus());
    EXPECT_THAT(WhyNot(at(revoked, ca)), HasSubstr("revoked its certificate"));
    EXPECT_THAT(WhyNot(at(server, list(-absl::Hours(1)))),
                AllOf(HasSubstr("CRL has expired"), HasSubstr("ca=")));
  }
  // One authority's CRL says nothing about another's certificates.
  Authority other("another authority");
  const std::string both = authority_.File("both.pem", "");
  std::ofstream(both) << std::ifstream(authority_.file()).rdbuf()
                      << std::ifstream(other.FileWithRevoked({})).rdbuf();
  const std::string another = authority_.Directory();
  other.RevokeIn(another, {});
  for (const std::string& ca : {both, another}) {
    EXPECT_THAT(WhyNot(at(server, ca)), HasSubstr("get certificate CRL"));
  }
}

// The CRL is written again under its name, or is the target of a link there: its directory does not
// change.
TEST_F(TlsRefusalTest, CertificateRevokedWhileClientLives) {
  const std::string bad = Good();
  const auto server = Showing(bad);
  const std::string directory = authority_.Directory();
  authority_.RevokeIn(directory, {});
  Connection connection(
      UrlOf(absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", directory)));
  ASSERT_EQ(connection.Connect(In(kAmpleTime)), absl::OkStatus());
  authority_.RevokeIn(directory, {bad});
  connection.Replace("a test wants it");
  EXPECT_THAT(std::string(connection.Connect(In(kAmpleTime)).message()),
              HasSubstr("revoked its certificate"));
  authority_.RevokeIn(directory, {});
  EXPECT_EQ(connection.Connect(In(kAmpleTime)), absl::OkStatus());
}

// The other side chooses the names, and messages go into logs.
TEST_F(TlsRefusalTest, NamesInCertificateCannotForgeLine) {
  const auto server = Showing(authority_.Certify({.subject = "a\nb", .names = {}}));
  const std::string why = WhyNot(server->tls_url());
  EXPECT_THAT(why, AllOf(HasSubstr("a?b"), Not(HasSubstr("\n"))));
}

TEST_F(TlsRefusalTest, MissingOrRejectedClientCertificate) {
  const auto server = Showing(Good(), /*of_clients=*/true);
  EXPECT_THAT(std::string(Connect(server->tls_url()).message()),
              AllOf(HasSubstr("certificate of this client"), HasSubstr("cert=")));
  Authority other("another authority");
  const std::string cert = other.Certify({.subject = "a client"});
  EXPECT_THAT(std::string(Connect(server->tls_url() + "&cert=" + cert).message()),
              HasSubstr(server->tls_url().substr(0, server->tls_url().find('?'))));
  EXPECT_EQ(Connect(server->tls_url() + "&cert=" + Good()), absl::OkStatus());
}

TEST_F(TlsRefusalTest, ServerWithoutTls) {
  const auto server = RedisServer::Start();
  const std::string url = UrlAt("127.0.0.1", server->port(), "connect_timeout=300ms");
  Punctuality punctuality;
  const base::Instant deadline = In(absl::Milliseconds(300));
  const absl::Status status = Connect(url);
  punctuality.Note(deadline);
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("TLS"), HasSubstr("redis://"),
                                                   Not(HasSubstr("certificate of this client"))))
      << "Redis may wait for the end of a line that never comes";
}

TEST_F(TlsRefusalTest, ServerThatAnswersInPlainText) {
  const base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_TRUE(bind(listener.get(), generic, size) == 0 && listen(listener.get(), 1) == 0 &&
              getsockname(listener.get(), generic, &size) == 0);
  std::jthread server([&] {
    const base::UniqueFd client(accept(listener.get(), nullptr, nullptr));
    constexpr std::string_view kAnswer = "-ERR I do not understand\r\n";
    EXPECT_EQ(write(client.get(), kAnswer.data(), kAnswer.size()), ssize_t(kAnswer.size()));
    char ignored[4096];
    while (read(client.get(), ignored, sizeof ignored) > 0) {
    }
  });
  EXPECT_THAT(WhyNot(UrlAt("127.0.0.1", ntohs(address.sin_port))),
              AllOf(HasSubstr("it does not speak TLS there"), HasSubstr("redis://")));
}

TEST_F(TlsRefusalTest, PlainClientAtTlsPort) {
  const auto server = Showing(Good());
  EXPECT_THAT(WhyNot(absl::StrCat("redis://127.0.0.1:", server->tls_port()),
                     absl::StatusCode::kUnavailable),
              HasSubstr("rediss://"));
}

TEST_F(TlsRefusalTest, UnusableFiles) {
  const auto server = Showing(Good());
  const std::string url = absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?");
  EXPECT_THAT(WhyNot(url + "ca=/nowhere/ca.pem"),
              AllOf(HasSubstr("ca=/nowhere/ca.pem"), HasSubstr("No such file")));
  const std::string rubbish = authority_.File("rubbish", "not a certificate");
  EXPECT_THAT(WhyNot(url + "ca=" + rubbish), HasSubstr("holds no certificate"));
  const std::string more = url + "ca=" + authority_.file();
  EXPECT_THAT(WhyNot(more + "&cert=/nowhere/c.pem"), HasSubstr("cert=/nowhere/c.pem"));
  EXPECT_THAT(WhyNot(more + "&cert=" + rubbish), HasSubstr("holds no certificate"));
  EXPECT_THAT(WhyNot(more + "&cert=" + Good() + "&key=/nowhere/k"), HasSubstr("key=/nowhere/k"));
  EXPECT_THAT(WhyNot(more + "&cert=" + Good() + "&key=" + Good()),
              HasSubstr("no key of that certificate"));
}

}  // namespace
}  // namespace redlatch::redis
