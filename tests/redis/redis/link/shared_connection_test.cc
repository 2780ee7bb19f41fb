#include "src/redis/link/shared_connection.h"

#include <sys/resource.h>

#include "absl/types/span.h"
#include "src/redis/link/pipeline.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

class SharedConnectionTest : public ChannelFixture {};

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
  EXPECT_THAT(refused_, IsError(absl::StatusCode::kUnavailable, HasSubstr("does not keep up")));
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

// Commands whose answer is given to a function.

class SharedConnectionDoneTest : public ChannelFixture {
 protected:
  // Keeps the answers in the order in which they came.
  SharedConnection::Done Keep() {
    return [this](absl::StatusOr<Reply> answer) { answers_.push_back(std::move(answer)); };
  }

  TransportHooks hooks_;
  std::vector<absl::StatusOr<Reply>> answers_;
};

TEST_F(SharedConnectionDoneTest, NothingIsSentOverAConnectionThatIsBeingLeft) {
  const auto connection = Connected(Direct());
  connection->MakeAnew("a test wants it");
  EXPECT_TRUE(absl::IsUnavailable(connection->Send({"PING"}, Keep())));
  ASSERT_TRUE(connection->Connect(In(kPatience)).ok());
  ASSERT_TRUE(connection->Send({"PING"}, Keep()).ok());
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  EXPECT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(connection->stats().connects, 2u);
}

// Its socket had no room for the second command. Each drain comes to a connection that was idle.
TEST_F(SharedConnectionDoneTest, ADrainThatDoesNotWaitEndsAConnectionThatIsBeingLeft) {
  bool blocked = false;
  hooks_.write = [&](Transport& real, std::string_view bytes) {
    return blocked ? IoResult{.kind = IoResult::Kind::kWantWrite} : real.Write(bytes);
  };
  const auto connection = Connected(Direct({.open = Hooked(hooks_)}));
  blocked = true;
  ASSERT_TRUE(connection->Send({"ECHO", "in flight"}, Keep()).ok());
  ASSERT_TRUE(connection->Send({"ECHO", "behind it"}, Keep()).ok());
  connection->MakeAnew("a test wants it");
  blocked = false;
  for (int i = 0; i < 500 && !connection->Drain(base::Now()); ++i) {
    support::Sleep(absl::Milliseconds(6));
  }
  ASSERT_THAT(answers_, SizeIs(2));
  EXPECT_EQ(Text(answers_[0]), "\"in flight\"");
  EXPECT_TRUE(NotSent(answers_[1].status())) << answers_[1].status();
}

// What becomes of calls where the connection is lost, cannot be made, or is refused.

absl::Status Call(SharedConnection& connection, const Command& command,
                  absl::Duration wait = kPatience) {
  return connection.Call(command, In(wait)).status();
}

using SharedConnectionReconnectTest = ChannelFixture;

// The kernel would send it again after a second.
TEST_F(SharedConnectionReconnectTest, AConnectionWhoseFirstPacketIsLostIsTriedAgainSoon) {
  const auto connection = Proxied();
  proxy_.SetArrival(Arrival::kHang);
  std::thread call(
      [&] { EXPECT_EQ(Echo(*connection, "soon", In(absl::Milliseconds(950))), "soon"); });
  absl::SleepFor(absl::Milliseconds(50));
  proxy_.Heal();
  call.join();
}

TEST_F(SharedConnectionReconnectTest, ARefusalKeepsItsCodeUntilTheServerIsAskedAgain) {
  SharedConnectionOptions options;
  options.first_backoff = options.longest_backoff = absl::Seconds(10);
  const auto connection = Direct(options);
  server_->Command({"CONFIG", "SET", "requirepass", "sesame"});
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = Call(*connection, {"PING"}, absl::Milliseconds(50));
    EXPECT_THAT(status, IsError(absl::StatusCode::kPermissionDenied, HasSubstr("NOAUTH")));
  }
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

TEST_F(SharedConnectionReconnectTest, AProcessWithoutDescriptorsIsUnavailableAndHeals) {
  const auto connection = Direct();
  std::unique_ptr<SharedConnection> born_without;
  std::vector<absl::Status> refused;  // looked at later: sanitizers need descriptors, too
  {
    const NoDescriptors none;
    born_without = Direct();
    for (SharedConnection* each : {connection.get(), born_without.get()}) {
      refused.push_back(Call(*each, {"PING"}, absl::Milliseconds(50)));
    }
  }
  for (const absl::Status& status : refused) {
    EXPECT_THAT(status, IsError(absl::StatusCode::kUnavailable, HasSubstr("Too many open files")));
    EXPECT_FALSE(MayHaveExecuted(status));
  }
  EXPECT_EQ(Echo(*connection, "healed"), "healed");
  EXPECT_EQ(Echo(*born_without, "healed as well"), "healed as well");
}

// Lets a write fail after so many bytes of it; those before it go out.
class BrokenWriteTest : public ChannelFixture {
 protected:
  void BreakNextWriteAfter(size_t bytes_that_pass) {
    hooks_.write = [bytes_that_pass, broken = std::make_shared<std::atomic<int>>(0)](
                       Transport& real, std::string_view bytes) {
      switch ((*broken)++) {
        case 0:
          if (bytes_that_pass > 0) return real.Write(bytes.substr(0, bytes_that_pass));
          [[fallthrough]];
        case 1:
          if (bytes_that_pass == 0) *broken = 2;
          return IoResult{.kind = IoResult::Kind::kError, .error = EPIPE};
        default:
          return real.Write(bytes);
      }
    };
  }

  TransportHooks hooks_;
  const std::unique_ptr<SharedConnection> connection_ =
      Connected(Direct({.stall_timeout = absl::InfiniteDuration(), .open = Hooked(hooks_)}));
};

TEST_F(BrokenWriteTest, ACommandOfWhichNoByteWasWrittenGoesOnWithTheNextConnection) {
  BreakNextWriteAfter(0);
  EXPECT_EQ(Text(connection_->Call({"INCR", "counter"}, In(kPatience))), "1");
  EXPECT_EQ(connection_->stats().connects, 2);
  EXPECT_EQ(connection_->stats().breaks, 1);
}

TEST_F(BrokenWriteTest, ACommandWrittenInPartMayHaveExecuted) {
  BreakNextWriteAfter(5);
  const auto reply = connection_->Call({"INCR", "counter"}, In(kPatience));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(reply.status()));
  EXPECT_EQ(Text(connection_->Call({"GET", "counter"}, In(kPatience))), "nil");
}

TEST_F(BrokenWriteTest, NoHalfOfABatchIsSentAgain) {
  std::vector<Command> commands;
  for (int i = 0; i < 3; ++i) commands.push_back({"INCR", "counter"});
  BreakNextWriteAfter(commands[0].bytes().size() + 3);
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  connection_->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  for (const auto& reply : replies) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(MayHaveExecuted(reply.status()));
  }
  EXPECT_THAT(Text(connection_->Call({"GET", "counter"}, In(kPatience))),
              ::testing::AnyOf("nil", "\"1\""));
}

}  // namespace
}  // namespace redlatch::redis
