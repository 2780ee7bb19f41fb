#include "src/cli/bench/figures.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/cli/term/measures.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

// Fewer say nothing of the slowest in a hundred.
constexpr size_t kEnoughForP99 = 100;

constexpr size_t kWhatColumns = 40;
constexpr size_t kFigureColumns = 14;

std::string RightAligned(std::string_view text, size_t columns) {
  const size_t taken = Columns(text);
  return std::string(taken < columns ? columns - taken : 0, ' ').append(text);
}

std::string Row(std::string_view what, std::string_view redlatch, std::string_view plain) {
  return absl::StrCat(Padded(what, kWhatColumns), RightAligned(redlatch, kFigureColumns),
                      RightAligned(plain, kFigureColumns), "\n");
}

std::string TimeOf(const Times& times, absl::Duration Spread::*which) {
  if (times.empty() || (which == &Spread::p99 && times.size() < kEnoughForP99)) return "-";
  return ShortTime(SpreadOf(times).*which);
}

std::string TimeRow(std::string_view what, const Compared<Times>& times,
                    absl::Duration Spread::*which) {
  return Row(what, TimeOf(times.redlatch, which), TimeOf(times.plain, which));
}

double MedianOf(Rates rates) {
  const auto middle = rates.begin() + static_cast<Rates::difference_type>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

std::string RateOf(const Rates& rates) {
  if (rates.empty()) return "-";
  // "1 234 567"
  std::string digits = absl::StrFormat("%.0f", MedianOf(rates));
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, " ");
  return digits;
}

std::string RateRow(std::string_view what, const Compared<Rates>& rates) {
  return Row(what, RateOf(rates.redlatch), RateOf(rates.plain));
}

// Of means, as a rate is one of all that happened: the slow ones count.
absl::Duration MeanOf(const Times& times) {
  absl::Duration sum;
  for (const absl::Duration time : times) sum += time;
  return sum / static_cast<int64_t>(times.size());
}

// What a user should make of it.
std::string Reading(const BenchFigures& figures) {
  const Times& round_trips = figures.round_trips.redlatch;
  if (round_trips.empty()) return "";
  const absl::Duration worst = SpreadOf(round_trips).worst;
  std::string out =
      Wrapped(absl::StrCat("Leases should be at least ", ShortTime(ShortestLease(worst)),
                           ", twenty times the slowest round trip seen (", ShortTime(worst),
                           "); on a bad day there are slower ones."),
              0);
  if (figures.one_thread.redlatch.empty()) return out;
  const double one_thread = MedianOf(figures.one_thread.redlatch);
  const absl::Duration pair = absl::Seconds(1 / one_thread);
  const double share = std::min(1.0, absl::FDivDuration(2 * MeanOf(round_trips), pair));
  out += Wrapped(
      absl::StrFormat("Of the %s that a lock takes, two round trips account for %.0f %%; %s",
                      ShortTime(pair), 100 * share,
                      share >= 0.7 ? "what matters is the way to the server and back."
                                   : "the rest is work in the server and the client."),
      0);
  if (figures.own_locks.redlatch.empty()) return out;
  const double growth = MedianOf(figures.own_locks.redlatch) / one_thread;
  return out +
         Wrapped(
             absl::StrFormat(
                 "%d threads, each with its own lock, achieve %.1f times as much as one: %s",
                 kBenchThreads, growth,
                 growth >= 0.5 * kBenchThreads ? "with one, the server is idle most of the time."
                                               : "the server or the machine is at its limit."),
             0);
}

std::string JsonTimes(const Times& times) {
  if (times.empty()) return "null";
  const Spread spread = SpreadOf(times);
  JsonObject json;
  const auto add = [&json](std::string_view key, absl::Duration time) {
    json.Json(key, absl::StrFormat("%.1f", absl::ToDoubleMicroseconds(time)));
  };
  add("p50_us", spread.p50);
  if (times.size() < kEnoughForP99) {
    json.Null("p99_us");
  } else {
    add("p99_us", spread.p99);
  }
  add("worst_us", spread.worst);
  json.Number("samples", static_cast<int64_t>(times.size()));
  return json.Finish();
}

std::string JsonRate(const Rates& rates) {
  return rates.empty() ? "null" : absl::StrFormat("%.1f", MedianOf(rates));
}

std::string JsonCompared(const std::string& redlatch, const std::string& plain) {
  JsonObject json;
  json.Json("redlatch", redlatch);
  json.Json("plain", plain);
  return json.Finish();
}

}  // namespace

std::string BenchText(const BenchFigures& figures) {
  std::string out = Row(figures.server, "redlatch", "plain Redis");
  out += TimeRow("round trip, p50", figures.round_trips, &Spread::p50);
  out += TimeRow("            p99", figures.round_trips, &Spread::p99);
  out += TimeRow("            worst", figures.round_trips, &Spread::worst);
  out += RateRow("locks per second, 1 thread", figures.one_thread);
  out += RateRow(absl::StrCat("                  ", kBenchThreads, " threads, own locks"),
                 figures.own_locks);
  out += RateRow(absl::StrCat("                  ", kBenchThreads, " threads, one lock"),
                 figures.one_lock);
  out += TimeRow("hand-over to another client, p50", figures.hand_overs, &Spread::p50);
  out += TimeRow("                             p99", figures.hand_overs, &Spread::p99);
  return absl::StrCat(out, "\n", Reading(figures));
}

std::string BenchJson(const BenchFigures& figures) {
  JsonObject json;
  json.Text("server", figures.server);
  json.Number("threads", kBenchThreads);
  json.Bool("interrupted", figures.interrupted);
  const auto times = [&json](const char* name, const Compared<Times>& both) {
    json.Json(name, JsonCompared(JsonTimes(both.redlatch), JsonTimes(both.plain)));
  };
  const auto rates = [&json](const char* name, const Compared<Rates>& both) {
    json.Json(name, JsonCompared(JsonRate(both.redlatch), JsonRate(both.plain)));
  };
  times("round_trip", figures.round_trips);
  rates("locks_per_s_one_thread", figures.one_thread);
  rates("locks_per_s_own_locks", figures.own_locks);
  rates("locks_per_s_one_lock", figures.one_lock);
  times("hand_over", figures.hand_overs);
  if (!figures.round_trips.redlatch.empty()) {
    const absl::Duration worst = SpreadOf(figures.round_trips.redlatch).worst;
    json.Number("lease_at_least_s", absl::ToInt64Seconds(ShortestLease(worst)));
  }
  return json.Finish() + "\n";
}

}  // namespace redlatch::cli
