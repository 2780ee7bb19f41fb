// `redlatch run` under a lock that a quorum of servers grants.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "tests/conformance/cli/run/fixture.h"
#include "tests/support/await.h"
#include "tests/support/quorum_group.h"

namespace redlatch {
namespace {

using support::Await;
using ::testing::AllOf;
using ::testing::HasSubstr;

class RedlatchQuorumRunTest : public RedlatchRunTest {
 protected:
  Words AtAll() const { return {"REDLATCH_URL=" + group_.url()}; }
  std::unique_ptr<support::Child> StartAtAll(const Words& words) const {
    return Start(words, AtAll());
  }
  // A command that says that it runs, and goes on until a line is written to it.
  Words Holder() const {
    return {"--lease", "3s", "job", "--", "sh", "-c", "echo runs; read -r line"};
  }

  support::QuorumGroup group_;
};

TEST_F(RedlatchQuorumRunTest, RunsACommandWhileAMajorityGrantsIt) {
  const auto holder = StartAtAll(Holder());
  ASSERT_EQ(holder->pipe().ReadLine(), "runs") << Errors();
  EXPECT_TRUE(Await([&] { return group_.Having("job") == 5; })) << "a renewal heals";
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, AtAll()), 120);
  EXPECT_THAT(Errors(), HasSubstr("lock \"job\" is busy: held by redlatch run: sh"));
  holder->pipe().WriteLine("");
  EXPECT_EQ(CodeOf(*holder), 0);
  EXPECT_TRUE(Await([&] { return group_.Having("job") == 0; }));
}

TEST_F(RedlatchQuorumRunTest, TellsTheCommandItsServersAndAGrowingToken) {
  const auto tell = [this] {
    const auto run = StartAtAll({"job", "--", "sh", "-c", "echo $REDLATCH_TOKEN $REDLATCH_SERVER"});
    return run->pipe().ReadLine().value_or("");
  };
  const std::string first = tell();
  ASSERT_THAT(first, HasSubstr(" " + group_.url())) << Errors();
  const std::string second = tell();
  ASSERT_THAT(second, HasSubstr(" " + group_.url())) << Errors();
  EXPECT_LT(std::stoll(first), std::stoll(second));
}

TEST_F(RedlatchQuorumRunTest, WaitsForItsTurn) {
  const auto holder = StartAtAll(Holder());
  ASSERT_EQ(holder->pipe().ReadLine(), "runs") << Errors();
  const auto waiter = StartAtAll(Holder());
  ASSERT_TRUE(Await([&] { return group_.Having("redlatch:2:{job}:quorum.queue") == 5; }));
  holder->pipe().WriteLine("");
  EXPECT_EQ(waiter->pipe().ReadLine(), "runs");
  waiter->pipe().WriteLine("");
  EXPECT_EQ(CodeOf(*waiter), 0);
}

TEST_F(RedlatchQuorumRunTest, GoesOnWithoutAMinority) {
  const auto holder = StartAtAll(Holder());
  ASSERT_EQ(holder->pipe().ReadLine(), "runs") << Errors();
  // A renewal has healed those to which it was not connected yet.
  ASSERT_TRUE(Await([&] { return group_.Having("job") == 5; }));
  const std::string held = group_[1].Text({"GET", "job"});
  group_[0].Kill();
  group_[3].Stop();
  const base::Instant begun = base::Now();
  // Longer than the lease: renewals have gone on.
  EXPECT_TRUE(Await([&] { return base::Now() - begun > absl::Seconds(4); }));
  EXPECT_EQ(group_[1].Text({"GET", "job"}), held) << Errors();
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, AtAll()), 120) << Errors();
  holder->pipe().WriteLine("");
  EXPECT_EQ(CodeOf(*holder), 0) << Errors();
  group_[3].Continue();
}

TEST_F(RedlatchQuorumRunTest, EndsACommandWhoseMajorityIsGone) {
  const auto holder = StartAtAll(
      {"--lease", "1s", "--grace", "200ms", "job", "--", "sh", "-c", "echo runs; read -r line"});
  ASSERT_EQ(holder->pipe().ReadLine(), "runs") << Errors();
  for (const size_t i : {0, 1, 2}) group_[i].Kill();
  EXPECT_EQ(CodeOf(*holder), 122) << Errors();
  EXPECT_EQ(Code({"--wait", "0", "job", "--", "true"}, AtAll()), 121);
}

TEST_F(RedlatchQuorumRunTest, RefusesWhatAQuorumHasNot) {
  for (const Words& words :
       {Words{"--shared"}, Words{"--write"}, Words{"--permits", "1", "--capacity", "2"},
        Words{"--capacity", "2"}}) {
    EXPECT_EQ(Code(Join(words, {"job", "--", "true"}), AtAll()), 125) << words[0];
    EXPECT_THAT(Errors(), AllOf(HasSubstr(words[0] + " is not for a quorum of servers"),
                                HasSubstr("--server " + group_[0].url())));
  }
}

}  // namespace
}  // namespace redlatch
