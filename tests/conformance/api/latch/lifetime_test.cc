// Whoever goes first: latches, clients, and forked children.
#include <memory>
#include <optional>

#include "gtest/gtest.h"
#include "tests/conformance/api/latch/fixture.h"
#include "tests/support/process_stats.h"
#include "tests/support/subprocess.h"

namespace redlatch::conformance {
namespace {

class LatchLifetime : public LatchConformance {};

TEST_P(LatchLifetime, OfAForkedChildTouchesNothingOfItsParents) {
  std::optional<Client> client = NewClient();
  auto latch = NewLatch(*client, 2);
  auto untouched = NewLatch(*client, 2, "untouched");
  latch->count_down();
  Crew crew;
  crew.Start([&latch = *latch] { EXPECT_OK(PatientWait(latch)); });
  ASSERT_TRUE(AwaitQueued(1));
  const auto child = support::Child::Fork([&](support::LinePipe&) {
    bool refused = true;
    for (CountDownLatch* each : {latch.get(), untouched.get()}) {
      refused = refused && CodeOf(each->CountDown()) == kMisuse &&
                CodeOf(each->CountDown(0)) == kMisuse && CodeOf(each->Wait()) == kMisuse &&
                CodeOf(each->Wait({.wait = absl::ZeroDuration()})) == kMisuse &&
                CodeOf(each->Count()) == kMisuse &&
                Thrown([&] { (void)each->try_wait(); }) == kMisuse;
    }
    latch.reset();
    untouched.reset();
    client.reset();
    return refused ? 0 : 1;
  });
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_EQ(CountOf(*latch), 1);
  EXPECT_TRUE(AwaitQueued(1));
  latch->count_down();
  crew.Join();
}

TEST_P(LatchLifetime, OfTheClientIsThatOfTheLastLatch) {
  const auto latch = NewLatch(NewClient(), 2);
  latch->count_down();
  const auto theirs = NewLatch(NewClient(), 2);
  Crew crew;
  crew.Start([&] { EXPECT_OK(PatientWait(*latch)); });
  ASSERT_TRUE(AwaitQueued(1));
  theirs->count_down();
}

TEST_P(LatchLifetime, OfManyLatchesLeavesNoThreadNoDescriptorAndNoSubscriptionBehind) {
  const auto once = [&] {
    const Client client = NewClient();
    for (int i = 0; i < 50; ++i) {
      const auto latch = NewLatch(client, 1, absl::StrCat("latch ", i));
      EXPECT_EQ(CodeOf(WaitFor(*latch, absl::Milliseconds(1))), kBusy);
      latch->count_down();
      EXPECT_OK(latch->Wait());
    }
    server().Command({"FLUSHALL"});
  };
  once();
  const int threads = support::ThreadCount();
  const int descriptors = support::OpenDescriptors();
  for (int i = 0; i < 3; ++i) once();
  EXPECT_TRUE(Await([&] {
    return support::ThreadCount() <= threads && support::OpenDescriptors() <= descriptors;
  })) << support::ThreadCount()
      << " threads, " << support::OpenDescriptors() << " descriptors";
  EXPECT_TRUE(Await([&] {
    return server().Command({"PUBSUB", "CHANNELS", "redlatch:*"}).elements.empty();
  }));
}

INSTANTIATE_FOR_LATCH(LatchLifetime);

}  // namespace
}  // namespace redlatch::conformance
