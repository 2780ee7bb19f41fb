// What the subscriber makes of a server that does not permit what it asks.
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr absl::StatusCode kDenied = absl::StatusCode::kPermissionDenied;

class SubscriberRefusal : public support::SubscriberTestFixture {
 protected:
  SubscriberRefusal()
      : SubscriberTestFixture(
            {.acl = {"user app on >secret ~* resetchannels &ok* -@all +info +ping +subscribe "
                     "+unsubscribe"}}) {}

  std::string AppUrl() const { return "redis://app:secret@" + server_->url().substr(8); }
  void Acl(const std::vector<std::string>& rules) {
    std::vector<std::string> command = {"ACL", "SETUSER", "app"};
    command.insert(command.end(), rules.begin(), rules.end());
    ASSERT_EQ(server_->Text(command), "OK");
  }
};

TEST_F(SubscriberRefusal, OneChannelThatIsDeniedFailsAtOnceAndAlone) {
  const auto subscriber = Make(AppUrl());
  std::vector<std::thread> threads;
  for (const char* channel : {"ok-1", "denied", "ok-2", "denied", "ok-3"}) {
    threads.emplace_back([&, channel] {
      const base::Instant begun = base::Now();
      const absl::Status subscribed = subscriber->Subscribe(channel, Soon());
      EXPECT_LT(base::Now() - begun, kPatience / 2);
      if (*channel == 'o') {
        EXPECT_TRUE(subscribed.ok()) << subscribed;
      } else {
        EXPECT_EQ(subscribed.code(), kDenied) << subscribed;
        EXPECT_THAT(std::string(subscribed.message()),
                    AllOf(HasSubstr(server_->url()), HasSubstr("NOPERM"), HasSubstr("ACL SETUSER"),
                          Not(HasSubstr("secret"))));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(subscriber->stats().breaks, 0);
  EXPECT_EQ(Publish("ok-1", "m"), 1);
  EXPECT_TRUE(ears_.Await("message ok-1 m"));
  EXPECT_THAT(ears_.heard(), ElementsAre("message ok-1 m"));  // nothing for the other callbacks

  EXPECT_EQ(subscriber->Subscribe("denied", Soon()).code(), kDenied);
  Acl({"&denied"});
  EXPECT_TRUE(subscriber->Subscribe("denied", Soon()).ok());
  EXPECT_EQ(Publish("denied", "m"), 1);
  EXPECT_TRUE(ears_.Await("message denied m"));
}

TEST_F(SubscriberRefusal, AWrongPasswordEndsTheWaitAtOnceAndNothingGoesOn) {
  const auto subscriber = Make("redis://app:wr0ng-one@" + server_->url().substr(8));
  for (int i = 1; i <= 2; ++i) {
    const absl::Status subscribed = subscriber->Subscribe("ok", Soon());
    EXPECT_EQ(subscribed.code(), kDenied) << subscribed;
    EXPECT_THAT(std::string(subscribed.message()),
                AllOf(HasSubstr(server_->url()), HasSubstr("WRONGPASS"), HasSubstr("in the URL"),
                      Not(HasSubstr("wr0ng-one"))));
    EXPECT_TRUE(ears_.Await("down", i));
  }
  const std::string connections = server_->Info("total_connections_received");
  EXPECT_FALSE(ears_.Await("down", 3, absl::Milliseconds(200)));
  EXPECT_EQ(server_->Info("total_connections_received"), connections);

  Acl({">wr0ng-one"});  // which makes it right
  EXPECT_TRUE(subscriber->Subscribe("ok", Soon()).ok());
}

TEST_F(SubscriberRefusal, APermissionThatIsTakenAwayIsToldAndTheOthersLiveAgain) {
  const auto subscriber = Make(AppUrl());
  for (const char* channel : {"ok-1", "ok-2", "ok-3"}) {
    ASSERT_TRUE(subscriber->Subscribe(channel, Soon()).ok());
  }
  Acl({"resetchannels", "&ok-1", "&ok-3"});  // for which the server closes the connection
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_THAT(ears_.heard(), ElementsAre("down", "refused ok-2", "live again"));
  EXPECT_EQ(ears_.why_refused().code(), kDenied);
  EXPECT_THAT(std::string(ears_.why_refused().message()), HasSubstr("NOPERM"));
  EXPECT_TRUE(subscriber->live());
  EXPECT_EQ(Publish("ok-3", "m"), 1);
  EXPECT_TRUE(ears_.Await("message ok-3 m"));
  EXPECT_EQ(subscriber->Subscribe("ok-2", Soon()).code(), kDenied);
  EXPECT_EQ(ears_.Count("refused ok-2"), 1);  // who called was told
}

TEST_F(SubscriberRefusal, AServerWithoutRoomForMoreClientsIsAskedAgain) {
  server_->Command({"CONFIG", "SET", "maxclients", "1"});  // this connection
  const auto subscriber = Make(server_->url());
  absl::Status subscribed = subscriber->Subscribe("ok", In(absl::Milliseconds(100)));
  EXPECT_EQ(subscribed.code(), absl::StatusCode::kUnavailable) << subscribed;
  EXPECT_THAT(std::string(subscribed.message()), HasSubstr("max number of clients"));
  server_->Command({"CONFIG", "SET", "maxclients", "100"});
  EXPECT_TRUE(ArrivesSoon("ok"));
}

}  // namespace
}  // namespace redlatch::redis
