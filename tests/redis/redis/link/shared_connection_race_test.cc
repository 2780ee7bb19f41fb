// Schedules that a run meets rarely, made to happen: the transport's steps are held up, or fail,
// at the moment that hurts.

#include "src/redis/link/shared_connection.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch::redis {
namespace {

class SharedConnectionRaceTest : public ChannelFixture {
 protected:
  std::unique_ptr<SharedConnection> Hooked(absl::Duration spin) {
    SharedConnectionOptions options;
    options.spin = spin;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = redis::Hooked(hooks_);
    return Connected(Direct(std::move(options)));
  }

  // The next write takes nothing, as where the kernel's buffer is full.
  void BlockOneWrite() {
    hooks_.write = [blocked = std::make_shared<std::atomic<bool>>(false)](Transport& real,
                                                                          std::string_view bytes) {
      if (!blocked->exchange(true)) return IoResult{.kind = IoResult::Kind::kWantWrite};
      return real.Write(bytes);
    };
  }

  // Until the leader looks for a reply (again).
  bool AwaitRead() {
    return Await([this, before = hooks_.reads.load()] { return hooks_.reads > before; });
  }

  TransportHooks hooks_;
};

TEST_F(SharedConnectionRaceTest, ALeaderThatSpinsWhileItsWriteIsBlockedSeesThatThereIsRoomAgain) {
  const auto connection = Hooked(absl::Seconds(1));
  BlockOneWrite();
  std::thread leader([&] { EXPECT_EQ(Echo(*connection, "first", In(absl::Seconds(5))), "first"); });
  EXPECT_TRUE(AwaitRead());
  EXPECT_EQ(Echo(*connection, "second", In(absl::Seconds(5))), "second");
  leader.join();
}

// Lets a write fail after so many bytes of it; those before it go out.
class BrokenWriteTest : public SharedConnectionRaceTest {
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

  const std::unique_ptr<SharedConnection> connection_ = Hooked(absl::ZeroDuration());
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

// A follower writes while the leader finds the connection closed: the write succeeds, and its
// writer comes back to a connection that is no more.
class WriterComesBackLateTest : public SharedConnectionRaceTest {
 protected:
  // Runs `meanwhile` where the leader waits for the writer. What the follower's INCR got.
  absl::StatusOr<Reply> Run(SharedConnection& connection, const std::function<void()>& meanwhile) {
    std::atomic<bool> leader_waits{false};
    std::atomic<bool> written{false};
    std::atomic<bool> closed{false};
    hooks_.wait = [&](Transport& real, Interest interest, int wake, base::Instant at) {
      leader_waits = true;
      EXPECT_TRUE(Await([&] { return written.load(); }));
      return real.Wait(interest, wake, at);
    };
    hooks_.read = [&](Transport& real, char* buffer, size_t size) {
      if (!written || closed.exchange(true)) return real.Read(buffer, size);
      return IoResult{.kind = IoResult::Kind::kClosed};
    };
    hooks_.write = [&](Transport& real, std::string_view bytes) {
      const IoResult put = real.Write(bytes);
      if (!leader_waits || written.exchange(true)) return put;
      EXPECT_TRUE(Await([&] { return closed.load(); }));
      absl::SleepFor(absl::Milliseconds(20));  // it goes on to wait, which nothing tells of
      meanwhile();
      return put;
    };
    std::thread leader([&] { (void)connection.Call({"PING"}, In(kPatience)); });
    EXPECT_TRUE(Await([&] { return leader_waits.load(); }));
    absl::StatusOr<Reply> reply = connection.Call({"INCR", "counter"}, In(kPatience));
    leader.join();
    hooks_.wait = nullptr;
    hooks_.read = nullptr;
    hooks_.write = nullptr;
    return reply;
  }
};

TEST_F(WriterComesBackLateTest, WhatItWroteIsNotSentAgain) {
  const auto connection = Hooked(absl::ZeroDuration());
  const auto reply = Run(*connection, [] {});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(reply.status()));
  EXPECT_EQ(Text(connection->Call({"GET", "counter"}, In(kPatience))), "\"1\"");
}

TEST_F(WriterComesBackLateTest, AChildForkedMeanwhileCanDestroyTheChannel) {
  auto connection = Hooked(absl::ZeroDuration());
  (void)Run(*connection, [&] {
    const auto child = support::Child::Fork([&](support::LinePipe&) {
      connection.reset();
      return 0;
    });
    const auto ended = child->WaitFor(absl::Seconds(5));
    EXPECT_TRUE(ended.has_value() && ended->success());
  });
  EXPECT_EQ(Echo(*connection, "goes on"), "goes on");
}

}  // namespace
}  // namespace redlatch::redis
