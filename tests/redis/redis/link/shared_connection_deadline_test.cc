// Deadlines: every call is back in time, and a reply that comes too late reaches nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

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

using support::Direction;
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
};

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

}  // namespace
}  // namespace redlatch::redis
