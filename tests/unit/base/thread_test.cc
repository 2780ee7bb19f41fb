#include "src/base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/base/fork_guard.h"
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

TEST(StartThread, BlocksSignalsOfTheProcess) {
  const sigset_t blocked = BlockedIn("signals");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD,
                           SIGWINCH, SIGPROF, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
}

TEST(StartThread, DoesNotBlockFaultsOfTheThread) {
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

TEST(StartThread, RestoresCallersSignalMask) {
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

pid_t ForkByLibrary() { return fork(); }
// Neither call tells the C library, so no pthread_atfork handler runs.
#ifdef SYS_fork  // some architectures have clone alone
pid_t ForkBySystemCall() { return static_cast<pid_t>(syscall(SYS_fork)); }
#endif
pid_t ForkByClone() {
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Runs `check` in a child, which calls nothing else; returns its result.
template <typename Check>
bool InChild(pid_t (*make)(), Check check) {
  const pid_t child = make();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class ForkGuardTest : public testing::TestWithParam<pid_t (*)()> {};

TEST_P(ForkGuardTest, DetectsChildButNotParent) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.InForkedChild());
  EXPECT_TRUE(InChild(GetParam(), [&] { return guard.InForkedChild(); }));
  EXPECT_FALSE(guard.InForkedChild());
}

TEST_P(ForkGuardTest, DetectsGrandchild) {
  const ForkGuard parents;
  EXPECT_TRUE(InChild(GetParam(), [&] {
    const ForkGuard childs;
    return InChild(GetParam(),
                   [&] {
                     if (!parents.InForkedChild() || !childs.InForkedChild()) return false;
                     const ForkGuard own;
                     return parents.InForkedChild() && childs.InForkedChild() &&
                            !own.InForkedChild();
                   }) &&
           !childs.InForkedChild() && parents.InForkedChild();
  }));
}

#ifdef SYS_fork
INSTANTIATE_TEST_SUITE_P(EveryWayToFork, ForkGuardTest,
                         testing::Values(ForkByLibrary, ForkBySystemCall, ForkByClone));
#else
INSTANTIATE_TEST_SUITE_P(EveryWayToFork, ForkGuardTest,
                         testing::Values(ForkByLibrary, ForkByClone));
#endif

// Several threads of a new child make guards at once, which agree on its number.
TEST(ForkGuardThreadTest, ChildMayMakeGuardsConcurrently) {
  const ForkGuard parents;
  EXPECT_TRUE(InChild(ForkByLibrary, [] {
    std::atomic<int> wrong{0};
    std::vector<std::optional<ForkGuard>> guards(8);
    std::vector<std::thread> threads;
    threads.reserve(guards.size());
    for (std::optional<ForkGuard>& guard : guards) {
      threads.emplace_back([&] {
        guard.emplace();
        wrong += guard->InForkedChild() ? 1 : 0;
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::optional<ForkGuard>& guard : guards) wrong += guard->InForkedChild() ? 1 : 0;
    return wrong == 0;
  }));
}

}  // namespace
}  // namespace redlatch::base
