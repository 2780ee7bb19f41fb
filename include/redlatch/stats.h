// Counters of a client's locks, and their text for Prometheus.
#ifndef REDLATCH_STATS_H_
#define REDLATCH_STATS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "redlatch/export.h"

namespace redlatch {

// How many durations of which size there were. Bucket i counts those of at most Bound(i) that the
// bucket before it does not: 1 µs, 2 µs, 4 µs … 2^30 µs (18 minutes), and the rest.
struct REDLATCH_EXPORT DurationHistogram {
  static constexpr int kBuckets = 32;
  static absl::Duration Bound(int bucket);  // of the last: infinite

  std::array<uint64_t, kBuckets> buckets = {};
  absl::Duration sum = absl::ZeroDuration();

  uint64_t count() const;
  absl::Duration Mean() const;  // zero if there are none
  // The duration that this share of all, 0 to 1, does not exceed: 0.5 is the median. It is as
  // coarse as the buckets; beyond the last bound, it is that bound.
  absl::Duration Quantile(double share) const;

  DurationHistogram& operator+=(const DurationHistogram& other);
};

// The counters of one name. They only ever grow, unless they say otherwise.
//
// A hold begins with one call and ends with one release: a thread's hold of a lock, even if it
// joins other readers or got the lock from another thread of its client; an acquisition of a
// semaphore, whatever the number of its permits. Reentry is no hold of its own. Always, except for
// latches, which are not held:
//
//   acquired == released + releases_failed + lost + held + releasing
struct REDLATCH_EXPORT LockStats {
  std::string name;  // kOtherNames: all names without a place of their own

  uint64_t acquired = 0;   // holds that began
  uint64_t passed_on = 0;  // of them: without the server, from a thread of this client to the next
  uint64_t opened = 0;     // waits for a latch that ended because it is open

  // Calls that ended without a hold: the lock was busy (or the latch closed) until their wait was
  // over; they were stopped; or they failed, for example because of an unreachable server.
  // Arguments that are refused at once, and looks at a latch such as try_wait(), are not counted.
  uint64_t busy = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;

  uint64_t released = 0;  // holds that were released
  // Holds whose release the server refused, did not confirm in time, or no longer knew.
  uint64_t releases_failed = 0;
  uint64_t lost = 0;             // holds that ended otherwise: see LostLease
  uint64_t renewed = 0;          // renewals at the server: readers of a client share them
  uint64_t renewals_failed = 0;  // each is tried again until the hold is lost
  uint64_t misused = 0;          // see Observer::OnMisuse()

  // At this moment.
  uint64_t held = 0;       // holds
  uint64_t permits = 0;    // of a semaphore, in these holds
  uint64_t releasing = 0;  // holds whose release the server has not confirmed yet
  uint64_t waiting = 0;    // calls that wait

  DurationHistogram waited;  // from the call to the hold (the open latch): of `acquired`, `opened`
  DurationHistogram held_for;  // from there to the release or loss: of all that have ended

  // Adds up all but the name.
  LockStats& operator+=(const LockStats& other);
};

// A lock that has this name is counted among the others.
inline constexpr char kOtherNames[] = "(other)";

struct ClientStats {
  std::string server;  // as Client::server()
  std::string name;    // the URL's `name`, or empty
  std::string id;      // in the server's keys; a new one for each Client::Connect()

  uint64_t connects = 0;    // for commands
  uint64_t breaks = 0;      // connections lost or given up
  uint64_t reconnects = 0;  // see Observer::OnReconnected()
  uint64_t late = 0;        // commands that were not answered in time

  LockStats all;                 // without a name: the sum of `locks`
  std::vector<LockStats> locks;  // by name, of all that were used since the client was made
};

// The text for a Prometheus server, in version 0.0.4 of its format:
//
//   Content-Type: text/plain; version=0.0.4; charset=utf-8
//
// All metrics begin with `redlatch_`. Their labels are `server`, `lock` and, if the URL has a
// `name`, `client`. Texts of several calls cannot be joined: pass all clients of the program, and
// give each a `name` in its URL. Clients with one name and server are added up; a client that is
// passed twice counts once.
//
// Names keep their UTF-8; other bytes and control characters are written as \xNN.
REDLATCH_EXPORT std::string PrometheusText(absl::Span<const ClientStats> clients);
REDLATCH_EXPORT std::string PrometheusText(const ClientStats& client);

}  // namespace redlatch

#endif  // REDLATCH_STATS_H_
