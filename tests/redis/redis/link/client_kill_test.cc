// A bar: CLIENT KILL of every connection, 100 times, under load. No caller is lost, all
// subscriptions are live again, and nothing grows.

#include "src/redis/link/scripts.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/link/subscriber.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/scripts_fixture.h"
#include "tests/support/live_testing.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

constexpr int kCallers = 16;
constexpr int kChannels = 50;
constexpr absl::Duration kTimeout = absl::Seconds(1);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // a sanitizer keeps what was freed
#else
constexpr bool kMemoryIsOurs = true;
#endif

class ClientKill : public support::SubscriberTestFixture {
 protected:
  // Each caller counts at the server with a script, and gets its own words back.
  void CallUntilStopped(int caller) {
    for (int64_t i = 0; !stop_; ++i) {
      const std::string mine = absl::StrCat(caller, ":", i);
      const std::string_view args[] = {mine};
      const absl::StatusOr<Reply> reply = scripts_.Run(count_.Call(kKeys, args), In(kTimeout));
      if (reply.ok()) {
        EXPECT_EQ(reply->text, mine);
        ++answered_;
      } else {
        EXPECT_TRUE(absl::IsUnavailable(reply.status())) << reply.status();
        if (MayHaveExecuted(reply.status())) ++unknown_;
      }
    }
  }
  // Returns when the callers have got so many answers more.
  bool AwaitAnswers(int64_t more) {
    return Await([this, enough = answered_ + more] { return answered_ >= enough; });
  }
  void KillAndAwaitRecovery() {
    ears_.Forget();
    ASSERT_TRUE(AwaitAnswers(100)) << "callers are stuck";
    EXPECT_EQ(server_->Integer({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}), 1);
    EXPECT_EQ(KillSubscribers(), 1);
    ASSERT_TRUE(ears_.Await("live again"));
    for (int i = 0; i < kChannels; ++i) ASSERT_EQ(Publish(std::to_string(i), "m"), 1) << i;
    for (int i = 0; i < kChannels; ++i) ASSERT_TRUE(ears_.Await(absl::StrCat("message ", i, " m")));
    EXPECT_EQ(ears_.Count("down"), 1);
    EXPECT_EQ(ears_.Count("live again"), 1);
  }

  static constexpr std::string_view kKeys[] = {"counter"};
  SharedConnection connection_{*ParseUrl(server_->url())};
  Scripts scripts_{connection_};
  const OwnScript count_{*server_, "redis.call('INCR', KEYS[1]); return ARGV[1]"};
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> answered_{0};
  std::atomic<int64_t> unknown_{0};
};

TEST_F(ClientKill, OfEveryConnectionUnderLoadLosesNobodyAndNothingGrows) {
  const auto subscriber = Make(server_->url());
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_TRUE(subscriber->Subscribe(std::to_string(i), Soon()).ok());
  }
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([this, i] { CallUntilStopped(i); });
  }
  const int rounds = support::Scaled(100);
  for (int i = 0; i < rounds / 10 + 1 && !HasFatalFailure(); ++i) KillAndAwaitRecovery();  // warm
  EXPECT_TRUE(AwaitAnswers(100));
  const int descriptors = support::OpenDescriptors();
  const int threads = support::ThreadCount();
  const int64_t memory = support::ResidentBytes();
  const uint64_t breaks = connection_.stats().breaks;

  for (int i = 0; i < rounds && !HasFatalFailure(); ++i) KillAndAwaitRecovery();

  EXPECT_TRUE(AwaitAnswers(100));
  const int64_t growth = support::ResidentBytes() - memory;
  EXPECT_EQ(support::OpenDescriptors(), descriptors);
  EXPECT_EQ(support::ThreadCount(), threads);
  EXPECT_TRUE(!kMemoryIsOurs || growth < int64_t{1} << 20) << growth;
  EXPECT_EQ(connection_.stats().breaks - breaks, rounds);
  stop_ = true;
  for (std::thread& caller : callers) caller.join();
  // Every script that was answered ran once, and no other but those of which nobody knows.
  const int64_t executed = server_->Integer({"INCRBY", "counter", "0"});
  EXPECT_GE(executed, answered_);
  EXPECT_LE(executed, answered_ + unknown_);
  EXPECT_TRUE(subscriber->live());
}

}  // namespace
}  // namespace redlatch::redis
