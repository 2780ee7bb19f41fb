#include "src/engine/protocol/plan.h"

#include "gtest/gtest.h"
#include "src/base/sha1.h"

namespace redlatch::engine {
namespace {

TEST(Plan, DigestsThatAreMissingAreComputed) {
  const Plan plan = *Complete({.scripts = {.acquire = {.name = "my/acquire", .body = "return 1"},
                                           .release = {.body = "return 2", .sha1 = "given"}}});
  EXPECT_EQ(plan.scripts.acquire.sha1, base::Sha1Hex("return 1"));
  EXPECT_EQ(plan.scripts.release.sha1, "given");
  EXPECT_EQ(plan.scripts.renew.sha1, base::Sha1Hex(""));
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
