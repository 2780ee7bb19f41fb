// Loaded before the C library (LD_PRELOAD), shifts the wall clock of a program: by the microseconds
// that stand in the file $REDLATCH_CLOCK_SHIFT, as a number of 64 bits, at the moment of asking.
// Or it stops that clock, at the Unix time that stands in the file $REDLATCH_CLOCK_STOPPED: then a
// sleep, such as DEBUG SLEEP, returns at once and moves the clock by its length. The monotonic
// clock stands with it, and a server that could read the processor's own does not find it.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

constexpr int64_t kMicros = 1'000'000;

volatile int64_t* MapNumber(const char* variable) {
  const char* const path = std::getenv(variable);
  const int fd = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
  void* const mapped =
      fd >= 0 ? mmap(nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
              : MAP_FAILED;
  return mapped == MAP_FAILED ? nullptr : static_cast<volatile int64_t*>(mapped);
}

// Null if the clock runs.
volatile int64_t* StoppedAt() {
  static volatile int64_t* const at = MapNumber("REDLATCH_CLOCK_STOPPED");
  return at;
}

int64_t NowMicros() {
  static const volatile int64_t* const shift = MapNumber("REDLATCH_CLOCK_SHIFT");
  if (StoppedAt() != nullptr) return *StoppedAt();
  timespec now = {};
  syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  return now.tv_sec * kMicros + now.tv_nsec / 1000 + (shift != nullptr ? *shift : 0);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (!wall && (StoppedAt() == nullptr || clock != CLOCK_MONOTONIC)) {
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

int nanosleep(const timespec* length, timespec* left) {
  volatile int64_t* const at = StoppedAt();
  if (at == nullptr) return static_cast<int>(syscall(SYS_nanosleep, length, left));
  *at = *at + length->tv_sec * kMicros + length->tv_nsec / 1000;
  return 0;
}

FILE* fopen(const char* path, const char* mode) {
  using Function = FILE* (*)(const char*, const char*);
  static const auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "fopen"));
  if (StoppedAt() == nullptr || std::strcmp(path, "/proc/cpuinfo") != 0) return real(path, mode);
  errno = ENOENT;
  return nullptr;
}

}  // extern "C"
