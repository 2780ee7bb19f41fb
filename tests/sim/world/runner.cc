#include "tests/sim/world/runner.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "tests/sim/os/memory.h"
#include "tests/sim/redis/lua_engine.h"
#include "tests/sim/trace.h"

namespace redlatch::sim {

// A worker's task and its result.
struct Runner::Slot {
  uint64_t seed;
  PlanLimits limits;
  bool strict;
  Request::Telling tells;
  char edits[size_t{64} << 10];
  bool ended;
  RunResult result;  // without the text
  char violation[2000];
};

namespace {

constexpr rlim_t kLongestRun =
    60;  // seconds of processor time, so that a busy machine makes no difference
constexpr size_t kMostJobs = 256;

#ifdef REDLATCH_COUNTS_LINES
extern "C" void __gcov_dump();  // since _exit() would forget them
#endif

[[noreturn]] void Leave() {
  fflush(nullptr);
#ifdef REDLATCH_COUNTS_LINES
  __gcov_dump();
#endif
  _exit(0);
}

// The promise that a violation breaks.
std::string ClassOf(const std::string& violation) {
  const size_t begin = violation.find("us: ");
  const std::string what = begin == std::string::npos ? violation : violation.substr(begin + 4);
  return what.substr(0, std::min(what.find(':'), what.find(" (")));
}

// Compiles all scripts and fills all caches, so that the children need not.
void WarmUp() {
  LuaEngine& engine = LuaEngine::OfThisThread();
  for (const LuaScript& script : lua::kAll) engine.Compile(engine.Sha1(script.body), script.body);
  for (const Group group : {Group::kSingle, Group::kSentinel, Group::kCluster, Group::kQuorum}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const Plan plan = MakePlan(seed, {.any_group = false, .group = group, .faults = 0});
      auto world = std::make_unique<World>(plan);
      // Threads of an aborted run still use the world, so it cannot be destroyed.
      if (!world->Run().violation.empty()) static_cast<void>(world.release());
    }
  }
  engine.CollectRarely();
  UseNewPages();
}

}  // namespace

Plan Request::MakePlan() const {
  Plan plan = Without(redlatch::sim::MakePlan(seed, limits), edits);
  plan.strict = strict;
  return plan;
}

Runner::Runner(size_t jobs) {
  // Reserves the same memory for any number of workers.
  workers_.reserve(kMostJobs);
  idle_.reserve(kMostJobs);
  workers_.resize(std::clamp<size_t>(jobs, 1, kMostJobs));
  WarmUp();
  for (Worker& worker : workers_) {
    void* const shared =
        mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int down[2];
    int up[2];
    if (shared == MAP_FAILED || pipe(down) != 0 || pipe(up) != 0) abort();
    worker.slot = static_cast<Slot*>(shared);
    worker.to = down[1];
    worker.from = up[0];
    if (fork() == 0) {
      // Closes the pipes of earlier workers, which belong to the parent.
      for (const Worker& other : workers_) {
        if (other.to >= 0) close(other.to), close(other.from);
      }
      Serve(worker.slot, down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
  }
  for (Worker& worker : workers_) idle_.push_back(&worker);
}

Runner::~Runner() {
  for (const Worker& worker : workers_) close(worker.to), close(worker.from);
  while (wait(nullptr) > 0) {
  }
}

void Runner::Serve(Slot* slot, int in, int out) {
  char any = 0;
  while (read(in, &any, 1) == 1) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit = {.rlim_cur = kLongestRun, .rlim_max = kLongestRun + 1};
      setrlimit(RLIMIT_CPU, &limit);
      if (slot->tells != Request::Telling::kNothing) Trace::Enable();
      if (slot->tells == Request::Telling::kCalls) Trace::EnableCalls();
      const Request request{.seed = slot->seed,
                            .limits = slot->limits,
                            .strict = slot->strict,
                            .tells = slot->tells,
                            .edits = slot->edits};
      const Plan plan = request.MakePlan();
      World world(plan);
      RunResult result = world.Run();
      snprintf(slot->violation, sizeof slot->violation, "%s", result.violation.c_str());
      result.violation.clear();
      memcpy(static_cast<void*>(&slot->result), static_cast<const void*>(&result), sizeof result);
      slot->ended = true;
      Leave();
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (write(out, &status, sizeof status) != sizeof status) break;
  }
  Leave();
}

void Runner::Begin(Worker& worker, const Request& request) {
  Slot& slot = *worker.slot;
  worker.request = request;
  slot.seed = request.seed;
  slot.limits = request.limits;
  slot.strict = request.strict;
  slot.tells = request.tells;
  snprintf(slot.edits, sizeof slot.edits, "%s", request.edits.c_str());
  slot.ended = false;
  fflush(nullptr);
  if (write(worker.to, "", 1) != 1) abort();
}

RunResult Runner::End(const Worker& worker) {
  int status = 0;
  if (read(worker.from, &status, sizeof status) != sizeof status) abort();
  RunResult result;
  const Slot& slot = *worker.slot;
  if (slot.ended) {
    const RunResult& theirs = slot.result;
    result.steps = theirs.steps;
    result.scripts = theirs.scripts;
    result.grants = theirs.grants;
    result.hash = theirs.hash;
    result.requests = theirs.requests;
    result.virtual_ms = theirs.virtual_ms;
    result.calls = theirs.calls;
    result.judged_calls = theirs.judged_calls;
    result.used_ms = theirs.used_ms;
    result.judged_ms = theirs.judged_ms;
    result.faults = theirs.faults;
    result.violation = slot.violation;
  } else {
    result.violation = WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU
                           ? "hangs: a thread runs without end"
                           : absl::StrCat("crash: the process ended with status ", status);
  }
  return result;
}

void Runner::Run(
    const std::function<bool(Request& request)>& next,
    const std::function<void(const Request& request, const RunResult& result)>& ended) {
  bool more = true;
  for (;;) {
    Request request;
    while (more && !idle_.empty() && (more = next(request))) {
      Begin(*idle_.back(), request);
      idle_.pop_back();
    }
    if (idle_.size() == workers_.size()) return;
    std::vector<pollfd> results;
    for (const Worker& worker : workers_) {
      const bool busy = std::find(idle_.begin(), idle_.end(), &worker) == idle_.end();
      results.push_back({.fd = busy ? worker.from : -1, .events = POLLIN, .revents = 0});
    }
    poll(results.data(), results.size(), -1);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].revents == 0) continue;
      const RunResult result = End(workers_[i]);
      idle_.push_back(&workers_[i]);
      ended(Request(workers_[i].request), result);
    }
  }
}

RunResult Runner::RunOne(const Request& request) {
  Worker& worker = *idle_.back();
  idle_.pop_back();
  Begin(worker, request);
  RunResult result = End(worker);
  idle_.push_back(&worker);
  return result;
}

std::string Runner::Shrink(const Request& request, const std::string& violation) {
  Request best = request;
  const Plan plan = Request{.seed = request.seed, .limits = request.limits}.MakePlan();
  const auto fails = [&](const Request& tried) {
    return ClassOf(RunOne(tried).violation) == ClassOf(violation);
  };
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (const std::string& edit : PossibleEdits(plan)) {
      if (absl::StrCat(",", best.edits, ",").find(absl::StrCat(",", edit, ",")) !=
          std::string::npos) {
        continue;
      }
      // Another order of events may fail where this one does not.
      for (int schedule = 0; schedule < 4; ++schedule) {
        Request tried = best;
        absl::StrAppend(&tried.edits, tried.edits.empty() ? "" : ",", edit);
        if (schedule > 0) absl::StrAppend(&tried.edits, ",s", schedule);
        if (!fails(tried)) continue;
        best = std::move(tried);
        smaller = true;
        break;
      }
    }
  }
  return best.edits;
}

}  // namespace redlatch::sim
