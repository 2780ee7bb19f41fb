#ifndef REDLATCH_SRC_CLI_BENCH_SLICE_H_
#define REDLATCH_SRC_CLI_BENCH_SLICE_H_

#include <signal.h>

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/unique_fd.h"

namespace redlatch::cli {

// Threads that work for some time, until a signal comes, or until one of them fails.
//
// From its construction on SIGINT, SIGTERM and SIGHUP end what is under way and nothing else, in
// all threads that begin later; so make it before any.
class Slices {
 public:
  Slices();
  ~Slices();  // signals do again what they did
  Slices(const Slices&) = delete;
  Slices& operator=(const Slices&) = delete;

  // Runs `work` in so many threads, numbered from 0, which return soon after the token fires.
  //   kCancelled   a signal came, now or in an earlier call
  //   another      the first that a thread returned
  absl::Status Run(int threads, absl::Duration time,
                   const std::function<absl::Status(int thread, const std::stop_token&)>& work);

  // Whether anything was run.
  bool begun() const { return begun_; }
  // The signal that came; 0: none.
  int signal() const { return signal_; }

 private:
  void Await(absl::Duration time, int failed_fd);

  sigset_t before_ = {};
  base::UniqueFd signals_;
  bool begun_ = false;
  int signal_ = 0;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_BENCH_SLICE_H_
