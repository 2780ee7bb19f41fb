#ifndef REDLATCH_TESTS_SIM_WORLD_RUNNER_H_
#define REDLATCH_TESTS_SIM_WORLD_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/sim/world/plan.h"
#include "tests/sim/world/world.h"

namespace redlatch::sim {

// One run. Everything that happens follows from it.
struct Request {
  uint64_t seed = 0;
  PlanLimits limits;
  bool strict = false;
  enum class Telling : uint8_t { kNothing, kEvents, kCalls };
  Telling tells = Telling::kNothing;
  std::string edits;

  Plan MakePlan() const;
};

// Runs plans in child processes: a run leaves nothing to the next one, and may crash. Each child is
// forked from a process that has only warmed up, so that all start with the same memory: addresses
// decide the order in hash tables.
class Runner {
 public:
  // The first call in main(), before anything is allocated that depends on the command line.
  explicit Runner(size_t jobs);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // Runs the requests that `next` supplies, until it returns false, several at a time. `ended` may
  // call RunOne().
  void Run(const std::function<bool(Request& request)>& next,
           const std::function<void(const Request& request, const RunResult& result)>& ended);
  RunResult RunOne(const Request& request);

  // The smallest plan that breaks the same promise, as edits of the plan.
  std::string Shrink(const Request& request, const std::string& violation);

 private:
  struct Slot;
  // A process that forks a child for each run.
  struct Worker {
    Slot* slot = nullptr;  // shared with it
    int to = -1;
    int from = -1;
    Request request;  // the current one
  };

  static void Serve(Slot* slot, int in, int out);
  static void Begin(Worker& worker, const Request& request);
  static RunResult End(const Worker& worker);

  std::vector<Worker> workers_;
  std::vector<Worker*> idle_;
};

}  // namespace redlatch::sim

#endif  // REDLATCH_TESTS_SIM_WORLD_RUNNER_H_
