// The asynchronous interface: pairs in flight at the same time, beside one thread that waits for
// each; and the cost of waiting.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmarks/bench_server.h"
#include "redlatch/simple_lock.h"
#include "tests/support/await.h"
#include "tests/support/resources.h"

namespace redlatch::bench {
namespace {

Client ConnectOrDie() {
  absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) abort();
  return *std::move(client);
}

std::vector<std::unique_ptr<SimpleLock>> Locks(const Client& client, size_t count,
                                               const std::string& stem) {
  std::vector<std::unique_ptr<SimpleLock>> locks;
  for (size_t i = 0; i < count; ++i) {
    locks.push_back(std::make_unique<SimpleLock>(client, absl::StrCat(stem, i)));
  }
  return locks;
}

// The baseline: one thread, whose lock() waits for the server and whose unlock() does not.
void BM_SimpleLock_BlockingPair(benchmark::State& state) {
  const Client client = ConnectOrDie();
  SimpleLock lock(client, "pair");
  for (auto _ : state) {
    lock.lock();
    lock.unlock();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SimpleLock_BlockingPair)->UseRealTime()->MinTime(2);

// The same with leases: both calls wait for the reply, as the asynchronous ones do.
void BM_SimpleLock_BlockingLeasePair(benchmark::State& state) {
  const Client client = ConnectOrDie();
  SimpleLock lock(client, "pair");
  for (auto _ : state) {
    absl::StatusOr<Lease> lease = lock.Acquire();
    if (!lease.ok() || !lease->Release().ok()) abort();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_SimpleLock_BlockingLeasePair)->UseRealTime()->MinTime(2);

// A number of locks, each of which is acquired again once its release is confirmed.
class Crew {
 public:
  Crew(const Client& client, size_t count, int64_t pairs)
      : locks_(Locks(client, count, "crew")), left_(pairs), running_(count) {}

  void Run() {
    for (const auto& lock : locks_) Next(*lock);
    for (size_t running = running_; running > 0; running = running_) running_.wait(running);
  }

 private:
  void Next(SimpleLock& lock) {
    if (left_.fetch_sub(1) <= 0) {
      --running_;
      return running_.notify_one();
    }
    lock.AcquireAsync({}, [this, &lock](absl::StatusOr<Lease> lease) {
      if (!lease.ok()) abort();
      lease->ReleaseAsync([this, &lock](const absl::Status& released) {
        if (!released.ok()) abort();
        Next(lock);
      });
    });
  }

  const std::vector<std::unique_ptr<SimpleLock>> locks_;
  std::atomic<int64_t> left_;
  std::atomic<size_t> running_;
};

void BM_SimpleLock_AsyncPairs(benchmark::State& state) {
  const Client client = ConnectOrDie();
  constexpr int64_t kPairs = 20000;
  const auto in_flight = static_cast<size_t>(state.range(0));
  Crew(client, in_flight, kPairs / 10).Run();
  const CommandStats before = StatsOf({"evalsha"});
  const absl::Duration cpu = support::ProcessCpuTime();
  for (auto _ : state) Crew(client, in_flight, kPairs).Run();
  const double pairs = static_cast<double>(state.iterations() * kPairs);
  const CommandStats after = StatsOf({"evalsha"});
  state.counters["server_us"] =
      static_cast<double>(after.microseconds - before.microseconds) / pairs;
  state.counters["client_us"] = absl::ToDoubleMicroseconds(support::ProcessCpuTime() - cpu) / pairs;
  state.SetItemsProcessed(state.iterations() * kPairs);
}
BENCHMARK(BM_SimpleLock_AsyncPairs)->Arg(1)->Arg(8)->Arg(64)->UseRealTime()->MinTime(2);

// Ten thousand waiters for a hundred locks that another client has: the cost of each, and the time
// until all had their turn.
void BM_SimpleLock_AsyncWaiters(benchmark::State& state) {
  constexpr size_t kLocks = 100;
  constexpr size_t kWaiters = 10000;
  for (auto _ : state) {
    const Client other = ConnectOrDie();
    const auto theirs = Locks(other, kLocks, "waiters");
    std::vector<Lease> held;
    for (const auto& lock : theirs) held.push_back(*lock->Acquire());
    const Client client = ConnectOrDie();
    const auto locks = Locks(client, kLocks, "waiters");
    std::atomic<size_t> done{0};
    const auto wait = [&](size_t i) {
      locks[i % kLocks]->AcquireAsync({}, [&](const absl::StatusOr<Lease>& lease) {
        if (!lease.ok()) abort();
        ++done;
      });
    };
    for (size_t i = 0; i < kLocks; ++i) wait(i);  // objects that exist once
    const auto waiting = [&](size_t count) {
      return support::Await([&] { return client.Stats().all.waiting == count; });
    };
    if (!waiting(kLocks)) abort();
    const size_t before = mallinfo2().uordblks;
    const int threads = support::ThreadCount();
    for (size_t i = 0; i < kWaiters; ++i) wait(i);
    if (!waiting(kLocks + kWaiters)) abort();
    state.counters["bytes_each"] =
        static_cast<double>(mallinfo2().uordblks - before) / static_cast<double>(kWaiters);
    state.counters["threads"] = support::ThreadCount();
    state.counters["threads_more"] = support::ThreadCount() - threads;
    held.clear();
    if (!support::Await([&] { return done == kLocks + kWaiters; })) abort();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kWaiters));
}
BENCHMARK(BM_SimpleLock_AsyncWaiters)->UseRealTime()->Iterations(3);

}  // namespace
}  // namespace redlatch::bench
