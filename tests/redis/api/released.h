#ifndef REDLATCH_TESTS_REDIS_API_RELEASED_H_
#define REDLATCH_TESTS_REDIS_API_RELEASED_H_

#include "absl/base/thread_annotations.h"
#include "tests/support/live_testing.h"

namespace redlatch {

// What an observer is told of releases.
class Released : public Observer {
 public:
  void OnReleased(std::string_view, FencingToken, const absl::Status& result) override {
    const base::MutexLock lock(mu_);
    results_.push_back(result);
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status& why) override {
    const base::MutexLock lock(mu_);
    failures_.push_back(why);
  }
  std::vector<absl::Status> failures() {
    const base::MutexLock lock(mu_);
    return failures_;
  }
  std::vector<absl::Status> results() {
    const base::MutexLock lock(mu_);
    return results_;
  }

 private:
  base::Mutex mu_;
  std::vector<absl::Status> failures_ ABSL_GUARDED_BY(mu_);
  std::vector<absl::Status> results_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_REDIS_API_RELEASED_H_
