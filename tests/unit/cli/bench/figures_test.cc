#include "src/cli/bench/figures.h"

#include "tests/support/testing.h"

namespace redlatch::cli {
namespace {

std::string AfterHead(const std::string& text) { return text.substr(text.find('\n')); }

TEST(BenchFigures, PrintNothingThatWasNotMeasured) {
  BenchFigures figures;
  figures.server = "redis://h";
  EXPECT_THAT(AfterHead(BenchText(figures)), Not(HasSubstr("lease")));
  EXPECT_THAT(AfterHead(BenchText(figures)), Not(HasSubstr(" 0")));
  EXPECT_THAT(BenchJson(figures), HasSubstr("\"round_trip\":{\"redlatch\":null,\"plain\":null}"));
  EXPECT_THAT(BenchJson(figures),
              HasSubstr("\"locks_per_s_one_lock\":{\"redlatch\":null,\"plain\":null}"));
  EXPECT_THAT(BenchJson(figures), Not(HasSubstr("lease")));
}

TEST(BenchFigures, HaveAP99OfAHundredAndMore) {
  BenchFigures figures;
  figures.hand_overs.plain.assign(99, absl::Microseconds(50));
  EXPECT_THAT(BenchJson(figures), HasSubstr("\"p50_us\":50.0,\"p99_us\":null"));
  figures.hand_overs.plain.push_back(absl::Microseconds(70));
  EXPECT_THAT(BenchJson(figures), HasSubstr("\"p99_us\":50.0,\"worst_us\":70.0"));
}

TEST(BenchFigures, AreReadForTheUser) {
  BenchFigures figures;
  figures.round_trips.redlatch.assign(100, absl::Milliseconds(10));
  figures.one_thread.redlatch = {40, 45, 99};
  figures.own_locks.redlatch = {360};
  const std::string far = BenchText(figures);
  EXPECT_THAT(far, HasSubstr("Leases should be at least 1 s"));
  EXPECT_THAT(far, HasSubstr("two round trips account for 90 %; what matters"));
  EXPECT_THAT(far, HasSubstr("8.0 times"));
  EXPECT_THAT(far, HasSubstr("idle"));
  figures.round_trips.redlatch.assign(100, absl::Microseconds(20));
  figures.one_thread.redlatch = {10000};
  figures.own_locks.redlatch = {12345};
  const std::string near = BenchText(figures);
  EXPECT_THAT(near, HasSubstr(" 12 345 "));
  EXPECT_THAT(near, HasSubstr("two round trips account for 40 %; the rest"));
  EXPECT_THAT(near, HasSubstr("at its limit"));
}

}  // namespace
}  // namespace redlatch::cli
