#include "src/redis/link/shared_connection.h"

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
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/process_stats.h"

namespace redlatch::redis {
namespace {

using ::testing::HasSubstr;

using support::Direction;

class SharedConnectionTest : public ChannelFixture {};

TEST_F(SharedConnectionTest, ConnectsWithTheFirstCall) {
  const auto connection = Direct();
  EXPECT_EQ(connection->stats().connects, 0);
  EXPECT_EQ(Text(connection->Call({"SET", "k", "v"}, In(kPatience))), "OK");
  EXPECT_EQ(Text(connection->Call({"GET", "k"}, In(kPatience))), "\"v\"");
  EXPECT_EQ(connection->stats().connects, 1);
  EXPECT_EQ(connection->server(), server_->url());
  EXPECT_EQ(connection->server_info().version, server_->Version());
  EXPECT_EQ(connection->server_info().run_id, server_->Info("run_id"));
}

TEST_F(SharedConnectionTest, SpeaksOverAUnixSocket) {
  SharedConnection connection(UrlOf(server_->unix_url()));
  EXPECT_EQ(Echo(connection, "over a socket"), "over a socket");
}

TEST_F(SharedConnectionTest, AHugeBatchIsAnsweredWhole) {
  constexpr int kCommands = 10'000;
  const auto connection = Direct();
  std::vector<Command> commands;
  for (int i = 0; i < kCommands; ++i) commands.push_back({"ECHO", absl::StrCat("batch ", i)});
  std::vector<absl::StatusOr<Reply>> replies(kCommands);
  connection->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  for (int i = 0; i < kCommands; ++i) {
    ASSERT_EQ(Text(replies[i]), absl::StrCat("\"batch ", i, "\""));
  }
}

TEST_F(SharedConnectionTest, BatchesAreNeverTornApartByOtherThreads) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  const auto connection = Direct();
  InThreads(kThreads, [&](int thread) {
    const std::string mine = std::to_string(thread);
    std::vector<Command> commands;
    commands.push_back({"SET", "shared", mine});
    for (int i = 0; i < 4; ++i) commands.push_back({"GET", "shared"});
    for (int round = 0; round < kRounds; ++round) {
      std::vector<absl::StatusOr<Reply>> replies(commands.size());
      connection->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
      for (size_t i = 1; i < replies.size(); ++i) {
        ASSERT_EQ(Text(replies[i]), absl::StrCat("\"", mine, "\""));
      }
    }
  });
}

TEST_F(SharedConnectionTest, EveryThreadGetsItsOwnReply) {
  const auto connection = Direct();
  InThreads(16, [&](int thread) {
    for (int i = 0; i < 1000; ++i) {
      const std::string unique = absl::StrCat(thread, ":", i);
      ASSERT_EQ(Echo(*connection, unique), unique);
    }
  });
  EXPECT_EQ(connection->stats().connects, 1);
  EXPECT_EQ(connection->stats().late, 0);
}

TEST_F(SharedConnectionTest, BytesOfAnyKindTravelUnharmed) {
  const auto connection = Direct();
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  for (const std::string& bytes : {all, std::string(), std::string(1, '\0'),
                                   std::string("\r\n$3\r\nGET\r\n+OK\r\n-ERR\r\n*0\r\n")}) {
    EXPECT_TRUE(Echo(*connection, bytes) == bytes) << bytes.size() << " bytes";
  }
}

// More than the sockets hold, each way: the write is blocked while the reply of an earlier
// command comes.
TEST_F(SharedConnectionTest, BigValuesTravelBothWaysOverASlowLink) {
  const std::string big(size_t{16} << 20, 'b');
  const auto connection = Proxied();
  for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
    proxy_.Delay(direction, absl::Milliseconds(2));
  }
  InThreads(3, [&](int thread) {
    if (thread > 0) {
      for (int i = 0; i < 20; ++i) {
        const std::string unique = absl::StrCat(thread, ":", i);
        ASSERT_EQ(Echo(*connection, unique), unique);
      }
      return;
    }
    EXPECT_TRUE(Echo(*connection, big) == big);
    EXPECT_TRUE(Echo(*connection, big) == big);
  });
  EXPECT_EQ(connection->stats().connects, 1);
}

// The kernel takes no more until Heal().
class SharedConnectionBacklogTest : public SharedConnectionTest {
 protected:
  void SetUp() override {
    hooks_.write = [this](Transport& real, std::string_view bytes) {
      return blocked_ ? IoResult{.kind = IoResult::Kind::kWantWrite} : real.Write(bytes);
    };
    hooks_.wait = [this](Transport& real, Interest, int wake_fd, base::Instant until) {
      Readiness ready;
      do {
        ready = real.Wait(Interest::kRead, wake_fd, std::min(until, In(absl::Milliseconds(2))));
        ready.writable = !blocked_;
      } while (!ready.readable && !ready.writable && !ready.woken && base::Now() < until);
      return ready;
    };
    const std::string big(size_t{1} << 20, 'b');
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(connection_->Send({"SET", "big", big}).ok());
    while ((refused_ = connection_->Send({"SET", "big", big})).ok()) continue;
  }

  SharedConnectionOptions Options() {
    SharedConnectionOptions options;
    options.backlog_bytes = size_t{1} << 20;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = Hooked(hooks_);
    return options;
  }

  void Heal() { blocked_ = false; }

  TransportHooks hooks_;
  const std::unique_ptr<SharedConnection> connection_ = Connected(Direct(Options()));
  std::atomic<bool> blocked_ = true;
  absl::Status refused_;
};

TEST_F(SharedConnectionBacklogTest, RefusesCommandsWhereTooManyBytesWait) {
  EXPECT_EQ(refused_.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused_.message()), HasSubstr("does not keep up"));
  // Two that ask: one of them leads, and the other is refused.
  const auto refused = [](const absl::Status& status) {
    return absl::StrContains(status.message(), "does not keep up");
  };
  std::thread other([&] {
    while (refused(connection_->Call({"PING"}, In(kPatience)).status())) continue;
  });
  std::string key;
  absl::Status status;
  EXPECT_TRUE(Await([&, i = 0]() mutable {
    key = absl::StrCat("key ", i++);
    status = connection_->Call({"SET", key, "1"}, In(absl::Milliseconds(1))).status();
    return refused(status);
  })) << status;
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(MayHaveExecuted(status));
  Heal();
  other.join();
  EXPECT_EQ(Text(connection_->Call({"EXISTS", key}, In(kPatience))), "0");
  EXPECT_EQ(connection_->stats().connects, 1);
}

TEST_F(SharedConnectionTest, ManyForgottenCommandsNeitherHangNorGrow) {
  constexpr int kSends = 100'000;
  const auto connection = Connected(Direct());
  const int64_t before = support::ResidentBytes();
  for (int i = 0; i < kSends; ++i) ASSERT_TRUE(connection->Send({"INCR", "counter"}).ok());
  EXPECT_EQ(Text(connection->Call({"GET", "counter"}, In(kPatience))),
            absl::StrCat("\"", kSends, "\""));
  if (!kSanitized) {
    EXPECT_LT(support::ResidentBytes() - before, int64_t{8} << 20);
  }
  EXPECT_EQ(connection->stats().connects, 1);
}

}  // namespace
}  // namespace redlatch::redis
