// Processes that do the same thing at the same time, and what each got done.
//
//   REDLATCH_RACER(SimpleLock) {                     // outside of any function
//     absl::StatusOr<Client> client = Client::Connect(ServerUrl());
//     if (!client.ok()) return client.status();
//     ...
//     racer.AwaitStart();
//     while (racer.Running()) {
//       lock.lock();
//       racer.Count();
//       lock.unlock();
//     }
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
// A racer is this program run again, not a fork that goes on: the benchmarks before it left threads
// and locks in this process, and a forked child would have the locks without the threads. So a body
// has a name and captures nothing; what it must know comes as `args`. ServerPort(), ServerUrl() and
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

// One process's view of the race. One thread at a time, but for Running() and Count().
class Racer {
 public:
  Racer(int index, std::vector<std::string> args, SharedRace& shared, support::LinePipe& parent)
      : index_(index), args_(std::move(args)), shared_(shared), parent_(parent) {}

  int index() const { return index_; }  // from 0
  const std::vector<std::string>& args() const { return args_; }

  // Call it once all is connected and set up. Returns when every racer is here.
  void AwaitStart();

  // False once the time is over. A body that then doesn't return in time is killed, and the race
  // has failed: whoever waits for another racer must be sure that it still comes.
  bool Running() const;

  // One acquisition more.
  void Count();

  // The moment now, for whichever other racer comes next: between Stamp() in one process and
  // SampleSinceStamp() in another lies one sample of RaceResult::samples. Where the last stamp is
  // this racer's own there is none. The caller sees to it that the two don't overlap, as by
  // stamping before it releases a lock and sampling once it holds it.
  void Stamp();
  void SampleSinceStamp();

  // What this racer began at `begun`, a MonotonicNanos(), ends now.
  void EndTask(int64_t begun);
  // When the last of the other racers' tasks ended that had begun by `at`, where they have all
  // ended; `at` where none ended later. Of each racer only the latest task counts.
  int64_t LatestEndOfTasksBegunBy(int64_t at) const;
  // One of RaceResult::samples.
  void Sample(int64_t nanos);

 private:
  const int index_;
  const std::vector<std::string> args_;
  SharedRace& shared_;
  support::LinePipe& parent_;
};

// An error fails the race.
using RacerBody = absl::Status (*)(Racer& racer);

inline constexpr int kMaxProcesses = 64;

struct RaceOptions {
  std::string racer;  // the name of a REDLATCH_RACER
  int processes = 2;
  absl::Duration duration = absl::Seconds(2);
  // Before that: until all racers are at it. The kernel takes milliseconds to start them.
  absl::Duration lead_in = absl::Milliseconds(200);
  // How long all racers may take to be ready, and how long to return when the time is over.
  absl::Duration patience = absl::Seconds(10);
  std::vector<std::string> args = {};
  // Which commands of the server's to count: those that racers send. (A script's own calls count
  // at the server as well, so a racer whose scripts SET must not name "set".)
  std::vector<std::string> commands = {};
};

struct RaceResult {
  absl::Duration duration;         // measured, from the end of the lead-in to that of the race
  std::vector<int64_t> counts;     // of each racer, within that time
  double commands_per_count = 0;   // that clients sent
  double server_us_per_count = 0;  // of the server's thread, in these commands
  LatencySummary samples;

  int64_t total() const;
  double per_second() const;
  // The least count by the greatest: 1 where all got the same, 0 where one got nothing.
  double share_ratio() const;
};

// Starts the racers together, lets them run, ends and reaps every one of them. In bounded time.
absl::StatusOr<RaceResult> RunRace(const RaceOptions& options);

// Sets the iteration's time, which is that of one acquisition, and the counters. SkipWithError()
// where the race failed, or nobody acquired anything.
void ReportRace(benchmark::State& state, const absl::StatusOr<RaceResult>& result);

// For BENCHMARK()->Apply(): one race each of 2, 4, 8, 16 and 32 processes.
void ForEachRaceSize(benchmark::internal::Benchmark* benchmark);

// For main(): runs the racer that this process was started to be, and returns its exit code.
// Nothing where it is no racer.
std::optional<int> RunIfRacer(int argc, char** argv);

bool RegisterRacer(std::string_view name, RacerBody body);

}  // namespace redlatch::bench

#define REDLATCH_RACER(name)                                         \
  static absl::Status Racer_##name(::redlatch::bench::Racer& racer); \
  [[maybe_unused]] static const bool racer_##name##_is_registered =  \
      ::redlatch::bench::RegisterRacer(#name, Racer_##name);         \
  static absl::Status Racer_##name(::redlatch::bench::Racer& racer)

#endif  // REDLATCH_BENCHMARKS_PROCESS_RACE_H_
