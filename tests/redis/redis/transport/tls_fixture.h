// Servers that speak TLS, and connections to them.
#ifndef REDLATCH_TESTS_REDIS_REDIS_TRANSPORT_TLS_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_REDIS_TRANSPORT_TLS_FIXTURE_H_

#include "src/redis/link/shared_connection.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {

class TlsTest : public ::testing::Test {
 protected:
  using Authority = support::Authority;
  using RedisServer = support::RedisServer;

  // A server that shows the certificate of this file, which `authority_` has signed.
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
    SharedConnection connection(UrlOf(url));
    return connection.Connect(In(kPatience));
  }
  // Of an attempt that must fail, and not because its time is over.
  static std::string WhyNot(const std::string& url,
                            absl::StatusCode code = absl::StatusCode::kFailedPrecondition) {
    const base::Instant began = base::Now();
    const absl::Status status = Connect(url);
    EXPECT_LT(base::Now() - began, absl::Seconds(1)) << status;
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  Authority authority_;
};

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_REDIS_TRANSPORT_TLS_FIXTURE_H_
