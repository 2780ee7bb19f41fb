// What the commands do about a node of a cluster that sends them elsewhere, or asks for patience.

#include "src/redis/wire/slot.h"
#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/fake_server.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::FakeServer;

constexpr char kJobName[] = "job";

// A node that believes it serves all slots, and has no keys.
class Node {
 public:
  // What it answers to a question about a key; nothing: that it is not there.
  using Refusal = std::function<std::optional<std::string>()>;
  explicit Node(Refusal refusal = [] { return std::nullopt; }) : refusal_(std::move(refusal)) {}

  std::string url() const { return "redis-cluster://" + node_.address(); }
  std::string MovedHere() const {
    return absl::StrCat("-MOVED ", redis::SlotOf(kJobName), " ", node_.address(), "\r\n");
  }
  int asked() const { return asked_; }

 private:
  const Refusal refusal_;
  std::atomic<int> asked_ = 0;
  const support::FakeClusterNode node_{
      [this](const FakeServer::Asked& asked) -> std::optional<std::string> {
        const std::string& command = asked.command[0];
        if (command != "HGET" && command != "EXISTS") return FakeServer::Polite(asked);
        ++asked_;
        if (std::optional<std::string> refused = refusal_()) return refused;
        return command == "HGET" ? "$-1\r\n" : ":0\r\n";
      }};
};

class RedlatchClusterServerTest : public RedlatchCommandTest {
 protected:
  // 1: nobody uses the name.
  int Inspect(const std::string& url) const {
    const auto command = StartRedlatch({"inspect", kJobName}, {"REDLATCH_URL=" + url});
    return CodeOf(*command);
  }
};

TEST_F(RedlatchClusterServerTest, FollowsASlotToTheNodeThatHasIt) {
  const Node owner;
  const Node former([&] { return owner.MovedHere(); });
  EXPECT_EQ(Inspect(former.url()), 1) << Errors();
  EXPECT_GT(former.asked(), 0);
  EXPECT_GT(owner.asked(), 1);
}

TEST_F(RedlatchClusterServerTest, AsksAgainWhatIsRefusedForNow) {
  for (const char* const refusal : {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
                                    "-CLUSTERDOWN The cluster is down\r\n"}) {
    std::atomic<int> left = 3;
    const Node node([&]() -> std::optional<std::string> {
      if (left-- > 0) return refusal;
      return std::nullopt;
    });
    EXPECT_EQ(Inspect(node.url()), 1) << Errors();
    EXPECT_GT(node.asked(), 3);
  }
}

TEST_F(RedlatchClusterServerTest, DoesNotAskForEver) {
  std::atomic<const Node*> self = nullptr;
  const Node circle([&] { return self.load()->MovedHere(); });
  self = &circle;
  const absl::Time begun = absl::Now();
  EXPECT_EQ(Inspect(circle.url() + "?command_timeout=10ms"), 121);
  EXPECT_LT(absl::Now() - begun, absl::Seconds(15));
  EXPECT_THAT(Errors(), HasSubstr("sends from one node to the other"));
  EXPECT_LT(circle.asked(), 1000) << "in no hurry";
}

}  // namespace
}  // namespace redlatch
