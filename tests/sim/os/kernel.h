// The operating system of the simulated world. libc.cc forwards the programs' calls to it.
#ifndef REDLATCH_TESTS_SIM_OS_KERNEL_H_
#define REDLATCH_TESTS_SIM_OS_KERNEL_H_

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/os/fibre.h"
#include "tests/sim/random.h"

namespace redlatch::sim {

class Descriptor;

constexpr int64_t kMicro = 1'000;
constexpr int64_t kMilli = 1'000'000;
constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNever = INT64_MAX;

// A machine's clock, with its own speed and origin.
struct Clock {
  double speed = 1;    // 1.01: one per cent fast
  int64_t offset = 0;  // ns; a step changes it
  int64_t tick = 1;    // ns; it stands still in between

  int64_t At(int64_t kernel_time) const {
    const int64_t time =
        offset + kernel_time + static_cast<int64_t>(static_cast<double>(kernel_time) * (speed - 1));
    return time - time % tick;
  }
};

// One client process, alone on its machine.
class Process {
 public:
  explicit Process(std::string its_name) : name(std::move(its_name)) {}

  const std::string name;
  Clock clock;  // CLOCK_BOOTTIME; the wall clock is this plus a constant
  bool dead = false;
  bool paused = false;
  bool suspended = false;
  int64_t suspended_since = 0;
  int64_t slept = 0;          // the sum of all suspends so far
  int64_t stopped_until = 0;  // kernel time at which it last continued after a pause
  std::vector<Fibre*> fibres;
  std::vector<Fibre*> held_back;  // ready while the process is paused
};

// Threads are fibres, time is virtual, and one seed decides which fibre runs next. Everything
// happens in one real thread: on the main stack in events and in the caller of Run(), or in a
// fibre.
class Kernel {
 public:
  struct Options {
    Random random = Random(1);
    // another fibre may run after each of that many system calls, or four times as many uses of
    // atomic variables; 0: never
    uint64_t preempt_one_in = 0;
    // for how long a fibre may then stand still
    int64_t longest_stall = 0;
  };
  explicit Kernel(Options options);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  // The kernel that libc.cc calls.
  static Kernel* Current() { return current_; }

  int64_t now() const { return now_; }
  // Counts events: messages that arrived, waits that timed out, and events that the world adds.
  uint64_t steps() const { return steps_; }
  void CountStep() { ++steps_; }
  uint64_t trace_hash() const { return hash_; }  // equal for equal runs
  Random& random() { return random_; }

  // Runs steps until `done` returns true, virtual time reaches `until`, or nothing is left to
  // happen. Returns whether `done` returned true.
  bool Run(int64_t until, const std::function<bool()>& done);

  // Runs `event` on the main stack at that time.
  void At(int64_t when, std::function<void()> event);
  void After(int64_t delay, std::function<void()> event) { At(now_ + delay, std::move(event)); }

  Process* NewProcess(std::string name);
  Fibre* Spawn(Process* process, std::function<void()> code);
  // SIGSTOP and SIGCONT: timers continue meanwhile.
  void Pause(Process* process);
  void Resume(Process* process);
  // The machine sleeps: its timers stand still, its clock advances.
  void Suspend(Process* process);
  void WakeFromSuspend(Process* process);
  // SIGKILL: its threads never run again, and the system closes its descriptors. The kill is
  // postponed while one of its threads holds a mutex that other processes use too, as all processes
  // share globals here.
  void Kill(Process* process);

  // Calls `code` with the clock of that process.
  template <class Code>
  auto WithClockOf(Process* process, Code code) {
    Process* const before = std::exchange(clock_of_, process);
    auto result = code();
    clock_of_ = before;
    return result;
  }

  // The rest serves libc.cc and descriptors.

  bool has_clock() const { return clock_of_ != nullptr || Fibre::Current() != nullptr; }
  const Process& clock_process() const {
    return clock_of_ != nullptr ? *clock_of_ : *Fibre::Current()->process;
  }

  // Blocks the current fibre until Wake(), or until `deadline` in kernel time. Returns false if it
  // timed out.
  bool Block(int64_t deadline);
  // Like Block(), but a timeout counts as a step.
  bool Wait(int64_t deadline);
  void Wake(Fibre* fibre);
  // Lets other fibres run; the current fibre stays ready.
  void Yield();
  // The current fibre computes, or has no processor, for that long.
  void Stall(int64_t length);
  // Lets other fibres run, once in that many times.
  void Preempt(uint64_t one_in);
  void Preempt() { Preempt(options_.preempt_one_in); }
  // A system call takes a moment, and another fibre may run after it.
  void SystemCall();
  void Tick(int64_t nanos) { now_ += nanos; }
  // The kernel time at which `duration` of the current process's clock will have passed.
  int64_t DeadlineIn(int64_t duration) const;
  void Note(uint64_t what) { hash_ = (hash_ ^ what) * 0x100000001b3; }

  int AddDescriptor(std::shared_ptr<Descriptor> descriptor);
  std::shared_ptr<Descriptor> Find(int fd) const;
  bool CloseDescriptor(int fd);
  static constexpr int kFirstDescriptor = 1'000'000;

  // Prints where each thread is.
  void Describe(FILE* out) const;

  // Returns false if the deadline came first.
  bool WaitForFutex(const void* address, int64_t deadline);
  // Wakes at most `count` fibres that wait for the word at this address; returns how many.
  int WakeFutex(const void* address, int count);

 private:
  struct Timer {
    int64_t when;
    uint64_t order;
    Fibre* fibre;  // null: an event
    uint64_t wait;
    bool operator>(const Timer& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };

  bool Step(int64_t until);
  bool RunTimer(int64_t until);
  void RunFibre(Fibre* fibre);
  void MakeReady(Fibre* fibre);
  void Forget(Fibre* fibre);

  static Kernel* current_;

  const Options options_;
  Random random_;
  Process* clock_of_ = nullptr;
  int64_t now_ = kSecond;
  uint64_t steps_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t next_order_ = 0;
  uint64_t next_fibre_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::map<uint64_t, std::function<void()>> events_;  // by the number of their timers
  std::vector<Fibre*> ready_;
  std::vector<Fibre*> in_futex_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Fibre>> fibres_;
  std::vector<std::shared_ptr<Descriptor>> descriptors_;
  std::vector<int> free_descriptors_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_OS_KERNEL_H_
