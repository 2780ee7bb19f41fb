#include "src/redis/wire/slot.h"

#include "tests/support/testing.h"

namespace redlatch::redis {
namespace {

// As CLUSTER KEYSLOT answers.
TEST(Slot, IsWhatRedisSays) {
  EXPECT_EQ(SlotOf(""), 0);
  EXPECT_EQ(SlotOf("foo"), 12182);
  EXPECT_EQ(SlotOf("123456789"), 12739);
  EXPECT_EQ(SlotOf("\xFF\x80 b"), SlotOf("{\xFF\x80 b}"));
}

TEST(Slot, IsThatOfTheHashTag) {
  EXPECT_EQ(SlotOf("{foo}:bar"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{foo}"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{foo}{bar}"), SlotOf("foo"));
  EXPECT_EQ(SlotOf("a{{foo}}"), SlotOf("{foo"));
  EXPECT_EQ(SlotOf("redlatch:2:{foo}:simple.queue"), SlotOf("foo"));
  // None of these has one.
  EXPECT_NE(SlotOf("{}foo"), SlotOf("foo"));
  EXPECT_NE(SlotOf("{foo"), SlotOf("foo"));
}

TEST(Slot, EachHasATagOfItsOwn) {
  std::set<std::string> tags;
  for (int slot = 0; slot < kSlots; ++slot) {
    const std::string tag = TagOf(static_cast<Slot>(slot));
    ASSERT_EQ(SlotOf(tag), slot) << tag;
    EXPECT_LE(tag.size(), 7) << tag;
    EXPECT_TRUE(tags.insert(tag).second);
  }
  // Clients of different ages speak with each other.
  EXPECT_EQ(TagOf(0), TagOf(0));
}

}  // namespace
}  // namespace redlatch::redis
