// Deadlines: every call is back in time, and a reply that comes too late reaches nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/punctuality.h"
#include "tests/support/test_scale.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;

using support::Direction;
using support::ProxyStats;
using support::Scope;

class SharedConnectionDeadlineTest : public ChannelFixture {
 protected:
  // A connection that never gives its connection up for standing still.
  std::unique_ptr<SharedConnection> Patient(absl::Duration spin = absl::Microseconds(80)) {
    SharedConnectionOptions options;
    options.stall_timeout = absl::InfiniteDuration();
    options.spin = spin;
    return Connected(Proxied(options));
  }

  // Until the proxy holds something for the client.
  bool AwaitHeld() {
    return proxy_.Await([](const ProxyStats& stats) { return stats.bytes_waiting > 0; });
  }
};

TEST_F(SharedConnectionDeadlineTest, ALateReplyReachesNobody) {
  const auto connection = Patient();
  for (int i = 0; i < 50; ++i) {
    proxy_.Hold(Direction::kToClient);
    const auto late =
        connection->Call({"ECHO", absl::StrCat("late ", i)}, In(absl::Milliseconds(2)));
    EXPECT_EQ(late.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(MayHaveExecuted(late.status()));
    EXPECT_THAT(std::string(late.status().message()), HasSubstr("did not answer in time"));
    proxy_.ReleaseHeld();
    const std::string unique = absl::StrCat("in time ", i);
    ASSERT_EQ(Echo(*connection, unique), unique);
  }
  EXPECT_EQ(connection->stats().connects, 1);
  EXPECT_EQ(connection->stats().late, 50);
}

TEST_F(SharedConnectionDeadlineTest, ABatchAnsweredInPartKeepsItsAnswersAndTheRestReachesNobody) {
  const auto connection = Patient();
  for (int i = 0; i < 10; ++i) {
    std::vector<Command> commands;
    commands.push_back({"ECHO", absl::StrCat("first ", i)});
    commands.push_back({"BLPOP", "nothing", "0.08"});  // holds up what is behind it
    commands.push_back({"ECHO", absl::StrCat("third ", i)});
    std::vector<absl::StatusOr<Reply>> replies(commands.size());
    connection->CallBatch(commands, In(absl::Milliseconds(40)), absl::MakeSpan(replies));
    EXPECT_EQ(Text(replies[0]), absl::StrCat("\"first ", i, "\""));
    EXPECT_TRUE(MayHaveExecuted(replies[1].status())) << Text(replies[1]);
    EXPECT_TRUE(MayHaveExecuted(replies[2].status())) << Text(replies[2]);
    const std::string unique = absl::StrCat("next ", i);
    ASSERT_EQ(Echo(*connection, unique), unique);
  }
  EXPECT_EQ(connection->stats().connects, 1);
}

// The leader's deadline is short, and those of its followers are long: one of them leads on.
TEST_F(SharedConnectionDeadlineTest, AnImpatientLeaderLeavesTheReadingToAFollower) {
  for (const absl::Duration spin : {absl::ZeroDuration(), absl::Microseconds(80)}) {
    const auto connection = Patient(spin);
    proxy_.Hold(Direction::kToClient);
    std::thread leader([&] {
      const auto reply = connection->Call({"ECHO", "leader"}, In(absl::Milliseconds(60)));
      EXPECT_TRUE(MayHaveExecuted(reply.status()));
    });
    EXPECT_TRUE(AwaitHeld());
    std::atomic<int> answered{0};
    std::thread followers([&] {
      InThreads(8, [&](int thread) {
        const std::string unique = absl::StrCat("follower ", thread);
        EXPECT_EQ(Echo(*connection, unique), unique);
        ++answered;
      });
    });
    leader.join();
    EXPECT_EQ(answered, 0);
    proxy_.Heal();
    followers.join();
    EXPECT_EQ(connection->stats().connects, 1);
  }
}

// All deadlines come together: leadership goes through the hands of those who are about to leave.
TEST_F(SharedConnectionDeadlineTest, WhereAllGiveUpTogetherAllAreBackInTime) {
  const auto connection = Patient();
  Punctuality punctuality;
  for (int round = 0; round < 5; ++round) {
    proxy_.Hold(Direction::kToClient);
    const base::Instant deadline = In(absl::Milliseconds(50));
    InThreads(64, [&](int thread) {
      const auto reply = connection->Call({"ECHO", std::to_string(thread)}, deadline);
      punctuality.Note(deadline);
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    });
    proxy_.Heal();
    ASSERT_EQ(Echo(*connection, "after"), "after");
  }
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_EQ(connection->stats().connects, 1);
}

// Deadlines from a tenth of a millisecond on, on a link whose round trip takes two: threads give
// up, are made leaders as they do, and come again at once.
class MixedDeadlinesTest : public SharedConnectionDeadlineTest,
                           public ::testing::WithParamInterface<absl::Duration> {};

TEST_P(MixedDeadlinesTest, EveryCallerGetsItsOwnReplyOrAnErrorInTime) {
  const auto connection = Patient(GetParam());
  proxy_.Delay(Direction::kToServer, absl::Milliseconds(1));
  proxy_.Delay(Direction::kToClient, absl::Milliseconds(1));
  Punctuality punctuality;
  std::atomic<int> own{0};
  std::atomic<int> late{0};
  const int calls = support::Scaled(400);
  InThreads(24, [&](int thread) {
    std::minstd_rand random(static_cast<unsigned>(thread + 1));
    for (int i = 0; i < calls; ++i) {
      const bool patient = random() % 4 == 0;
      const absl::Duration wait =
          patient ? absl::Seconds(5) : absl::Microseconds(100 + random() % 4900);
      const std::string unique = absl::StrCat(thread, ":", i);
      const base::Instant deadline = In(wait);
      const auto reply = connection->Call({"ECHO", unique}, deadline);
      punctuality.Note(deadline);
      if (reply.ok()) {
        ASSERT_EQ(reply->text, unique);
        ++own;
      } else {
        ASSERT_FALSE(patient) << reply.status();
        ASSERT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
        ++late;
      }
    }
  });
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_GT(own, 24 * calls / 10);
  EXPECT_GT(late, 24 * calls / 50);
  EXPECT_LE(connection->stats().late, late);  // who came too late to ask is not counted
  EXPECT_EQ(connection->stats().connects, 1);
}

INSTANTIATE_TEST_SUITE_P(Spins, MixedDeadlinesTest,
                         ::testing::Values(absl::ZeroDuration(), absl::Microseconds(80)),
                         [](const auto& spin) {
                           return spin.param == absl::ZeroDuration() ? "Patient" : "Eager";
                         });

TEST_F(SharedConnectionDeadlineTest, AServerThatStandsStillHoldsNobodyBeyondTheDeadline) {
  const auto connection = Connected(Direct());
  Punctuality punctuality;
  server_->Stop();
  InThreads(16, [&](int thread) {
    for (int i = 0; i < 5; ++i) {
      const base::Instant deadline = In(absl::Milliseconds(50 + 10 * thread));
      const auto reply = connection->Call({"PING"}, deadline);
      punctuality.Note(deadline);
      EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    }
  });
  server_->Continue();
  EXPECT_TRUE(punctuality.Within(kGrace));
  EXPECT_TRUE(Await([&] { return Echo(*connection, "moves again") == "moves again"; }));
}

TEST_F(SharedConnectionDeadlineTest, AConnectionInABlackHoleIsReplacedAfterTheStallTimeout) {
  SharedConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(200);
  const auto connection = Connected(Proxied(options));
  proxy_.Drop(Direction::kToServer, Scope::kExisting);
  const base::Instant begun = base::Now();
  int lost = 0;
  while (!connection->Call({"PING"}, In(absl::Milliseconds(20))).ok()) ++lost;
  EXPECT_GE(base::Now() - begun, options.stall_timeout);
  EXPECT_LT(base::Now() - begun, 3 * options.stall_timeout);
  EXPECT_GE(lost, 5) << "one call that ended unanswered must not be enough";
  EXPECT_EQ(connection->stats().connects, 2);
  EXPECT_EQ(connection->stats().breaks, 1);
}

// Something comes, however slowly: the connection lives.
TEST_F(SharedConnectionDeadlineTest, AConnectionOnWhichRepliesComeIsNotGivenUpForOneThatIsLate) {
  SharedConnectionOptions options;
  options.stall_timeout = absl::Milliseconds(100);
  const auto connection = Connected(Direct(options));
  for (int i = 0; i < 10; ++i) {
    // Where this thread does not run for so long, it is not sent.
    EXPECT_TRUE(support::Await([&] {
      const auto late = connection->Call({"DEBUG", "SLEEP", "0.05"}, In(absl::Milliseconds(10)));
      return MayHaveExecuted(late.status());
    }));
    ASSERT_EQ(Echo(*connection, "comes"), "comes");
  }
  EXPECT_EQ(connection->stats().connects, 1);
}

}  // namespace
}  // namespace redlatch::redis
