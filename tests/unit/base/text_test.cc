#include "absl/strings/cord.h"
#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "src/base/short_text.h"
#include "src/base/status.h"
#include "src/base/utf8.h"
#include "src/redis/wire/errors.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

void ExpectCharacter(std::string_view bytes, uint32_t code, size_t size) {
  EXPECT_EQ(FirstCharacter(bytes).code, code) << bytes;
  EXPECT_EQ(FirstCharacter(bytes).size, size) << bytes;
}

TEST(Utf8, ReadsCharactersOfEachSize) {
  ExpectCharacter(std::string_view("\0", 1), 0, 1);
  ExpectCharacter("\x7f", 0x7f, 1);
  ExpectCharacter("\xc2\x80", 0x80, 2);
  ExpectCharacter("\xdf\xbf", 0x7ff, 2);
  ExpectCharacter("\xe0\xa0\x80", 0x800, 3);
  ExpectCharacter("\xef\xbf\xbf", 0xffff, 3);
  ExpectCharacter("\xf0\x90\x80\x80", 0x10000, 4);
  ExpectCharacter("\xf4\x8f\xbf\xbf", 0x10ffff, 4);
  ExpectCharacter("\xe2\x82\xac\xff", 0x20ac, 3);  // only the first one
}

TEST(Utf8, RejectsInvalidBytes) {
  for (const std::string_view bytes :
       {// longer than need be
        "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf",
        // surrogate halves, and code points beyond the last
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        // cut off, or starting in the middle
        "\x80", "\xbf", "\xc2", "\xe2\x82", "\xf0\x9f\x94", "\xe2\x28\xa1", "\xff"}) {
    ExpectCharacter(bytes, 0, 0);
  }
}

TEST(Utf8, ShownTextHasNoControlCharacters) {
  EXPECT_EQ(Shown("a\x1b[2J\a\n\x7f\xff \xc3\xa9 \\"), "a\\x1b[2J\\x07\\x0a\\x7f\\xff \xc3\xa9 \\");
  EXPECT_EQ(Shown("\xc2\x9b \xe2\x80\xae"), "\\xc2\\x9b \\xe2\\x80\\xae")
      << "CSI, and a turn of direction";
  EXPECT_EQ(Printable("a\\\n"), "a\\\\\\x0a");
}

TEST(Utf8, QuotedNameKeepsLettersOfAnyLanguage) {
  EXPECT_EQ(Quoted("Auftr\xc3\xa4ge"), "\"Auftr\xc3\xa4ge\"");
  EXPECT_EQ(Quoted("a\"b\\c\x1b"), "\"a\\\"b\\\\c\\x1b\"");
}

TEST(Utf8, ShownTextIsShortAndStable) {
  EXPECT_EQ(Shown("0123456789", 10), "0123456789");
  EXPECT_EQ(Shown("0123456789a", 10), "0123456...");
  EXPECT_EQ(Shown("012345\xc3\xa9"
                  "789",
                  10),
            "012345...");
  for (const std::string& text : {std::string(1000, '\x1b'), std::string(1000, '\\'),
                                  std::string("a\x1b"), std::string(100, '\xc3')}) {
    const std::string shown = Shown(text, 50);
    EXPECT_LE(shown.size(), 50U);
    EXPECT_EQ(Shown(shown, 50), shown);
  }
}

using Text = ShortText<8>;

Text Of(std::string_view text) {
  Text made;
  made.append(text);
  return made;
}

TEST(ShortText, GrowsBeyondItsInlineSpace) {
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

TEST(Sha1, KnownDigests) {
  EXPECT_EQ(Sha1Hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Sha1Hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Sha1Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(Sha1Hex(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
  // Results of the reference implementation for 55, 56, 63, 64 and 65 times 'x'.
  EXPECT_EQ(Sha1Hex(std::string(55, 'x')), "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
  EXPECT_EQ(Sha1Hex(std::string(56, 'x')), "901305367c259952f4e7af8323f480d59f81335b");
  EXPECT_EQ(Sha1Hex(std::string(63, 'x')), "0ddc4e0cccd9a12850deb5abb0853a4425559fec");
  EXPECT_EQ(Sha1Hex(std::string(64, 'x')), "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163");
  EXPECT_EQ(Sha1Hex(std::string(65, 'x')), "78c741ddc482e4cdf8c474a0876347a0905b6233");
}

TEST(Sha1, AgreesWithBuildOnEveryScript) {
  for (const LuaScript& script : lua::kAll) {
    EXPECT_EQ(Sha1Hex(script.body), script.sha1) << script.name;
  }
}

TEST(StatusTest, UnsharedCopyIsEqualAndHasItsOwnText) {
  absl::Status status = absl::UnavailableError("the server is down");
  status.SetPayload("redlatch.example", absl::Cord("payload"));
  EXPECT_EQ(Unshared(status), status);
  EXPECT_NE(Unshared(status).message().data(), status.message().data());
  EXPECT_EQ(Unshared(absl::OkStatus()), absl::OkStatus());
  EXPECT_TRUE(redis::MayHaveExecuted(Unshared(redis::MarkMayHaveExecuted(status))));
}

}  // namespace
}  // namespace redlatch::base
