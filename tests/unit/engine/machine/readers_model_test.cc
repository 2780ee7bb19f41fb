// Readers and writers of several clients against a naive server, through a hostile network, in
// virtual time. REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include "tests/unit/engine/machine/readers_model.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

// What happens when, by chance.
class Schedule : public ReadersModel {
 public:
  using ReadersModel::ReadersModel;

 private:
  void Step() override {
    const int c = Pick(clients());
    Thread& thread = users_[c].threads[Pick(kThreads)];
    switch (Pick(20)) {
      case 0:
      case 1:
        return Read(c, thread);
      case 2:
        return Write(c, thread);
      case 3:
        return Chance(2) ? Write(c, thread) : Read(c, thread);
      case 4:
        if (Chance(3)) GiveUp(c, thread);
        return;
      case 5:
      case 6:
        return Release(c, thread, Chance(2));
      case 7:
        return GoOn(c, thread, Chance(10));
      case 8:
      case 9:
      case 10:
      case 11:
        Fetch(c);
        return;
      case 12:
      case 13:
      case 14:
        return Network();
      case 15:
        return Messages();
      case 16:
        return Chance(2) ? Mishap(c) : Late();
      case 17:
        return Expire(c);
      default:
        return Pass();
    }
  }

  void Mishap(int c) {
    if (!faulty_) return;
    if (Chance(8)) return Die(c);
    if (Chance(8)) return Reconnect(c, Chance(2));
  }

  bool GoOnInCalm(int c) override {
    bool progress = false;
    Expire(c);
    for (Thread& thread : users_[c].threads) {
      if (thread.to_go_on) {
        GoOn(c, thread, false);
        progress = true;
      }
      for (const bool reading : {true, false}) {
        while (CanRelease(thread, reading) && !failed()) {
          Release(c, thread, reading);
          progress = true;
        }
      }
    }
    return progress;
  }

  void CalmDown() override {
    Calm();
    AllLate();
    ReconnectAll(true);
    const Instant decided_by = now_ + kLongestLease + kLongestLease / 3 + absl::Milliseconds(5);
    RunOut([&] { return decided_by; });
    if (failed()) return;
    ExpectOnlyGhosts();
    // What a client has left behind goes with its lease.
    now_ = now_ + 2 * kLongestLease;
    EXPECT_TRUE(server_.Known(now_).empty());
    EXPECT_FALSE(server_.HasWaiters(now_));
  }
};

TEST(LockMachineReadersModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(10000, {{"reads", &Schedule::reads},
                                 {"writes", &Schedule::writes},
                                 {"taken again", &Schedule::again, 4}});
}

// What that model asks of its server, once for each answer.
class PassedWriterTest : public ::testing::Test {
 protected:
  using Server = ReferenceReadWriteServer;

  PassedWriterTest() { server_.subscribed = {true, true, true}; }

  // Of the client of that number, by its only machine.
  BidAnswer Asks(int client, GrantId grant, uint32_t attempt = 1) {
    const Server::Caller caller{
        .client = client,
        .machine = client,
        .side = client == kWriter ? Server::Side::kWrite : Server::Side::kRead};
    const Bid bid{.grant = grant,
                  .terms = {.lease = absl::Milliseconds(300)},
                  .attempt = attempt,
                  .wait = true};
    const Send send{.what = ToAcquire{bid}, .grant = grant, .lease = bid.terms.lease};
    return server_.Execute(caller, send, now_).bid();
  }

  static constexpr int kWriter = 0;
  Server server_;
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000'000'000);
};

TEST_F(PassedWriterTest, NotIfTheWriterWasOverdueThoughItIsBackBeforeTheReaderHears) {
  ASSERT_TRUE(std::holds_alternative<BidGranted>(Asks(1, 1)));
  ASSERT_TRUE(std::holds_alternative<BidQueued>(Asks(kWriter, 2)));
  now_ = now_ + absl::Milliseconds(251);  // 2.5 heartbeats
  const uint64_t asked = ++server_.steps;
  ASSERT_TRUE(std::holds_alternative<BidGranted>(Asks(2, 3)));
  ASSERT_TRUE(std::holds_alternative<BidQueued>(Asks(kWriter, 2, 2)));
  EXPECT_FALSE(server_.PassedWriter(3, asked));
}

TEST_F(PassedWriterTest, IfTheReaderAskedAfterItsHoldWasLetIn) {
  const uint64_t before = ++server_.steps;
  ASSERT_TRUE(std::holds_alternative<BidGranted>(Asks(1, 1)));
  ASSERT_TRUE(std::holds_alternative<BidQueued>(Asks(kWriter, 2)));
  EXPECT_FALSE(server_.PassedWriter(1, before));
  EXPECT_TRUE(server_.PassedWriter(1, ++server_.steps));
}

}  // namespace
}  // namespace redlatch::engine
