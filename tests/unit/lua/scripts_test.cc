// The scripts of tests/lua_embedding/good, embedded as those of lua/ are. That what is broken
// fails the build is tested in tests/CMakeLists.txt.
#include "lua_fixture/scripts.h"

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "src/redis/connect/handshake.h"
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

// The commands that docs/operations.md tells an administrator to permit are those that scripts
// call.

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// All that the first group of the pattern finds, in lower case.
std::set<std::string> Find(const std::string& text, const std::regex& pattern) {
  std::set<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), pattern); at != std::sregex_iterator();
       ++at) {
    found.insert(absl::AsciiStrToLower((*at)[1].str()));
  }
  return found;
}

TEST(PermissionsDoc, NamesEveryCommandThatAScriptCalls) {
  const std::filesystem::path sources = REDLATCH_SOURCES;
  const std::set<std::string> permitted =
      Find(Contents(sources / "docs/operations.md"), std::regex(R"(\+([a-z]+))"));
  ASSERT_THAT(permitted, ::testing::Contains("evalsha"));
  std::set<std::string> called, by_redissons;
  for (const auto& file : std::filesystem::recursive_directory_iterator(sources / "lua")) {
    if (file.path().extension() == ".lua") {
      const bool redissons = file.path().string().find("/lua/redisson") != std::string::npos;
      (redissons ? by_redissons : called)
          .merge(Find(Contents(file.path()), std::regex(R"(call\('([A-Z]+)')")));
    }
  }
  ASSERT_THAT(called, ::testing::Contains("time"));
  ASSERT_THAT(by_redissons, ::testing::Contains("zremrangebyrank"));
  for (const auto& commands : {called, by_redissons}) {
    EXPECT_THAT(permitted, ::testing::IsSupersetOf(commands));
  }
  called.erase("info");  // of a quarantine alone, which is refused without
  // What each connection asks for is just that, and what needs no script.
  const std::set<std::string> asked =
      Find(absl::StrJoin(redis::NeededCommands(), " "), std::regex("([a-z]+)[^ ]*"));
  called.insert({"eval", "evalsha", "ping", "subscribe", "unsubscribe"});
  EXPECT_EQ(asked, called);
}

}  // namespace
}  // namespace redlatch
