#include "src/base/sha1.h"

#include "lua/scripts.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

TEST(Sha1, KnownDigests) {
  EXPECT_EQ(Sha1Hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(Sha1Hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(Sha1Hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(Sha1Hex(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST(Sha1, LengthsAroundABlocksEnd) {
  // From the reference implementation, for 55, 56, 63, 64 and 65 times 'x'.
  EXPECT_EQ(Sha1Hex(std::string(55, 'x')), "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
  EXPECT_EQ(Sha1Hex(std::string(56, 'x')), "901305367c259952f4e7af8323f480d59f81335b");
  EXPECT_EQ(Sha1Hex(std::string(63, 'x')), "0ddc4e0cccd9a12850deb5abb0853a4425559fec");
  EXPECT_EQ(Sha1Hex(std::string(64, 'x')), "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163");
  EXPECT_EQ(Sha1Hex(std::string(65, 'x')), "78c741ddc482e4cdf8c474a0876347a0905b6233");
}

TEST(Sha1, AgreesWithTheBuildOnEveryScript) {
  for (const LuaScript& script : lua::kAll) {
    EXPECT_EQ(Sha1Hex(script.body), script.sha1) << script.name;
  }
}

}  // namespace
}  // namespace redlatch::base
