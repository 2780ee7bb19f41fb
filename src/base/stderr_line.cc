#include "src/base/stderr_line.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>

#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/no_cancellation.h"
#include "src/base/utf8.h"

namespace redlatch::base {
namespace {

constexpr absl::Duration kBetweenLines = absl::Seconds(1);
constexpr size_t kLongestLine = 4000;

}  // namespace

void PrintLine(const std::string& text) {
  static Atomic<int64_t> next{0};
  static Atomic<uint64_t> left_out{0};
  const Instant now = Now();
  int64_t due = next.load();
  if (now.nanos() < due || !next.compare_exchange_strong(due, (now + kBetweenLines).nanos())) {
    left_out.fetch_add(1);
    return;
  }
  const std::string line = Shown(text, kLongestLine);
  const NoCancellation no_cancellation;
  const uint64_t missing = left_out.exchange(0);
  if (missing == 0) {
    std::fprintf(stderr, "redlatch: %s\n", line.c_str());
  } else {
    std::fprintf(stderr, "redlatch: %s (and %" PRIu64 " more event%s)\n", line.c_str(), missing,
                 missing == 1 ? "" : "s");
  }
}

}  // namespace redlatch::base
