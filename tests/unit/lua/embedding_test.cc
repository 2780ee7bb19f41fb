// The scripts of tests/lua_embedding/good, embedded as those of lua/ are. That what is broken
// fails the build is tested in tests/CMakeLists.txt.

#include "lua_fixture/scripts.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

// Each include once, where it is first asked for; every other byte as it stands in the file.
constexpr std::string_view kQuotingOfAll = R"expected(local inner = [==[a;b;;c]]d]==]
local outer = inner .. "\\;"
local t = { [ [[;]] ] = ';', ["x;y"] = "\"${CMAKE_VERSION}@CMAKE_VERSION@\\n\065" }
-- A backslash at the end \
-- [[ unbalanced, ]] [ ] and # $ENV{HOME} %d 'é' )" )lua"

return { inner, outer, t[';'], t["x;y"], [[
]] }
)expected";

TEST(LuaEmbedding, ResolvesIncludesAndKeepsEveryOtherByte) {
  EXPECT_EQ(lua_fixture::kAwkwardQuotingOfAll.body, kQuotingOfAll);
  EXPECT_EQ(lua_fixture::kAwkwardNoFinalNewline.body, "return 1");
}

// The digests are sha1sum's.
TEST(LuaEmbedding, DigestIsSha1OfBody) {
  EXPECT_EQ(lua_fixture::kAwkwardQuotingOfAll.sha1, "e88b568d22a521fc751767403bbbd42023b95228");
  EXPECT_EQ(lua_fixture::kAwkwardNoFinalNewline.sha1, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}

TEST(LuaEmbedding, ListsEveryScriptButTheIncluded) {
  ASSERT_EQ(std::size(lua_fixture::kAll), 2U);
  EXPECT_EQ(lua_fixture::kAll[0].name, "awkward/no_final_newline");
  EXPECT_EQ(lua_fixture::kAll[1].name, "awkward/quoting_of_all");
  for (const LuaScript& script : lua_fixture::kAll) {
    EXPECT_THAT(script.body, Not(HasSubstr("-- include:"))) << script.name;
  }
}

}  // namespace
}  // namespace redlatch
