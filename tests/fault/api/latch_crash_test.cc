// Processes that wait for a latch, or count it down, and are killed or stopped; and a server that
// is killed under them. Nobody counts twice, nobody holds up others, and nothing stays but the
// latch.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"
#include "src/base/clock.h"
#include "src/base/parker.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/redis_server.h"
#include "tests/support/test_scale.h"

namespace redlatch {
namespace {

using support::Await;

constexpr absl::Duration kLatchPatience = absl::Seconds(10);
// The default; a waiter's heartbeats are 10 s apart then.
constexpr absl::Duration kLongTtl = absl::Hours(24);
// A waiter's place in the queue ends a ttl after its last heartbeat, of which there are three.
constexpr absl::Duration kShortTtl = absl::Seconds(1);
constexpr absl::Duration kSoon = absl::Seconds(1);

// args: url, count, ttl in ms. Waits for each line, and does what it says.
REDLATCH_CHILD(LatchUser) {
  const Client client = *Client::Connect(args.at(0));
  CountDownLatch latch(client, "latch", std::atoll(args.at(1).c_str()),
                       {.ttl = absl::Milliseconds(std::atoll(args.at(2).c_str()))});
  parent.WriteLine("ready");
  while (const auto order = parent.ReadLine(absl::Hours(1))) {
    if (*order == "wait") {
      const absl::Status status = latch.Wait();
      parent.WriteLine(
          absl::StrCat(absl::StatusCodeToString(status.code()), " ", base::Now().nanos()));
    } else {
      const absl::Status status = latch.CountDown(1, *order);
      parent.WriteLine(absl::StatusCodeToString(status.code()));
    }
  }
  return 0;
}

class LatchCrash : public ::testing::Test {
 protected:
  // Each key has a TTL: what stays does not stay for ever.
  ~LatchCrash() override {
    for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
      EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
    }
  }

  void Start(support::RedisServerOptions options) {
    server_.reset();
    server_ = support::RedisServer::Start(std::move(options));
  }
  std::unique_ptr<support::Child> Spawn(int64_t count, absl::Duration ttl = kLongTtl) {
    auto child = support::SpawnChild("LatchUser", {server_->url(), absl::StrCat(count),
                                                   absl::StrCat(absl::ToInt64Milliseconds(ttl))});
    EXPECT_EQ(child->pipe().ReadLine(), "ready");
    return child;
  }
  std::unique_ptr<support::Child> SpawnWaiter(int64_t count, absl::Duration ttl = kLongTtl) {
    const int64_t before = Queued();
    auto child = Spawn(count, ttl);
    child->pipe().WriteLine("wait");
    EXPECT_TRUE(Await([&] { return Queued() == before + 1; }));
    return child;
  }
  // A waiter came back well, and when.
  static base::Instant ExpectPassed(support::Child& waiter) {
    const std::string words = waiter.pipe().ReadLine().value_or("nothing 0");
    EXPECT_EQ(words.substr(0, 3), "OK ") << words;
    return base::Instant::FromNanos(std::atoll(words.substr(words.find(' ')).c_str()));
  }
  int64_t Queued() { return server_->Integer({"ZCARD", "redlatch:2:{latch}:latch.queue"}); }
  int64_t Stored() { return std::atoll(server_->Text({"HGET", "latch", "count"}).c_str()); }

  std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
};

TEST_F(LatchCrash, OfWaitersHoldsUpNobodyElse) {
  std::vector<std::unique_ptr<support::Child>> waiters;
  for (int i = 0; i < 4; ++i) waiters.push_back(SpawnWaiter(1));
  waiters[0]->Kill();
  waiters[2]->Kill();
  const Client client = *Client::Connect(server_->url());
  CountDownLatch latch(client, "latch", 1);
  EXPECT_EQ(latch.Count().value_or(-1), 1);
  const base::Instant arrived = base::Now();
  latch.count_down();
  EXPECT_LT(ExpectPassed(*waiters[1]) - arrived, kSoon);
  EXPECT_LT(ExpectPassed(*waiters[3]) - arrived, kSoon);
  EXPECT_EQ(server_->Integer(
                {"EXISTS", "redlatch:2:{latch}:latch.queue", "redlatch:2:{latch}:latch.waiters"}),
            0);
}

// More clients than one script tells; their next heartbeats are 10 s away.
TEST_F(LatchCrash, OfWhoOpenedItRightAfterKeepsNobodyWaiting) {
  constexpr int kClients = 150;
  std::vector<std::thread> waiters;
  std::atomic<int> passed{0};
  for (int i = 0; i < kClients; ++i) {
    waiters.emplace_back([&] {
      const Client client = *Client::Connect(server_->url());
      CountDownLatch latch(client, "latch", 1);
      if (latch.Wait({.wait = kLatchPatience}).ok()) ++passed;
    });
  }
  EXPECT_TRUE(Await([&] { return Queued() == kClients; }));
  const auto opener = Spawn(1);
  opener->pipe().WriteLine("job");
  EXPECT_EQ(opener->pipe().ReadLine(), "OK");
  opener->Kill();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(passed, kClients);
}

TEST_F(LatchCrash, OfAllWaitersLeavesNothingInTheQueueForLong) {
  const auto first = SpawnWaiter(1, kShortTtl);
  const auto second = SpawnWaiter(1, kShortTtl);
  first->Kill();
  second->Kill();
  EXPECT_TRUE(Await([&] { return server_->LockKeys().empty(); })) << "the latch as well";
}

TEST_F(LatchCrash, OfOneWaiterDoesNotKeepItsPlaceWhileAnotherWaits) {
  const auto doomed = SpawnWaiter(1, kShortTtl);
  const auto waiter = SpawnWaiter(1, kShortTtl);
  doomed->Kill();
  const auto counter = Spawn(1, kShortTtl);
  counter->pipe().WriteLine("job");
  EXPECT_EQ(counter->pipe().ReadLine(), "OK");
  ExpectPassed(*waiter);
  EXPECT_EQ(Queued(), 0);
}

TEST_F(LatchCrash, OfWhoMadeItDoesNotUnmakeIt) {
  const auto maker = Spawn(3);
  maker->pipe().WriteLine("first");
  EXPECT_EQ(maker->pipe().ReadLine(), "OK");
  maker->Kill();
  const auto other = Spawn(3);
  for (const char* id : {"first", "second"}) {
    other->pipe().WriteLine(id);
    EXPECT_EQ(other->pipe().ReadLine(), "OK");
  }
  EXPECT_EQ(Stored(), 1);
}

// A job is run again after each crash, until its count_down was answered.
TEST_F(LatchCrash, OfCountersAtRandomCountsEachJobOnce) {
  const int jobs = std::max(6, support::Scaled(24));
  const auto waiter = SpawnWaiter(jobs);
  std::mt19937 random(7);
  int crashes = 0;
  for (int job = 0; job < jobs; ++job) {
    ASSERT_EQ(Stored(), jobs - job);
    bool answered = false;
    while (!answered) {
      const auto worker = Spawn(jobs);
      worker->pipe().WriteLine(absl::StrCat("job ", job));
      if (random() % 2 == 0) {
        const base::Instant until = base::Now() + absl::Microseconds(random() % 1500);
        while (base::Now() < until) {
        }
        worker->Kill();
        ++crashes;
      } else {
        answered = worker->pipe().ReadLine() == "OK";
      }
    }
  }
  EXPECT_GT(crashes, 0);
  ExpectPassed(*waiter);
  EXPECT_EQ(Stored(), 0);
  EXPECT_EQ(server_->Integer({"ZCARD", "redlatch:2:{latch}:latch.counted"}), jobs);
}

TEST_F(LatchCrash, RightAfterTheLastCountStillLetsAllGoOn) {
  const auto waiter = SpawnWaiter(1);
  const auto counter = Spawn(1);
  counter->pipe().WriteLine("job");
  EXPECT_TRUE(Await([&] { return Stored() == 0; }));
  counter->Kill();
  ExpectPassed(*waiter);
  const auto late = Spawn(1);
  late->pipe().WriteLine("wait");
  ExpectPassed(*late);
}

TEST_F(LatchCrash, OfTheServerCountsEachArrivalOnceAndKeepsWaiters) {
  Start({.append_only = true});
  constexpr int kThreads = 4;
  const int each = support::Scaled(300);
  const int64_t total = int64_t{kThreads} * each + 1;
  const auto waiter = SpawnWaiter(total);
  const std::string url = absl::StrCat(server_->url(), "?command_timeout=500ms");
  std::atomic<int> at_work{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      // Lazily: the server may die as soon as it is connected to.
      const Client client = *Client::Connect(
          url, {.connect = ConnectPolicy::kLazy, .unreachable_after = 3 * kLatchPatience});
      CountDownLatch latch(client, "latch", total);
      for (int j = 0; j < each; ++j) {
        const absl::Status status =
            i % 2 == 0 ? latch.CountDown() : latch.CountDown(1, absl::StrCat(i, ":", j));
        EXPECT_TRUE(status.ok()) << status;
      }
      --at_work;
    });
  }
  int crashes = 0;
  for (int64_t before = total; at_work > 0; ++crashes) {
    EXPECT_TRUE(Await([&] { return at_work == 0 || Stored() <= before - each / 2; }));
    server_->Kill();
    server_->Restart();
    before = Stored();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(crashes, 1);
  EXPECT_EQ(Stored(), 1);
  const Client client = *Client::Connect(server_->url());
  CountDownLatch(client, "latch", total).count_down();
  ExpectPassed(*waiter);
}

class LatchPause : public LatchCrash {};

TEST_F(LatchPause, OfAWaiterThatLostItsPlaceMeanwhileStillLetsItGoOn) {
  // Its place in the queue ends meanwhile, and its connections do not.
  const auto waiter = SpawnWaiter(1, kShortTtl);
  const Client client = *Client::Connect(server_->url());
  CountDownLatch latch(client, "latch", 1, {.ttl = kShortTtl});
  waiter->Stop();
  EXPECT_TRUE(Await([&] {
    EXPECT_EQ(latch.Count().value_or(-1), 1);  // keeps it alive
    return Queued() == 0;
  }));
  latch.count_down();
  const base::Instant woken = base::Now();
  waiter->Continue();
  EXPECT_LT(ExpectPassed(*waiter) - woken, kSoon);
}

TEST_F(LatchPause, OfAWaiterWhileItOpensStillLetsItGoOn) {
  const auto waiter = SpawnWaiter(1);
  waiter->Stop();
  const auto counter = Spawn(1);
  counter->pipe().WriteLine("job");
  EXPECT_EQ(counter->pipe().ReadLine(), "OK");
  const base::Instant woken = base::Now();
  waiter->Continue();
  EXPECT_LT(ExpectPassed(*waiter) - woken, kSoon);
}

// The message that waits for it is older than its lease.
TEST_F(LatchPause, OfAWaiterForLongerThanItsLeaseStillLetsItGoOn) {
  const auto other = SpawnWaiter(1, kLongTtl);  // and so the queue stays
  const auto waiter = SpawnWaiter(1, kShortTtl);
  waiter->Stop();
  const auto counter = Spawn(1);
  base::Parker().ParkUntil(base::Now() + 1.5 * kShortTtl);
  ASSERT_EQ(Queued(), 2);
  counter->pipe().WriteLine("job");
  EXPECT_EQ(counter->pipe().ReadLine(), "OK");
  const base::Instant woken = base::Now();
  waiter->Continue();
  EXPECT_LT(ExpectPassed(*waiter) - woken, kSoon);
  ExpectPassed(*other);
}

}  // namespace
}  // namespace redlatch
