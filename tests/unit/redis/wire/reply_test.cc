#include "src/redis/wire/reply.h"

#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

using Type = Reply::Type;

TEST(ReplyTest, DebugStringIsPrintable) {
  const Reply reply = {.type = Type::kString, .text = std::string("a\"b\\c\n\0\x7f\xff", 9)};
  EXPECT_EQ(reply.DebugString(), R"("a\"b\\c\x0a\x00\x7f\xff")");
}

TEST(ReplyTest, DebugStringIsCutWhereItGetsLong) {
  const Reply text = {.type = Type::kString, .text = std::string(81, 'a')};
  EXPECT_EQ(text.DebugString(), "\"" + std::string(80, 'a') + "...\"");
  const Reply array = {.type = Type::kArray, .elements = std::vector<Reply>(9)};
  EXPECT_EQ(array.DebugString(), "[nil, nil, nil, nil, nil, nil, nil, nil, ...]");
}

TEST(ReplyTest, DebugStringOfADeepReplyStaysShort) {
  Reply reply = {.type = Type::kString, .text = std::string(80, 'a')};
  for (int depth = 0; depth < 5; ++depth) {
    reply = {.type = Type::kArray, .elements = std::vector<Reply>(8, reply)};
  }
  EXPECT_LT(reply.DebugString().size(), 2000);
}

}  // namespace
}  // namespace redlatch::redis
