// What a cluster costs each of its clients: a thread for all nodes, and two sockets at each.

#include "tests/redis/api/cluster_tour.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

constexpr absl::Duration kCostPatience = absl::Seconds(8);  // less than a heartbeat
constexpr char kClientName[] = "measured";

int Sockets() {
  int sockets = 0;
  std::error_code gone;  // the descriptor that reads the directory, for one
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    if (read_symlink(entry.path(), gone).string().starts_with("socket:")) ++sockets;
  }
  return sockets;
}

// A client, with nothing else in its process, that waits for each lock in turn, and then tells what
// it has more than it had at first: threads, sockets.
REDLATCH_CHILD(MeasuredClient) {
  const int threads = support::ThreadCount();
  const int sockets = Sockets();
  const Client client = Connect(args.at(0));
  for (size_t i = 1; i < args.size(); ++i) {
    SimpleLock lock(client, args[i]);
    auto lease = Must(lock.Acquire({.wait = kCostPatience}));
    EXPECT_TRUE(lease.Release().ok());
  }
  // One by which it asks who serves what is closed again.
  const int most = sockets + 2 * static_cast<int>(args.size() - 1);
  Await([&] { return Sockets() <= most; }, absl::Seconds(2));
  parent.WriteLine(absl::StrCat(support::ThreadCount() - threads, " ", Sockets() - sockets));
  parent.ReadLine();
  return 0;
}

struct Cost {
  int threads = 0;
  int sockets = 0;
  std::vector<size_t> connections;  // at each server
};

size_t ConnectionsAt(RedisServer& server) {
  const std::vector<std::string> clients =
      absl::StrSplit(server.Text({"CLIENT", "LIST"}), absl::StrCat(" name=", kClientName, " "));
  return clients.size() - 1;
}

Cost CostOf(ClusterGroup& group) {
  const Client holder = Connect(group.url());
  std::vector<std::string> args = {absl::StrCat(group.url(), "?name=", kClientName)};
  std::vector<std::unique_ptr<SimpleLock>> locks;
  std::vector<Lease> leases;
  for (size_t i = 0; i < group.servers(); ++i) {
    args.push_back(group.NameAt(i, "cost"));
    locks.push_back(std::make_unique<SimpleLock>(holder, args.back()));
    leases.push_back(*locks.back()->Acquire({.wait = kCostPatience}));
  }
  const auto child = support::SpawnChild("MeasuredClient", args);
  for (size_t i = 0; i < locks.size(); ++i) {
    EXPECT_TRUE(Await([&] { return locks[i]->Inspect()->waiting == 1; }));
    EXPECT_TRUE(leases[i].Release().ok());
  }
  Cost cost;
  std::istringstream words(child->pipe().ReadLine(2 * kCostPatience).value_or(""));
  words >> cost.threads >> cost.sockets;
  EXPECT_TRUE(words) << "it does not end";
  for (size_t i = 0; i < group.servers(); ++i) {
    cost.connections.push_back(ConnectionsAt(group.server(i)));
  }
  child->pipe().WriteLine("end");
  const auto status = child->WaitFor(kCostPatience);
  EXPECT_TRUE(status && status->success());
  std::printf("%zu primaries: %d threads, %d sockets\n", group.servers(), cost.threads,
              cost.sockets);
  return cost;
}

class ClusterCost : public ::testing::Test {
 protected:
  const std::unique_ptr<ClusterGroup> three_ = ClusterGroup::Start();
};

TEST_F(ClusterCost, IsTwoSocketsAtEachPrimaryThatIsUsed) {
  const Cost cost = CostOf(*three_);
  EXPECT_EQ(cost.sockets, 6);
  for (const size_t connections : cost.connections) EXPECT_EQ(connections, 2);
}

TEST_F(ClusterCost, InThreadsDoesNotGrowWithThePrimaries) {
  const auto one = ClusterGroup::Start({.primaries = 1});
  EXPECT_EQ(CostOf(*three_).threads, CostOf(*one).threads);
}

}  // namespace
}  // namespace redlatch
