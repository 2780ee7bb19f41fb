// A managed service: one host name, which leads to another server after a failover. This program's
// own getaddrinfo() is the name server.
#include <dlfcn.h>
#include <netdb.h>

#include <cstring>

#include "tests/support/live_testing.h"

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
  // The caller looks for a numeric address first, and this name is none.
  if (hints != nullptr && (hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  return next(kAddresses[leads_to], service, nullptr, result);
}

namespace redlatch {
namespace {

constexpr absl::Duration kRenamedTimeout = absl::Seconds(20);

struct RenamedHost : ::testing::Test {
  RenamedHost() { EXPECT_TRUE(second_->AwaitInfo("master_link_status", "up")); }
  ~RenamedHost() override { leads_to = 0; }

  // A lease that the second server will also have.
  Lease Hold(absl::Duration lease) {
    Lease held = *SimpleLock(client_, "kept", {.lease = lease}).Acquire();
    EXPECT_TRUE(Await([this] {
      return first_->Info("master_repl_offset") == second_->Info("slave_repl_offset");
    }));
    return held;
  }
  void Promote() {
    second_->Do({"REPLICAOF", "NO", "ONE"});
    leads_to = 1;
  }
  void ExpectLocksThere() {
    const auto takes = [&] {
      const auto lease = Must(SimpleLock(client_, "next").Acquire({.wait = kRenamedTimeout}));
      return second_->Integer({"EXISTS", "next"}) == 1;
    };
    EXPECT_LT(TimeOf([&] { EXPECT_TRUE(Await(takes, kRenamedTimeout)); }), absl::Seconds(5));
  }

  const std::unique_ptr<RedisServer> first_ = RedisServer::Start();
  const std::unique_ptr<RedisServer> second_ =
      RedisServer::Start({.replica_of = first_->port(),
                          .config = {absl::StrCat("port ", first_->port()), "bind 127.0.0.2"}});
  const Client client_ = Connect(absl::StrCat("redis://", kHostName, ":", first_->port()));
};

TEST_F(RenamedHost, IsLookedUpAgainIfServerIsReplica) {
  const Lease lease = Hold(absl::Seconds(30));
  Promote();
  first_->Do({"REPLICAOF", "127.0.0.2", absl::StrCat(first_->port())});
  ExpectLocksThere();
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(second_->Integer({"EXISTS", "kept"}), 1);
}

TEST_F(RenamedHost, IsLookedUpAgainIfServerIsGone) {
  const Lease lease = Hold(absl::Seconds(2));
  first_->Kill();
  Promote();
  ExpectLocksThere();
  EXPECT_TRUE(Await([&] { return lease.remaining() > absl::Seconds(1.9); })) << "renewed there";
}

TEST_F(RenamedHost, IsLookedUpAgainIfServerHangs) {
  first_->Stop();
  Promote();
  ExpectLocksThere();
  first_->Continue();
}

// The old primary is cut off and does not know it. It refuses writes once no replica has answered
// for a second.
TEST_F(RenamedHost, IsLookedUpAgainAfterNoReplicas) {
  first_->Do({"CONFIG", "SET", "min-replicas-max-lag", "1", "min-replicas-to-write", "1"});
  const Lease lease = Hold(absl::Seconds(8));
  Promote();
  ExpectLocksThere();
  EXPECT_TRUE(Await([&] { return lease.remaining() > absl::Seconds(7.5); })) << "renewed there";
}

}  // namespace
}  // namespace redlatch
