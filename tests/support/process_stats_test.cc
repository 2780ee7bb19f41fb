#include "tests/support/process_stats.h"

#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/subprocess.h"
#include "tests/support/test_scale.h"

namespace redlatch::support {
namespace {

TEST(ProcessStats, CountsDescriptors) {
  const int before = OpenDescriptors();
  EXPECT_EQ(OpenDescriptors(getpid()), before);
  const int extra = dup(0);
  EXPECT_EQ(OpenDescriptors(), before + 1);
  close(extra);
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST(ProcessStats, SeesMemoryInUse) {
  constexpr size_t kSize = size_t{64} << 20;
  const int64_t before = ResidentBytes();
  EXPECT_GT(before, 0);
  std::vector<char> used(kSize, 1);
  EXPECT_GE(ResidentBytes() - before, static_cast<int64_t>(kSize / 2));
  EXPECT_EQ(used.back(), 1);
}

TEST(ProcessStats, TellsBusyFromIdle) {
  const absl::Duration process_before = ProcessCpuTime();
  const absl::Duration thread_before = ThreadCpuTime();
  std::thread([] {
    const absl::Duration start = ThreadCpuTime();
    while (ThreadCpuTime() - start < absl::Milliseconds(20)) {
    }
  }).join();
  EXPECT_GE(ProcessCpuTime() - process_before, absl::Milliseconds(20));
  EXPECT_LT(ThreadCpuTime() - thread_before, absl::Milliseconds(15));
}

TEST(ProcessStats, OfAnotherProcess) {
  const auto child = Child::Exec({"sh", "-c", "echo ready; read x"});
  ASSERT_EQ(child->pipe().ReadLine(), "ready");
  const pid_t pid = child->pid();
  EXPECT_EQ(OpenDescriptors(pid), 3);
  EXPECT_EQ(ThreadCount(pid), 1);
  EXPECT_GT(ResidentBytes(pid), 0);
  child->Kill();
  EXPECT_EQ(OpenDescriptors(pid), 0);
  EXPECT_EQ(ResidentBytes(pid), 0);
}

TEST(TestScale, MultipliesAndStaysAboveZero) {
  unsetenv("REDLATCH_TEST_SCALE");
  EXPECT_EQ(Scaled(10), 10);
  setenv("REDLATCH_TEST_SCALE", "0.25", 1);
  EXPECT_EQ(Scaled(100), 25);
  EXPECT_EQ(Scaled(1), 1);
  setenv("REDLATCH_TEST_SCALE", "2", 1);
  EXPECT_EQ(Scaled(100), 200);
}

}  // namespace
}  // namespace redlatch::support
