#include "src/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

#include "src/base/no_cancellation.h"

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

}  // namespace

std::thread StartThread(const char* name, std::function<void()> code) {
  const SignalsBlocked blocked;
  return std::thread([name, code = std::move(code)] {
    pthread_setname_np(pthread_self(), name);
    code();
  });
}

void RunApart(const char* name, const std::function<void()>& code) {
  std::thread thread;
  TryStartThread(thread, name, code) ? thread.detach() : code();
}

void Join(std::thread& thread) {
  const NoCancellation no_cancellation;
  if (thread.joinable()) thread.join();
}

}  // namespace redlatch::base
