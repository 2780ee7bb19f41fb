// A managed service: one name, whose address changes when another server takes over. The name
// server here is this program's own getaddrinfo().
#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/await.h"
#include "tests/support/redis_server.h"

namespace {

constexpr char kHostName[] = "primary.test";
constexpr const char* kAddresses[] = {"127.0.0.1", "127.0.0.2"};
std::atomic<int> leads_to{0};

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
  using Function = int(const char*, const char*, const addrinfo*, addrinfo**);
  static auto* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::strcmp(node, kHostName) != 0)
    return next(node, service, hints, result);
  // Not an address in numbers: that is asked for first.
  if (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  return next(kAddresses[leads_to], service, nullptr, result);
}

namespace redlatch {
namespace {

constexpr absl::Duration kRenamedPatience = absl::Seconds(20);

class RenamedHost : public ::testing::Test {
 protected:
  RenamedHost() { EXPECT_TRUE(second_->AwaitInfo("master_link_status", "up")); }
  ~RenamedHost() override { leads_to = 0; }
  void AwaitReplication() {
    EXPECT_TRUE(support::Await([this] {
      return first_->Info("master_repl_offset") == second_->Info("slave_repl_offset");
    }));
  }
  void Promote() {
    second_->Command({"REPLICAOF", "NO", "ONE"});
    leads_to = 1;
  }
  // Returns when the lock, free or not, has been acquired at the second server.
  void ExpectLocksThere(const Client& client) {
    SimpleLock lock(client, "next");
    const base::Instant begun = base::Now();
    EXPECT_TRUE(support::Await(
        [&] {
          const auto lease = lock.Acquire({.wait = kRenamedPatience});
          EXPECT_TRUE(lease.ok()) << lease.status();
          return second_->Integer({"EXISTS", "next"}) == 1;
        },
        kRenamedPatience));
    EXPECT_LT(base::Now() - begun, absl::Seconds(5));
  }

  const std::unique_ptr<support::RedisServer> first_ = support::RedisServer::Start();
  const std::unique_ptr<support::RedisServer> second_ = support::RedisServer::Start(
      {.replica_of = first_->port(),
       .config = {absl::StrCat("port ", first_->port()), "bind 127.0.0.2"}});
  const Client client_ = *Client::Connect(absl::StrCat("redis://", kHostName, ":", first_->port()));
};

TEST_F(RenamedHost, IsLookedUpAgainWhenItsServerSaysThatItIsAReplica) {
  SimpleLock kept(client_, "kept");
  const auto lease = kept.Acquire();
  ASSERT_TRUE(lease.ok());
  AwaitReplication();
  Promote();
  first_->Command({"REPLICAOF", "127.0.0.2", absl::StrCat(first_->port())});
  ExpectLocksThere(client_);
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(second_->Integer({"EXISTS", "kept"}), 1);
}

TEST_F(RenamedHost, IsLookedUpAgainWhenItsServerIsGone) {
  SimpleLock kept(client_, "kept", {.lease = absl::Seconds(2)});
  const auto lease = kept.Acquire();
  ASSERT_TRUE(lease.ok());
  AwaitReplication();
  first_->Kill();
  Promote();
  ExpectLocksThere(client_);
  EXPECT_TRUE(support::Await([&] { return lease->remaining() > absl::Seconds(1.9); }))
      << "renewed at the second server";
}

TEST_F(RenamedHost, IsLookedUpAgainWhenItsServerHangs) {
  first_->Stop();
  Promote();
  ExpectLocksThere(client_);
  first_->Continue();
}

// It was cut off and does not know it: it stops when no replica has answered for a second.
TEST_F(RenamedHost, IsLookedUpAgainAfterNoReplicas) {
  first_->Do({"CONFIG", "SET", "min-replicas-max-lag", "1", "min-replicas-to-write", "1"});
  SimpleLock kept(client_, "kept", {.lease = absl::Seconds(8)});
  const auto lease = kept.Acquire();
  ASSERT_TRUE(lease.ok()) << lease.status();
  AwaitReplication();
  Promote();
  ExpectLocksThere(client_);
  EXPECT_TRUE(support::Await([&] { return lease->remaining() > absl::Seconds(7.5); }))
      << "renewed at the second server";
}

}  // namespace
}  // namespace redlatch
