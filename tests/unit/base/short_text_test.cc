#include "src/base/short_text.h"

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

using Text = ShortText<8>;

Text Of(std::string_view text) {
  Text made;
  made.append(text);
  return made;
}

TEST(ShortText, GrowsFromNothingBeyondWhatItHasRoomFor) {
  Text text;
  std::string same;
  EXPECT_EQ(text.view(), "");
  for (int i = 0; i < 100; ++i) {
    const std::string piece(static_cast<size_t>(i % 5), static_cast<char>('a' + i % 26));
    text.append(piece);
    same.append(piece);
    ASSERT_EQ(text.view(), same);
    ASSERT_EQ(text.size(), same.size());
  }
}

TEST(ShortText, IsWrittenInPlaceAndCut) {
  for (const size_t most : {size_t{5}, size_t{50}}) {
    Text text = Of("ab");
    std::memcpy(text.Extend(most), "cde", 3);
    text.Truncate(5);
    text.append("f");
    EXPECT_EQ(text.view(), "abcdef");
  }
}

TEST(ShortText, IsCopiedAndMovedShortOrLong) {
  for (const std::string_view content : {"short", "longer than it has room for"}) {
    const Text text = Of(content);
    Text copy = text;
    EXPECT_EQ(copy.view(), content);
    Text moved = std::move(copy);
    EXPECT_EQ(moved.view(), content);
    copy = Of("again");
    EXPECT_EQ(copy.view(), "again");
    copy = text;
    EXPECT_EQ(copy.view(), content);
    copy = std::move(moved);
    copy.append("!");
    EXPECT_EQ(copy.view(), std::string(content) + "!");
    EXPECT_EQ(text.view(), content);
  }
}

}  // namespace
}  // namespace redlatch::base
