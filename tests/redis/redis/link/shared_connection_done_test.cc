// Commands whose answer is given to a function.
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/redis/redis/link/shared_connection_fixture.h"

namespace redlatch::redis {
namespace {

class SharedConnectionDoneTest : public ChannelFixture {
 protected:
  // Keeps the answers in the order in which they came.
  SharedConnection::Done Keep() {
    return [this](absl::StatusOr<Reply> answer) { answers_.push_back(std::move(answer)); };
  }

  std::vector<absl::StatusOr<Reply>> answers_;
};

TEST_F(SharedConnectionDoneTest, DrainBringsTheAnswers) {
  const auto connection = Connected(Direct());
  for (int i = 1; i <= 100; ++i) {
    ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  }
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  ASSERT_EQ(answers_.size(), 100);
  for (int i = 1; i <= 100; ++i) EXPECT_EQ(Text(answers_[i - 1]), absl::StrCat(i));
  EXPECT_TRUE(connection->Drain(In(kPatience))) << "there is nothing to come";
}

TEST_F(SharedConnectionDoneTest, TheNextCallBringsTheAnswerWhichComesBeforeItsOwn) {
  const auto connection = Connected(Direct());
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  EXPECT_EQ(Text(connection->Call({"GET", "counter"}, In(kPatience))), "\"1\"");
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_EQ(Text(answers_[0]), "1");
}

TEST_F(SharedConnectionDoneTest, AnErrorReplyIsAnAnswer) {
  const auto connection = Connected(Direct());
  ASSERT_TRUE(connection->Send({"INCR"}, Keep()).ok());
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  ASSERT_EQ(answers_.size(), 1);
  ASSERT_TRUE(answers_[0].ok());
  EXPECT_TRUE(answers_[0]->is_error());
}

TEST_F(SharedConnectionDoneTest, IsToldWhenTheConnectionIsLost) {
  const auto connection = Connected(Proxied());
  server_->Stop();
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  proxy_.ResetAll();
  EXPECT_TRUE(connection->Drain(In(kPatience))) << "nothing is to come";
  server_->Continue();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_EQ(answers_[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(MayHaveExecuted(answers_[0].status()));
}

TEST_F(SharedConnectionDoneTest, WhatWasSentIsAnsweredThoughTheConnectionIsToBeMadeAnew) {
  const auto connection = Connected(Direct());
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  connection->MakeAnew("a test wants it");
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_EQ(Text(answers_[0]), "1");
  EXPECT_EQ(Echo(*connection, "goes on"), "goes on");
  EXPECT_EQ(connection->stats().connects, 2);
}

// What comes after MakeAnew() waits for the next connection, and with it nobody waits for that.
TEST_F(SharedConnectionDoneTest, WhatWasNotSentIsSaidNotToHaveBeen) {
  const auto connection = Connected(Proxied());
  server_->Stop();
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  connection->MakeAnew("a test wants it");
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  proxy_.ResetAll();
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  server_->Continue();
  ASSERT_EQ(answers_.size(), 2);
  EXPECT_TRUE(MayHaveExecuted(answers_[0].status())) << answers_[0].status();
  EXPECT_EQ(answers_[1].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(MayHaveExecuted(answers_[1].status())) << answers_[1].status();
  EXPECT_THAT(std::string(answers_[1].status().message()), ::testing::HasSubstr("was not sent"));
}

TEST_F(SharedConnectionDoneTest, IsNotCalledWhereNothingCouldBeSent) {
  const auto connection = Direct();
  EXPECT_EQ(connection->Send({"INCR", "counter"}, Keep()).code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(connection->Drain(In(kPatience)));
  EXPECT_TRUE(answers_.empty());
}

TEST_F(SharedConnectionDoneTest, IsToldWhenTheConnectionGoes) {
  auto connection = Connected(Direct());
  server_->Stop();
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  connection.reset();
  server_->Continue();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_TRUE(MayHaveExecuted(answers_[0].status()));
}

TEST_F(SharedConnectionDoneTest, DrainEndsInTimeAndGivesAStalledConnectionUp) {
  const auto connection = Connected(Direct({.stall_timeout = absl::Milliseconds(200)}));
  server_->Stop();
  ASSERT_TRUE(connection->Send({"INCR", "counter"}, Keep()).ok());
  const base::Instant until = In(absl::Milliseconds(50));
  EXPECT_FALSE(connection->Drain(until));
  EXPECT_LT(base::Now(), until + kGrace);
  EXPECT_TRUE(answers_.empty()) << "it may only be slow";
  EXPECT_TRUE(connection->Drain(In(absl::Milliseconds(250))));
  server_->Continue();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_EQ(answers_[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Echo(*connection, "goes on"), "goes on");
}

// Whoever drains lets those lead who wait themselves.
TEST_F(SharedConnectionDoneTest, EachIsCalledOnceAmongThreadsThatCallDrainAndLoseTheConnection) {
  constexpr int kThreads = 4;
  const int each = kSanitized ? 300 : 3000;
  const auto connection = Connected(Proxied());
  std::atomic<int> sent{0};
  std::atomic<int> told{0};
  std::atomic<int> twice{0};
  InThreads(kThreads, [&](int thread) {
    for (int i = 0; i < each; ++i) {
      const auto calls = std::make_shared<std::atomic<int>>(0);
      const auto done = [&, calls](const absl::StatusOr<Reply>&) {
        ++told;
        if (calls->fetch_add(1) > 0) ++twice;
      };
      if (connection->Send({"INCR", "counter"}, done).ok()) ++sent;
      if (i % 7 == thread) {
        const auto reply = connection->Call({"ECHO", "x"}, In(kPatience));
        EXPECT_TRUE(!reply.ok() || reply->text == "x") << "that is another's";
      }
      if (i % 5 == thread) connection->Drain(In(absl::Milliseconds(1)));
      if (thread == 0 && i % 100 == 99) proxy_.ResetAll();
    }
  });
  EXPECT_TRUE(Await([&] { return connection->Drain(In(absl::Milliseconds(10))); }));
  EXPECT_EQ(told, sent);
  EXPECT_GT(sent, 0);
  EXPECT_EQ(twice, 0);
}

}  // namespace
}  // namespace redlatch::redis
