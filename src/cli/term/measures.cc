#include "src/cli/term/measures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace redlatch::cli {
namespace {

struct Unit {
  double size;
  const char* name;
};

// "54", "1.25", "12.5": three digits, and no zeros that say nothing.
std::string ThreeDigits(double value) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (decimals == 0) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

template <size_t n>
std::string InUnits(double value, const Unit (&units)[n]) {
  const Unit* unit = std::begin(units);
  // Rounding must not give "1000 ms".
  while (std::next(unit) != std::end(units) && value >= 0.9995 * std::next(unit)->size) ++unit;
  return absl::StrCat(ThreeDigits(value / unit->size), " ", unit->name);
}

}  // namespace

std::string ShortTime(absl::Duration time) {
  static constexpr Unit kUnits[] = {{1e-6, "µs"}, {1e-3, "ms"}, {1, "s"},
                                    {60, "min"},  {3600, "h"},  {86400, "days"}};
  if (time == absl::InfiniteDuration()) return "for ever";
  if (time <= absl::ZeroDuration()) return "0 s";
  return InUnits(absl::ToDoubleSeconds(time), kUnits);
}

std::string ShortSize(int64_t bytes) {
  static constexpr Unit kUnits[] = {
      {1, "bytes"}, {0x1p10, "KiB"}, {0x1p20, "MiB"}, {0x1p30, "GiB"}, {0x1p40, "TiB"}};
  return InUnits(static_cast<double>(std::max<int64_t>(0, bytes)), kUnits);
}

Spread SpreadOf(std::vector<absl::Duration> times) {
  std::sort(times.begin(), times.end());
  const auto rank = [&times](double share) {
    const double place = std::ceil(share * static_cast<double>(times.size()));
    return times[std::min(times.size() - 1, static_cast<size_t>(std::max(place, 1.0)) - 1)];
  };
  return {.p50 = rank(0.5), .p99 = rank(0.99), .worst = times.back()};
}

absl::Duration ShortestLease(absl::Duration worst) {
  static constexpr std::array<int, 8> kSeconds = {1, 2, 3, 5, 10, 15, 30, 60};
  for (const int seconds : kSeconds) {
    if (20 * worst <= absl::Seconds(seconds)) return absl::Seconds(seconds);
  }
  return absl::Ceil(20 * worst, absl::Minutes(1));
}

}  // namespace redlatch::cli
