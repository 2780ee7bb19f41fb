#include "src/base/fork_guard.h"

#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

pid_t ForkByLibrary() { return fork(); }
// Neither tells the C library, so that no pthread_atfork handler runs.
#ifdef SYS_fork  // some architectures have clone alone
pid_t ForkBySystemCall() { return static_cast<pid_t>(syscall(SYS_fork)); }
#endif
pid_t ForkByClone() {
  return static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Runs `check` in a child; true where it returned true there. The child calls nothing but it.
template <typename Check>
bool InChild(pid_t (*make)(), Check check) {
  const pid_t child = make();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class ForkGuardTest : public testing::TestWithParam<pid_t (*)()> {};

TEST_P(ForkGuardTest, ChildSeesThatItIsOneAndParentThatItIsNot) {
  const ForkGuard guard;
  EXPECT_FALSE(guard.InForkedChild());
  EXPECT_TRUE(InChild(GetParam(), [&] { return guard.InForkedChild(); }));
  EXPECT_FALSE(guard.InForkedChild());
}

TEST_P(ForkGuardTest, GrandchildIsToldApartFromItsWholeAncestry) {
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

// Guards made by several threads of a fresh child at once agree on its number.
TEST(ForkGuardThreadTest, FirstGuardsOfAChildMayBeMadeAtOnce) {
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
