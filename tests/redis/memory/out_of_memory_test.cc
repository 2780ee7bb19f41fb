// One allocation of a call fails: the call succeeds or fails, and the client still works. (If a
// step cannot be undone, in a quorum, the process may end: docs/decisions/0036.)

#include <exception>
#include <new>
#include <ostream>

#include "absl/cleanup/cleanup.h"
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "tests/redis/memory/replaced_new.h"
#include "tests/support/live_testing.h"

namespace redlatch {
namespace {

// The exit codes of a child process.
constexpr int kWorks = 10;     // the allocation failed, and the client works
constexpr int kBroken = 11;    // the allocation failed, and the client does not work
constexpr int kNoneLeft = 12;  // the call made fewer allocations
constexpr int kEnded = 13;     // by std::terminate()

struct Objects {
  explicit Objects(const std::string& url)
      : quorum(url.starts_with("redlock:")),
        cluster(url.starts_with("redis-cluster:")),
        client(Connect(url)),
        other(Connect(url)) {}

  const bool quorum, cluster;
  Client client, other;
  SimpleLock simple{client, "simple"}, their_simple{other, "simple"};
  ReentrantLock reentrant{client, "reentrant"};
  ReentrantReadWriteLock read_write{client, "read_write"};
  Semaphore semaphore{client, "semaphore", 1};
  MultiLock multi{client, {"{names}one", "{names}two"}};
  RedLock red{client, "red"}, their_red{other, "red"};
  CountDownLatch latch{client, "latch", 1000}, open{client, "open", 0};
  ReentrantReadWriteLock their_own{other, "own"};
  const LockOptions caching{.cache_for = absl::Seconds(10)};
  SimpleLock cached{client, "cached", caching}, their_cached{other, "cached", caching};
  ReentrantReadWriteLock cached_read_write{client, "cached_read_write", caching};
  SimpleLock turn{client, "turn", {.turn = absl::Milliseconds(50)}};
  MultiLock apart{{&cached, &their_simple, &turn}};
  redisson::FairLock fair{client, "java_fair"}, their_fair{other, "java_fair"};
  redisson::ReadWriteLock java{client, "java"}, their_java{other, "java"};
  redisson::PermitExpirableSemaphore slots{client, "java_slots"}, their_slots{other, "java_slots"};
  redisson::CountDownLatch done{client, "java_done"};
};

bool Works(Objects& o) {
  const AcquireOptions patient{.wait = absl::Seconds(10)};
  std::vector<bool> works;
  const auto note = [&](const auto& acquired) { works.push_back(acquired.ok()); };
  if (o.quorum) {
    note(o.their_red.Acquire(patient));
    note(o.red.Acquire(patient));
    note(o.their_red.Acquire(patient));
    return std::find(works.begin(), works.end(), false) == works.end();
  }
  note(o.their_simple.Acquire(patient));
  std::thread thread([&] {
    note(o.simple.Acquire(patient));
    note(o.reentrant.Acquire(patient));
    note(o.read_write.Acquire(patient));
    note(o.read_write.AcquireRead(patient));
    note(o.semaphore.Acquire(1, patient));
    note(o.multi.Acquire(patient));
    note(o.latch.CountDown());
    note(o.cached.Acquire(patient));
    note(o.cached_read_write.AcquireRead(patient));
    note(o.cached_read_write.Acquire(patient));
    note(o.turn.Acquire(patient));
  });
  thread.join();
  if (o.slots.AvailablePermits().ok()) {
    (void)o.slots.TrySetPermits(1);
    note(o.their_slots.Acquire(1, patient));
    note(o.slots.Acquire(1, patient));
    note(o.their_fair.Acquire(patient));
    note(o.fair.Acquire(patient));
    note(o.their_java.AcquireWrite(patient));
    note(o.java.AcquireRead(patient));
    note(o.done.CountDown());
  }
  note(o.their_simple.Acquire(patient));
  note(o.their_own.Acquire(patient));
  note(o.their_cached.Acquire(patient));
  if (!o.cluster) note(o.apart.Acquire(patient));
  return std::find(works.begin(), works.end(), false) == works.end();
}

// The child process makes the call, whose k-th allocation fails.
[[noreturn]] void RunChild(const std::string& url, bool warm, int k,
                           const std::function<void(Objects&)>& call) {
  alarm(60);  // a signal ends a child that hangs
  std::set_terminate([] { _exit(kEnded); });
  Objects objects(url);
  if (warm) call(objects);
  allocations_left = k;
  try {
    call(objects);
  } catch (const std::exception&) {  // also kResourceExhausted
  }
  const bool failed = allocations_left == 0;
  allocations_left = -1;
  if (!failed) _exit(kNoneLeft);
  _exit(Works(objects) ? kWorks : kBroken);
}

struct Call {
  const char* name;
  std::function<void(Objects&)> make;
};

std::ostream& operator<<(std::ostream& out, const Call& call) { return out << call.name; }

// Lets each allocation of a call fail, each in a new process; `flush` empties the servers after
// each.
void Sweep(const std::string& url, const std::function<void()>& flush, const Call& call,
           bool may_end = false) {
  for (const bool warm : {false, true}) {
    int works = 0;
    for (int k = 1;; ++k) {
      SCOPED_TRACE(std::string(warm ? "warm, allocation " : "first use, allocation ") +
                   std::to_string(k));
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) RunChild(url, warm, k, call.make);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      flush();
      if (WEXITSTATUS(status) == kNoneLeft) break;
      const bool ended = may_end && WEXITSTATUS(status) == kEnded;
      ASSERT_TRUE(ended || WEXITSTATUS(status) == kWorks) << WEXITSTATUS(status);
      ++works;
    }
    ::testing::Test::RecordProperty(warm ? "warm" : "first_use", works);
    EXPECT_GT(works, 0);
  }
}

const Call kCalls[] = {
    Call{"keep",
         [](Objects& o) {
           for (int i = 0; i < 2; ++i) o.cached.lock(), o.cached.unlock();
           (void)o.cached.Acquire({.lease = absl::Seconds(20)});
         }},
    // What a lock object has taken goes with it, even if its first use failed.
    Call{"own",
         [](Objects& o) {
           ReentrantReadWriteLock own(o.client, "own");
           try {
             if (own.AcquireRead().ok()) return;
           } catch (const std::bad_alloc&) {
           }
           own.lock_shared();
         }},
    Call{"lock", [](Objects& o) { o.simple.lock(), o.simple.unlock(); }},
    Call{"acquire",
         [](Objects& o) {
           if (auto lease = o.simple.Acquire(); lease.ok()) (void)lease->Release();
         }},
    Call{"read_lease",
         [](Objects& o) {
           if (auto lease = o.read_write.AcquireRead(); lease.ok()) (void)lease->Release();
         }},
    Call{"contended",
         [](Objects& o) {
           auto held = o.their_simple.Acquire();
           std::atomic<bool> over{false};
           const std::jthread releases([&] {
             while (o.client.Stats().all.waiting == 0 && !over) std::this_thread::yield();
             held = absl::UnknownError("");
           });
           const absl::Cleanup end = [&] { over = true; };  // before the thread is joined
           o.simple.lock();
           o.simple.unlock();
         }},
    Call{"java_lock", [](Objects& o) { o.fair.lock(), o.fair.unlock(); }},
    Call{"java_contended",
         [](Objects& o) {
           auto held = o.their_fair.Acquire();
           std::atomic<bool> over{false};
           const std::jthread releases([&] {
             while (o.client.Stats().all.waiting == 0 && !over) std::this_thread::yield();
             held = absl::UnknownError("");
           });
           const absl::Cleanup end = [&] { over = true; };
           o.fair.lock();
           o.fair.unlock();
         }},
    Call{"java_timed_out",
         [](Objects& o) {
           const auto held = o.their_java.AcquireWrite();
           if (o.java.try_lock_for(std::chrono::milliseconds(20))) o.java.unlock();
           (void)o.java.AcquireRead({.wait = absl::Milliseconds(20)});
         }},
    Call{"java_read", [](Objects& o) { o.java.lock_shared(), o.java.unlock_shared(); }},
    Call{"java_permits",
         [](Objects& o) {
           (void)o.slots.TrySetPermits(1);
           const auto held = o.their_slots.TryAcquire();
           if (o.slots.try_acquire_for(std::chrono::milliseconds(20))) o.slots.release();
           (void)o.slots.AvailablePermits();
         }},
    Call{"java_latch",
         [](Objects& o) {
           (void)o.done.TrySetCount(1), (void)o.done.Wait({.wait = absl::Milliseconds(20)});
           (void)o.done.CountDown(), (void)o.done.Count();
         }},
    Call{"try_lock",
         [](Objects& o) {
           if (o.simple.try_lock()) o.simple.unlock();
         }},
    Call{"reentrant",
         [](Objects& o) {
           const std::scoped_lock once(o.reentrant);
           const std::scoped_lock again(o.reentrant);
         }},
    Call{"read", [](Objects& o) { o.read_write.lock_shared(), o.read_write.unlock_shared(); }},
    Call{"write", [](Objects& o) { o.read_write.lock(), o.read_write.unlock(); }},
    Call{"semaphore", [](Objects& o) { o.semaphore.acquire(), o.semaphore.release(); }},
    Call{"permit", [](Objects& o) { (void)o.semaphore.Acquire(); }},
    Call{"multi", [](Objects& o) { o.multi.lock(), o.multi.unlock(); }},
    Call{"stop_token",
         [](Objects& o) {
           const std::stop_source source;
           (void)o.simple.Acquire({.stop = source.get_token()});
         }},
    Call{"timed_out",
         [](Objects& o) {
           const auto held = o.their_simple.Acquire();
           if (o.simple.try_lock_for(std::chrono::milliseconds(5))) o.simple.unlock();
           if (o.simple.try_lock()) o.simple.unlock();
         }},
    Call{"keep_reads",
         [](Objects& o) {
           for (int i = 0; i < 2; ++i) {
             o.cached_read_write.lock_shared(), o.cached_read_write.unlock_shared();
           }
           o.cached_read_write.lock(), o.cached_read_write.unlock();
         }},
    Call{"destroyed",
         [](Objects& o) {
           SimpleLock lock(o.client, "a lock that its client caching", o.caching);
           lock.lock(), lock.unlock();
         }},
    Call{"turn",
         [](Objects& o) {
           for (int i = 0; i < 2; ++i) o.turn.lock(), o.turn.unlock();
         }},
    Call{"owner",
         [](Objects& o) {
           const Owner as("an owner whose name is long");
           const auto once = o.reentrant.AcquireAs(as);
           const auto again = o.reentrant.AcquireAs(as);
         }},
    Call{"extend",
         [](Objects& o) {
           auto held = o.simple.Acquire({.lease = absl::Seconds(5)});
           if (held.ok()) (void)held->Extend(absl::Seconds(10)), (void)held->Extend({});
         }},
    Call{"second_reader",
         [](Objects& o) {
           std::atomic<int> step{0};
           const std::jthread reads([&] {
             const auto held = o.read_write.AcquireRead();
             step = 1;
             step.notify_all();
             step.wait(1);
           });
           step.wait(0);
           const absl::Cleanup end = [&] { step = 2, step.notify_all(); };
           o.read_write.lock_shared(), o.read_write.unlock_shared();
         }},
    Call{"lost_lease",
         [](Objects& o) {
           auto held = o.simple.Acquire();
           (void)o.their_simple.ForceRelease();
           if (held.ok()) (void)held->Release();
         }},
    Call{"lost_lock",
         [](Objects& o) {
           const std::scoped_lock held(o.simple);
           (void)o.their_simple.ForceRelease();
         }},
    Call{"apart", [](Objects& o) { o.apart.lock(), o.apart.unlock(); }},
    Call{"apart_lease", [](Objects& o) { (void)o.apart.Acquire(); }},
    Call{"latch", [](Objects& o) { (void)o.latch.CountDown(), o.open.wait(); }}};
constexpr size_t kCallsInAllGroups = 5;  // those at the front of the list

class OutOfMemory : public ::testing::TestWithParam<Call> {};

TEST_P(OutOfMemory, ClientWorksAfterFailedAllocation) {
  const auto server = RedisServer::Start();
  Sweep(
      server->url(), [&] { server->Command({"FLUSHALL"}); }, GetParam());
}

TEST(QuorumOutOfMemory, ClientWorksOrProcessEnds) {
  QuorumGroup servers(3);
  const auto flush = [&] {
    for (size_t i = 0; i < servers.size(); ++i) servers[i].Command({"FLUSHALL"});
  };
  Sweep(servers.url(), flush, {"lock", [](Objects& o) { o.red.lock(), o.red.unlock(); }}, true);
}

class ClusterOutOfMemory : public OutOfMemory {};

TEST_P(ClusterOutOfMemory, ClientWorksAfterFailedAllocation) {
  const auto server = support::StartClusterOfOne();
  Sweep(
      "redis-cluster://127.0.0.1:" + std::to_string(server->port()),
      [&] { server->Command({"FLUSHALL"}); }, GetParam());
}

const auto kNameOfCall = [](const auto& call) { return call.param.name; };
INSTANTIATE_TEST_SUITE_P(Calls, OutOfMemory, ::testing::ValuesIn(kCalls), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(Calls, ClusterOutOfMemory,
                         ::testing::ValuesIn(kCalls, kCalls + kCallsInAllGroups), kNameOfCall);

}  // namespace
}  // namespace redlatch
