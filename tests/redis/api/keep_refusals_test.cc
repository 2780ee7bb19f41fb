// What LockOptions::keep and turn refuse, and for which locks.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lua/scripts.h"
#include "redlatch/client.h"
#include "redlatch/multi_lock.h"
#include "redlatch/red_lock.h"
#include "redlatch/redis_lock_base.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"
#include "tests/support/connect.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OfAUser : public RedisLockBase {
 public:
  OfAUser(Client client, LockOptions options, bool keeps)
      : RedisLockBase(std::move(client), "theirs", std::move(options)), keeps_(keeps) {}

 private:
  LockScripts Scripts() const override {
    return {.acquire = lua::kSimpleAcquire,
            .release = lua::kSimpleRelease,
            .renew = lua::kSimpleRenew,
            .cancel = lua::kSimpleCancel,
            .inspect = lua::kSimpleInspect,
            .force_release = lua::kSimpleForceRelease};
  }
  LockTraits Traits() const override { return {.kind = "users", .keeps = keeps_}; }

  const bool keeps_;
};

class KeepRefusals : public ::testing::Test {
 protected:
  static void ExpectRefused(RedisLockBase& lock, const std::string& why) {
    const absl::Status refused = lock.Acquire().status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(why));
  }
  template <class Lock>
  void ExpectRefused(LockOptions options, const std::string& why) {
    Lock lock(client_, "lock", std::move(options));
    ExpectRefused(lock, why);
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const Client client_ = support::Connect(server_->url());
};

TEST_F(KeepRefusals, KeepIsNotLongerThanTheLease) {
  const LockOptions options{.lease = absl::Seconds(3), .keep = absl::Seconds(4)};
  ExpectRefused<SimpleLock>(options, "LockOptions::keep is 4s, longer than the lease of 3s");
  ReentrantReadWriteLock lock(client_, "lock", options);
  EXPECT_EQ(lock.AcquireRead().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(server_->LockKeys().empty());
}

TEST_F(KeepRefusals, NeitherIsNegative) {
  ExpectRefused<SimpleLock>({.keep = absl::Seconds(-1)}, "must not be negative");
  ExpectRefused<SimpleLock>({.turn = absl::Seconds(-1)}, "must not be negative");
}

TEST_F(KeepRefusals, LocksOfSeveralNamesOrServersAreNotKept) {
  const std::string why = "LockOptions::keep is for SimpleLock, ReentrantLock and";
  MultiLock several(client_, {"a", "b"}, {.keep = absl::Seconds(1)});
  ExpectRefused(several, why);
  std::vector<std::unique_ptr<support::RedisServer>> servers;
  std::vector<Client> clients;
  for (int i = 0; i < 3; ++i) {
    servers.push_back(support::RedisServer::Start());
    clients.push_back(support::Connect(servers.back()->url()));
  }
  RedLock quorum(clients, "lock", {.keep = absl::Seconds(1)});
  ExpectRefused(quorum, why);
}

TEST_F(KeepRefusals, AUsersClassSaysWhetherItsScriptsKnowOfIt) {
  OfAUser does_not(client_, {.keep = absl::Seconds(5)}, false);
  ExpectRefused(does_not, "classes whose LockTraits say so");
  OfAUser does(support::Connect(server_->url()), {.keep = absl::Seconds(5)}, true);
  does.lock();
  does.unlock();
  EXPECT_EQ(server_->Integer({"EXISTS", "theirs"}), 1) << "it is kept";
}

}  // namespace
}  // namespace redlatch
