#ifndef REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_
#define REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_

#include "absl/base/thread_annotations.h"
#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// Writes down what a client's observer hears, and what else a test wants to see in that order.
class Recorder : public Observer {
 public:
  struct Event {
    std::string what;
    FencingToken token;
    absl::Status status;
    absl::Duration remaining;
  };

  void OnAcquired(std::string_view, FencingToken token, absl::Duration) override {
    Note({.what = "acquired", .token = token});
  }
  void OnWaitEnded(std::string_view, absl::Duration, const absl::Status& why) override {
    Note({.what = "wait ended", .status = why});
  }
  void OnReleased(std::string_view, FencingToken token, const absl::Status& result) override {
    Note({.what = "released", .token = token, .status = result});
  }
  void OnRenewed(std::string_view, FencingToken token) override {
    Note({.what = "renewed", .token = token});
  }
  void OnAtRisk(std::string_view, FencingToken token, absl::Duration remaining,
                const absl::Status& why) override {
    Note({.what = "at risk", .token = token, .status = why, .remaining = remaining});
  }
  void OnRecovered(std::string_view, FencingToken token) override {
    Note({.what = "recovered", .token = token});
  }
  void OnLost(const LostLease& lost) override { Note({.what = "lost", .token = lost.token}); }
  void OnReleaseFailed(std::string_view, FencingToken token, absl::Duration remaining,
                       const absl::Status& why) override {
    Note({.what = "release failed", .token = token, .status = why, .remaining = remaining});
  }
  void OnMisuse(std::string_view, std::string_view) override { Note({.what = "misuse"}); }
  void OnReconnected(std::string_view) override { Note({.what = "reconnected"}); }

  void Note(Event event) {
    {
      const base::MutexLock lock(mu_);
      events_.push_back(std::move(event));
    }
    changed_.SignalAll();
  }

  std::vector<Event> All(std::string_view what) const {
    const base::MutexLock lock(mu_);
    std::vector<Event> found;
    for (const Event& event : events_) {
      if (event.what == what) found.push_back(event);
    }
    return found;
  }
  int Count(std::string_view what) const { return static_cast<int>(All(what).size()); }

  // Until so many were heard; false where they never are.
  bool Await(std::string_view what, int times = 1, absl::Duration patience = absl::Seconds(10)) {
    const base::Instant until = base::Now() + patience;
    const base::MutexLock lock(mu_);
    while (true) {
      int heard = 0;
      for (const Event& event : events_) heard += event.what == what ? 1 : 0;
      if (heard >= times) return true;
      if (until <= base::Now()) return false;
      changed_.WaitUntil(mu_, until);
    }
  }

  // What was heard of all but renewals, in order.
  std::vector<std::string> Story() const {
    const base::MutexLock lock(mu_);
    std::vector<std::string> story;
    for (const Event& event : events_) {
      if (event.what != "renewed") story.push_back(event.what);
    }
    return story;
  }

 private:
  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::vector<Event> events_ ABSL_GUARDED_BY(mu_);
};

}  // namespace redlatch::conformance

#endif  // REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_
