// Calls in two parts: Begin() sends; Finish() waits, or Leave() lets others read the answer.
#include <gmock/gmock.h>

#include <atomic>
#include <deque>
#include <functional>
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

TEST_F(SharedConnectionBeginTest, ManyMayBeBegunAndAreFinishedInAnyOrder) {
  const auto connection = Connected(Direct());
  Begun first(*connection, {"INCR", "counter"});
  Begun second(*connection, {"INCR", "counter"});
  Begun third(*connection, {"INCR", "counter"});
  EXPECT_EQ(Text(second.Finish()), "2");
  EXPECT_EQ(Text(third.Finish()), "3");
  EXPECT_EQ(Text(first.Finish()), "1");
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
