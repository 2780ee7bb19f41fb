// Holds that count only once replicas have them.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct ReplicaAcks : ::testing::Test {
  ReplicaAcks() {
    for (int i = 0; i < 2; ++i) {
      links_.push_back(
          std::make_unique<TcpProxy>(support::TcpProxyOptions{.port = primary_->port()}));
      replicas_.push_back(RedisServer::Start({.replica_of = links_.back()->port()}));
    }
    // This is done twice: a replica that has just copied all data has the first write, and may then
    // receive nothing for a second.
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(Await([&] {
        primary_->Command({"SET", "first", "", "PX", "1"});
        return primary_->Integer({"WAIT", "2", "100"}) == 2;
      }));
    }
  }
  // From now on the replica receives nothing, and the primary does not know that.
  void Separate(size_t replica) {
    links_[replica]->Drop(Direction::kToServer);
    links_[replica]->Drop(Direction::kToClient);
  }
  static LockOptions Acked(int replicas, absl::Duration lease = absl::Seconds(30)) {
    return {.lease = lease, .acks = {.replicas = replicas, .timeout = absl::Seconds(1)}};
  }

  const std::unique_ptr<RedisServer> primary_ = RedisServer::Start();
  std::vector<std::unique_ptr<TcpProxy>> links_;
  std::vector<std::unique_ptr<RedisServer>> replicas_;
  const Client client_ = Connect(primary_->url());
};

using Take = std::function<absl::StatusOr<Lease>()>;

TEST_F(ReplicaAcks, ReplicasHaveGrantWhenAcquireReturns) {
  SimpleLock simple(client_, "simple", Acked(2));
  ReentrantLock reentrant(client_, "reentrant", Acked(2));
  ReentrantReadWriteLock written(client_, "written", Acked(2));
  ReentrantReadWriteLock read(client_, "read", Acked(2));
  const std::vector<std::pair<std::string, Take>> ways = {
      {"simple", [&] { return simple.Acquire(); }},
      {"reentrant", [&] { return reentrant.Acquire({.lease = absl::Seconds(20)}); }},
      {"written", [&] { return written.Acquire({}); }},
      {"redlatch:rw:{read}:readers", [&] { return read.AcquireRead({}); }}};
  for (const auto& [key, take] : ways) {
    SCOPED_TRACE(key);
    for (int round = 0; round < 20; ++round) {
      auto lease = Must(take());
      EXPECT_EQ(lease.acked_by(), 2);
      for (const auto& each : replicas_) EXPECT_EQ(each->Integer({"EXISTS", key}), 1);
      EXPECT_TRUE(lease.Release().ok());
    }
  }
}

TEST_F(ReplicaAcks, LockIsReleasedIfTooFewConfirm) {
  Separate(1);
  SimpleLock lock(client_, "lock", Acked(2));
  const absl::StatusOr<Lease> lease = lock.Acquire();
  EXPECT_THAT(lease.status(), IsError(absl::StatusCode::kUnavailable,
                                      AllOf(HasSubstr("lock \"lock\""),
                                            HasSubstr("1 of 2 replicas have confirmed it"))));
  EXPECT_EQ(primary_->Integer({"EXISTS", "lock"}), 0);
  try {
    lock.lock();
    ADD_FAILURE() << "it is taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), MakeErrorCode(absl::StatusCode::kUnavailable));
  }
  EXPECT_EQ(primary_->Integer({"EXISTS", "lock"}), 0);
  // One replica is enough for another lock, and two for this one, as soon as both are back.
  EXPECT_EQ(SimpleLock(client_, "modest", Acked(1)).Acquire()->acked_by(), 1);
  links_[1]->Heal();
  EXPECT_TRUE(Await([&] { return lock.Acquire().ok(); }, absl::Seconds(30)));
}

TEST_F(ReplicaAcks, InvalidNumbersAreRefused) {
  for (const LockOptions& options :
       {LockOptions{.acks = {.replicas = -1}},
        LockOptions{.acks = {.replicas = 1, .timeout = absl::ZeroDuration()}}}) {
    EXPECT_EQ(SimpleLock(client_, "lock", options).Acquire().status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(DiskAcks, RequireServersThatSupportThem) {
  const auto server = RedisServer::Start({.append_only = true});
  const Client client = Connect(server->url());
  SimpleLock lock(client, "lock", {.acks = {.fsync = true}});
  const absl::StatusOr<Lease> lease = lock.Acquire();
  if (server->Command({"COMMAND", "INFO", "WAITAOF"}).elements.at(0).elements.empty()) {
    EXPECT_THAT(lease.status(), IsError(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("needs Redis 7.2 or later")));
    EXPECT_EQ(server->Integer({"EXISTS", "lock"}), 0);
    return;
  }
  // The fixture leaves syncing to the kernel, so nothing is certainly on disk.
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kUnavailable) << lease.status();
  server->Command({"CONFIG", "SET", "appendfsync", "everysec"});
  EXPECT_TRUE(Await([&] { return lock.Acquire().ok(); }, absl::Seconds(30)));
}

}  // namespace
}  // namespace redlatch
