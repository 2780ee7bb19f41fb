// One thread that listens for several subscribers.
#include "src/redis/link/listening_thread.h"

#include "src/redis/link/subscriber.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

class ListeningThreadTest : public support::SubscriberTestFixture {
 protected:
  std::unique_ptr<Subscriber> MakeOneOfSeveral(const std::string& url) {
    return Make(url, {.thread = thread_});
  }

  // Within less than what one that cannot be reached takes.
  void ExpectToHear(const std::string& channel) {
    for (int i = 0; i < 50; ++i) {
      const std::string message = absl::StrCat("quick ", i);
      const base::Instant published = base::Now();
      ASSERT_EQ(Publish(channel, message), 1);
      ASSERT_TRUE(ears_.Await(absl::StrCat("message ", channel, " ", message)));
      slowest_ = std::max(slowest_, base::Now() - published);
    }
  }

  const std::shared_ptr<ListeningThread> thread_ = std::make_shared<ListeningThread>();
  TcpProxy proxy_{{.port = server_->port()}};
  absl::Duration slowest_ = absl::ZeroDuration();
};

TEST_F(ListeningThreadTest, OneThreadReadsForAll) {
  const int threads = support::ThreadCount();
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  for (int i = 0; i < 5; ++i) {
    subscribers.push_back(MakeOneOfSeveral(server_->url()));
    const std::string channel = absl::StrCat("c", i);
    ASSERT_TRUE(subscribers.back()->Subscribe(channel, Soon()).ok());
    ASSERT_EQ(Publish(channel, "m"), 1);
    EXPECT_TRUE(ears_.Await(absl::StrCat("message ", channel, " m")));
  }
  EXPECT_EQ(support::ThreadCount(), threads + 1);
}

TEST_F(ListeningThreadTest, OneThatCannotBeReachedHoldsUpNobody) {
  const auto well = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(well->Subscribe("c", Soon()).ok());
  for (const Arrival arrival : {Arrival::kIgnore, Arrival::kHang, Arrival::kRefuse}) {
    proxy_.SetArrival(arrival);
    const auto sick = MakeOneOfSeveral(proxy_.url() + "?connect_timeout=30s");
    EXPECT_TRUE(absl::IsUnavailable(sick->Subscribe("sick", In(absl::Milliseconds(50)))));
    ExpectToHear("c");
    ears_.Forget();
  }
  EXPECT_LT(slowest_, absl::Milliseconds(100));
}

TEST_F(ListeningThreadTest, OneThatLeavesHearsNothingMoreAndTheOthersGoOn) {
  const auto stays = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(stays->Subscribe("c", Soon()).ok());
  for (int i = 0; i < 50; ++i) {
    auto leaves = MakeOneOfSeveral(server_->url());
    ASSERT_TRUE(leaves->Subscribe("leaves", Soon()).ok());
    std::thread publisher([&] { Publish("leaves", "m"); });
    leaves->Stop();
    const size_t heard = ears_.heard().size();
    publisher.join();
    leaves.reset();
    EXPECT_EQ(ears_.heard().size(), heard);
  }
  ExpectToHear("c");
}

}  // namespace
}  // namespace redlatch::redis
