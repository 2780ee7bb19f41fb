// What the default Observer writes.
#include "redlatch/observer.h"

#include "tests/support/testing.h"

namespace redlatch {
namespace {

TEST(ObserverTest, LineOfALossEscapesNameAndReason) {
  ::testing::internal::CaptureStderr();
  Observer().OnLost({.lock = "é\"\n\x1b[2J", .server = "redis://h:1", .reason = "why\a\nnot"});
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line,
              HasSubstr(R"(lost the hold on "é\"\x0a\x1b[2J" at redis://h:1: why\x07\x0anot)"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace redlatch
