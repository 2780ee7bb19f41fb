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

// Counts durations by their size. Bucket i counts the durations that are longer than Bound(i - 1)
// and at most Bound(i). The bounds are 1 µs, 2 µs, 4 µs … 2^30 µs (18 minutes); the last bucket
// counts everything longer.
struct REDLATCH_EXPORT DurationHistogram {
  static constexpr int kBuckets = 32;
  static absl::Duration Bound(int bucket);  // that of the last bucket is infinite

  std::array<uint64_t, kBuckets> buckets = {};
  absl::Duration sum = absl::ZeroDuration();

  uint64_t count() const;
  absl::Duration Mean() const;  // zero if nothing was counted
  // Returns the duration that `share` of the durations do not exceed: Quantile(0.5) is the median.
  // The result is as coarse as the buckets, and is at most the last finite bound.
  absl::Duration Quantile(double share) const;

  DurationHistogram& operator+=(const DurationHistogram& other);
};

// The counters of one name. They only grow, except those of the present moment.
//
// A hold begins with one call and ends with one release. Each thread that has a lock has a hold of
// its own, even if it joined other readers or got the lock from another thread of its client. An
// acquisition of a semaphore is one hold, however many permits it has. Acquiring a reentrant lock
// again is not a new hold. For all kinds except latches, which have no holds, this is always true:
//
//   acquired == released + releases_failed + lost + held + releasing
struct REDLATCH_EXPORT LockStats {
  std::string name;  // kOtherNames: all names that are not counted separately

  uint64_t acquired = 0;   // holds that began
  uint64_t passed_on = 0;  // those of them that another thread of this client passed on
  uint64_t opened = 0;     // waits for a latch that ended because it was open

  // Calls that ended without a hold. Busy: the lock was taken, or the latch closed, until the wait
  // was over. Cancelled: the call was stopped. Failed: for example, the server was unreachable.
  // Calls with invalid arguments are not counted, nor are calls such as try_wait() of a latch.
  uint64_t busy = 0;
  uint64_t cancelled = 0;
  uint64_t failed = 0;

  uint64_t released = 0;  // holds that were released
  // Holds whose release the server refused or did not confirm in time, or that it no longer knew.
  uint64_t releases_failed = 0;
  uint64_t lost = 0;             // holds that ended without a release: see LostLease
  uint64_t renewed = 0;          // renewals at the server; readers of a client share them
  uint64_t renewals_failed = 0;  // the client repeats each of them until the hold is lost
  uint64_t misused = 0;          // see Observer::OnMisuse()

  // At the present moment.
  uint64_t held = 0;       // holds
  uint64_t permits = 0;    // a semaphore's permits in these holds
  uint64_t releasing = 0;  // holds whose release the server has not confirmed yet
  uint64_t waiting = 0;    // calls that wait

  // Of `acquired` and `opened`: the time from the call to the hold, or to the open latch.
  DurationHistogram waited;
  // Of all holds that have ended: the time from the hold's beginning to its release or loss.
  DurationHistogram held_for;

  // Adds all members except the name.
  LockStats& operator+=(const LockStats& other);
};

// The name under which all further names are counted together. A lock with this very name is
// counted there too.
inline constexpr char kOtherNames[] = "(other)";

struct ClientStats {
  std::string server;  // as Client::server()
  std::string name;    // the URL's `name`, or empty
  std::string id;      // in the server's keys; a new one for each Client::Connect()

  uint64_t connects = 0;    // connections that were made for commands
  uint64_t breaks = 0;      // connections that were lost or given up
  uint64_t reconnects = 0;  // see Observer::OnReconnected()
  uint64_t late = 0;        // commands that were not answered in time

  LockStats all;                 // the sum of `locks`; its name is empty
  std::vector<LockStats> locks;  // of all locks that the client has used, sorted by name
};

// Returns the text for a Prometheus server, in version 0.0.4 of its format:
//
//   Content-Type: text/plain; version=0.0.4; charset=utf-8
//
// The names of all metrics begin with `redlatch_`. Their labels are `server`, `lock` and, if the
// URL has a `name`, `client`. The texts of two calls cannot be joined, so pass all clients of the
// program in one call, and give each a `name` in its URL. The numbers of clients with the same name
// and server are added up. A client that is passed twice counts once.
//
// Names keep their UTF-8; other bytes and control characters are written as \xNN.
REDLATCH_EXPORT std::string PrometheusText(absl::Span<const ClientStats> clients);
REDLATCH_EXPORT std::string PrometheusText(const ClientStats& client);

}  // namespace redlatch

#endif  // REDLATCH_STATS_H_
