#include "src/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "src/base/atomic.h"
#include "src/base/no_cancellation.h"
#include "src/base/parker.h"

namespace redlatch::base {
namespace {

// A thread inherits the mask of the one that starts it. If it blocked signals itself, one could
// come before that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int own :
         {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE, SIGXFSZ}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// While a thread has yet to destroy a thread_local object, the loader keeps the code in memory. The
// destructor is not empty, so that no compiler leaves it out.
struct KeepsLoaded {
  Atomic<bool> here{true};
  ~KeepsLoaded() { here = false; }
};

}  // namespace

std::thread StartThread(const char* name, std::function<void()> code) {
  const SignalsBlocked blocked;
  return std::thread([name, code = std::move(code)] {
    thread_local const KeepsLoaded keeps_loaded;
    pthread_setname_np(pthread_self(), name);
    code();
  });
}

bool TryStartDetached(const char* name, std::function<void()> code) {
  Parker runs;
  std::thread thread;
  const auto run = [&runs, code = std::move(code)] {
    runs.Set(1);
    code();
  };
  if (!TryStartThread(thread, name, run)) return false;
  thread.detach();
  runs.ParkUntil(Instant::Infinite());  // until then, dlclose() would unload its code
  return true;
}

void RunApart(const char* name, const std::function<void()>& code) {
  if (!TryStartDetached(name, code)) code();
}

void Join(std::thread& thread) {
  const NoCancellation no_cancellation;
  if (thread.joinable()) thread.join();
}

}  // namespace redlatch::base
