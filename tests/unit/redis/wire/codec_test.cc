#include "src/redis/wire/codec.h"

#include "src/redis/wire/reply_parser.h"
#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

TEST(CommandTest, EncodesEmptyArguments) {
  EXPECT_EQ(Command({"ECHO", ""}).bytes(), "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
  EXPECT_EQ(Command({"ECHO", std::string_view()}).bytes(), "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n");
  EXPECT_EQ(Command({std::string_view()}).bytes(), "*1\r\n$0\r\n\r\n");
  EXPECT_EQ(Command(absl::Span<const std::string_view>()).bytes(), "*0\r\n");
}

TEST(CommandTest, IsDecodedAsEncoded) {
  std::vector<std::string> args;
  for (size_t size = 0; size < 300; ++size) args.push_back(std::string(size, '\r'));
  args.push_back(std::string(1 << 20, '\n'));
  const Command command(std::vector<std::string_view>(args.begin(), args.end()));
  std::vector<Reply> replies;
  const absl::Status parsed = ReplyParser().Take(command.bytes(), replies);
  ASSERT_EQ(replies.size(), 1) << parsed;
  std::vector<std::string> read;
  for (const Reply& each : replies[0].elements) read.push_back(each.text);
  EXPECT_TRUE(read == args);
}

using Type = Reply::Type;

TEST(ReplyTest, DebugStringIsPrintable) {
  const Reply reply = {.type = Type::kString, .text = std::string("a\"b\\c\n\0\x7f\xff", 9)};
  EXPECT_EQ(reply.DebugString(), R"("a\"b\\c\n\x00\x7f\xff")");
}

TEST(ReplyTest, DebugStringIsCutIfLong) {
  const Reply text = {.type = Type::kString, .text = std::string(81, 'a')};
  EXPECT_EQ(text.DebugString(), "\"" + std::string(80, 'a') + "...\"");
  const Reply array = {.type = Type::kArray, .elements = std::vector<Reply>(9)};
  EXPECT_EQ(array.DebugString(), "[nil, nil, nil, nil, nil, nil, nil, nil, ...]");
  Reply reply = {.type = Type::kString, .text = std::string(80, 'a')};
  for (int depth = 0; depth < 5; ++depth) {
    reply = {.type = Type::kArray, .elements = std::vector<Reply>(8, reply)};
  }
  EXPECT_LT(reply.DebugString().size(), 2000);
}

// CLUSTER KEYSLOT gave these slots.
TEST(Slot, AgreesWithRedis) {
  EXPECT_EQ(SlotOf(""), 0);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("123456789"), 12739);
  EXPECT_EQ(SlotOf("\xFF\x80 b"), SlotOf("{\xFF\x80 b}"));
}

TEST(Slot, UsesHashTag) {
  EXPECT_EQ(SlotOf("{foo}:bar"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{foo}"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{foo}{bar}"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{{foo}}"), SlotOf("{foo"));
  EXPECT_EQ(SlotOf("redlatch:2:{foo}:simple.queue"), SlotOf("foo"));
  // None of these has a hash tag.
  EXPECT_NE(SlotOf("{}foo"), SlotOf("foo"));
  EXPECT_NE(SlotOf("{foo"), SlotOf("foo"));
}

TEST(Slot, EachHasItsOwnTag) {
  std::set<std::string> tags;
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::string tag = TagOf(static_cast<Slot>(slot));
    ASSERT_EQ(SlotOf(tag), slot) << tag;
    EXPECT_LE(tag.size(), 7) << tag;
    EXPECT_TRUE(tags.insert(tag).second);
  }
  // Clients of different versions must agree on the tags.
  EXPECT_EQ(TagOf(0), TagOf(0));
}

}  // namespace
}  // namespace redlatch::redis
