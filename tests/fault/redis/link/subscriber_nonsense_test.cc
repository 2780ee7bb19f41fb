// A server, or whatever else answers at its address, that says what it must not.
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/fake_server.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using support::FakeServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMessage[] = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";

class SubscriberNonsense : public ::testing::TestWithParam<std::string> {
 protected:
  static constexpr absl::Duration kPatience = absl::Seconds(10);
  static base::Instant Soon() { return base::Now() + kPatience; }

  // Says the parameter at some moment of its first connection, and a message ever after.
  static FakeServer::Answer After(std::string verb) {
    return [verb](const FakeServer::Asked& asked) -> std::optional<std::string> {
      std::optional<std::string> answer = FakeServer::Polite(asked);
      if (asked.connection == 1 && asked.command[0] == verb) answer->append(GetParam());
      if (asked.connection > 1 && asked.command[0] == "SUBSCRIBE") answer->append(kMessage);
      return answer;
    };
  }
  static FakeServer::Answer InPlaceOfTheAnswer() {
    return [](const FakeServer::Asked& asked) -> std::optional<std::string> {
      if (asked.command[0] != "SUBSCRIBE") return FakeServer::Polite(asked);
      if (asked.connection == 1) return GetParam();
      return *FakeServer::Polite(asked) + kMessage;
    };
  }
  void ExpectOneLoss(FakeServer::Answer answer) {
    FakeServer server(std::move(answer));
    Subscriber subscriber(*ParseUrl(server.url()),
                          ears_.Options({.ping_interval = absl::Milliseconds(200),
                                         .answer_timeout = absl::Milliseconds(200),
                                         .first_backoff = absl::Milliseconds(1)}));
    EXPECT_TRUE(subscriber.Subscribe("c", Soon()).ok());
    EXPECT_TRUE(ears_.Await("message c m"));
    EXPECT_THAT(ears_.heard(), ElementsAre("down", "live again", "message c m"));
    EXPECT_EQ(server.connections(), 2);
    EXPECT_THAT(std::string(ears_.why_down().message()), HasSubstr(server.url()));
    EXPECT_LT(ears_.why_down().message().size(), 1000);
  }

  support::SubscriberEars ears_;
};

TEST_P(SubscriberNonsense, UnaskedCostsTheConnectionAndNoMore) {
  ExpectOneLoss(After("SUBSCRIBE"));
}

TEST_P(SubscriberNonsense, InPlaceOfAnAnswerCostsTheConnectionAndNoMore) {
  ExpectOneLoss(InPlaceOfTheAnswer());
}

TEST_P(SubscriberNonsense, BehindTheHandshakeCostsTheConnectionAndNoMore) {
  ExpectOneLoss(After("HELLO"));
}

INSTANTIATE_TEST_SUITE_P(
    Said, SubscriberNonsense,
    ::testing::Values("+OK\r\n", "+PONG\r\n", ":5\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n",
                      "HTTP/1.1 400 Bad Request\r\n\r\n", std::string("\0\0\0\0\r\n", 6),
                      "*2\r\n$7\r\nmessage\r\n$1\r\nc\r\n", "*1\r\n*1\r\n*1\r\n*0\r\n",
                      "*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n",
                      "*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n",
                      "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nm\r\n",
                      "%1\r\n+a\r\n:1\r\n", "$99999999999\r\n", "*99999999\r\n:1\r\n",
                      "$1000\r\n" + std::string(1000, 'x') + "\r\n"));

}  // namespace
}  // namespace redlatch::redis
