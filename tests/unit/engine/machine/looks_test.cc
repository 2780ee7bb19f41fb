#include "src/engine/machine/looks.h"

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/engine/machine/script_io.h"

namespace redlatch::engine {
namespace {

class LooksTest : public ::testing::Test {
 protected:
  static base::Instant At(int64_t millis) {
    return base::Instant::FromNanos(1'000'000'000) + absl::Milliseconds(millis);
  }
  void Add(int64_t due) {
    looks_.Add(At(due), [this] { return ++last_; });
  }
  void AddAtOnce(int64_t now, base::Instant then = base::Instant::Infinite()) {
    looks_.AddAtOnce(At(now), then, [this] { return ++last_; });
  }
  Send Fetch(int64_t at) {
    const std::optional<Send> send = looks_.Next(At(at));
    EXPECT_TRUE(send.has_value()) << at;
    return send.value_or(Send());
  }
  bool Hear(const Send& send, int64_t at, bool failed = false) {
    Answer answer{.what = Cancelled()};
    if (failed) answer = {.what = Failed{.why = absl::UnavailableError("silence")}};
    return looks_.OnAnswer(send, answer, At(at), [this] { return ++last_; });
  }

  Looks looks_;
  GrantId last_ = 0;
};

TEST_F(LooksTest, OneIsAskedWhenItIsDueAndIsOverWithItsAnswer) {
  EXPECT_TRUE(looks_.none());
  Add(10);
  EXPECT_EQ(looks_.due(), At(10));
  EXPECT_FALSE(looks_.Next(At(9)).has_value());
  const Send send = Fetch(10);
  EXPECT_TRUE(std::holds_alternative<ToCancel>(send.what));
  EXPECT_EQ(looks_.due(), base::Instant::Infinite()) << "it is in flight";
  EXPECT_TRUE(Hear(send, 11));
  EXPECT_TRUE(looks_.none());
  EXPECT_FALSE(Hear(send, 12)) << "that is somebody else's cancel";
}

TEST_F(LooksTest, OfThoseToComeTheLatestFollowsUnderANumberOfItsOwn) {
  Add(10);
  Add(30);
  Add(20);
  const Send first = Fetch(10);
  Hear(first, 11);
  EXPECT_EQ(looks_.due(), At(30));
  EXPECT_NE(Fetch(30).grant, first.grant);
}

TEST_F(LooksTest, OneAtOnceKeepsTheOthers) {
  Add(30);
  AddAtOnce(10, At(20));
  Hear(Fetch(10), 11);
  EXPECT_EQ(looks_.due(), At(20)) << "the sooner of those that it does not stand for";
}

TEST_F(LooksTest, OneThatFailsIsRepeatedAFewTimes) {
  Add(0);
  int64_t at = 0;
  int asked = 0;
  while (!looks_.none()) {
    at += 10'000;
    Hear(Fetch(at), at, /*failed=*/true);
    ++asked;
  }
  EXPECT_EQ(asked, 4);
}

}  // namespace
}  // namespace redlatch::engine
