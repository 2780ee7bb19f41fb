// One process of the comparison that run.py runs, with any of the locks.
//
//   PROGRAM [--NAME=VALUE]... URL...
//
//   --work=pair      each thread takes a lock of its own and releases it, again and again
//   --work=contend   all threads of all processes take the same lock
//   --work=hold      takes --locks=N locks, and keeps them
//   --kind=K         mutex (the default), fair, read_write, semaphore or quorum, if the peer has it
//   --threads=N      of this process (1)
//   --seconds=S      duration (1)
//   --section-us=N   how long it stays with the lock (0)
//   --think-us=N     how long it stays away between two acquisitions (0)
//   --turns=1        after a release, it waits until another process has had the lock
//   --reads=P        for read_write: how many of a hundred acquisitions read (0)
//   --reentry=1      for pair: the thread already has the lock
//   --lease-ms=N     (30000)
//   --permits=N      for semaphore (4)
//   --shared=FILE    4 KiB of zeroes that all processes map
//   --index=N        of this process
//
// It prints "ready" once it has taken and released a lock of its own (for `hold`: once it has all
// its locks), because the first use is not measured. Then it waits for a line on its standard
// input, works, and prints one line of JSON:
//
//   counts           per thread: acquisitions within the time
//   failed           calls that returned without the lock, or failed to release it
//   overlaps         acquisitions while another holder was inside that should be excluded
//   longest_wait_ms  from the first call to the acquisition, or to the end of the time
//   cpu_s            processor time since that line
//   samples_us       for `pair`, the time of pairs; for `contend`, the time from another process's
//                    release to this one's acquisition; at most some thousands
//   waits_us         for `contend`, the time of calls; at most some thousands
//
// FILE contains a 32-bit word that is not 0 while a holder is inside; at 8 a 64-bit word,
// CLOCK_MONOTONIC in ns of the last release; at 16 a 32-bit word, the index of the process that
// released it, plus one.
//
// It is C++17 and uses nothing of redlatch, since peers are built with it as well. Contenders in
// other languages do the same.
#ifndef REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_
#define REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace redlatch::bench {

class Contender {
 public:
  Contender(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t equals = word.find('=');
      if (word.compare(0, 2, "--") == 0 && equals != std::string::npos) {
        options_[word.substr(2, equals - 2)] = word.substr(equals + 1);
      } else {
        urls_.push_back(word);
      }
    }
    if (urls_.empty()) Fail("only run.py starts contenders");
    Map(Option("shared", ""));
  }

  const std::vector<std::string>& urls() const { return urls_; }
  std::string Option(const std::string& name, const std::string& fallback) const {
    const auto found = options_.find(name);
    return found == options_.end() ? fallback : found->second;
  }
  long Number(const std::string& name, long fallback) const {
    return std::atol(Option(name, std::to_string(fallback)).c_str());
  }
  std::string kind() const { return Option("kind", "mutex"); }

  // `make(name)` makes a lock of the kind, for one thread. It returns a pointer to an object with
  //   bool Lock(bool reads)     false: it gave up, and is called again
  //   bool Unlock(bool reads)
  // The function returns what main() returns.
  template <typename Make>
  int Run(Make make) {
    const std::string work = Option("work", "contend");
    if (work == "hold") return Hold(make);
    const long threads = Number("threads", 1);
    const bool own = work == "pair";
    std::vector<Tally> tallies(threads);
    std::vector<decltype(make(std::string()))> locks;
    for (long i = 0; i < threads; ++i) {
      const std::string mine = "own:" + std::to_string(i) + ":" + Option("index", "0");
      auto lock = make(mine);
      if (lock->Lock(false)) lock->Unlock(false);
      if (kind() == "read_write" && lock->Lock(true)) lock->Unlock(true);
      locks.push_back(own ? std::move(lock) : make("contended"));
    }
    AwaitStart();
    const double cpu = CpuSeconds();
    const Clock::time_point end =
        Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(
                           std::atof(Option("seconds", "1").c_str())));
    std::vector<std::thread> running;
    for (long i = 0; i < threads; ++i) {
      running.emplace_back(
          [&, i] { tallies[i] = own ? Pairs(*locks[i], end) : Contend(*locks[i], end, i); });
    }
    for (std::thread& thread : running) thread.join();
    Report(tallies, CpuSeconds() - cpu);
    return 0;
  }

  [[noreturn]] static void Fail(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }

 private:
  using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC
  static constexpr size_t kMostSamples = 4000;

  struct Shared {
    std::atomic<int> inside;
    alignas(8) std::atomic<long long> released_at;
    std::atomic<int> released_by;
  };
  struct Tally {
    long long count = 0;
    long long failed = 0;
    long long overlaps = 0;
    double longest_wait_ms = 0;
    std::vector<double> samples_us;
    std::vector<double> waits_us;
  };

  static double Micros(Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  }

  template <typename Make>
  int Hold(Make make) {
    std::vector<decltype(make(std::string()))> locks;
    const long count = Number("locks", 1);
    for (long i = 0; i < count; ++i) {
      locks.push_back(make(count == 1 ? "contended" : "held:" + std::to_string(i)));
      while (!locks.back()->Lock(false)) {
      }
    }
    const double cpu = CpuSeconds();
    AwaitStart();
    std::vector<Tally> none(1);
    none[0].count = count;
    Report(none, CpuSeconds() - cpu);
    std::fflush(stdout);
    std::_Exit(0);  // the servers end with the run
  }

  template <typename Lock>
  Tally Pairs(Lock& lock, Clock::time_point end) const {
    Tally tally;
    const bool reentry = Number("reentry", 0) != 0;
    if (reentry && !lock.Lock(false)) ++tally.failed;
    long long next = 0;
    for (Clock::time_point begun = Clock::now(); begun < end;) {
      if (lock.Lock(false)) {
        ++tally.count;
        if (!lock.Unlock(false)) ++tally.failed;
      } else {
        ++tally.failed;
      }
      const Clock::time_point now = Clock::now();
      Keep(Micros(now - begun), next++, tally.samples_us);
      begun = now;
    }
    if (reentry) lock.Unlock(false);
    return tally;
  }

  // Keeps the latest samples.
  static void Keep(double sample_us, long long number, std::vector<double>& samples_us) {
    if (samples_us.size() < kMostSamples) {
      samples_us.push_back(sample_us);
    } else {
      samples_us[static_cast<size_t>(number) % kMostSamples] = sample_us;
    }
  }

  // Sleeps; or works, for a time that a sleep would make twice as long.
  static void Pass(long time_us) {
    const Clock::time_point end = Clock::now() + std::chrono::microseconds(time_us);
    if (time_us >= 100) std::this_thread::sleep_until(end);
    while (time_us > 0 && Clock::now() < end) {
    }
  }

  template <typename Lock>
  Tally Contend(Lock& lock, Clock::time_point end, long thread) const {
    Tally tally;
    const long section_us = Number("section-us", 0);
    const long think_us = Number("think-us", 0);
    const long reads_of_100 = Number("reads", 0);
    const bool excludes = kind() != "semaphore";
    const bool turns = Number("turns", 0) != 0;
    const int me = static_cast<int>(Number("index", 0)) + 1;
    unsigned chance = 12345U + static_cast<unsigned>(me * 64 + thread);
    for (bool running = true; running;) {
      chance = chance * 1664525U + 1013904223U;
      const bool reads = static_cast<long>((chance >> 8U) % 100) < reads_of_100;
      const Clock::time_point asked = Clock::now();
      bool held = lock.Lock(reads);
      while (!held && Clock::now() < end) {
        ++tally.failed;
        held = lock.Lock(reads);
      }
      if (!held) break;
      const Clock::time_point now = Clock::now();
      tally.longest_wait_ms =
          std::max(tally.longest_wait_ms, Micros(std::min(now, end) - asked) / 1000);
      running = now < end;
      if (running) {
        Keep(Micros(now - asked), tally.count, tally.waits_us);
        ++tally.count;
      }
      if (excludes && !reads) {
        if (shared_->inside.exchange(1) != 0) ++tally.overlaps;
        const long long released = shared_->released_at.load();
        const int by = shared_->released_by.load();
        if (by != 0 && by != me && reads_of_100 == 0 && tally.samples_us.size() < kMostSamples) {
          tally.samples_us.push_back(
              static_cast<double>(now.time_since_epoch().count() - released) / 1000);
        }
      } else if (excludes && shared_->inside.load() != 0) {
        ++tally.overlaps;
      }
      Pass(section_us);
      if (excludes && !reads) {
        shared_->inside.store(0);
        shared_->released_by.store(me);
        shared_->released_at.store(Clock::now().time_since_epoch().count());
      }
      if (!lock.Unlock(reads)) ++tally.failed;
      Pass(think_us);
      while (turns && shared_->inside.load() == 0 && Clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
    return tally;
  }

  static void Report(const std::vector<Tally>& tallies, double cpu) {
    Tally sum;
    std::string counts, samples, waits;
    const size_t each = std::max<size_t>(1, kMostSamples / tallies.size());
    for (const Tally& tally : tallies) {
      counts += (counts.empty() ? "" : ", ") + std::to_string(tally.count);
      sum.failed += tally.failed;
      sum.overlaps += tally.overlaps;
      sum.longest_wait_ms = std::max(sum.longest_wait_ms, tally.longest_wait_ms);
      Append(tally.samples_us, each, samples);
      Append(tally.waits_us, each, waits);
    }
    std::printf(
        "{\"counts\": [%s], \"failed\": %lld, \"overlaps\": %lld, \"longest_wait_ms\": %.3f, "
        "\"cpu_s\": %.4f, \"samples_us\": [%s], \"waits_us\": [%s]}\n",
        counts.c_str(), sum.failed, sum.overlaps, sum.longest_wait_ms, cpu, samples.c_str(),
        waits.c_str());
  }

  static void Append(const std::vector<double>& from, size_t most, std::string& to) {
    for (size_t i = 0; i < std::min(most, from.size()); ++i) {
      char text[32];
      std::snprintf(text, sizeof(text), "%s%.1f", to.empty() ? "" : ", ", from[i]);
      to += text;
    }
  }

  void Map(const std::string& path) {
    const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
                              0);  // fails if open() did
    if (memory == MAP_FAILED) Fail(path + ": " + std::strerror(errno));
    shared_ = static_cast<Shared*>(memory);
  }

  static double CpuSeconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
  }

  static void AwaitStart() {
    std::puts("ready");
    std::fflush(stdout);
    for (int byte = std::getchar(); byte != '\n'; byte = std::getchar()) {
      if (byte == EOF) Fail("run.py has ended");
    }
  }

  std::map<std::string, std::string> options_;
  std::vector<std::string> urls_;
  Shared* shared_ = nullptr;  // mapped for as long as the process lives
};

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_
