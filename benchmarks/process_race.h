// Processes that do the same thing at the same time, and what each got done.
//
//   REDLATCH_RACER(SimpleLock) {                     // outside of any function
//     absl::StatusOr<Client> client = Client::Connect(ServerUrl());
//     if (!client.ok()) return client.status();
//     ...
//     TakeUntilOver(racer, lock);
//     return absl::OkStatus();
//   }
//
//   void BM_SimpleLock_Processes(benchmark::State& state) {
//     for (auto _ : state) {
//       ReportRace(state, RunRace({.racer = "SimpleLock",
//                                  .processes = static_cast<int>(state.range(0)),
//                                  .commands = {"evalsha", "eval"}}));
//     }
//   }
//   BENCHMARK(BM_SimpleLock_Processes)->Apply(ForEachRaceSize);
//
// A racer is a new process of this program, not a fork: earlier benchmarks left threads and locks
// in this process, and a forked child would have the locks without the threads. So a body has a
// name and captures nothing; its parameters come as `args`. ServerPort(), ServerUrl() and
// ConnectRaw() lead it to the server of the process that runs the race.
#ifndef REDLATCH_BENCHMARKS_PROCESS_RACE_H_
#define REDLATCH_BENCHMARKS_PROCESS_RACE_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/latency_samples.h"

namespace redlatch::support {
class LinePipe;
}

namespace redlatch::bench {

struct SharedRace;

// One process's view of the race. Only Running() and Count() may be called by several threads.
class Racer {
 public:
  Racer(int index, std::vector<std::string> args, SharedRace& shared, support::LinePipe& parent)
      : index_(index), args_(std::move(args)), shared_(shared), parent_(parent) {}

  int index() const { return index_; }  // from 0
  const std::vector<std::string>& args() const { return args_; }

  // Call it once everything is connected and set up. Returns when every racer is here.
  void AwaitStart();

  // False once the time is over. A body that does not return soon after that is killed, and the
  // race fails. So a racer that waits for another one must be sure that it still comes.
  bool Running() const;

  // Counts one acquisition.
  void Count();

  // Records the current time for another racer: between Stamp() in one process and
  // SampleSinceStamp() in another lies one sample of RaceResult::samples. There is none if the last
  // stamp is this racer's own. The two calls must not overlap: stamp before you release a lock, and
  // sample once you hold it.
  void Stamp();
  void SampleSinceStamp();

  // A task that this racer started at `begun`, a MonotonicNanos(), ends now.
  void EndTask(int64_t begun);
  // When the last of the other racers' tasks ended that had started by `at`, if all have ended;
  // `at` if none ended later. Only each racer's latest task counts.
  int64_t LatestEndOfTasksBegunBy(int64_t at) const;
  // Adds a sample to RaceResult::samples.
  void Sample(int64_t nanos);

 private:
  const int index_;
  const std::vector<std::string> args_;
  SharedRace& shared_;
  support::LinePipe& parent_;
};

// Takes the lock, counts that, and releases it.
template <class Lock>
void TakeOnce(Racer& racer, Lock& lock) {
  lock.lock();
  racer.Count();
  lock.unlock();
}
// The same, but as a reader.
template <class Lock>
void ReadOnce(Racer& racer, Lock& lock) {
  lock.lock_shared();
  racer.Count();
  lock.unlock_shared();
}
// Starts with the others, and takes the lock again and again until the race is over.
template <class Lock>
void TakeUntilOver(Racer& racer, Lock& lock) {
  racer.AwaitStart();
  while (racer.Running()) TakeOnce(racer, lock);
}

// An error fails the race.
using RacerBody = absl::Status (*)(Racer& racer);

inline constexpr int kMaxProcesses = 64;

struct RaceOptions {
  std::string racer;  // the name of a REDLATCH_RACER
  int processes = 2;
  absl::Duration duration = absl::Seconds(2);
  // The time before that, until all racers run. The kernel takes milliseconds to start them.
  absl::Duration lead_in = absl::Milliseconds(200);
  // How long all racers may take to be ready, and to return when the time is over.
  absl::Duration timeout = absl::Seconds(10);
  std::vector<std::string> args = {};
  // The server's commands to count: those that racers send. (The server counts a script's own calls
  // as well, so a racer whose scripts SET must not name "set".)
  std::vector<std::string> commands = {};
};

struct RaceResult {
  absl::Duration duration;         // measured, from the end of the lead-in to that of the race
  std::vector<int64_t> counts;     // per racer, within that time
  double commands_per_count = 0;   // sent by clients
  double server_us_per_count = 0;  // of the server's thread, in these commands
  LatencySummary samples;

  int64_t total() const;
  double per_second() const;
  // The least count divided by the greatest: 1 is equal, 0 means that one racer got nothing.
  double share_ratio() const;
};

// Starts the racers together, lets them run, and ends all of them, in bounded time.
absl::StatusOr<RaceResult> RunRace(const RaceOptions& options);

// Sets the iteration's time, which is that of one acquisition, and the counters. Calls
// SkipWithError() if the race failed or had no acquisition.
void ReportRace(benchmark::State& state, const absl::StatusOr<RaceResult>& result);

// Reports the race's samples; see ReportLatency(). Calls SkipWithError() if the race failed.
void ReportSamples(benchmark::State& state, const absl::StatusOr<RaceResult>& result);

// For BENCHMARK()->Apply(): one race each with 2, 4, 8, 16 and 32 processes.
void ForEachRaceSize(benchmark::internal::Benchmark* benchmark);

// For main(): runs the racer that this process is, and returns its exit code. Returns nothing if it
// is no racer.
std::optional<int> RunIfRacer(int argc, char** argv);

bool RegisterRacer(std::string_view name, RacerBody body);

}  // namespace redlatch::bench

#define REDLATCH_RACER(name)                                         \
  static absl::Status Racer_##name(::redlatch::bench::Racer& racer); \
  [[maybe_unused]] static const bool racer_##name##_is_registered =  \
      ::redlatch::bench::RegisterRacer(#name, Racer_##name);         \
  static absl::Status Racer_##name(::redlatch::bench::Racer& racer)

#endif  // REDLATCH_BENCHMARKS_PROCESS_RACE_H_
