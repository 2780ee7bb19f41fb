#include "src/engine/protocol/plan.h"

#include "lua/scripts.h"
#include "src/base/sha1.h"
#include "tests/support/testing.h"

namespace redlatch::engine {
namespace {

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

TEST(Plan, OfSeveralNamesIsApartFromThatOfOneAndOfOthers) {
  const Plan one{.keys = KeyNames("simple")};
  Plan two = one;
  two.others = {KeySet("b"), KeySet("c")};
  Plan three = one;
  three.others = {KeySet("b1:c")};
  EXPECT_TRUE(one.ApartFrom(two));
  EXPECT_TRUE(two.ApartFrom(three));
  EXPECT_FALSE(two.ApartFrom(two));
  EXPECT_FALSE(two.ApartFrom({.keys = KeyNames("reentrant")})) << "which a client may not mix";
  EXPECT_FALSE((*Complete(two)).SameAs(one));
  EXPECT_EQ(one.OthersId(), "");
  EXPECT_NE(two.OthersId(), three.OthersId());
}

TEST(Plan, IsTheSameByScriptsTraitsKeysAndArguments) {
  const Plan plan{.scripts = {.acquire = {.body = "a"}}, .traits = {.kind = "k"}};
  const Plan complete = *Complete(plan);
  EXPECT_TRUE(complete.SameAs(plan));
  Plan other = plan;
  other.scripts.cancel.body = "c";
  EXPECT_FALSE(complete.SameAs(other));
  other = plan;
  other.traits.reentrant = true;
  EXPECT_FALSE(complete.SameAs(other));
  other = plan;
  other.keys.extras = {"x.more"};
  EXPECT_FALSE(complete.SameAs(other));
  other = plan;
  other.extra_args = {"7"};
  EXPECT_FALSE(complete.SameAs(other));
}

TEST(Plan, AUsersScriptIsAssembledAndComparedAsTold) {
  const Plan told{
      .scripts = {.acquire = {.name = "my/acquire", .body = "-- include: simple/acquire\n"}}};
  const Plan plan = *Complete(told);
  EXPECT_EQ(plan.scripts.acquire.body.find("-- include"), std::string_view::npos);
  EXPECT_EQ(plan.scripts.acquire.sha1, base::Sha1Hex(plan.scripts.acquire.body));
  EXPECT_TRUE(plan.SameAs(told));
  Plan broken = told;
  broken.scripts.renew.body = "-- include: common/nowhere\n";
  EXPECT_TRUE(absl::IsInvalidArgument(Complete(broken).status()));
}

}  // namespace
}  // namespace redlatch::engine
