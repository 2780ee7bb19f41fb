// Readers and writers of several clients against a naive server, through a hostile network, in
// virtual time. REDLATCH_MODEL_SEED=n replays one seed and tells each of its events.
#include "tests/unit/engine/machine/readers_model.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/unit/engine/machine/model_schedules.h"

namespace redlatch::engine {
namespace {

constexpr int kStepsPerSchedule = 500;

// What happens when, by chance.
class Schedule : public ReadersModel {
 public:
  using ReadersModel::ReadersModel;

  void Run() {
    for (int i = 0; i < kStepsPerSchedule && !failed(); ++i) Step();
    if (!failed()) CalmDown();
  }

 private:
  void Step() {
    const int c = Pick(clients_count_);
    Client& client = *clients_[c];
    Thread& thread = client.threads[Pick(kThreads)];
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
        return Advance(Chance(fast_ ? 2 : 8) ? absl::Milliseconds(Pick(150))
                                             : absl::Microseconds(Pick(3000)));
    }
  }

  void Network() {
    if (requests_.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(requests_.size())));
    const bool faulty = faulty_ && Chance(8);
    Request& request = requests_[index];
    if (!request.answer && Chance(10) && !request.group->machine.Wants(request.send)) {
      return Drop(index);
    }
    if (!request.answer && !faulty) Execute(request);
    if (Chance(3) || (!request.answer && !faulty)) return;
    Deliver(index, faulty);
  }

  void Messages() {
    if (server_.messages.empty()) return;
    const auto index = static_cast<size_t>(Pick(static_cast<int>(server_.messages.size())));
    if (faulty_ && Chance(10)) {
      Say("a message is lost");
      server_.messages.erase(server_.messages.begin() + static_cast<ptrdiff_t>(index));
      return;
    }
    DeliverMessage(index, /*keep=*/Chance(10));
  }

  void Mishap(int c) {
    if (!faulty_) return;
    if (Chance(8)) return Die(c);
    if (Chance(8)) return Reconnect(c, Chance(2));
  }

  // Faults have stopped: everything is executed, heard and released at once.
  bool Settle() {
    bool progress = false;
    for (int c = 0; c < clients_count_ && !failed(); ++c) {
      Expire(c);
      for (Thread& thread : clients_[c]->threads) {
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
      while (!failed() && Fetch(c)) progress = true;
    }
    while (!requests_.empty() && !failed()) {
      if (!requests_[0].answer) Execute(requests_[0]);
      Deliver(0, false);
      progress = true;
    }
    while (!server_.messages.empty() && !failed()) {
      DeliverMessage(0, false);
      progress = true;
    }
    return progress;
  }

  void CalmDown() {
    Say("---- calm");
    while (!late_.empty() && !failed()) Late();
    for (int c = 0; c < clients_count_; ++c) Reconnect(c, true);
    const Instant calm = now_;
    const Instant decided_by = calm + kLongestLease + kLongestLease / 3 + absl::Milliseconds(5);
    while (!failed()) {
      if (Settle()) continue;
      const Instant next = NextTimer();
      if (next.is_infinite()) break;
      if (AnyWaits()) {
        ASSERT_LT(next, decided_by) << "a waiter is left undecided";
      }
      ASSERT_LT(next, calm + absl::Seconds(60));
      Advance(std::max(next - now_, absl::Microseconds(1)));
    }
    if (failed()) return;
    EXPECT_FALSE(AnyWaits()) << "nobody does anything for a waiter";
    for (const auto& client : clients_) {
      for (const auto& group : client->table) EXPECT_TRUE(group->machine.idle());
    }
    for (const auto& [grant, owner] : server_.Known(now_)) {
      EXPECT_TRUE(IsGhost(grant, owner)) << "the server still has " << grant;
    }
    // What a client has left behind goes with its lease.
    now_ = now_ + 2 * kLongestLease;
    EXPECT_TRUE(server_.Known(now_).empty());
    EXPECT_FALSE(server_.HasWaiters(now_));
  }
};

TEST(LockMachineReadersModel, KeepsItsPromisesThroughRandomSchedules) {
  RunSchedules<Schedule>(2000, {{"reads", &Schedule::reads}, {"writes", &Schedule::writes}});
}

// What that model asks of its server, once for each answer.
class PassedWriterTest : public ::testing::Test {
 protected:
  using Server = ReferenceReadWriteServer;

  PassedWriterTest() { server_.subscribed = {true, true, true}; }

  // Of the client of that number, by its only machine.
  BidAnswer::Kind Asks(int client, GrantId grant, uint32_t attempt = 1) {
    const Server::Caller caller{
        .client = client,
        .machine = client,
        .side = client == kWriter ? Server::Side::kWrite : Server::Side::kRead};
    const Bid bid{.grant = grant,
                  .terms = {.lease = absl::Milliseconds(300)},
                  .attempt = attempt,
                  .wait = true};
    const Send send{
        .operation = Operation::kAcquire, .grant = grant, .lease = bid.terms.lease, .bid = bid};
    return server_.Execute(caller, send, now_).bid.kind;
  }

  static constexpr int kWriter = 0;
  Server server_;
  base::Instant now_ = base::Instant::FromNanos(1'000'000'000'000'000);
};

TEST_F(PassedWriterTest, NotIfTheWriterWasOverdueThoughItIsBackBeforeTheReaderHears) {
  ASSERT_EQ(Asks(1, 1), BidAnswer::Kind::kGranted);
  ASSERT_EQ(Asks(kWriter, 2), BidAnswer::Kind::kQueued);
  now_ = now_ + absl::Milliseconds(251);  // 2.5 heartbeats
  const uint64_t asked = ++server_.steps;
  ASSERT_EQ(Asks(2, 3), BidAnswer::Kind::kGranted);
  ASSERT_EQ(Asks(kWriter, 2, 2), BidAnswer::Kind::kQueued);
  EXPECT_FALSE(server_.PassedWriter(3, asked));
}

TEST_F(PassedWriterTest, IfTheReaderAskedAfterItsHoldWasLetIn) {
  const uint64_t before = ++server_.steps;
  ASSERT_EQ(Asks(1, 1), BidAnswer::Kind::kGranted);
  ASSERT_EQ(Asks(kWriter, 2), BidAnswer::Kind::kQueued);
  EXPECT_FALSE(server_.PassedWriter(1, before));
  EXPECT_TRUE(server_.PassedWriter(1, ++server_.steps));
}

}  // namespace
}  // namespace redlatch::engine
