// Calls in two parts: Begin() sends; Finish() waits, or Leave() lets others read the answer.
#include <gmock/gmock.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/redis/link/pipeline.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"

namespace redlatch::redis {
namespace {

// A call that has been begun, or not.
class Begun {
 public:
  Begun(SharedConnection& connection, const Command& command) {
    exchange_.results = absl::MakeSpan(&reply_, 1);
    status_ = connection.Begin(absl::MakeConstSpan(&command, 1), exchange_);
  }
  const absl::Status& status() const { return status_; }
  const absl::StatusOr<Reply>& Finish(base::Instant deadline = In(kPatience)) {
    SharedConnection::Finish(exchange_, deadline);
    return reply_;
  }
  bool Leave(std::function<void()> done) {
    return SharedConnection::Leave(exchange_, std::move(done));
  }
  const absl::StatusOr<Reply>& reply() const { return reply_; }

 private:
  absl::StatusOr<Reply> reply_;
  Exchange exchange_;
  absl::Status status_;
};

using SharedConnectionBeginTest = ChannelFixture;

TEST_F(SharedConnectionBeginTest, FinishWaitsForTheAnswer) {
  const auto connection = Connected(Direct());
  Begun call(*connection, {"DEBUG", "SLEEP", "0.05"});
  ASSERT_TRUE(call.status().ok());
  EXPECT_EQ(Text(call.Finish()), "OK");
  EXPECT_EQ(Echo(*connection, "goes on"), "goes on");
}

TEST_F(SharedConnectionBeginTest, AnotherCallBringsTheAnswerWhichComesBeforeItsOwn) {
  const auto connection = Connected(Direct());
  Begun call(*connection, {"INCR", "counter"});
  ASSERT_TRUE(call.status().ok());
  EXPECT_EQ(Text(connection->Call({"GET", "counter"}, In(kPatience))), "\"1\"");
  EXPECT_EQ(Text(call.Finish(base::Now())), "1") << "it is there, so that no time is needed";
}

TEST_F(SharedConnectionBeginTest, ManyMayBeBegunAndAreFinishedInAnyOrder) {
  const auto connection = Connected(Direct());
  Begun first(*connection, {"INCR", "counter"});
  Begun second(*connection, {"INCR", "counter"});
  Begun third(*connection, {"INCR", "counter"});
  EXPECT_EQ(Text(second.Finish()), "2");
  EXPECT_EQ(Text(third.Finish()), "3");
  EXPECT_EQ(Text(first.Finish()), "1");
}

// Nobody could wake a thread that is elsewhere to read for the others.
TEST_F(SharedConnectionBeginTest, WhoeverIsAwayKeepsNobodyFromReading) {
  const auto connection = Connected(Direct());
  Begun away(*connection, {"DEBUG", "SLEEP", "0.05"});
  ASSERT_TRUE(away.status().ok());
  InThreads(4, [&](int i) {
    for (int k = 0; k < 50; ++k) {
      const std::string text = absl::StrCat(i, " ", k);
      EXPECT_EQ(Echo(*connection, text), text);
    }
  });
  EXPECT_EQ(Text(away.Finish(base::Now())), "OK");
}

TEST_F(SharedConnectionBeginTest, ALostConnectionIsSaidToBe) {
  const auto connection = Connected(Proxied());
  server_->Stop();
  Begun call(*connection, {"INCR", "counter"});
  ASSERT_TRUE(call.status().ok());
  proxy_.ResetAll();
  const absl::StatusOr<Reply>& answer = call.Finish();
  server_->Continue();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(answer.status())) << answer.status();
  EXPECT_EQ(Echo(*connection, "goes on"), "goes on");
}

TEST_F(SharedConnectionBeginTest, ADeadlineEndsIt) {
  const auto connection = Connected(Direct());
  server_->Stop();
  Begun call(*connection, {"INCR", "counter"});
  ASSERT_TRUE(call.status().ok());
  const base::Instant deadline = In(absl::Milliseconds(50));
  const absl::StatusOr<Reply>& answer = call.Finish(deadline);
  EXPECT_GE(base::Now(), deadline);
  server_->Continue();
  EXPECT_TRUE(MayHaveExecuted(answer.status())) << answer.status();
  EXPECT_EQ(Echo(*connection, "not the late answer"), "not the late answer");
}

TEST_F(SharedConnectionBeginTest, WhatIsNotSentYetGoesOverTheNextConnection) {
  const auto connection = Connected(Proxied());
  server_->Stop();
  Begun sent(*connection, {"INCR", "counter"});
  connection->MakeAnew("a test wants it");
  Begun unsent(*connection, {"ECHO", "over the next"});
  ASSERT_TRUE(unsent.status().ok());
  proxy_.ResetAll();
  server_->Continue();
  EXPECT_TRUE(MayHaveExecuted(sent.Finish().status()));
  EXPECT_EQ(Text(unsent.Finish()), "\"over the next\"");
  EXPECT_EQ(connection->stats().connects, 2);
}

TEST_F(SharedConnectionBeginTest, NothingBeginsWithoutAConnection) {
  const auto connection = Direct();
  const Begun call(*connection, {"ECHO", "nobody hears"});
  EXPECT_EQ(call.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Echo(*connection, "it is made by calls"), "it is made by calls");
}

TEST_F(SharedConnectionBeginTest, WhatIsLeftIsReadByTheNextCall) {
  const auto connection = Connected(Direct());
  Begun call(*connection, {"INCR", "counter"});
  bool answered = false;
  ASSERT_TRUE(call.Leave([&] { answered = true; }));
  EXPECT_FALSE(answered) << "nobody has read";
  EXPECT_EQ(Echo(*connection, "the next"), "the next");
  EXPECT_TRUE(answered);
  EXPECT_EQ(Text(call.reply()), "1");
}

TEST_F(SharedConnectionBeginTest, WhatIsLeftIsReadByADrain) {
  const auto connection = Connected(Direct());
  Begun call(*connection, {"DEBUG", "SLEEP", "0.02"});
  bool answered = false;
  ASSERT_TRUE(call.Leave([&] { answered = true; }));
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  EXPECT_TRUE(answered);
  EXPECT_EQ(Text(call.reply()), "OK");
}

TEST_F(SharedConnectionBeginTest, AnAnswerThatIsThereIsNotLeft) {
  const auto connection = Connected(Direct());
  Begun call(*connection, {"INCR", "counter"});
  EXPECT_EQ(Echo(*connection, "brings it"), "brings it");
  EXPECT_FALSE(call.Leave([] { ADD_FAILURE() << "it is whoever began it that has the answer"; }));
  EXPECT_EQ(Text(call.reply()), "1");
}

TEST_F(SharedConnectionBeginTest, WhatIsLeftIsToldThatTheConnectionIsLost) {
  const auto connection = Connected(Proxied());
  server_->Stop();
  Begun call(*connection, {"INCR", "counter"});
  bool answered = false;
  ASSERT_TRUE(call.Leave([&] { answered = true; }));
  proxy_.ResetAll();
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  server_->Continue();
  EXPECT_TRUE(answered);
  EXPECT_TRUE(MayHaveExecuted(call.reply().status())) << call.reply().status();
}

TEST_F(SharedConnectionBeginTest, WhatIsLeftIsToldThatTheConnectionIsClosed) {
  auto connection = Connected(Direct());
  server_->Stop();
  Begun call(*connection, {"INCR", "counter"});
  bool answered = false;
  ASSERT_TRUE(call.Leave([&] { answered = true; }));
  connection.reset();
  server_->Continue();
  EXPECT_TRUE(answered);
  EXPECT_TRUE(MayHaveExecuted(call.reply().status())) << call.reply().status();
}

// Whoever reads has the answer, or is told that it is there; never both, and never neither.
TEST_F(SharedConnectionBeginTest, EachAnswerIsToldOnceThoughManyLeaveAndRead) {
  const auto connection = Connected(Direct());
  std::atomic<int> told{0};
  std::atomic<int> left{0};
  std::atomic<int> wrong{0};
  InThreads(8, [&](int i) {
    std::deque<Begun> calls;  // they live until all is read
    for (int k = 0; k < 300; ++k) {
      const std::string mine = absl::StrCat(i, " ", k);
      Begun& call = calls.emplace_back(*connection, Command{"ECHO", mine});
      if (k % 4 == 0 && Echo(*connection, "between") != "between") ++wrong;
      const bool leaves = call.Leave([&told, &wrong, &call, mine] {
        if (Text(call.reply()) != absl::StrCat("\"", mine, "\"")) ++wrong;
        ++told;
      });
      if (leaves) ++left;
      if (!leaves && Text(call.reply()) != absl::StrCat("\"", mine, "\"")) ++wrong;
    }
    while (!connection->Drain(In(kPatience))) std::this_thread::yield();
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(told, left);
  EXPECT_GT(left, 0);
}

TEST_F(SharedConnectionBeginTest, EachOfManyThreadsGetsItsOwnAnswers) {
  const auto connection = Connected(Direct());
  std::atomic<int> wrong{0};
  InThreads(8, [&](int i) {
    for (int k = 0; k < 500; ++k) {
      const std::string mine = absl::StrCat(i, " ", k);
      Begun call(*connection, {"ECHO", mine});
      if (!call.status().ok()) {
        ++wrong;
        continue;
      }
      if (k % 3 == 0 && Echo(*connection, "between") != "between") ++wrong;
      if (Text(call.Finish()) != absl::StrCat("\"", mine, "\"")) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace redlatch::redis
