// `redlatch ls`, `inspect`, `break` and `capacity`, of all primaries of a cluster.

#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/live_testing.h"
#include "tests/support/resources.h"

namespace redlatch {
namespace {

class RedlatchClusterLookTest : public RedlatchLookTest {
 protected:
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }

  Outcome AtCluster(const Words& words) const {
    return Redlatch(words, {"REDLATCH_URL=" + group_->url()});
  }

  static Client ClientOf(const ClusterGroup& group, const std::string& program) {
    return Connect(group.url(), {.program = program});
  }

  static std::string QueueOf(const std::string& name) {
    return absl::StrCat("redlatch:2:{", name, "}:simple.queue");
  }
  // "id 127.0.0.1:port@bus myself,..."
  static std::string BusPortOf(RedisServer& server) {
    const std::string nodes = server.Text({"CLUSTER", "NODES"});
    const size_t at = nodes.rfind('@', nodes.find(" myself")) + 1;
    return nodes.substr(at, nodes.find_first_of(" ,", at) - at);
  }
  static bool AwaitOneQueued(const std::string& name) {
    return Await([&] { return group_->CommandAt(name, {"ZCARD", QueueOf(name)}).integer == 1; });
  }

  static ClusterGroup* group_;
  const Client client_ = ClientOf(*group_, "billing");
  const Client other_ = ClientOf(*group_, "other");
};

ClusterGroup* RedlatchClusterLookTest::group_ = nullptr;

TEST_F(RedlatchClusterLookTest, ListsTheLocksOfAllPrimariesAndWhoHasThem) {
  std::vector<Lease> leases;
  std::string names;
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, absl::StrCat("list:", i));
    auto lease = Must(SimpleLock(client_, name).Acquire());
    leases.push_back(std::move(lease));
    absl::StrAppend(&names, name, " ");
  }
  const Outcome outcome = AtCluster({"ls", "list:*", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(Json(outcome.output, "''.join(row['name'] + ' ' for row in rows)"), names);
  EXPECT_EQ(Json(outcome.output, "{(row['holding'], row['holder']['program']) for row in rows}"),
            "{(1, 'billing')}");
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST_F(RedlatchClusterLookTest, ShowsALockOnceAndWholeWhileItsSlotIsHalfMoved) {
  const std::string name = group_->NameAt(0, "moving");
  const redis::Slot slot = redis::SlotOf(name);
  SimpleLock lock(client_, name, {.lease = absl::Hours(1)});
  const auto lease = lock.Acquire();
  ASSERT_TRUE(lease.ok());
  SimpleLock theirs(other_, name);
  const Waiting waiting([&](const AcquireOptions& how) { (void)theirs.Acquire(how); });
  ASSERT_TRUE(AwaitOneQueued(name));
  group_->BeginMove(slot, 1);
  // The queue is there already, the lock's own key is not.
  group_->server(0).Do({"MIGRATE", "127.0.0.1", absl::StrCat(group_->server(1).port()),
                        QueueOf(name), "0", "5000", "AUTH2", RedisServer::kOwnUser,
                        RedisServer::kOwnPassword});
  ASSERT_EQ(group_->server(0).Integer({"EXISTS", name}), 1);

  const Outcome list = AtCluster({"ls", "moving*", "--json"});
  EXPECT_EQ(list.code, 0) << list.errors;
  EXPECT_EQ(Json(list.output, "[(row['name'], row['holding'], row['waiting']) for row in rows]"),
            absl::StrCat("[('", name, "', 1, 1)]"));
  const Outcome look = AtCluster({"inspect", name});
  EXPECT_EQ(look.code, 0) << look.errors;
  EXPECT_THAT(look.output, AllOf(HasSubstr("held by         " + Me("billing")),
                                 HasSubstr("waiting         " + Me("other"))));

  group_->FinishMove(slot, 1);
  EXPECT_EQ(group_->OwnerOf(slot), 1);
  EXPECT_THAT(AtCluster({"inspect", name}).output,
              AllOf(HasSubstr(Me("billing")), HasSubstr(Me("other"))));
}

TEST_F(RedlatchClusterLookTest, FindsKeysThatCameToAPrimaryBeforeItHasASlot) {
  const auto group = ClusterGroup::Start();
  const std::string name = group->NameAt(0, "moving");
  const std::string slot = absl::StrCat(redis::SlotOf(name));
  const auto lease = Must(SimpleLock(ClientOf(*group, "billing"), name).Acquire());
  const support::ReservedPort bus;
  const auto fresh = RedisServer::Start(
      {.config = {"cluster-enabled yes", absl::StrCat("cluster-port ", bus.number())}});
  const std::string id = fresh->Text({"CLUSTER", "MYID"});
  fresh->Do({"CLUSTER", "MEET", "127.0.0.1", absl::StrCat(group->server(0).port()),
             BusPortOf(group->server(0))});
  for (size_t i = 0; i < group->servers(); ++i) {
    ASSERT_TRUE(Await(
        [&] {
          const std::string nodes = group->server(i).Text({"CLUSTER", "NODES"});
          const size_t line = nodes.find(id);
          return line != std::string::npos &&
                 nodes.substr(line, nodes.find('\n', line) - line).find(" master ") !=
                     std::string::npos;
        },
        absl::Seconds(20)));
  }
  ASSERT_TRUE(Await(
      [&] {
        return redis::InfoField(fresh->Text({"CLUSTER", "INFO"}), "cluster_state") == "ok";
      },
      absl::Seconds(20)));
  fresh->Do({"CLUSTER", "SETSLOT", slot, "IMPORTING", group->server(0).Text({"CLUSTER", "MYID"})});
  group->server(0).Do({"CLUSTER", "SETSLOT", slot, "MIGRATING", id});
  std::vector<std::string> migrate = {
      "MIGRATE", "127.0.0.1",           absl::StrCat(fresh->port()), "",    "0", "5000",
      "AUTH2",   RedisServer::kOwnUser, RedisServer::kOwnPassword,   "KEYS"};
  for (const auto& key : group->server(0).Do({"CLUSTER", "GETKEYSINSLOT", slot, "10"}).elements) {
    migrate.push_back(key.text);
  }
  group->server(0).Do(migrate);
  const Outcome list = Redlatch({"ls", "--json", "--server", group->url()});
  EXPECT_EQ(list.code, 0) << list.errors;
  EXPECT_EQ(Json(list.output, "[(row['name'], row['holding']) for row in rows]"),
            absl::StrCat("[('", name, "', 1)]"));
  // So that the lock can be released.
  group->server(0).Do({"CLUSTER", "SETSLOT", slot, "NODE", id});
  fresh->Do({"CLUSTER", "SETSLOT", slot, "NODE", id});
}

TEST_F(RedlatchClusterLookTest, BreaksALockAtEachPrimaryAndTellsHolderAndWaiter) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, "break");
    SCOPED_TRACE(name);
    SimpleLock lock(client_, name, {.lease = absl::Hours(1)});
    const auto lease = lock.Acquire();
    ASSERT_TRUE(lease.ok());
    SimpleLock theirs(other_, name, {.lease = absl::Hours(1)});
    absl::StatusOr<Lease> got = absl::UnknownError("");
    {
      std::thread waiter([&] { got = theirs.Acquire({.wait = absl::Seconds(30)}); });
      EXPECT_TRUE(AwaitOneQueued(name));
      const absl::Time begun = absl::Now();
      const Outcome outcome = AtCluster({"break", "--yes", name});
      EXPECT_EQ(outcome.code, 0) << outcome.errors;
      EXPECT_THAT(outcome.output, AllOf(HasSubstr("is held by:\n  " + Me("billing")),
                                        HasSubstr("Broken. It is now held by:\n  " + Me("other"))));
      waiter.join();
      EXPECT_TRUE(got.ok()) << got.status();
      EXPECT_LT(absl::Now() - begun, absl::Seconds(5)) << "not by its heartbeat";
    }
    EXPECT_TRUE(Await([&] { return lease->lost().stop_requested(); }));
  }
}

TEST_F(RedlatchClusterLookTest, ShowsAndSetsTheCapacityOfASemaphoreInAnySlot) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, "slots");
    ASSERT_TRUE(Semaphore(client_, name, 3).Acquire().ok());
    EXPECT_EQ(AtCluster({"capacity", name}).output, "3\n");
    EXPECT_EQ(AtCluster({"capacity", name, "5"}).code, 0);
    EXPECT_EQ(*Semaphore(client_, name, 3).available(), 5);
  }
  EXPECT_EQ(AtCluster({"capacity", "nothing"}).code, 1);
}

TEST_F(RedlatchClusterLookTest, SaysThatNobodyUsesAName) {
  const Outcome outcome = AtCluster({"inspect", "nobody's"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.errors, HasSubstr("there is no lock \"nobody's\" at redis-cluster://"));
}

TEST_F(RedlatchClusterLookTest, RefusesAServerThatIsNoNodeOfACluster) {
  const Outcome outcome =
      Redlatch({"ls"}, {absl::StrCat("REDLATCH_URL=redis-cluster://127.0.0.1:", server_->port())});
  EXPECT_EQ(outcome.code, 123);
  EXPECT_THAT(outcome.errors, HasSubstr("is no node of a cluster (begin the URL with redis://)"));
}

TEST_F(RedlatchClusterLookTest, RefusesOneNodeOfACluster) {
  const Outcome outcome = Redlatch({"ls"}, {"REDLATCH_URL=" + group_->server(0).url()});
  EXPECT_EQ(outcome.code, 123);
  EXPECT_THAT(outcome.errors,
              HasSubstr("is a node of a cluster (begin the URL with redis-cluster://)"));
}

TEST_F(RedlatchClusterLookTest, ListFailsIfNoNodeServesASlot) {
  const auto group = ClusterGroup::Start();
  for (size_t i = 0; i < group->servers(); ++i) {
    ASSERT_EQ(group->server(i).Text({"CLUSTER", "DELSLOTS", "7"}), "OK");
  }
  const Outcome list = Redlatch({"ls", "--server", group->url()});
  EXPECT_EQ(list.code, 121);
  EXPECT_THAT(list.errors, AllOf(HasSubstr("some locks are not shown"),
                                 HasSubstr("serves 1 of its slots, the first of which is 7")));
}

TEST_F(RedlatchClusterLookTest, NamesANodeThatIsDownAndShowsWhatTheOthersHave) {
  const auto group =
      ClusterGroup::Start({.server = {.config = {"cluster-require-full-coverage no"}}});
  const Client client = ClientOf(*group, "billing");
  std::vector<std::string> names;
  std::vector<Lease> leases;
  for (size_t i = 0; i < group->servers(); ++i) {
    names.push_back(group->NameAt(i, "job"));
    auto lease = Must(SimpleLock(client, names.back(), {.lease = absl::Hours(1)}).Acquire());
    leases.push_back(std::move(lease));
  }
  const std::string lost = absl::StrCat("127.0.0.1:", group->server(2).port());
  group->server(2).Kill();
  const Words at = {"--server", group->url()};
  const Outcome list = Redlatch(Join({"ls"}, at));
  EXPECT_EQ(list.code, 121);
  EXPECT_THAT(list.output,
              AllOf(HasSubstr(names[0]), HasSubstr(names[1]), Not(HasSubstr(names[2]))));
  EXPECT_THAT(list.errors, AllOf(HasSubstr("some locks are not shown"), HasSubstr(lost)));
  for (size_t i : {0, 1}) {
    const Outcome look = Redlatch(Join({"inspect", names[i]}, at));
    EXPECT_EQ(look.code, 0) << look.errors;
    EXPECT_THAT(look.output, HasSubstr("held by"));
  }
  const Outcome look = Redlatch(Join({"inspect", names[2]}, at));
  EXPECT_EQ(look.code, 121);
  EXPECT_THAT(look.errors, HasSubstr(lost));
  // What the client wants of that node is in vain.
  leases.clear();
}

}  // namespace
}  // namespace redlatch
