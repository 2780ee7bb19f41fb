// Under which names Client::Stats() counts.
#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/stats/matcher.h"

namespace redlatch::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using StatsNames = Conformance;

TEST_P(StatsNames, NamesBeyondTheBoundAreCountedTogether) {
  const Client client = NewClient({}, {.stats_names = 2});
  for (const char* name : {"a", "b", "c", "d", "a", "c"}) EXPECT_OK(Try(client, name));
  const auto held = NewLock(client, "e")->Acquire();
  ASSERT_OK(held);
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, Called("a"), Called("b")));
  EXPECT_EQ(StatsOf(client, Called("a")).acquired, 2);
  EXPECT_EQ(StatsOf(client, Called("b")).acquired, 1);
  EXPECT_THAT(StatsOf(client, kOtherNames), Counts({.acquired = 4, .released = 3, .held = 1}));
  EXPECT_THAT(client.Stats().all, Counts({.acquired = 7, .released = 6, .held = 1}));
  EXPECT_EQ(client.Stats().all.name, "");
}

TEST_P(StatsNames, LockOfTheOthersNameIsOneOfThem) {
  if (Called(kOtherNames) != kOtherNames) GTEST_SKIP() << "none of several names is called so";
  const Client client = NewClient({}, {.stats_names = 1});
  for (const char* name : {kOtherNames, "a", "b"}) EXPECT_OK(Try(client, name));
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, Called("a")));
  EXPECT_EQ(StatsOf(client, kOtherNames).acquired, 2);
}

TEST_P(StatsNames, LabelIsTheNameUnderWhichALockIsCounted) {
  const auto before_the_colon = [](std::string_view name) {
    return std::string(name.substr(0, name.find(':')));
  };
  const Client client = NewClient({}, {.stats_names = 2, .stats_label = before_the_colon});
  for (const char* name : {"orders:1", "orders:2", ":", "orders:3", "x"}) {
    EXPECT_OK(Try(client, name));
  }
  EXPECT_THAT(NamesOf(client), ElementsAre(kOtherNames, "orders", Called("x")));
  EXPECT_EQ(StatsOf(client, "orders").acquired, 3);
  EXPECT_EQ(StatsOf(client, kOtherNames).acquired, 1);
}

TEST_P(StatsNames, NothingIsCountedWhereNoNamesAreKept) {
  for (const int none : {0, -1}) {
    const Client client = NewClient({}, {.stats_names = none});
    EXPECT_OK(Try(client));
    NewLock(client)->unlock();
    EXPECT_THAT(client.Stats().locks, IsEmpty());
    EXPECT_THAT(client.Stats().all, Counts({}));
    EXPECT_EQ(client.Stats().connects, server().size());
  }
}

INSTANTIATE_FOR_KINDS(StatsNames);

}  // namespace
}  // namespace redlatch::conformance
