// A latch as its users have it: who makes it, who opens it, and who goes on.
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/child_entry.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

using ::testing::HasSubstr;

class Latch : public LatchConformance {
 protected:
  const Client client_ = NewClient();
  const Client other_ = NewClient();
};

TEST_P(Latch, OpensWhenAllHaveArrivedAndStaysOpen) {
  const auto latch = NewLatch(client_, 3);
  EXPECT_FALSE(TryWait(*latch));
  latch->count_down();
  EXPECT_FALSE(TryWait(*latch));
  latch->count_down(2);
  for (int i = 0; i < 2; ++i) {
    latch->wait();
    EXPECT_TRUE(TryWait(*latch));
    EXPECT_TRUE(latch->wait_for(std::chrono::seconds(0)));
    EXPECT_TRUE(latch->wait_until(std::chrono::steady_clock::now()));
    EXPECT_OK(latch->Wait());
  }
}

TEST_P(Latch, TellsByItsStatusFaceWhatThereIsToGo) {
  const auto latch = NewLatch(client_, 5);
  EXPECT_EQ(CountOf(*latch), 5);
  EXPECT_OK(latch->CountDown());
  EXPECT_OK(latch->CountDown(3));
  EXPECT_EQ(CountOf(*latch), 1);
  EXPECT_EQ(CodeOf(latch->Wait({.wait = absl::Milliseconds(1)})), kBusy);
  EXPECT_EQ(CodeOf(Look(*latch)), kBusy);
  EXPECT_OK(latch->CountDown());
  EXPECT_EQ(CountOf(*latch), 0);
  EXPECT_OK(Look(*latch));
  EXPECT_OK(latch->Wait());
}

TEST_P(Latch, OfNobodyIsOpen) {
  const auto latch = NewLatch(client_, 0);
  EXPECT_TRUE(TryWait(*latch));
  latch->wait();
  EXPECT_EQ(CountOf(*latch), 0);
  latch->count_down(0);
  EXPECT_EQ(CodeOf(latch->CountDown()), kMisuse);
}

TEST_P(Latch, IsMadeByTheFirstUseAndNotByItsConstructor) {
  const auto latch = NewLatch(client_, 3);
  server().Command({"PING"});
  EXPECT_FALSE(IsThere());
  const std::vector<std::function<void(CountDownLatch&)>> uses = {
      [](CountDownLatch& it) { EXPECT_FALSE(TryWait(it)); },
      [](CountDownLatch& it) { EXPECT_FALSE(it.wait_for(std::chrono::milliseconds(20))); },
      [](CountDownLatch& it) { EXPECT_EQ(CountOf(it), 3); },
      [](CountDownLatch& it) { EXPECT_OK(it.CountDown(0)); },
      [](CountDownLatch& it) { EXPECT_OK(it.CountDown(1)); },
  };
  for (const auto& use : uses) {
    const auto fresh = NewLatch(client_, 3);
    use(*fresh);
    EXPECT_TRUE(IsThere());
    server().Command({"DEL", Key(), Auxiliary("counted")});
  }
}

TEST_P(Latch, IsJoinedByFurtherObjectsOfTheSameAndOtherClients) {
  const auto first = NewLatch(client_, 4);
  first->count_down();
  const auto same = NewLatch(client_, 4);
  const auto theirs = NewLatch(other_, 4);
  EXPECT_EQ(CountOf(*same), 3);
  theirs->count_down();
  same->count_down(2);
  for (const auto* latch : {&first, &same, &theirs}) EXPECT_TRUE(TryWait(**latch));
}

TEST_P(Latch, IsOpenForWhoeverComesLate) {
  { NewLatch(client_, 1)->count_down(); }
  const Client late = NewClient();
  EXPECT_TRUE(TryWait(*NewLatch(late, 1)));
  NewLatch(late, 1)->wait();
  EXPECT_EQ(CountOf(*NewLatch(late, 1)), 0);
}

TEST_P(Latch, WithAnotherCountIsRefusedAndBothAreNamed) {
  const auto latch = NewLatch(client_, 12);
  latch->count_down();
  const auto wrong = NewLatch(other_, 13);
  for (const absl::Status& refused : {wrong->CountDown(), wrong->Wait(), Look(*wrong),
                                      wrong->Count().status(), wrong->CountDown(0)}) {
    EXPECT_EQ(refused.code(), kMisuse);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("12"));
    EXPECT_THAT(std::string(refused.message()), HasSubstr("13"));
  }
  EXPECT_EQ(Thrown([&] { wrong->count_down(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { wrong->wait(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { (void)wrong->try_wait(); }), kMisuse);
  EXPECT_EQ(Thrown([&] { wrong->arrive_and_wait(); }), kMisuse);
  EXPECT_EQ(CodeOf(Look(*NewLatch(client_, 11))), kMisuse) << "of the same client";
  EXPECT_EQ(CodeOf(Look(*NewLatch(other_, 0))), kMisuse);
  EXPECT_EQ(CountOf(*latch), 11);
  EXPECT_EQ(CountOf(*NewLatch(other_, 12)), 11);
}

TEST_P(Latch, RefusesMoreThanThereIsToGoAndNamesBoth) {
  const auto latch = NewLatch(client_, 40);
  latch->count_down(17);
  const absl::Status refused = latch->CountDown(57);
  EXPECT_EQ(refused.code(), kMisuse);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("23"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("57"));
  EXPECT_EQ(Thrown([&] { latch->count_down(24); }), kMisuse);
  EXPECT_EQ(Thrown([&] { latch->arrive_and_wait(24); }), kMisuse);
  EXPECT_EQ(CountOf(*latch), 23);
  EXPECT_EQ(CodeOf(Look(*latch)), kBusy);
  latch->count_down(23);
  EXPECT_EQ(Thrown([&] { latch->count_down(); }), kMisuse);
  latch->count_down(0);
  EXPECT_EQ(CountOf(*latch), 0);
}

TEST_P(Latch, RefusesWhatIsNoNumberOfArrivals) {
  const auto latch = NewLatch(client_, 3);
  EXPECT_EQ(CodeOf(latch->CountDown(-1)), kBadInput);
  EXPECT_EQ(CodeOf(latch->CountDown(std::numeric_limits<int64_t>::min())), kBadInput);
  const absl::Status most = latch->CountDown(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(most.code(), kBadInput);
  EXPECT_THAT(std::string(most.message()), HasSubstr("9223372036854775807"));
  EXPECT_EQ(Thrown([&] { latch->count_down(-1); }), kBadInput);
  EXPECT_EQ(Thrown([&] { latch->arrive_and_wait(-1); }), kBadInput);
  EXPECT_EQ(CountOf(*latch), 3);
  for (const int64_t count : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const auto bad = NewLatch(client_, count, "bad");
    EXPECT_EQ(CodeOf(bad->CountDown()), kBadInput) << count;
    EXPECT_EQ(CodeOf(bad->Wait()), kBadInput);
    EXPECT_EQ(CodeOf(bad->Count()), kBadInput);
    EXPECT_EQ(Thrown([&] { (void)bad->try_wait(); }), kBadInput);
    EXPECT_FALSE(IsThere("bad"));
  }
}

TEST_P(Latch, CountsLargeNumbersExactly) {
  constexpr int64_t kLarge = 999'999'999'999'999;
  const auto latch = NewLatch(client_, kLarge);
  latch->count_down();
  EXPECT_EQ(CountOf(*latch), kLarge - 1);
  EXPECT_EQ(CountOf(*NewLatch(other_, kLarge)), kLarge - 1);
  latch->count_down(kLarge - 1);
  EXPECT_TRUE(TryWait(*latch));
}

TEST_P(Latch, CountsAnIdOnceWhoeverShowsIt) {
  const std::string awkward("job\0 9\n", 7);
  const auto latch = NewLatch(client_, 10);
  const auto same = NewLatch(client_, 10);
  const auto theirs = NewLatch(other_, 10);
  for (const auto* each : {&latch, &same, &theirs, &latch}) {
    EXPECT_OK((*each)->CountDown(2, "job 7"));
    EXPECT_EQ(CountOf(*latch), 8);
  }
  EXPECT_OK(theirs->CountDown(5, "job 7")) << "with another number";
  EXPECT_EQ(CountOf(*latch), 8);
  EXPECT_OK(theirs->CountDown(1, "job 8"));
  EXPECT_OK(theirs->CountDown(7, awkward));
  EXPECT_OK(latch->CountDown(7, awkward)) << "it is open, and the id has counted";
  EXPECT_OK(latch->CountDown(2, "job 7"));
  EXPECT_EQ(CountOf(*latch), 0);
  EXPECT_EQ(CodeOf(latch->CountDown(1, awkward + "!")), kMisuse);
}

TEST_P(Latch, CountsEachCallWithoutAnId) {
  const auto latch = NewLatch(client_, 6);
  const auto theirs = NewLatch(other_, 6);
  EXPECT_OK(latch->CountDown());
  EXPECT_OK(latch->CountDown(1, ""));
  EXPECT_OK(theirs->CountDown());
  EXPECT_OK(theirs->CountDown());
  latch->count_down();
  EXPECT_EQ(CountOf(*latch), 1);
}

TEST_P(Latch, RemembersNoIdThatWasRefused) {
  const auto latch = NewLatch(client_, 2);
  EXPECT_EQ(CodeOf(latch->CountDown(3, "job")), kMisuse);
  EXPECT_OK(latch->CountDown(0, "job"));
  EXPECT_EQ(CountOf(*latch), 2);
  EXPECT_OK(latch->CountDown(2, "job"));
  EXPECT_EQ(CountOf(*latch), 0);
}

TEST_P(Latch, LetsNobodyGoOnBeforeAllHaveArrived) {
  constexpr int kThreads = 4;
  constexpr int kAll = 3 * kThreads;
  const Client clients[] = {client_, other_, NewClient()};
  std::atomic<int> arrived{0};
  Crew crew;
  for (const Client& client : clients) {
    crew.Start(kThreads, [&](int) {
      const auto mine = NewLatch(client, kAll);
      ++arrived;
      mine->arrive_and_wait();
      EXPECT_EQ(arrived, kAll);
    });
  }
  crew.Join();
  EXPECT_EQ(CountOf(*NewLatch(client_, kAll)), 0);
}

TEST_P(Latch, LetsWhoArrivesForSeveralGoOnWithTheOthers) {
  const auto latch = NewLatch(client_, 5);
  Crew crew;
  crew.Start([&] { latch->arrive_and_wait(4); });
  EXPECT_TRUE(AwaitQueued(1));
  EXPECT_EQ(CountOf(*latch), 1);
  NewLatch(other_, 5)->arrive_and_wait();
  crew.Join();
}

REDLATCH_CHILD(LatchWorker) {
  const Client client = *Client::Connect(
      args.at(0), {.key_prefix = args.at(2).substr(std::string("prefix=").size())});
  CountDownLatch start(client, "start", 1);
  CountDownLatch done(client, "done", std::atoll(args.at(1).c_str()));
  parent.WriteLine("ready");
  start.wait();
  parent.WriteLine("started");
  (void)parent.ReadLine(absl::Hours(1));
  done.arrive_and_wait();
  parent.WriteLine("all done");
  return 0;
}

TEST_P(Latch, OpensForOtherProcesses) {
  constexpr int kProcesses = 4;
  std::vector<std::unique_ptr<support::Child>> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(support::SpawnChild(
        "LatchWorker", {url(), absl::StrCat(kProcesses + 1),
                        "prefix=" + std::string(GetParam().deployment.key_prefix)}));
  }
  for (const auto& child : children) ASSERT_EQ(child->pipe().ReadLine(), "ready");
  EXPECT_TRUE(AwaitQueued(kProcesses, "start"));
  NewLatch(client_, 1, "start")->count_down();
  for (const auto& child : children) EXPECT_EQ(child->pipe().ReadLine(), "started");
  const auto done = NewLatch(client_, kProcesses + 1, "done");
  for (const auto& child : children) child->pipe().WriteLine("go on");
  EXPECT_TRUE(Await([&] { return CountOf(*done) == 1; }));
  EXPECT_EQ(children[0]->pipe().ReadLine(absl::ZeroDuration()), std::nullopt);
  done->arrive_and_wait();
  for (const auto& child : children) {
    EXPECT_EQ(child->pipe().ReadLine(), "all done");
    EXPECT_TRUE(child->Wait().success());
  }
}

TEST_P(Latch, CountsWhatManyThreadsCountAtOnce) {
  const int each = support::Scaled(50);
  const int64_t total = int64_t{8} * each;
  const auto latch = NewLatch(client_, total + 1);
  const auto theirs = NewLatch(other_, total + 1);
  Crew crew;
  for (CountDownLatch* const it : {latch.get(), theirs.get()}) {
    crew.Start(4, [it, each](int) {
      for (int i = 0; i < each; ++i) it->count_down();
    });
  }
  crew.Join();
  EXPECT_EQ(CountOf(*latch), 1);
  theirs->count_down();
  EXPECT_TRUE(TryWait(*latch));
}

INSTANTIATE_FOR_LATCH_EVERYWHERE(Latch);

}  // namespace
}  // namespace redlatch::conformance
