#include "src/engine/protocol/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_split.h"
#include "lua/scripts.h"

namespace redlatch::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Assemble, AScriptWithoutIncludesIsLeftAsItIs) {
  for (const std::string script : {"return 1", "return 1\n", "", "\n\n", "--include: x\n"}) {
    EXPECT_EQ(*Assemble(script), script);
  }
}

TEST(Assemble, APieceBringsWhatItNeedsOnceAndInOrder) {
  const std::string script = *Assemble(
      "local function take() end\n-- include: common/settle\n-- include: common/queue\nreturn 1");
  EXPECT_THAT(script, Not(HasSubstr("-- include")));
  const auto count = [&](const std::string& text) {
    return std::vector<absl::string_view>(absl::StrSplit(script, text)).size() - 1;
  };
  EXPECT_EQ(count("local function find_place("), 1U);
  EXPECT_EQ(count("local function settle("), 1U);
  EXPECT_LT(script.find("local function choose("), script.find("local function settle("));
  EXPECT_TRUE(script.ends_with("\nreturn 1"));
}

TEST(Assemble, AWholeScriptIsAPieceToo) {
  EXPECT_EQ(*Assemble("-- include: simple/renew\n"), lua::kSimpleRenew.body);
  EXPECT_EQ(*Assemble("-- include: reentrant/release\r\n"), lua::kReentrantRelease.body);
}

TEST(Assemble, APieceThatThereIsNotIsNamed) {
  const auto script = Assemble("-- include: common/tmie\n");
  EXPECT_TRUE(absl::IsInvalidArgument(script.status()));
  EXPECT_THAT(script.status().message(), HasSubstr("\"common/tmie\""));
}

}  // namespace
}  // namespace redlatch::engine
