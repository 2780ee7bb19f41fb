// The fixture of the connection's tests.
#ifndef REDLATCH_TESTS_REDIS_REDIS_LINK_CONNECTION_FIXTURE_H_
#define REDLATCH_TESTS_REDIS_REDIS_LINK_CONNECTION_FIXTURE_H_

#include "src/redis/link/connection.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/errors.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {

// A sanitizer makes everything slower, and keeps the memory that was freed.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How much later than its deadline a call may return.
inline constexpr absl::Duration kGrace = absl::Milliseconds(kSanitized ? 500 : 50);
// Longer than any successful step takes.
inline constexpr absl::Duration kAmpleTime = absl::Seconds(20);

inline base::Instant In(absl::Duration wait) { return base::Now() + wait; }

inline Url UrlOf(const std::string& text) {
  absl::StatusOr<Url> url = ParseUrl(text);
  EXPECT_TRUE(url.ok()) << url.status();
  return *std::move(url);
}

inline std::string Text(const absl::StatusOr<Reply>& reply) {
  return reply.ok() ? reply->DebugString() : reply.status().ToString();
}

// Returns ECHO's reply to `text`, or the error.
inline std::string Echo(Connection& connection, const std::string& text,
                        base::Instant deadline = In(kAmpleTime)) {
  const absl::StatusOr<Reply> reply = connection.Call({"ECHO", text}, deadline);
  return reply.ok() ? reply->text : reply.status().ToString();
}

// Posts a command. `done` gets the answer.
inline absl::Status Post(
    Connection& connection, const Command& command,
    std::function<void(absl::StatusOr<Reply>)> done = [](const absl::StatusOr<Reply>&) {}) {
  struct Sent {
    InFlight in_flight;
    absl::StatusOr<Reply> answer;
  };
  auto sent = std::make_unique<Sent>();
  sent->in_flight.results = absl::MakeSpan(&sent->answer, 1);
  sent->in_flight.done = [its = sent.get(), done = std::move(done)] {
    const std::unique_ptr<Sent> owned(its);
    done(std::move(owned->answer));
  };
  absl::Status status = connection.Post(absl::MakeConstSpan(&command, 1), sent->in_flight);
  if (status.ok()) static_cast<void>(sent.release());  // its `done` deletes it
  return status;
}

// A server, a proxy before it, and connections to either.
struct ConnectionFixture : ::testing::Test {
  std::unique_ptr<Connection> Direct(ConnectionOptions options = {}) {
    return std::make_unique<Connection>(UrlOf(server_->url()), std::move(options));
  }
  std::unique_ptr<Connection> Proxied(ConnectionOptions options = {}) {
    return std::make_unique<Connection>(UrlOf(proxy_.url()), std::move(options));
  }
  // Connects it, and returns it.
  std::unique_ptr<Connection> Connected(std::unique_ptr<Connection> connection) {
    const absl::Status connected = connection->Connect(In(kAmpleTime));
    EXPECT_TRUE(connected.ok()) << connected;
    return connection;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  TcpProxy proxy_{{.port = server_->port()}};
};

}  // namespace redlatch::redis

#endif  // REDLATCH_TESTS_REDIS_REDIS_LINK_CONNECTION_FIXTURE_H_
