// Schedules that a run meets rarely, made to happen: the transport's steps are held up, or fail,
// at the moment that hurts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "src/redis/link/channel.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"
#include "tests/redis/redis/link/channel_fixture.h"
#include "tests/redis/redis/link/hooked_transport.h"
#include "tests/support/punctuality.h"
#include "tests/support/subprocess.h"

namespace redlatch::redis {
namespace {

class ChannelRaceTest : public ChannelFixture {
 protected:
  std::unique_ptr<Channel> Hooked(absl::Duration spin) {
    ChannelOptions options;
    options.spin = spin;
    options.stall_timeout = absl::InfiniteDuration();
    options.open = redis::Hooked(hooks_);
    return Connected(Direct(std::move(options)));
  }

  // The next write takes nothing, as where the kernel's buffer is full.
  void BlockOneWrite() {
    hooks_.write = [blocked = std::make_shared<std::atomic<bool>>(false)](Transport& real,
                                                                          std::string_view bytes) {
      if (!blocked->exchange(true)) return IoResult{.kind = IoResult::Kind::kAgain};
      return real.Write(bytes);
    };
  }

  // Until the leader looks for a reply (again).
  bool AwaitRead() {
    return Await([this, before = hooks_.reads.load()] { return hooks_.reads > before; });
  }

  TransportHooks hooks_;
};

TEST_F(ChannelRaceTest, ALeaderThatSpinsWhileItsWriteIsBlockedSeesThatThereIsRoomAgain) {
  const auto channel = Hooked(absl::Seconds(1));
  BlockOneWrite();
  std::thread leader([&] { EXPECT_EQ(Echo(*channel, "first", In(absl::Seconds(5))), "first"); });
  EXPECT_TRUE(AwaitRead());
  EXPECT_EQ(Echo(*channel, "second", In(absl::Seconds(5))), "second");
  leader.join();
}

TEST_F(ChannelRaceTest, ALeaderThatSpinsForgetsAFollowersBytesWithTheFollower) {
  const auto channel = Hooked(absl::Seconds(1));
  BlockOneWrite();
  std::thread leader([&] { EXPECT_EQ(Echo(*channel, "first", In(absl::Seconds(5))), "first"); });
  EXPECT_TRUE(AwaitRead());
  (void)channel->Call({"ECHO", "impatient"}, In(absl::Milliseconds(1)));
  leader.join();
}

// Another's big command that waits to be sent costs those who give up no time.
TEST_F(ChannelRaceTest, ManyWhoGiveUpBehindABigUnsentCommandReturnInTime) {
  constexpr int kThreads = 64;
  proxy_.Hold(support::Direction::kToServer);
  const auto channel = Proxied({.open = redis::Hooked(hooks_)});
  const Command big_command{"ECHO", std::string(size_t{20} << 20, 'b')};
  std::thread big([&] { (void)channel->Call(big_command, In(absl::Milliseconds(800))); });
  EXPECT_TRUE(Await([&] { return hooks_.writes > 0; }));  // the handshake: its command waits
  const base::Instant deadline = In(absl::Milliseconds(500));
  Punctuality punctuality;
  InThreads(kThreads, [&](int thread) {
    const auto reply = channel->Call({"ECHO", std::to_string(thread)}, deadline);
    punctuality.Note(deadline);
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_FALSE(MayHaveExecuted(reply.status()));
  });
  EXPECT_TRUE(punctuality.Within(kGrace));
  big.join();
}

// Lets a write fail after so many bytes of it; those before it go out.
class BrokenWriteTest : public ChannelRaceTest {
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

  const std::unique_ptr<Channel> channel_ = Hooked(absl::ZeroDuration());
};

TEST_F(BrokenWriteTest, ACommandOfWhichNoByteWasWrittenGoesOnWithTheNextConnection) {
  BreakNextWriteAfter(0);
  EXPECT_EQ(Text(channel_->Call({"INCR", "counter"}, In(kPatience))), "1");
  EXPECT_EQ(channel_->stats().connects, 2);
  EXPECT_EQ(channel_->stats().breaks, 1);
}

TEST_F(BrokenWriteTest, ACommandWrittenInPartMayHaveExecuted) {
  BreakNextWriteAfter(5);
  const auto reply = channel_->Call({"INCR", "counter"}, In(kPatience));
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(reply.status()));
  EXPECT_EQ(Text(channel_->Call({"GET", "counter"}, In(kPatience))), "nil");
}

TEST_F(BrokenWriteTest, NoHalfOfABatchIsSentAgain) {
  std::vector<Command> commands;
  for (int i = 0; i < 3; ++i) commands.push_back({"INCR", "counter"});
  BreakNextWriteAfter(commands[0].bytes().size() + 3);
  std::vector<absl::StatusOr<Reply>> replies(commands.size());
  channel_->CallBatch(commands, In(kPatience), absl::MakeSpan(replies));
  for (const auto& reply : replies) {
    EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(MayHaveExecuted(reply.status()));
  }
  EXPECT_THAT(Text(channel_->Call({"GET", "counter"}, In(kPatience))),
              ::testing::AnyOf("nil", "\"1\""));
}

TEST_F(BrokenWriteTest, AForgottenCommandThatWasNotWrittenIsNotSentLater) {
  BreakNextWriteAfter(0);
  (void)channel_->Send({"INCR", "counter"});
  EXPECT_EQ(Echo(*channel_, "next"), "next");
  EXPECT_EQ(Text(channel_->Call({"GET", "counter"}, In(kPatience))), "nil");
}

// A follower writes while the leader finds the connection closed: the write succeeds, and its
// writer comes back to a connection that is no more.
class WriterComesBackLateTest : public ChannelRaceTest {
 protected:
  // Runs `meanwhile` where the leader waits for the writer. What the follower's INCR got.
  absl::StatusOr<Reply> Run(Channel& channel, const std::function<void()>& meanwhile) {
    std::atomic<bool> leader_waits{false};
    std::atomic<bool> written{false};
    std::atomic<bool> closed{false};
    hooks_.wait = [&](Transport& real, Transport::Interest interest, int wake, base::Instant at) {
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
    std::thread leader([&] { (void)channel.Call({"PING"}, In(kPatience)); });
    EXPECT_TRUE(Await([&] { return leader_waits.load(); }));
    absl::StatusOr<Reply> reply = channel.Call({"INCR", "counter"}, In(kPatience));
    leader.join();
    hooks_.wait = nullptr;
    hooks_.read = nullptr;
    hooks_.write = nullptr;
    return reply;
  }
};

TEST_F(WriterComesBackLateTest, WhatItWroteIsNotSentAgain) {
  const auto channel = Hooked(absl::ZeroDuration());
  const auto reply = Run(*channel, [] {});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(reply.status()));
  EXPECT_EQ(Text(channel->Call({"GET", "counter"}, In(kPatience))), "\"1\"");
}

TEST_F(WriterComesBackLateTest, AChildForkedMeanwhileCanDestroyTheChannel) {
  auto channel = Hooked(absl::ZeroDuration());
  (void)Run(*channel, [&] {
    const auto child = support::Child::Fork([&](support::LinePipe&) {
      channel.reset();
      return 0;
    });
    const auto ended = child->WaitFor(absl::Seconds(5));
    EXPECT_TRUE(ended.has_value() && ended->success());
  });
  EXPECT_EQ(Echo(*channel, "goes on"), "goes on");
}

}  // namespace
}  // namespace redlatch::redis
