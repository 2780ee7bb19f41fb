#include "tests/sim/world/runner.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace redlatch::sim {
namespace {

constexpr unsigned kLongestRun = 60;  // seconds of real time

// What a child leaves to its parent.
struct Slot {
  bool ended;
  RunResult result;  // without the text
  char violation[2000];
};

Slot* MakeSlot() {
  void* const made =
      mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) abort();
  return static_cast<Slot*>(made);
}

// In a build that counts lines: _exit() would forget them.
extern "C" __attribute__((weak)) void __gcov_dump();

[[noreturn]] void RunInChild(const Plan& plan, Slot* slot) {
  alarm(kLongestRun);
  World world(plan);
  RunResult result = world.Run();
  snprintf(slot->violation, sizeof slot->violation, "%s", result.violation.c_str());
  result.violation.clear();
  memcpy(static_cast<void*>(&slot->result), static_cast<const void*>(&result), sizeof result);
  slot->ended = true;
  fflush(nullptr);
  if (&__gcov_dump != nullptr) __gcov_dump();
  _exit(0);
}

pid_t Start(const Plan& plan, Slot* slot) {
  slot->ended = false;
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) RunInChild(plan, slot);
  if (pid < 0) abort();
  return pid;
}

RunResult TakeResult(Slot* slot, int status) {
  RunResult result;
  if (slot->ended) {
    const RunResult& theirs = slot->result;
    result.steps = theirs.steps;
    result.scripts = theirs.scripts;
    result.grants = theirs.grants;
    result.hash = theirs.hash;
    result.virtual_ms = theirs.virtual_ms;
    result.faults = theirs.faults;
    result.violation = slot->violation;
  } else {
    result.violation = WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM
                           ? "hangs: a thread runs without end"
                           : absl::StrCat("crash: the process ended with status ", status);
  }
  return result;
}

// The promise that a violation is of.
std::string ClassOf(const std::string& violation) {
  const size_t begin = violation.find("us: ");
  const std::string what = begin == std::string::npos ? violation : violation.substr(begin + 4);
  return what.substr(0, std::min(what.find(':'), what.find(" (")));
}

}  // namespace

void Runner::Run(const std::function<bool(Plan& plan)>& next,
                 const std::function<void(const Plan& plan, const RunResult& result)>& ended) {
  struct Child {
    Plan plan;
    Slot* slot;
  };
  std::map<pid_t, Child> children;
  std::vector<Slot*> slots;
  for (size_t i = 0; i < jobs_; ++i) slots.push_back(MakeSlot());
  for (bool more = true; more || !children.empty();) {
    Plan plan;
    while (more && !slots.empty() && (more = next(plan))) {
      const pid_t pid = Start(plan, slots.back());
      children.emplace(pid, Child{std::move(plan), slots.back()});
      slots.pop_back();
    }
    if (children.empty()) break;
    int status = 0;
    const auto found = children.find(wait(&status));
    if (found == children.end()) continue;
    ended(found->second.plan, TakeResult(found->second.slot, status));
    slots.push_back(found->second.slot);
    children.erase(found);
  }
  for (Slot* const slot : slots) munmap(slot, sizeof(Slot));
}

RunResult Runner::RunOne(const Plan& plan) {
  Slot* const slot = MakeSlot();
  int status = 0;
  // This child and no other: Run() may have some, too.
  waitpid(Start(plan, slot), &status, 0);
  RunResult result = TakeResult(slot, status);
  munmap(slot, sizeof(Slot));
  return result;
}

void Runner::WarmUp() {
  for (const Group group : {Group::kSingle, Group::kQuorum}) {
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Plan plan = MakePlan(seed, {.any_group = false, .group = group, .faults = 0});
      auto world = std::make_unique<World>(plan);
      // What the threads of a run that was broken off still use cannot be destroyed.
      if (!world->Run().violation.empty()) static_cast<void>(world.release());
    }
  }
}

std::string Runner::Shrink(const Plan& plan, const std::string& edits,
                           const std::string& violation) {
  std::string best = edits;
  const auto fails = [&](const std::string& tried) {
    return ClassOf(RunOne(Without(plan, tried)).violation) == ClassOf(violation);
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const std::string& edit : PossibleEdits(plan)) {
      if (absl::StrCat(",", best, ",").find(absl::StrCat(",", edit, ",")) != std::string::npos)
        continue;
      // Another order of events may fail where this one does not.
      for (int schedule = 0; schedule < 4; ++schedule) {
        std::string tried = absl::StrCat(best, best.empty() ? "" : ",", edit);
        if (schedule > 0) absl::StrAppend(&tried, ",s", schedule);
        if (!fails(tried)) continue;
        best = std::move(tried);
        smaller = true;
        break;
      }
    }
  }
  return best;
}

}  // namespace redlatch::sim
