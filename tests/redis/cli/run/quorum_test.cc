// `redlatch run` under a lock that a quorum of servers grants.

#include "tests/conformance/cli/command_fixture.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

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

  QuorumGroup group_;
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
