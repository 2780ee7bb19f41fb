// One process of the race that run.py runs, whichever lock it uses.
//
//   int main(int argc, char** argv) {
//     const redlatch::bench::Contender contender(argc, argv);
//     SomeLock lock(contender.urls(), redlatch::bench::kContendedLock);  // connects
//     return contender.Race([&] { lock.lock(); return true; }, [&] { lock.unlock(); });
//   }
//
// run.py starts it with [OPTION...] SECONDS SECTION URL..., waits until it has said "ready", and
// begins the race of all processes with a line on its standard input. What it then says is one
// line of JSON:
//
//   count            acquisitions within the time
//   failed           calls that returned without the lock, or that failed to release it
//   overlaps         acquisitions while another process was inside
//   longest_wait_ms  from the first call to the acquisition; the last wait counts, though its
//                    acquisition comes after the time
//
// SECTION is a file of zeroes that all processes map: its first word tells whether one of them is
// inside. C++17, and nothing of redlatch: peers are built with it as well.
#ifndef REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_
#define REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace redlatch::bench {

inline constexpr char kContendedLock[] = "contended";

class Contender {
 public:
  Contender(int argc, char** argv) {
    int at = 1;
    while (at < argc && std::strncmp(argv[at], "--", 2) == 0) options_.emplace_back(argv[at++]);
    if (argc - at < 3) Fail("run.py starts contenders, nobody else");
    seconds_ = std::chrono::duration<double>(std::atof(argv[at]));
    Map(argv[at + 1]);
    urls_.assign(argv + at + 2, argv + argc);
  }

  const std::vector<std::string>& urls() const { return urls_; }

  // The value of --NAME=VALUE; `fallback` if it was not given.
  std::string Option(const std::string& name, const std::string& fallback) const {
    const std::string start = "--" + name + "=";
    for (const std::string& option : options_) {
      if (option.compare(0, start.size(), start) == 0) return option.substr(start.size());
    }
    return fallback;
  }

  // `lock` returns whether it has the lock, and is called again if it has not. Returns what main()
  // returns.
  template <typename Lock, typename Unlock>
  int Race(Lock lock, Unlock unlock) const {
    AwaitStart();
    Result result;
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Nanos>(seconds_);
    for (bool running = true; running;) {
      const Clock::time_point asked = Clock::now();
      bool held = lock();
      while (!held && Clock::now() < end) {
        ++result.failed;
        held = lock();
      }
      const Clock::time_point now = Clock::now();
      result.longest_wait = std::max<Nanos>(result.longest_wait, now - asked);
      running = now < end;
      if (!held) break;
      if (inside_->exchange(1) != 0) ++result.overlaps;
      if (running) ++result.count;
      inside_->store(0);
      unlock();
    }
    std::printf(
        "{\"count\": %lld, \"failed\": %lld, \"overlaps\": %lld, \"longest_wait_ms\": %.3f}\n",
        result.count, result.failed, result.overlaps,
        std::chrono::duration<double, std::milli>(result.longest_wait).count());
    return 0;
  }

  [[noreturn]] static void Fail(const std::string& why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Nanos = std::chrono::nanoseconds;

  struct Result {
    long long count = 0;
    long long failed = 0;
    long long overlaps = 0;
    Nanos longest_wait{0};
  };

  void Map(const char* path) {
    const int descriptor = open(path, O_RDWR | O_CLOEXEC);
    void* const memory = mmap(nullptr, sizeof(*inside_), PROT_READ | PROT_WRITE, MAP_SHARED,
                              descriptor, 0);  // fails if open() did
    if (memory == MAP_FAILED) Fail(std::string(path) + ": " + std::strerror(errno));
    inside_ = static_cast<std::atomic<unsigned>*>(memory);
  }

  static void AwaitStart() {
    std::puts("ready");
    std::fflush(stdout);
    for (int byte = std::getchar(); byte != '\n'; byte = std::getchar()) {
      if (byte == EOF) Fail("run.py has ended");
    }
  }

  std::vector<std::string> options_;
  std::chrono::duration<double> seconds_{0};
  std::vector<std::string> urls_;
  std::atomic<unsigned>* inside_ = nullptr;  // mapped for as long as the process lives
};

}  // namespace redlatch::bench

#endif  // REDLATCH_BENCHMARKS_PEERS_CONTENDER_H_
