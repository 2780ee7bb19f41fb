#include "src/redis/link/channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/channel_fixture.h"
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/support/process_stats.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

using support::Direction;
using support::ProxyStats;

class ChannelTest : public ChannelFixture {};

TEST_F(ChannelTest, ConnectsWithTheFirstCall) {
  const auto channel = Direct();
  EXPECT_EQ(channel->stats().connects, 0);
  EXPECT_EQ(Text(channel->Call({"SET", "k", "v"}, In(kPatience))), "OK");
  EXPECT_EQ(Text(channel->Call({"GET", "k"}, In(kPatience))), "\"v\"");
  EXPECT_EQ(channel->stats().connects, 1);
  EXPECT_EQ(channel->server(), server_->url());
  EXPECT_EQ(channel->server_info().version, server_->Version());
  EXPECT_EQ(channel->server_info().run_id, server_->Info("run_id"));
}

TEST_F(ChannelTest, SpeaksOverAUnixSocket) {
  Channel channel(UrlOf(server_->unix_url()));
  EXPECT_EQ(Echo(channel, "over a socket"), "over a socket");
}

TEST_F(ChannelTest, AnErrorReplyIsAnAnswer) {
  const auto channel = Direct();
  const auto reply = channel->Call({"NO-SUCH-COMMAND"}, In(kPatience));
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->is_error());
  EXPECT_THAT(reply->text, StartsWith("ERR unknown command"));
  EXPECT_EQ(Echo(*channel, "and goes on"), "and goes on");
  EXPECT_EQ(channel->stats().connects, 1);
}

TEST_F(ChannelTest, ABatchIsAnsweredInItsOrder) {
  const auto channel = Direct();
  std::vector<Command> commands;
  commands.push_back({"SET", "n", "1"});
  commands.push_back({"INCR", "n"});
  commands.push_back({"LPUSH", "n", "x"});
  commands.push_back({"INCR", "n"});
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  channel->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  EXPECT_EQ(Text(replies[0]), "OK");
  EXPECT_EQ(Text(replies[1]), "2");
  EXPECT_THAT(Text(replies[2]), StartsWith("error WRONGTYPE"));
  EXPECT_EQ(Text(replies[3]), "3");
}

TEST_F(ChannelTest, AnEmptyBatchIsDoneAtOnce) {
  const auto channel = Direct();
  channel->CallBatch({}, In(kPatience), {});
  EXPECT_EQ(channel->stats().connects, 0);
}

TEST_F(ChannelTest, AHugeBatchIsAnsweredWhole) {
  constexpr int kCommands = 10'000;
  const auto channel = Direct();
  std::vector<Command> commands;
  for (int i = 0; i < kCommands; ++i) commands.push_back({"ECHO", absl::StrCat("batch ", i)});
  std::vector<absl::StatusOr<Reply>> replies(kCommands);
  channel->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  for (int i = 0; i < kCommands; ++i) {
    ASSERT_EQ(Text(replies[i]), absl::StrCat("\"batch ", i, "\""));
  }
}

TEST_F(ChannelTest, BatchesAreNeverTornApartByOtherThreads) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  const auto channel = Direct();
  InThreads(kThreads, [&](int thread) {
    const std::string mine = std::to_string(thread);
    std::vector<Command> commands;
    commands.push_back({"SET", "shared", mine});
    for (int i = 0; i < 4; ++i) commands.push_back({"GET", "shared"});
    for (int round = 0; round < kRounds; ++round) {
      std::vector<absl::StatusOr<Reply>> replies(commands.size());
      channel->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
      for (size_t i = 1; i < replies.size(); ++i) {
        ASSERT_EQ(Text(replies[i]), absl::StrCat("\"", mine, "\""));
      }
    }
  });
}

TEST_F(ChannelTest, EveryThreadGetsItsOwnReply) {
  const auto channel = Direct();
  InThreads(16, [&](int thread) {
    for (int i = 0; i < 1000; ++i) {
      const std::string unique = absl::StrCat(thread, ":", i);
      ASSERT_EQ(Echo(*channel, unique), unique);
    }
  });
  EXPECT_EQ(channel->stats().connects, 1);
  EXPECT_EQ(channel->stats().late, 0);
}

TEST_F(ChannelTest, BytesOfAnyKindTravelUnharmed) {
  const auto channel = Direct();
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (const std::string& bytes : {all, std::string(), std::string(1, '\0'),
                                   std::string("\r\n$3\r\nGET\r\n+OK\r\n-ERR\r\n*0\r\n")}) {
    EXPECT_TRUE(Echo(*channel, bytes) == bytes) << bytes.size() << " bytes";
  }
}

// More than the sockets hold, each way: the write is blocked while the reply of an earlier
// command comes.
TEST_F(ChannelTest, BigValuesTravelBothWaysOverASlowLink) {
  const std::string big(size_t{16} << 20, 'b');
  const auto channel = Proxied();
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    proxy_.Delay(direction, absl::Milliseconds(2));
  }
  InThreads(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; i < 20; ++i) {
        const std::string unique = absl::StrCat(thread, ":", i);
        ASSERT_EQ(Echo(*channel, unique), unique);
      }
      return;
    }
    EXPECT_TRUE(Echo(*channel, big) == big);
    EXPECT_TRUE(Echo(*channel, big) == big);
  });
  EXPECT_EQ(channel->stats().connects, 1);
}

// The kernel takes no more until Heal().
class ChannelBacklogTest : public ChannelTest {
 protected:
  void SetUp() override {
    hooks_.write = [this](Transport& real, std::string_view bytes) {
      return blocked_ ? IoResult{.kind = IoResult::Kind::kAgain} : real.Write(bytes);
    };
    hooks_.wait = [this](Transport& real, Transport::Interest, int wake_fd, base::Instant until) {
      Readiness ready;
      do {
        ready = real.Wait(Transport::Interest::kRead, wake_fd,
                          std::min(until, In(absl::Milliseconds(2))));
        ready.writable = !blocked_;
      } while (!ready.readable && !ready.writable && !ready.woken && base::Now() < until);
      return ready;
    };
    const std::string big(size_t{1} << 20, 'b');
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(channel_->Send({"SET", "big", big}).ok());
    while ((refused_ = channel_->Send({"SET", "big", big})).ok()) continue;
  }

  ChannelOptions Options() {
    ChannelOptions options;
    options.backlog_bytes = size_t{1} << 20;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = Hooked(hooks_);
    return options;
  }

  void Heal() { blocked_ = false; }

  TransportHooks hooks_;
  const std::unique_ptr<Channel> channel_ = Connected(Direct(Options()));
  std::atomic<bool> blocked_ = true;
  absl::Status refused_;
};

TEST_F(ChannelBacklogTest, RefusesCommandsWhereTooManyBytesWait) {
  EXPECT_EQ(refused_.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused_.message()), HasSubstr("does not keep up"));
  // Two that ask: one of them leads, and the other is refused.
  const auto refused = [](const absl::Status& status) {
    return absl::StrContains(status.message(), "does not keep up");
  };
  std::thread other([&] {
    while (refused(channel_->Call({"PING"}, In(kPatience)).status())) continue;
  });
  std::string key;
  absl::Status status;
  EXPECT_TRUE(Await([&, i = 0]() mutable {
    key = absl::StrCat("key ", i++);
    status = channel_->Call({"SET", key, "1"}, In(absl::Milliseconds(1))).status();
    return refused(status);
  })) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(MayHaveExecuted(status));
  Heal();
  other.join();
  EXPECT_EQ(Text(channel_->Call({"EXISTS", key}, In(kPatience))), "0");
  EXPECT_EQ(channel_->stats().connects, 1);
}

TEST_F(ChannelBacklogTest, IsWorkedOffByTheNextCall) {
  Heal();
  EXPECT_EQ(Echo(*channel_, "goes on"), "goes on");
  EXPECT_EQ(channel_->stats().connects, 1);
}

TEST_F(ChannelBacklogTest, IsWorkedOffByCommandsThatNobodyWaitsFor) {
  Heal();
  EXPECT_TRUE(Await([&] {
    return channel_->Send({"PING"}).ok() && server_->Text({"STRLEN", "big"}) == "1048576" &&
           channel_->Send({"SET", "done", "1"}).ok() && server_->Text({"GET", "done"}) == "1";
  }));
}

TEST_F(ChannelTest, ACommandSentAndForgottenIsExecutedAndItsReplyReachesNobody) {
  const auto channel = Connected(Direct());
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(channel->Send({"INCR", "counter"}).ok());
    const std::string unique = absl::StrCat("after ", i);
    ASSERT_EQ(Echo(*channel, unique), unique);
    ASSERT_EQ(Text(channel->Call({"GET", "counter"}, In(kPatience))), absl::StrCat("\"", i, "\""));
  }
}

TEST_F(ChannelTest, ForgottenCommandsArriveWithNoCallBehindThem) {
  const auto channel = Connected(Direct());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(channel->Send({"INCR", "counter"}).ok());
  EXPECT_TRUE(Await([&] { return server_->Text({"GET", "counter"}) == "10"; }));
}

TEST_F(ChannelTest, SendIsRefusedWhereThereIsNoConnection) {
  const auto channel = Direct();
  const absl::Status status = channel->Send({"PING"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not connected"));
}

TEST_F(ChannelTest, ManyForgottenCommandsNeitherHangNorGrow) {
  constexpr int kSends = 100'000;
  const auto channel = Connected(Direct());
  const int64_t before = support::ResidentBytes();
  for (int i = 0; i < kSends; ++i) ASSERT_TRUE(channel->Send({"INCR", "counter"}).ok());
  EXPECT_EQ(Text(channel->Call({"GET", "counter"}, In(kPatience))),
            absl::StrCat("\"", kSends, "\""));
  if (!kSanitized) {
    EXPECT_LT(support::ResidentBytes() - before, int64_t{8} << 20);
  }
  EXPECT_EQ(channel->stats().connects, 1);
}

}  // namespace
}  // namespace redlatch::redis
