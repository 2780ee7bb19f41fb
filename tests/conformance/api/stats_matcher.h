// For tests of what Client::Stats() tells.
#ifndef REDLATCH_TESTS_CONFORMANCE_API_STATS_MATCHER_H_
#define REDLATCH_TESTS_CONFORMANCE_API_STATS_MATCHER_H_

#include <ostream>

#include "redlatch/stats.h"
#include "tests/support/live_testing.h"
#include "tests/support/testing.h"

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

// What a client says of a name; of one that it does not know: nothing happened.
// Releases that are under way are awaited for a moment.
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

struct Expected {
  uint64_t acquired = 0;
  uint64_t passed_on = 0;
  uint64_t opened = 0;
  uint64_t busy = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;
  uint64_t released = 0;
  uint64_t lost = 0;
  uint64_t misused = 0;
  uint64_t held = 0;
  uint64_t permits = 0;
  uint64_t waiting = 0;
};

// These numbers, all others being zero, and histograms that agree with them. Renewals may happen
// whenever a machine is slow: those are left out.
MATCHER_P(Counts, expected, "counts as expected") {
  const Expected& e = expected;
  return arg.acquired == e.acquired && arg.passed_on == e.passed_on && arg.opened == e.opened &&
         arg.busy == e.busy && arg.cancelled == e.cancelled && arg.failed == e.failed &&
         arg.released == e.released && arg.releases_failed == 0 && arg.lost == e.lost &&
         arg.misused == e.misused && arg.held == e.held && arg.permits == e.permits &&
         arg.waiting == e.waiting && arg.waited.count() == e.acquired + e.opened &&
         arg.held_for.count() == e.released + e.lost;
}
inline auto Counts(const Expected& expected) { return Counts<Expected>(expected); }

}  // namespace conformance
}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_API_STATS_MATCHER_H_
