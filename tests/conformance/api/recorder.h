// What a client reports: its observer is told of events, and Client::Stats() counts them.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_
#define REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_

#include <ostream>

#include "redlatch/stats.h"
#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

namespace redlatch::conformance {

// Records the events that a client reports to its observer, and other events of a test, in order.
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

  // Waits for that many events; returns false after the timeout.
  bool Await(std::string_view what, int times = 1, absl::Duration timeout = absl::Seconds(10)) {
    const base::Instant until = base::Now() + timeout;
    const base::MutexLock lock(mu_);
    while (true) {
      const auto is = [&](const Event& event) { return event.what == what; };
      if (std::ranges::count_if(events_, is) >= times) return true;
      if (until <= base::Now()) return false;
      changed_.WaitUntil(mu_, until);
    }
  }

  // All events but renewals, in order.
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

namespace redlatch {

inline void PrintTo(const LockStats& stats, std::ostream* out) {
  *out << "\"" << stats.name << "\": acquired " << stats.acquired << " (passed on "
       << stats.passed_on << "), opened " << stats.opened << ", busy " << stats.busy
       << ", cancelled " << stats.cancelled << ", failed " << stats.failed << ", released "
       << stats.released << ", not released " << stats.releases_failed << ", lost " << stats.lost
       << ", renewed " << stats.renewed << " (failed " << stats.renewals_failed << "), misused "
       << stats.misused << ", held " << stats.held << ", permits " << stats.permits << ", waiting "
       << stats.waiting << ", waits " << stats.waited.count() << ", holds that ended "
       << stats.held_for.count();
}

namespace conformance {

// A client's numbers for a name, or zeros if it does not know the name. Waits a moment for releases
// in flight.
inline LockStats StatsOf(const Client& client, std::string_view name) {
  LockStats stats;
  support::Await(
      [&] {
        stats = {};
        const ClientStats all = client.Stats();
        for (const LockStats& lock : all.locks) {
          if (lock.name == name) stats = lock;
        }
        return stats.releasing == 0;
      },
      absl::Milliseconds(100));
  return stats;
}

inline std::vector<std::string> NamesOf(const Client& client) {
  std::vector<std::string> names;
  for (const LockStats& lock : client.Stats().locks) names.push_back(lock.name);
  return names;
}

// Matches these numbers, zeros for the others, and histograms that agree. Renewals are not
// compared, since a slow machine may cause some.
MATCHER_P(Counts, expected, "counts as expected") {
  const LockStats& e = expected;
  return arg.acquired == e.acquired && arg.passed_on == e.passed_on && arg.opened == e.opened &&
         arg.busy == e.busy && arg.cancelled == e.cancelled && arg.failed == e.failed &&
         arg.released == e.released && arg.releases_failed == 0 && arg.lost == e.lost &&
         arg.misused == e.misused && arg.held == e.held && arg.permits == e.permits &&
         arg.waiting == e.waiting && arg.waited.count() == e.acquired + e.opened &&
         arg.held_for.count() == e.released + e.lost;
}
inline auto Counts(const LockStats& expected) { return Counts<LockStats>(expected); }

}  // namespace conformance
}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_API_RECORDER_H_
