// After a promotion, nothing is granted until everything that the old primary may have granted has
// expired.

#include "src/lock/key_set.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using ::testing::Contains;

// min-replicas-max-lag leaves this much of the quarantine
constexpr absl::Duration kLease = absl::Seconds(1);
constexpr absl::Duration kQuarantineTimeout = absl::Seconds(20);

struct Quarantine : ::testing::Test {
  Client ConnectHere() const { return Connect(primary_->url() + "?quarantine=3s"); }
  // Takes some lock once, so that the quarantine of the first use is over.
  static void SitOut(const Client& client) {
    EXPECT_TRUE(
        SimpleLock(client, "first", {.lease = kLease}).Acquire({.wait = kQuarantineTimeout}).ok());
  }

  const std::unique_ptr<RedisServer> primary_ =
      RedisServer::Start({.config = {"min-replicas-max-lag 1"}});
};

TEST_F(Quarantine, IsTheSameForAllClients) {
  SitOut(ConnectHere());
  const Client other = Connect(primary_->url() + "?quarantine=4s");
  const absl::Status refused = SimpleLock(other, "lock", {.lease = kLease}).Acquire().status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("4000 ms"), HasSubstr("3000 ms")));
}

TEST_F(Quarantine, RefusesLeasesThatWouldOutliveIt) {
  const Client client = ConnectHere();
  SimpleLock lock(client, "lock", {.lease = 1.1 * kLease});
  const absl::Status refused = lock.Acquire().status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kInvalidArgument,
                               HasSubstr("could outlive the quarantine")));
}

// A client that has not connected yet does not know what the server allows.
TEST_F(Quarantine, AllowsLeasesBeforeTheFirstConnection) {
  const auto lazy = [&] {
    return *Client::Connect(primary_->url() + "?quarantine=3s", {.connect = ConnectPolicy::kLazy});
  };
  const Client client = lazy();
  SimpleLock allowed(client, "lock", {.lease = kLease});
  const absl::Status first = allowed.TryAcquire().status();
  EXPECT_TRUE(first.ok() || IsBusy(first)) << first;
  SitOut(client);
  const Client another = lazy();
  SimpleLock refused(another, "lock", {.lease = 1.1 * kLease, .cache_for = kLease / 2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(refused.Acquire().status().code(), absl::StatusCode::kInvalidArgument);
  }
  const Client third = lazy();
  SimpleLock later(third, "lock", {.lease = 1.1 * kLease});
  std::promise<absl::Status> told;
  later.AcquireAsync({},
                     [&](const absl::StatusOr<Lease>& lease) { told.set_value(lease.status()); });
  EXPECT_EQ(told.get_future().get().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(allowed.Acquire({.wait = kLease / 2}).ok()) << "it went back";
}

TEST_F(Quarantine, NeedsInfo) {
  const auto server = RedisServer::Start({.acl = {"user app on nopass ~* &* +@all -info"}});
  const std::string port = absl::StrCat(server->port());
  const auto client = Client::Connect("redis://app:x@127.0.0.1:" + port + "?quarantine=60s");
  EXPECT_THAT(client.status(),
              IsError(absl::StatusCode::kPermissionDenied, HasSubstr("quarantine= needs it")));
}

TEST_F(Quarantine, ErrorSaysIfLagIsGuessed) {
  const auto server = RedisServer::Start({.acl = {"user app on nopass ~* &* +@all -config"}});
  const std::string url = absl::StrCat("redis://app:x@127.0.0.1:", server->port());
  std::vector<std::string> warnings;
  ClientOptions options;
  options.on_warning = [&](std::string_view warning) { warnings.emplace_back(warning); };
  EXPECT_TRUE(Client::Connect(url + "?quarantine=60s", options).ok());
  EXPECT_THAT(warnings, Contains(HasSubstr("min-replicas-max-lag, which quarantine= needs: it is "
                                           "taken for 10s")));
}

TEST_F(Quarantine, OutlastsIsolatedPrimary) {
  const absl::Status refused = Client::Connect(primary_->url() + "?quarantine=2s").status();
  EXPECT_THAT(refused, IsError(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("may grant for 2s after it was cut off")));
}

// Meanwhile, another server may have granted locks that this one does not have.
TEST_F(Quarantine, BeginsIfServerWasReplicaWhileConnectionWasIdle) {
  const Client client = ConnectHere();
  SitOut(client);
  SimpleLock lock(client, "lock", {.lease = kLease});
  EXPECT_TRUE(lock.TryAcquire().ok());
  primary_->Do({"REPLICAOF", "127.0.0.1", "1"});
  primary_->Do({"REPLICAOF", "NO", "ONE"});
  Sleep(absl::Milliseconds(1100));  // within a second, the client relies on what it knew
  EXPECT_TRUE(IsBusy(lock.TryAcquire().status()));
  EXPECT_EQ(client.Stats().breaks, 0);
}

// True if the server has executed a script with that argument. Its slow log has all commands.
bool HasRunWith(RedisServer& server, const std::string& argument) {
  const redis::Reply log = server.Command({"SLOWLOG", "GET", "-1"});
  return std::ranges::any_of(log.elements, [&](const redis::Reply& entry) {
    const std::vector<redis::Reply>& words = entry.elements.at(3).elements;
    return words[0].text.starts_with("EVAL") &&
           std::ranges::any_of(words, [&](const auto& word) { return word.text == argument; });
  });
}

// A server that was just promoted accepts no write until it has a replica, so it cannot begin its
// quarantine yet. Its record is its predecessor's, whose primary epoch a waiting request names.
TEST(Promotion, GrantsNothingToRequestsThatNameFormerPrimary) {
  support::RedisServerOptions options{
      .config = {"min-replicas-to-write 1", "min-replicas-max-lag 3", "repl-diskless-sync-delay 0",
                 "slowlog-log-slower-than 0", "slowlog-max-len 10000"}};
  const auto old = RedisServer::Start(options);
  const auto replica = RedisServer::Start(options);
  TcpProxy replication({old->port()});
  options.replica_of = replication.port();
  const auto promoted = RedisServer::Start(options);
  ASSERT_TRUE(old->AwaitInfo("min_slaves_good_slaves", "1"));
  const std::string epoch = old->Info("master_replid");
  old->Do(
      {"SET", internal::PrimaryEpochKey({}), epoch + " 1 60000"});  // its own quarantine is over
  ASSERT_EQ(old->Integer({"WAIT", "1", "10000"}), 1);

  TcpProxy way({old->port()});
  const Client waiting =
      Connect(way.url() + "?quarantine=60s&command_timeout=20s&connect_timeout=30s");
  const Client holding = Connect(old->url() + "?quarantine=60s");
  replication.Hold(Direction::kToClient);  // the new primary lacks the grant
  const Lease held = Must(SimpleLock(holding, "lock").Acquire());
  SimpleLock lock(waiting, "lock");
  const base::Instant asked = base::Now();
  // It subscribes, and relies on this epoch for a second.
  const std::string queue = support::AuxiliaryKey("lock", "simple.queue");
  EXPECT_FALSE(lock.Acquire({.wait = absl::Milliseconds(1)}).ok());
  ASSERT_TRUE(Await([&] { return old->Integer({"EXISTS", queue}) == 0; }));

  promoted->Do({"REPLICAOF", "NO", "ONE"});
  way.LeadTo({promoted->port()});
  way.Hold(Direction::kToServer);
  const int64_t before = way.stats().accepted;
  old->Kill();
  // The connection comes back by itself.
  ASSERT_TRUE(way.Await([&](const auto& its) { return its.accepted == before + 1; }));
  std::atomic<bool> granted = false;
  std::jthread waiter([&](const std::stop_token& stop) {
    granted = lock.Acquire({.wait = absl::Minutes(1), .stop = stop}).ok();
  });
  ASSERT_LT(base::Now() - asked, absl::Seconds(1)) << "the request does not name the epoch";
  // The server refuses the first script, and does not know the request's. When the client learns of
  // that and sends the request again, the server accepts writes.
  way.Delay(Direction::kToClient, absl::Milliseconds(200));
  way.ReleaseHeld();
  ASSERT_TRUE(Await([&] { return !promoted->Info("errorstat_NOREPLICAS").empty(); }));
  way.Hold(Direction::kToClient);
  replica->Do({"REPLICAOF", "127.0.0.1", absl::StrCat(promoted->port())});
  ASSERT_TRUE(promoted->AwaitInfo("min_slaves_good_slaves", "1"));
  way.Heal();

  EXPECT_TRUE(Await([&] { return granted || promoted->Integer({"EXISTS", queue}) == 1; }));
  EXPECT_TRUE(HasRunWith(*promoted, epoch));
  EXPECT_TRUE(held.valid());
  EXPECT_FALSE(granted) << "two have the lock";
}

// A quarantine of a minute, which the test ends and starts by writing the key.
struct LongQuarantine : Quarantine {
  LongQuarantine() { End(); }
  void End() {
    const redis::Reply time = primary_->Command({"TIME"});
    primary_->Command(
        {"SET", internal::PrimaryEpochKey({}),
         absl::StrCat(primary_->Info("master_replid"), " ", time.elements[0].text, "000 60000")});
  }
  void Begin() { primary_->Command({"DEL", internal::PrimaryEpochKey({})}); }

  const Client client_ = Connect(primary_->url() + "?quarantine=60s");
};

TEST_F(LongQuarantine, AllowsReleasesButNoHandover) {
  SimpleLock simple(client_, "simple");
  ReentrantLock reentrant(client_, "reentrant");
  ReentrantReadWriteLock read_write(client_, "read_write");
  MultiLock several(client_, {"a", "b"});
  auto first = simple.Acquire(), second = reentrant.Acquire(), third = read_write.Acquire();
  auto fourth = several.Acquire();
  auto permit = Must(Semaphore(client_, "semaphore", 1).Acquire());
  Begin();
  const Client other = Connect(primary_->url() + "?quarantine=61s");
  EXPECT_TRUE(IsBusy(SimpleLock(other, "simple").TryAcquire().status()));
  for (auto* const lease : {&first, &second, &third, &fourth}) {
    ASSERT_TRUE(lease->ok()) << lease->status();
    EXPECT_TRUE((*lease)->Release().ok()) << (*lease)->Release();
  }
  EXPECT_TRUE(permit.Release().ok());
  EXPECT_EQ(primary_->Integer({"EXISTS", "simple", "reentrant", "read_write", "a", "b"}), 0);
  EXPECT_FALSE(simple.TryAcquire().ok()) << "which is refused";
}

TEST_F(LongQuarantine, FindsQueuesByKeyPositionNotByName) {
  MultiLock several(client_, {"a", "b:simple.queue"});
  auto lease = Must(several.Acquire());
  Begin();
  EXPECT_TRUE(lease.Release().ok()) << lease.Release();
  EXPECT_EQ(primary_->Integer({"EXISTS", "a", "b:simple.queue"}), 0);
}

}  // namespace
}  // namespace redlatch
