// Who reads the subscriber's connection: its thread, or one that waits for a message.

#include "src/redis/link/subscriber.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using base::Parker;

constexpr uint32_t kHeard = 1;

// Whether messages are attended to meanwhile. Then the thread sleeps at a gate.
class SubscriberReaderTest : public support::SubscriberTestFixture,
                             public ::testing::WithParamInterface<bool> {
 protected:
  // A subscriber of "c" that sets `parker_` for each message, and counts those that were read by
  // the thread which makes it.
  void SetUp() override {
    SubscriberOptions options = ears_.Options();
    options.on_message = [this, hear = options.on_message, me = std::this_thread::get_id()](
                             std::string_view channel, std::string_view message) {
      hear(channel, message);
      if (std::this_thread::get_id() == me) ++read_by_me_;
      parker_.Set(kHeard);
    };
    subscriber_ = std::make_unique<Subscriber>(*ParseUrl(server_->url()), std::move(options));
    ASSERT_TRUE(subscriber_->Subscribe("c", Soon()).ok());
    if (GetParam()) subscriber_->Attend(/*begins=*/true);
  }

  // What a lock does; the message mostly comes when the wait has begun.
  uint32_t AwaitWhatComesLater() {
    parker_.Arm();
    std::thread publisher([&] {
      Parker().ParkUntil(In(absl::Milliseconds(1)));
      Publish("c", "m");
    });
    const uint32_t heard = subscriber_->Await(parker_, Soon());
    publisher.join();
    return heard;
  }

  // The subscriber's thread is asleep, so that the next to wait will read in its place.
  void BecomeReader() {
    const base::Instant deadline = Soon();
    for (int i = 0; read_by_me_ == 0; ++i) {
      ASSERT_LT(base::Now(), deadline);
      // Else the message may come before the wait.
      parker_.Arm();
      std::thread publisher([&] { Publish("c", "until it is me"); });
      EXPECT_EQ(subscriber_->Await(parker_, Soon()), kHeard);
      publisher.join();
    }
  }

  Parker parker_;
  std::atomic<int> read_by_me_{0};
  std::unique_ptr<Subscriber> subscriber_;
};

INSTANTIATE_TEST_SUITE_P(, SubscriberReaderTest, ::testing::Bool(), [](const auto& attended) {
  return attended.param ? "Attended" : "Unattended";
});

TEST_P(SubscriberReaderTest, WhoWaitsAloneReadsForItself) {
  BecomeReader();
  const int before = read_by_me_;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(AwaitWhatComesLater(), kHeard);
  EXPECT_GT(read_by_me_, before + 50);
}

// How often the thread that listens has gone to sleep.
int64_t SleepsOfTheThread() {
  int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "redlatch-listen") continue;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      constexpr std::string_view kCounted = "voluntary_ctxt_switches:";
      if (line.starts_with(kCounted)) sleeps += std::stoll(line.substr(kCounted.size()));
    }
  }
  return sleeps;
}

TEST_P(SubscriberReaderTest, TheThreadIsNotWokenByWhatOthersRead) {
  BecomeReader();
  constexpr int kRounds = 200;
  const int64_t before = SleepsOfTheThread();
  ASSERT_GT(before, 0);
  for (int i = 0; i < kRounds; ++i) EXPECT_EQ(AwaitWhatComesLater(), kHeard);
  EXPECT_LT(SleepsOfTheThread() - before, kRounds / 2);
}

TEST_P(SubscriberReaderTest, ALongWaitCostsNothing) {
  BecomeReader();
  parker_.Arm();
  const absl::Duration before = support::ProcessCpuTime();
  EXPECT_EQ(subscriber_->Await(parker_, In(absl::Seconds(1))), Parker::kArmed);
  EXPECT_LT(support::ProcessCpuTime() - before, absl::Milliseconds(20));
}

}  // namespace
}  // namespace redlatch::redis
