#ifndef REDLATCH_SRC_DEMO_CREW_H_
#define REDLATCH_SRC_DEMO_CREW_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/demo/worker.h"

namespace redlatch::demo {

// A worker as seen from outside.
struct Worker {
  enum class State {
    kStarting,
    kRests,
    kWaits,
    kHolds,
    kDallies,
    kFrozen,
    kKilled,
    kDone,
    kFailed
  };
  int number = 0;
  pid_t pid = -1;  // -1: gone
  pid_t was = -1;
  State state = State::kStarting;
  std::string host;
  uint64_t token = 0;  // of its latest hold
  int64_t told = 0;    // additions that it has told of
  int orders = -1;     // the pipe that is its standard input
};

// The worker processes. All that still live end with this object, each by its pid.
class Crew {
 public:
  Crew() = default;
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Starts the program itself anew, `count` times. A fork without exec would take along a client's
  // connection, but not its threads.
  absl::Status Start(int count, const WorkerTask& task);

  // Hears the workers for so long, or until something was heard, and reaps those that ended.
  void Attend(absl::Duration wait, const std::function<void(const Worker&, const Report&)>& heard);

  void Tell(Worker& worker, Order order);
  static void Freeze(Worker& worker);
  static void Thaw(Worker& worker);
  static void Kill(Worker& worker);
  // Lets all finish what they are at.
  void Dismiss();

  std::vector<Worker>& workers() { return workers_; }
  const std::vector<Worker>& workers() const { return workers_; }

 private:
  absl::Status StartOne(const WorkerTask& task);
  void Read(const std::function<void(const Worker&, const Report&)>& heard);
  void Reap();

  std::vector<Worker> workers_;
  int reports_ = -1;  // the pipe that is all workers' standard output
  int reports_write_ = -1;
};

}  // namespace redlatch::demo

#endif  // REDLATCH_SRC_DEMO_CREW_H_
