// What a server may say to the first commands of a connection, and what becomes of it.
#include "src/redis/connect/handshake.h"

#include "src/redis/connect/connector.h"
#include "src/redis/connect/needs.h"
#include "src/redis/url/url.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

// What became of an attempt: "OK", or code and message.
struct Greeting {
  absl::StatusCode code = absl::StatusCode::kOk;
  std::string message;
  ServerInfo info;
};

Greeting Greet(const std::string& url, Handshake::Purpose purpose = Handshake::Purpose::kCommands) {
  const absl::StatusOr<Url> parsed = ParseUrl(url);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  Connector connector(*parsed, purpose);
  auto made = connector.Step(base::Now() + absl::Seconds(10));
  if (!made.ok()) return {made.status().code(), std::string(made.status().message()), {}};
  EXPECT_TRUE(made->has_value()) << "it did not end in time";
  return {.info = made->has_value() ? (**made).info : ServerInfo()};
}

// The server's URL with this between "redis://" and the host, and that at the end.
std::string With(const RedisServer& server, const std::string& user, const std::string& end = "") {
  return absl::StrCat("redis://", user, "@127.0.0.1:", server.port(), end);
}

TEST(HandshakeTest, LearnsVersionAndRunId) {
  const auto server = RedisServer::Start();
  const Greeting greeting = Greet(server->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  EXPECT_EQ(greeting.info.version, server->Version());
  EXPECT_EQ(greeting.info.run_id, server->Info("run_id"));
  EXPECT_THAT(greeting.info.warnings, IsEmpty());
}

TEST(HandshakeTest, NamesItselfAndSelectsItsDatabase) {
  const auto server = RedisServer::Start();
  const auto parsed = ParseUrl(server->url() + "/3?name=orders");
  ASSERT_TRUE(parsed.ok());
  Connector connector(*parsed, Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  ASSERT_TRUE(made.ok() && made->has_value()) << made.status();
  EXPECT_THAT(server->Text({"CLIENT", "LIST"}),
              AllOf(HasSubstr(" name=orders "), HasSubstr(" db=3 ")));
}

TEST(HandshakeTest, RefusesADatabaseThatIsNotThere) {
  const auto server = RedisServer::Start();
  const Greeting greeting = Greet(server->url() + "/99");
  EXPECT_EQ(greeting.code, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(greeting.message, AllOf(HasSubstr("DB index is out of range"), HasSubstr("99")));
}

TEST(HandshakeTest, GivesThePassword) {
  const auto server = RedisServer::Start({.password = "sesame"});
  EXPECT_EQ(Greet(With(*server, ":sesame")).code, absl::StatusCode::kOk);
  EXPECT_EQ(Greet(With(*server, "default:sesame")).code, absl::StatusCode::kOk);
}

TEST(HandshakeTest, AMissingPasswordIsNamedWithItsMend) {
  const auto server = RedisServer::Start({.password = "sesame"});
  for (const std::string& url : {server->url(), server->url() + "/3", server->url() + "?name=x"}) {
    const Greeting greeting = Greet(url);
    EXPECT_EQ(greeting.code, absl::StatusCode::kPermissionDenied) << url;
    EXPECT_THAT(greeting.message, AllOf(HasSubstr("NOAUTH"), HasSubstr(":password@"))) << url;
  }
}

TEST(HandshakeTest, AWrongPasswordIsRefusedAndNeverRepeated) {
  const auto server = RedisServer::Start({.password = "sesame"});
  for (const char* user : {":guessed-wrong", "default:guessed-wrong", "eve:guessed-wrong"}) {
    const Greeting greeting = Greet(With(*server, user));
    EXPECT_EQ(greeting.code, absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(greeting.message, AllOf(HasSubstr("WRONGPASS"), HasSubstr(server->url()),
                                        Not(HasSubstr("guessed-wrong"))));
  }
}

TEST(HandshakeTest, APasswordWhereNoneIsSetIsRefused) {
  const auto server = RedisServer::Start();
  const Greeting greeting = Greet(With(*server, ":sesame"));
  EXPECT_EQ(greeting.code, absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(greeting.message, AllOf(HasSubstr("AUTH"), Not(HasSubstr("sesame"))));
}

class AclTest : public ::testing::Test {
 protected:
  Greeting GreetAs(const std::string& rules, const std::string& password = "sesame") {
    server_ = RedisServer::Start({.acl = {"user alice on >sesame ~* &* " + rules}});
    return Greet(With(*server_, "alice:" + password));
  }
  std::unique_ptr<RedisServer> server_;
};

// As an ACL rule.
std::string AllThatIsNeeded() { return absl::StrCat("+", absl::StrJoin(NeededCommands(), " +")); }

TEST_F(AclTest, AUserWhoMayDoWhatIsNeededIsAccepted) {
  const Greeting greeting = GreetAs(AllThatIsNeeded() + " +info");
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  EXPECT_THAT(greeting.info.warnings, IsEmpty());
}

// All of it in one message, and what that says to do is enough.
TEST_F(AclTest, AUserWhoLacksSomethingIsToldAllOfItAndTheRuleThatGrantsIt) {
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

// Which keys locks will have is not known yet. Servers have crashed when asked about less.
TEST_F(AclTest, AUserOfSomeKeysIsAskedForTheRest) {
  for (const char* keys : {"~orders:*", "~redlatch:client:*", "~none"}) {
    const Greeting greeting = GreetAs(absl::StrCat("+@all resetkeys ", keys));
    EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
    EXPECT_LE(server_->Command({"ACL", "LOG"}).elements.size(), 1);
    EXPECT_THAT(GreetAs(absl::StrCat("+@all -publish -time resetkeys ", keys)).message,
                HasSubstr("ACL SETUSER alice +publish +time;"));
  }
  // It may read all, and writes its own.
  EXPECT_EQ(GreetAs("+@all resetkeys %R~* ~orders:*").code, absl::StatusCode::kOk);
}

TEST_F(AclTest, NothingIsExecutedThatIsAskedFor) {
  EXPECT_EQ(GreetAs("+@all").code, absl::StatusCode::kOk);
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
  GreetAs("+@all -set resetkeys %R~*");
  EXPECT_EQ(server_->Integer({"DBSIZE"}), 0);
}

TEST_F(AclTest, WhatIsLackingIsNamedAndNothingElse) {
  const Greeting greeting = GreetAs("+@all -hset -zadd resetchannels &mine:*");
  EXPECT_THAT(greeting.message, HasSubstr("ACL SETUSER alice &redlatch:* +hset +zadd)"));
}

TEST_F(AclTest, AUserWithoutAPasswordIsStillThatUser) {
  const auto server = RedisServer::Start({.acl = {"user bob on nopass ~* &* +@all"}});
  const auto parsed = ParseUrl(With(*server, "bob:"));
  ASSERT_TRUE(parsed.ok());
  Connector connector(*parsed, Handshake::Purpose::kCommands);
  const auto made = connector.Step(base::Now() + absl::Seconds(10));
  ASSERT_TRUE(made.ok() && made->has_value()) << made.status();
  EXPECT_THAT(server->Text({"CLIENT", "LIST"}), HasSubstr(" user=bob "));
}

TEST_F(AclTest, AUserWithoutInfoIsWarnedThatNothingWasChecked) {
  const Greeting greeting = GreetAs("+@all -info");
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  EXPECT_THAT(greeting.info.warnings, ElementsAre(HasSubstr("+info")));
}

TEST_F(AclTest, AUserWhoMayNotNameItselfOrSelectIsToldApart) {
  server_ = RedisServer::Start({.acl = {"user alice on >sesame ~* &* +@all -client -select"}});
  const Greeting named = Greet(With(*server_, "alice:sesame", "?name=orders"));
  EXPECT_EQ(named.code, absl::StatusCode::kOk) << named.message;
  EXPECT_THAT(named.info.warnings, ElementsAre(HasSubstr("name")));
  EXPECT_EQ(Greet(With(*server_, "alice:sesame", "/1")).code, absl::StatusCode::kPermissionDenied);
}

TEST_F(AclTest, ASubscribersUserNeedsNoScripts) {
  server_ = RedisServer::Start({.acl = {"user alice on >sesame &* +info +subscribe"}});
  const Greeting greeting =
      Greet(With(*server_, "alice:sesame"), Handshake::Purpose::kSubscriptions);
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
}

TEST(HandshakeTest, AServerWithoutScriptsNeedsAMend) {
  const auto server = RedisServer::Start({.config = {"rename-command EVAL \"\""}});
  const Greeting greeting = Greet(server->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(greeting.message, AllOf(HasSubstr("EVAL"), HasSubstr(server->url())));
}

TEST(HandshakeTest, AServerAtItsLimitOfClientsIsUnavailableAndSaysWhy) {
  const auto server = RedisServer::Start();
  server->Command({"CONFIG", "SET", "maxclients", "1"});  // that is this question's
  for (int i = 0; i < 100; ++i) {
    const Greeting greeting = Greet(server->url());
    ASSERT_EQ(greeting.code, absl::StatusCode::kUnavailable);
    ASSERT_THAT(greeting.message, HasSubstr("max number of clients"));
  }
}

TEST(HandshakeTest, AReplicaIsUnavailableAndNamesItsPrimary) {
  const auto primary = RedisServer::Start();
  const auto replica = RedisServer::Start({.replica_of = primary->port()});
  const Greeting greeting = Greet(replica->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kUnavailable);
  EXPECT_THAT(greeting.message,
              AllOf(HasSubstr("replica"), HasSubstr(absl::StrCat("127.0.0.1:", primary->port()))));
  replica->Command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(Greet(replica->url()).code, absl::StatusCode::kOk);
}

TEST_F(AclTest, AReplicaIsUnavailableToAUserWithoutInfoToo) {
  const auto primary = RedisServer::Start();
  server_ = RedisServer::Start(
      {.acl = {"user alice on >sesame ~* &* +@all -info"}, .replica_of = primary->port()});
  EXPECT_EQ(Greet(With(*server_, "alice:sesame")).code, absl::StatusCode::kUnavailable);
}

TEST(HandshakeTest, CommandsThatTheServerRenamedAreNamedWithTheMend) {
  for (const std::string name : {"EVALSHA", "EVAL", "SUBSCRIBE", "TIME", "PUBLISH", "PUBSUB"}) {
    const auto server = RedisServer::Start({.config = {"rename-command " + name + " mine"}});
    const Greeting greeting = Greet(server->url());
    EXPECT_EQ(greeting.code, absl::StatusCode::kFailedPrecondition) << name;
    EXPECT_THAT(greeting.message,
                AllOf(HasSubstr(name), HasSubstr("rename-command"), HasSubstr(server->url())));
  }
}

TEST(HandshakeTest, AllCommandsThatAScriptMissesAreNamedAtOnce) {
  const auto server =
      RedisServer::Start({.config = {"rename-command PUBLISH \"\"", "rename-command PUBSUB mine"}});
  EXPECT_THAT(Greet(server->url()).message, HasSubstr("PUBLISH, PUBSUB"));
}

TEST(HandshakeTest, AServerWithoutInfoIsAcceptedWithAWarning) {
  const auto server = RedisServer::Start({.config = {"rename-command INFO mine"}});
  const Greeting greeting = Greet(server->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  EXPECT_THAT(greeting.info.warnings, ElementsAre(HasSubstr("does not know INFO")));
  EXPECT_FALSE(greeting.info.version.empty());
}

TEST(HandshakeTest, AServerWithoutHelloIsAccepted) {
  const auto server = RedisServer::Start({.config = {"rename-command HELLO mine"}});
  const Greeting greeting = Greet(server->url());
  EXPECT_EQ(greeting.code, absl::StatusCode::kOk) << greeting.message;
  EXPECT_THAT(greeting.info.warnings, IsEmpty());
  EXPECT_FALSE(greeting.info.version.empty());
}

TEST(HandshakeTest, TheProbeExecutesNothing) {
  const auto server = RedisServer::Start();
  EXPECT_EQ(Greet(server->url()).code, absl::StatusCode::kOk);
  for (const char* name : {"publish", "pubsub", "subscribe", "time"}) {
    EXPECT_THAT(server->Info(absl::StrCat("cmdstat_", name)),
                ::testing::AnyOf(IsEmpty(), HasSubstr("calls=0")));
  }
}

TEST(HandshakeTest, AServerThatEvictsIsRefusedWithTheMend) {
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

}  // namespace
}  // namespace redlatch::redis
