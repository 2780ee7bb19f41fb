// The commands that docs/operations.md tells an administrator to permit are those that scripts
// call.
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "src/redis/connect/needs.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

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
  std::set<std::string> called;
  for (const auto& file : std::filesystem::recursive_directory_iterator(sources / "lua")) {
    if (file.path().extension() == ".lua") {
      called.merge(Find(Contents(file.path()), std::regex(R"(call\('([A-Z]+)')")));
    }
  }
  ASSERT_THAT(called, ::testing::Contains("time"));
  for (const std::string& command : called) {
    EXPECT_THAT(permitted, ::testing::Contains(command));
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
