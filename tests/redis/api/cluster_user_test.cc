// A user with the least rights that locks on a cluster need, as docs/operations.md says them, and
// with less.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "src/redis/connect/needs.h"
#include "src/redis/wire/slot.h"
#include "tests/redis/api/cluster_tour.h"
#include "tests/support/cluster_group.h"

namespace redlatch {
namespace {

using support::ClusterGroup;
using ::testing::HasSubstr;

constexpr char kRights[] =
    "on >secret ~* resetchannels &redlatch:* -@all "
    "+eval +evalsha +script +info +ping +time "
    "+spublish +ssubscribe +sunsubscribe +pubsub|shardnumsub +cluster|slots +cluster|info +asking "
    "+get +mget +getrange +set +setrange +psetex +del +unlink +rename +exists +pexpire +pexpireat "
    "+pttl +hget +hset +hsetnx +hdel +hexists +hgetall +hkeys +hmget +hincrby "
    "+zadd +zrem +zremrangebyrank +zcard +zcount +zrange +zrangebyscore +zrank +zscore";

class ClusterUser : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { group_ = ClusterGroup::Start().release(); }
  static void TearDownTestSuite() { delete std::exchange(group_, nullptr); }
  void SetUp() override { SetUser(absl::StrCat("reset ", kRights)); }

  // At every node: no node tells another.
  void SetUser(const std::string& rules) {
    for (size_t i = 0; i < group_->servers(); ++i) SetUserAt(i, rules);
  }
  void SetUserAt(size_t server, const std::string& rules) {
    std::vector<std::string> command = absl::StrSplit("ACL SETUSER app " + rules, ' ');
    EXPECT_EQ(group_->server(server).Text(command), "OK") << rules;
  }
  static std::string Url() {
    std::string url = group_->url();
    return url.insert(url.find("//") + 2, "app:secret@");
  }
  // What is behind "ACL SETUSER app" in the message of a refusal.
  static std::string MendOf(const absl::Status& denied) {
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
    const std::string message(denied.message());
    constexpr std::string_view kBegin = "ACL SETUSER app ";
    const size_t begin = message.find(kBegin);
    EXPECT_NE(begin, std::string::npos) << message;
    if (begin == std::string::npos) return "";
    const size_t rules = begin + kBegin.size();
    return message.substr(rules, message.find(')', rules) - rules);
  }

  static ClusterGroup* group_;
};

ClusterGroup* ClusterUser::group_ = nullptr;

TEST_F(ClusterUser, NeedsNoMoreThanTheDocumentsSay) { ClusterTour(*group_, Url()).Go(); }

TEST_F(ClusterUser, WithoutAnyOfTheCommandsIsToldWhichOneIsMissing) {
  for (const std::string& command : redis::NeededCommands(/*in_cluster=*/true)) {
    SCOPED_TRACE(command);
    SetUser("-" + command);
    const absl::Status denied = Client::Connect(Url()).status();
    EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied) << denied;
    EXPECT_THAT(std::string(denied.message()), HasSubstr(command));
    SetUser("+" + command);
    EXPECT_TRUE(Client::Connect(Url()).ok());
  }
}

TEST_F(ClusterUser, WhoIsDeniedTheChannelsIsToldHowToGrantThem) {
  SetUser("resetchannels");
  const std::string mend = MendOf(Client::Connect(Url()).status());
  EXPECT_EQ(mend, "&redlatch:*");
  SetUser(mend);
  ClusterTour(*group_, Url()).Go();
}

TEST_F(ClusterUser, WhoIsDeniedTheChannelsAtOneNodeIsToldByTheLocksThere) {
  SetUserAt(2, "resetchannels");
  const absl::StatusOr<Client> client = Client::Connect(Url());
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE(SimpleLock(*client, NameAt(*group_, 0, "here")).TryAcquire().ok());
  SimpleLock denied(*client, NameAt(*group_, 2, "there"));
  const base::Instant began = base::Now();
  const absl::Status status = denied.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_LT(base::Now() - began, absl::Seconds(2)) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("&redlatch:*"));
  SetUserAt(2, "&redlatch:*");
  const absl::Status granted = denied.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_TRUE(granted.ok()) << granted;
}

TEST_F(ClusterUser, WhoLosesTheChannelsWhileConnectedIsToldSoon) {
  const Client client = *Client::Connect(Url());
  const Client other = *Client::Connect(Url());
  const std::string name = NameAt(*group_, 1, "lost");
  const absl::StatusOr<Lease> held = SimpleLock(client, name).Acquire();
  ASSERT_TRUE(held.ok()) << held.status();
  SetUser("resetchannels");
  SimpleLock others(other, name);
  const base::Instant began = base::Now();
  const absl::Status status = others.Acquire({.wait = absl::Seconds(10)}).status();
  EXPECT_LT(base::Now() - began, absl::Seconds(2)) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("&redlatch:*"));
}

TEST_F(ClusterUser, LocksWhileSlotsMove) {
  const Client client = *Client::Connect(Url());
  const std::string name = NameAt(*group_, 1, "moving");
  SimpleLock lock(client, name, {.lease = absl::Minutes(1)});
  for (const size_t to : {2, 0, 1}) {
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(10)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    group_->Move(redis::SlotOf(name), to);
    const absl::Status released = lease->Release();
    EXPECT_TRUE(released.ok()) << released;
  }
}

}  // namespace
}  // namespace redlatch
