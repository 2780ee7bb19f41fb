// LockOptions::tell_if_wanted and on_wanted: a holder is told that another waiter wants the lock.
#include "tests/conformance/api/fixtures.h"

namespace redlatch::conformance {
namespace {

struct WantedTest : Conformance {
  LockOptions Telling() {
    LockOptions options = Options();
    options.on_wanted = [this](const WantedLease& wanted) {
      EXPECT_EQ(wanted.lock, Called());
      const bool cluster = GetParam().server_group.cluster;  // then it is one node
      EXPECT_EQ(wanted.server, cluster ? server().url() : holders_.server());
      recorder_.Note({.what = "wanted", .token = wanted.token});
    };
    return options;
  }

  Recorder recorder_;  // outlives the clients, whose threads use it
  const Client holders_ = NewClient();
  const Client others_ = NewClient();
  const std::unique_ptr<RedisLockBase> lock_ = NewLock(holders_, kName, Telling());
  const std::unique_ptr<RedisLockBase> theirs_ = NewLock(others_, kName, Telling());
};

bool CanTell(const Case& which) {
  return which.kind.name == "simple" || which.kind.name == "reentrant" ||
         which.kind.name == "read_write";
}

class Wanted : public WantedTest {};
INSTANTIATE_CONFORMANCE(Wanted, Where(LockCases(), CanTell));

TEST_P(Wanted, HolderIsToldOfWaiterInAnotherClient) {
  auto lease = Must(lock_->Acquire());
  const std::stop_token wanted = lease.wanted();
  ASSERT_TRUE(wanted.stop_possible());
  std::atomic<bool> callback{false};
  const std::stop_callback on_wanted(wanted, [&] { callback = true; });
  EXPECT_FALSE(wanted.stop_requested());
  Crew crew;
  crew.Start([&] {
    auto next = Must(theirs_->Acquire());
    EXPECT_FALSE(next.wanted().stop_requested()) << "no other client waits";
    EXPECT_OK(next.Release());
  });
  EXPECT_TRUE(Fires(wanted));
  EXPECT_TRUE(Await([&] { return callback.load(); }));
  EXPECT_TRUE(recorder_.Await("wanted"));
  EXPECT_EQ(recorder_.All("wanted")[0].token, lease.fencing_token());
  EXPECT_TRUE(lease.wanted().stop_requested());
  EXPECT_TRUE(lease.valid()) << "it is only told";
  EXPECT_FALSE(lease.lost().stop_requested());
  EXPECT_OK(lease.Release());
  crew.Join();
  EXPECT_EQ(recorder_.Count("wanted"), 1);
}

TEST_P(Wanted, NewHolderIsToldIfMoreClientsWait) {
  std::optional<Lease> lease = *lock_->Acquire();
  const Client thirds = NewClient();
  const auto third = NewLock(thirds, kName, Telling());
  std::atomic<int> told{0};
  const auto waits = [&told](RedisLockBase& lock) {
    auto next = Must(lock.Acquire());
    if (told.fetch_add(1) == 0) {
      EXPECT_TRUE(Fires(next.wanted())) << "one client waits behind it";
    } else {
      EXPECT_FALSE(next.wanted().stop_requested());
    }
    EXPECT_OK(next.Release());
  };
  Crew crew;
  crew.Start([&] { waits(*theirs_); });
  crew.Start([&] { waits(*third); });
  ASSERT_TRUE(AwaitQueued(2));
  lease.reset();
}

TEST_P(Wanted, HolderWithoutTheOptionIsNotTold) {
  const auto lock = NewLock(holders_);
  auto lease = Must(lock->Acquire());
  EXPECT_FALSE(lease.wanted().stop_possible());
  EXPECT_FALSE(Lease().wanted().stop_possible());
  const auto info = Must(lock->Inspect());
  EXPECT_FALSE(info.holders.at(0).hold.ends_with('k')) << "nothing asks scripts to tell it";
}

// Lock classes that cannot tell their holders refuse the option, or do not have it.
class NeverWanted : public WantedTest {};
INSTANTIATE_CONFORMANCE(NeverWanted,
                        Where(LockCases(), [](const Case& which) { return !CanTell(which); }));

TEST_P(NeverWanted, OptionIsRefusedOrMissing) {
  auto lease = lock_->Acquire();
  const Kind& kind = GetParam().kind;
  if (kind.of_users || kind.redisson || kind.name == "election") {
    EXPECT_EQ(CodeOf(lease), kBadInput);
    EXPECT_THAT(std::string(lease.status().message()), testing::HasSubstr("`cacheable`"));
    return;
  }
  ASSERT_OK(lease);
  EXPECT_FALSE(lease->wanted().stop_possible());
}

struct WantedReads : ReadWriteConformance {
  std::unique_ptr<Lock> NewTelling(const Client& client) {
    LockOptions options = Options();
    options.tell_if_wanted = true;
    return NewReadWrite(client, std::move(options));
  }
  // Acquires the lock as a writer, and releases it.
  static void Write(Lock& lock) {
    auto lease = Must(lock.Acquire());
    EXPECT_OK(lease.Release());
  }

  const Client mine_ = NewClient();
  const std::unique_ptr<Lock> telling_ = NewTelling(mine_);
  const std::unique_ptr<Lock> other_ = NewTelling(NewClient());
};
INSTANTIATE_CONFORMANCE(WantedReads, ReadWriteCases());

TEST_P(WantedReads, ReadersInAllClientsAreToldOfWriter) {
  auto read = Must(telling_->AcquireRead());
  auto theirs = Must(other_->AcquireRead());
  EXPECT_FALSE(read.wanted().stop_requested()) << "readers do not want each other's holds";
  EXPECT_FALSE(theirs.wanted().stop_requested());
  const auto writer = NewReadWrite(NewClient());
  Crew crew;
  crew.Start([&] { Write(*writer); });
  EXPECT_TRUE(Fires(read.wanted()));
  EXPECT_TRUE(Fires(theirs.wanted()));
  EXPECT_OK(read.Release());
  EXPECT_OK(theirs.Release());
}

TEST_P(WantedReads, WriterIsToldOfReader) {
  auto write = Must(telling_->Acquire());
  Crew crew;
  crew.Start([&] {
    auto read = Must(other_->AcquireRead());
    EXPECT_FALSE(read.wanted().stop_requested());
    EXPECT_OK(read.Release());
  });
  EXPECT_TRUE(Fires(write.wanted()));
  EXPECT_OK(write.Release());
}

TEST_P(WantedReads, ReadUnderOwnWriteIsNotTold) {
  auto write = Must(telling_->Acquire());
  auto read = Must(telling_->AcquireRead());
  EXPECT_FALSE(read.wanted().stop_possible());
  EXPECT_FALSE(write.wanted().stop_requested());
  Crew crew;
  crew.Start([&] { Write(*other_); });
  EXPECT_TRUE(Fires(write.wanted()));
  EXPECT_OK(read.Release());
  EXPECT_OK(write.Release());
}

}  // namespace
}  // namespace redlatch::conformance
