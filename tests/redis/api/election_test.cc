// Tests elections at one real server: the cost of their observers, and which messages these accept.
#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using Led = std::optional<Leader>;
using support::RawConnection;

struct ElectionTest : ::testing::Test {
  Leadership Lead(const std::string& value) { return Must(election_.Campaign(value)); }
  static std::string Key(const std::string& suffix) {
    return support::AuxiliaryKey("name", "election." + suffix);
  }
  // Observes with a client of its own, whose last news is in `last_`.
  Observation Watch(const Client& client, const LockOptions& options = {}) {
    auto observation = Must(Election(client, "name", options).Observe([this](const Led& leader) {
      const base::MutexLock lock(mu_);
      last_ = leader ? leader->value : "none";
      ++told_;
    }));
    EXPECT_TRUE(Await([&] { return told() > 0; }));
    return observation;
  }
  std::string last() {
    const base::MutexLock lock(mu_);
    return last_;
  }
  int told() {
    const base::MutexLock lock(mu_);
    return told_;
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  Election election_{client_, "name"};
  base::Mutex mu_;
  std::string last_ ABSL_GUARDED_BY(mu_) = "nothing";
  int told_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(ElectionTest, ThousandObserversCostLittleMoreThanTheirMessages) {
  constexpr int kObservers = 1000;
  constexpr int kChanges = 10;
  std::deque<RawConnection> observers;
  const auto channel = [](int i) { return absl::StrCat("redlatch:", i); };
  for (int i = 0; i < kObservers; ++i) {
    observers.push_back(RawConnection::ToSocket(server_->unix_url().substr(7)));
    ASSERT_FALSE(observers.back().Command({"SUBSCRIBE", channel(i)}).is_error());
    server_->Do({"EVAL", std::string(lua::kElectionLeader.body), "6", "name", "q", "w", "f",
                 Key("leader"), Key("observers"), channel(i), "0123456789abcdef", "600000"});
  }
  Leadership leads = Lead("10.0.0.1:7000");
  EXPECT_TRUE(leads.Resign().ok());  // from here on, the server knows the scripts
  // As many messages in a plain script, since the time of a message depends on the machine.
  constexpr char kPlain[] =
      "for _, channel in ipairs(ARGV) do redis.call('PUBLISH', channel, KEYS[1]) end";
  std::vector<std::string> plain = {"EVAL", kPlain, "1", std::string(120, 'x')};
  for (int i = 0; i < kObservers; ++i) plain.push_back(channel(i));
  // The server's processor time until now, in milliseconds, with the writes of all messages.
  const auto cpu = [&] {
    return 1000 *
           (std::stod(server_->Info("used_cpu_user")) + std::stod(server_->Info("used_cpu_sys")));
  };
  double least = 1e9, least_plain = 1e9;  // other programs can only make a change look dearer
  for (int change = 0; change < kChanges; ++change) {
    server_->Do({"CONFIG", "RESETSTAT"});
    const double before = cpu();
    if (change % 2 == 0) {
      leads = Lead("10.0.0.1:7000");
    } else {
      EXPECT_TRUE(leads.Resign().ok());
    }
    const double changed = cpu();
    EXPECT_EQ(server_->Calls({"publish"}), kObservers) << "one message each";
    const double before_plain = cpu();
    server_->Do(plain);
    least = std::min(least, changed - before);
    least_plain = std::min(least_plain, cpu() - before_plain);
  }
  for (RawConnection& each : observers) {
    int changes = 0;
    for (int message = 0; message < 2 * kChanges + 2; ++message) {
      const redis::Reply received = each.Receive();
      ASSERT_EQ(received.elements.size(), 3) << received.DebugString();
      changes += received.elements[2].text.starts_with("leader ") ? 1 : 0;
    }
    EXPECT_EQ(changes, kChanges + 2);
  }
  RecordProperty("cpu_ms", absl::StrCat(least));
  RecordProperty("plain_ms", absl::StrCat(least_plain));
  std::printf("one change, 1,000 observers: %.1f ms of the server, the messages alone %.1f ms\n",
              least, least_plain);
  EXPECT_LE(least, 2 * least_plain);
}

TEST_F(ElectionTest, ForgedAndRepeatedMessagesAreIgnored) {
  const Client observer = Connect(server_->url());
  const std::string channel = "redlatch:" + observer.Stats().id;
  RawConnection spy = RawConnection::ToPort(server_->port());
  spy.Command({"SUBSCRIBE", channel});
  const Observation observation = Watch(observer);
  Leadership leads = Lead("true");
  EXPECT_TRUE(Await([&] { return last() == "true"; }));
  const std::string sent = spy.Receive().elements.at(2).text;
  const std::string state = absl::StrCat(leads.epoch().value() + 1, " 1 1 ", observer.Stats().id);
  // The message is like the script's, but with a secret that the forger has made up.
  const std::string text = "4 name " + state + " false";
  const std::string proof = base::Sha1Hex(absl::StrCat("secret", base::Sha1Hex(text), "secret"));
  std::vector<std::string> forged = {
      "leader ",
      "leader x",
      "leader " + proof + " " + text,
      "leader  " + text,
      "leader " + sent.substr(7, 40) + " " + text,
      sent + "!",
      absl::StrCat("leader ", proof, " 99999999999999999999 name ", state),
      absl::StrCat("leader ", proof, " 4 name"),
      absl::StrCat("leader ", proof, " 40 name x")};
  for (const std::string& each : forged) server_->Do({"PUBLISH", channel, each});
  EXPECT_TRUE(leads.Proclaim("also true").ok());
  EXPECT_TRUE(Await([&] { return last() == "also true"; })) << "it was sent after those";
  EXPECT_EQ(told(), 3);
  server_->Do({"PUBLISH", channel, sent});
  EXPECT_TRUE(leads.Resign().ok());
  EXPECT_TRUE(Await([&] { return last() == "none"; }));
  EXPECT_EQ(told(), 4);
}

TEST_F(ElectionTest, LostMessageDelaysAnObserverByAHeartbeat) {
  const Client observer = Connect(server_->url());
  const Observation observation = Watch(observer, {.lease = absl::Seconds(3)});
  server_->Do({"DEL", Key("observers")});
  const Leadership leads = Lead("a");
  EXPECT_TRUE(Await([&] { return last() == "a"; }));
  EXPECT_EQ(server_->Calls({"publish"}), 0);
  EXPECT_EQ(server_->Integer({"ZCARD", Key("observers")}), 1) << "it is registered again";
}

TEST_F(ElectionTest, NewSubscriptionAsksAtOnce) {
  const Client observer = Connect(server_->url());
  const Observation observation = Watch(observer);
  server_->Do({"DEL", Key("observers")});
  const Leadership leads = Lead("a");
  server_->Do({"CLIENT", "KILL", "TYPE", "pubsub"});
  const absl::Duration took = TimeOf([&] { EXPECT_TRUE(Await([&] { return last() == "a"; })); });
  EXPECT_LT(took, absl::Seconds(5)) << "a heartbeat takes ten";
}

TEST_F(ElectionTest, ObserveFailsIfSubscribingIsForbidden) {
  server_->Do({"ACL", "SETUSER", "some", "on", ">p", "~*", "+@all", "resetchannels"});
  const Client some =
      Connect(absl::StrCat("redis://some:p@127.0.0.1:", server_->port()),
              {.connect = ConnectPolicy::kLazy, .on_warning = [](std::string_view) {}});
  const absl::Status refused = Election(some, "name").Observe(nullptr).status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("redlatch:")));
}

TEST_F(ElectionTest, CallbacksRunWherePostSays) {
  std::vector<std::function<void()>> posted;
  const Client client = Connect(server_->url(), {.post = [&](std::function<void()> completion) {
                                  const base::MutexLock lock(mu_);
                                  posted.push_back(std::move(completion));
                                }});
  int calls = 0;
  std::string value;
  auto observation = Must(Election(client, "name").Observe([&](const Led& leader) {
    ++calls;
    value = leader ? leader->value : "none";
  }));
  const auto count = [&] {
    const base::MutexLock lock(mu_);
    return posted.size();
  };
  EXPECT_TRUE(Await([&] { return count() == 1; }));
  Leadership leads = Lead("a");
  EXPECT_TRUE(leads.Proclaim("b").ok());
  EXPECT_TRUE(Await([&] { return server_->Calls({"publish"}) == 2; }));
  // A client that registered later has been told, so this one has, too.
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(Await([&] {
    const Observation second = Watch(client_);
    return last() == "b";
  }));
  EXPECT_EQ(count(), 1) << "several changes, one call";
  posted.front()();
  EXPECT_EQ(calls, 1);
  observation = Observation();
  EXPECT_TRUE(leads.Resign().ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(ElectionTest, ExceptionOfACallbackDoesNoHarm) {
  std::atomic<int> calls = 0;
  const absl::StatusOr<Observation> observation = election_.Observe([&](const Led&) {
    ++calls;
    throw std::runtime_error("of the test");
  });
  EXPECT_TRUE(Await([&] { return calls == 1; }));
  const Leadership leads = Lead("a");
  EXPECT_TRUE(Await([&] { return calls == 2; }));
}

TEST_F(ElectionTest, DestructorWaitsForARunningCallback) {
  std::atomic<bool> entered = false;
  std::atomic<bool> left = false;
  std::promise<void> go_on;
  std::optional<Observation> observation = *election_.Observe([&](const Led&) {
    entered = true;
    go_on.get_future().wait();
    left = true;
  });
  EXPECT_TRUE(Await([&] { return entered.load(); }));
  std::jthread ends([&] {
    observation.reset();
    EXPECT_TRUE(left);
  });
  go_on.set_value();
}

TEST_F(ElectionTest, CallbackMayOwnTheClientsLastHandle) {
  std::atomic<int> calls = 0;
  auto mine = std::make_shared<std::optional<Client>>(Connect(server_->url()));
  const std::weak_ptr<std::optional<Client>> known = mine;
  Observation observation = *Election(**mine, "name").Observe([&, mine](const Led&) { ++calls; });
  mine.reset();
  EXPECT_TRUE(Await([&] { return calls == 1; }));
  EXPECT_FALSE(known.expired());
  observation = Observation();
  EXPECT_TRUE(known.expired());
}

TEST_F(ElectionTest, ForkedChildDoesNotEndObservation) {
  Observation observation = Watch(Connect(server_->url()));
  EXPECT_EQ(support::CodeOfFork([&] {
              const bool refused = absl::IsFailedPrecondition(election_.Leader().status()) &&
                                   absl::IsFailedPrecondition(election_.Campaign("x").status());
              observation = Observation();
              return refused ? 0 : 1;
            }),
            0);
  const Leadership leads = Lead("a");
  EXPECT_TRUE(Await([&] { return last() == "a"; }));
}

TEST_F(ElectionTest, QuorumHoldsNoElections) {
  QuorumGroup group(3);
  const Client client = Connect(group.url());
  Election election(client, "name");
  const auto refused = IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("quorum"));
  EXPECT_THAT(election.Campaign("a").status(), refused);
  EXPECT_THAT(election.Leader().status(), refused);
  EXPECT_THAT(election.Observe(nullptr).status(), refused);
}

TEST_F(ElectionTest, RunElectedGoesOnThoughNameLeadsToTwoPrimariesForAMoment) {
  const auto one = RedisServer::Start();
  const auto other = RedisServer::Start();
  TcpProxy proxy({.port = server_->port()});
  const Client client = Connect(proxy.url());
  proxy.LeadTo({one->port(), other->port()});
  EXPECT_TRUE(Await([&] {
    proxy.ResetAll();
    const absl::Status refused = SimpleLock(client, "lock").TryAcquire().status();
    return refused.message().find("two primaries") != std::string_view::npos;
  }));
  Election election(client, "name");
  std::stop_source stop;
  std::atomic<bool> ended{false};
  std::atomic<int> terms{0};
  std::jthread runs([&] {
    const auto work = [&](std::stop_token, FencingToken) {
      ++terms;
      return absl::OkStatus();
    };
    EXPECT_TRUE(RunElected(election, work, stop.get_token()).ok());
    ended = true;
  });
  const int64_t before = proxy.stats().accepted;
  EXPECT_TRUE(Await([&] { return ended || proxy.stats().accepted >= before + 8; }));
  proxy.LeadTo({server_->port()});
  proxy.ResetAll();
  EXPECT_TRUE(Await([&] { return ended || terms > 0; }));
  EXPECT_FALSE(ended);
  stop.request_stop();
}

TEST_F(ElectionTest, ObserverIsToldThoughItsExecutorLosesACompletion) {
  for (const bool throws : {false, true}) {
    std::atomic<bool> loses{false};
    std::atomic<int> lost{0};
    const Client client = Connect(server_->url(), {.post = [&](std::function<void()> completion) {
                                    if (!loses) return completion();
                                    ++lost;
                                    if (throws) throw std::runtime_error("the executor has ended");
                                  }});
    Leadership leads = Lead("a");
    const Observation observation = Watch(client, {.lease = absl::Seconds(3)});
    EXPECT_TRUE(Await([&] { return last() == "a"; }));
    loses = true;
    EXPECT_TRUE(leads.Proclaim("b").ok());
    EXPECT_TRUE(Await([&] { return lost > 0; }));
    loses = false;
    EXPECT_TRUE(Await([&] { return last() == "b"; })) << "after a heartbeat";
    EXPECT_TRUE(leads.Proclaim("c").ok());
    EXPECT_TRUE(Await([&] { return last() == "c"; }));
    EXPECT_TRUE(leads.Resign().ok());
  }
}

}  // namespace
}  // namespace redlatch
