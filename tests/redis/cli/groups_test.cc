// Tests `redlatch ls`, `inspect`, `break` and `capacity` with a quorum, and with one of its
// servers.
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/fake_server.h"

namespace redlatch {
namespace {

constexpr char kJobQueue[] = "redlatch:2:{job}:quorum.queue";

struct RedlatchQuorumInspectTest : RedlatchOutputTest {
  Outcome AtAll(const Words& words) const {
    return Redlatch(words, {"REDLATCH_URL=" + group_.url("connect_timeout=3s")});
  }
  Outcome AtOne(size_t server, const Words& words) {
    return Redlatch(words, {"REDLATCH_URL=" + group_[server].url()});
  }

  Client ClientCalled(const std::string& program) const {
    return Connect(group_.url(), {.program = program});
  }
  // Acquires the lock on all servers. The client may still be connecting to some of them, so it
  // tries several times. The lease is so long that it is not renewed during the test.
  Lease Take(RedLock& lock) {
    for (int tries = 0;; ++tries) {
      auto lease = Must(lock.Acquire({.wait = absl::Seconds(10)}));
      const bool on_all =
          Await([&] { return group_.Having("job") == group_.size(); }, absl::Seconds(1));
      if (on_all || tries == 10) {
        EXPECT_TRUE(on_all);
        return lease;
      }
      EXPECT_TRUE(lease.Release().ok());
    }
  }
  bool AwaitQueuedAtAll() {
    return Await([&] { return group_.Having(kJobQueue) == group_.size(); });
  }
  // Writes grants at some servers, as other clients' attempts or dead clients may leave them.
  void GrantAt(const std::vector<size_t>& servers) {
    for (const size_t i : servers) {
      group_[i].Do({"SET", "job", std::string(32, 'a') + ":1 1", "PX", "3600000"});
    }
  }

  QuorumGroup group_;
  const RedLockOptions long_ = {.lease = absl::Hours(1)};
};

TEST_F(RedlatchQuorumInspectTest, ListsLockOnceWithServerCount) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  const auto waiting = Waiting::For<RedLock>(ClientCalled("other"), "job");
  ASSERT_TRUE(AwaitQueuedAtAll());
  const std::string list = Printed(AtAll({"ls", "--json"}));
  EXPECT_EQ(Json(list,
                 "[(r['name'], r['kind'], r['holding'], r['held_on'], r['servers'], r['waiting'], "
                 "r['holder']['program']) for r in rows]"),
            "[('job', 'quorum', 1, 5, 5, 1, 'billing')]");
  EXPECT_THAT(AtAll({"ls"}).output, AllOf(StartsWith("job   quorum      held 5/5"),
                                          HasSubstr("59m"), HasSubstr(Me("billing"))));
}

TEST_F(RedlatchQuorumInspectTest, ShowsTheAnswerOfEachServer) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  const auto waiting = Waiting::For<RedLock>(ClientCalled("other"), "job");
  ASSERT_TRUE(AwaitQueuedAtAll());
  group_[1].Do({"DEL", "job"});
  group_[4].Kill();
  EXPECT_THAT(
      AtAll({"inspect", "job"}),
      Succeeds(AllOf(
          StartsWith("Lock \"job\": quorum, held on 3 of 5\n  held by         " + Me("billing")),
          HasSubstr("waiting         " + Me("other")), HasSubstr("last token"),
          HasSubstr(absl::StrCat("servers         ", group_[0].url(), ": held, lease 59m")),
          HasSubstr(group_[1].url() + ": free\n"),
          HasSubstr(group_[4].url() + ": not asked: cannot connect"))));
  const Outcome json = AtAll({"inspect", "job", "--json"});
  EXPECT_EQ(Json(json.output,
                 "[(r['kind'], r['holding'], r['held_on'], len(r['holders']), len(r['waiters']), "
                 "['hold' in s for s in r['servers']], 'error' in r['servers'][4]) for r in rows]"),
            "[('quorum', 1, 3, 1, 1, [True, False, True, True, False], True)]");
}

TEST_F(RedlatchQuorumInspectTest, WaitsOnceForHangingServers) {
  GrantAt({0, 1, 2});
  group_[3].Stop();
  group_[4].Stop();
  const base::Instant begun = base::Now();
  const Outcome outcome = AtAll({"inspect", "job"});
  const absl::Duration took = base::Now() - begun;
  group_[3].Continue();
  group_[4].Continue();
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("held on 3 of 5"), HasSubstr("no answer")));
  EXPECT_LT(took, absl::Seconds(6)) << "one connect_timeout is 3 s";
}

TEST_F(RedlatchQuorumInspectTest, FailsIfTooFewServersAnswer) {
  GrantAt({0, 1});
  for (const size_t i : {2, 3, 4}) group_[i].Kill();
  for (const Words& words :
       {Words{"ls"}, Words{"inspect", "job"}, Words{"break", "--yes", "job"}}) {
    EXPECT_THAT(AtAll(words), Fails(121, HasSubstr("2 of 5 servers answered, and 3 are needed")))
        << words[0];
  }
  EXPECT_EQ(group_[0].Integer({"EXISTS", "job"}), 1);
  for (const size_t i : {0, 1}) group_[i].Kill();
  EXPECT_EQ(AtAll({"ls"}).code, 121);
}

TEST_F(RedlatchQuorumInspectTest, BreaksLockAtAllServers) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  EXPECT_THAT(AtAll({"break", "--yes", "job"}),
              Succeeds(AllOf(HasSubstr("is held by:\n  " + Me("billing")),
                             HasSubstr("Broken. It is free now."))));
  EXPECT_TRUE(Fires(lease.lost()));
  EXPECT_EQ(group_.Having("job"), 0U);
  EXPECT_THAT(AtAll({"break", "--yes", "job"}).output, HasSubstr("nothing to break"));
}

TEST_F(RedlatchQuorumInspectTest, BreaksGrantsOfMinority) {
  GrantAt({0, 1, 2});
  group_[4].Kill();
  EXPECT_THAT(AtAll({"break", "--yes", "job"}),
              Succeeds(_, HasSubstr("not broken at " + group_[4].url())));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(group_[i].Integer({"EXISTS", "job"}), 0) << i;
  GrantAt({3});
  EXPECT_THAT(AtAll({"break", "--yes", "job"}),
              Succeeds(HasSubstr("at " + group_[3].url() + ": held")));
  EXPECT_EQ(group_[3].Integer({"EXISTS", "job"}), 0);
}

TEST_F(RedlatchQuorumInspectTest, SingleServerShowsItsPart) {
  RedLock lock(ClientCalled("billing"), "job", long_);
  const Lease lease = Take(lock);
  EXPECT_THAT(AtOne(2, {"ls"}).output, StartsWith("job   quorum      held "));
  EXPECT_THAT(
      AtOne(2, {"inspect", "job"}).output,
      AllOf(StartsWith("Lock \"job\": quorum, held\n"),
            HasSubstr("quorum          of several servers, of which this one alone was asked")));
  const auto waiting = Waiting::For<RedLock>(ClientCalled("other"), "job");
  ASSERT_TRUE(AwaitQueuedAtAll());
  EXPECT_THAT(AtOne(2, {"inspect", "job"}).output, HasSubstr("waiting         " + Me("other")));
}

TEST_F(RedlatchQuorumInspectTest, SingleServerIsBrokenAlone) {
  GrantAt({0, 1, 2});
  group_[2].Do({"ZADD", kJobQueue, "1", std::string(32, 'b') + ":1"});
  EXPECT_THAT(AtOne(2, {"break", "--yes", "job"}),
              Succeeds(_, HasSubstr("one server of a quorum")));
  EXPECT_EQ(group_[2].Integer({"EXISTS", "job"}), 0);
  EXPECT_EQ(group_.Having("job"), 2U);
}

TEST_F(RedlatchQuorumInspectTest, HasNoSemaphores) {
  EXPECT_THAT(AtAll({"capacity", "encoders", "4"}),
              Fails(123,
                    AllOf(HasSubstr("a quorum of servers has no semaphores"),
                          HasSubstr("--server " + group_[0].url())),
                    IsEmpty()));
}

// Tests `redlatch run` with a quorum.

struct RedlatchQuorumRunTest : RedlatchRunTest {
  Words AtAll() const { return {"REDLATCH_URL=" + group_.url()}; }
  std::unique_ptr<support::Child> StartAtAll(const Words& words) const {
    return Start(words, AtAll());
  }
  QuorumGroup group_;
};

TEST_F(RedlatchQuorumRunTest, RunsACommandWhileAMajorityGrantsIt) {
  const auto holder = StartAtAll({"--lease", "3s", "job", "--", "sh", "-c",
                                  "echo $REDLATCH_TOKEN $REDLATCH_SERVER; read -r line"});
  const std::vector<std::string> told =
      absl::StrSplit(holder->pipe().ReadLine().value_or("0"), ' ');
  EXPECT_THAT(told, ElementsAre(_, group_.url())) << Errors();
  EXPECT_GT(std::stoll(told[0]), 0);
  EXPECT_TRUE(Await([&] { return group_.Having("job") == 5; })) << "a renewal heals";
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, AtAll()), 120);
  EXPECT_THAT(Errors(), HasSubstr("lock \"job\" is busy: held by sh (run, "));
  holder->pipe().WriteLine("");
  EXPECT_EQ(CodeOf(*holder), 0);
  EXPECT_TRUE(Await([&] { return group_.Having("job") == 0; }));
}

TEST_F(RedlatchQuorumRunTest, EndsTheCommandIfTheMajorityIsLost) {
  const auto holder = StartAtAll(
      {"--lease", "1s", "--grace", "200ms", "job", "--", "sh", "-c", "echo runs; read -r line"});
  ASSERT_EQ(holder->pipe().ReadLine(), "runs") << Errors();
  for (const size_t i : {0, 1, 2}) group_[i].Kill();
  EXPECT_EQ(CodeOf(*holder), 122) << Errors();
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, AtAll()), 121);
}

TEST_F(RedlatchQuorumRunTest, RefusesOptionsThatAQuorumDoesNotHave) {
  for (const Words& words :
       {Words{"--shared"}, Words{"--write"}, Words{"--permits", "1", "--capacity", "2"},
        Words{"--capacity", "2"}}) {
    EXPECT_EQ(Code(Join(words, {"job", "--", "true"}), AtAll()), 125) << words[0];
    EXPECT_THAT(Errors(), AllOf(HasSubstr(words[0] + " is not for a quorum of servers"),
                                HasSubstr("--server " + group_[0].url())));
  }
}

// Tests commands with a node of a cluster that redirects them, or asks them to try again.

using support::FakeServer;

constexpr char kJobName[] = "job";

// A node that believes it serves all slots, and has no keys.
class Node {
 public:
  // The reply to a question about a key; nullopt: the key does not exist.
  using Refusal = std::function<std::optional<std::string>()>;
  explicit Node(Refusal refusal = [] { return std::nullopt; }) : refusal_(std::move(refusal)) {}

  std::string url() const { return "redis-cluster://" + node_.address(); }
  std::string MovedHere() const {
    return absl::StrCat("-MOVED ", redis::SlotOf(kJobName), " ", node_.address(), "\r\n");
  }
  int asked() const { return asked_; }
  void HandSlotsTo(const Node& other) { node_.HandSlotsTo(other.node_); }

 private:
  const Refusal refusal_;
  std::atomic<int> asked_ = 0;
  support::FakeClusterNode node_{
      [this](const FakeServer::Asked& asked) -> std::optional<std::string> {
        const std::string& command = asked.command[0];
        if (command != "HGET" && command != "EXISTS") return FakeServer::Polite(asked);
        ++asked_;
        if (std::optional<std::string> refused = refusal_()) return refused;
        return command == "HGET" ? "$-1\r\n" : ":0\r\n";
      }};
};

struct RedlatchClusterServerTest : RedlatchCommandTest {
  // The exit code; 1 means that there is no such lock.
  int Inspect(const std::string& url) const {
    const auto command = StartRedlatch({"inspect", kJobName}, {"REDLATCH_URL=" + url});
    return CodeOf(*command);
  }
};

TEST_F(RedlatchClusterServerTest, FollowsASlotToTheNodeThatHasIt) {
  const Node owner;
  std::atomic<Node*> self = nullptr;
  Node former([&] {
    self.load()->HandSlotsTo(owner);
    return owner.MovedHere();
  });
  self = &former;
  EXPECT_EQ(Inspect(former.url()), 1) << Errors();
  EXPECT_GT(former.asked(), 0);
  EXPECT_GT(owner.asked(), 1);
}

TEST_F(RedlatchClusterServerTest, RepeatsQuestionsRefusedForNow) {
  for (const char* const refusal : {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                                    "-CLUSTERDOWN The cluster is down\r\n"}) {
    std::atomic<int> left = 3;
    const Node node([&]() -> std::optional<std::string> {
      if (left-- > 0) return refusal;
      return std::nullopt;
    });
    EXPECT_EQ(Inspect(node.url()), 1) << Errors();
    EXPECT_GT(node.asked(), 3);
  }
}

TEST_F(RedlatchClusterServerTest, StopsFollowingRedirectsInACircle) {
  std::atomic<const Node*> self = nullptr;
  const Node circle([&] { return self.load()->MovedHere(); });
  self = &circle;
  const absl::Time begun = absl::Now();
  EXPECT_EQ(Inspect(circle.url() + "?command_timeout=10ms"), 121);
  EXPECT_LT(absl::Now() - begun, absl::Seconds(15));
  EXPECT_THAT(Errors(), HasSubstr("is on the move, for longer than this could wait"));
  EXPECT_LT(circle.asked(), 1000) << "it pauses between attempts";
}

// Tests `redlatch ls`, `inspect`, `break` and `capacity` with all primaries of a cluster.

struct RedlatchClusterInspectTest : RedlatchOutputTest {
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
  // Reads the bus port in "id 127.0.0.1:port@bus myself,...".
  static std::string BusPortOf(RedisServer& server) {
    const std::string nodes = server.Text({"CLUSTER", "NODES"});
    const size_t at = nodes.rfind('@', nodes.find(" myself")) + 1;
    return nodes.substr(at, nodes.find_first_of(" ,", at) - at);
  }
  static bool AwaitOneQueued(const std::string& name) {
    return Await([&] { return group_->CommandAt(name, {"ZCARD", QueueOf(name)}).integer == 1; });
  }

  // The command fails within about a connect timeout, 2 s, and says which node to start again.
  void ExpectUnreachable(const Words& words, const std::string& node) const {
    const base::Instant begun = base::Now();
    EXPECT_THAT(Redlatch(words), Fails(121, AllOf(HasSubstr(node), HasSubstr("start it again"))));
    EXPECT_LT(base::Now() - begun, absl::Seconds(4.5));
  }

  static ClusterGroup* group_;
  const Client client_ = ClientOf(*group_, "billing");
  const Client other_ = ClientOf(*group_, "other");
};

ClusterGroup* RedlatchClusterInspectTest::group_ = nullptr;

TEST_F(RedlatchClusterInspectTest, ListsLocksOfAllPrimaries) {
  std::vector<Lease> leases;
  std::string names;
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, absl::StrCat("list:", i));
    leases.push_back(Must(SimpleLock(client_, name).Acquire()));
    absl::StrAppend(&names, name, " ");
  }
  const Outcome outcome = AtCluster({"ls", "list:*", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(Json(outcome.output, "''.join(row['name'] + ' ' for row in rows)"), names);
  EXPECT_EQ(Json(outcome.output, "{(row['holding'], row['holder']['program']) for row in rows}"),
            "{(1, 'billing')}");
  EXPECT_THAT(outcome.errors, IsEmpty());
}

TEST_F(RedlatchClusterInspectTest, ShowsLockOnceDuringMove) {
  const std::string name = group_->NameAt(0, "moving");
  const redis::Slot slot = redis::SlotOf(name);
  const auto lease = Must(SimpleLock(client_, name, {.lease = absl::Hours(1)}).Acquire());
  const auto waiting = Waiting::For<SimpleLock>(other_, name);
  ASSERT_TRUE(AwaitOneQueued(name));
  group_->BeginMove(slot, 1);
  // Moves the queue, but not the lock's main key.
  group_->server(0).Do({"MIGRATE", "127.0.0.1", absl::StrCat(group_->server(1).port()),
                        QueueOf(name), "0", "5000", "AUTH2", RedisServer::kOwnUser,
                        RedisServer::kOwnPassword});
  ASSERT_EQ(group_->server(0).Integer({"EXISTS", name}), 1);

  const std::string list = Printed(AtCluster({"ls", "moving*", "--json"}));
  EXPECT_EQ(Json(list, "[(row['name'], row['holding'], row['waiting']) for row in rows]"),
            absl::StrCat("[('", name, "', 1, 1)]"));
  EXPECT_THAT(AtCluster({"inspect", name}),
              Succeeds(AllOf(HasSubstr("held by         " + Me("billing")),
                             HasSubstr("waiting         " + Me("other")))));

  group_->FinishMove(slot, 1);
  EXPECT_EQ(group_->OwnerOf(slot), 1);
  EXPECT_THAT(AtCluster({"inspect", name}).output,
              AllOf(HasSubstr(Me("billing")), HasSubstr(Me("other"))));
}

TEST_F(RedlatchClusterInspectTest, FindsKeysAtPrimaryWithoutSlots) {
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
  const std::string list = Printed(Redlatch({"ls", "--json", "--server", group->url()}));
  EXPECT_EQ(Json(list, "[(row['name'], row['holding']) for row in rows]"),
            absl::StrCat("[('", name, "', 1)]"));
  // Finishes the move, so that the lock can be released.
  group->server(0).Do({"CLUSTER", "SETSLOT", slot, "NODE", id});
  fresh->Do({"CLUSTER", "SETSLOT", slot, "NODE", id});
}

TEST_F(RedlatchClusterInspectTest, BreaksLocksAtEachPrimary) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, "break");
    SCOPED_TRACE(name);
    const auto lease = Must(SimpleLock(client_, name, {.lease = absl::Hours(1)}).Acquire());
    SimpleLock theirs(other_, name, {.lease = absl::Hours(1)});
    absl::StatusOr<Lease> got = absl::UnknownError("");
    {
      std::thread waiter([&] { got = theirs.Acquire({.wait = absl::Seconds(30)}); });
      EXPECT_TRUE(AwaitOneQueued(name));
      const absl::Time begun = absl::Now();
      EXPECT_THAT(AtCluster({"break", "--yes", name}),
                  Succeeds(AllOf(HasSubstr("is held by:\n  " + Me("billing")),
                                 HasSubstr("Broken. It is now held by:\n  " + Me("other")))));
      waiter.join();
      EXPECT_TRUE(got.ok()) << got.status();
      EXPECT_LT(absl::Now() - begun, absl::Seconds(5)) << "it is told, not found by a heartbeat";
    }
    EXPECT_TRUE(Await([&] { return lease.lost().stop_requested(); }));
  }
}

TEST_F(RedlatchClusterInspectTest, AsksForCapacityAndLeaderInAnySlot) {
  for (size_t i = 0; i < group_->servers(); ++i) {
    const std::string name = group_->NameAt(i, "slots");
    ASSERT_TRUE(Semaphore(client_, name, 3).Acquire().ok());
    EXPECT_EQ(AtCluster({"capacity", name}).output, "3\n");
    EXPECT_EQ(AtCluster({"capacity", name, "5"}).code, 0);
    EXPECT_EQ(Semaphore(client_, name, 3).Inspect()->available(), 5);
    const auto leads = Must(Election(client_, group_->NameAt(i, "leads")).Campaign("here"));
    EXPECT_THAT(AtCluster({"leader", group_->NameAt(i, "leads")}).output,
                StartsWith("here  epoch "));
  }
  EXPECT_EQ(AtCluster({"capacity", "nothing"}).code, 1);
  EXPECT_THAT(AtCluster({"inspect", "nothing"}),
              Fails(1, HasSubstr("there is no lock \"nothing\" at redis-cluster://")));
}

TEST_F(RedlatchClusterInspectTest, RefusesAServerOutsideAndASingleNode) {
  EXPECT_THAT(
      Redlatch({"ls"}, {absl::StrCat("REDLATCH_URL=redis-cluster://127.0.0.1:", server_->port())}),
      Fails(123, HasSubstr("is no node of a cluster (begin the URL with redis://)")));
  EXPECT_THAT(
      Redlatch({"ls"}, {"REDLATCH_URL=" + group_->server(0).url()}),
      Fails(123, HasSubstr("is a node of a cluster (begin the URL with redis-cluster://)")));
}

TEST_F(RedlatchClusterInspectTest, ListFailsIfNoNodeServesASlot) {
  const auto group = ClusterGroup::Start();
  for (size_t i = 0; i < group->servers(); ++i) {
    ASSERT_EQ(group->server(i).Text({"CLUSTER", "DELSLOTS", "7"}), "OK");
  }
  EXPECT_THAT(Redlatch({"ls", "--server", group->url()}),
              Fails(121, AllOf(HasSubstr("some locks are not shown"),
                               HasSubstr("serves 1 of its slots, the first of which is 7"))));
}

TEST_F(RedlatchClusterInspectTest, ListsRestIfOneNodeIsDown) {
  const auto group =
      ClusterGroup::Start({.server = {.config = {"cluster-require-full-coverage no"}}});
  const Client client = ClientOf(*group, "billing");
  std::vector<std::string> names;
  std::vector<Lease> leases;
  for (size_t i = 0; i < group->servers(); ++i) {
    names.push_back(group->NameAt(i, "job"));
    leases.push_back(Must(SimpleLock(client, names.back(), {.lease = absl::Hours(1)}).Acquire()));
  }
  const std::string lost = absl::StrCat("127.0.0.1:", group->server(2).port());
  const Words at = {"--server", group->url()};
  group->server(2).Stop();
  ExpectUnreachable(Join({"inspect", names[2]}, at), lost);
  group->server(2).Kill();
  EXPECT_THAT(Redlatch(Join({"ls"}, at)),
              Fails(121, AllOf(HasSubstr("some locks are not shown"), HasSubstr(lost)),
                    AllOf(HasSubstr(names[0]), HasSubstr(names[1]), Not(HasSubstr(names[2])))));
  for (size_t i : {0, 1}) {
    EXPECT_THAT(Redlatch(Join({"inspect", names[i]}, at)), Succeeds(HasSubstr("held by")));
  }
  ExpectUnreachable(Join({"inspect", names[2]}, at), lost);
  // The release at the dead node fails.
  leases.clear();
}

}  // namespace
}  // namespace redlatch
