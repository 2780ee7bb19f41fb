#include "src/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

sigset_t Blocked() {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return blocked;
}

sigset_t BlockedIn(const char* name, std::string* shown = nullptr) {
  sigset_t blocked;
  StartThread(name, [&] {
    blocked = Blocked();
    char text[16] = "";
    pthread_getname_np(pthread_self(), text, sizeof text);
    if (shown != nullptr) *shown = text;
  }).join();
  return blocked;
}

TEST(StartThread, TakesNoSignalThatIsMeantForTheProcess) {
  const sigset_t blocked = BlockedIn("signals");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD,
                           SIGWINCH, SIGPROF, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
}

TEST(StartThread, LeavesAloneWhatTheThreadItselfBringsAbout) {
  const sigset_t blocked = BlockedIn("signals");
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPIPE}) {
    EXPECT_EQ(sigismember(&blocked, signal), 0) << signal;
  }
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
  const sigset_t inherited = BlockedIn("signals");
  pthread_sigmask(SIG_UNBLOCK, &pipe, nullptr);
  EXPECT_EQ(sigismember(&inherited, SIGPIPE), 1);
}

TEST(StartThread, ChangesNoMaskOfItsCaller) {
  sigset_t some;
  sigemptyset(&some);
  sigaddset(&some, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &some, nullptr);
  BlockedIn("signals");
  const sigset_t after = Blocked();
  pthread_sigmask(SIG_UNBLOCK, &some, nullptr);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
  EXPECT_EQ(sigismember(&after, SIGUSR1), 0);
  EXPECT_EQ(sigismember(&after, SIGTERM), 0);
}

TEST(StartThread, HasItsName) {
  std::string shown;
  BlockedIn("redlatch-test", &shown);
  EXPECT_EQ(shown, "redlatch-test");
}

}  // namespace
}  // namespace redlatch::base
