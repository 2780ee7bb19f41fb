// CountDownLatch: how soon all waiters continue after the last count, and how many messages that
// costs.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "benchmarks/bench_server.h"
#include "benchmarks/latency_samples.h"
#include "benchmarks/process_race.h"
#include "redlatch/client.h"
#include "redlatch/count_down_latch.h"

namespace redlatch::bench {
namespace {

constexpr std::string_view kDone = "done";
constexpr std::chrono::milliseconds kSettle(20);

void BM_CountDownLatch_Open(benchmark::State& state) {
  const absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) {
    state.SkipWithError(client.status().ToString().c_str());
    return;
  }
  CountDownLatch latch(*client, "latch_open", 0);
  for (auto _ : state) latch.wait();
}
BENCHMARK(BM_CountDownLatch_Open)->UseRealTime();

// The racers of one race coordinate its rounds by lists at the server: each pushed element is
// popped once, by a racer that waits for it. No messages are published, since those are counted.
class Rounds {
 public:
  void Push(const std::string& list, std::string_view text) {
    const std::string value(text);
    Run("RPUSH %s %s", list, value);
  }
  // Returns "" if nothing arrives within 20 s: then something is wrong.
  std::string Pop(const std::string& list) {
    const Reply reply(redisCommand(raw_.get(), "BLPOP %s 20", list.c_str()));
    const bool popped = reply.get() != nullptr && reply.get()->type == REDIS_REPLY_ARRAY;
    return popped ? reply.get()->element[1]->str : "";
  }
  int64_t Queued(const std::string& latch) {
    const Reply reply(redisCommand(raw_.get(), "ZCARD redlatch:2:{%s}:latch.queue", latch.c_str()));
    return reply.get() == nullptr ? -1 : reply.get()->integer;
  }
  int64_t Subscribed(const std::string& channel) {
    const Reply reply(redisCommand(raw_.get(), "PUBSUB NUMSUB %s", channel.c_str()));
    return reply.get() == nullptr ? -1 : reply.get()->element[1]->integer;
  }
  void Publish(const std::string& channel) { Run("PUBLISH %s %s", channel, "open"); }

 private:
  class Reply {
   public:
    explicit Reply(void* reply) : reply_(static_cast<redisReply*>(reply)) {}
    ~Reply() { freeReplyObject(reply_); }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    redisReply* get() const { return reply_; }

   private:
    redisReply* const reply_;
  };
  void Run(const char* command, const std::string& list, const std::string& value) {
    const Reply reply(redisCommand(raw_.get(), command, list.c_str(), value.c_str()));
  }

  const RawConnection raw_ = ConnectRaw();
};

std::string StartsOf(int racer) { return absl::StrCat("latch_race:starts:", racer); }
std::string StampsOf(int racer) { return absl::StrCat("latch_race:stamps:", racer); }
constexpr char kReady[] = "latch_race:ready";
constexpr char kPassed[] = "latch_race:passed";

// The gate of one process in one round: a latch.
class LatchGate {
 public:
  LatchGate(const Client& client, const std::string& name) : latch_(client, name, 1) {}
  absl::Status Join() { return latch_.Count().status(); }
  void Wait() { latch_.wait(); }

  static int64_t Waiting(Rounds& rounds, const std::string& name) { return rounds.Queued(name); }
  void Open(Rounds&, const std::string&) { latch_.count_down(); }

 private:
  CountDownLatch latch_;
};

// The same without redlatch, if no process came late and no message or connection were ever lost: a
// subscription per process, and a condition variable for its threads.
class RawGate {
 public:
  RawGate(const Client&, const std::string& name) : name_(name) {}
  ~RawGate() {
    if (reader_.joinable()) reader_.join();
  }
  RawGate(const RawGate&) = delete;
  RawGate& operator=(const RawGate&) = delete;

  absl::Status Join() { return absl::OkStatus(); }
  void Wait() {
    std::unique_lock lock(mu_);
    if (!reader_.joinable()) reader_ = std::thread([this] { Read(); });
    opened_.wait(lock, [this] { return open_; });
  }

  static int64_t Waiting(Rounds& rounds, const std::string& name) {
    return rounds.Subscribed(name);
  }
  void Open(Rounds& rounds, const std::string& name) { rounds.Publish(name); }

 private:
  void Read() {
    const RawConnection raw = ConnectRaw();
    freeReplyObject(redisCommand(raw.get(), "SUBSCRIBE %s", name_.c_str()));
    void* message = nullptr;
    redisGetReply(raw.get(), &message);
    freeReplyObject(message);
    const std::lock_guard lock(mu_);
    open_ = true;
    opened_.notify_all();
  }

  const std::string name_;
  std::mutex mu_;
  std::condition_variable opened_;
  bool open_ = false;
  std::thread reader_;
};

// Starts each round with a gate that no other race has, opens it once all racers wait, and reports
// the time.
template <class Gate>
absl::Status Open(Racer& racer, const Client& client, int processes) {
  const int64_t race = MonotonicNanos();
  Rounds rounds;
  racer.AwaitStart();
  for (int round = 0; racer.Running(); ++round) {
    const std::string name = absl::StrCat("latch_race:", race, ":", round);
    for (int i = 1; i <= processes; ++i) rounds.Push(StartsOf(i), name);
    Gate gate(client, name);
    if (absl::Status joined = gate.Join(); !joined.ok()) return joined;
    for (int i = 0; i < processes; ++i) {
      if (rounds.Pop(kReady).empty()) return absl::DeadlineExceededError("no racer gets ready");
    }
    const int64_t deadline = MonotonicNanos() + 10'000'000'000;
    while (Gate::Waiting(rounds, name) != processes) {
      if (deadline < MonotonicNanos()) return absl::DeadlineExceededError("some never wait");
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(kSettle);  // the last threads park meanwhile, which no event shows
    const int64_t arrived = MonotonicNanos();
    gate.Open(rounds, name);
    for (int i = 0; i < processes; ++i) {
      if (rounds.Pop(kPassed).empty()) return absl::DeadlineExceededError("some never pass");
    }
    for (int i = 1; i <= processes; ++i) rounds.Push(StampsOf(i), absl::StrCat(arrived));
  }
  for (int i = 1; i <= processes; ++i) rounds.Push(StartsOf(i), kDone);
  return absl::OkStatus();
}

// One count per round, and one sample per thread.
template <class Gate>
absl::Status WaitInThreads(Racer& racer, const Client& client, int threads) {
  Rounds rounds;
  racer.AwaitStart();
  while (true) {
    const std::string name = rounds.Pop(StartsOf(racer.index()));
    if (name == kDone) return absl::OkStatus();
    if (name.empty()) return absl::DeadlineExceededError("no round begins");
    Gate gate(client, name);
    if (absl::Status joined = gate.Join(); !joined.ok()) return joined;
    std::atomic<int> waiting{0};
    std::atomic<int> passing{0};
    std::atomic<bool> over{false};
    std::vector<int64_t> passed(static_cast<size_t>(threads));
    std::vector<std::thread> crew;
    for (int64_t& mine : passed) {
      crew.emplace_back([&, threads] {
        ++waiting;
        waiting.notify_one();
        gate.Wait();
        mine = MonotonicNanos();
        if (++passing == threads) passing.notify_one();
        over.wait(false);  // ending a thread costs more than waking it, so threads end later
      });
    }
    for (int seen = waiting; seen < threads; seen = waiting) waiting.wait(seen);
    rounds.Push(kReady, "ready");
    for (int seen = passing; seen < threads; seen = passing) passing.wait(seen);
    rounds.Push(kPassed, "passed");
    const std::string stamp = rounds.Pop(StampsOf(racer.index()));
    over = true;
    over.notify_all();
    for (std::thread& thread : crew) thread.join();
    int64_t arrived = 0;
    if (!absl::SimpleAtoi(stamp, &arrived)) {
      return absl::DeadlineExceededError("no racer reports when the gate opened");
    }
    for (const int64_t nanos : passed) racer.Sample(nanos - arrived);
    racer.Count();
  }
}

// The arguments are the number of waiters, and of their processes. One more process, the first,
// opens the gate.
template <class Gate>
absl::Status WakeAll(Racer& racer) {
  int waiters = 0;
  int processes = 0;
  if (racer.args().size() != 2 || !absl::SimpleAtoi(racer.args()[0], &waiters) ||
      !absl::SimpleAtoi(racer.args()[1], &processes)) {
    return absl::InvalidArgumentError("how many waiters, in how many processes?");
  }
  const absl::StatusOr<Client> client = Client::Connect(ServerUrl());
  if (!client.ok()) return client.status();
  if (racer.index() == 0) return Open<Gate>(racer, *client, processes);
  const int threads = waiters / processes + (racer.index() <= waiters % processes ? 1 : 0);
  return WaitInThreads<Gate>(racer, *client, threads);
}

REDLATCH_RACER(CountDownLatchWakeAll) { return WakeAll<LatchGate>(racer); }
REDLATCH_RACER(RawWakeAll) { return WakeAll<RawGate>(racer); }

// From just before the last count until each waiter has continued.
void ReportWakeAll(benchmark::State& state, std::string_view racer) {
  for (auto _ : state) {
    const int64_t processes = state.range(1);
    const absl::StatusOr<RaceResult> result =
        RunRace({.racer = std::string(racer),
                 .processes = 1 + static_cast<int>(processes),
                 .duration = absl::Seconds(3),
                 .timeout = absl::Seconds(30),
                 .args = {absl::StrCat(state.range(0)), absl::StrCat(processes)},
                 .commands = {"publish"}});
    if (!result.ok()) {
      state.SkipWithError(result.status().ToString().c_str());
      break;
    }
    ReportLatency(state, result->samples);
    state.counters["max_us"] = absl::ToDoubleMicroseconds(result->samples.max);
    state.counters["messages"] = result->commands_per_count;  // per process
  }
}
void BM_CountDownLatch_WakeAll(benchmark::State& state) {
  ReportWakeAll(state, "CountDownLatchWakeAll");
}
void BM_RawPublish_WakeAll(benchmark::State& state) { ReportWakeAll(state, "RawWakeAll"); }

void ForEachWaiterCount(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"waiters", "processes"})
      ->Args({1000, 16})
      ->Args({16, 16})
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}
BENCHMARK(BM_CountDownLatch_WakeAll)->Apply(ForEachWaiterCount);
BENCHMARK(BM_RawPublish_WakeAll)->Apply(ForEachWaiterCount);

}  // namespace
}  // namespace redlatch::bench
