// One thread that listens for several subscribers.
#include "src/redis/link/listening_thread.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/process_stats.h"
#include "tests/support/subscriber_test_fixture.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::redis {
namespace {

using support::Arrival;
using support::Direction;
using support::TcpProxy;

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

TEST_F(ListeningThreadTest, OneThatIsReachedLateIsListenedTo) {
  const auto well = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(well->Subscribe("c", Soon()).ok());
  proxy_.Hold(Direction::kToServer);
  const auto slow = MakeOneOfSeveral(proxy_.url());
  EXPECT_TRUE(absl::IsUnavailable(slow->Subscribe("slow", In(absl::Milliseconds(20)))));
  proxy_.ReleaseHeld();
  proxy_.Heal();
  EXPECT_TRUE(slow->Subscribe("slow", Soon()).ok());
  EXPECT_TRUE(ArrivesSoon("slow"));
}

// No attempt is left to go on for ever, nor does it begin again unseen.
TEST_F(ListeningThreadTest, OneThatNeverAnswersIsGivenUpInTime) {
  const auto well = MakeOneOfSeveral(server_->url());
  ASSERT_TRUE(well->Subscribe("c", Soon()).ok());
  proxy_.SetArrival(Arrival::kIgnore);
  const base::Instant begun = base::Now();
  const auto sick = MakeOneOfSeveral(proxy_.url() + "?connect_timeout=200ms");
  EXPECT_TRUE(absl::IsUnavailable(sick->Subscribe("sick", In(absl::Milliseconds(20)))));
  EXPECT_TRUE(ears_.Await("down", 3));
  EXPECT_LT(base::Now() - begun, absl::Seconds(5));
  EXPECT_GE(base::Now() - begun, absl::Milliseconds(600));
}

TEST_F(ListeningThreadTest, EachMayHaveAGuest) {
  constexpr uint32_t kHeard = 1;
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  std::vector<std::unique_ptr<base::Parker>> parkers;
  for (int i = 0; i < 3; ++i) {
    parkers.push_back(std::make_unique<base::Parker>());
    subscribers.push_back(std::make_unique<Subscriber>(
        *ParseUrl(server_->url()),
        SubscriberOptions{
            .on_message = [parker = parkers.back().get()](
                              std::string_view, std::string_view) { parker->Set(kHeard); },
            .thread = thread_}));
    ASSERT_TRUE(subscribers.back()->Subscribe(absl::StrCat("c", i), Soon()).ok());
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < subscribers.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 300; ++round) {
        parkers[i]->Arm();
        EXPECT_EQ(Publish(absl::StrCat("c", i), "m"), 1);
        ASSERT_EQ(subscribers[i]->Await(*parkers[i], Soon()), kHeard) << "round " << round;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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

TEST_F(ListeningThreadTest, WaitingForAllCostsNothing) {
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  for (int i = 0; i < 3; ++i) {
    subscribers.push_back(MakeOneOfSeveral(server_->url()));
    ASSERT_TRUE(subscribers.back()->Subscribe(absl::StrCat("c", i), Soon()).ok());
  }
  const absl::Duration before = support::ProcessCpuTime();
  base::Parker parker;
  parker.Arm();
  parker.ParkUntil(In(absl::Seconds(1)));
  EXPECT_LT(support::ProcessCpuTime() - before, absl::Milliseconds(20));
}

}  // namespace
}  // namespace redlatch::redis
