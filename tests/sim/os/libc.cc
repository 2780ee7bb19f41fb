// The functions of libc that the library calls, for the simulated world. The program defines them,
// so the library's objects and the shared libraries call them instead of libc's own. Outside of
// fibres there is one thread with real descriptors: mutexes do nothing, and other calls go to the
// real kernel.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/base/config.h"
#include "absl/time/clock.h"
#include "tests/sim/net/network.h"
#include "tests/sim/os/kernel.h"
#include "tests/sim/os/objects.h"
#include "tests/sim/os/real_call.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {
namespace {

bool Simulated() { return Fibre::Current() != nullptr; }
Kernel& Here() { return *Kernel::Current(); }

[[noreturn]] void NotSimulated(const char* what) {
  fprintf(stderr, "the simulated system does not know this form of %s\n", what);
  abort();
}

int Fail(int error) {
  errno = error;
  return -1;
}

// Returns the real kernel's result; sets errno if it is an error.
long Given(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

template <class Kind>
std::shared_ptr<Kind> FindAs(int fd) {
  return std::dynamic_pointer_cast<Kind>(Here().Find(fd));
}

constexpr int64_t kUnixTime = 1'700'000'000 * kSecond;  // the wall clock at BOOTTIME 0

int64_t Read(clockid_t which) {
  const Process& process = Here().clock_process();
  const int64_t boot = process.clock.At(Here().now());
  switch (which) {
    case CLOCK_BOOTTIME:
      return boot;
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
      return boot + kUnixTime;
    default:  // the clocks that stand still during a suspend
      return boot - static_cast<int64_t>(static_cast<double>(process.slept) * process.clock.speed);
  }
}

timespec ToTimespec(int64_t nanos) { return {nanos / kSecond, nanos % kSecond}; }
int64_t Nanos(const timespec& time) { return int64_t{time.tv_sec} * kSecond + time.tv_nsec; }

int64_t DeadlineAt(clockid_t which, const timespec* until) {
  return until == nullptr ? kNever : Here().DeadlineIn(Nanos(*until) - Read(which));
}

long Futex(const uint32_t* word, int operation, uint32_t value, const timespec* timeout) {
  Kernel& kernel = Here();
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAKE:
      return kernel.WakeFutex(word, static_cast<int>(value));
    case FUTEX_WAIT: {
      kernel.SystemCall();
      if (*word != value) return Fail(EAGAIN);
      const int64_t deadline = timeout == nullptr ? kNever : kernel.DeadlineIn(Nanos(*timeout));
      return kernel.WaitForFutex(word, deadline) ? 0 : Fail(ETIMEDOUT);
    }
    case FUTEX_WAIT_BITSET: {
      kernel.SystemCall();
      if (*word != value) return Fail(EAGAIN);
      const clockid_t clock =
          (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
      return kernel.WaitForFutex(word, DeadlineAt(clock, timeout)) ? 0 : Fail(ETIMEDOUT);
    }
    default:
      NotSimulated("futex");
  }
}

}  // namespace
}  // namespace redlatch::sim

// Abseil's own function would read the processor's cycle counter.
namespace absl {
ABSL_NAMESPACE_BEGIN
int64_t GetCurrentTimeNanos() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return redlatch::sim::Nanos(now);
}
Time Now() { return FromUnixNanos(GetCurrentTimeNanos()); }
ABSL_NAMESPACE_END
}  // namespace absl

// NOLINTBEGIN: the names and types are libc's.
using namespace redlatch::sim;

extern "C" {

// Threads.

int pthread_create(pthread_t* thread, const pthread_attr_t*, void* (*code)(void*), void* argument) {
  if (!Simulated()) NotSimulated("pthread_create outside of the world");
  Fibre* const fibre =
      Here().Spawn(Fibre::Current()->process, [code, argument] { code(argument); });
  *thread = reinterpret_cast<pthread_t>(fibre);
  return 0;
}
int pthread_join(pthread_t thread, void**) {
  auto* const fibre = reinterpret_cast<Fibre*>(thread);
  while (!fibre->ended) {
    fibre->joiner = Fibre::Current();
    Here().Block(kNever);
  }
  return 0;
}
int pthread_detach(pthread_t thread) {
  reinterpret_cast<Fibre*>(thread)->detached = true;
  return 0;
}
pthread_t pthread_self() { return reinterpret_cast<pthread_t>(Fibre::Current()); }
int pthread_setname_np(pthread_t thread, const char* name) {
  if (Simulated()) reinterpret_cast<Fibre*>(thread)->name = name;
  return 0;
}
int pthread_setcancelstate(int, int*) { return 0; }
int pthread_sigmask(int, const sigset_t*, sigset_t*) { return 0; }
pid_t getpid() noexcept { return Simulated() ? 4711 : static_cast<pid_t>(RealCall(SYS_getpid)); }
int sched_yield() {
  if (Simulated()) {
    Here().Tick(kMicro);
    Here().Yield();
  }
  return 0;
}
namespace __cxxabiv1 {
int __cxa_thread_atexit(void (*destroy)(void*), void* object, void*) noexcept {
  if (Simulated()) Fibre::Current()->AtExit(destroy, object);
  return 0;
}
}  // namespace __cxxabiv1

// Mutexes and condition variables.

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (Simulated()) LockMutex(Here(), mutex);
  return 0;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return !Simulated() || TryLockMutex(Here(), mutex) ? 0 : EBUSY;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (Simulated()) UnlockMutex(Here(), mutex);
  return 0;
}
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  WaitForCondition(Here(), condition, mutex, kNever);
  return 0;
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  const int64_t deadline = DeadlineAt(clock, until);
  Trace::Call("wait for condition until ", deadline == kNever ? -1 : deadline / kMicro, " us");
  const bool woken = WaitForCondition(Here(), condition, mutex, deadline);
  Trace::Call(woken ? "was woken" : "was not woken");
  return woken ? 0 : ETIMEDOUT;
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  return pthread_cond_clockwait(condition, mutex, CLOCK_REALTIME, until);
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (Simulated()) WakeCondition(Here(), condition, false);
  return 0;
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (Simulated()) WakeCondition(Here(), condition, true);
  return 0;
}
int pthread_cond_destroy(pthread_cond_t*) noexcept { return 0; }

// It reads six arguments, the most that a system call has.
__attribute__((no_sanitize("address"))) long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& each : a) each = va_arg(list, long);
  va_end(list);
  if (!Simulated()) return Given(RealCall(number, a[0], a[1], a[2], a[3], a[4], a[5]));
  if (number != SYS_futex) NotSimulated("syscall");
  return Futex(reinterpret_cast<const uint32_t*>(a[0]), static_cast<int>(a[1]),
               static_cast<uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]));
}

// Time and chance.

int clock_gettime(clockid_t which, timespec* time) noexcept {
  if (Kernel::Current() == nullptr || !Here().has_clock()) {
    return static_cast<int>(
        Given(RealCall(SYS_clock_gettime, which, reinterpret_cast<long>(time))));
  }
  Here().Tick(20);
  *time = ToTimespec(Read(which));
  return 0;
}
int nanosleep(const timespec* duration, timespec*) {
  if (!Simulated()) {
    return static_cast<int>(Given(RealCall(SYS_nanosleep, reinterpret_cast<long>(duration), 0)));
  }
  const int64_t deadline = Here().DeadlineIn(Nanos(*duration));
  Trace::Call("sleep until ", deadline / kMicro, " us");
  while (Here().now() < deadline) Here().Wait(deadline);
  return 0;
}
int clock_nanosleep(clockid_t, int flags, const timespec* duration, timespec* left) {
  if (flags != 0) NotSimulated("clock_nanosleep");
  return nanosleep(duration, left);
}
ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  if (!Simulated()) {
    return Given(RealCall(SYS_getrandom, reinterpret_cast<long>(buffer), static_cast<long>(size),
                          static_cast<long>(flags)));
  }
  auto* bytes = static_cast<char*>(buffer);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t bits = Here().random().Bits();
    memcpy(bytes + at, &bits, std::min<size_t>(8, size - at));
  }
  return static_cast<ssize_t>(size);
}

// Descriptors.

int poll(pollfd* fds, nfds_t count, int timeout) {
  if (Simulated()) {
    Trace::Call("poll for ", timeout, " ms");
    const int ready = PollDescriptors(Here(), fds, count, timeout);
    Trace::Call("poll finds ", ready);
    return ready;
  }
  const timespec limit = ToTimespec(timeout * kMilli);
  return static_cast<int>(
      Given(RealCall(SYS_ppoll, reinterpret_cast<long>(fds), static_cast<long>(count),
                     timeout < 0 ? 0 : reinterpret_cast<long>(&limit), 0, 0)));
}
int eventfd(unsigned, int) noexcept {
  return Here().AddDescriptor(std::make_shared<EventDescriptor>());
}
int epoll_create1(int) noexcept { return Here().AddDescriptor(std::make_shared<SetDescriptor>()); }
int epoll_ctl(int set, int operation, int fd, epoll_event* event) noexcept {
  const auto its = FindAs<SetDescriptor>(set);
  const auto member = Here().Find(fd);
  if (its == nullptr || member == nullptr) return Fail(EBADF);
  Here().SystemCall();
  if (operation != EPOLL_CTL_ADD && operation != EPOLL_CTL_DEL) NotSimulated("epoll_ctl");
  const int error = operation == EPOLL_CTL_ADD
                        ? its->Add(its, member, static_cast<short>(event->events))
                        : its->Remove(member);
  Trace::Call("epoll_ctl ", operation, " ", fd, ": ", error);
  return error == 0 ? 0 : Fail(error);
}
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (fd < Kernel::kFirstDescriptor) {
    return static_cast<int>(Given(RealCall(SYS_fcntl, fd, command, argument)));
  }
  const auto descriptor = Here().Find(fd);
  if (descriptor == nullptr) return Fail(EBADF);
  if (command == F_GETSIG) return descriptor->signal;
  if (command != F_SETSIG) NotSimulated("fcntl");
  descriptor->signal = static_cast<int>(argument);
  return 0;
}
int close(int fd) {
  if (fd < Kernel::kFirstDescriptor) return static_cast<int>(Given(RealCall(SYS_close, fd)));
  return Here().CloseDescriptor(fd) ? 0 : Fail(EBADF);
}
ssize_t read(int fd, void* buffer, size_t size) {
  if (fd < Kernel::kFirstDescriptor) {
    return Given(RealCall(SYS_read, fd, reinterpret_cast<long>(buffer), static_cast<long>(size)));
  }
  const auto event = FindAs<EventDescriptor>(fd);
  if (event == nullptr) return Fail(EBADF);
  if (event->count == 0) return Fail(EAGAIN);
  memcpy(buffer, &event->count, sizeof event->count);
  event->count = 0;
  return sizeof event->count;
}
ssize_t write(int fd, const void* buffer, size_t size) {
  if (fd < Kernel::kFirstDescriptor) {
    return Given(RealCall(SYS_write, fd, reinterpret_cast<long>(buffer), static_cast<long>(size)));
  }
  const auto event = FindAs<EventDescriptor>(fd);
  if (event == nullptr) return Fail(EBADF);
  Here().SystemCall();
  ++event->count;
  event->Changed();
  return sizeof event->count;
}

// Sockets.

int socket(int family, int, int) noexcept {
  if (family != AF_INET) return Fail(EAFNOSUPPORT);
  return Here().AddDescriptor(std::make_shared<Socket>(Fibre::Current()->process));
}
int setsockopt(int, int, int, const void*, socklen_t) noexcept { return 0; }
int connect(int fd, const sockaddr* address, socklen_t size) {
  const auto socket = FindAs<Socket>(fd);
  if (socket == nullptr) return Fail(EBADF);
  Here().SystemCall();
  sockaddr_in target = {};
  memcpy(&target, address, std::min<size_t>(size, sizeof target));
  if (target.sin_family == AF_UNSPEC) {
    socket->Reset();
    return 0;
  }
  const int error =
      socket->Connect({.ip = ntohl(target.sin_addr.s_addr), .port = ntohs(target.sin_port)});
  return error == 0 ? 0 : Fail(error);
}
ssize_t send(int fd, const void* bytes, size_t size, int) {
  const auto socket = FindAs<Socket>(fd);
  if (socket == nullptr) return Fail(EBADF);
  Here().SystemCall();
  const ssize_t sent = socket->Send({static_cast<const char*>(bytes), size});
  Trace::Call("send ", fd, " ", size, " bytes: ", sent);
  return sent >= 0 ? sent : Fail(static_cast<int>(-sent));
}
ssize_t recv(int fd, void* buffer, size_t size, int) {
  const auto socket = FindAs<Socket>(fd);
  if (socket == nullptr) return Fail(EBADF);
  Here().SystemCall();
  const ssize_t got = socket->Receive(static_cast<char*>(buffer), size);
  Trace::Call("recv ", fd, ": ", got);
  if (got >= 0) return got;
  // A thread that polls in a loop must let the others run.
  if (got == -EAGAIN) Here().Block(Here().now() + 10 * kMicro);
  return Fail(static_cast<int>(-got));
}
int shutdown(int fd, int) noexcept {
  if (const auto socket = FindAs<Socket>(fd)) socket->Shutdown();
  return 0;
}
int getsockname(int fd, sockaddr* address, socklen_t* size) noexcept {
  return FindAs<Socket>(fd)->Name(address, size, /*peer=*/false) ? 0 : Fail(ENOTCONN);
}
int getpeername(int fd, sockaddr* address, socklen_t* size) noexcept {
  return FindAs<Socket>(fd)->Name(address, size, /*peer=*/true) ? 0 : Fail(ENOTCONN);
}

}  // extern "C"
// NOLINTEND
