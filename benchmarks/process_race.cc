#include "benchmarks/process_race.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <climits>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/bench_server.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/fatal.h"
#include "tests/support/subprocess.h"

namespace redlatch::bench {

using support::CheckErrno;
using support::Child;
using support::ExitStatus;
using support::LinePipe;

// Memory from the kernel is zeroed: a race that has not started.
struct SharedRace {
  enum Phase : uint32_t { kGathering, kRunning, kOver };
  struct alignas(64) Slot {
    std::atomic<int64_t> count;
    std::atomic<int64_t> task_begun;  // of the latest task that has ended
    std::atomic<int64_t> task_ended;
  };

  alignas(64) std::atomic<uint32_t> phase;  // the futex of racers that wait for the start
  alignas(64) std::atomic<int64_t> stamp;
  std::atomic<int> stamped_by;
  std::array<Slot, kMaxProcesses> slots;
  LatencySamples samples;
};

namespace {

constexpr std::string_view kRacerFlag = "--racer";
constexpr std::string_view kReady = "ready";
constexpr int kPipeDescriptor = 3;

// A mapped SharedRace.
class Mapping {
 public:
  explicit Mapping(int descriptor)
      : address_(
            mmap(nullptr, sizeof(SharedRace), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0)) {
    CheckErrno(address_ != MAP_FAILED, "mmap");
  }
  ~Mapping() { munmap(address_, sizeof(SharedRace)); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  SharedRace& operator*() const { return *static_cast<SharedRace*>(address_); }
  SharedRace* operator->() const { return &**this; }

 private:
  void* const address_;
};

base::UniqueFd NewSharedMemory() {
  base::UniqueFd memory(memfd_create("redlatch_race", MFD_CLOEXEC));
  CheckErrno(memory.valid(), "memfd_create");
  CheckErrno(ftruncate(memory.get(), sizeof(SharedRace)) == 0, "ftruncate");
  return memory;
}

void EnterPhase(SharedRace& race, SharedRace::Phase phase) {
  race.phase.store(phase);
  syscall(SYS_futex, &race.phase, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::map<std::string, RacerBody, std::less<>>& Bodies() {
  static auto* const bodies = new std::map<std::string, RacerBody, std::less<>>;
  return *bodies;
}

// Why a racer failed: its own words if it wrote any.
absl::Status Failure(size_t index, Child& racer, const ExitStatus& status) {
  const std::string words = racer.pipe().ReadLine(absl::ZeroDuration()).value_or("");
  return absl::AbortedError(absl::StrCat(
      "racer ", index, status.signal != 0 ? " died of signal " : " ended with code ",
      status.signal != 0 ? status.signal : status.code, words.empty() ? "" : ": ", words));
}

using Racers = std::vector<std::unique_ptr<Child>>;

Racers StartRacers(const RaceOptions& options, int memory) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string memory_path = absl::StrCat("/proc/", getpid(), "/fd/", memory);
  Racers racers;
  for (int i = 0; i < options.processes; ++i) {
    std::vector<std::string> command = {program,       std::string(kRacerFlag),
                                        options.racer, absl::StrCat(i),
                                        memory_path,   absl::StrCat(ServerPort())};
    command.insert(command.end(), options.args.begin(), options.args.end());
    racers.push_back(Child::Exec(std::move(command), {.pipe_descriptor = kPipeDescriptor}));
  }
  return racers;
}

absl::Status AwaitReady(Racers& racers, base::Instant deadline) {
  for (size_t i = 0; i < racers.size(); ++i) {
    const std::optional<std::string> line = racers[i]->pipe().ReadLine(base::Until(deadline));
    if (line == kReady) continue;
    return absl::AbortedError(absl::StrCat("racer ", i, " did not get ready",
                                           line.has_value() ? ": " : "", line.value_or("")));
  }
  return absl::OkStatus();
}

absl::Status AwaitEnds(Racers& racers, base::Instant deadline) {
  for (size_t i = 0; i < racers.size(); ++i) {
    const std::optional<ExitStatus> status = racers[i]->WaitFor(base::Until(deadline));
    if (!status.has_value()) {
      return absl::DeadlineExceededError(absl::StrCat("racer ", i, " hung, and was killed"));
    }
    if (!status->success()) return Failure(i, *racers[i], *status);
  }
  return absl::OkStatus();
}

// Returns when the time is over, with the failure of a racer that ended early.
absl::Status LetRun(Racers& racers, base::Instant until) {
  for (size_t i = 0; i < racers.size(); ++i) {
    const std::optional<ExitStatus> status = racers[i]->WaitFor(base::Until(until));
    if (status.has_value()) return Failure(i, *racers[i], *status);
  }
  return absl::OkStatus();
}

std::vector<int64_t> Counts(const SharedRace& race, int processes) {
  std::vector<int64_t> counts;
  for (int i = 0; i < processes; ++i) counts.push_back(race.slots[i].count.load());
  return counts;
}

int64_t Sum(const std::vector<int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

}  // namespace

void Racer::AwaitStart() {
  parent_.WriteLine(kReady);
  while (shared_.phase.load() == SharedRace::kGathering) {
    syscall(SYS_futex, &shared_.phase, FUTEX_WAIT, SharedRace::kGathering, nullptr, nullptr, 0);
  }
}

bool Racer::Running() const {
  return shared_.phase.load(std::memory_order_relaxed) == SharedRace::kRunning;
}

void Racer::Count() { shared_.slots[index_].count.fetch_add(1, std::memory_order_relaxed); }

void Racer::Stamp() {
  shared_.stamped_by.store(index_ + 1, std::memory_order_relaxed);
  shared_.stamp.store(MonotonicNanos(), std::memory_order_release);
}

void Racer::SampleSinceStamp() {
  const int64_t now = MonotonicNanos();
  const int64_t stamp = shared_.stamp.load(std::memory_order_acquire);
  const int by = shared_.stamped_by.load(std::memory_order_relaxed);
  if (by != 0 && by != index_ + 1) shared_.samples.Record(now - stamp);
}

void Racer::EndTask(int64_t begun) {
  SharedRace::Slot& slot = shared_.slots[index_];
  slot.task_begun.store(begun, std::memory_order_relaxed);
  slot.task_ended.store(MonotonicNanos(), std::memory_order_release);
}

int64_t Racer::LatestEndOfTasksBegunBy(int64_t at) const {
  int64_t latest = at;
  for (int i = 0; i < kMaxProcesses; ++i) {
    const int64_t ended = shared_.slots[i].task_ended.load(std::memory_order_acquire);
    const int64_t begun = shared_.slots[i].task_begun.load(std::memory_order_relaxed);
    if (i != index_ && begun <= at) latest = std::max(latest, ended);
  }
  return latest;
}

void Racer::Sample(int64_t nanos) { shared_.samples.Record(nanos); }

int64_t RaceResult::total() const { return Sum(counts); }

double RaceResult::per_second() const {
  return static_cast<double>(total()) / absl::ToDoubleSeconds(duration);
}

double RaceResult::share_ratio() const {
  const auto [least, greatest] = std::minmax_element(counts.begin(), counts.end());
  return *greatest == 0 ? 0 : static_cast<double>(*least) / static_cast<double>(*greatest);
}

absl::StatusOr<RaceResult> RunRace(const RaceOptions& options) {
  if (options.processes < 1 || options.processes > kMaxProcesses) {
    return absl::InvalidArgumentError(absl::StrCat("between 1 and ", kMaxProcesses, " processes"));
  }
  const base::UniqueFd memory = NewSharedMemory();
  const Mapping race(memory.get());
  // The racers' destructor kills those that still run, before their memory goes.
  Racers racers = StartRacers(options, memory.get());
  if (absl::Status status = AwaitReady(racers, base::Now() + options.timeout); !status.ok()) {
    return status;
  }

  EnterPhase(*race, SharedRace::kRunning);
  absl::Status status = LetRun(racers, base::Now() + options.lead_in);
  if (!status.ok()) return status;
  const CommandStats before = StatsOf(options.commands);
  const base::Instant start = base::Now();
  const std::vector<int64_t> counts_before = Counts(*race, options.processes);
  status = LetRun(racers, start + options.duration);
  if (!status.ok()) return status;
  RaceResult result{.duration = base::Now() - start, .counts = Counts(*race, options.processes)};
  for (size_t i = 0; i < result.counts.size(); ++i) result.counts[i] -= counts_before[i];
  EnterPhase(*race, SharedRace::kOver);
  status = AwaitEnds(racers, base::Now() + options.timeout);
  if (!status.ok()) return status;

  // Both numbers include what came after the time.
  const CommandStats after = StatsOf(options.commands);
  const int64_t all = Sum(Counts(*race, options.processes)) - Sum(counts_before);
  if (const auto done = static_cast<double>(all); done > 0) {
    result.commands_per_count = static_cast<double>(after.calls - before.calls) / done;
    result.server_us_per_count =
        static_cast<double>(after.microseconds - before.microseconds) / done;
  }
  result.samples = race->samples.Summary();
  return result;
}

void ReportRace(benchmark::State& state, const absl::StatusOr<RaceResult>& result) {
  if (!result.ok()) {
    state.SkipWithError(result.status().ToString().c_str());
    return;
  }
  if (result->total() == 0) {
    state.SkipWithError("there was no acquisition");
    return;
  }
  state.SetIterationTime(1 / result->per_second());
  state.counters["acquisitions/s"] = result->per_second();
  state.counters["share_ratio"] = result->share_ratio();
  state.counters["commands"] = result->commands_per_count;
  state.counters["server_us"] = result->server_us_per_count;
}

void ReportSamples(benchmark::State& state, const absl::StatusOr<RaceResult>& result) {
  if (!result.ok()) return state.SkipWithError(result.status().ToString().c_str());
  ReportLatency(state, result->samples);
}

void ForEachRaceSize(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(2)->Range(2, 32)->Iterations(1)->UseManualTime()->Unit(
      benchmark::kMicrosecond);
}

bool RegisterRacer(std::string_view name, RacerBody body) {
  return Bodies().emplace(name, body).second;
}

std::optional<int> RunIfRacer(int argc, char** argv) {
  if (argc < 2 || argv[1] != kRacerFlag) return std::nullopt;
  LinePipe parent{base::UniqueFd(kPipeDescriptor)};
  const auto fail = [&](const absl::Status& status) {
    parent.WriteLine(status.ToString());
    return 1;
  };
  int index = 0;
  int port = 0;
  if (argc < 6 || !absl::SimpleAtoi(argv[3], &index) || !absl::SimpleAtoi(argv[5], &port)) {
    return fail(absl::InvalidArgumentError("only RunRace() starts racers"));
  }
  const auto body = Bodies().find(std::string_view(argv[2]));
  if (body == Bodies().end()) {
    return fail(absl::NotFoundError(absl::StrCat("no REDLATCH_RACER(", argv[2], ")")));
  }
  const base::UniqueFd memory(open(argv[4], O_RDWR | O_CLOEXEC));
  CheckErrno(memory.valid(), argv[4]);
  const Mapping race(memory.get());
  AdoptServer(static_cast<uint16_t>(port));
  Racer racer(index, std::vector<std::string>(argv + 6, argv + argc), *race, parent);
  const absl::Status status = body->second(racer);
  return status.ok() ? 0 : fail(status);
}

}  // namespace redlatch::bench
