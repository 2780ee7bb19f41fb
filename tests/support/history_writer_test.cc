#include "tests/support/history_writer.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/history_check/history_checker.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace redlatch::support {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(HistoryWriter, KeepsWhatAKilledProcessHasWritten) {
  const TempDir directory;
  const std::vector<std::string> files = {directory.path() + "/child",
                                          directory.path() + "/parent"};
  HistoryWriter parent(files[1], -1);
  const auto child = Child::Fork([&](LinePipe& pipe) {
    HistoryWriter history(files[0], 3);
    const uint32_t held = history.Invoke("o", history::Kind::kLock, 7, /*waits=*/false);
    history.Held(held, 42);
    history.Remaining(held, base::Now(), absl::Hours(1));
    history.Refused(history.Invoke("p", history::Kind::kLock, -8, false), /*certainly=*/true);
    history.Invoke("q", history::Kind::kLock, 7, /*waits=*/true);
    pipe.WriteLine("written");
    pipe.ReadLine();
    return 0;
  });
  ASSERT_EQ(child->pipe().ReadLine(), "written");
  child->Kill();
  parent.EndCallsOf(files[0]);

  // Nothing is free for long while a call waits: the one that did has ended with its process.
  parent.Note({.what = history::What::kCalm, .amount = 1});
  auto history = history::ReadHistory(files);
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_THAT(history->events, SizeIs(8));
  EXPECT_EQ(history->events[0].call, "3.0");
  EXPECT_EQ(history->events[0].owner, "process3.7");
  EXPECT_EQ(history->events[3].owner, "owner8");
  EXPECT_EQ(history->events[6].what, history::What::kUnknown);
  history::HistoryChecker checker = history::Judge(*history);
  checker.Finish(base::Now().nanos());
  EXPECT_THAT(checker.violations(), IsEmpty());

  // What the child held is certain for an hour, though it is dead.
  const uint32_t late = parent.Invoke("o", history::Kind::kLock, 1, /*waits=*/false);
  parent.Held(late, 43);
  parent.Remaining(late, base::Now(), absl::Hours(1));
  EXPECT_THAT(history::Judge(*history::ReadHistory(files)).violations(), SizeIs(1));
}

}  // namespace
}  // namespace redlatch::support
