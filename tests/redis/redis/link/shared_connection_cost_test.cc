// What calls cost: system calls, descriptors.

#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

constexpr int kCalls = 1000;

class SharedConnectionCostTest : public ChannelFixture {
 protected:
  std::unique_ptr<SharedConnection> Counted(absl::Duration spin) {
    SharedConnectionOptions options;
    options.spin = spin;
    options.open = Hooked(hooks_);
    auto connection = Connected(Direct(std::move(options)));
    hooks_.ResetCounts();
    return connection;
  }

  TransportHooks hooks_;
};

// A connection that was idle for a while, be it that the machine held the caller up, is looked at
// with one more read before it is written to.
TEST_F(SharedConnectionCostTest, AnUncontendedCallWritesWaitsAndReadsOnce) {
  const auto connection = Counted(absl::ZeroDuration());
  int busy = 0;
  for (int i = 0; i < kCalls; ++i) {
    hooks_.ResetCounts();
    ASSERT_EQ(Echo(*connection, "counted"), "counted");
    ASSERT_EQ(hooks_.writes, 1);
    ASSERT_EQ(hooks_.waits, 1);
    ASSERT_LE(hooks_.reads, 2);
    if (hooks_.reads == 1) ++busy;
  }
  EXPECT_GT(busy, kCalls * 9 / 10);
}

TEST_F(SharedConnectionCostTest, ASpinThatCatchesTheReplyNeedsNoWait) {
  const auto connection = Counted(absl::Seconds(1));
  ASSERT_EQ(Echo(*connection, "counted"), "counted");
  EXPECT_EQ(hooks_.writes, 1);
  EXPECT_EQ(hooks_.waits, 0);
}

TEST_F(SharedConnectionCostTest, ABatchTravelsInOneWrite) {
  const auto connection = Counted(absl::ZeroDuration());
  std::vector<Command> commands;
  for (int i = 0; i < 100; ++i) commands.push_back({"ECHO", std::to_string(i)});
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  connection->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  EXPECT_EQ(Text(replies.back()), "\"99\"");
  EXPECT_EQ(hooks_.writes, 1);
}

TEST_F(SharedConnectionCostTest, AForgottenCommandCostsOneWrite) {
  const auto connection = Counted(absl::ZeroDuration());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(connection->Send({"INCR", "counter"}).ok());
  EXPECT_EQ(hooks_.writes, 100);
  EXPECT_EQ(hooks_.waits, 0);
  EXPECT_EQ(hooks_.reads, 0);
}

// There is no thread that could use any: this tells should one ever come.
TEST_F(SharedConnectionCostTest, AnIdleChannelHasNoThread) {
  const int before = support::ThreadCount();
  const auto connection = Connected(Direct());
  EXPECT_EQ(Echo(*connection, "used"), "used");
  EXPECT_EQ(support::ThreadCount(), before);
}

TEST_F(SharedConnectionCostTest, AChannelHoldsTwoDescriptorsAndGivesThemBack) {
  const int before = support::OpenDescriptors();
  {
    const auto connection = Connected(Direct());
    EXPECT_EQ(support::OpenDescriptors(), before + 2);
  }
  EXPECT_EQ(support::OpenDescriptors(), before);
}

}  // namespace
}  // namespace redlatch::redis
