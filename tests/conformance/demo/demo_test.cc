// Tests redlatch-demo as its users run it.

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

struct DemoTest : ::testing::Test {
  DemoTest() : scratch_(directory_.path() + "/tmp"), output_(directory_.path() + "/output") {
    std::filesystem::create_directory(scratch_);
  }

  std::unique_ptr<support::Child> Start(const std::string& url) const {
    return support::Child::Exec({REDLATCH_DEMO, url},
                                {.environment = {"TMPDIR=" + scratch_}, .output_path = output_});
  }

  std::string output() const { return TextOf(output_); }

  // Files that the demo left, and processes whose command lines name one.
  std::vector<std::string> Leftovers() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(scratch_)) {
      found.push_back(entry.path());
    }
    std::error_code gone;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      const std::string words = TextOf(process.path() / "cmdline");
      if (words.find(scratch_) != std::string::npos) found.push_back(words);
    }
    return found;
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const support::TempDir directory_;
  const std::string scratch_;
  const std::string output_;
};

TEST_F(DemoTest, CountIsExactDespiteAKilledAndAFrozenWorker) {
  const auto demo = Start(server_->unix_url());
  const std::optional<support::ExitStatus> status = demo->WaitFor(absl::Seconds(60));
  ASSERT_TRUE(status.has_value()) << output();
  EXPECT_EQ(status->code, 0) << output();
  EXPECT_THAT(output(), AllOf(HasSubstr("worker 3 was killed while it held the lock"),
                              HasSubstr("worker 2 was frozen"), HasSubstr("REJECTED"),
                              HasSubstr(": equal\n"), Not(HasSubstr("WRONG"))));
  EXPECT_LT(output().find("that it lost the lock"), output().find("RunLocked() returns"));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(DemoTest, LeavesNothingBehindIfInterrupted) {
  const auto demo = Start(server_->unix_url());
  EXPECT_TRUE(
      support::Await([&] { return output().find("workers have started") != std::string::npos; }));
  demo->Signal(SIGTERM);
  const std::optional<support::ExitStatus> status = demo->WaitFor(absl::Seconds(30));
  ASSERT_TRUE(status.has_value()) << output();
  EXPECT_EQ(status->code, 1);
  EXPECT_THAT(output(), HasSubstr("interrupted"));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

TEST_F(DemoTest, NamesTheUnreachableServer) {
  const auto demo = Start("unix://" + scratch_ + "/nowhere.sock");
  EXPECT_EQ(demo->Wait().code, 1);
  EXPECT_THAT(output(), HasSubstr("nowhere.sock"));
  EXPECT_THAT(Leftovers(), IsEmpty());
}

}  // namespace
}  // namespace redlatch
