// redlatch-sim: runs of the simulated world. `./dev sim --help` says how to use it.
#include <sys/personality.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/sim/trace.h"
#include "tests/sim/world/runner.h"

namespace redlatch::sim {
namespace {

constexpr const char* kUsage = R"(usage: redlatch-sim [flags]
  --seeds N            so many runs (default 1000)
  --from SEED          the first of them (default 1)
  --seconds S          end after that time
  --deployment NAME    single, sentinel, cluster or quorum; default: each run its own
  --replay SEED[:EDITS]  one run, with all that happens in it
  --plan SEED[:EDITS]  what is planned for that run
  --no-shrink          do not look for a smaller plan that fails
  --jobs N             runs at a time (default: one for each processor)
)";

struct Flags {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  double seconds = 0;
  PlanLimits limits;
  std::string replay;
  std::string plan;
  bool shrink = true;
  size_t jobs = std::max(1U, std::thread::hardware_concurrency());
};

bool SetDeployment(const std::string& name, PlanLimits& limits) {
  for (const Group group : {Group::kSingle, Group::kSentinel, Group::kCluster, Group::kQuorum}) {
    if (name != Name(group)) continue;
    limits.any_group = false;
    limits.group = group;
    return true;
  }
  return false;
}

bool Parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--no-shrink") {
      flags.shrink = false;
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (flag == "--seeds")
      flags.seeds = strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--from")
      flags.from = strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--seconds")
      flags.seconds = strtod(value.c_str(), nullptr);
    else if (flag == "--jobs")
      flags.jobs = strtoull(value.c_str(), nullptr, 10);
    else if (flag == "--faults")
      flags.limits.faults = strtoull(value.c_str(), nullptr, 16);
    else if (flag == "--replay")
      flags.replay = value;
    else if (flag == "--plan")
      flags.plan = value;
    else if (flag != "--deployment" || !SetDeployment(value, flags.limits))
      return false;
  }
  return true;
}

Plan PlanOf(const std::string& text, const PlanLimits& limits) {
  const size_t colon = text.find(':');
  const Plan plan = MakePlan(strtoull(text.c_str(), nullptr, 10), limits);
  return colon == std::string::npos ? plan : Without(plan, text.substr(colon + 1));
}

int Replay(const Flags& flags) {
  const Plan plan = PlanOf(flags.replay, flags.limits);
  printf("%s", Describe(plan).c_str());
  Trace::Enable();
  const RunResult result = Runner::RunOne(plan);
  printf("%s\nsteps %lu, scripts %lu, grants %lu, virtual ms %ld, hash %lx\n",
         result.violation.empty() ? "no promise is broken" : result.violation.c_str(), result.steps,
         result.scripts, result.grants, result.virtual_ms, result.hash);
  return result.violation.empty() ? 0 : 1;
}

struct Totals {
  uint64_t runs = 0, steps = 0, scripts = 0, grants = 0, failures = 0;
  int64_t virtual_ms = 0;
  std::array<uint64_t, static_cast<size_t>(FaultKind::kCount)> faults = {};
};

void Report(const Flags& flags, const Plan& plan, const RunResult& result) {
  printf("seed %lu: %s\n", plan.seed, result.violation.c_str());
  if (!flags.shrink) return;
  const std::string edits = Runner::Shrink(plan, "", result.violation);
  const Plan small = Without(plan, edits);
  printf(
      "the smallest plan that fails in this way:\n%s%s\nreplay it: ./dev sim --replay %lu:%s%s%s\n",
      Describe(small).c_str(), Runner::RunOne(small).violation.c_str(), plan.seed, edits.c_str(),
      flags.limits.any_group ? "" : " --deployment ",
      flags.limits.any_group ? "" : Name(flags.limits.group));
}

int RunAll(const Flags& flags) {
  const auto began = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  Totals totals;
  uint64_t seed = flags.from;
  Runner(flags.jobs)
      .Run(
          [&](Plan& plan) {
            if (flags.seconds > 0 ? elapsed() > flags.seconds : seed >= flags.from + flags.seeds) {
              return false;
            }
            plan = MakePlan(seed++, flags.limits);
            return totals.failures < 3;
          },
          [&](const Plan& plan, const RunResult& result) {
            ++totals.runs;
            totals.steps += result.steps;
            totals.scripts += result.scripts;
            totals.grants += result.grants;
            totals.virtual_ms += result.virtual_ms;
            for (size_t i = 0; i < totals.faults.size(); ++i) totals.faults[i] += result.faults[i];
            if (result.violation.empty()) return;
            ++totals.failures;
            Report(flags, plan, result);
          });
  printf("%lu runs, %lu steps, %lu scripts, %lu grants in %.1f s: %.0f steps/s\n", totals.runs,
         totals.steps, totals.scripts, totals.grants, elapsed(),
         static_cast<double>(totals.steps) / elapsed());
  for (size_t i = 0; i < totals.faults.size(); ++i) {
    if (totals.faults[i] > 0)
      printf("  %-14s %lu\n", Name(static_cast<FaultKind>(i)), totals.faults[i]);
  }
  if (totals.failures > 0) printf("%lu runs broke a promise\n", totals.failures);
  return totals.failures > 0 ? 1 : 0;
}

}  // namespace
}  // namespace redlatch::sim

int main(int argc, char** argv) {
  using namespace redlatch::sim;
  // Addresses must be the same in every run: they decide the order in hash tables.
  const int before = personality(0xffffffff);
  if (before >= 0 && (before & ADDR_NO_RANDOMIZE) == 0 &&
      personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) >= 0) {
    execv("/proc/self/exe", argv);
  }
  Flags flags;
  if (!Parse(argc, argv, flags)) {
    fputs(kUsage, stderr);
    return 2;
  }
  if (!flags.plan.empty()) {
    printf("%s", Describe(PlanOf(flags.plan, flags.limits)).c_str());
    return 0;
  }
  return flags.replay.empty() ? RunAll(flags) : Replay(flags);
}
