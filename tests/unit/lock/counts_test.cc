#include "src/lock/counts.h"

#include "redlatch/client.h"
#include "src/lock/client_core.h"
#include "tests/support/fake_server.h"
#include "tests/support/testing.h"

namespace redlatch::internal {
namespace {

using support::FakeServer;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Counts of a client, whose repeats the test sends and answers.
class CountsTest : public ::testing::Test {
 protected:
  void Add(const std::string& id, uint64_t when, uint64_t sent_in) {
    counts_.Add({.latch = {.keys = KeySet("l"), .owner = "o"}, .id = id, .n = 1, .when = when},
                sent_in, /*pace=*/absl::ZeroDuration());
  }
  // Returns the ids of the counts that are sent now.
  std::vector<std::string> Send() {
    jobs_ = counts_.TakeDue();
    std::vector<std::string> ids;
    for (const auto& each : jobs_)
      ids.push_back(std::get<ScriptRequest>(each.request.what).args[1]);
    return ids;
  }
  void Answer(const std::string& text = "1 1000") {
    Result result{.what = ScriptText{text}};
    for (const auto& each : jobs_) each.then(result);
  }

  FakeServer server_{FakeServer::Polite};
  const Client client_ = Client::Connect(server_.url()).value();
  Counts counts_{*client_.core()};
  ScriptBatch::Jobs jobs_;
};

TEST_F(CountsTest, LatestOneTellsWhetherServerHasThemAll) {
  Add("a", 10, 0);
  Add("b", 20, 0);
  EXPECT_THAT(Send(), ElementsAre("b"));
  Answer();
  EXPECT_THAT(Send(), ElementsAre("b"));
  Answer("1 1000 again");  // the server did not have it
  EXPECT_THAT(Send(), ElementsAre("a", "b"));
}

TEST_F(CountsTest, RepeatsLastUntilServerOfThatTimeHasAnswered) {
  Add("a", 10, 0);
  Add("b", 20, 0);
  counts_.RepeatAll();
  EXPECT_THAT(Send(), ElementsAre("a", "b"));
  counts_.RepeatAll();  // that server is lost, too
  Answer();
  EXPECT_THAT(Send(), ElementsAre("a", "b"));
  Answer();
  EXPECT_THAT(Send(), ElementsAre("b"));
}

TEST_F(CountsTest, CountAnsweredByFormerServerIsRepeated) {
  counts_.RepeatAll();
  Add("a", 10, 0);
  Add("b", 20, 1);
  EXPECT_THAT(Send(), ElementsAre("a"));
}

TEST_F(CountsTest, CountAtNewServerIsLaterWhateverItsClockSays) {
  Add("a", 20, 0);
  counts_.RepeatAll();
  Send();
  Answer();
  Add("b", 10, 1);
  EXPECT_THAT(Send(), ElementsAre("b"));
}

TEST_F(CountsTest, CountsOfOpenLatchAreRepeatedOnlyOnNewConnections) {
  Add("a", 10, 0);
  Send();
  Answer("0 1000");
  counts_.RepeatAll([](std::string_view) { return false; });  // of another node of a cluster
  EXPECT_THAT(Send(), IsEmpty());
  EXPECT_TRUE(counts_.due().is_infinite());
  counts_.RepeatAll();  // the new server may not have the last count, and be closed
  EXPECT_THAT(Send(), ElementsAre("a"));
  Answer("1 1000");
  EXPECT_THAT(Send(), ElementsAre("a"));
}

TEST_F(CountsTest, LatestCountsOfOpenLatchesAreKept) {
  for (int i = 0; i < 300; ++i) Add(absl::StrCat(i), 10, 0);
  Send();
  Answer("0 1000");
  counts_.RepeatAll();
  size_t repeated = 0;
  for (size_t sent = 1; sent > 0; repeated += sent) {
    sent = Send().size();
    Answer("0 1000");
  }
  EXPECT_EQ(repeated, 256U);
}

}  // namespace
}  // namespace redlatch::internal
