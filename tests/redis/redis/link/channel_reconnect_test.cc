// What becomes of calls where the connection is lost, cannot be made, or is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/redis/link/channel.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/channel_fixture.h"
#include "tests/support/punctuality.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;

using support::Arrival;
using support::Direction;

// A connection that nobody used for so long is looked at before it is written to.
constexpr absl::Duration kIdle = absl::Milliseconds(5);

absl::Status Call(Channel& channel, const Command& command, absl::Duration wait = kPatience) {
  return channel.Call(command, In(wait)).status();
}

class ChannelReconnectTest : public ChannelFixture {
 protected:
  std::string Counter() { return server_->Text({"GET", "counter"}); }
};

TEST_F(ChannelReconnectTest, TheNextCallAfterARestartOfTheServerNoticesNothing) {
  const auto channel = Connected(Direct());
  for (int i = 1; i <= 5; ++i) {
    server_->Restart();
    const std::string unique = absl::StrCat("restart ", i);
    ASSERT_EQ(Echo(*channel, unique), unique);
  }
  EXPECT_EQ(channel->stats().connects, 6);
  EXPECT_EQ(channel->stats().breaks, 5);
  EXPECT_EQ(channel->server_info().run_id, server_->Info("run_id"));
}

TEST_F(ChannelReconnectTest, TheNextCallAfterTheServerClosedAnIdleConnectionNoticesNothing) {
  const auto channel = Connected(Direct());
  for (int i = 0; i < 5; ++i) {
    server_->Command({"CLIENT", "KILL", "TYPE", "normal"});
    absl::SleepFor(kIdle);
    ASSERT_EQ(Echo(*channel, "unnoticed"), "unnoticed");
  }
}

TEST_F(ChannelReconnectTest, ACommandWhoseReplyWasLostMayHaveExecutedAndIsNotSentAgain) {
  const auto channel = Connected(Proxied());
  proxy_.CutAfter(Direction::kToClient, 0);
  const absl::Status status = Call(*channel, {"INCR", "counter"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(proxy_.url()));
  EXPECT_EQ(Echo(*channel, "next"), "next");
  EXPECT_EQ(Counter(), "1");
}

TEST_F(ChannelReconnectTest, ABatchCutInItsMiddleKeepsTheAnswersItGot) {
  const auto channel = Connected(Proxied());
  std::vector<Command> commands;
  for (int i = 0; i < 10; ++i) commands.push_back({"ECHO", absl::StrCat("reply ", i)});
  proxy_.CutAfter(Direction::kToClient, 4 * 13 + 5);  // "$7\r\nreply 0\r\n"
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  channel->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  for (int i = 0; i < 10; ++i) {
    if (i < 4) {
      EXPECT_EQ(Text(replies[i]), absl::StrCat("\"reply ", i, "\""));
    } else {
      EXPECT_TRUE(MayHaveExecuted(replies[i].status())) << i << ": " << Text(replies[i]);
    }
  }
}

TEST_F(ChannelReconnectTest, ACallWaitsForAServerThatComesBackInTime) {
  const auto channel = Connected(Direct());
  server_->Kill();
  absl::SleepFor(kIdle);
  std::thread call([&] { EXPECT_EQ(Echo(*channel, "patient"), "patient"); });
  server_->Restart();
  call.join();
}

TEST_F(ChannelReconnectTest, ACommandThatCouldNotBeSentNeverExecutes) {
  for (const Arrival arrival : {Arrival::kRefuse, Arrival::kIgnore}) {
    const auto channel = Proxied();
    proxy_.SetArrival(arrival);
    for (int i = 0; i < 5; ++i) {
      const absl::Status status = Call(*channel, {"INCR", "counter"}, absl::Milliseconds(20));
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_FALSE(MayHaveExecuted(status)) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(proxy_.url()));
    }
    proxy_.Heal();
    EXPECT_EQ(Echo(*channel, "back"), "back");
    EXPECT_EQ(Counter(), "");
  }
}

TEST_F(ChannelReconnectTest, AConnectionThatIsLeftAnswersWhatItWasSent) {
  const auto channel = Connected(Proxied());
  proxy_.Hold(Direction::kToClient);
  std::thread first([&] { EXPECT_EQ(Echo(*channel, "first"), "first"); });
  ASSERT_TRUE(proxy_.Await([](const auto& stats) { return stats.bytes_waiting > 0; }));
  channel->MakeAnew("it is the wrong one");
  EXPECT_FALSE(channel->peer().has_value());
  std::thread second([&] { EXPECT_EQ(Echo(*channel, "second"), "second"); });
  absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(channel->stats().breaks, 0);
  proxy_.Heal();
  first.join();
  second.join();
  EXPECT_EQ(channel->stats().connects, 2);
  EXPECT_TRUE(channel->peer().has_value());
}

// The kernel would send it again after a second.
TEST_F(ChannelReconnectTest, AConnectionWhoseFirstPacketIsLostIsTriedAgainSoon) {
  const auto channel = Proxied();
  proxy_.SetArrival(Arrival::kHang);
  std::thread call([&] { EXPECT_EQ(Echo(*channel, "soon", In(absl::Milliseconds(950))), "soon"); });
  absl::SleepFor(absl::Milliseconds(50));
  proxy_.Heal();
  call.join();
}

TEST_F(ChannelReconnectTest, AConnectionThatIsLeftAndSilentIsGivenUp) {
  ChannelOptions options;
  options.stall_timeout = absl::Milliseconds(100);
  const auto channel = Connected(Proxied(options));
  proxy_.Drop(Direction::kToClient, support::Scope::kExisting);
  EXPECT_TRUE(MayHaveExecuted(Call(*channel, {"PING"}, absl::Milliseconds(10))));
  channel->MakeAnew("it is the wrong one");
  EXPECT_EQ(Echo(*channel, "anew"), "anew");
}

TEST_F(ChannelReconnectTest, ADeadlineThatHasPassedSendsNothing) {
  const auto channel = Connected(Direct());
  for (const absl::Duration ago : {absl::ZeroDuration(), absl::Seconds(1)}) {
    const absl::Status status = Call(*channel, {"INCR", "counter"}, -ago);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(MayHaveExecuted(status));
  }
  EXPECT_EQ(Echo(*channel, "behind them"), "behind them");
  EXPECT_EQ(Counter(), "");
}

TEST_F(ChannelReconnectTest, CallsWhileAttemptsAreHeldBackEndByTheirDeadlineWithTheReason) {
  ChannelOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto channel = Proxied(options);
  proxy_.SetArrival(Arrival::kRefuse);
  Punctuality punctuality;
  InThreads(8, [&](int thread) {
    for (int i = 0; i < 5; ++i) {
      const base::Instant deadline = In(absl::Milliseconds(10 + 5 * thread));
      const absl::Status status = channel->Call({"PING"}, deadline).status();
      punctuality.Note(deadline);
      EXPECT_GE(base::Now(), deadline) << "an attempt that may yet succeed is waited for";
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
    }
  });
  EXPECT_TRUE(punctuality.Within(kGrace));
}

TEST_F(ChannelReconnectTest, AttemptsAreHeldBackWhereTheyFail) {
  std::atomic<int> attempts{0};
  ChannelOptions options;
  options.first_backoff = options.longest_backoff = absl::Milliseconds(100);
  options.open = [&](const SocketAddress& address) {
    ++attempts;
    return OpenSocket(address);
  };
  const auto channel = Proxied(options);
  proxy_.SetArrival(Arrival::kRefuse);
  EXPECT_FALSE(Call(*channel, {"PING"}, absl::Milliseconds(500)).ok());
  EXPECT_GE(attempts, 4);
  EXPECT_LE(attempts, 11);  // the pause is jittered down to its half
}

TEST_F(ChannelReconnectTest, ConnectTellsWhyTheFirstAttemptFailedWithoutWaitingForAnother) {
  const auto channel = Proxied();
  proxy_.SetArrival(Arrival::kRefuse);
  const base::Instant begun = base::Now();
  const absl::Status status = channel->Connect(In(kPatience));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
  EXPECT_LT(base::Now() - begun, kPatience / 2);
  proxy_.Heal();
  EXPECT_TRUE(channel->Connect(In(kPatience)).ok());
}

TEST_F(ChannelReconnectTest, AServerThatRefusesFailsAllThatWaitAtOnceAndHealsWhenItIsMended) {
  const auto channel = Direct();
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  const base::Instant begun = base::Now();
  InThreads(8, [&](int) {
    const absl::Status status = Call(*channel, {"INCR", "counter"});
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr("NOAUTH"));
    EXPECT_FALSE(MayHaveExecuted(status));
  });
  EXPECT_LT(base::Now() - begun, kPatience / 2);
  server_->Command({"CONFIG", "SET", "requirepass", ""});
  EXPECT_TRUE(Await([&] { return Call(*channel, {"PING"}).ok(); }));
  EXPECT_EQ(Counter(), "");
}

TEST_F(ChannelReconnectTest, ARefusalKeepsItsCodeUntilTheServerIsAskedAgain) {
  ChannelOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto channel = Direct(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Call(*channel, {"PING"}, absl::Milliseconds(50));
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("NOAUTH"));
  }
}

TEST_F(ChannelReconnectTest, AServerThatEvictsAfterAReconnectIsRefused) {
  const auto channel = Connected(Direct());
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  server_->Command({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(Await(
      [&] { return Call(*channel, {"PING"}).code() == absl::StatusCode::kFailedPrecondition; }));
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  EXPECT_TRUE(Await([&] { return Call(*channel, {"PING"}).ok(); }));
}

TEST_F(ChannelReconnectTest, IntroducesItselfBeforeItAsksAnythingOfANewConnection) {
  ChannelOptions options;
  options.introduction = Command{"INCR", "counter"};
  const auto channel = Direct(options);
  for (int i = 1; i <= 3; ++i) {
    const auto counter = channel->Call({"GET", "counter"}, In(kPatience));
    ASSERT_TRUE(counter.ok()) << counter.status();
    EXPECT_EQ(counter->text, absl::StrCat(i));
    server_->Command({"CLIENT", "KILL", "TYPE", "normal"});
    absl::SleepFor(kIdle);
  }
}

TEST_F(ChannelReconnectTest, ARefusedIntroductionHarmsNothing) {
  ChannelOptions options;
  options.introduction = Command{"NOSUCHCOMMAND", "who"};
  const auto channel = Connected(Direct(options));
  EXPECT_EQ(Echo(*channel, "all the same"), "all the same");
  EXPECT_EQ(channel->stats().breaks, 0);
  EXPECT_TRUE(channel->server_info().warnings.empty());
}

TEST_F(ChannelReconnectTest, AServerThatIsRefusedHearsNoIntroduction) {
  ChannelOptions options;
  options.introduction = Command{"INCR", "counter"};
  server_->Command({"CONFIG", "SET", "maxmemory", "100mb"});
  server_->Command({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  EXPECT_EQ(Direct(options)->Connect(In(kPatience)).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Counter(), "");
}

// No new descriptor can be had while this lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 3;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(ChannelReconnectTest, AProcessWithoutDescriptorsIsUnavailableAndHeals) {
  const auto channel = Direct();
  std::unique_ptr<Channel> born_without;
  std::vector<absl::Status> refused;  // looked at later: sanitizers need descriptors, too
  {
    const NoDescriptors none;
    born_without = Direct();
    for (Channel* each : {channel.get(), born_without.get()}) {
      refused.push_back(Call(*each, {"PING"}, absl::Milliseconds(50)));
    }
  }
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("Too many open files"));
    EXPECT_FALSE(MayHaveExecuted(status));
  }
  EXPECT_EQ(Echo(*channel, "healed"), "healed");
  EXPECT_EQ(Echo(*born_without, "healed as well"), "healed as well");
}

}  // namespace
}  // namespace redlatch::redis
