// redlatch-sim: runs of the simulated world. `./dev sim --help` says how to use it.
#include <sys/personality.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/redis/script_coverage.h"
#include "tests/sim/trace.h"
#include "tests/sim/world/runner.h"

namespace redlatch::sim {
namespace {

constexpr const char* kUsage = R"(usage: redlatch-sim [flags]
  --seeds N              so many runs (default 1000)
  --from SEED            the first of them (default 1)
  --seconds S            end after that time instead
  --group NAME             single, sentinel, cluster or quorum; default: each run its own
  --faults MASK          which kinds of faults, as hexadecimal bits; 0: none
  --replay SEED[:EDITS]  one run, and all that happens in it
  --calls 1              with --replay: the system calls, too
  --plan SEED[:EDITS]    what is planned for that run
  --coverage FILE        fail if a run never took a kind of fault or a line of a script, unless FILE
                         explains it
  --taken FILE           with --coverage: lines of scripts that their tests take
  --both-ways 1          each run twice, with Acquire() and with AcquireAsync(), without late segments
                         and preemption: fail if that makes servers run other scripts
  --strict 1             demand what no lock over Redis can promise, too, to see how that fails
  --judged PERCENT       fail if less than that was judged in runs with faults
  --shrink 0             do not look for the smallest plan that fails
  --failures N           end after so many runs that broke a promise (default 3)
  --jobs N               runs at a time (default: one for each processor)
)";

struct Flags {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  double seconds = 0;
  PlanLimits limits;
  std::string replay;
  std::string plan;
  std::string coverage;
  std::string taken;
  uint64_t shrink = 1;
  uint64_t strict = 0;
  uint64_t both_ways = 0;
  uint64_t calls = 0;
  double judged = 0;
  uint64_t failures = 3;
  uint64_t jobs = 0;  // read by Raw()
};

bool SetGroup(const std::string& name, PlanLimits& limits) {
  for (const Group group : {Group::kSingle, Group::kSentinel, Group::kCluster, Group::kQuorum}) {
    if (name != Name(group)) continue;
    limits.any_group = false;
    limits.group = group;
    return true;
  }
  return false;
}

bool Set(Flags& flags, const std::string& flag, const std::string& value) {
  if (flag == "--seeds") return absl::SimpleAtoi(value, &flags.seeds);
  if (flag == "--from") return absl::SimpleAtoi(value, &flags.from);
  if (flag == "--seconds") return absl::SimpleAtod(value, &flags.seconds);
  if (flag == "--faults") return absl::SimpleHexAtoi(value, &flags.limits.faults);
  if (flag == "--judged") return absl::SimpleAtod(value, &flags.judged);
  if (flag == "--failures") return absl::SimpleAtoi(value, &flags.failures);
  if (flag == "--shrink") return absl::SimpleAtoi(value, &flags.shrink);
  if (flag == "--calls") return absl::SimpleAtoi(value, &flags.calls);
  if (flag == "--strict") return absl::SimpleAtoi(value, &flags.strict);
  if (flag == "--both-ways") return absl::SimpleAtoi(value, &flags.both_ways);
  if (flag == "--jobs") return absl::SimpleAtoi(value, &flags.jobs);
  if (flag == "--group") return SetGroup(value, flags.limits);
  std::string* const text = flag == "--replay"     ? &flags.replay
                            : flag == "--plan"     ? &flags.plan
                            : flag == "--coverage" ? &flags.coverage
                            : flag == "--taken"    ? &flags.taken
                                                   : nullptr;
  if (text != nullptr) *text = value;
  return text != nullptr;
}

Request RequestOf(const std::string& text, const Flags& flags) {
  const size_t colon = text.find(':');
  return {.seed = strtoull(text.c_str(), nullptr, 10),
          .limits = flags.limits,
          .strict = flags.strict != 0,
          .edits = colon == std::string::npos ? "" : text.substr(colon + 1)};
}

int Replay(const Flags& flags, Runner& runner) {
  Request request = RequestOf(flags.replay, flags);
  request.tells = flags.calls != 0 ? Request::Telling::kCalls : Request::Telling::kEvents;
  printf("%s", Describe(request.MakePlan()).c_str());
  const RunResult result = runner.RunOne(request);
  printf("%s\nsteps %lu, scripts %lu, grants %lu, virtual ms %ld, hash %lx\n",
         result.violation.empty() ? "no promise is broken" : result.violation.c_str(), result.steps,
         result.scripts, result.grants, result.virtual_ms, result.hash);
  return result.violation.empty() ? 0 : 1;
}

std::set<std::string> Explained(const std::string& path) {
  std::set<std::string> explained;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t reason = line.rfind(" -- ");
    if (line[0] == '#' || reason == std::string::npos) continue;
    if (line.starts_with("src/")) continue;  // tests/coverage.py checks these
    explained.insert(line.substr(0, reason));
  }
  return explained;
}

std::set<std::string> Lines(const std::string& path) {
  std::set<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

// Lists the kinds of faults and the lines of scripts that no run took. Each expected one is in the
// file `explained_in`, with its reason: "<file of lua/>: <text of the line> -- <reason>". Lines
// that the tests of scripts took are in `taken_in`, if there is such a file. Returns false if a
// line is in neither, or is explained although it was taken.
bool ReportCoverage(const FaultCounts& faults, const std::string& explained_in,
                    const std::string& taken_in) {
  std::set<std::string> missing;
  for (size_t i = 0; i < faults.size(); ++i) {
    if (faults[i] == 0) missing.insert(absl::StrCat("fault: ", Name(static_cast<FaultKind>(i))));
  }
  const ScriptCoverage::Result scripts = ScriptCoverage::Get()->Read();
  size_t missing_lines = 0;
  for (const ScriptCoverage::Line& line : scripts.all) {
    if (scripts.taken.contains(line)) continue;
    ++missing_lines;
    missing.insert(ScriptCoverage::Describe(line));
  }
  const std::set<std::string> explained = Explained(explained_in);
  const std::set<std::string> taken_by_tests = Lines(taken_in);
  bool good = true;
  size_t by_tests = 0;
  for (const std::string& each : missing) {
    const bool by_test = taken_by_tests.contains(each);
    by_tests += by_test;
    if (explained.contains(each)) continue;
    printf("%s: %s\n", by_test ? "taken by a script's tests alone" : "never taken", each.c_str());
    good = good && by_test;
  }
  for (const std::string& each : explained) {
    if (missing.contains(each) && !taken_by_tests.contains(each)) continue;
    printf("explained, but taken: %s\n", each.c_str());
    good = false;
  }
  printf(
      "%zu of %zu lines of scripts were taken, %zu others by tests of scripts alone; %zu are "
      "explained\n",
      scripts.all.size() - missing_lines, scripts.all.size(), by_tests, explained.size());
  return good;
}

// Many runs, one seed each.
class Campaign {
 public:
  Campaign(const Flags& flags, Runner& runner) : flags_(flags), runner_(runner) {}

  int Run() {
    runner_.Run(
        [this](Request& request) { return Next(request); },
        [this](const Request& request, const RunResult& result) { Ended(request, result); });
    printf("%lu runs, %lu steps, %lu scripts, %lu grants in %.1f s: %.0f steps/s\n", runs_,
           total_.steps, total_.scripts, total_.grants, Elapsed(),
           static_cast<double>(total_.steps) / Elapsed());
    const auto share = [](auto judged, auto all) {
      return 100 * static_cast<double>(judged) /
             static_cast<double>(std::max<decltype(all)>(all, 1));
    };
    const double of_calls = share(total_.judged_calls, total_.calls);
    const double of_time = share(total_.judged_ms, total_.used_ms);
    printf(
        "in runs with faults, %.1f %% of %lu calls and %.1f %% of %ld s in which a lock was in use "
        "were judged\n",
        of_calls, total_.calls, of_time, total_.used_ms / 1000);
    const bool little = total_.calls > 0 && std::min(of_calls, of_time) < flags_.judged;
    if (little) printf("that is less than %.0f %%\n", flags_.judged);
    for (size_t i = 0; i < total_.faults.size(); ++i) {
      if (total_.faults[i] == 0) continue;
      printf("  %-14s %u\n", Name(static_cast<FaultKind>(i)), total_.faults[i]);
    }
    if (failures_ > 0) printf("%lu runs broke a promise\n", failures_);
    const bool covered =
        flags_.coverage.empty() || ReportCoverage(total_.faults, flags_.coverage, flags_.taken);
    return failures_ > 0 || little || !covered ? 1 : 0;
  }

 private:
  static constexpr uint64_t kRepeatedOneIn = 64;

  double Elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

  // The flags without which the seed would give another plan.
  std::string MoreFlags() const {
    std::string text;
    if (!flags_.limits.any_group) absl::StrAppend(&text, " --group ", Name(flags_.limits.group));
    if (flags_.limits.faults != PlanLimits().faults) {
      absl::StrAppend(&text, " --faults ", absl::Hex(flags_.limits.faults));
    }
    if (flags_.strict != 0) absl::StrAppend(&text, " --strict 1");
    return text;
  }

  bool Next(Request& request) {
    const bool over = flags_.seconds > 0 ? Elapsed() > flags_.seconds : begun_ == flags_.seeds;
    if (over || failures_ >= flags_.failures) return false;
    request = {
        .seed = flags_.from + begun_++, .limits = flags_.limits, .strict = flags_.strict != 0};
    if (flags_.both_ways != 0) request.edits = "p,l,b";
    return true;
  }

  void Ended(const Request& request, const RunResult& result) {
    ++runs_;
    total_.steps += result.steps;
    total_.scripts += result.scripts;
    total_.grants += result.grants;
    total_.calls += result.calls;
    total_.judged_calls += result.judged_calls;
    total_.used_ms += result.used_ms;
    total_.judged_ms += result.judged_ms;
    for (size_t i = 0; i < total_.faults.size(); ++i) total_.faults[i] += result.faults[i];
    if (runs_ % 10'000 == 0) {
      fprintf(stderr, "%lu runs, %lu steps in %.0f s\n", runs_, total_.steps, Elapsed());
    }
    if (!result.violation.empty()) return Report(request, result.violation);
    if (flags_.both_ways != 0) return CompareWays(request, result);
    if (request.seed % kRepeatedOneIn != 0 || runner_.RunOne(request).hash == result.hash) return;
    ++failures_;
    printf("seed %lu: a second run of the same seed takes another course\n", request.seed);
  }

  void CompareWays(Request request, const RunResult& blocking) {
    request.edits = "p,l,a";
    const RunResult asynchronous = runner_.RunOne(request);
    if (!asynchronous.violation.empty()) return Report(request, asynchronous.violation);
    if (asynchronous.requests == blocking.requests) return;
    ++failures_;
    printf(
        "seed %lu: %lu scripts with Acquire(), and %lu others or in another order with "
        "AcquireAsync(): compare --replay %lu:p,l,b and %lu:p,l,a%s\n",
        request.seed, blocking.scripts, asynchronous.scripts, request.seed, request.seed,
        MoreFlags().c_str());
  }

  void Report(Request request, const std::string& violation) {
    ++failures_;
    printf("seed %lu: %s\n", request.seed, violation.c_str());
    fflush(stdout);
    if (flags_.shrink != 0) {
      request.edits = runner_.Shrink(request, violation);
      printf("the smallest plan that fails in this way:\n%s%s\n",
             Describe(request.MakePlan()).c_str(), runner_.RunOne(request).violation.c_str());
    }
    printf("replay it: ./dev sim --replay %lu%s%s%s\n", request.seed,
           request.edits.empty() ? "" : ":", request.edits.c_str(), MoreFlags().c_str());
  }

  const Flags& flags_;
  Runner& runner_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  RunResult total_;
  uint64_t begun_ = 0;
  uint64_t runs_ = 0;
  uint64_t failures_ = 0;
};

// The value of a flag, found without an allocation; null if the flag is absent.
const char* Raw(int argc, char** argv, const char* flag) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (strcmp(argv[i], flag) == 0) return argv[i + 1];
  }
  return nullptr;
}

int Main(int argc, char** argv) {
  const char* const jobs = Raw(argc, argv, "--jobs");
  if (Raw(argc, argv, "--coverage") != nullptr) ScriptCoverage::Begin();
  Runner runner(jobs != nullptr ? strtoull(jobs, nullptr, 10)
                                : std::thread::hardware_concurrency());
  Flags flags;
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && Set(flags, argv[i], argv[i + 1])) continue;
    fputs(kUsage, stderr);
    return 2;
  }
  if (!flags.plan.empty()) {
    printf("%s", Describe(RequestOf(flags.plan, flags).MakePlan()).c_str());
    return 0;
  }
  return flags.replay.empty() ? Campaign(flags, runner).Run() : Replay(flags, runner);
}

}  // namespace
}  // namespace redlatch::sim

int main(int argc, char** argv) {
  // Addresses must be the same in every run: they decide the order in hash tables.
  const int before = personality(0xffffffff);
  if (before >= 0 && (before & ADDR_NO_RANDOMIZE) == 0 &&
      personality(static_cast<unsigned long>(before) | ADDR_NO_RANDOMIZE) >= 0) {
    execv("/proc/self/exe", argv);
  }
  return redlatch::sim::Main(argc, argv);
}
