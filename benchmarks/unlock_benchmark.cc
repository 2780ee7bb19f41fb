// How long a lock stays taken after unlock() has returned, beside a round trip.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
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

// When the server deleted the key, according to a connection that monitors it; the server runs on
// this machine, so both clocks are the same. Infinity: that connection is broken.
double DeletedAt(support::RawConnection& monitor) {
  while (!monitor.broken()) {
    const std::string line = monitor.Receive().text;  // "<seconds> [<db> <client>] <command>"
    double seconds = 0;
    if (absl::StrContains(line, R"("DEL" "stays")") &&
        absl::SimpleAtod(line.substr(0, line.find(' ')), &seconds)) {
      return seconds;
    }
  }
  return std::numeric_limits<double>::infinity();
}

// `trip` is a round trip on another connection, in the same turn, after everything else. `ratio` is
// the p99 divided by the median trip, `ratio_of_p99` by the p99 of trips: the scheduler causes both
// tails.
void BM_SimpleLock_StaysTaken(benchmark::State& state) {
  const auto server = support::RedisServer::Start();
  absl::StatusOr<Client> client = Client::Connect(server->url());
  if (!client.ok()) abort();
  SimpleLock lock(*client, "stays");
  lock.lock();
  lock.unlock();
  auto asks = support::RawConnection::ToPort(server->port());
  auto monitor = support::RawConnection::ToPort(server->port());
  monitor.Command({"MONITOR"});
  std::vector<double> stays;
  std::vector<double> trips;
  for (auto _ : state) {
    lock.lock();
    lock.unlock();
    const double returned = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
    stays.push_back(std::max(0.0, (DeletedAt(monitor) - returned) * 1e6));
    const base::Instant asked = base::Now();
    asks.Command({"EXISTS", "stays"});
    trips.push_back(absl::ToDoubleMicroseconds(base::Now() - asked));
  }
  state.counters["stays_p50_us"] = Percentile(stays, 50);
  state.counters["stays_p99_us"] = Percentile(stays, 99);
  state.counters["trip_p50_us"] = Percentile(trips, 50);
  state.counters["trip_p99_us"] = Percentile(trips, 99);
  state.counters["ratio"] = Percentile(stays, 99) / Percentile(trips, 50);
  state.counters["ratio_of_p99"] = Percentile(stays, 99) / Percentile(trips, 99);
}
BENCHMARK(BM_SimpleLock_StaysTaken)->UseRealTime()->Iterations(20000);

}  // namespace
}  // namespace redlatch::bench
