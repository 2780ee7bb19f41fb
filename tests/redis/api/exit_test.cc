// What a process gives back when it ends although its clients were not destroyed.
#include "tests/support/authority.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// How long exit() may take, on a busy machine.
constexpr absl::Duration kExits = absl::Seconds(30);

using support::Child;

// Starts a process, and waits until it prints `word`.
std::unique_ptr<Child> Start(const std::string& entry, const std::vector<std::string>& args,
                             const std::string& word) {
  auto child = support::SpawnChild(entry, args);
  EXPECT_EQ(child->pipe().ReadLine(), word);
  return child;
}
void End(Child& child) {
  child.pipe().WriteLine("end");
  EXPECT_EQ(child.Wait().code, 0);
}

struct Exit : ::testing::Test {
  bool IsFree() { return server_->Integer({"EXISTS", "lock", "redlatch:rw:{lock}:readers"}) == 0; }
  // On a busy machine the server executes the last release a little later. No lease ends so soon.
  bool IsFreeSoon() {
    return Await([&] { return IsFree(); }, absl::Seconds(5));
  }
  // The server has executed all that ended processes sent, and has no client but the test's.
  bool AwaitAlone() { return server_->AwaitInfo("connected_clients", "1"); }

  const std::unique_ptr<RedisServer> server_ = RedisServer::Start();
};

// One of several processes that use a lock in turns of 5 s. It ends in its turn.
REDLATCH_CHILD(EndsInItsTurn) {
  static const auto* const client = new Client(Connect(args.at(0)));
  static auto* const lock =
      new SimpleLock(*client, "lock", {.lease = absl::Minutes(1), .turn = absl::Seconds(5)});
  lock->lock();
  lock->unlock();
  parent.WriteLine("ready");
  parent.ReadLine();
  for (int i = 0; i < 2000; ++i) {
    lock->lock();
    lock->unlock();
  }
  if (args.at(1) == "_exit") _exit(0);
  return 0;
}

struct ExitInTurn : Exit {
  // How long it takes until five such processes have ended.
  absl::Duration TimeOfAll(const std::string& way) {
    std::vector<std::unique_ptr<support::Child>> children;
    for (int i = 0; i < 5; ++i) {
      children.push_back(support::SpawnChild("EndsInItsTurn", {server_->url(), way}));
    }
    for (const auto& each : children) EXPECT_EQ(each->pipe().ReadLine(), "ready");
    return TimeOf([&] {
      for (const auto& each : children) each->pipe().WriteLine("go");
      for (const auto& each : children) EXPECT_EQ(each->Wait().code, 0);
    });
  }
};

TEST_F(ExitInTurn, GivesBackTurn) {
  EXPECT_LT(TimeOfAll("exit"), absl::Seconds(50)) << "less than a lease";
  ASSERT_TRUE(AwaitAlone());
  EXPECT_TRUE(IsFree()) << "a claim of the last one would not have ended yet";
}

TEST_F(ExitInTurn, DelaysOthersForOneClaimAtMostIfSudden) {
  EXPECT_LT(TimeOfAll("_exit"), absl::Seconds(50)) << "less than a lease";
}

// A thread waits when the process ends, and is never joined.
REDLATCH_CHILD(EndsWhileItWaits) {
  static const auto* const client = new Client(Connect(args.at(0)));
  std::thread([kind = args.at(1)] {
    if (kind == "simple") return (new SimpleLock(*client, "lock"))->lock();
    if (kind == "reentrant") return (new ReentrantLock(*client, "lock"))->lock();
    if (kind == "semaphore") return (new Semaphore(*client, "lock", 1))->acquire();
    (new Election(*client, "lock"))->Campaign().IgnoreError();
  }).detach();
  parent.WriteLine("waits");
  parent.ReadLine();
  return 0;
}

class ExitOf : public Exit, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ExitOf, testing::Values("simple", "reentrant", "semaphore", "election"),
                         [](const auto& kind) { return std::string(kind.param); });

TEST_P(ExitOf, WaiterLeavesQueue) {
  const std::string kind = GetParam();
  const Client client = Connect(server_->url());
  SimpleLock simple(client, "lock");
  ReentrantLock reentrant(client, "lock");
  Semaphore semaphore(client, "lock", 1);
  Election election(client, "lock");
  std::optional<Lease> held;
  std::optional<Permit> permit;
  std::optional<Leadership> leads;
  if (kind == "simple") held = *simple.Acquire();
  if (kind == "reentrant") held = *reentrant.Acquire();
  if (kind == "semaphore") permit = *semaphore.Acquire();
  if (kind == "election") leads = *election.Campaign();
  const auto waiting = [&] {
    if (kind == "simple") return simple.Inspect()->waiters.size();
    if (kind == "reentrant") return reentrant.Inspect()->waiters.size();
    if (kind == "semaphore") return semaphore.Inspect()->waiters.size();
    return static_cast<size_t>(server_->Integer({"ZCARD", "redlatch:2:{lock}:election.queue"}));
  };
  const auto child = Start("EndsWhileItWaits", {server_->url(), kind}, "waits");
  ASSERT_TRUE(Await([&] { return waiting() == 1; }));
  End(*child);
  EXPECT_TRUE(Await([&] { return waiting() == 0; }));
}

REDLATCH_CHILD(EndsWithCachedLock) {
  support::LeaksOnPurpose();
  const LockOptions cached{.lease = absl::Minutes(1), .cache_for = absl::Minutes(1)};
  static Client client = Connect(args.at(0));
  static SimpleLock lock(client, "lock", cached);
  if (args.at(1) == "leaked") {
    new Client(client);
    new SimpleLock(client, "lock");
  }
  if (args.at(1) == "reads") {
    const auto reads = (new ReentrantReadWriteLock(client, "lock", cached))->AcquireRead();
  } else {
    lock.lock();
    lock.unlock();
  }
  if (args.at(1) == "forks") {
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    int status = 0;
    waitpid(child, &status, 0);
    parent.WriteLine(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "cached" : "crashed");
  } else {
    parent.WriteLine("cached");
  }
  parent.ReadLine();
  if (args.at(1) != "callback") return 0;
  SimpleLock other(client, "other");
  other.AcquireAsync({}, [](const absl::StatusOr<Lease>&) { std::exit(0); });
  std::this_thread::sleep_for(std::chrono::seconds(10));
  return 1;
}

class ExitWithCachedLock : public Exit, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ExitWithCachedLock,
                         testing::Values("static", "leaked", "reads", "callback", "forks"),
                         [](const auto& how) { return std::string(how.param); });

TEST_P(ExitWithCachedLock, GivesItBack) {
  const auto child = Start("EndsWithCachedLock", {server_->url(), GetParam()}, "cached");
  EXPECT_FALSE(IsFree());
  End(*child);
  EXPECT_TRUE(IsFreeSoon());
}

// Threads stay in their sections, and others come and go.
REDLATCH_CHILD(EndsWhileThreadsHold) {
  support::LeaksOnPurpose();
  static const auto* const client = new Client(Connect(args.at(0)));
  const LockOptions options{.lease = absl::Minutes(1)};
  static auto* const simple = new SimpleLock(*client, "simple", options);
  static auto* const reentrant = new ReentrantLock(*client, "reentrant", options);
  static auto* const read_write = new ReentrantReadWriteLock(*client, "read_write", options);
  static auto* const semaphore =
      new Semaphore(*client, "semaphore", 2, {.lease = absl::Minutes(1)});
  static auto* const busy = new ReentrantLock(*client, "busy");
  static std::atomic<int> holding{0};
  const auto start = [](auto take) {
    std::thread([take] {
      take();
      ++holding;
      std::this_thread::sleep_for(std::chrono::minutes(1));
    }).detach();
  };
  start([] { simple->lock(); });
  start([] { reentrant->lock(); });
  start([] { read_write->lock_shared(); });
  start([] { semaphore->acquire(); });
  start([] { new Lease(*SimpleLock(*client, "lease", {.lease = absl::Minutes(1)}).Acquire()); });
  for (int i = 0; i < 3; ++i) {
    std::thread([] {
      for (;;) {
        busy->lock();
        busy->unlock();
      }
    }).detach();
  }
  if (!Await([] { return holding == 5; })) return 1;
  parent.WriteLine("holding");
  parent.ReadLine();
  return 0;
}

TEST_F(Exit, KeepsWhatThreadsHold) {
  const auto child = Start("EndsWhileThreadsHold", {server_->url()}, "holding");
  EXPECT_LT(TimeOf([&] { End(*child); }), kExits);
  const Client client = Connect(server_->url());
  EXPECT_EQ(SimpleLock(client, "simple").Inspect()->holders.size(), 1);
  EXPECT_EQ(SimpleLock(client, "lease").Inspect()->holders.size(), 1);
  EXPECT_EQ(ReentrantLock(client, "reentrant").Inspect()->holders.size(), 1);
  EXPECT_EQ(ReentrantReadWriteLock(client, "read_write").Inspect()->holders.size(), 1);
  EXPECT_EQ(Semaphore(client, "semaphore", 2).Inspect()->holders.size(), 1);
  // One of the threads that came and went may have the lock. The others ask no more.
  const ReentrantLock busy(client, "busy");
  EXPECT_TRUE(Await([&] { return busy.Inspect()->waiters.empty(); }));
}

// A client keeps a permit for as long as its turn lasts.
REDLATCH_CHILD(EndsWithCachedPermit) {
  static const auto* const client = new Client(Connect(args.at(0)));
  static auto* const semaphore =
      new Semaphore(*client, "lock", 2, {.lease = absl::Minutes(1), .turn = absl::Seconds(20)});
  for (int i = 0; i < 100; ++i) {
    semaphore->acquire();
    semaphore->release();
  }
  parent.WriteLine("cached");
  parent.ReadLine();
  for (int i = 0; i < 100; ++i) {
    semaphore->acquire();
    semaphore->release();
  }
  return 0;
}

TEST_F(Exit, GivesBackCachedPermit) {
  const auto child = Start("EndsWithCachedPermit", {server_->url()}, "cached");
  End(*child);
  ASSERT_TRUE(AwaitAlone());
  EXPECT_EQ(server_->Integer({"ZCARD", support::AuxiliaryKey("lock", "semaphore.permits")}), 0);
}

TEST_F(Exit, GivesBackInClusterAndOverTls) {
  support::Authority authority;
  const auto tls = RedisServer::Start(
      {.tls = support::ServerTls{.cert = authority.Certify(), .ca = authority.file()}});
  const auto cluster = support::StartClusterOfOne();
  for (const std::string& url :
       {tls->tls_url(), absl::StrCat("redis-cluster://127.0.0.1:", cluster->port())}) {
    SCOPED_TRACE(url);
    const auto child = Start("EndsWithCachedLock", {url, "static"}, "cached");
    const Client client = Connect(url);
    SimpleLock lock(client, "lock");
    EXPECT_EQ(lock.Inspect()->holders.size(), 1);
    End(*child);
    EXPECT_TRUE(Await([&] { return lock.Inspect()->holders.empty(); }));
  }
}

REDLATCH_CHILD(EndsWhileQuorumServesIt) {
  static const auto* const client = new Client(Connect(args.at(0)));
  static auto* const turns = new RedLock(*client, "turns", {.turn = absl::Seconds(5)});
  std::thread([] { (new RedLock(*client, "lock"))->lock(); }).detach();
  turns->lock();
  turns->unlock();
  parent.WriteLine("waits");
  parent.ReadLine();
  for (int i = 0; i < 100; ++i) {
    turns->lock();
    turns->unlock();
  }
  return 0;
}

TEST(ExitOfQuorumClient, GivesBackTurnAndPlaceInQueue) {
  QuorumGroup group(3);
  const Client client = Connect(group.url());
  RedLock lock(client, "lock");
  RedLock turns(client, "turns");
  const Lease held = *lock.Acquire();
  const auto child = Start("EndsWhileQuorumServesIt", {group.url()}, "waits");
  ASSERT_TRUE(Await([&] { return lock.Inspect()->waiters.size() == 1; }));
  EXPECT_LT(TimeOf([&] { End(*child); }), kExits);
  // Two of three may have answered. The third one does so soon.
  EXPECT_TRUE(Await([&] { return lock.Inspect()->waiters.empty(); }));
  EXPECT_TRUE(turns.Acquire({.wait = absl::Seconds(1.5)}).ok()) << "a claim is longer";
}

REDLATCH_CHILD(EndsWithSilentServer) {
  static const auto* const client = new Client(Connect(args.at(0)));
  std::thread([] { (new SimpleLock(*client, "other"))->lock(); }).detach();
  static auto* const lock =
      new SimpleLock(*client, "lock", {.lease = absl::Minutes(1), .cache_for = absl::Minutes(1)});
  lock->lock();
  lock->unlock();
  parent.WriteLine("cached");
  parent.ReadLine();
  return 0;
}

TEST_F(Exit, DoesNotWaitForSilentServer) {
  const Client client = Connect(server_->url());
  SimpleLock other(client, "other");
  const std::optional<Lease> held = *other.Acquire();
  const auto child =
      Start("EndsWithSilentServer", {server_->url() + "?command_timeout=60s"}, "cached");
  ASSERT_TRUE(Await([&] { return other.Inspect()->waiters.size() == 1; }));
  server_->Stop();
  const absl::Duration took = TimeOf([&] {
    child->pipe().WriteLine("end");
    EXPECT_TRUE(child->WaitFor(kExits).has_value());
  });
  server_->Continue();
  EXPECT_LT(took, kExits);
  EXPECT_TRUE(Await([&] { return IsFree(); })) << "its bytes were written";
  EXPECT_TRUE(Await([&] { return other.Inspect()->waiters.empty(); }));
}

}  // namespace
}  // namespace redlatch
