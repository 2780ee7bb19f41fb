// Loaded before the C library (LD_PRELOAD), shifts the wall clock of a program: by the microseconds
// that stand in the file $REDLATCH_CLOCK_SHIFT, as a number of 64 bits, at the moment of asking.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kMicros = 1'000'000;

int64_t ShiftMicros() {
  static const volatile int64_t* const shift = [] {
    static constexpr int64_t kNone = 0;
    const char* const path = std::getenv("REDLATCH_CLOCK_SHIFT");
    const int fd = path != nullptr ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void* const mapped =
        fd >= 0 ? mmap(nullptr, sizeof kNone, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    return mapped == MAP_FAILED ? &kNone : static_cast<const int64_t*>(mapped);
  }();
  return *shift;
}

int64_t NowMicros() {
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * kMicros + now.tv_nsec / 1000 + ShiftMicros();
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
    return static_cast<int>(syscall(SYS_clock_gettime, clock, now));
  }
  const int64_t micros = NowMicros();
  *now = {.tv_sec = micros / kMicros, .tv_nsec = micros % kMicros * 1000};
  return 0;
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  const int64_t micros = NowMicros();
  *now = {.tv_sec = micros / kMicros, .tv_usec = micros % kMicros};
  return 0;
}

time_t time(time_t* now) noexcept {
  const time_t seconds = NowMicros() / kMicros;
  if (now != nullptr) *now = seconds;
  return seconds;
}

}  // extern "C"
