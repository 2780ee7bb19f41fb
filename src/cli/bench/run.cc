#include "src/cli/bench/run.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <numeric>
#include <stop_token>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "redlatch/client.h"
#include "redlatch/redis_lock_base.h"
#include "src/base/clock.h"
#include "src/cli/bench/places.h"
#include "src/cli/bench/plain_lock.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::PlainConnection;

constexpr int kSlices = 10;  // a round
constexpr absl::Duration kRunPatience = absl::Seconds(5);
constexpr absl::Duration kBenchLease = absl::Seconds(5);

base::Instant Soon() { return base::Now() + kRunPatience; }

// Calls `pair` until the token fires; how often a second it returned true.
absl::StatusOr<double> RateOf(const std::stop_token& stop,
                              const std::function<absl::StatusOr<bool>()>& pair) {
  int64_t pairs = 0;
  const base::Instant begun = base::Now();
  while (!stop.stop_requested()) {
    const absl::StatusOr<bool> done = pair();
    if (!done.ok()) return done.status();
    pairs += *done ? 1 : 0;
  }
  return static_cast<double>(pairs) / absl::ToDoubleSeconds(base::Now() - begun);
}

absl::StatusOr<bool> LockPair(RedisLockBase& lock) {
  absl::StatusOr<Lease> lease = lock.Acquire({.wait = kRunPatience});
  if (!lease.ok()) return lease.status();
  if (absl::Status released = lease->Release(); !released.ok()) return released;
  return true;
}

// What two threads send each other, one thing at a time.
class Turns {
 public:
  // Before it is sent.
  void Stamp(int thread) { sent_ = 2 * base::Now().nanos() + thread; }
  // Where it was the other's.
  void Arrived(int thread) {
    const base::Instant now = base::Now();
    const int64_t sent = sent_;
    if (sent == 0 || sent % 2 == thread) return;
    times_[thread].push_back(now - base::Instant::FromNanos(sent / 2));
  }
  void AddTo(Times* times) const {
    for (const Times& each : times_) times->insert(times->end(), each.begin(), each.end());
  }

 private:
  std::atomic<int64_t> sent_{0};
  Times times_[2];
};

class Benches {
 public:
  Benches(const BenchPlan& plan, Slices& slices, Client client, Client other, BenchFigures* figures)
      : plan_(plan),
        slices_(slices),
        client_(std::move(client)),
        other_(std::move(other)),
        figures_(*figures) {}

  // In rounds, so that what else the machine does meets redlatch and plain commands alike.
  absl::Status All() {
    for (int64_t round = 0; round < rounds_; ++round) {
      for (const auto step :
           {&Benches::PlainRoundTrips, &Benches::RoundTrips, &Benches::OneThread,
            &Benches::OwnLocks, &Benches::OneLock, &Benches::PlainMessages, &Benches::HandOvers}) {
        if (absl::Status done = (this->*step)(); !done.ok()) return done;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Duration slice() const { return plan_.time / (kSlices * rounds_); }

  // What one thread has measured; added where it was measured to the end.
  absl::Status MeasureTimes(
      Times* times, const std::function<absl::Status(const std::stop_token&, Times&)>& work) {
    Times measured;
    absl::Status done = slices_.Run(
        1, slice(), [&](int, const std::stop_token& stop) { return work(stop, measured); });
    if (done.ok()) times->insert(times->end(), measured.begin(), measured.end());
    return done;
  }

  absl::Status PlainRoundTrips() {
    return MeasureTimes(&figures_.round_trips.plain,
                        [this](const std::stop_token& stop, Times& times) -> absl::Status {
                          // Where a client's own PING goes.
                          auto connection = PlainConnection::Open(UrlOf(plan_, ""), Soon());
                          if (!connection.ok()) return connection.status();
                          const Command ping{"PING"};
                          while (!stop.stop_requested()) {
                            const base::Instant begun = base::Now();
                            if (auto pong = Ask(*connection, ping, plan_); !pong.ok())
                              return pong.status();
                            times.push_back(base::Now() - begun);
                          }
                          return absl::OkStatus();
                        });
  }

  absl::Status RoundTrips() {
    return MeasureTimes(&figures_.round_trips.redlatch,
                        [this](const std::stop_token& stop, Times& times) -> absl::Status {
                          while (!stop.stop_requested()) {
                            const absl::StatusOr<absl::Duration> pong = client_.Ping();
                            if (!pong.ok()) return pong.status();
                            times.push_back(*pong);
                          }
                          return absl::OkStatus();
                        });
  }

  // The sum of what the threads reach.
  absl::Status MeasureRate(
      int threads, Rates* rates,
      const std::function<absl::StatusOr<double>(int thread, const std::stop_token&)>& work) {
    std::vector<double> each(static_cast<size_t>(threads));
    absl::Status done =
        slices_.Run(threads, slice(), [&](int thread, const std::stop_token& stop) -> absl::Status {
          const absl::StatusOr<double> reached = work(thread, stop);
          if (reached.ok()) each[static_cast<size_t>(thread)] = *reached;
          return reached.status();
        });
    if (!done.ok()) return done;
    const double sum = std::accumulate(each.begin(), each.end(), 0.0);
    // None within the time, as on a machine that has none to spare, is no figure.
    if (sum > 0) rates->push_back(sum);
    return absl::OkStatus();
  }

  absl::Status MeasurePlain(int threads, Rates* rates,
                            const std::function<std::string(int thread)>& key) {
    return MeasureRate(threads, rates,
                       [&](int thread, const std::stop_token& stop) -> absl::StatusOr<double> {
                         const std::string name = key(thread);
                         auto connection = PlainConnection::Open(UrlOf(plan_, name), Soon());
                         if (!connection.ok()) return connection.status();
                         PlainLock lock(*connection, plan_, name, thread);
                         if (absl::Status ready = lock.Prepare(); !ready.ok()) return ready;
                         return RateOf(stop, [&] { return lock.Pair(stop); });
                       });
  }

  absl::Status MeasureLocks(int threads, Compared<Rates>* rates) {
    const auto name = [this](int thread) { return plan_.own_names[static_cast<size_t>(thread)]; };
    if (absl::Status done = MeasurePlain(threads, &rates->plain, name); !done.ok()) return done;
    return MeasureRate(threads, &rates->redlatch, [&](int thread, const std::stop_token& stop) {
      const auto lock = LockOf(plan_, client_, name(thread), kBenchLease);
      return RateOf(stop, [&lock] { return LockPair(*lock); });
    });
  }

  absl::Status OneThread() { return MeasureLocks(1, &figures_.one_thread); }
  absl::Status OwnLocks() { return MeasureLocks(kBenchThreads, &figures_.own_locks); }

  absl::Status OneLock() {
    const auto name = [this](int) { return SharedName(plan_); };
    if (absl::Status done = MeasurePlain(kBenchThreads, &figures_.one_lock.plain, name);
        !done.ok()) {
      return done;
    }
    const auto lock = LockOf(plan_, client_, SharedName(plan_), kBenchLease);
    return MeasureRate(kBenchThreads, &figures_.one_lock.redlatch,
                       [&lock](int, const std::stop_token& stop) {
                         return RateOf(stop, [&lock] { return LockPair(*lock); });
                       });
  }

  // Two threads, each of which waits for what the other sends it: `times` are those from one's
  // stamp to the end of the other's wait.
  absl::Status MeasureTurns(
      Times* times,
      const std::function<absl::Status(int thread, Turns&, const std::stop_token&)>& work) {
    Turns turns;
    absl::Status done = slices_.Run(2, slice(), [&](int thread, const std::stop_token& stop) {
      return work(thread, turns, stop);
    });
    if (done.ok()) turns.AddTo(times);
    return done;
  }

  absl::Status PlainMessages() {
    const Talk talk(plan_);
    // The first may begin when both can hear it.
    std::latch subscribed(2);
    return MeasureTurns(&figures_.hand_overs.plain,
                        [&](int thread, Turns& turns, const std::stop_token& stop) -> absl::Status {
                          auto speaker = PlainConnection::Open(talk.url(), Soon());
                          auto listener = PlainConnection::Open(talk.url(), Soon());
                          absl::Status ready = speaker.status();
                          ready.Update(listener.status());
                          if (ready.ok()) {
                            ready = Ask(*listener, talk.Subscribe(thread), plan_).status();
                          }
                          subscribed.arrive_and_wait();
                          if (!ready.ok()) return ready;
                          const Command publish = talk.Publish(1 - thread);
                          for (bool first = thread == 0; !stop.stop_requested(); first = false) {
                            if (!first) {
                              auto got = listener->Receive(Soon());
                              if (!got.ok())
                                return stop.stop_requested() ? absl::OkStatus() : got.status();
                              turns.Arrived(thread);
                            }
                            turns.Stamp(thread);
                            if (auto sent = Ask(*speaker, publish, plan_); !sent.ok())
                              return sent.status();
                          }
                          return Ask(*speaker, publish, plan_).status();  // the other may wait
                        });
  }

  // Two clients take the lock in turn: who releases it waits for it again.
  absl::Status HandOvers() {
    return MeasureTurns(&figures_.hand_overs.redlatch,
                        [this](int thread, Turns& turns, const std::stop_token& stop) {
                          const auto lock = LockOf(plan_, thread == 0 ? client_ : other_,
                                                   HandOverName(plan_), kBenchLease);
                          while (!stop.stop_requested()) {
                            absl::StatusOr<Lease> lease = lock->Acquire({.wait = kRunPatience});
                            if (!lease.ok()) return lease.status();
                            turns.Arrived(thread);
                            turns.Stamp(thread);
                            if (absl::Status released = lease->Release(); !released.ok()) {
                              return released;
                            }
                          }
                          return absl::OkStatus();
                        });
  }

  const BenchPlan& plan_;
  Slices& slices_;
  const Client client_;
  const Client other_;
  BenchFigures& figures_;
  const int64_t rounds_ = std::clamp<int64_t>(plan_.time / absl::Seconds(1), 1, 5);
};

}  // namespace

absl::Status RunBench(const BenchPlan& plan, Slices& slices, BenchFigures* figures) {
  absl::StatusOr<Client> client = Client::Connect(plan.url_text);
  if (!client.ok()) return client.status();
  ClientOptions silent;
  silent.on_warning = [](std::string_view) {};  // said by the first
  absl::StatusOr<Client> other = Client::Connect(plan.url_text, silent);
  if (!other.ok()) return other.status();
  return Benches(plan, slices, *std::move(client), *std::move(other), figures).All();
}

}  // namespace redlatch::cli
