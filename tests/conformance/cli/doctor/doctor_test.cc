// `redlatch doctor`, beside servers that were set up well and badly.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

class RedlatchDoctorTest : public RedlatchDoctorFixture {
 protected:
  static std::string UrlOf(const RedisServer& server, const std::string& login) {
    return absl::StrCat("redis://", login, "@127.0.0.1:", server.port());
  }

  static bool IsEmptyServer(RedisServer& server) { return server.Integer({"DBSIZE"}) == 0; }
};

TEST_F(RedlatchDoctorTest, FindsAServerFitThatIsAndLeavesNothingBehind) {
  const auto server = RedisServer::Start(
      {.append_only = true, .password = "secret", .config = {"appendfsync always"}});
  const Look look = LookAt(UrlOf(*server, ":secret"));
  // Times are the machine's; all else is well.
  EXPECT_THAT(look.code, AnyOf(0, 1)) << look.output << Errors();
  for (const char* const check :
       {"version", "mode", "role", "permissions", "locks", "eviction", "memory", "persistence",
        "messages", "buffers", "subscribers", "connections", "timeout", "scripts"}) {
    EXPECT_THAT(look.Levels(check), ElementsAre("ok")) << check << look.output;
  }
  EXPECT_THAT(look.Levels("replicas"), ElementsAre("note"));
  EXPECT_TRUE(IsEmptyServer(*server));
  EXPECT_THAT(server->Command({"PUBSUB", "CHANNELS"}).elements, IsEmpty());
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchDoctorTest, NeitherWaitsForAQuarantineNorBeginsOne) {
  const auto server = RedisServer::Start({.append_only = true,
                                          .password = "secret",
                                          .config = {"appendfsync always", "repl-backlog-ttl 0"}});
  const std::string url = UrlOf(*server, ":secret");
  const Look first = LookAt(url + "?quarantine=60s");
  EXPECT_THAT(first.Levels("locks"), ElementsAre("ok")) << first.output;
  EXPECT_TRUE(IsEmptyServer(*server));
  const std::string until = absl::StrCat(absl::ToUnixMillis(absl::Now() + absl::Seconds(60)));
  server->Command({"SET", "redlatch:reign", "1f " + until + " 60000"});
  const Look during = LookAt(url + "?connect_timeout=3s&quarantine=60s");
  EXPECT_THAT(during.Levels("locks"), ElementsAre("ok")) << during.output;
  EXPECT_THAT(during.Levels("quarantine"), ElementsAre("note"));
  EXPECT_THAT(during.output, HasSubstr("nobody is granted anything for "));
  EXPECT_THAT(LookAt(url).output, HasSubstr("grant what the others hold back"));
  EXPECT_THAT(LookAt(url + "?quarantine=50s").output, HasSubstr("they refuse each other"));
  EXPECT_THAT(LookAt(url + "?quarantine=5s").output, HasSubstr("is too short"));
}

TEST_F(RedlatchDoctorTest, PrintsALineForEachCheckAndNoColourIntoAPipe) {
  const auto doctor = StartRedlatch({"doctor"});
  const std::string output = OutputOf(*doctor);
  EXPECT_EQ(CodeOf(*doctor), 1);
  EXPECT_THAT(output, HasSubstr("\nwarn       persistence  "));
  EXPECT_THAT(output, HasSubstr("   CONFIG SET appendonly yes\n"));
  EXPECT_THAT(output, Not(HasSubstr("\033")));
}

TEST_F(RedlatchDoctorTest, WritesJson) {
  const auto doctor = StartRedlatch({"doctor", "--json"});
  const auto python = support::Child::Exec(
      {"python3", "-c",
       "import json, sys; found = json.load(sys.stdin); "
       "print(found['verdict'], min(len(c['found']) for c in found['checks']) > 0)"});
  python->pipe().WriteLine(OutputOf(*doctor));
  python->pipe().CloseWrite();
  EXPECT_EQ(python->pipe().ReadLine(), "change True");
}

TEST_F(RedlatchDoctorTest, MendsByItsOwnCommandsAServerThatEvicts) {
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const Look look = LookAt(server_->url());
  EXPECT_EQ(look.code, 123) << look.output;
  EXPECT_THAT(look.Levels("eviction"), ElementsAre("bad"));
  EXPECT_THAT(look.Levels("locks"), ElementsAre("unchecked"));
  EXPECT_TRUE(IsEmptyServer(*server_));
  for (const std::string& command : look.Commands()) {
    server_->Command(absl::StrSplit(absl::StrReplaceAll(command, {{"\"", ""}}), ' '));
  }
  const Look mended = LookAt(server_->url());
  EXPECT_THAT(mended.Levels("eviction"), ElementsAre("ok"));
  EXPECT_THAT(mended.Levels("persistence"), ElementsAre("ok"));
  EXPECT_THAT(mended.Levels("locks"), ElementsAre("ok"));
}

TEST_F(RedlatchDoctorTest, SeesMemoryThatIsFull) {
  server_->Command({"CONFIG", "SET", "maxmemory", "500kb"});
  const Look look = LookAt(server_->url());
  EXPECT_EQ(look.code, 123);
  EXPECT_THAT(look.Levels("memory"), ElementsAre("bad"));
  EXPECT_THAT(look.Levels("permissions"), ElementsAre("ok"));
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, NamesWhatAUserLacksAndTheLineThatGrantsIt) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "resetchannels", "-@all", "+get",
                    "+set", "+psetex", "+eval", "+evalsha", "+hget"});
  const std::string url = UrlOf(*server_, "app:x");
  Look look = LookAt(url);
  EXPECT_EQ(look.code, 123);
  EXPECT_THAT(look.Levels("permissions"), ElementsAre("bad"));
  // Nothing that it could not do counts as done.
  for (const char* const check : {"locks", "version", "role", "eviction", "persistence", "buffers",
                                  "subscribers", "round trip", "slow log", "clock"}) {
    EXPECT_THAT(look.Levels(check), ElementsAre("unchecked")) << check << look.output;
  }
  EXPECT_THAT(look.Levels("INFO"), ElementsAre("warn"));
  // What it could only set with a TTL is all that it has left.
  for (int i = 0; i < 4 && look.code == 123; ++i) {
    for (const std::string& command : look.Commands()) {
      server_->Command(absl::StrSplit(command, ' '));
    }
    look = LookAt(url);
  }
  EXPECT_THAT(look.Levels("permissions"), ElementsAre("ok")) << look.output;
  EXPECT_THAT(look.Levels("messages"), ElementsAre("ok")) << look.output;
  EXPECT_THAT(look.Levels("locks"), ElementsAre("ok")) << look.output;
  EXPECT_THAT(look.Levels("INFO"), IsEmpty());
}

TEST_F(RedlatchDoctorTest, LeavesNoKeyForEverWhereItMayNotDelete) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "&*", "+@all", "-del", "-set",
                    "-psetex", "-pexpire", "-pexpireat"});
  EXPECT_EQ(LookAt(UrlOf(*server_, "app:x")).code, 123);
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, TriesTheNamesThatAUserMayUse) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~orders:*", "~redlatch:2:{orders:*",
                    "~redlatch:rw:{orders:*", "resetchannels", "&redlatch:*", "+@all"});
  const std::string url = UrlOf(*server_, "app:x");
  EXPECT_THAT(LookAt(url).Levels("permissions"), ElementsAre("bad"));
  const Look look = LookAt(url, {"--prefix", "orders:"});
  EXPECT_THAT(look.Levels("permissions"), ElementsAre("ok")) << look.output;
  EXPECT_THAT(look.Levels("locks"), ElementsAre("ok")) << look.output;
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, DoesWithoutConfigAsServicesForbidIt) {
  const auto server = RedisServer::Start({.config = {"rename-command CONFIG \"\""}});
  const Look look = LookAt(server->url());
  for (const char* const check : {"buffers", "timeout", "scripts"}) {
    EXPECT_THAT(look.Levels(check), ElementsAre("unchecked")) << check;
  }
  EXPECT_THAT(look.output, Not(HasSubstr("CONFIG SET")));
  EXPECT_THAT(look.Levels("locks"), ElementsAre("ok"));
}

TEST_F(RedlatchDoctorTest, SendsUsFromTheReplicaToThePrimary) {
  const auto replica = RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  const Look look = LookAt(replica->url());
  EXPECT_EQ(look.code, 123);
  EXPECT_THAT(look.Levels("role"), ElementsAre("bad"));
  EXPECT_THAT(look.output, HasSubstr(absl::StrCat("127.0.0.1:", server_->port())));
  EXPECT_THAT(look.Levels("locks"), ElementsAre("unchecked"));

  ASSERT_TRUE(server_->AwaitInfo("connected_slaves", "1"));
  const Look primary = LookAt(server_->url());
  EXPECT_THAT(primary.Levels("failover"), ElementsAre("warn"));
  EXPECT_THAT(primary.Commands(), Contains("CONFIG SET min-replicas-to-write 1"));
  EXPECT_THAT(primary.Levels("WAIT"), ElementsAre(AnyOf("ok", "warn"))) << primary.output;
}

TEST_F(RedlatchDoctorTest, WarnsWhereConnectionsRunOutAndSaysSoWhereTheyHave) {
  server_->Command({"CONFIG", "SET", "maxclients", "12"});
  EXPECT_THAT(LookAt(server_->url()).Levels("connections"), ElementsAre("warn"));
  server_->Command({"CONFIG", "SET", "maxclients", "1"});
  const Look look = LookAt(server_->url());
  EXPECT_EQ(look.code, 121);
  EXPECT_THAT(look.output, HasSubstr("\"unreachable\""));
  EXPECT_THAT(Errors(), HasSubstr("raise maxclients"));
}

TEST_F(RedlatchDoctorTest, TellsOfAServerThatTakesNoWritesForWantOfASnapshot) {
  const std::string snapshot = server_->directory() + "/dump.rdb";
  ASSERT_TRUE(std::filesystem::create_directories(snapshot + "/in its place"));
  server_->Text({"CONFIG", "SET", "save", "3600 1"});
  server_->Text({"BGSAVE"});
  ASSERT_TRUE(server_->AwaitInfo("rdb_last_bgsave_status", "err"));
  const Look look = LookAt(server_->url());
  EXPECT_EQ(look.code, 123) << Errors();
  EXPECT_THAT(look.Levels("disk"), ElementsAre("bad"));
  ASSERT_THAT(look.Commands(), Contains("CONFIG SET stop-writes-on-bgsave-error no"));
  server_->Text({"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"});
  EXPECT_THAT(LookAt(server_->url()).Levels("disk"), ElementsAre("warn"));
}

TEST_F(RedlatchDoctorTest, SaysThatALoginIsWrongAndNotWhatItIs) {
  const auto server = RedisServer::Start({.password = "secret"});
  EXPECT_EQ(LookAt(UrlOf(*server, ":hunter2")).code, 123);
  EXPECT_EQ(LookAt(server->url()).code, 123);
  EXPECT_THAT(Errors(), HasSubstr("check the user and password"));
  EXPECT_THAT(Errors(), HasSubstr("put the password into the URL"));
  EXPECT_THAT(Errors(), Not(HasSubstr("hunter2")));
}

TEST_F(RedlatchDoctorTest, EndsSoonWhereTheServerStopsAnsweringMidway) {
  for (const int64_t answered : {1, 5000, 6000}) {
    support::TcpProxy proxy({.port = server_->port()});
    // Slow enough that it is stopped before it is done.
    proxy.Delay(support::Direction::kToClient, absl::Milliseconds(20));
    const auto doctor = StartRedlatch({"doctor", "--server", proxy.url()});
    ASSERT_TRUE(proxy.Await([answered](const support::ProxyStats& stats) {
      return stats.bytes_to_client >= answered;
    }));
    proxy.Hold(support::Direction::kToClient);
    const absl::Time begun = absl::Now();
    EXPECT_EQ(CodeOf(*doctor), 121) << OutputOf(*doctor);
    EXPECT_LT(absl::Now() - begun, absl::Seconds(15));
  }
}

TEST_F(RedlatchDoctorTest, SaysWhereAnEmbeddedServerIsAndWhoKeepsIt) {
  const redis::EmbeddedHome home;
  const Look first = LookAt("embedded:" + home.directory());
  EXPECT_THAT(first.code, AnyOf(0, 1)) << Errors();
  EXPECT_THAT(first.output, HasSubstr("started just now, in " + home.directory()));
  EXPECT_THAT(first.Levels("persistence"), ElementsAre("note"));
  const Look second = LookAt("embedded:" + home.directory());
  EXPECT_THAT(second.output, HasSubstr("running, in " + home.directory()));
  const std::vector<pid_t> servers = home.Servers();
  ASSERT_EQ(servers.size(), 1U);
  EXPECT_THAT(second.output, HasSubstr(absl::StrCat("watches server ", servers[0])));
  bool keeper_named = false;
  for (const auto& process : home.Processes()) {
    keeper_named = keeper_named || (process.pid != servers[0] &&
                                    second.output.find(absl::StrCat(
                                        "process ", process.pid, " watches")) != std::string::npos);
  }
  EXPECT_TRUE(keeper_named) << second.output;
}

TEST_F(RedlatchDoctorTest, NamesAnAddressThatLeadsToSeveralServers) {
  const auto first = RedisServer::Start();
  const auto second = RedisServer::Start();
  support::TcpProxy proxy({.port = first->port()});
  proxy.LeadTo({first->port(), second->port()});
  const Look look = LookAt(proxy.url());
  EXPECT_NE(look.code, 0);
  EXPECT_THAT(look.Levels("messages"), Contains("bad")) << look.output;
  EXPECT_THAT(look.output, HasSubstr("leads to several servers"));
}

}  // namespace
}  // namespace redlatch
