// How long a lock stays taken after unlock() has returned, beside a round trip.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "absl/time/time.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/lock_loop.h"
#include "redlatch/simple_lock.h"
#include "src/base/clock.h"
#include "tests/support/raw_connection.h"
#include "tests/support/redis_server.h"

namespace redlatch::bench {
namespace {

double Percentile(std::vector<double>& micros, size_t percent) {
  const size_t at = micros.size() * percent / 100;
  std::nth_element(micros.begin(), micros.begin() + static_cast<std::ptrdiff_t>(at), micros.end());
  return micros[at];
}

// Another connection asks again and again whether the key is there; `stays` is when the first
// answer came that it was gone, and so at least what a question itself takes, `trip`. `alone` is a
// question of the same turn when the lock is free: `ratio_of_p99` compares its p99 with that of
// `stays`, since the tail of both is the scheduler's.
void BM_SimpleLock_StaysTaken(benchmark::State& state) {
  const auto server = support::RedisServer::Start();
  absl::StatusOr<Client> client = Client::Connect(server->url());
  if (!client.ok()) abort();
  SimpleLock lock(*client, "stays");
  lock.lock();
  lock.unlock();
  auto asks = support::RawConnection::ToPort(server->port());
  std::vector<double> stays;
  std::vector<double> trips;
  std::vector<double> alone;
  for (auto _ : state) {
    lock.lock();
    lock.unlock();
    const base::Instant returned = base::Now();
    base::Instant sent = returned;
    while (asks.Command({"EXISTS", "stays"}).integer != 0) {
      const base::Instant answered = base::Now();
      trips.push_back(absl::ToDoubleMicroseconds(answered - sent));
      sent = answered;
    }
    const base::Instant answered = base::Now();
    trips.push_back(absl::ToDoubleMicroseconds(answered - sent));
    stays.push_back(absl::ToDoubleMicroseconds(answered - returned));
    // A trip of the same turn that nothing else is under way beside: what it takes by itself.
    const base::Instant asked = base::Now();
    asks.Command({"EXISTS", "stays"});
    alone.push_back(absl::ToDoubleMicroseconds(base::Now() - asked));
  }
  state.counters["stays_p50_us"] = Percentile(stays, 50);
  state.counters["stays_p99_us"] = Percentile(stays, 99);
  state.counters["trip_p50_us"] = Percentile(trips, 50);
  state.counters["trip_p99_us"] = Percentile(trips, 99);
  state.counters["alone_p50_us"] = Percentile(alone, 50);
  state.counters["alone_p99_us"] = Percentile(alone, 99);
  state.counters["ratio"] = Percentile(stays, 99) / Percentile(trips, 50);
  state.counters["ratio_of_p99"] = Percentile(stays, 99) / Percentile(alone, 99);
}
BENCHMARK(BM_SimpleLock_StaysTaken)->UseRealTime()->Iterations(20000);

}  // namespace
}  // namespace redlatch::bench
