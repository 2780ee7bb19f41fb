#include "redlatch/observer.h"

#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <string>

#include "src/base/clock.h"

namespace redlatch {
namespace {

constexpr absl::Duration kBetweenLines = absl::Seconds(1);

// One line a second; the next one tells how many were left out.
void Print(const std::string& line) {
  static std::atomic<int64_t> next{0};
  static std::atomic<uint64_t> left_out{0};
  const base::Instant now = base::Now();
  int64_t due = next.load();
  if (now.nanos() < due || !next.compare_exchange_strong(due, (now + kBetweenLines).nanos())) {
    left_out.fetch_add(1);
    return;
  }
  const uint64_t missing = left_out.exchange(0);
  if (missing == 0) {
    std::fprintf(stderr, "redlatch: %s\n", line.c_str());
  } else {
    std::fprintf(stderr, "redlatch: %s (and %" PRIu64 " more events)\n", line.c_str(), missing);
  }
}

}  // namespace

void Observer::OnAcquired(std::string_view, FencingToken, absl::Duration) {}
void Observer::OnWaitEnded(std::string_view, absl::Duration, const absl::Status&) {}
void Observer::OnReleased(std::string_view, FencingToken, const absl::Status&) {}
void Observer::OnRenewed(std::string_view, FencingToken) {}
void Observer::OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status&) {}
void Observer::OnRecovered(std::string_view, FencingToken) {}
void Observer::OnReconnected(std::string_view) {}

void Observer::OnLost(const LostLease& lost) {
  Print("lost the hold on \"" + lost.lock + "\" at " + lost.server + ": " + lost.reason);
}

void Observer::OnMisuse(std::string_view lock, std::string_view what) {
  Print("lock \"" + std::string(lock) + "\": " + std::string(what));
}

}  // namespace redlatch
