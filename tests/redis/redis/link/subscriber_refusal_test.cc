// What the subscriber makes of a server that does not permit what it asks.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/redis/link/subscriber.h"
#include "tests/support/fake_server.h"
#include "tests/support/raw_connection.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch::redis {
namespace {

using support::FakeServer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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

TEST_F(SubscriberRefusal, AUserWhoMaySubscribeToNothingHearsSo) {
  Acl({"-subscribe"});
  const auto subscriber = Make(AppUrl());
  const absl::Status subscribed = subscriber->Subscribe("ok", Soon());
  EXPECT_EQ(subscribed.code(), kDenied) << subscribed;
  EXPECT_THAT(std::string(subscribed.message()), HasSubstr("subscribe"));
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

TEST_F(SubscriberRefusal, APasswordThatIsChangedCostsNoSubscription) {
  const auto subscriber = Make(AppUrl());
  ASSERT_TRUE(subscriber->Subscribe("ok-1", Soon()).ok());
  Acl({"resetpass", ">another"});
  ASSERT_EQ(KillSubscribers(), 1);
  EXPECT_TRUE(ears_.Await("down", 3));  // the loss, and two attempts
  EXPECT_EQ(ears_.why_down().code(), kDenied);
  EXPECT_FALSE(subscriber->live());

  // Whoever comes now hears at once, and takes nothing from who was there.
  EXPECT_EQ(subscriber->Subscribe("ok-2", Soon()).code(), kDenied);
  EXPECT_EQ(subscriber->Subscribe("ok-1", Soon()).code(), kDenied);
  Acl({">secret"});
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_EQ(Publish("ok-1", "m"), 1);
  EXPECT_EQ(Publish("ok-2", "m"), 0);
  EXPECT_TRUE(ears_.Await("message ok-1 m"));
  EXPECT_EQ(ears_.Count("live again"), 1);
}

TEST_F(SubscriberRefusal, ARefusalAfterALossDuringTheResubscriptionCostsNoSubscription) {
  FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    const std::string& verb = asked.command[0];
    if (asked.connection == 1 && verb == "UNSUBSCRIBE") return std::nullopt;
    if (asked.connection == 2 && verb == "SUBSCRIBE") return std::nullopt;
    if (asked.connection == 3) return "-WRONGPASS invalid username-password pair\r\n";
    return FakeServer::Polite(asked);
  });
  const auto subscriber = Make(server.url());
  ASSERT_TRUE(subscriber->Subscribe("c", Soon()).ok());
  ASSERT_TRUE(subscriber->Subscribe("d", Soon()).ok());
  EXPECT_TRUE(subscriber->Unsubscribe("d", Soon()).ok());  // a loss ends subscriptions too
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_EQ(server.connections(), 4);
  EXPECT_THAT(ears_.heard(), ElementsAre("down", "down", "down", "live again"));
  EXPECT_TRUE(subscriber->live());
  // Known, thus live already: a subscription that was forgotten would make this a new one.
  EXPECT_TRUE(subscriber->Subscribe("c", base::Now()).ok());
}

TEST_F(SubscriberRefusal, AChannelLeftToBecomeLiveOutlivesARefusal) {
  enum Phase { kDown, kRefusing, kWell };
  std::atomic<Phase> phase{kDown};
  FakeServer server([&](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (phase == kDown) return std::nullopt;
    if (phase == kRefusing) return "-WRONGPASS invalid username-password pair\r\n";
    return FakeServer::Polite(asked);
  });
  const auto subscriber = Make(server.url());
  EXPECT_EQ(subscriber->Subscribe("c", In(absl::Milliseconds(20))).code(),
            absl::StatusCode::kUnavailable);
  phase = kRefusing;
  EXPECT_EQ(subscriber->Subscribe("d", Soon()).code(), kDenied);
  phase = kWell;
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_TRUE(subscriber->Subscribe("c", base::Now()).ok());  // known, thus live already
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

TEST_F(SubscriberRefusal, AChannelLeftToBecomeLiveThatIsDeniedIsTold) {
  server_->Kill();
  const auto subscriber = Make(AppUrl());
  EXPECT_EQ(subscriber->Subscribe("denied", In(absl::Milliseconds(20))).code(),
            absl::StatusCode::kUnavailable);
  server_->Restart();
  EXPECT_TRUE(ears_.Await("refused denied"));
  EXPECT_EQ(ears_.why_refused().code(), kDenied);
}

TEST_F(SubscriberRefusal, TheRefusalOfAChannelThatIsBeingLeftIsNoNews) {
  FakeServer server([](const FakeServer::Asked& asked) -> std::optional<std::string> {
    if (asked.command.back() == "slow") return "";
    const std::string answer = *FakeServer::Polite(asked);
    if (asked.command.back() != "last") return answer;
    const FakeServer::Asked leave{.connection = 1, .command = {"UNSUBSCRIBE", "slow"}};
    return "-NOPERM this user has no permissions\r\n" + *FakeServer::Polite(leave) + answer;
  });
  const auto subscriber = Make(server.url());
  ASSERT_TRUE(subscriber->Subscribe("first", Soon()).ok());
  EXPECT_FALSE(subscriber->Subscribe("slow", In(absl::Milliseconds(1))).ok());
  EXPECT_FALSE(subscriber->Unsubscribe("slow", In(absl::Milliseconds(1))).ok());
  EXPECT_TRUE(subscriber->Subscribe("last", Soon()).ok());
  EXPECT_TRUE(subscriber->live());
  EXPECT_THAT(ears_.heard(), IsEmpty());
}

// As long as a script runs too long the server answers so; its end is soon enough.
TEST_F(SubscriberRefusal, AServerThatIsBusyIsAskedAgainUntilTheDeadline) {
  server_->Command({"CONFIG", "SET", "busy-reply-threshold", "20"});
  const auto subscriber = Make(AppUrl());
  ASSERT_TRUE(subscriber->Subscribe("ok-1", Soon()).ok());
  auto script = support::RawConnection::ToSocket(server_->socket_path());
  ASSERT_TRUE(script.Send({"EVAL", "while true do end", "0"}));
  while (server_->Text({"GET", "k"}).find("BUSY") == std::string::npos) {
  }
  absl::Status subscribed;
  do {
    subscribed = subscriber->Subscribe("ok-2", In(absl::Milliseconds(200)));
    EXPECT_EQ(subscribed.code(), absl::StatusCode::kUnavailable) << subscribed;
  } while (!HasFailure() && subscribed.message().find("BUSY") == std::string_view::npos);
  server_->Command({"SCRIPT", "KILL"});
  EXPECT_TRUE(subscriber->Subscribe("ok-2", Soon()).ok());
  EXPECT_TRUE(ears_.Await("live again"));
  EXPECT_EQ(Publish("ok-1", "m"), 1);
  EXPECT_EQ(Publish("ok-2", "m"), 1);
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
