// A quorum subscribes at nodes that are slow to answer.
#include <mutex>

#include "src/quorum/quorum.h"
#include "tests/support/await.h"
#include "tests/unit/quorum/fake_node.h"

namespace redlatch::quorum {
namespace {

// Counts the attempts to subscribe at all nodes. Each attempt takes as long as the test wants, and
// fails.
struct Nowhere {
  std::atomic<bool> hangs{true};
  std::mutex mu;
  std::map<std::string, int> listens;  // by key

  int ListensTo(const std::string& key) {
    const std::lock_guard lock(mu);
    return listens[key];
  }
  absl::Status Subscribe(std::string_view key) {
    {
      const std::lock_guard lock(mu);
      ++listens[std::string(key)];
    }
    EXPECT_TRUE(support::Await([this] { return !hangs; }));
    return absl::UnavailableError("it is down");
  }
};

TEST(QuorumSubscribe, CallsForOneChannelShareOneAttempt) {
  constexpr size_t kNodes = 3;
  Nowhere nowhere;
  const auto make = [&](size_t, const redis::ServerGroup::Events&) {
    FakeNodeEvents events{.has_slots = true};
    events.listen = [&](std::string_view key) { return nowhere.Subscribe(key); };
    return std::make_unique<FakeNode>(std::move(events));
  };
  Quorum quorum({.name = "redlock:nowhere", .servers = kNodes, .make = make},
                {.on_message = [](std::string_view) {},
                 .on_reconnected = [] {},
                 .on_subscribed = [](bool, std::string_view) {}});
  for (int call = 0; call < 1000; ++call) {
    EXPECT_TRUE(absl::IsUnavailable(quorum.Subscribe("many", base::Now())));
  }
  EXPECT_TRUE(absl::IsUnavailable(quorum.Subscribe("last", base::Now())));
  nowhere.hangs = false;
  EXPECT_TRUE(support::Await([&] { return nowhere.ListensTo("last") == kNodes; }));
  EXPECT_LE(nowhere.ListensTo("many"), 2 * static_cast<int>(kNodes));
  // A waiting call gets the reason as soon as all nodes have failed.
  const absl::Status status = quorum.Subscribe("many", base::Instant::Infinite());
  EXPECT_EQ(status, absl::UnavailableError("it is down"));
}

}  // namespace
}  // namespace redlatch::quorum
