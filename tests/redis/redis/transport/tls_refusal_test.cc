// What is wrong with a certificate, or with who speaks what, is said, with what mends it.
#include <netinet/in.h>
#include <sys/socket.h>

#include "src/redis/connect/plain_connection.h"
#include "tests/redis/redis/transport/tls_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

class TlsRefusalTest : public TlsTest {
 protected:
  std::string Good() { return authority_.Certify(); }
};

TEST_F(TlsRefusalTest, AnAuthorityThatNobodyKnows) {
  const auto server = Showing(Good());
  EXPECT_THAT(WhyNot(absl::StrCat("rediss://127.0.0.1:", server->tls_port())),
              AllOf(HasSubstr(absl::StrCat("rediss://127.0.0.1:", server->tls_port())),
                    HasSubstr("signed by 'redlatch test authority'"), HasSubstr("ca=")));
  const Authority other("another authority");
  EXPECT_THAT(WhyNot(absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", other.file())),
              AllOf(HasSubstr("none of those in ca=" + other.file())));
}

TEST_F(TlsRefusalTest, ACertificateOfAnotherTime) {
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

TEST_F(TlsRefusalTest, ACertificateOfAnotherHost) {
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
  const std::string good = Good();
  const std::string bad = Good();
  const auto at = [](const auto& server, const std::string& ca) {
    return absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", ca);
  };
  const auto server = Showing(good);
  const auto revoked = Showing(bad);
  const std::string list = authority_.FileWithRevoked({bad});
  EXPECT_EQ(Connect(at(server, list)), absl::OkStatus());
  EXPECT_THAT(WhyNot(at(revoked, list)), HasSubstr("revoked its certificate"));
  EXPECT_EQ(Connect(at(revoked, authority_.file())), absl::OkStatus()) << "this file has no list";
  EXPECT_THAT(WhyNot(at(server, authority_.FileWithRevoked({bad}, -absl::Hours(1)))),
              AllOf(HasSubstr("CRL has expired"), HasSubstr("ca=")));
  // One authority's list says nothing about another's certificates.
  const std::string both = authority_.File("both.pem", "");
  Authority other("another authority");
  std::ofstream(both) << std::ifstream(authority_.file()).rdbuf()
                      << std::ifstream(other.FileWithRevoked({})).rdbuf();
  EXPECT_THAT(WhyNot(at(server, both)), HasSubstr("get certificate CRL"));
}

TEST_F(TlsRefusalTest, CertificateThatIsRevokedInADirectory) {
  const std::string good = Good();
  const std::string bad = Good();
  const auto server = Showing(good);
  const auto revoked = Showing(bad);
  const std::string directory = authority_.Directory();
  const auto at = [&](const auto& which) {
    return absl::StrCat("rediss://127.0.0.1:", which->tls_port(), "?ca=", directory);
  };
  EXPECT_EQ(Connect(at(revoked)), absl::OkStatus()) << "the directory has no list yet";
  authority_.File(absl::StrCat(directory.substr(directory.rfind('/') + 1), "/notes.rst"),
                  "no list");
  EXPECT_EQ(Connect(at(server)), absl::OkStatus());
  authority_.RevokeIn(directory, {bad});
  EXPECT_EQ(Connect(at(server)), absl::OkStatus());
  EXPECT_THAT(WhyNot(at(revoked)), HasSubstr("revoked its certificate"));
  // Its own list expires, or there is only another authority's.
  authority_.RevokeIn(directory, {bad}, -absl::Hours(1));
  EXPECT_THAT(WhyNot(at(server)), AllOf(HasSubstr("CRL has expired"), HasSubstr("ca=")));
  const std::string another = authority_.Directory();
  Authority("another authority").RevokeIn(another, {});
  EXPECT_THAT(WhyNot(absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", another)),
              HasSubstr("get certificate CRL"));
}

// It is written again under its name, or is what a link there leads to: its directory does not
// change.
TEST_F(TlsRefusalTest, CertificateThatIsRevokedWhileTheClientLives) {
  const std::string bad = Good();
  const auto server = Showing(bad);
  const std::string directory = authority_.Directory();
  authority_.RevokeIn(directory, {});
  SharedConnection connection(
      UrlOf(absl::StrCat("rediss://127.0.0.1:", server->tls_port(), "?ca=", directory)));
  ASSERT_EQ(connection.Connect(In(kPatience)), absl::OkStatus());
  authority_.RevokeIn(directory, {bad});
  connection.MakeAnew("a test wants it");
  EXPECT_THAT(std::string(connection.Connect(In(kPatience)).message()),
              HasSubstr("revoked its certificate"));
  authority_.RevokeIn(directory, {});
  EXPECT_EQ(connection.Connect(In(kPatience)), absl::OkStatus());
}

// Whoever answers chooses the names, and messages go into logs.
TEST_F(TlsRefusalTest, NamesInACertificateCannotForgeALine) {
  const auto server = Showing(authority_.Certify({.subject = "a\nb", .names = {}}));
  const std::string why = WhyNot(server->tls_url());
  EXPECT_THAT(why, AllOf(HasSubstr("a?b"), Not(HasSubstr("\n"))));
}

TEST_F(TlsRefusalTest, NoCertificateOfTheClient) {
  const auto server = Showing(Good(), /*of_clients=*/true);
  EXPECT_THAT(std::string(Connect(server->tls_url()).message()),
              AllOf(HasSubstr("certificate of this client"), HasSubstr("cert=")));
}

TEST_F(TlsRefusalTest, ACertificateOfTheClientThatTheServerDoesNotAccept) {
  const auto server = Showing(Good(), /*of_clients=*/true);
  Authority other("another authority");
  const std::string cert = other.Certify({.subject = "a client"});
  EXPECT_THAT(std::string(Connect(server->tls_url() + "&cert=" + cert).message()),
              HasSubstr(server->tls_url().substr(0, server->tls_url().find('?'))));
  EXPECT_EQ(Connect(server->tls_url() + "&cert=" + Good()), absl::OkStatus());
}

TEST_F(TlsRefusalTest, AServerThatDoesNotSpeakTls) {
  const auto server = RedisServer::Start();
  const std::string url = UrlAt("127.0.0.1", server->port(), "connect_timeout=300ms");
  const base::Instant began = base::Now();
  const absl::Status status = Connect(url);
  EXPECT_LT(base::Now() - began, absl::Milliseconds(300) + kGrace);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("TLS"), HasSubstr("redis://"),
                                                   Not(HasSubstr("certificate of this client"))))
      << "Redis may wait for the end of a line that never comes";
}

TEST_F(TlsRefusalTest, AServerThatAnswersInPlainTextAtOnce) {
  const base::UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_TRUE(bind(listener.get(), generic, size) == 0 && listen(listener.get(), 1) == 0 &&
              getsockname(listener.get(), generic, &size) == 0);
  std::thread server([&] {
    const base::UniqueFd client(accept(listener.get(), nullptr, nullptr));
    constexpr std::string_view kAnswer = "-ERR I do not understand\r\n";
    EXPECT_EQ(write(client.get(), kAnswer.data(), kAnswer.size()), ssize_t(kAnswer.size()));
    char ignored[4096];
    while (read(client.get(), ignored, sizeof ignored) > 0) {
    }
  });
  EXPECT_THAT(WhyNot(UrlAt("127.0.0.1", ntohs(address.sin_port))),
              AllOf(HasSubstr("it does not speak TLS there"), HasSubstr("redis://")));
  server.join();
}

TEST_F(TlsRefusalTest, APlainClientWhereTlsIsSpoken) {
  const auto server = Showing(Good());
  EXPECT_THAT(WhyNot(absl::StrCat("redis://127.0.0.1:", server->tls_port()),
                     absl::StatusCode::kUnavailable),
              HasSubstr("rediss://"));
}

TEST_F(TlsRefusalTest, FilesThatAreNotWhatTheyShouldBe) {
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

TEST_F(TlsRefusalTest, IsSaidToWhoeverAsksAServerOfAnyKind) {
  const auto server = Showing(Good());
  const absl::Status refused =
      PlainConnection::Open(UrlOf(absl::StrCat("rediss://127.0.0.1:", server->tls_port())),
                            In(kPatience))
          .status();
  EXPECT_THAT(std::string(refused.message()), HasSubstr("signed by 'redlatch test authority'"));
}

}  // namespace
}  // namespace redlatch::redis
