// What a process gives back when it ends although its clients were not destroyed.
#include <thread>

#include "tests/support/child_entry.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// How long exit() may take, on a busy machine.
constexpr absl::Duration kExits = absl::Seconds(2);

class Exit : public ::testing::Test {
 protected:
  bool IsFree(const std::string& key = "lock") { return server_->Integer({"EXISTS", key}) == 0; }

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
  return 0;
}

TEST_F(Exit, GivesBackTurn) {
  std::vector<std::unique_ptr<support::Child>> children;
  for (int i = 0; i < 5; ++i) {
    children.push_back(support::SpawnChild("EndsInItsTurn", {server_->url()}));
  }
  for (const auto& each : children) ASSERT_EQ(each->pipe().ReadLine(), "ready");
  const absl::Duration took = TimeOf([&] {
    for (const auto& each : children) each->pipe().WriteLine("go");
    for (const auto& each : children) EXPECT_EQ(each->Wait().code, 0);
  });
  EXPECT_TRUE(IsFree());
  EXPECT_LT(took, absl::Seconds(4)) << "a claim of each would be 250 ms or more";
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
  const auto child = support::SpawnChild("EndsWhileItWaits", {server_->url(), kind});
  ASSERT_EQ(child->pipe().ReadLine(), "waits");
  ASSERT_TRUE(Await([&] { return waiting() == 1; }));
  child->pipe().WriteLine("end");
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_EQ(waiting(), 0);
}

REDLATCH_CHILD(EndsWithCachedLock) {
  static Client client = Connect(args.at(0));
  static SimpleLock lock(client, "lock",
                         {.lease = absl::Minutes(1), .cache_for = absl::Minutes(1)});
  if (args.at(1) == "leaked") {
    new Client(client);
    new SimpleLock(client, "lock");
  }
  lock.lock();
  lock.unlock();
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
INSTANTIATE_TEST_SUITE_P(, ExitWithCachedLock, testing::Values("static", "leaked", "callback"),
                         [](const auto& how) { return std::string(how.param); });

TEST_P(ExitWithCachedLock, GivesItBack) {
  const auto child = support::SpawnChild("EndsWithCachedLock", {server_->url(), GetParam()});
  ASSERT_EQ(child->pipe().ReadLine(), "cached");
  EXPECT_FALSE(IsFree());
  child->pipe().WriteLine("end");
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_TRUE(IsFree());
}

TEST_F(Exit, ForkedChildGivesNothingBack) {
  const auto child = support::SpawnChild("EndsWithCachedLock", {server_->url(), "forks"});
  ASSERT_EQ(child->pipe().ReadLine(), "cached");
  EXPECT_FALSE(IsFree());
  child->pipe().WriteLine("end");
  EXPECT_EQ(child->Wait().code, 0);
  EXPECT_TRUE(IsFree());
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
  const auto child = support::SpawnChild("EndsWithSilentServer", {server_->url()});
  ASSERT_EQ(child->pipe().ReadLine(), "cached");
  ASSERT_TRUE(Await([&] { return other.Inspect()->waiters.size() == 1; }));
  server_->Stop();
  const absl::Duration took = TimeOf([&] {
    child->pipe().WriteLine("end");
    EXPECT_TRUE(child->WaitFor(kExits).has_value());
  });
  server_->Continue();
  EXPECT_LT(took, kExits);
  EXPECT_TRUE(Await([&] { return IsFree(); }, absl::Seconds(3))) << "its bytes were written";
  EXPECT_TRUE(Await([&] { return other.Inspect()->waiters.empty(); }, absl::Seconds(3)));
}

}  // namespace
}  // namespace redlatch
