// Tests `redlatch doctor` with servers that were set up well and badly.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/redis/redis/embedded/home.h"

namespace redlatch {
namespace {

struct RedlatchDoctorTest : RedlatchDoctorFixture {
  static std::string UrlOf(const RedisServer& server, const std::string& login) {
    return absl::StrCat("redis://", login, "@127.0.0.1:", server.port());
  }

  static bool IsEmptyServer(RedisServer& server) { return server.Integer({"DBSIZE"}) == 0; }
};

TEST_F(RedlatchDoctorTest, HealthyServerIsFitAndNothingIsLeft) {
  const auto server = RedisServer::Start(
      {.append_only = true, .password = "secret", .config = {"appendfsync always"}});
  const Report report = Examine(UrlOf(*server, ":secret"));
  // The measured times depend on the machine; everything else is well.
  EXPECT_THAT(report.code, AnyOf(0, 1)) << report.output << Errors();
  for (const char* const check :
       {"version", "mode", "role", "permissions", "locks", "eviction", "memory", "persistence",
        "messages", "buffers", "subscribers", "connections", "timeout", "scripts"}) {
    EXPECT_THAT(report.Levels(check), ElementsAre("ok")) << check << report.output;
  }
  EXPECT_THAT(report.Levels("replicas"), ElementsAre("note"));
  EXPECT_TRUE(IsEmptyServer(*server));
  EXPECT_THAT(server->Command({"PUBSUB", "CHANNELS"}).elements, IsEmpty());
  EXPECT_THAT(Errors(), IsEmpty());
}

TEST_F(RedlatchDoctorTest, NeitherAwaitsNorBeginsAQuarantine) {
  const auto server = RedisServer::Start({.append_only = true,
                                          .password = "secret",
                                          .config = {"appendfsync always", "repl-backlog-ttl 0"}});
  const std::string url = UrlOf(*server, ":secret");
  const Report first = Examine(url + "?quarantine=60s");
  EXPECT_THAT(first.Levels("locks"), ElementsAre("ok")) << first.output;
  EXPECT_TRUE(IsEmptyServer(*server));
  const std::string until = absl::StrCat(absl::ToUnixMillis(absl::Now() + absl::Seconds(60)));
  server->Command({"SET", "redlatch:reign", "1f " + until + " 60000"});
  const Report during = Examine(url + "?connect_timeout=3s&quarantine=60s");
  EXPECT_THAT(during.Levels("locks"), ElementsAre("ok")) << during.output;
  EXPECT_THAT(during.Levels("quarantine"), ElementsAre("note"));
  EXPECT_THAT(during.output, HasSubstr("it grants nothing for "));
  EXPECT_THAT(Examine(url).output, HasSubstr("grant what the others hold back"));
  EXPECT_THAT(Examine(url + "?quarantine=50s").output, HasSubstr("they refuse each other"));
  EXPECT_THAT(Examine(url + "?quarantine=5s").output, HasSubstr("is too short"));
}

TEST_F(RedlatchDoctorTest, PrintsALinePerCheckWithoutColourIntoAPipe) {
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

TEST_F(RedlatchDoctorTest, ItsCommandsFixAServerThatEvicts) {
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  const Report report = Examine(server_->url());
  EXPECT_EQ(report.code, 123) << report.output;
  EXPECT_THAT(report.Levels("eviction"), ElementsAre("bad"));
  EXPECT_THAT(report.Levels("locks"), ElementsAre("unchecked"));
  EXPECT_TRUE(IsEmptyServer(*server_));
  for (const std::string& command : report.Commands()) {
    server_->Command(absl::StrSplit(absl::StrReplaceAll(command, {{"\"", ""}}), ' '));
  }
  const Report fixed = Examine(server_->url());
  EXPECT_THAT(fixed.Levels("eviction"), ElementsAre("ok"));
  EXPECT_THAT(fixed.Levels("persistence"), ElementsAre("ok"));
  EXPECT_THAT(fixed.Levels("locks"), ElementsAre("ok"));
  EXPECT_THAT(fixed.Levels("pairs"), ElementsAre("ok"));
}

TEST_F(RedlatchDoctorTest, FindsFullMemory) {
  server_->Command({"CONFIG", "SET", "maxmemory", "500kb"});
  const Report report = Examine(server_->url());
  EXPECT_EQ(report.code, 123);
  EXPECT_THAT(report.Levels("memory"), ElementsAre("bad"));
  EXPECT_THAT(report.Levels("permissions"), ElementsAre("ok"));
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, ItsCommandsGrantMissingPermissions) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "resetchannels", "-@all", "+get",
                    "+set", "+psetex", "+eval", "+evalsha", "+hget"});
  const std::string url = UrlOf(*server_, "app:x");
  Report report = Examine(url);
  EXPECT_EQ(report.code, 123);
  EXPECT_THAT(report.Levels("permissions"), ElementsAre("bad"));
  // Checks that were not possible are unchecked.
  for (const char* const check : {"locks", "version", "role", "eviction", "persistence", "buffers",
                                  "subscribers", "round trip", "slow log", "clock"}) {
    EXPECT_THAT(report.Levels(check), ElementsAre("unchecked")) << check << report.output;
  }
  EXPECT_THAT(report.Levels("INFO"), ElementsAre("warn"));
  // All keys that it has left have a TTL.
  for (int i = 0; i < 4 && report.code == 123; ++i) {
    for (const std::string& command : report.Commands()) {
      server_->Command(absl::StrSplit(command, ' '));
    }
    report = Examine(url);
  }
  EXPECT_THAT(report.Levels("permissions"), ElementsAre("ok")) << report.output;
  EXPECT_THAT(report.Levels("messages"), ElementsAre("ok")) << report.output;
  EXPECT_THAT(report.Levels("locks"), ElementsAre("ok")) << report.output;
  EXPECT_THAT(report.Levels("INFO"), IsEmpty());
}

TEST_F(RedlatchDoctorTest, KeysExpireWithoutPermissionToDelete) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~*", "&*", "+@all", "-del", "-set",
                    "-psetex", "-pexpire", "-pexpireat"});
  EXPECT_EQ(Examine(UrlOf(*server_, "app:x")).code, 123);
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, TriesOnlyNamesWithThePrefix) {
  server_->Command({"ACL", "SETUSER", "app", "on", ">x", "~orders:*", "~redlatch:2:{orders:*",
                    "~redlatch:rw:{orders:*", "resetchannels", "&redlatch:*", "+@all"});
  const std::string url = UrlOf(*server_, "app:x");
  EXPECT_THAT(Examine(url).Levels("permissions"), ElementsAre("bad"));
  const Report report = Examine(url, {"--prefix", "orders:"});
  EXPECT_THAT(report.Levels("permissions"), ElementsAre("ok")) << report.output;
  EXPECT_THAT(report.Levels("locks"), ElementsAre("ok")) << report.output;
  EXPECT_TRUE(IsEmptyServer(*server_));
}

TEST_F(RedlatchDoctorTest, ReplicaNamesItsPrimary) {
  const auto replica = RedisServer::Start({.replica_of = server_->port()});
  ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  const Report report = Examine(replica->url());
  EXPECT_EQ(report.code, 123);
  EXPECT_THAT(report.Levels("role"), ElementsAre("bad"));
  EXPECT_THAT(report.output, HasSubstr(absl::StrCat("127.0.0.1:", server_->port())));
  EXPECT_THAT(report.Levels("locks"), ElementsAre("unchecked"));

  ASSERT_TRUE(server_->AwaitInfo("connected_slaves", "1"));
  const Report primary = Examine(server_->url());
  EXPECT_THAT(primary.Levels("failover"), ElementsAre("warn"));
  EXPECT_THAT(primary.Commands(), Contains("CONFIG SET min-replicas-to-write 1"));
  EXPECT_THAT(primary.Levels("WAIT"), ElementsAre(AnyOf("ok", "warn"))) << primary.output;
}

TEST_F(RedlatchDoctorTest, WarnsBeforeConnectionsRunOut) {
  server_->Command({"CONFIG", "SET", "maxclients", "12"});
  EXPECT_THAT(Examine(server_->url()).Levels("connections"), ElementsAre("warn"));
  server_->Command({"CONFIG", "SET", "maxclients", "1"});
  const Report report = Examine(server_->url());
  EXPECT_EQ(report.code, 121);
  EXPECT_THAT(report.output, HasSubstr("\"unreachable\""));
  EXPECT_THAT(Errors(), HasSubstr("raise maxclients"));
}

TEST_F(RedlatchDoctorTest, ReportsWritesRefusedAfterAFailedSnapshot) {
  const std::string snapshot = server_->directory() + "/dump.rdb";
  ASSERT_TRUE(std::filesystem::create_directories(snapshot + "/in its place"));
  server_->Text({"CONFIG", "SET", "save", "3600 1"});
  server_->Text({"BGSAVE"});
  ASSERT_TRUE(server_->AwaitInfo("rdb_last_bgsave_status", "err"));
  const Report report = Examine(server_->url());
  EXPECT_EQ(report.code, 123) << Errors();
  EXPECT_THAT(report.Levels("disk"), ElementsAre("bad"));
  ASSERT_THAT(report.Commands(), Contains("CONFIG SET stop-writes-on-bgsave-error no"));
  server_->Text({"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"});
  EXPECT_THAT(Examine(server_->url()).Levels("disk"), ElementsAre("warn"));
}

TEST_F(RedlatchDoctorTest, ReportsAWrongLoginWithoutThePassword) {
  const auto server = RedisServer::Start({.password = "secret"});
  EXPECT_EQ(Examine(UrlOf(*server, ":hunter2")).code, 123);
  EXPECT_EQ(Examine(server->url()).code, 123);
  EXPECT_THAT(Errors(), HasSubstr("check the user and password"));
  EXPECT_THAT(Errors(), HasSubstr("put the password into the URL"));
  EXPECT_THAT(Errors(), Not(HasSubstr("hunter2")));
}

TEST_F(RedlatchDoctorTest, EndsSoonIfTheServerStopsAnswering) {
  for (const int64_t answered : {1, 5000, 6000}) {
    support::TcpProxy proxy({.port = server_->port()});
    // The delay lets the test stop the answers before the doctor is done.
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

TEST_F(RedlatchDoctorTest, DescribesAnEmbeddedServerAndItsKeeper) {
  const redis::EmbeddedHome home;
  const Report first = Examine("embedded:" + home.directory());
  EXPECT_THAT(first.code, AnyOf(0, 1)) << Errors();
  EXPECT_THAT(first.output, HasSubstr("started just now, in " + home.directory()));
  EXPECT_THAT(first.Levels("persistence"), ElementsAre("note"));
  const Report second = Examine("embedded:" + home.directory());
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
  const Report report = Examine(proxy.url());
  EXPECT_NE(report.code, 0);
  EXPECT_THAT(report.Levels("messages"), Contains("bad")) << report.output;
  EXPECT_THAT(report.output, HasSubstr("leads to several servers"));
}

}  // namespace
}  // namespace redlatch
