// Answers to the handshake that no server of today's gives, or none that a test can start.

#include "src/redis/connect/connector.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/url/url.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

using support::FakeServer;

std::string Bulk(const std::string& text) {
  return absl::StrCat("$", text.size(), "\r\n", text, "\r\n");
}

// Answers INFO with these lines, and all else as a server does.
FakeServer::Answer WithInfo(const std::string& lines) {
  return [lines](const FakeServer::Asked& asked) {
    return asked.command.at(0) == "INFO" ? Bulk(lines) : FakeServer::Polite(asked);
  };
}

// Answers the command of that name so, and all else as a server does.
FakeServer::Answer With(const std::string& verb, const std::optional<std::string>& answer) {
  return [=](const FakeServer::Asked& asked) {
    return asked.command.at(0) == verb ? answer : FakeServer::Polite(asked);
  };
}

absl::Status Greet(const FakeServer::Answer& answer, const std::string& options = "") {
  FakeServer server(answer);
  Connector connector(*ParseUrl(server.url() + options), Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  EXPECT_TRUE(!made.ok() || made->has_value()) << "neither made nor failed";
  return made.status();
}

TEST(ConnectorAnswersTest, AcceptsAServerThatAnswersAsServersDo) {
  EXPECT_TRUE(Greet(FakeServer::Polite).ok()) << Greet(FakeServer::Polite);
}

TEST(ConnectorAnswersTest, AServerThatIsTooOldIsRefused) {
  for (const char* version : {"6.2.14", "5.0.3", "2.8"}) {
    const absl::Status status = Greet(WithInfo(absl::StrCat(
        "# Server\r\nredis_version:", version, "\r\nredis_mode:standalone\r\nrole:master\r\n")));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << version;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(version), HasSubstr("7.0")));
  }
}

TEST(ConnectorAnswersTest, NewerServersAndValkeyAreAccepted) {
  for (const char* lines :
       {"redis_version:7.0.0\r\n", "redis_version:7.4.1\r\n", "redis_version:8.0.2\r\n",
        "redis_version:10.0.0\r\n", "redis_version:6.2.4\r\nvalkey_version:8.1.0\r\n",
        "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:7.2.5\r\n"}) {
    const absl::Status status = Greet(WithInfo(lines));
    EXPECT_TRUE(status.ok()) << lines << status;
  }
}

TEST(ConnectorAnswersTest, AServerWithoutAVersionIsRefused) {
  for (const char* lines : {"", "role:master\r\n", "redis_version_of_my_own:7.0.0\r\n"}) {
    EXPECT_EQ(Greet(WithInfo(lines)).code(), absl::StatusCode::kFailedPrecondition) << lines;
  }
}

TEST(ConnectorAnswersTest, AClusterNodeIsRefused) {
  for (const char* lines :
       {"redis_version:7.0.15\r\nredis_mode:cluster\r\n",
        "redis_version:7.2.4\r\nvalkey_version:8.1.1\r\nserver_mode:cluster\r\n"}) {
    const absl::Status status = Greet(WithInfo(lines));
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("cluster"));
  }
}

TEST(ConnectorAnswersTest, WhatPassesIsUnavailableWhateverCommandItMeets) {
  for (const char* error :
       {"-LOADING Redis is loading the dataset in memory\r\n",
        "-BUSY Redis is busy running a script.\r\n", "-MASTERDOWN Link with MASTER is down\r\n"}) {
    for (const char* verb : {"AUTH", "SELECT", "CLIENT", "INFO", "EVAL", "EVALSHA"}) {
      FakeServer server(With(verb, error));
      Url url = *ParseUrl(server.url() + "/1?name=n");
      url.password = "p";
      Connector connector(url, Handshake::Purpose::kCommands);
      const auto made = connector.Step(base::Now() + absl::Seconds(10));
      EXPECT_EQ(made.status().code(), absl::StatusCode::kUnavailable) << verb << ": " << error;
    }
  }
}

TEST(ConnectorAnswersTest, WhatSomebodyMustMendIsNeverTakenForAFaultOfOurs) {
  for (const char* verb : {"SELECT", "INFO", "EVAL", "EVALSHA"}) {
    const absl::Status status = Greet(With(verb, "-ERR something of its own\r\n"), "/1");
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << verb;
    EXPECT_THAT(std::string(status.message()), HasSubstr("something of its own"));
  }
}

// As where the command was renamed.
TEST(ConnectorAnswersTest, AServerThatDoesNotKnowAuthAndRepeatsItLeaksNoPassword) {
  FakeServer server(
      With("AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'alice' 'sesame' \r\n"));
  Url url = *ParseUrl(server.url());
  url.user = "alice";
  url.password = "sesame";
  Connector connector(url, Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  EXPECT_EQ(made.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(made.status().message()),
              AllOf(HasSubstr("unknown command 'AUTH'"), Not(HasSubstr("sesame"))));
}

TEST(ConnectorAnswersTest, GarbageIsUnavailable) {
  const absl::Status status = Greet(With("INFO", "HTTP/1.1 400 Bad Request\r\n\r\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cannot be read"));
}

TEST(ConnectorAnswersTest, MoreAnswersThanQuestionsAreUnavailable) {
  const absl::Status status =
      Greet(With("EVALSHA", "-NOSCRIPT x\r\n+and\r\n+another\r\n+thing\r\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing had asked for"));
}

TEST(ConnectorAnswersTest, AServerThatClosesIsUnavailable) {
  for (const char* verb : {"INFO", "EVAL", "EVALSHA"}) {
    const absl::Status status = Greet(With(verb, std::nullopt));
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << verb;
  }
}

// "max number of clients reached", or protected mode: an error before anything was asked, and the
// end.
TEST(ConnectorAnswersTest, WhatAServerSaysBeforeItClosesIsHandedOn) {
  for (const char* last_words : {"-ERR max number of clients reached\r\n",
                                 "-DENIED Redis is running in protected mode because...\r\n"}) {
    const absl::Status status =
        Greet([&, said = 0](const FakeServer::Asked&) mutable -> std::optional<std::string> {
          if (said++ > 0) return std::nullopt;
          return last_words;
        });
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string(last_words).substr(1, 20)));
  }
}

TEST(ConnectorAnswersTest, SilenceEndsWithTheConnectTimeout) {
  const base::Instant begun = base::Now();
  const absl::Status status = Greet(With("INFO", ""), "?connect_timeout=100ms");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no answer to the handshake within 100ms"));
  EXPECT_GE(base::Now() - begun, absl::Milliseconds(100));
  EXPECT_LT(base::Now() - begun, absl::Milliseconds(500));
}

TEST(ConnectorAnswersTest, ServerThatForgetsScriptsIsRefused) {
  const absl::Status status = Greet(With("EVAL", "-NOSCRIPT No matching script.\r\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("an imitation such as fakeredis"));
}

TEST(ConnectorAnswersTest, MissingLuaModuleIsExplained) {
  const absl::Status status = Greet(With("EVAL", "-ERR Could not find scripting engine 'lua'\r\n"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("loadmodule"));
}

TEST(ConnectorAnswersTest, ImitationIsNamedAsSuch) {
  for (const FakeServer::Answer& answer :
       {With("INFO", "-ERR section (server) is not supported\r\n"),
        With("EVAL", "-ERR Error running script: global 'redis' is not a table\r\n"),
        WithInfo("# Server\r\nrole:master\r\n")}) {
    const absl::Status status = Greet(answer);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("an imitation such as fakeredis or miniredis does not run its scripts"));
  }
}

}  // namespace
}  // namespace redlatch::redis
