// `redlatch run --wait` that begins while no server serves it.
#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tests/conformance/cli/run/fixture.h"
#include "tests/support/refusals.h"

namespace redlatch {
namespace {

class RedlatchRunWaitsForServer : public RedlatchRunTest,
                                  public ::testing::WithParamInterface<support::UnservedGroupCase> {
};

TEST_P(RedlatchRunWaitsForServer, AndRunsTheCommandThen) {
  const auto group = GetParam().start();
  const std::string name = std::string(support::UnservedGroup::kTag) + "job";
  const auto run = Start({"--wait", "60s", name, "--", "true"}, {"REDLATCH_URL=" + group->url()});
  EXPECT_FALSE(run->WaitFor(absl::Milliseconds(300))) << Errors();
  group->Serve();
  EXPECT_EQ(CodeOf(*run), 0) << Errors();
}

INSTANTIATE_TEST_SUITE_P(Of, RedlatchRunWaitsForServer,
                         ::testing::ValuesIn(support::UnservedGroups()), support::NameOfUnserved);

}  // namespace
}  // namespace redlatch
