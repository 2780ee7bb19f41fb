// Slots that move between two nodes.
#include "src/redis/server_group/cluster.h"

#include <mutex>

#include "absl/strings/str_join.h"
#include "src/redis/url/url.h"
#include "tests/support/await.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using support::FakeServer;

const LuaScript kScript{.name = "test/script", .body = "return 1", .sha1 = "e0e1f9fabfc9d4800c87"};

struct ClusterTest : ::testing::Test {
  // One node, and the commands that it received.
  class Node {
   public:
    explicit Node(ClusterTest& test)
        : fake_([this, &test](const FakeServer::Asked& asked) { return Answer(test, asked); }) {}

    std::string address() const { return fake_.url().substr(std::string("redis://").size()); }
    // Its reply to each command with a key; empty: the proper one.
    void Redirect(std::string_view kind, const Node& to) {
      const std::lock_guard lock(mu_);
      redirect_ =
          absl::StrCat("-", std::string(kind), " ", SlotOf("key"), " ", to.address(), "\r\n");
    }
    void Serve() {
      const std::lock_guard lock(mu_);
      redirect_.clear();
    }
    // It knows nothing of the latest epoch, in which slots have moved.
    std::atomic<bool> behind = false;
    std::atomic<int> views = 0;  // how often it was asked who has which slots
    std::vector<std::string> asked() const {
      const std::lock_guard lock(mu_);
      return asked_;
    }
    bool WasAsked(const std::string& command) const {
      const std::vector<std::string> all = asked();
      return std::find(all.begin(), all.end(), command) != all.end();
    }

   private:
    std::string Answer(const ClusterTest& test, const FakeServer::Asked& asked) {
      const auto bulk = FakeServer::Bulk;
      const std::string& verb = asked.command[0];
      if (verb == "CLUSTER") {
        if (asked.command[1] == "SLOTS") ++views;
        return test.View(asked.command[1], behind);
      }
      if (verb == "HELLO") {
        return "*4\r\n" + bulk("mode") + bulk("cluster") + bulk("role") + bulk("master");
      }
      if (verb == "INFO") {
        return bulk("redis_version:7.0.15\r\nredis_mode:cluster\r\nmaxmemory:0\r\nrole:master\r\n");
      }
      const std::lock_guard lock(mu_);
      asked_.push_back(absl::StrJoin(asked.command, " "));
      const bool names_key = verb == "GET" || (verb == "EVALSHA" && asked.command[2] == "1");
      if (names_key && !redirect_.empty()) return redirect_;
      if (verb == "SSUBSCRIBE") {
        return ">3\r\n$10\r\nssubscribe\r\n" + bulk(asked.command[1]) + ":1\r\n";
      }
      return *FakeServer::Polite(asked);
    }

    mutable std::mutex mu_;
    std::string redirect_;
    std::vector<std::string> asked_;
    FakeServer fake_;
  };

  static std::string Range(int first, int last, const Node& node) {
    const std::vector<std::string> address = absl::StrSplit(node.address(), ':');
    return absl::StrCat("*3\r\n:", first, "\r\n:", last, "\r\n*3\r\n", FakeServer::Bulk(address[0]),
                        ":", address[1], "\r\n", FakeServer::Bulk(node.address()));
  }
  // The first node has all slots but one, until they have moved.
  std::string View(const std::string& what, bool behind) const {
    const bool moved = all_moved_ && !behind;
    if (what == "SLOTS") {
      return "*2\r\n" + Range(0, kSlots - 2, moved ? second_ : first_) +
             Range(kSlots - 1, kSlots - 1, moved ? first_ : second_);
    }
    if (what != "INFO") return "-ERR unknown subcommand\r\n";
    return FakeServer::Bulk(
        absl::StrCat("cluster_state:ok\r\ncluster_current_epoch:", moved ? 2 : 1, "\r\n"));
  }

  void Get() {
    const absl::StatusOr<Reply> reply =
        client_.Call("key", Command({"GET", "key"}), base::Now() + absl::Seconds(10));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_FALSE(reply->is_error()) << reply->text;
  }

  std::atomic<bool> all_moved_ = false;
  Node first_{*this};
  Node second_{*this};
  Cluster client_{*ParseUrl("redis-cluster://" + first_.address()),
                  {.channel = [](std::string_view tag) { return "to" + std::string(tag); },
                   .description_key = "another",
                   .description = Command({"PING"})},
                  {.on_message = [](std::string_view) {},
                   .on_reconnected = [] {},
                   .on_subscribed = [](bool, std::string_view) {}}};
};

TEST_F(ClusterTest, FollowsAskOnceAndSendsAsking) {
  first_.Redirect("ASK", second_);
  Get();
  const std::vector<std::string> asked = second_.asked();
  ASSERT_GE(asked.size(), 2U);
  EXPECT_EQ(asked[asked.size() - 2], "ASKING");
  EXPECT_EQ(asked.back(), "GET key");
  // The first node still has the slot.
  first_.Serve();
  Get();
  EXPECT_EQ(second_.asked(), asked);
}

TEST_F(ClusterTest, BatchIsRunAgainAtNewOwnerOfSlot) {
  Get();
  first_.Redirect("MOVED", second_);
  const std::string_view key = "key";
  const ScriptCall call{.script = &kScript, .keys = absl::MakeConstSpan(&key, 1)};
  absl::StatusOr<Reply> result;
  client_.Run(absl::MakeConstSpan(&call, 1), base::Now() + absl::Seconds(10),
              absl::MakeSpan(&result, 1), AlwaysWanted);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->integer, 1);
}

TEST_F(ClusterTest, ChannelOfMovedSlotIsSubscribedAtNewOwner) {
  ASSERT_TRUE(client_.Subscribe("key", base::Now() + absl::Seconds(10)).ok());
  const std::string subscribe = absl::StrCat("SSUBSCRIBE to", client_.slot_tag("key"));
  EXPECT_TRUE(support::Await([&] { return first_.WasAsked(subscribe); }));
  all_moved_ = true;  // a refresh may come before it subscribes
  first_.Redirect("MOVED", second_);
  Get();
  EXPECT_TRUE(support::Await([&] { return second_.WasAsked(subscribe); }));
}

TEST_F(ClusterTest, NodeThatIsBehindIsNotBelieved) {
  all_moved_ = true;
  Get();
  const int views = second_.views;
  first_.behind = true;
  second_.Redirect("MOVED", first_);
  Get();
  second_.Serve();
  ASSERT_TRUE(support::Await([&] { return second_.views > views; }));
  const auto asked = [this] { return second_.asked().size(); };
  EXPECT_TRUE(support::Await([&, before = asked()] {
    Get();
    return asked() > before;
  }));
}

}  // namespace
}  // namespace redlatch::redis
