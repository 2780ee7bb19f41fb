// Tests `redlatch doctor` with clusters and quorums that are well, and with others.
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {
namespace {

struct RedlatchGroupDoctorTest : RedlatchDoctorFixture {
  static auto Says(const std::string& level) { return HasSubstr("\"level\":\"" + level + "\""); }
};

struct RedlatchClusterDoctorTest : RedlatchGroupDoctorTest {
  static void SetUpTestSuite() {
    group_ =
        ClusterGroup::Start({.server = {.config = {"cluster-require-full-coverage no"}}}).release();
  }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  static std::string AddressOf(ClusterGroup& group, size_t server) {
    return absl::StrCat("127.0.0.1:", group.server(server).port());
  }
  static std::string AddressOf(size_t server) { return AddressOf(*group_, server); }

  static ClusterGroup* group_;
};

ClusterGroup* RedlatchClusterDoctorTest::group_ = nullptr;

TEST_F(RedlatchClusterDoctorTest, HealthyClusterIsFitAndLeftClean) {
  const auto group = ClusterGroup::Start(
      {.replicas = 1, .server = {.append_only = true, .config = {"appendfsync always"}}});
  const Report report = Examine(group->url());
  // Times are the machine's; all else is well.
  EXPECT_THAT(report.code, AnyOf(0, 1)) << report.output << Errors();
  for (const char* const check :
       {"seeds", "slots", "state", "nodes", "moves", "version", "mode", "permissions", "locks",
        "eviction", "persistence", "failover", "messages", "connections"}) {
    EXPECT_THAT(report.Only(check), Says("ok")) << check;
  }
  EXPECT_THAT(report.Of("role"), AllOf(SizeIs(2), Each(Says("ok"))));
  EXPECT_THAT(report.Of("versions"), IsEmpty());
  EXPECT_THAT(report.Of("replicas"), IsEmpty()) << "each has one";
  EXPECT_THAT(report.Only("coverage"), Says("note"));
  EXPECT_THAT(report.Only("locks"),
              AllOf(HasSubstr(AddressOf(*group, 0)), HasSubstr(AddressOf(*group, 2)),
                    Not(HasSubstr(AddressOf(*group, 3)))));
  EXPECT_THAT(report.Only("permissions"), HasSubstr(AddressOf(*group, 5)));
  for (size_t i = 0; i < group->servers(); ++i) {
    EXPECT_TRUE(Await([&] { return group->server(i).Integer({"DBSIZE"}) == 0; }));
  }
}

TEST_F(RedlatchClusterDoctorTest, NamesPrimariesWithoutReplicas) {
  const Report report = Examine(group_->url());
  EXPECT_EQ(report.code, 1) << report.output;
  EXPECT_THAT(report.Only("replicas"),
              AllOf(Says("warn"), HasSubstr("no node serves its slots"), HasSubstr(AddressOf(0)),
                    HasSubstr(AddressOf(1)), HasSubstr(AddressOf(2))));
  EXPECT_THAT(report.Only("coverage"), Says("ok"));
}

TEST_F(RedlatchClusterDoctorTest, NamesUnservedSlots) {
  for (const char* const covered : {"yes", "no"}) {
    for (size_t i = 0; i < group_->servers(); ++i) {
      group_->server(i).Do({"CONFIG", "SET", "cluster-require-full-coverage", covered});
    }
    group_->server(0).Do({"CLUSTER", "DELSLOTSRANGE", "100", "109"});
    const Report report = Examine(group_->url());
    EXPECT_EQ(report.code, 123);
    EXPECT_THAT(report.Only("slots"),
                AllOf(Says("bad"), HasSubstr("no node serves 10 of them (100-109)")))
        << covered;
    group_->server(0).Do({"CLUSTER", "ADDSLOTSRANGE", "100", "109"});
    ASSERT_TRUE(group_->AwaitWell());
  }
  EXPECT_THAT(Examine(group_->url()).Only("slots"), Says("ok"));
}

TEST_F(RedlatchClusterDoctorTest, NamesSeedsOfAnotherClusterOrOfNone) {
  const auto other = support::StartClusterOfOne();
  const std::string others = absl::StrCat("127.0.0.1:", other->port());
  const std::string none = absl::StrCat("127.0.0.1:", server_->port());
  const Report report = Examine(absl::StrCat(group_->url(), ",", others, ",", none));
  EXPECT_EQ(report.code, 123);
  const std::vector<std::string> seeds = report.Of("seeds");
  ASSERT_THAT(seeds, SizeIs(2)) << report.output;
  EXPECT_THAT(seeds[0], AllOf(Says("bad"), HasSubstr(absl::StrCat(others,
                                                                  " belongs to another "
                                                                  "cluster than ",
                                                                  AddressOf(0)))));
  EXPECT_THAT(seeds[1], AllOf(Says("bad"), HasSubstr(none + " is no node of a cluster")));
}

TEST_F(RedlatchClusterDoctorTest, NamesMissingPermissionsPerNode) {
  const std::vector<std::string> all = {"ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all"};
  for (size_t i : {0, 1, 2}) group_->server(i).Do(all);
  group_->server(1).Do({"ACL", "SETUSER", "app", "-ssubscribe", "-spublish"});
  group_->server(2).Do({"ACL", "SETUSER", "app", "-asking"});
  const std::string url =
      absl::StrReplaceAll(group_->url(), {{"redis-cluster://", "redis-cluster://app:pw@"}});
  const Report report = Examine(url);
  EXPECT_EQ(report.code, 123);
  EXPECT_THAT(report.Of("messages"),
              ::testing::Contains(AllOf(Says("bad"), HasSubstr("sharded channels are refused"),
                                        HasSubstr(AddressOf(1)), HasSubstr("+spublish"))));
  EXPECT_THAT(report.Of("permissions"),
              ::testing::Contains(AllOf(Says("bad"), HasSubstr("asking"), HasSubstr("+asking"),
                                        HasSubstr(AddressOf(2)))));
  group_->server(1).Do({"ACL", "DELUSER", "app"});
  EXPECT_THAT(Examine(url).Only("nodes"),
              AllOf(Says("bad"), HasSubstr(AddressOf(1) + " does not let this user in")));
  for (size_t i : {0, 2}) group_->server(i).Do({"ACL", "DELUSER", "app"});
}

TEST_F(RedlatchClusterDoctorTest, SuggestsMapForWrongAddress) {
  const support::ReservedPort nowhere;
  const std::string announced = absl::StrCat("127.0.0.1:", nowhere.number());
  group_->server(2).Do({"CONFIG", "SET", "cluster-announce-port", absl::StrCat(nowhere.number())});
  const auto known = [&](const std::string& address) {
    return group_->server(0).Text({"CLUSTER", "NODES"}).find(address + "@") != std::string::npos;
  };
  ASSERT_TRUE(Await([&] { return known(announced); }, absl::Seconds(20)));
  const std::string map = absl::StrCat("map=", announced, "/", AddressOf(2));
  EXPECT_THAT(Examine(group_->url()).Only("nodes"),
              AllOf(Says("bad"), HasSubstr(announced + " can't be reached"), HasSubstr(map)));
  EXPECT_THAT(Examine(absl::StrCat(group_->url(), "?", map)).Only("nodes"), Says("ok"));
  group_->server(2).Do({"CONFIG", "SET", "cluster-announce-port", "0"});
  EXPECT_TRUE(Await([&] { return known(AddressOf(2)); }, absl::Seconds(20)));
}

TEST_F(RedlatchClusterDoctorTest, NamesANodeThatIsDown) {
  const auto group = ClusterGroup::Start();
  group->server(1).Kill();
  const Report soon = Examine(group->url());
  EXPECT_EQ(soon.code, 123);
  EXPECT_THAT(soon.Only("nodes"), AllOf(Says("bad"), HasSubstr(AddressOf(*group, 1))));
  EXPECT_THAT(soon.Only("seeds"), AllOf(Says("warn"), HasSubstr(AddressOf(*group, 1))));
  ASSERT_TRUE(Await(
      [&] {
        const std::string info = group->server(0).Text({"CLUSTER", "INFO"});
        return redis::InfoField(info, "cluster_state") == "fail";
      },
      absl::Seconds(20)));
  const Report later = Examine(group->url());
  EXPECT_EQ(later.code, 123);
  EXPECT_THAT(later.Only("nodes"), AllOf(Says("bad"), HasSubstr(AddressOf(*group, 1) +
                                                                " has failed; no lock in slots")));
  EXPECT_THAT(later.Only("state"), AllOf(Says("bad"), HasSubstr(AddressOf(*group, 0))));
}

TEST_F(RedlatchClusterDoctorTest, SingleNodeIsOnlyAPartOfACluster) {
  const Report report = Examine(group_->server(0).url());
  EXPECT_EQ(report.code, 123);
  EXPECT_THAT(report.Only("mode"), AllOf(Says("bad"), HasSubstr("redis-cluster://")));
}

using RedlatchQuorumDoctorTest = RedlatchGroupDoctorTest;

TEST_F(RedlatchQuorumDoctorTest, HealthyQuorumIsFitAndNothingIsLeft) {
  QuorumGroup group(3, {.append_only = true, .config = {"appendfsync always"}});
  const Report report = Examine(group.url());
  // Times are the machine's; all else is well.
  EXPECT_THAT(report.code, AnyOf(0, 1)) << report.output << Errors();
  for (const char* const check : {"quorum", "servers", "independence", "clocks", "version", "role",
                                  "permissions", "persistence", "eviction", "messages"}) {
    EXPECT_THAT(report.Text(check), Says("ok")) << check;
  }
  EXPECT_THAT(report.Text("locks"), AllOf(Says("ok"), HasSubstr("taken, kept and released: quorum"),
                                          HasSubstr(group[0].url()), HasSubstr(group[2].url())));
  EXPECT_THAT(report.Text("replicas"), IsEmpty());
  for (size_t i = 0; i < group.size(); ++i) {
    EXPECT_TRUE(Await([&] { return group[i].Integer({"DBSIZE"}) == 0; })) << i;
  }
}

TEST_F(RedlatchQuorumDoctorTest, RefusesQuorumWithCluster) {
  const Report report = Examine("redlock:redis-cluster://n1,redis://127.0.0.1:1");
  EXPECT_EQ(report.code, 125);
  EXPECT_THAT(Errors(), HasSubstr("--server redis-cluster://n1:6379"));
}

}  // namespace
}  // namespace redlatch
