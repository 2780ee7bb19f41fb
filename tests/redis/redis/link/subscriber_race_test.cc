// Calls of the subscriber, its thread and the server, met at awkward moments.
#include <future>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/redis/redis/embedded/home.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;

class SubscriberRace : public support::SubscriberTestFixture {
 protected:
  // A subscriber whose callback stays at its first message until it is told to go on.
  std::unique_ptr<Subscriber> MakeSlow(const std::string& url) {
    SubscriberOptions options = ears_.Options();
    options.on_message = [this, hear = options.on_message](std::string_view channel,
                                                           std::string_view message) {
      hear(channel, message);
      if (ears_.heard().size() == 1) go_on_.get_future().wait();
    };
    return std::make_unique<Subscriber>(*ParseUrl(url), std::move(options));
  }

  std::promise<void> go_on_;
};

TEST_F(SubscriberRace, NoUnsubscribeIsOkWhileAMessageOfTheChannelIsBeingDelivered) {
  const auto subscriber = MakeSlow(server_->url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_EQ(Publish("c", "1"), 1);
  ASSERT_EQ(Publish("c", "2"), 1);
  ASSERT_TRUE(ears_.Await("message c 1"));
  const absl::Status first = subscriber->Unsubscribe("c", In(absl::Milliseconds(10)));
  EXPECT_EQ(first.code(), kUnavailable);
  EXPECT_THAT(std::string(first.message()), HasSubstr(server_->url()));
  // Nor the next: it is unknown no sooner than the server has let it go.
  EXPECT_EQ(subscriber->Unsubscribe("c", In(absl::Milliseconds(10))).code(), kUnavailable);
  go_on_.set_value();
  EXPECT_TRUE(subscriber->Unsubscribe("c", Soon()).ok());
  EXPECT_THAT(ears_.heard(), ElementsAre("message c 1"));
  EXPECT_EQ(Publish("c", "3"), 0);
}

// A host to look up or a server to start cannot be woken from.
TEST_F(SubscriberRace, TheDestructorDoesNotWaitForAServerThatDoesNotStart) {
  EmbeddedHome home;
  WriteScript(home.Aside("redis-server"), "exec sleep 60\n");
  const std::string path = home.Aside("") + ":" + getenv("PATH");
  ScopedEnvironment environment("PATH", path.c_str());
  ScopedEnvironment unnamed("REDLATCH_REDIS_SERVER", nullptr);
  auto subscriber = Make("embedded:" + home.directory() + "?connect_timeout=60s");
  EXPECT_EQ(subscriber->Subscribe("c", In(absl::Milliseconds(100))).code(), kUnavailable);
  const base::Instant begun = base::Now();
  subscriber.reset();
  EXPECT_LT(base::Now() - begun, absl::Seconds(2));
}

}  // namespace
}  // namespace redlatch::redis
