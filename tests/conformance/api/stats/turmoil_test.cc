// Client::Stats() while all kinds of locks are used, lost, forced, dropped and disturbed at random:
// whenever it is read its numbers agree with each other, and in the end with what the calls said.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "redlatch/semaphore.h"
#include "redlatch/stats.h"
#include "src/base/parker.h"
#include "tests/conformance/api/conformance.h"
#include "tests/conformance/api/recorder.h"
#include "tests/conformance/api/stats/matcher.h"

namespace redlatch::conformance {
namespace {

constexpr char kUrlOptions[] = "command_timeout=300ms";
constexpr absl::Duration kTurmoilLease =
    absl::Milliseconds(60);  // a lease that ends while it is held
constexpr int64_t kCapacity = 3;
constexpr int kThreads = 6;
constexpr int kNames = 3;  // of more locks than so many

// A thread's source of chance.
class Chance {
 public:
  explicit Chance(uint64_t seed) : random_(seed) {}
  int Pick(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool OneIn(int n) { return Pick(n) == 0; }

 private:
  std::mt19937_64 random_;
};

void Rest(absl::Duration how_long) { base::Parker().ParkUntil(base::Now() + how_long); }

void ExpectAddsUp(const LockStats& stats) {
  const uint64_t ended = stats.released + stats.releases_failed + stats.lost;
  EXPECT_EQ(stats.acquired, ended + stats.held + stats.releasing);
  EXPECT_EQ(stats.waited.count(), stats.acquired + stats.opened);
  EXPECT_EQ(stats.held_for.count(), ended + stats.releasing);
  EXPECT_LE(stats.passed_on, stats.acquired);
}

void ExpectAddsUp(const ClientStats& stats) {
  EXPECT_LE(stats.locks.size(), kNames + 1);
  LockStats all;
  for (const LockStats& lock : stats.locks) {
    SCOPED_TRACE(::testing::PrintToString(lock));
    ExpectAddsUp(lock);
    all += lock;
  }
  ExpectAddsUp(stats.all);
  EXPECT_EQ(all.acquired, stats.all.acquired);
  EXPECT_EQ(all.failed, stats.all.failed);
}

// What the calls of one client said.
struct Said {
  std::atomic<uint64_t> got{0};
  std::atomic<uint64_t> not_got{0};
};

class StatsTurmoil : public ::testing::Test {
 protected:
  Client NewClient() const {
    auto client =
        Client::Connect(absl::StrCat(server_->url(), "?", kUrlOptions),
                        {.observer = std::make_shared<Recorder>(), .stats_names = kNames});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static AcquireOptions AnyOptions(Chance& chance) {
    AcquireOptions options;
    options.wait = absl::Milliseconds(std::array<int, 3>{0, 5, 100}[chance.Pick(3)]);
    if (chance.OneIn(5)) options.lease = kTurmoilLease;
    if (chance.OneIn(8)) {
      std::stop_source stopped;
      stopped.request_stop();
      options.stop = stopped.get_token();
    }
    return options;
  }
  static bool TryStd(SimpleLock& lock) {
    try {
      return lock.try_lock_for(std::chrono::milliseconds(100));
    } catch (const std::system_error&) {
      return false;
    }
  }
  // Some are lost as they are held, and some released by what goes out of scope here.
  template <class Grip>
  static void Use(Chance& chance, Said& said, absl::StatusOr<Grip> result) {
    ++(result.ok() ? said.got : said.not_got);
    if (!result.ok()) return;
    if (chance.OneIn(10)) Rest(2 * kTurmoilLease);
    if (chance.OneIn(2)) result->Release().IgnoreError();
  }

  static void UseOne(Chance& chance, const Client& client, int thread, Said& said) {
    const LockOptions options{.lease = chance.OneIn(4) ? kTurmoilLease : kLease};
    switch (chance.Pick(6)) {
      case 0:
      case 1: {
        SimpleLock lock(client, absl::StrCat("simple ", chance.Pick(2)), options);
        return Use(chance, said, lock.Acquire(AnyOptions(chance)));
      }
      case 2: {  // goes while it is held
        SimpleLock lock(client, absl::StrCat("dropped ", thread), options);
        ++(TryStd(lock) ? said.got : said.not_got);
        return;
      }
      case 3: {
        ReentrantLock lock(client, "reentrant", options);
        AcquireOptions how = AnyOptions(chance);
        if (!how.lease && chance.OneIn(2)) how.owner = Owner(absl::StrCat("owner ", thread));
        return Use(chance, said, lock.Acquire(how));
      }
      case 4: {
        ReentrantReadWriteLock lock(client, "read_write", options);
        return Use(chance, said,
                   chance.OneIn(4) ? lock.Acquire(AnyOptions(chance))
                                   : lock.AcquireRead(AnyOptions(chance)));
      }
      default: {
        Semaphore semaphore(client, "semaphore", kCapacity, {.lease = options.lease});
        return Use(chance, said, semaphore.Acquire(1 + chance.Pick(2), AnyOptions(chance)));
      }
    }
  }

  void Trouble(Chance& chance, const Client& client) {
    switch (chance.Pick(8)) {
      case 0:
        return SimpleLock(client, absl::StrCat("simple ", chance.Pick(2)))
            .ForceRelease()
            .IgnoreError();
      case 1:
        return ReentrantLock(client, "reentrant").ForceRelease().IgnoreError();
      case 2:
        return ReentrantReadWriteLock(client, "read_write").ForceRelease().IgnoreError();
      case 3:
        return Semaphore(client, "semaphore", kCapacity).ForceRelease().IgnoreError();
      case 4:
        server_->Command({"CLIENT", "KILL", "TYPE", chance.OneIn(2) ? "normal" : "pubsub"});
        return;
      case 5:
        server_->Command({"FLUSHALL"});
        return;
      default:
        server_->Stop();
        Rest(absl::Milliseconds(chance.Pick(150)));
        server_->Continue();
    }
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};

TEST_F(StatsTurmoil, NumbersAlwaysAddUpAndInTheEndAreWhatTheCallsSaid) {
  const std::array<Client, 2> clients = {NewClient(), NewClient()};
  std::array<Said, 2> said;
  std::atomic<bool> over{false};
  Crew crew;
  crew.Start(kThreads, [&](int i) {
    Chance chance(static_cast<uint64_t>(i));
    while (!over) UseOne(chance, clients[i % 2], i, said[i % 2]);
  });
  crew.Start(2, [&](int i) {
    std::array<uint64_t, 2> before{};
    while (!over) {
      const ClientStats stats = clients[i].Stats();
      ExpectAddsUp(stats);
      EXPECT_GE(stats.all.acquired, before[0]) << "it only grows";
      EXPECT_GE(stats.all.lost, before[1]) << "it only grows";
      before = {stats.all.acquired, stats.all.lost};
    }
  });
  Chance chance(1);
  const Client troubled = NewClient();
  for (int round = 0; round < support::Scaled(60); ++round) {
    const uint64_t enough = said[0].got + said[1].got + 20;
    EXPECT_TRUE(Await([&] { return said[0].got + said[1].got >= enough; })) << "all are stuck";
    Trouble(chance, troubled);
  }
  over = true;
  crew.Join();
  // Chance need not have brought a loss.
  for (size_t i = 0; i < clients.size(); ++i) {
    SimpleLock doomed(clients[i], absl::StrCat("doomed ", i));
    const auto lease = doomed.Acquire({.wait = kPatience});
    ASSERT_OK(lease);
    ++said[i].got;
    EXPECT_TRUE(Await([&] { return doomed.ForceRelease().ok() && !lease->valid(); }));
  }
  for (size_t i = 0; i < clients.size(); ++i) {
    const LockStats all = clients[i].Stats().all;
    SCOPED_TRACE(::testing::PrintToString(all));
    EXPECT_EQ(all.held + all.waiting + all.permits, 0);
    EXPECT_EQ(all.busy + all.cancelled + all.failed, said[i].not_got);
    // A hold that was over before its thread ran again is lost, and the call goes on.
    EXPECT_GE(all.acquired, said[i].got);
    EXPECT_LE(all.acquired, said[i].got + all.lost);
    EXPECT_GT(all.lost, 0);
    EXPECT_EQ(all.misused, 0);
  }
}

}  // namespace
}  // namespace redlatch::conformance
