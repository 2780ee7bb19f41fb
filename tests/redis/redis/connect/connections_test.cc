// PlainConnection, and the rate of reconnections.
#include "src/redis/connect/connector.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/connection.h"
#include "tests/redis/redis/link/connection_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch::redis {
namespace {

using support::FakeServer;

absl::StatusOr<PlainConnection> Open(const std::string& url) {
  return PlainConnection::Open(UrlOf(url), In(kAmpleTime));
}

std::string UrlWith(const std::string& url, const std::string& user_and_password) {
  return "redis://" + user_and_password + "@" + url.substr(std::string("redis://").size());
}

TEST(PlainConnectionTest, RepliesComeInOrderOfCommands) {
  const auto server = RedisServer::Start();
  auto connection = *Open(server->url() + "/3");
  const std::vector<Command> commands = {{"SET", "key", "value"}, {"GET", "key"}, {"NONSENSE"}};
  const auto replies = Must(connection.CallAll(commands, In(kAmpleTime)));
  ASSERT_EQ(replies.size(), 3);
  EXPECT_EQ(replies[1].text, "value");
  EXPECT_TRUE(replies[2].is_error());
  EXPECT_EQ(Text(connection.Call({"GET", "key"}, In(kAmpleTime))), "\"value\"");
}

// One connection listens, and has not yet received the messages that the other published.
struct TwoMessagesTest : ::testing::Test {
  void SetUp() override {
    ASSERT_TRUE(listener.ok() && speaker.ok());
    EXPECT_TRUE(listener->Call({"SUBSCRIBE", "c"}, In(kAmpleTime)).ok());
    const std::vector<Command> two = {{"PUBLISH", "c", "first"}, {"PUBLISH", "c", "second"}};
    EXPECT_TRUE(speaker->CallAll(two, In(kAmpleTime)).ok());
  }

  const std::unique_ptr<RedisServer> server = RedisServer::Start();
  absl::StatusOr<PlainConnection> listener = Open(server->url());
  absl::StatusOr<PlainConnection> speaker = Open(server->url());
};

TEST_F(TwoMessagesTest, ReceivesMessagesAfterReply) {
  for (const char* message : {"first", "second"}) {
    const auto received = Must(listener->Receive(In(kAmpleTime)));
    EXPECT_EQ(received.elements.at(2).text, message);
  }
}

TEST_F(TwoMessagesTest, SendsCommandWithUnreadMessage) {
  EXPECT_TRUE(listener->Receive(In(kAmpleTime)).ok());  // both came with it
  const auto next = Must(listener->Call({"UNSUBSCRIBE", "c"}, In(kAmpleTime)));
  EXPECT_EQ(next.elements.at(2).text, "second");
  EXPECT_TRUE(Await([&] {
    const auto receivers = speaker->Call({"PUBLISH", "c", "third"}, In(kAmpleTime));
    return receivers.ok() && receivers->integer == 0;
  }));
}

TEST(PlainConnectionTest, AcceptsServersThatCannotHoldLocks) {
  const auto primary = RedisServer::Start();
  const auto replica = RedisServer::Start({.replica_of = primary->port()});
  const auto evicting = RedisServer::Start(
      {.config = {"maxmemory 100mb", "maxmemory-policy allkeys-lru", "rename-command EVAL \"\""}});
  EXPECT_TRUE(Open(replica->url()).ok());
  EXPECT_TRUE(Open(evicting->url()).ok());
}

TEST(PlainConnectionTest, AcceptsUserWithoutPing) {
  const auto server = RedisServer::Start({.acl = {"user quiet on >secret ~* +get"}});
  auto connection = *Open(UrlWith(server->url(), "quiet:secret"));
  EXPECT_EQ(Text(connection.Call({"GET", "key"}, In(kAmpleTime))), "nil");
}

TEST(PlainConnectionTest, SaysWhyItWasRefused) {
  const auto server = RedisServer::Start({.password = "secret"});
  EXPECT_EQ(Open(server->url()).status().code(), absl::StatusCode::kPermissionDenied);
  const absl::Status wrong = Open(UrlWith(server->url(), ":wr0ng")).status();
  EXPECT_THAT(wrong, IsError(absl::StatusCode::kPermissionDenied,
                             AllOf(HasSubstr(server->url()), Not(HasSubstr("wr0ng")))));
  const absl::Status no_such_database = Open(UrlWith(server->url(), ":secret") + "/99").status();
  EXPECT_EQ(no_such_database.code(), absl::StatusCode::kFailedPrecondition);
}

TEST(PlainConnectionTest, LastWordsOfServerAreTheReason) {
  const FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command.at(0) == "GET") asked.hang_up = true;
    return asked.command.at(0) == "GET" ? "-ERR enough of that\r\n" : FakeServer::Polite(asked);
  });
  auto connection = *Open(server.url());
  const std::vector<Command> commands = {{"GET", "a"}, {"GET", "b"}};
  const auto replies = connection.CallAll(commands, In(kAmpleTime));
  EXPECT_THAT(std::string(replies.status().message()), HasSubstr("enough of that"));
}

TEST(PlainConnectionTest, UnknownScriptIsNotTheReasonForSilence) {
  const auto server = RedisServer::Start();
  auto connection = *Open(server->url());
  const std::vector<Command> commands = {{"EVALSHA", std::string(40, '0'), "0"},
                                         {"BLPOP", "nothing", "0"}};
  EXPECT_THAT(connection.CallAll(commands, In(absl::Milliseconds(20))).status(),
              IsError(absl::StatusCode::kUnavailable,
                      AllOf(HasSubstr(server->url()), HasSubstr("no answer in time"))));
}

}  // namespace
}  // namespace redlatch::redis

namespace redlatch {
namespace {

// A server that accepts connections and ends them at once, at whatever moment, is not flooded with
// attempts. The first reconnection after a loss does not wait.

using support::FakeServer;

constexpr absl::Duration kRateTime = absl::Seconds(2);
// The most attempts of one connection that back-off allows in that time: 10 ms, 20 ms ... 640 ms,
// each jittered.
constexpr int kMostConnections = 12;

bool IsOurScript(const FakeServer::Asked& asked) {
  return asked.command[0] == "EVALSHA" && asked.command[1] != std::string(40, '0');
}

// A waiter has a command connection and a subscription.
TEST(ReconnectRate, IsBoundedWhereverServerHangsUp) {
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

TEST(ReconnectBackoff, DelaysAllButTheFirstReconnect) {
  redis::ReconnectBackoff backoff(absl::Hours(1), absl::Hours(1));
  for (const bool at_once : {true, false}) {
    backoff.Made();
    backoff.Received(1);
    backoff.Lost();
    EXPECT_EQ(backoff.next_attempt() <= base::Now(), at_once);
  }
}

}  // namespace
}  // namespace redlatch
