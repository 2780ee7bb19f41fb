#include "tests/support/sentinel_group.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"
#include "src/base/clock.h"

namespace redlatch::support {
namespace {

TEST(SentinelGroupTest, IsReadySoonAndFailsOver) {
  const base::Instant begun = base::Now();
  const auto group = SentinelGroup::Start();
  EXPECT_LT(base::Now() - begun, absl::Seconds(2));
  ASSERT_EQ(group->Primary(), 0);
  group->server(0).Kill();
  const size_t primary = group->AwaitPrimaryOtherThan(0);
  EXPECT_EQ(group->server(primary).Info("role"), "master");
  group->server(0).Restart();
  EXPECT_TRUE(group->AwaitWell());
  EXPECT_EQ(group->server(0).Info("role"), "slave");
}

TEST(SentinelGroupTest, OneThatIsCutOffIsReplaced) {
  const auto group = SentinelGroup::Start({.proxied = true});
  group->proxy(0).Drop(Direction::kToServer);
  group->proxy(0).Drop(Direction::kToClient);
  const size_t primary = group->AwaitPrimaryOtherThan(0);
  EXPECT_EQ(group->server(0).Info("role"), "master");
  group->proxy(0).Heal();
  EXPECT_TRUE(group->AwaitWell());
  EXPECT_EQ(group->Primary(), primary);
}

}  // namespace
}  // namespace redlatch::support
