// One allocation of a call, or of the library's threads meanwhile, fails: the call succeeds or
// fails, the process goes on, and the client still works.

#include <exception>
#include <iterator>
#include <new>
#include <ostream>

#include "absl/cleanup/cleanup.h"
#include "redlatch/redisson/count_down_latch.h"
#include "redlatch/redisson/fair_lock.h"
#include "redlatch/redisson/fenced_lock.h"
#include "redlatch/redisson/lock.h"
#include "redlatch/redisson/permit_expirable_semaphore.h"
#include "redlatch/redisson/read_write_lock.h"
#include "redlatch/redisson/semaphore.h"
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
  redisson::Lock java_lock{client, "java_lock"};
  redisson::FencedLock fenced{client, "java_fenced"};
  redisson::Semaphore places{client, "java_places"};
  Election election{client, "election"}, their_election{other, "election"};
  SimpleLock brief{client, "brief", {.lease = absl::Milliseconds(90)}};
  std::atomic<bool> broken{false};  // a promise was broken: a callback never came, for example
};

// While it exists, no allocation fails, and none is counted.
struct Spared {
  Spared() = default;
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
  ~Spared() {
    allocations_left = of_caller;
    threads_allocations_left = of_threads;
  }

  const int of_caller = std::exchange(allocations_left, -1);
  const int of_threads = threads_allocations_left.exchange(-1);
};

// If there was no memory for a message, the observer asks at its next heartbeat, 10 s later.
bool AwaitHeartbeat(const std::function<bool()>& condition) {
  return Await(condition, absl::Seconds(20));
}

// Makes a call with a callback, and returns the callback's result; nothing if the call throws.
template <class Result, class Begin>
std::optional<Result> ResultOf(Objects& o, Begin begin) {
  struct Told {
    std::atomic<bool> done{false};
    std::optional<Result> result;
  };
  const auto told = std::make_shared<Told>();
  begin([told](Result its) {
    told->result.emplace(std::move(its));
    told->done = true;
  });
  if (!Await([&] { return told->done.load(); })) o.broken = true;
  return told->done ? std::move(told->result) : std::nullopt;
}

// The lease of an asynchronous acquire.
template <class Lock>
auto AcquireAsync(Objects& o, Lock& lock, const AcquireOptions& how = {}) {
  return ResultOf<absl::StatusOr<Lease>>(
      o, [&](auto told) { lock.AcquireAsync(how, std::move(told)); });
}
template <class Lock>
void AcquireAndReleaseAsync(Objects& o, Lock& lock) {
  auto taken = AcquireAsync(o, lock);
  if (!taken || !taken->ok()) return;
  (void)ResultOf<absl::Status>(o, [&](auto told) { (*taken)->ReleaseAsync(std::move(told)); });
}

// Makes a call while the other client has the lock, which it releases once the call waits.
template <class Lock>
void WhileTheyHave(Lock& theirs, Objects& o, const std::function<void()>& call) {
  auto held = theirs.Acquire();
  std::atomic<bool> over{false};
  const std::jthread releases([&] {
    while (o.client.Stats().all.waiting == 0 && !over) std::this_thread::yield();
    held = absl::UnknownError("");
  });
  const absl::Cleanup end = [&] { over = true; };  // before the thread is joined
  call();
}

support::RawConnection RawConnectionOf(const Objects& o) {
  const std::string& server = o.client.server();
  return support::RawConnection::ToPort(std::stoi(server.substr(server.rfind(':') + 1)));
}

// Breaks all connections of all clients, and waits until both clients are back.
void Disconnect(Objects& o) {
  const uint64_t before = o.client.Stats().connects;
  auto raw = RawConnectionOf(o);
  raw.Command({"CLIENT", "KILL", "USER", "default", "SKIPME", "yes"});  // not the fixture's
  (void)Await([&] { return o.client.Ping().ok() && o.client.Stats().connects > before; });
}

const char* WhyNot(const absl::Status& status) { return status.message().data(); }
template <class T>
const char* WhyNot(const absl::StatusOr<T>& result) {
  return result.status().message().data();
}

bool Works(Objects& o) {
  const AcquireOptions patient{.wait = absl::Seconds(10)};
  std::vector<bool> works;
  const auto note = [&](const auto& acquired) {
    works.push_back(acquired.ok());
    if (!acquired.ok())
      std::fprintf(stderr, "call %zu fails: %s\n", works.size(), WhyNot(acquired));
  };
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
    note(o.brief.Acquire(patient));
    const auto taken = AcquireAsync(o, o.simple, patient);
    works.push_back(taken && taken->ok());
    note(o.their_election.Campaign("b", patient));
    note(o.election.Campaign("a", patient));
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
    note(o.java_lock.Acquire(patient));
    note(o.fenced.Acquire(patient));
    note(o.places.AvailablePermits());
  }
  note(o.their_simple.Acquire(patient));
  note(o.their_own.Acquire(patient));
  note(o.their_cached.Acquire(patient));
  if (!o.cluster) note(o.apart.Acquire(patient));
  return std::find(works.begin(), works.end(), false) == works.end();
}

// The child process makes the call, whose k-th allocation fails.
enum class Whose { kCallers, kLibrarys };

[[noreturn]] void RunChild(const std::string& url, bool warm, Whose whose, int k,
                           const std::function<void(Objects&)>& call) {
  alarm(60);  // a signal ends a child that hangs
  std::set_terminate([] {
    if (std::getenv("REDLATCH_ABORT") != nullptr) std::abort();
    _exit(kEnded);
  });
  Objects objects(url);
  if (warm) call(objects);
  if (whose == Whose::kCallers) {
    allocations_left = k;
  } else {
    threads_allocations_left = k;
  }
  try {
    call(objects);
  } catch (const std::exception&) {  // also kResourceExhausted
  }
  const bool failed =
      whose == Whose::kCallers ? allocations_left == 0 : threads_allocations_left <= 0;
  allocations_left = threads_allocations_left = -1;
  if (!failed) _exit(kNoneLeft);
  if (objects.broken) std::fprintf(stderr, "the call broke a promise\n");
  _exit(Works(objects) && !objects.broken ? kWorks : kBroken);
}

struct Call {
  const char* name;
  std::function<void(Objects&)> make;
};

std::ostream& operator<<(std::ostream& out, const Call& call) { return out << call.name; }

// How many calls in a row made fewer allocations, so that the sweep is over. The library's threads
// do not always make equally many.
constexpr int EnoughWithNoneLeft(Whose whose) { return whose == Whose::kCallers ? 1 : 3; }

// Lets each allocation of a call fail, each in a new process, and empties the servers after each.
void Sweep(const std::string& url, const std::vector<RedisServer*>& servers, const Call& call,
           Whose whose) {
  int works = 0;
  for (const bool warm : {false, true}) {
    const int before = works;
    int none_left = 0;
    for (int k = 1; none_left < EnoughWithNoneLeft(whose); ++k) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) RunChild(url, warm, whose, k, call.make);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      for (RedisServer* const server : servers) server->Do({"FLUSHALL"});
      const bool none = WIFEXITED(status) && WEXITSTATUS(status) == kNoneLeft;
      none_left = none ? none_left + 1 : 0;
      if (none) continue;
      ++works;
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kWorks)
          << (warm ? "warm" : "first use") << ", allocation " << k << ": "
          << (WIFEXITED(status) ? "exit code " : "signal ")
          << (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    }
    EXPECT_TRUE(works > before || whose == Whose::kLibrarys);  // those may need it only once
  }
  ::testing::Test::RecordProperty("works", works);
  EXPECT_GT(works, 0);
}

using Calls = std::vector<Call>;
void Add(Calls& calls, const char* name, std::function<void(Objects&)> make) {
  calls.push_back({name, std::move(make)});
}

Calls CallsInAllGroups() {
  Calls calls;
  Add(calls, "keep", [](Objects& o) {
    for (int i = 0; i < 2; ++i) o.cached.lock(), o.cached.unlock();
    (void)o.cached.Acquire({.lease = absl::Seconds(20)});
  });
  // What a lock object has taken goes with it, even if its first use failed.
  Add(calls, "own", [](Objects& o) {
    ReentrantReadWriteLock own(o.client, "own");
    try {
      if (own.AcquireRead().ok()) return;
    } catch (const std::bad_alloc&) {
    }
    own.lock_shared();
  });
  Add(calls, "lock", [](Objects& o) { o.simple.lock(), o.simple.unlock(); });
  Add(calls, "acquire", [](Objects& o) {
    if (auto lease = o.simple.Acquire(); lease.ok()) (void)lease->Release();
  });
  Add(calls, "read_lease", [](Objects& o) {
    if (auto lease = o.read_write.AcquireRead(); lease.ok()) (void)lease->Release();
  });
  return calls;
}

Calls OtherCallsOfLocks() {
  Calls calls;
  Add(calls, "contended", [](Objects& o) {
    WhileTheyHave(o.their_simple, o, [&] { o.simple.lock(), o.simple.unlock(); });
  });
  Add(calls, "try_lock", [](Objects& o) {
    if (o.simple.try_lock()) o.simple.unlock();
  });
  Add(calls, "reentrant", [](Objects& o) {
    const std::scoped_lock once(o.reentrant);
    const std::scoped_lock again(o.reentrant);
  });
  Add(calls, "read", [](Objects& o) { o.read_write.lock_shared(), o.read_write.unlock_shared(); });
  Add(calls, "write", [](Objects& o) { o.read_write.lock(), o.read_write.unlock(); });
  Add(calls, "semaphore", [](Objects& o) { o.semaphore.acquire(), o.semaphore.release(); });
  Add(calls, "permit", [](Objects& o) { (void)o.semaphore.Acquire(); });
  Add(calls, "multi", [](Objects& o) { o.multi.lock(), o.multi.unlock(); });
  Add(calls, "stop_token", [](Objects& o) {
    const std::stop_source source;
    (void)o.simple.Acquire({.stop = source.get_token()});
  });
  Add(calls, "timed_out", [](Objects& o) {
    const auto held = o.their_simple.Acquire();
    if (o.simple.try_lock_for(std::chrono::milliseconds(5))) o.simple.unlock();
    if (o.simple.try_lock()) o.simple.unlock();
  });
  Add(calls, "keep_reads", [](Objects& o) {
    for (int i = 0; i < 2; ++i) {
      o.cached_read_write.lock_shared(), o.cached_read_write.unlock_shared();
    }
    o.cached_read_write.lock(), o.cached_read_write.unlock();
  });
  Add(calls, "destroyed", [](Objects& o) {
    SimpleLock lock(o.client, "a lock that its client caching", o.caching);
    lock.lock(), lock.unlock();
  });
  Add(calls, "turn", [](Objects& o) {
    for (int i = 0; i < 2; ++i) o.turn.lock(), o.turn.unlock();
  });
  Add(calls, "owner", [](Objects& o) {
    const Owner as("an owner whose name is long");
    const auto once = o.reentrant.AcquireAs(as);
    const auto again = o.reentrant.AcquireAs(as);
  });
  Add(calls, "extend", [](Objects& o) {
    auto held = o.simple.Acquire({.lease = absl::Seconds(5)});
    if (held.ok()) (void)held->Extend(absl::Seconds(10)), (void)held->Extend({});
  });
  Add(calls, "second_reader", [](Objects& o) {
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
  });
  Add(calls, "lost_lease", [](Objects& o) {
    auto held = o.simple.Acquire();
    (void)o.their_simple.ForceRelease();
    if (held.ok()) (void)held->Release();
  });
  Add(calls, "lost_lock", [](Objects& o) {
    const std::scoped_lock held(o.simple);
    (void)o.their_simple.ForceRelease();
  });
  Add(calls, "apart", [](Objects& o) { o.apart.lock(), o.apart.unlock(); });
  Add(calls, "apart_lease", [](Objects& o) { (void)o.apart.Acquire(); });
  Add(calls, "multi_lease", [](Objects& o) {
    auto held = o.multi.Acquire({.lease = absl::Seconds(5)});
    if (held.ok()) (void)held->Extend(absl::Seconds(10)), (void)held->Release();
  });
  Add(calls, "red", [](Objects& o) { o.red.lock(), o.red.unlock(); });
  Add(calls, "permits_by_two", [](Objects& o) {
    Semaphore both(o.client, "both", 2), their_both(o.other, "both", 2);
    auto held = their_both.Acquire(2);
    if (both.try_acquire_for(std::chrono::milliseconds(5))) both.release();
    if (held.ok()) (void)held->Extend(absl::Seconds(5)), (void)held->Release();
    if (auto permits = both.Acquire(2); permits.ok()) (void)permits->Release();
  });
  return calls;
}

Calls OtherCalls() {
  Calls calls;
  Add(calls, "latch", [](Objects& o) {
    (void)o.latch.CountDown(), o.open.wait();
    (void)o.latch.Count(), (void)o.latch.Wait({.wait = absl::Milliseconds(20)});
  });
  Add(calls, "connect", [](Objects& o) {
    const auto client = Client::Connect(o.client.server());
    if (!client.ok()) return;
    (void)client->Ping(), (void)client->Stats();
    (void)SimpleLock(*client, "first").Acquire();
  });
  Add(calls, "client_of_its_own", [](Objects& o) {
    const auto client = Client::Connect(o.client.server());
    if (!client.ok()) return;
    SimpleLock cached(*client, "cached of its own", o.caching);
    cached.lock(), cached.unlock();
    ReentrantLock held(*client, "held of its own");
    held.lock();
    const auto lease = SimpleLock(*client, "lease of its own").Acquire();
    (void)AcquireAsync(o, held, {.wait = {}});
  });
  Add(calls, "leader", [](Objects& o) {
    if (auto leads = o.election.Campaign("a"); leads.ok()) {
      (void)leads->Proclaim("a value that is longer than the one before");
      (void)o.their_election.Leader();
      (void)leads->Resign();
    }
    (void)o.election.Leader();
  });
  Add(calls, "observe", [](Objects& o) {
    std::atomic<int> told{0};
    const auto observation = o.election.Observe([&](const auto&) { ++told; });
    if (!observation.ok()) return;
    const int before = told;
    const auto leads = o.their_election.Campaign("b");
    if (leads.ok() && !AwaitHeartbeat([&] { return told > before; })) o.broken = true;
  });
  Add(calls, "run_elected", [](Objects& o) {
    std::stop_source stop;
    (void)RunElected(
        o.election,
        [&](std::stop_token, FencingToken) {
          stop.request_stop();
          return absl::OkStatus();
        },
        stop.get_token());
  });
  Add(calls, "look", [](Objects& o) {
    const auto held = o.their_simple.Acquire();
    (void)o.simple.Inspect(), (void)o.read_write.Inspect(), (void)o.semaphore.Inspect();
    (void)o.multi.Inspect(), (void)o.election.Inspect();
    (void)o.client.Stats(), (void)o.client.Ping();
    (void)o.simple.current(), (void)o.reentrant.hold_count();
  });
  Add(calls, "force", [](Objects& o) {
    const auto held = o.their_simple.Acquire();
    (void)o.simple.ForceRelease(), (void)o.multi.ForceRelease();
    (void)o.semaphore.ForceRelease(), (void)o.semaphore.SetCapacity(1);
  });
  Add(calls, "stay_taken", [](Objects& o) {
    if (auto held = o.simple.Acquire(); held.ok()) {
      (void)held->StayTaken(absl::Milliseconds(30));
      (void)held->Release();
    }
  });
  Add(calls, "renewed", [](Objects& o) {
    const auto held = o.brief.Acquire();
    const uint64_t before = o.client.Stats().all.renewed;
    const auto renewed = [&] { return o.client.Stats().all.renewed > before; };
    if (held.ok() && !Await([&] { return renewed() || !held->valid(); })) o.broken = true;
  });
  Add(calls, "disconnected", [](Objects& o) {
    o.cached.lock(), o.cached.unlock();
    const auto held = o.their_fair.Acquire();
    const auto observation = o.election.Observe(nullptr);
    const std::jthread waits(
        [&](const std::stop_token& until_joined) { (void)o.fair.Acquire({.stop = until_joined}); });
    Disconnect(o);
  });
  return calls;
}

Calls AsyncCalls() {
  Calls calls;
  Add(calls, "async", [](Objects& o) { AcquireAndReleaseAsync(o, o.simple); });
  Add(calls, "async_contended", [](Objects& o) {
    WhileTheyHave(o.their_simple, o, [&] {
      const std::stop_source source;
      (void)AcquireAsync(o, o.simple, {.stop = source.get_token()});
    });
  });
  Add(calls, "async_timed_out", [](Objects& o) {
    const auto held = o.their_simple.Acquire();
    (void)AcquireAsync(o, o.simple, {.wait = absl::Milliseconds(20)});
  });
  Add(calls, "async_reads", [](Objects& o) {
    for (int i = 0; i < 2; ++i) {
      (void)ResultOf<absl::StatusOr<Lease>>(
          o, [&](auto told) { o.read_write.AcquireReadAsync({}, std::move(told)); });
    }
  });
  Add(calls, "async_others", [](Objects& o) {
    (void)ResultOf<absl::StatusOr<Permit>>(
        o, [&](auto told) { o.semaphore.AcquireAsync(1, {}, std::move(told)); });
    (void)ResultOf<absl::Status>(o, [&](auto told) { o.open.WaitAsync({}, std::move(told)); });
    (void)ResultOf<absl::Status>(o, [&](auto told) { o.done.WaitAsync({}, std::move(told)); });
    (void)ResultOf<absl::StatusOr<Leadership>>(
        o, [&](auto told) { o.election.CampaignAsync("a", {}, std::move(told)); });
  });
  Add(calls, "async_multi", [](Objects& o) {
    (void)AcquireAsync(o, o.multi);
    (void)AcquireAsync(o, o.apart);
  });
  return calls;
}

Calls CallsOfRedisson() {
  Calls calls;
  Add(calls, "java_lock", [](Objects& o) { o.fair.lock(), o.fair.unlock(); });
  Add(calls, "java_contended",
      [](Objects& o) { WhileTheyHave(o.their_fair, o, [&] { o.fair.lock(), o.fair.unlock(); }); });
  Add(calls, "java_timed_out", [](Objects& o) {
    const auto held = o.their_java.AcquireWrite();
    if (o.java.try_lock_for(std::chrono::milliseconds(20))) o.java.unlock();
    (void)o.java.AcquireRead({.wait = absl::Milliseconds(20)});
  });
  Add(calls, "java_read", [](Objects& o) { o.java.lock_shared(), o.java.unlock_shared(); });
  Add(calls, "java_permits", [](Objects& o) {
    (void)o.slots.TrySetPermits(1);
    const auto held = o.their_slots.TryAcquire();
    if (o.slots.try_acquire_for(std::chrono::milliseconds(20))) o.slots.release();
    (void)o.slots.AvailablePermits();
  });
  Add(calls, "java_latch", [](Objects& o) {
    (void)o.done.TrySetCount(1), (void)o.done.Wait({.wait = absl::Milliseconds(20)});
    (void)o.done.CountDown(), (void)o.done.Count();
  });
  Add(calls, "java_other_kinds", [](Objects& o) {
    o.java_lock.lock(), o.java_lock.unlock();
    if (auto held = o.fenced.Acquire(); held.ok()) (void)held->Release();
    (void)o.places.TrySetPermits(2), (void)o.places.AddPermits(1);
    if (o.places.try_acquire()) o.places.release();
    (void)o.slots.SetPermits(2), (void)o.done.TrySetCount(2), o.done.count_down(2);
    (void)o.done.Wait();
  });
  Add(calls, "async_java", [](Objects& o) {
    const auto held = o.their_fair.Acquire();
    (void)AcquireAsync(o, o.fair, {.wait = absl::Milliseconds(20)});
  });
  return calls;
}

Calls AllCalls() {
  Calls all = CallsInAllGroups();
  for (const Calls& each : {OtherCallsOfLocks(), OtherCalls(), AsyncCalls(), CallsOfRedisson()}) {
    all.insert(all.end(), each.begin(), each.end());
  }
  return all;
}

// Calls that only the library's threads work for.
Calls CallsOfItsThreads() {
  Calls calls;
  Add(calls, "elections", [](Objects& o) {
    Election second(o.client, "second"), their_second(o.other, "second");
    std::atomic<bool> led[2];
    const auto note = [](std::atomic<bool>& leads) {
      return [&](const auto& leader) { leads = leader.has_value(); };
    };
    std::optional<Spared> spared(std::in_place);
    const auto leads = o.their_election.Campaign("a"), leads_too = their_second.Campaign("b");
    const auto first_seen = o.election.Observe(note(led[0]));
    const auto second_seen = second.Observe(note(led[1]));
    if (!AwaitHeartbeat([&] { return led[0] && led[1]; })) o.broken = true;
    // Without a message, the client learns of it only by asking.
    RawConnectionOf(o).Command({"DEL", "election", "second"});
    spared.reset();
    Disconnect(o);
    if (!AwaitHeartbeat([&] { return !led[0] && !led[1]; })) o.broken = true;
  });
  Add(calls, "released", [](Objects& o) {
    SimpleLock second(o.client, "second");
    {
      const Spared spared;
      auto raw = RawConnectionOf(o);
      for (SimpleLock* const lock : {&o.simple, &second}) {
        auto held = lock->Acquire();
        raw.Command({"COPY", std::string(lock->name()), "copy"});
        if (!held->Release().ok()) o.broken = true;
        // The server is now one that has not received the release.
        raw.Command({"RENAME", "copy", std::string(lock->name())});
      }
    }
    Disconnect(o);
    auto raw = RawConnectionOf(o);
    if (!Await([&] { return raw.Command({"EXISTS", "simple", "second"}).integer == 0; })) {
      o.broken = true;
      raw.Command({"DEL", "simple", "second"});
    }
  });
  Add(calls, "counted", [](Objects& o) {
    std::optional<Spared> spared(std::in_place);
    CountDownLatch latch(o.client, "counted", 100);
    (void)latch.CountDown();
    for (const bool fails : {true, false}) {  // the second time shows that the first is over
      spared.emplace();
      auto raw = RawConnectionOf(o);
      // In one step: the client may be repeating earlier counts meanwhile.
      const auto each_key = [&](const std::string& call) {
        raw.Command({"EVAL", "for _, key in ipairs(redis.call('KEYS', '" + call + " end", "0"});
      };
      const int64_t before = latch.Count().value_or(-1);
      each_key("*counted*')) do redis.call('COPY', key, 'copy:' .. key)");
      (void)latch.CountDown();
      // The server is now one that has not received the count.
      each_key("copy:*')) do redis.call('RENAME', key, string.sub(key, 6))");
      if (fails) spared.reset();
      Disconnect(o);
      if (!Await([&] { return latch.Count().value_or(-1) == before - 1; })) o.broken = true;
    }
  });
  Add(calls, "posted", [](Objects& o) {
    std::optional<Spared> spared(std::in_place);
    const Client client = Connect(o.client.server(), {.post = [](const auto& work) { work(); }});
    SimpleLock lock(client, "posted");
    spared.reset();
    AcquireAndReleaseAsync(o, lock);
  });
  Add(calls, "observed", [](Objects& o) {
    struct Counter : Observer {
      void OnReleased(std::string_view lock, FencingToken, const absl::Status&) override {
        released += lock == "observed" ? 1 : 0;
      }
      void OnAcquired(std::string_view, FencingToken, absl::Duration) override { ++acquired; }
      std::atomic<int> released{0}, acquired{0};  // a loss may be noticed before the release
    };
    std::optional<Spared> spared(std::in_place);
    const auto observer = std::make_shared<Counter>();
    const Client client = Connect(o.client.server(), {.observer = observer});
    SimpleLock lock(client, "observed"), last(client, "last");
    auto held = lock.Acquire();
    (void)lock.ForceRelease();
    spared.reset();
    (void)ResultOf<absl::Status>(o, [&](auto told) { held->ReleaseAsync(std::move(told)); });
    // The observer is told of this after the release.
    const Spared again;
    const int before = observer->acquired;
    (void)AcquireAsync(o, last);
    const bool told = Await([&] { return observer->acquired > before; });
    if (!told || observer->released > 1) o.broken = true;
  });
  Add(calls, "recalled", [](Objects& o) {
    std::optional<Spared> spared(std::in_place);
    auto raw = RawConnectionOf(o);
    std::atomic<bool> led{false};
    const auto seen = o.election.Observe([&](const auto& leads) { led = leads.has_value(); });
    SimpleLock held(o.client, "recalled");
    const std::scoped_lock holds(held);
    std::string other = raw.Command({"GET", "recalled"}).text;  // "<client>:<number>n"
    char& digit = other[other.size() - 2];
    digit = digit == '0' ? '1' : '0';
    spared.reset();
    // Its message says that a native acquire of this client was executed too late.
    for (const auto& channel : raw.Command({"PUBSUB", "CHANNELS"}).elements) {
      raw.Command({"PUBLISH", channel.text, "wanted " + other + " recalled"});
    }
    // The messages before this one have been read when its own has.
    const auto leads = o.their_election.Campaign("b");
    if (leads.ok() && !AwaitHeartbeat([&] { return led.load(); })) o.broken = true;
  });
  return calls;
}

void AwaitRenewal(Objects& o, const absl::StatusOr<Lease>& held) {
  if (!held.ok()) return;
  const auto renewed = [&] { return o.client.Stats().all.renewed; };
  const uint64_t before = renewed();
  if (!Await([&] { return renewed() > before || !held->valid(); }) || !held->valid()) {
    o.broken = true;
  }
}

// The server has one replica.
Calls CallsWithAcksOfItsThreads() {
  Calls calls;
  Add(calls, "renewed", [](Objects& o) {
    SimpleLock acked(o.client, "acked",
                     {.lease = absl::Milliseconds(300), .acks = {.replicas = 1}});
    AwaitRenewal(o, acked.Acquire());
  });
  return calls;
}

Calls CallsWithAcks() {
  Calls calls;
  Add(calls, "acquire", [](Objects& o) {
    SimpleLock acked(o.client, "acked", {.acks = {.replicas = 1}});
    auto held = acked.Acquire();
    if (held.ok()) (void)held->Release();
    const Spared spared;
    if (!acked.Acquire({.wait = absl::Seconds(10)}).ok()) o.broken = true;
  });
  Add(calls, "async", [](Objects& o) {
    SimpleLock acked(o.client, "acked", {.acks = {.replicas = 1}});
    (void)AcquireAsync(o, acked);
  });
  Add(calls, "too_few", [](Objects& o) {
    const absl::Duration soon = absl::Milliseconds(10);
    SimpleLock acked(o.client, "acked", {.acks = {.replicas = 2, .timeout = soon}});
    const auto check = [&](const absl::Status& status) {
      if (status.ok() || absl::IsInternal(status)) o.broken = true;
    };
    check(acked.Acquire({.wait = soon}).status());
    const auto taken = AcquireAsync(o, acked, {.wait = soon});
    if (taken) check(taken->status());
  });
  return calls;
}

Calls CallsOfQuorum() {
  Calls calls;
  Add(calls, "lock", [](Objects& o) { o.red.lock(), o.red.unlock(); });
  Add(calls, "contended",
      [](Objects& o) { WhileTheyHave(o.their_red, o, [&] { o.red.lock(), o.red.unlock(); }); });
  Add(calls, "lease", [](Objects& o) {
    auto held = o.red.Acquire({.lease = absl::Seconds(5)});
    (void)o.their_red.Inspect();
    if (held.ok()) (void)held->Extend(absl::Seconds(10)), (void)held->Release();
    (void)o.red.ForceRelease();
  });
  Add(calls, "async", [](Objects& o) { AcquireAndReleaseAsync(o, o.red); });
  return calls;
}

enum class On { kServer, kCluster, kQuorum, kPrimary };

class OutOfMemory : public ::testing::TestWithParam<std::tuple<On, Whose, Call>> {};

TEST_P(OutOfMemory, ClientWorksAfterFailedAllocation) {
  const auto& [on, whose, call] = GetParam();
  if (on == On::kQuorum) {
    QuorumGroup servers(3);
    return Sweep(servers.url(), {&servers[0], &servers[1], &servers[2]}, call, whose);
  }
  if (on == On::kCluster) {
    const auto server = support::StartClusterOfOne();
    const std::string url = absl::StrCat("redis-cluster://127.0.0.1:", server->port());
    return Sweep(url, {server.get()}, call, whose);
  }
  const auto server = RedisServer::Start({.config = {"repl-diskless-sync-delay 0"}});
  std::unique_ptr<RedisServer> replica;
  if (on == On::kPrimary) {
    replica = RedisServer::Start({.replica_of = server->port()});
    ASSERT_TRUE(replica->AwaitInfo("master_link_status", "up"));
  }
  Sweep(server->url(), {server.get()}, call, whose);
}

auto Of(On on, const Calls& calls,
        const std::vector<Whose>& whose = {Whose::kCallers, Whose::kLibrarys}) {
  return ::testing::Combine(::testing::Values(on), ::testing::ValuesIn(whose),
                            ::testing::ValuesIn(calls));
}
const auto kNameOfCall = [](const auto& its) {
  const bool callers = std::get<Whose>(its.param) == Whose::kCallers;
  return absl::StrCat(std::get<Call>(its.param).name, callers ? "" : "InItsThreads");
};
INSTANTIATE_TEST_SUITE_P(Calls, OutOfMemory, Of(On::kServer, AllCalls()), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(CallsOfItsThreads, OutOfMemory,
                         Of(On::kServer, CallsOfItsThreads(), {Whose::kLibrarys}), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(Cluster, OutOfMemory,
                         Of(On::kCluster, CallsInAllGroups(), {Whose::kCallers}), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(Quorum, OutOfMemory, Of(On::kQuorum, CallsOfQuorum()), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(Acks, OutOfMemory, Of(On::kPrimary, CallsWithAcks()), kNameOfCall);
INSTANTIATE_TEST_SUITE_P(AcksOfItsThreads, OutOfMemory,
                         Of(On::kPrimary, CallsWithAcksOfItsThreads(), {Whose::kLibrarys}),
                         kNameOfCall);

}  // namespace
}  // namespace redlatch
