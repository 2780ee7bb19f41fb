// Replies of servers to the first commands of a connection, and their effects.
#include "src/redis/connect/handshake.h"

#include "src/redis/connect/connector.h"
#include "src/redis/url/url.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

// The result of an attempt: "OK", or code and message.
struct Greeting {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  ServerInfo info;
};

Greeting Greet(const std::string& url, Handshake::Purpose purpose = Handshake::Purpose::kCommands) {
  const auto parsed = Must(ParseUrl(url));
  Connector connector(parsed, purpose);
  auto made = connector.Step(base::Now() + absl::Seconds(10));
  if (!made.ok()) return {made.status().code(), std::string(made.status().message()), {}};
  EXPECT_TRUE(made->has_value()) << "it did not end in time";
  return {.info = made->has_value() ? (**made).info : ServerInfo()};
}

// The server's URL with `user` before the host and `end` at its end.
std::string With(const RedisServer& server, const std::string& user, const std::string& end = "") {
  return absl::StrCat("redis://", user, user.empty() ? "" : "@", "127.0.0.1:", server.port(), end);
}

// All needed permissions as an ACL rule.
std::string AllThatIsNeeded() { return absl::StrCat("+", absl::StrJoin(NeededCommands(), " +")); }

TEST(HandshakeTest, AcceptsServersAndUsersPerhapsWithAWarning) {
  struct Case {
    support::RedisServerOptions server;
    const char* user = "";
    const char* end = "";
    const char* warning = "";
  };
  const support::RedisServerOptions protects = {.password = "sesame"};
  const auto alice = [](const std::string& rules) {
    return support::RedisServerOptions{.acl = {"user alice on >sesame ~* &* " + rules}};
  };
  for (const Case& each :
       {Case{}, Case{protects, ":sesame"}, Case{protects, "default:sesame"},
        Case{{.config = {"rename-command INFO mine"}}, "", "", "does not know INFO"},
        Case{alice(AllThatIsNeeded() + " +info"), "alice:sesame"},
        Case{alice("+@all -info"), "alice:sesame", "", "+info"},
        Case{alice("+@all -client"), "alice:sesame", "?name=orders", "name"}}) {
    const auto server = RedisServer::Start(each.server);
    const Greeting greeting = Greet(With(*server, each.user, each.end));
    EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
    EXPECT_FALSE(greeting.info.version.empty());
    EXPECT_THAT(absl::StrJoin(greeting.info.warnings, "\n"), HasSubstr(each.warning));
    EXPECT_EQ(greeting.info.warnings.size(), *each.warning == '\0' ? 0 : 1);
  }
}

// The connection remains while `connector` does.
std::string ClientAfter(RedisServer& server, const std::string& url) {
  Connector connector(Must(ParseUrl(url)), Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  EXPECT_TRUE(made.ok() && made->has_value()) << made.status();
  return server.Text({"CLIENT", "LIST"});
}

TEST(HandshakeTest, TellsNameDatabaseAndUserAndLearnsVersionAndRunId) {
  const auto server = RedisServer::Start({.acl = {"user bob on nopass ~* &* +@all"}});
  EXPECT_THAT(ClientAfter(*server, server->url() + "/3?name=orders"),
              AllOf(HasSubstr(" name=orders "), HasSubstr(" db=3 ")));
  EXPECT_THAT(ClientAfter(*server, With(*server, "bob:")), HasSubstr(" user=bob "));
  const ServerInfo info = Greet(server->url()).info;
  EXPECT_EQ(info.version, server->Version());
  EXPECT_EQ(info.run_id, server->Info("run_id"));
}

TEST(HandshakeTest, RefusalSaysWhyWithoutPassword) {
  constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
  constexpr auto kUnfit = absl::StatusCode::kFailedPrecondition;
  struct Refusal {
    support::RedisServerOptions server;
    const char* user;
    const char* end;
    absl::StatusCode code;
    std::vector<std::string> says;
  };
  const support::RedisServerOptions protects = {.password = "sesame"};
  std::vector<Refusal> refusals = {
      {{}, "", "/99", kUnfit, {"DB index is out of range", "fewer databases", "99"}},
      {{}, ":guessed-wrong", "", kDenied, {"AUTH"}},
      {{.config = {"rename-command PUBLISH \"\"", "rename-command PUBSUB mine"}},
       "",
       "",
       kUnfit,
       {"PUBLISH, PUBSUB", "rename-command"}}};
  for (const char* end : {"", "/3", "?name=x"}) {
    refusals.push_back({protects, "", end, kDenied, {"NOAUTH", ":password@"}});
  }
  for (const char* user : {":guessed-wrong", "default:guessed-wrong", "eve:guessed-wrong"}) {
    refusals.push_back({protects, user, "", kDenied, {"WRONGPASS"}});
  }
  for (const std::string name :
       {"HELLO", "EVALSHA", "EVAL", "SUBSCRIBE", "TIME", "PUBLISH", "PUBSUB"}) {
    refusals.push_back({{.config = {"rename-command " + name + " mine"}},
                        "",
                        "",
                        kUnfit,
                        {name, "rename-command"}});
  }
  for (const Refusal& each : refusals) {
    SCOPED_TRACE(each.says[0]);
    const auto server = RedisServer::Start(each.server);
    const Greeting greeting = Greet(With(*server, each.user, each.end));
    EXPECT_EQ(greeting.code, each.code);
    for (const std::string& says : each.says) EXPECT_THAT(greeting.message, HasSubstr(says));
    EXPECT_THAT(greeting.message, AllOf(HasSubstr(server->url()), Not(HasSubstr("guessed-wrong"))));
  }
}

struct AclTest : ::testing::Test {
  Greeting GreetAs(const std::string& rules, const std::string& password = "sesame") {
    server_ = RedisServer::Start({.acl = {"user alice on >sesame ~* &* " + rules}});
    return Greet(With(*server_, "alice:" + password));
  }
  std::unique_ptr<RedisServer> server_;
};

// One message names everything, and following its advice is enough.
TEST_F(AclTest, NamesAllMissingPermissionsAndTheirRule) {
  for (const char* rules : {"-@all +eval +evalsha +get", "+@all -hset -zadd -pubsub resetchannels",
                            "+@all -publish", "-@all", "+@all resetchannels &redlatch:other"}) {
    Greeting greeting = GreetAs(absl::StrCat(rules, " +info"));
    EXPECT_EQ(greeting.code, absl::StatusCode::kPermissionDenied) << rules;
    const size_t begin = greeting.message.find("ACL SETUSER alice ");
    ASSERT_NE(begin, std::string::npos) << greeting.message;
    const size_t end = greeting.message.find_first_of(";)", begin);
    server_->Command(absl::StrSplit(greeting.message.substr(begin, end - begin), ' '));
    greeting = Greet(With(*server_, "alice:sesame"));
    EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  }
}

// The keys of locks are not known yet. Servers have crashed when asked with fewer arguments.
TEST_F(AclTest, ChecksOtherNeedsOfUserWithSomeKeys) {
  for (const char* keys : {"~orders:*", "~redlatch:client:*", "~none"}) {
    const Greeting greeting = GreetAs(absl::StrCat("+@all resetkeys ", keys));
    EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
    EXPECT_LE(server_->Command({"ACL", "LOG"}).elements.size(), 1);
    EXPECT_THAT(GreetAs(absl::StrCat("+@all -publish -time resetkeys ", keys)).message,
                HasSubstr("ACL SETUSER alice +publish +time;"));
  }
  // A user may read all keys and write only its own.
  EXPECT_EQ(GreetAs("+@all resetkeys %R~* ~orders:*").code, absl::StatusCode::kOk);
}

TEST_F(AclTest, ProbedCommandsAreNotExecuted) {
  for (const char* const rules : {"+@all", "+@all -set resetkeys %R~*"}) {
    GreetAs(rules);
    EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
  }
}

TEST_F(AclTest, NamesOnlyMissingPermissions) {
  const Greeting greeting = GreetAs("+@all -hset -zadd resetchannels &mine:*");
  EXPECT_THAT(greeting.message, HasSubstr("ACL SETUSER alice &redlatch:* +hset +zadd)"));
}

TEST_F(AclTest, TellsSetnameAndSelectRefusalsApart) {
  GreetAs("+@all -client -select");
  EXPECT_EQ(Greet(With(*server_, "alice:sesame", "?name=orders")).code, absl::StatusCode::kOk);
  EXPECT_EQ(Greet(With(*server_, "alice:sesame", "/1")).code, absl::StatusCode::kPermissionDenied);
}

TEST_F(AclTest, SubscriberNeedsNoScripts) {
  server_ = RedisServer::Start({.acl = {"user alice on >sesame &* +info +subscribe"}});
  const Greeting greeting =
      Greet(With(*server_, "alice:sesame"), Handshake::Purpose::kSubscriptions);
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
}

TEST(HandshakeTest, ServerAtClientLimitIsUnavailable) {
  const auto server = RedisServer::Start();
  server->Command({"CONFIG", "SET", "maxclients", "1"});  // the connection of this command
  for (int i = 0; i < 100; ++i) {
    const Greeting greeting = Greet(server->url());
    ASSERT_EQ(greeting.code, absl::StatusCode::kUnavailable);
    ASSERT_THAT(greeting.message, HasSubstr("max number of clients"));
  }
}

TEST(HandshakeTest, ReplicaIsUnavailableAndNamesPrimary) {
  const auto primary = RedisServer::Start();
  const auto replica = RedisServer::Start({.replica_of = primary->port()});
  const Greeting greeting = Greet(replica->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kUnavailable);
  EXPECT_THAT(greeting.message,
              AllOf(HasSubstr("replica"), HasSubstr(absl::StrCat("127.0.0.1:", primary->port()))));
  replica->Command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(Greet(replica->url()).code, absl::StatusCode::kOk);
}

TEST_F(AclTest, ReplicaIsUnavailableWithoutInfo) {
  const auto primary = RedisServer::Start();
  server_ = RedisServer::Start(
      {.acl = {"user alice on >sesame ~* &* +@all -info"}, .replica_of = primary->port()});
  EXPECT_EQ(Greet(With(*server_, "alice:sesame")).code, absl::StatusCode::kUnavailable);
}

TEST(HandshakeTest, ProbeExecutesNothing) {
  const auto server = RedisServer::Start();
  EXPECT_EQ(Greet(server->url()).code, absl::StatusCode::kOk);
  for (const char* name : {"publish", "pubsub", "subscribe", "time"}) {
    EXPECT_THAT(server->Info(absl::StrCat("cmdstat_", name)),
                ::testing::AnyOf(IsEmpty(), HasSubstr("calls=0")));
  }
}

TEST(HandshakeTest, EvictingServerIsRefusedWithFix) {
  const auto server =
      RedisServer::Start({.config = {"maxmemory 100mb", "maxmemory-policy volatile-ttl"}});
  const Greeting greeting = Greet(server->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(greeting.message,
              AllOf(HasSubstr("volatile-ttl"), HasSubstr("CONFIG SET maxmemory-policy noeviction"),
                    HasSubstr("eviction=allow")));
  const Greeting allowed = Greet(server->url() + "?eviction=allow");
  EXPECT_EQ(allowed.code, absl::StatusCode::kOk) << allowed.message;
  EXPECT_THAT(allowed.info.warnings, ElementsAre(HasSubstr("volatile-ttl")));
  server->Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_THAT(Greet(server->url()).info.warnings, IsEmpty());
}

// Replies to the handshake that no present server gives, or none that a test can start.

using support::FakeServer;

// Answers INFO with these lines, and every other command as a server does.
FakeServer::Answer WithInfo(const std::string& lines) {
  return [lines](const FakeServer::Asked& asked) {
    return asked.command.at(0) == "INFO" ? FakeServer::Bulk(lines) : FakeServer::Polite(asked);
  };
}

// Answers the command `verb` with `answer`, and every other command as a server does.
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

TEST(ConnectorAnswersTest, RefusalSaysWhatIsWrong) {
  struct Refusal {
    FakeServer::Answer answer;
    absl::StatusCode code;
    std::string says;
  };
  constexpr auto kUnfit = absl::StatusCode::kFailedPrecondition;
  constexpr auto kGone = absl::StatusCode::kUnavailable;
  constexpr char kImitation[] =
      "an imitation such as fakeredis or miniredis does not run its scripts";
  std::vector<Refusal> refusals = {
      {WithInfo(""), kUnfit, ""},
      {WithInfo("redis_version_of_my_own:7.0.0\r\n"), kUnfit, ""},
      {WithInfo("redis_version:7.0.15\r\nredis_mode:cluster\r\n"), kUnfit, "cluster"},
      {WithInfo("redis_version:7.2.4\r\nvalkey_version:8.1.1\r\nserver_mode:cluster\r\n"), kUnfit,
       "cluster"},
      {With("INFO", "HTTP/1.1 400 Bad Request\r\n\r\n"), kGone, "cannot be read"},
      {With("EVALSHA", "-NOSCRIPT x\r\n+and\r\n+another\r\n+thing\r\n"), kGone,
       "nothing had asked for"},
      {With("EVAL", "-NOSCRIPT No matching script.\r\n"), kUnfit, "an imitation such as fakeredis"},
      {With("EVAL", "-ERR Could not find scripting engine 'lua'\r\n"), kUnfit, "loadmodule"},
      {With("INFO", "-ERR section (server) is not supported\r\n"), kUnfit, kImitation},
      {With("EVAL", "-ERR Error running script: global 'redis' is not a table\r\n"), kUnfit,
       kImitation},
      {WithInfo("# Server\r\nrole:master\r\n"), kUnfit, kImitation}};
  for (const char* version : {"6.2.14", "5.0.3", "2.8"}) {
    refusals.push_back({WithInfo(absl::StrCat("redis_version:", version, "\r\nrole:master\r\n")),
                        kUnfit, absl::StrCat("is Redis ", version, "; redlatch needs 7.0")});
  }
  for (const char* verb : {"INFO", "EVAL", "EVALSHA"}) {
    refusals.push_back({With(verb, std::nullopt), kGone, ""});
  }
  for (const char* verb : {"SELECT", "INFO", "EVAL", "EVALSHA"}) {
    refusals.push_back(
        {With(verb, "-ERR something of its own\r\n"), kUnfit, "something of its own"});
  }
  for (size_t i = 0; i < refusals.size(); ++i) {
    SCOPED_TRACE(i);
    const Refusal& each = refusals[i];
    EXPECT_THAT(Greet(each.answer, "/1"), IsError(each.code, HasSubstr(each.says)));
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

TEST(ConnectorAnswersTest, TemporaryErrorIsUnavailableAtAnyCommand) {
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

// A renamed command has this effect.
TEST(ConnectorAnswersTest, UnknownAuthLeaksNoPassword) {
  FakeServer server(
      With("AUTH", "-ERR unknown command 'AUTH', with args beginning with: 'alice' 'sesame' \r\n"));
  Url url = *ParseUrl(server.url());
  url.user = "alice";
  url.password = "sesame";
  Connector connector(url, Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  EXPECT_THAT(made.status(),
              IsError(absl::StatusCode::kPermissionDenied,
                      AllOf(HasSubstr("unknown command 'AUTH'"), Not(HasSubstr("sesame")))));
}

// "max number of clients reached", or protected mode: the server sends an error before it is asked
// anything, and hangs up.
TEST(ConnectorAnswersTest, LastWordsOfServerAreReported) {
  for (const char* last_words : {"-ERR max number of clients reached\r\n",
                                 "-DENIED Redis is running in protected mode because...\r\n"}) {
    const absl::Status status =
        Greet([&, said = 0](const FakeServer::Asked&) mutable -> std::optional<std::string> {
          if (said++ > 0) return std::nullopt;
          return last_words;
        });
    EXPECT_THAT(status, IsError(absl::StatusCode::kUnavailable,
                                HasSubstr(std::string(last_words).substr(1, 20))));
  }
}

}  // namespace
}  // namespace redlatch::redis
