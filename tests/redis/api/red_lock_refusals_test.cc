// RedLocks some of whose servers refuse: a key of another type, a missing permission, full memory,
// scripts that are gone. A minority is outvoted; a majority's reason is told.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/red_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/connect.h"
#include "tests/support/quorum_fixture.h"
#include "tests/support/redis_server.h"

namespace redlatch {
namespace {

using support::Await;
using support::Connect;
using ::testing::HasSubstr;

class RefusalAtAQuorum : public support::QuorumFixture {
 protected:
  // It works as if nothing were wrong, several times.
  void Works() {
    for (int i = 0; i < 5; ++i) {
      absl::StatusOr<Lease> lease = lock_.Acquire({.wait = absl::Seconds(2)});
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_TRUE(lease->Release().ok());
    }
  }
  // At once, and nothing is left where it would have been granted.
  absl::Status Refuses(const std::vector<size_t>& healthy) {
    const base::Instant began = base::Now();
    absl::Status status = lock_.Acquire({.wait = absl::Seconds(20)}).status();
    EXPECT_LT(base::Now() - began, absl::Seconds(5));
    for (const size_t i : healthy) EXPECT_TRUE(Forgets(i)) << i;
    return status;
  }

  // How many that server has been asked to run since its statistics were reset.
  int64_t Scripts(size_t i) {
    const std::string stats = servers_[i].Text({"INFO", "commandstats"});
    int64_t calls = 0;
    for (const char* const command : {"eval", "evalsha"}) {
      const std::string line = absl::StrCat("cmdstat_", command, ":calls=");
      const size_t at = stats.find(line);
      if (at != std::string::npos) calls += std::stoll(stats.substr(at + line.size()));
    }
    return calls;
  }

  RedLock lock_{Connect(servers_.url()), kName, {.lease = absl::Seconds(1)}};
};

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMinorityIsLeftAlone) {
  for (const size_t i : {0, 1}) servers_[i].Do({"RPUSH", kName, "theirs"});
  Works();
  for (const size_t i : {0, 1}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(RefusalAtAQuorum, AKeyOfAnotherTypeOnAMajorityIsNamed) {
  for (const size_t i : {0, 1, 2}) servers_[i].Do({"RPUSH", kName, "theirs"});
  const absl::Status status = Refuses({3, 4});
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("WRONGTYPE"));
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(servers_[i].Text({"LINDEX", kName, "0"}), "theirs");
}

TEST_F(RefusalAtAQuorum, FullMemoryOfAMajorityIsToldAndHoldsGoOn) {
  absl::StatusOr<Lease> lease = lock_.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  for (const size_t i : {0, 2, 4}) servers_[i].Do({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_FALSE(Await([&] { return !lease->valid(); }, absl::Seconds(2))) << "it is renewed";
  EXPECT_TRUE(lease->Release().ok());
  const absl::Status status = lock_.TryAcquire().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  for (size_t i = 0; i < 5; ++i) EXPECT_TRUE(Forgets(i)) << i;
}

TEST_F(RefusalAtAQuorum, AServerThatRefusesForNowIsAskedNowAndThenAndNobodyElseMoreThanBefore) {
  RedLock lock(Connect(servers_.url()), kName);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "1"});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(lock.Acquire()->Release().ok());
  const absl::StatusOr<Lease> idle = lock.Acquire();
  ASSERT_TRUE(idle.ok()) << idle.status();
  for (const size_t i : {0, 4}) servers_[i].Do({"CONFIG", "RESETSTAT"});
  EXPECT_FALSE(Await([&] { return !idle->valid(); }, absl::Seconds(1)));
  // A hold of 30 s is not due to be renewed yet.
  EXPECT_LE(Scripts(0), 2);
  EXPECT_LE(Scripts(4), 5 * 10);  // what five releases left, with back-off
  servers_[4].Do({"CONFIG", "SET", "min-replicas-to-write", "0"});
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(IsHeldAt(i)) << i;
}

// A user whom that server lets do nothing with this lock.
TEST(PermissionsAtAQuorum, OneServersRefusalIsOutvoted) {
  std::vector<std::unique_ptr<support::RedisServer>> servers;
  std::string url;
  for (int i = 0; i < 3; ++i) {
    const char* const keys = i == 1 ? "~other:*" : "~*";
    servers.push_back(support::RedisServer::Start(
        {.acl = {absl::StrCat("user app on >secret ", keys, " &* +@all")}}));
    absl::StrAppend(&url, url.empty() ? "redlock:" : ",",
                    "redis://app:secret@127.0.0.1:", servers.back()->port());
  }
  const absl::StatusOr<Client> client = Client::Connect(url);
  ASSERT_TRUE(client.ok()) << client.status();
  RedLock lock(*client, "orders:42");
  for (int i = 0; i < 5; ++i) {
    absl::StatusOr<Lease> lease = lock.Acquire({.wait = absl::Seconds(2)});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(lease->Release().ok());
  }
  // Without one of the others there is no majority, and the reason is the one that lasts.
  servers[2]->Kill();
  const absl::Status status = lock.Acquire({.wait = absl::Seconds(20)}).status();
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

}  // namespace
}  // namespace redlatch
