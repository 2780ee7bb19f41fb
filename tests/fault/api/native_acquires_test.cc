// The native first step, SET ... NX, sees no queue and no tombstone. It overtakes no waiter, and if
// it comes late, the lock is soon free again. REDLATCH_FULL_BARS=1: up to 30 s late. A late script
// is refused if its client gave it up, and otherwise makes its client the owner.
#include <csignal>

#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

using support::TcpProxy;

constexpr absl::Duration kSoon = absl::Milliseconds(2500);

struct Terms {
  const char* name;
  LockOptions options;
  AcquireOptions how = {};
  bool native = true;
};

const Terms kTerms[] = {
    {"default", {}},
    {"short lease", {.lease = absl::Seconds(1)}},
    {"long lease", {.lease = absl::Hours(1)}},
    {"at_most", {.at_most = absl::Minutes(1)}},
    {"grace", {.grace = absl::Minutes(10)}, {}, false},
    {"stop_margin", {.stop_margin = absl::Seconds(15)}, {}, false},
    {"at_least", {}, {.at_least = absl::Milliseconds(500)}, false},
    {"script", {.lease = absl::Seconds(1), .stop_margin = absl::Milliseconds(100)}, {}, false},
};

enum class Asker { kGivesUp, kWaits, kExits, kKilled };
enum class Other { kNone, kHolds, kWaits };

// Asks for a lock once its bytes to the server are held back.
REDLATCH_CHILD(LateAsker) {
  const Client client = Connect(args.at(0));
  const Terms& terms = kTerms[std::stoi(args.at(2))];
  const auto asker = static_cast<Asker>(std::stoi(args.at(3)));
  SimpleLock warm(client, "warm " + args.at(1), terms.options);
  warm.lock();
  warm.unlock();
  SimpleLock lock(client, args.at(1), terms.options);
  parent.WriteLine("ready");
  parent.ReadLine(absl::Minutes(5));  // all others start first
  const bool waits = asker == Asker::kWaits || asker == Asker::kKilled;
  const absl::Duration wait = waits ? absl::Minutes(1) : absl::Milliseconds(20);
  const base::Instant until = base::Now() + wait;
  bool held = false;
  while (!held) {
    try {
      if (terms.how.at_least > absl::ZeroDuration()) {
        AcquireOptions how = terms.how;
        how.wait = wait;
        held = lock.Acquire(how).ok();
      } else if (lock.try_lock_for(absl::ToChronoNanoseconds(wait))) {
        held = true;
        lock.unlock();
      }
    } catch (const std::system_error&) {  // the server is silent
    }
    if (until <= base::Now()) break;
  }
  if (asker == Asker::kExits) return 0;
  parent.WriteLine(held ? "held" : "gave up");
  parent.ReadLine(absl::Minutes(2));
  return 0;
}

struct LateNativeAcquire : ::testing::TestWithParam<absl::Duration> {
  struct Case {
    const Terms& terms;
    const Asker asker;
    const Other other;
    const absl::Duration bound;  // so soon the lock is free after its last use
    const std::string name;      // of the lock
    std::unique_ptr<TcpProxy> proxy;
    std::unique_ptr<support::Child> child;
    base::Instant last_used;
    base::Instant last_taken = {};
  };

  void MakeCases() {
    for (size_t i = 0; i < std::size(kTerms); ++i) {
      for (const Asker asker : {Asker::kGivesUp, Asker::kWaits, Asker::kExits, Asker::kKilled}) {
        // The server cannot know that a client has ended, so its script makes it the owner, for a
        // lease. These cases have a short one.
        const bool script =
            !kTerms[i].native && (asker == Asker::kExits || asker == Asker::kKilled);
        if (script && absl::Seconds(1) < kTerms[i].options.lease) continue;
        absl::Duration bound = kSoon + kTerms[i].how.at_least;
        if (script) bound += kTerms[i].options.lease;
        for (const Other other : {Other::kNone, Other::kHolds, Other::kWaits}) {
          auto proxy = std::make_unique<TcpProxy>(support::TcpProxyOptions{server_->port()});
          const std::string name = absl::StrCat(kTerms[i].name, ", asker ", static_cast<int>(asker),
                                                ", other ", static_cast<int>(other));
          auto child = support::SpawnChild("LateAsker", {proxy->url(), name, absl::StrCat(i),
                                                         absl::StrCat(static_cast<int>(asker))});
          cases_.push_back(
              {kTerms[i], asker, other, bound, name, std::move(proxy), std::move(child), {}});
          EXPECT_EQ(cases_.back().child->pipe().ReadLine(), "ready") << name;
        }
      }
    }
  }

  // Notes when each lock was last seen taken.
  void Watch(const std::stop_token& stop) {
    auto connection = support::RawConnection::ToPort(server_->port());
    while (!stop.stop_requested()) {
      for (Case& its : cases_) {
        if (connection.Command({"EXISTS", its.name}).integer == 1) its.last_taken = base::Now();
      }
      Sleep(absl::Milliseconds(5));
    }
  }

  // Takes the lock as another client that waits.
  void Wait(Case& its) {
    const base::Instant began = base::Now();
    absl::StatusOr<Lease> lease =
        SimpleLock(client_, its.name).Acquire({.wait = absl::Seconds(30)});
    ASSERT_TRUE(lease.ok()) << its.name << ": " << lease.status();
    EXPECT_LT(base::Now() - began, its.bound) << its.name;
    EXPECT_EQ(lease->Release(), absl::OkStatus()) << its.name;
    its.last_used = std::max(its.last_used, base::Now());
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const Client client_ = Connect(server_->url());
  std::deque<Case> cases_;
};

TEST_P(LateNativeAcquire, LeavesTheLockFreeSoonAndHurtsNoHold) {
  MakeCases();
  std::deque<Lease> holds;
  for (Case& its : cases_) {
    its.proxy->Hold(support::Direction::kToServer);
    its.child->pipe().WriteLine("go");
    // One that exits may be gone, and its connection closed, before this looks.
    EXPECT_TRUE(its.asker == Asker::kExits ||
                Await([&] { return its.proxy->stats().bytes_waiting > 0; }))
        << its.name;
    if (its.asker == Asker::kKilled) its.child->Kill();
    if (its.other != Other::kHolds) continue;
    AcquireOptions how = its.terms.how;
    how.wait = absl::ZeroDuration();
    absl::StatusOr<Lease> lease = SimpleLock(client_, its.name).Acquire(how);
    ASSERT_TRUE(lease.ok()) << its.name << ": " << lease.status();
    holds.push_back(*std::move(lease));
  }
  Sleep(GetParam());

  std::jthread watcher([&](const std::stop_token& stop) { Watch(stop); });
  std::deque<std::future<void>> waiters;
  for (Case& its : cases_) {
    its.last_used = base::Now();
    its.proxy->Heal();
    if (its.other != Other::kWaits) continue;
    waiters.push_back(std::async(std::launch::async, [&] { Wait(its); }));
  }
  for (Case& its : cases_) {
    EXPECT_TRUE(its.proxy->Await([](const auto& now) { return now.bytes_waiting == 0; }));
  }
  // The server has executed the late commands, since it has answered later ones twice.
  for (int i = 0; i < 2; ++i) server_->Do({"PING"});
  auto hold = holds.begin();
  for (Case& its : cases_) {
    if (its.other != Other::kHolds) continue;
    EXPECT_TRUE(hold->valid()) << its.name;
    EXPECT_EQ(hold->Release(), absl::OkStatus()) << its.name;
    its.last_used = base::Now();
    ++hold;
  }
  for (std::future<void>& waiter : waiters) waiter.get();
  for (Case& its : cases_) {
    if (its.asker != Asker::kWaits) continue;
    EXPECT_EQ(its.child->pipe().ReadLine(absl::Seconds(30)), "held") << its.name;
    its.last_used = std::max(its.last_used, base::Now());
  }
  for (const Case& its : cases_) {
    EXPECT_TRUE(Await([&] { return server_->Integer({"EXISTS", its.name}) == 0; })) << its.name;
  }
  Sleep(absl::Milliseconds(200));  // none is taken again
  watcher.request_stop();
  watcher.join();
  int late = 0;
  for (const Case& its : cases_) {
    const absl::Duration taken = its.last_taken - its.last_used;
    EXPECT_LT(taken, its.bound) << its.name;
    EXPECT_EQ(server_->Integer({"EXISTS", its.name}), 0) << its.name;
    const bool alone = its.asker == Asker::kKilled && its.other == Other::kNone;
    if (its.terms.native && alone && taken > absl::Milliseconds(500)) ++late;
  }
  EXPECT_GT(late, 0) << "no native command came late";
}

std::vector<absl::Duration> Delays() {
  std::vector<absl::Duration> delays;
  for (const int ms : {100, 300, 1000, 3000}) delays.push_back(absl::Milliseconds(ms));
  if (support::FullBars()) delays.insert(delays.end(), {absl::Seconds(10), absl::Seconds(30)});
  return delays;
}

INSTANTIATE_TEST_SUITE_P(Promises, LateNativeAcquire, ::testing::ValuesIn(Delays()),
                         [](const auto& each) {
                           return absl::StrCat("By", absl::ToInt64Milliseconds(each.param), "Ms");
                         });

struct NativeAcquire : ::testing::Test {
  static std::string Queue(const std::string& name) {
    return support::AuxiliaryKey(name, "simple.queue");
  }
  bool AwaitQueued(const std::string& name) {
    return Await([&] { return server_->Integer({"ZCARD", Queue(name)}) == 1; });
  }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
  const absl::Duration time_ = absl::Seconds(support::FullBars() ? 4 : 1);
};

TEST_F(NativeAcquire, OvertakesNoMultiLockThatWaits) {
  const Client client = Connect(server_->url());
  auto second = Must(SimpleLock(client, "b").Acquire());
  std::atomic<int> overtaken = 0;
  std::atomic<bool> granted = false;
  std::jthread other([&](const std::stop_token& stop) {
    const Client its_client = Connect(server_->url());
    SimpleLock first(its_client, "a");
    EXPECT_TRUE(AwaitQueued("a"));
    while (!stop.stop_requested()) {
      if (!first.try_lock()) continue;
      if (!granted) ++overtaken;
      first.unlock();
    }
  });
  std::jthread waiter([&] {
    MultiLock both(Connect(server_->url()), {"a", "b"});
    const auto lease = Must(both.Acquire({.wait = absl::Seconds(30)}));
    granted = true;
  });
  EXPECT_TRUE(AwaitQueued("a"));
  Sleep(time_);
  EXPECT_EQ(overtaken, 0);
  EXPECT_EQ(second.Release(), absl::OkStatus());
}

}  // namespace
}  // namespace redlatch
