// Nodes of a cluster that come, go, and redirect clients to addresses that do not exist.
#include <arpa/inet.h>
#include <sys/socket.h>

#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

// A host that accepts connections at an address, and never answers.
base::UniqueFd Silent(const std::string& host, int port) {
  base::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int reuse = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, host.c_str(), &address.sin_addr);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << host;
  EXPECT_EQ(listen(fd.get(), 64), 0);
  return fd;
}

// As with a pod, the node has a new address after each restart, and the old one no longer answers.
TEST(ClusterNodes, AreForgottenIfTheirAddressChanges) {
  const int changes = support::FullBars() ? 100 : 12;
  const auto node = support::StartClusterOfOne();
  const auto move_to = [&](const std::string& host) {
    node->Do({"CONFIG", "SET", "cluster-announce-ip", host});
    node->Do({"CONFIG", "SET", "bind", "127.0.0.1 " + host});
    node->KillClients();
  };
  move_to("127.0.1.1");
  const int none = support::OpenDescriptors();
  const Client client = Connect(absl::StrCat("redis-cluster://127.0.0.1:", node->port()));
  SimpleLock lock(client, "lock");
  ASSERT_TRUE(lock.Acquire().ok());
  const int before = support::OpenDescriptors();
  std::vector<base::UniqueFd> silent;
  absl::Duration longest;
  for (int i = 2; i < 2 + changes; ++i) {
    move_to(absl::StrCat("127.0.1.", i));
    silent.push_back(Silent(absl::StrCat("127.0.1.", i - 1), node->port()));
    const base::Instant began = base::Now();
    const auto lease = Must(lock.Acquire());
    longest = std::max(longest, base::Now() - began);
  }
  const auto ours = [&] { return support::OpenDescriptors() - static_cast<int>(silent.size()); };
  EXPECT_TRUE(Await([&] { return ours() <= before + 1; }, absl::Seconds(10)))
      << ours() << " descriptors, and " << before << " before";
  EXPECT_LE(ours() - none, 2 + 4) << "one node is live";
  RecordProperty("longest_ms", absl::StrCat(absl::ToInt64Milliseconds(longest)));
  EXPECT_LE(longest, support::FullBars() ? absl::Milliseconds(1500) : absl::Seconds(5));
}

// A node that claims to be the whole cluster, and answers each script with `moved`.
class Liar {
 public:
  explicit Liar(std::function<std::string()> moved)
      : node_([moved = std::move(moved)](const FakeServer::Asked& asked) {
          const std::string& verb = asked.command[0];
          const bool lies = verb == "SSUBSCRIBE" || (verb == "EVALSHA" && asked.command[2] != "0");
          if (!lies) return FakeServer::Polite(asked);
          return std::optional(
              absl::StrCat("-MOVED ", redis::SlotOf("lock"), " ", moved(), "\r\n"));
        }) {}
  std::string url() const { return "redis-cluster://:secret@" + node_.address(); }

 private:
  const support::FakeClusterNode node_;
};

TEST(ClusterNodes, RedirectDoesNotLeakPassword) {
  FakeServer stranger(FakeServer::Polite);
  const std::string url = stranger.url();
  Liar liar([&] { return url.substr(url.rfind('/') + 1); });
  const Client client = Connect(liar.url(), {.unreachable_after = absl::Seconds(1)});
  SimpleLock lock(client, "lock");
  const absl::Status status = lock.Acquire({.wait = absl::Seconds(2)}).status();
  EXPECT_THAT(status, IsError(absl::StatusCode::kUnavailable, HasSubstr("does not name")));
  EXPECT_EQ(stranger.connections(), 0);
}

TEST(ClusterNodes, RedirectsToFakeAddressesLeakNoDescriptors) {
  std::atomic<int> invented{0};
  Liar liar([&] {
    const int number = ++invented;
    return absl::StrCat("127.1.", number / 250 % 250, ".", 1 + number % 250, ":7000");
  });
  const Client client = Connect(liar.url(), {.unreachable_after = absl::Seconds(1)});
  const int before = support::OpenDescriptors();
  int most = before;
  for (const base::Instant until = base::Now() + absl::Seconds(3); base::Now() < until;) {
    EXPECT_FALSE(SimpleLock(client, "lock").TryAcquire().ok());
    most = std::max(most, support::OpenDescriptors());
  }
  EXPECT_GT(invented, 10);
  EXPECT_LE(most, before + 8);
}

}  // namespace
}  // namespace redlatch
