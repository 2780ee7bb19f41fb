#include "benchmarks/mood.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "benchmarks/raw_lock.h"
#include "src/base/clock.h"

namespace redlatch::bench {
namespace {

[[noreturn]] void Spin(int processor, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  const sched_param priority = {};
  // Without this priority, it would take half of the processor.
  if (sched_setscheduler(0, SCHED_IDLE, &priority) != 0 ||
      sched_setaffinity(0, sizeof(one), &one) != 0) {
    _exit(1);
  }
  for (;;) {
    asm volatile("" ::: "memory");
  }
}

}  // namespace

Awake::Awake() {
  cpu_set_t ours;
  CPU_ZERO(&ours);
  if (sched_getaffinity(0, sizeof(ours), &ours) != 0) return;
  const pid_t parent = getpid();
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &ours)) continue;
    const pid_t spinner = fork();
    if (spinner == 0) Spin(processor, parent);
    if (spinner > 0) spinners_.push_back(spinner);
  }
}

Awake::~Awake() {
  for (const pid_t spinner : spinners_) {
    kill(spinner, SIGKILL);
    waitpid(spinner, nullptr, 0);
  }
}

std::string RawPairTime() {
  constexpr int kPairs = 2000;
  absl::StatusOr<RawLock> lock = RawLock::Open("mood", "id");
  if (!lock.ok()) return lock.status().ToString();
  std::vector<absl::Duration> times;
  for (int i = 0; i < kPairs; ++i) {
    const base::Instant begun = base::Now();
    const absl::StatusOr<bool> acquired = lock->TryAcquire();
    if (!acquired.ok() || !*acquired || !lock->Release().ok()) return "the pair failed";
    times.push_back(base::Now() - begun);
  }
  std::nth_element(times.begin(), times.begin() + kPairs / 2, times.end());
  return absl::StrCat(absl::ToInt64Microseconds(times[kPairs / 2]), " us");
}

}  // namespace redlatch::bench
