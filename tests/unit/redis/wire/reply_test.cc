#include "src/redis/wire/reply.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace redlatch::redis {
namespace {

using Type = Reply::Type;

TEST(ReplyTest, IsNilUntilItIsSomething) {
  EXPECT_TRUE(Reply().is_nil());
  EXPECT_FALSE(Reply().is_error());
  EXPECT_FALSE(Reply().is_array());
  EXPECT_TRUE((Reply{.type = Type::kError, .text = "ERR"}).is_error());
  EXPECT_TRUE((Reply{.type = Type::kArray}).is_array());
}

TEST(ReplyTest, IsComparedByTypeAndValue) {
  const Reply string = {.type = Type::kString, .text = "OK"};
  const Reply status = {.type = Type::kStatus, .text = "OK"};
  EXPECT_EQ(string, string);
  EXPECT_NE(string, status);
  EXPECT_NE(Reply(), (Reply{.type = Type::kArray}));
  EXPECT_NE((Reply{.type = Type::kArray, .elements = {string}}),
            (Reply{.type = Type::kArray, .elements = {status}}));
}

TEST(ReplyTest, DebugStringShowsEveryType) {
  const Reply reply = {.type = Type::kArray,
                       .elements = {{.type = Type::kString, .text = "message"},
                                    {.type = Type::kInteger, .integer = -3},
                                    {},
                                    {.type = Type::kStatus, .text = "OK"},
                                    {.type = Type::kError, .text = "ERR no"},
                                    {.type = Type::kArray}}};
  EXPECT_EQ(reply.DebugString(), "[\"message\", -3, nil, OK, error ERR no, []]");
}

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
