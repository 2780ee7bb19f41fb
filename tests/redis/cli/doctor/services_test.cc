// Tests what `redlatch doctor` and a lock say on servers and services that refuse what locks need.
// A server with ACL rules, or a proxy before it, refuses what their documents say
// (docs/servers.md).
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch {
namespace {

using redis::Reply;
using support::FakeServer;

std::string Encoded(const Reply& reply) {
  switch (reply.type) {
    case Reply::Type::kNil:
      return "$-1\r\n";
    case Reply::Type::kInteger:
      return absl::StrCat(":", reply.integer, "\r\n");
    case Reply::Type::kString:
      return FakeServer::Bulk(reply.text);
    case Reply::Type::kStatus:
      return absl::StrCat("+", reply.text, "\r\n");
    case Reply::Type::kError:
      return absl::StrCat("-", reply.text, "\r\n");
    case Reply::Type::kArray:
    case Reply::Type::kPush:
      break;
  }
  std::string array = absl::StrCat("*", reply.elements.size(), "\r\n");
  for (const Reply& element : reply.elements) array += Encoded(element);
  return array;
}

// Passes commands on to a server, except those that the service refuses. It does not deliver
// messages, but sends the doctor's subscriber those that the doctor expects.
class Service {
 public:
  // Returns the whole answer, or nullopt for the server's own. It may change the command.
  using Refuse = std::function<std::optional<std::string>(std::vector<std::string>&)>;

  Service(const RedisServer& server, Refuse refuse)
      : port_(server.port()), refuse_(std::move(refuse)) {}

  std::string url() const { return proxy_.url(); }

  // A service whose scripts may not call this command. The server runs everything else in them.
  static Refuse InScripts(std::string_view command) {
    const std::string shim = absl::StrCat(
        "local server = redis local function checked(name) if name:upper() == '",
        std::string(command), "' then error({err = 'ERR This Redis command is not allowed from ",
        "script'}) end return name end ", "local redis = setmetatable({call = function(name, ...) ",
        "return server.call(checked(name), ...) end}, {__index = server}) ");
    return [shim](std::vector<std::string>& words) -> std::optional<std::string> {
      if (words[0] == "EVALSHA") return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
      if (words[0] == "EVAL") words[1].insert(0, shim);
      return std::nullopt;
    };
  }
  // A service that answers these commands with this error.
  static Refuse Commands(std::set<std::string> commands, const std::string& error) {
    return [=](std::vector<std::string>& words) -> std::optional<std::string> {
      if (!commands.contains(words[0])) return std::nullopt;
      return absl::StrCat("-", error, "\r\n");
    };
  }

 private:
  std::optional<std::string> Answer(const FakeServer::Asked& asked) {
    std::vector<std::string> words = asked.command;
    words[0] = absl::AsciiStrToUpper(words[0]);
    if (auto refusal = refuse_(words)) return refusal;
    if (words[0] == "HELLO") words = {"HELLO"};  // the connection to the server speaks RESP 2
    if (words[0] == "UNSUBSCRIBE") return FakeServer::Polite({.connection = 0, .command = words});
    if (words[0] == "SUBSCRIBE") {
      std::string replies = *FakeServer::Polite({.connection = 0, .command = words});
      // As many messages as the doctor publishes at most.
      for (int i = 0; i < 20 && words[1].find("doctor:") != std::string::npos; ++i) {
        replies += "*3\r\n$7\r\nmessage\r\n" + FakeServer::Bulk(words[1]) + FakeServer::Bulk("x");
      }
      return replies;
    }
    auto& server = servers_[asked.connection];
    if (!server) server.emplace(support::RawConnection::ToPort(port_));
    return Encoded(server->Command(words));
  }

  const int port_;
  const Refuse refuse_;
  std::map<int, std::optional<support::RawConnection>> servers_;  // by the client's connection
  FakeServer proxy_{[this](const FakeServer::Asked& asked) { return Answer(asked); }};
};

struct ServicesTest : RedlatchDoctorFixture {
  // The URL of a user that may do all that locks need, except for this.
  std::string UserWithout(const std::vector<std::string>& rules) {
    std::vector<std::string> command = {"ACL", "SETUSER", "app", "reset", "on",
                                        ">x",  "~*",      "&*",  "+@all"};
    command.insert(command.end(), rules.begin(), rules.end());
    server_->Do(command);
    return UrlOf("app:x");
  }

  // What comes of taking a lock.
  static absl::Status LockAt(const std::string& url, const LockOptions& options = {}) {
    const absl::StatusOr<Client> client =
        Client::Connect(url, {.on_warning = [](std::string_view) {}});
    if (!client.ok()) return client.status();
    return SimpleLock(*client, "k", options).Acquire({.wait = absl::Seconds(1)}).status();
  }

  static void ExpectLocks(const Report& report) {
    EXPECT_THAT(report.Levels("locks"), ElementsAre("ok")) << report.output;
    EXPECT_THAT(report.code, AnyOf(0, 1)) << report.output;
  }
  // The doctor says this, and tries no lock.
  static void ExpectUnfit(const Report& report, const std::string& check,
                          const std::vector<std::string>& says) {
    EXPECT_EQ(report.code, 123) << report.output;
    EXPECT_THAT(report.Only(check), HasSubstr("\"level\":\"bad\""));
    for (const std::string& text : says) EXPECT_THAT(report.Only(check), HasSubstr(text));
    EXPECT_THAT(report.Levels("locks"), ElementsAre("unchecked")) << report.output;
    EXPECT_THAT(report.output, Not(HasSubstr("@user_script"))) << "a raw error";
  }
};

// MemoryDB, ElastiCache, Memorystore.
TEST_F(ServicesTest, RefusedConfigIsANoteAndLocksWork) {
  const std::string url = UserWithout({"-config"});
  const Report report = Examine(url);
  EXPECT_THAT(report.Only("Lua"), AllOf(HasSubstr("\"level\":\"ok\""),
                                        HasSubstr("may call TIME, PUBSUB, PUBLISH, INFO")));
  EXPECT_THAT(report.Only("CONFIG"),
              AllOf(HasSubstr("\"level\":\"note\""), HasSubstr("settings in its console")));
  ExpectLocks(report);
  EXPECT_EQ(LockAt(url), absl::OkStatus());
}

// OCI Cache, sharded.
TEST_F(ServicesTest, RefusedScriptsAreUnfit) {
  const std::string url = UserWithout({"-eval", "-evalsha", "-script", "-fcall", "-function"});
  const Report report = Examine(url);
  ExpectUnfit(report, "permissions", {"may not eval, evalsha", "docs/servers.md"});
  EXPECT_THAT(LockAt(url), IsError(absl::StatusCode::kPermissionDenied, HasSubstr("+eval")));
}

// Valkey without its Lua module, Garnet as it starts by default, and an unknown service.
TEST_F(ServicesTest, MissingLuaIsUnfit) {
  struct Case {
    std::set<std::string> commands;
    const char* error;
    std::vector<std::string> doctor_says;
    const char* lock_says;
  };
  const Case cases[] = {{{"EVAL"},
                         "ERR Could not find scripting engine 'lua'",
                         {"no Lua", "loadmodule /path/to/libvalkeylua.so"},
                         "load its module"},
                        {{"EVAL", "EVALSHA"},
                         "ERR This instance has Lua scripting support disabled",
                         {"start it with --lua"},
                         "start Garnet with --lua"},
                        {{"EVAL"},
                         "ERR scripts are off in this plan",
                         {"scripts are off in this plan", "permit EVAL"},
                         "scripts are off in this plan"}};
  for (const Case& each : cases) {
    const Service service(*server_, Service::Commands(each.commands, each.error));
    ExpectUnfit(Examine(service.url()), "Lua", each.doctor_says);
    EXPECT_THAT(LockAt(service.url()),
                IsError(absl::StatusCode::kFailedPrecondition, HasSubstr(each.lock_says)));
  }
}

TEST_F(ServicesTest, TimeRefusedInScriptsIsUnfit) {
  const Service service(*server_, Service::InScripts("TIME"));
  ExpectUnfit(Examine(service.url()), "Lua",
              {"scripts may not call TIME", "read the server's time"});
  EXPECT_THAT(LockAt(service.url(), {.acks = {.replicas = 1}}),
              IsError(absl::StatusCode::kFailedPrecondition,
                      HasSubstr("locks are scripts that need this command")));
}

TEST_F(ServicesTest, MessagesRefusedInScriptsAreUnfit) {
  for (const char* const command : {"PUBSUB", "PUBLISH"}) {
    const Service service(*server_, Service::InScripts(command));
    ExpectUnfit(Examine(service.url()), "Lua", {"scripts may not", "next waiter"});
  }
}

TEST_F(ServicesTest, InfoRefusedInScriptsRulesOutQuarantine) {
  const Service service(*server_, Service::InScripts("INFO"));
  const Report report = Examine(service.url());
  EXPECT_THAT(report.Only("Lua"), AllOf(HasSubstr("\"level\":\"note\""),
                                        HasSubstr("quarantine= and restart_delay= need it")));
  ExpectLocks(report);
  EXPECT_EQ(LockAt(service.url()), absl::OkStatus());
  EXPECT_THAT(LockAt(service.url() + "?quarantine=60s"),
              IsError(absl::StatusCode::kFailedPrecondition,
                      HasSubstr("locks are scripts that need this command")));
}

// Dragonfly, whose flags are for all scripts.
TEST_F(ServicesTest, DragonflysFlagsAreNamed) {
  const auto with = [](const std::string& flags) -> Service::Refuse {
    return [=](std::vector<std::string>& words) -> std::optional<std::string> {
      if (words.back() == "default_lua_flags") {
        return "*2\r\n" + FakeServer::Bulk("default_lua_flags") + FakeServer::Bulk(flags);
      }
      if (words[0] != "INFO" || words.size() > 1) return std::nullopt;
      return FakeServer::Bulk(
          "redis_version:7.4.0\r\ndragonfly_version:df-v1.30.0\r\nrole:master\r\n"
          "maxmemory:0\r\nmaxmemory_policy:noeviction\r\n");
    };
  };
  const Service slow(*server_, with("allow-undeclared-keys"));
  const Report report = Examine(slow.url());
  EXPECT_THAT(report.Only("version"), HasSubstr("Dragonfly df-v1.30.0, on which redlatch is not"));
  EXPECT_THAT(report.Only("Lua"), AllOf(HasSubstr("\"level\":\"warn\""),
                                        HasSubstr("each script stops the whole server")));
  EXPECT_THAT(report.Levels("locks"), ElementsAre("ok")) << report.output;
  const Service unsafe(*server_, with("allow-undeclared-keys,disable-atomicity"));
  ExpectUnfit(Examine(unsafe.url()), "Lua", {"a lock may get two holders"});
}

// Services with replicas that they do not let one wait for.
TEST_F(ServicesTest, RefusedWaitRulesOutAcks) {
  const auto replica = RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(server_->AwaitInfo("connected_slaves", "1"));
  const std::string url = UserWithout({"-wait"});
  const Report report = Examine(url);
  EXPECT_THAT(report.Only("WAIT"), AllOf(HasSubstr("\"level\":\"note\""),
                                         HasSubstr("so is each acquire with LockOptions::acks")));
  ExpectLocks(report);
  EXPECT_EQ(LockAt(url), absl::OkStatus());
  EXPECT_THAT(LockAt(url, {.acks = {.replicas = 1}}),
              IsError(absl::StatusCode::kPermissionDenied, HasSubstr("'wait' command")));
}

TEST_F(ServicesTest, ShardedChannelsAloneNeedAClusterUrl) {
  const std::string url = UserWithout({"-publish", "-subscribe"});
  const Report report = Examine(url);
  EXPECT_THAT(report.Only("messages"), AllOf(HasSubstr("only sharded channels are permitted"),
                                             HasSubstr("begin the URL with redis-cluster://")));
  EXPECT_THAT(LockAt(url), IsError(absl::StatusCode::kPermissionDenied, HasSubstr("+publish")));
}

}  // namespace
}  // namespace redlatch
