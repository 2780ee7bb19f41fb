// Locks at work while the server forgets its scripts, drops its connections and loses its memory:
// nobody is let in beside a holder, nobody is forgotten, tokens grow, nothing is left.
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/support/test_scale.h"

namespace redlatch::conformance {
namespace {

class Turmoil : public Conformance {
 protected:
  // Threads of several clients use the lock, and each time they have used it some more `trouble`
  // is made. Everybody gets it again and again until the end, and then once more.
  void Survive(int rounds, const std::function<void(int round)>& trouble) {
    const Client clients[] = {NewClient("command_timeout=500ms", {.observer = heard_}),
                              NewClient("command_timeout=500ms", {.observer = heard_})};
    constexpr int kThreads = 3;
    std::atomic<bool> stop{false};
    std::atomic<int64_t> turns[2 * kThreads] = {};
    Crew crew;
    for (int i = 0; i < 2 * kThreads; ++i) {
      crew.Start([&, i] {
        const auto lock = NewLock(clients[i % 2], kName, LeaseOf(kLease / 2));
        while (!stop) {
          if (i < kThreads) {
            const std::scoped_lock guard(*lock);
            shared_.Touch(lock->current());
          } else {
            auto lease = lock->Acquire({.wait = kPatience});
            ASSERT_OK(lease);
            shared_.Touch(*lease);
          }
          ++turns[i];
        }
      });
    }
    for (int round = 0; round < rounds; ++round) {
      const int64_t before = shared_.touches();
      EXPECT_TRUE(Await([&] { return shared_.touches() > before + 10; })) << "everybody is stuck";
      trouble(round);
    }
    for (std::atomic<int64_t>& each : turns) {
      const int64_t before = each;
      EXPECT_TRUE(Await([&] { return each > before; })) << "somebody was forgotten";
    }
    stop = true;
    crew.Join();
    EXPECT_EQ(heard_->Count("misuse"), 0);
  }

  Protected shared_;
  const std::shared_ptr<Recorder> heard_ = std::make_shared<Recorder>();
  std::minstd_rand random_{20240229};
};

TEST_P(Turmoil, OfScriptsThatAreForgottenIsNotNoticed) {
  Survive(support::Scaled(50), [&](int) { server().Command({"SCRIPT", "FLUSH"}); });
  EXPECT_EQ(heard_->Count("lost"), 0);
  EXPECT_EQ(heard_->Count("reconnected"), 0);
}

TEST_P(Turmoil, OfConnectionsThatAreKilledLosesNobody) {
  Survive(support::Scaled(30), [&](int) {
    server().Command(
        {"CLIENT", "KILL", "TYPE", random_() % 2 == 0 ? "normal" : "pubsub", "SKIPME", "yes"});
  });
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Turmoil, OfEverythingAtOnceLosesNobody) {
  Survive(support::Scaled(30), [&](int) {
    server().Command({"SCRIPT", "FLUSH"});
    server().Command({"CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"});
    server().Command({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  });
  EXPECT_EQ(heard_->Count("lost"), 0);
}

TEST_P(Turmoil, OfAServerThatRestartsWithItsDataLosesNobody) {
  UseOwnServer({.append_only = true});
  Survive(support::Scaled(3), [&](int) { server().Restart(); });
}

TEST_P(Turmoil, OfAServerThatPausesLosesNobody) {
  UseOwnServer();
  Survive(support::Scaled(10), [&](int round) {
    server().Stop();
    const base::Instant until = base::Now() + absl::Milliseconds(5 * round);
    Await([&] { return until <= base::Now(); });
    server().Continue();
  });
}

TEST_P(Turmoil, OfASubscriptionThatIsCutBeforeEachReleaseForgetsNoWaiter) {
  const Client one = NewClient();
  const Client other = NewClient();
  for (int i = 0; i < support::Scaled(5); ++i) {
    auto lease = NewLock(one)->Acquire({.wait = kPatience});
    ASSERT_OK(lease);
    Crew crew;
    crew.Start([&] {
      const auto mine = NewLock(other)->Acquire({.wait = kPatience});
      ASSERT_OK(mine);
      shared_.Touch(*mine);
    });
    ASSERT_TRUE(AwaitQueued(1));
    server().Command({"CLIENT", "KILL", "TYPE", "pubsub"});
    EXPECT_OK(lease->Release());
    crew.Join();
  }
  EXPECT_EQ(shared_.touches(), support::Scaled(5));
}

INSTANTIATE_FOR_KINDS(Turmoil);

}  // namespace
}  // namespace redlatch::conformance
