#include "src/engine/plan.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/sha1.h"

namespace redlatch::engine {
namespace {

using ::testing::HasSubstr;

KeySet Keys(std::string_view name, std::string_view prefix = "") {
  absl::StatusOr<KeySet> keys = KeySet::Make(prefix, name);
  EXPECT_TRUE(keys.ok()) << keys.status();
  return *std::move(keys);
}

absl::Status Refused(std::string_view name, std::string_view prefix = "") {
  return KeySet::Make(prefix, name).status();
}

TEST(KeySet, AuxiliaryKeysShareTheSlotOfAPlainName) {
  const KeySet keys = Keys("orders:42");
  EXPECT_EQ(keys.main(), "orders:42");
  EXPECT_EQ(keys.name(), "orders:42");
  EXPECT_EQ(keys.queue(), "{orders:42}:queue");
  EXPECT_EQ(keys.waiters(), "{orders:42}:waiters");
  EXPECT_EQ(keys.fence(), "{orders:42}:fence");
  EXPECT_EQ(keys.Auxiliary("readers"), "{orders:42}:readers");
}

TEST(KeySet, ANameWithAHashTagKeepsIt) {
  const KeySet keys = Keys("a{user7}b");
  EXPECT_EQ(keys.main(), "a{user7}b");
  EXPECT_EQ(keys.queue(), "a{user7}b:queue");
  EXPECT_EQ(keys.fence(), "a{user7}b:fence");
}

TEST(KeySet, ThePrefixStandsBeforeEveryKeyAndNotInTheName) {
  const KeySet keys = Keys("x", "app:");
  EXPECT_EQ(keys.main(), "app:x");
  EXPECT_EQ(keys.name(), "x");
  EXPECT_EQ(keys.queue(), "{app:x}:queue");
}

TEST(KeySet, AnOpenBraceAloneIsNoTag) {
  EXPECT_EQ(Keys("a{b").queue(), "{a{b}:queue");
  EXPECT_EQ(Keys("{").queue(), "{{}:queue");
}

TEST(KeySet, RefusesBracesThatWouldScatterTheKeys) {
  for (const char* name : {"a}", "}", "a{}b", "{}", "}a{b", "{}{x}"}) {
    const absl::Status status = Refused(name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
  EXPECT_FALSE(Refused("x", "app}").ok());
}

TEST(KeySet, BracesInAnyOtherOrderThanATagAreLookedAtFromTheFirstOpenOne) {
  EXPECT_EQ(Keys("}a{b}").queue(), "}a{b}:queue");
}

TEST(KeySet, AnyBytesMakeAName) {
  const std::string name("a b\n\0\xff", 6);
  EXPECT_EQ(Keys(name).main(), name);
  EXPECT_EQ(Keys(name).queue(), "{" + name + "}:queue");
}

TEST(KeySet, RefusesNoNameAndTooLongOnes) {
  EXPECT_EQ(Refused("").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Refused("", "app:").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(Refused(std::string(65536, 'x')).ok());
  EXPECT_EQ(Refused(std::string(65537, 'x')).code(), absl::StatusCode::kInvalidArgument);
}

TEST(KeySet, MovedIsTheSame) {
  KeySet keys = Keys("short");
  const KeySet moved = std::move(keys);
  EXPECT_EQ(moved.main(), "short");
  EXPECT_EQ(moved.waiters(), "{short}:waiters");
}

TEST(Plan, DigestsThatAreMissingAreComputed) {
  const Plan plan = Complete({.scripts = {.acquire = {.name = "my/acquire", .body = "return 1"},
                                          .release = {.body = "return 2", .sha1 = "given"}}});
  EXPECT_EQ(plan.scripts.acquire.sha1, base::Sha1Hex("return 1"));
  EXPECT_EQ(plan.scripts.release.sha1, "given");
  EXPECT_EQ(plan.scripts.renew.sha1, base::Sha1Hex(""));
}

TEST(Plan, IsTheSameByScriptsTraitsKeysAndArguments) {
  const Plan plan{.scripts = {.acquire = {.body = "a"}}, .traits = {.kind = "k"}};
  EXPECT_TRUE(plan.SameAs(Complete(plan)));
  Plan other = plan;
  other.scripts.cancel.body = "c";
  EXPECT_FALSE(plan.SameAs(other));
  other = plan;
  other.traits.reentrant = true;
  EXPECT_FALSE(plan.SameAs(other));
  other = plan;
  other.extra_args = {"7"};
  EXPECT_FALSE(plan.SameAs(other));
}

}  // namespace
}  // namespace redlatch::engine
