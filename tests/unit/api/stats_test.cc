// The text for Prometheus.
#include "redlatch/stats.h"

#include <cstddef>
#include <regex>

#include "absl/strings/str_replace.h"
#include "absl/types/span.h"
#include "redlatch/observer.h"
#include "src/base/clock.h"
#include "src/base/utf8.h"
#include "src/lock/state/tally.h"
#include "tests/support/testing.h"

namespace redlatch {
namespace {

using Labels = std::map<std::string, std::string>;

// A reader of the format's version 0.0.4, as far as the library uses it.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    static const std::regex help(R"re(# HELP ([a-z_]+) [^\\]+)re");
    static const std::regex type(R"re(# TYPE ([a-z_]+) (counter|gauge|histogram))re");
    static const std::regex sample(R"re(([a-z_]+?)(_bucket|_sum|_count)?(\{.+\})? ([0-9.e+-]+))re");
    if (!text.ends_with('\n')) complaints.emplace_back("the last line does not end");
    std::string metric, kind;
    const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
    for (const std::string& line : lines) {
      std::smatch is;
      bool fine = IsText(line);
      if (std::regex_match(line, is, help)) {
        fine = fine && families.insert(metric = is[1]).second;
        kind.clear();
      } else if (std::regex_match(line, is, type)) {
        fine = fine && is[1] == metric && kind.empty() &&
               (is[2] == "counter") == metric.ends_with("_total");
        kind = is[2];
      } else if (std::regex_match(line, is, sample)) {
        const std::optional<Labels> labels = ReadLabels(is[3]);
        fine = fine && is[1] == metric && is[2].matched == (kind == "histogram") && labels &&
               labels->contains("le") == (is[2] == "_bucket") &&
               samples.try_emplace({is[1].str() + is[2].str(), *labels}, std::stod(is[4])).second;
        sampled_.insert(metric);
      } else {
        fine = false;
      }
      if (!fine) complaints.push_back(line);
    }
  }

  // The value of the only sample of that name with these labels.
  double Value(const std::string& name, const Labels& recalled = {}) const {
    std::vector<double> found;
    for (const auto& [id, value] : samples) {
      if (id.first == name &&
          std::includes(id.second.begin(), id.second.end(), recalled.begin(), recalled.end())) {
        found.push_back(value);
      }
    }
    EXPECT_EQ(found.size(), 1) << name;
    return found.empty() ? -1 : found[0];
  }
  std::set<std::string> ValuesOf(const std::string& label) const {
    std::set<std::string> values;
    for (const auto& [id, value] : samples) {
      if (id.second.contains(label)) values.insert(id.second.at(label));
    }
    return values;
  }
  bool EachHasASample() const { return sampled_ == families; }

  std::set<std::string> families;
  std::map<std::pair<std::string, Labels>, double> samples;  // by name and labels
  std::vector<std::string> complaints;

 private:
  static bool IsText(std::string_view line) {
    while (!line.empty()) {
      const base::Character next = base::FirstCharacter(line);
      if (next.size == 0 || next.code < 0x20 || next.code == 0x7F) return false;
      line.remove_prefix(next.size);
    }
    return true;
  }
  // Reads `{name="value",...}`.
  static std::optional<Labels> ReadLabels(std::string text) {
    static const std::regex label(R"re([{,]([a-z_]+)="((?:[^"\\]|\\[\\"n])*)")re");
    Labels labels;
    std::smatch is;
    while (std::regex_search(text, is, label, std::regex_constants::match_continuous)) {
      const std::string value =
          absl::StrReplaceAll(is[2].str(), {{"\\\\", "\\"}, {"\\\"", "\""}, {"\\n", "\n"}});
      if (!labels.emplace(is[1], value).second) return std::nullopt;
      text = is.suffix();
    }
    if (!text.empty() && text != "}") return std::nullopt;
    return labels;
  }

  std::set<std::string> sampled_;
};

LockStats Lock(std::string name, uint64_t acquired = 0) {
  LockStats lock;
  lock.name = std::move(name);
  lock.acquired = acquired;
  return lock;
}

ClientStats ClientOf(std::vector<LockStats> locks, std::string name = "",
                     std::string server = "redis://127.0.0.1:6379") {
  ClientStats stats;
  stats.server = std::move(server);
  stats.name = std::move(name);
  stats.id = "0123";
  stats.locks = std::move(locks);
  for (const LockStats& lock : stats.locks) stats.all += lock;
  return stats;
}

Exposition Parsed(absl::Span<const ClientStats> clients) {
  Exposition parsed(PrometheusText(clients));
  EXPECT_THAT(parsed.complaints, IsEmpty());
  return parsed;
}
Exposition Parsed(const ClientStats& client) { return Parsed(absl::MakeConstSpan(&client, 1)); }

TEST(PrometheusText, IsWellFormedAndEveryMetricHasASample) {
  const Exposition text = Parsed(ClientOf({Lock("orders"), Lock("invoices")}, "billing"));
  EXPECT_TRUE(text.EachHasASample());
  EXPECT_GT(text.families.size(), 20);
  for (const std::string& name : text.families) EXPECT_TRUE(name.starts_with("redlatch_"));
  EXPECT_THAT(text.ValuesOf("lock"), ElementsAre("invoices", "orders"));
  EXPECT_THAT(text.ValuesOf("client"), ElementsAre("billing"));
}

// The numbers of a lock, as Prometheus calls them.
const std::vector<std::pair<std::string, uint64_t LockStats::*>> kNumbers = {
    {"redlatch_acquired_total", &LockStats::acquired},
    {"redlatch_passed_on_total", &LockStats::passed_on},
    {"redlatch_opened_total", &LockStats::opened},
    {"redlatch_busy_total", &LockStats::busy},
    {"redlatch_cancelled_total", &LockStats::cancelled},
    {"redlatch_failed_total", &LockStats::failed},
    {"redlatch_released_total", &LockStats::released},
    {"redlatch_releases_failed_total", &LockStats::releases_failed},
    {"redlatch_lost_total", &LockStats::lost},
    {"redlatch_renewed_total", &LockStats::renewed},
    {"redlatch_renewals_failed_total", &LockStats::renewals_failed},
    {"redlatch_misused_total", &LockStats::misused},
    {"redlatch_held", &LockStats::held},
    {"redlatch_permits", &LockStats::permits},
    {"redlatch_releasing", &LockStats::releasing},
    {"redlatch_waiting", &LockStats::waiting},
};

TEST(PrometheusText, HasEachNumberOfLock) {
  LockStats lock = Lock("orders");
  uint64_t next = 100;
  for (const auto& [name, number] : kNumbers) lock.*number = next++;
  const Exposition text = Parsed(ClientOf({lock}));
  next = 100;
  for (const auto& [name, number] : kNumbers) {
    EXPECT_EQ(text.Value(name, {{"lock", "orders"}}), next++) << name;
  }
  EXPECT_THAT(PrometheusText(ClientOf({Lock("largest", UINT64_MAX)})),
              HasSubstr(" 18446744073709551615\n"));
}

TEST(PrometheusText, HasEachNumberOfClient) {
  ClientStats client = ClientOf({});
  client.connects = 5;
  client.breaks = 4;
  client.reconnects = 3;
  client.late = 2;
  const Exposition text = Parsed(client);
  const Labels labels = {{"server", client.server}};
  EXPECT_EQ(text.Value("redlatch_connects_total", labels), 5);
  EXPECT_EQ(text.Value("redlatch_breaks_total", labels), 4);
  EXPECT_EQ(text.Value("redlatch_reconnects_total", labels), 3);
  EXPECT_EQ(text.Value("redlatch_late_total", labels), 2);
  EXPECT_EQ(text.Value("redlatch_client_info", {{"id", "0123"}, {"server", client.server}}), 1);
}

TEST(PrometheusText, BucketsAreCumulativeAndInSeconds) {
  LockStats lock = Lock("orders");
  lock.waited.buckets[0] = 3;   // up to 1 µs
  lock.waited.buckets[20] = 2;  // up to 1.048576 s
  lock.waited.buckets[DurationHistogram::kBuckets - 1] = 1;
  lock.waited.sum = absl::Milliseconds(1500);
  const Exposition text = Parsed(ClientOf({lock}));
  const auto bucket = [&](const char* bound) {
    return text.Value("redlatch_wait_seconds_bucket", {{"le", bound}});
  };
  EXPECT_EQ(bucket("1e-06"), 3);
  EXPECT_EQ(bucket("0.524288"), 3);
  EXPECT_EQ(bucket("1.048576"), 5);
  EXPECT_EQ(bucket("1073.741824"), 5);
  EXPECT_EQ(bucket("+Inf"), 6);
  EXPECT_EQ(text.Value("redlatch_wait_seconds_count"), 6);
  EXPECT_EQ(text.Value("redlatch_wait_seconds_sum"), 1.5);
  EXPECT_EQ(text.Value("redlatch_hold_seconds_count"), 0);
}

TEST(PrometheusText, AnyBytesSurviveAsLabels) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"a b", "a b"},
      {"quote\"", "quote\""},
      {"back\\slash", "back\\slash"},
      {"{orders},lock=\"1\"} 2", "{orders},lock=\"1\"} 2"},
      {"two\nlines", "two\\x0Alines"},
      {std::string("\0\r\t\x7f", 4), "\\x00\\x0D\\x09\\x7F"},
      {"Schlüssel 鍵 🔒", "Schlüssel 鍵 🔒"},
      {"lone \x80", "lone \\x80"},
      {"cut \xE9\x8D", "cut \\xE9\\x8D"},
      {"overlong \xC0\xAF \xE0\x80\xAF \xF0\x80\x80\xAF",
       "overlong \\xC0\\xAF \\xE0\\x80\\xAF \\xF0\\x80\\x80\\xAF"},
      {"surrogate \xED\xA0\x80", "surrogate \\xED\\xA0\\x80"},
      {"beyond \xF4\x90\x80\x80 \xF5", "beyond \\xF4\\x90\\x80\\x80 \\xF5"},
      {"last \xF4\x8F\xBF\xBF \xED\x9F\xBF \xEF\xBF\xBF",
       "last \xF4\x8F\xBF\xBF \xED\x9F\xBF \xEF\xBF\xBF"},
  };
  std::vector<LockStats> locks;
  std::set<std::string> labels;
  for (const auto& [name, label] : names) {
    locks.push_back(Lock(name, locks.size() + 1));
    labels.insert(label);
  }
  const Exposition text = Parsed(ClientOf(locks));
  EXPECT_EQ(text.ValuesOf("lock"), labels);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(text.Value("redlatch_acquired_total", {{"lock", names[i].second}}), i + 1);
  }
}

TEST(PrometheusText, AddsUpNamesThatReadAlike) {
  const Exposition text = Parsed(ClientOf({Lock("\xFF", 1), Lock("\\xFF", 2)}));
  EXPECT_EQ(text.Value("redlatch_acquired_total", {{"lock", "\\xFF"}}), 3);
  EXPECT_THAT(text.ValuesOf("client"), IsEmpty()) << "it has no name";
}

TEST(PrometheusText, SeparatesClientsByNameAndServer) {
  const std::vector<ClientStats> clients = {
      ClientOf({Lock("orders", 1)}, "a"),
      ClientOf({Lock("orders", 2)}, "b"),
      ClientOf({Lock("orders", 3)}, "a", "unix:///run/redis.sock"),
  };
  const Exposition text = Parsed(clients);
  const auto acquired = [&](const ClientStats& client) {
    return text.Value("redlatch_acquired_total",
                      {{"client", client.name}, {"server", client.server}, {"lock", "orders"}});
  };
  EXPECT_EQ(acquired(clients[0]), 1);
  EXPECT_EQ(acquired(clients[1]), 2);
  EXPECT_EQ(acquired(clients[2]), 3);
}

TEST(PrometheusText, AddsUpClientsOfOneNameAndServer) {
  std::vector<ClientStats> clients = {ClientOf({Lock("orders", 1), Lock("invoices", 5)}),
                                      ClientOf({Lock("orders", 2)})};
  clients[0].connects = 3;
  clients[1].connects = 4;
  clients[1].id = "4567";
  const Exposition text = Parsed(clients);
  EXPECT_EQ(text.Value("redlatch_acquired_total", {{"lock", "orders"}}), 3);
  EXPECT_EQ(text.Value("redlatch_acquired_total", {{"lock", "invoices"}}), 5);
  EXPECT_EQ(text.Value("redlatch_connects_total"), 7);
  EXPECT_THAT(text.ValuesOf("id"), ElementsAre("0123", "4567"));
}

TEST(PrometheusText, CountsRepeatedClientOnce) {
  const ClientStats client = ClientOf({Lock("orders", 2)});
  const Exposition text = Parsed(std::vector<ClientStats>{client, client});
  EXPECT_EQ(text.Value("redlatch_acquired_total"), 2);
  EXPECT_THAT(text.ValuesOf("id"), ElementsAre("0123"));
}

TEST(PrometheusText, HasNoSamplesWithoutClients) {
  const Exposition text = Parsed(absl::Span<const ClientStats>());
  EXPECT_GT(text.families.size(), 20);
  EXPECT_THAT(text.samples, IsEmpty());
}

// The reader detects the faults that it should detect.
TEST(PrometheusText, ReaderRejectsMalformedText) {
  const std::string head = "# HELP m_total help\n# TYPE m_total counter\n";
  EXPECT_THAT(Exposition(head + "m_total{a=\"\\\"\"} 1\n").complaints, IsEmpty());
  for (const std::string wrong :
       {"m_total 1", "m_total{a=\"1\"}1\n", "m_total{a=\"1\",a=\"2\"} 1\n",
        "m_total{a=\"\\x\"} 1\n", "m_total{a=\"1} 1\n", "m_total{1=\"1\"} 1\n", "m_total 1x\n",
        "other 1\n", "m_total 1\nm_total 2\n", "m_total{a=\"\xFF\"} 1\n", "m_total_sum 1\n",
        "# HELP m_total again\n", "# TYPE m_total counter\n", "# note\n"}) {
    EXPECT_FALSE(Exposition(head + wrong).complaints.empty()) << wrong;
  }
}

constexpr int kLast = DurationHistogram::kBuckets - 1;

DurationHistogram Of(std::initializer_list<absl::Duration> durations) {
  internal::Tally::Durations<uint16_t> counted;
  const base::Instant from = base::Instant::FromNanos(int64_t{1} << 40);
  for (const absl::Duration each : durations) counted.Add(from, from + each);
  DurationHistogram histogram;
  counted.AddTo(histogram);
  return histogram;
}

int BucketOf(absl::Duration duration) {
  const DurationHistogram histogram = Of({duration});
  EXPECT_EQ(histogram.count(), 1);
  for (int i = 0; i <= kLast; ++i) {
    if (histogram.buckets[static_cast<size_t>(i)] == 1) return i;
  }
  return -1;
}

TEST(DurationHistogram, BoundsDoubleFromOneMicrosecond) {
  EXPECT_EQ(DurationHistogram::Bound(0), absl::Microseconds(1));
  EXPECT_EQ(DurationHistogram::Bound(1), absl::Microseconds(2));
  EXPECT_GT(DurationHistogram::Bound(kLast - 1), absl::Seconds(1000));
  EXPECT_EQ(DurationHistogram::Bound(kLast), absl::InfiniteDuration());
  for (int i = 1; i < kLast; ++i) {
    EXPECT_EQ(DurationHistogram::Bound(i), 2 * DurationHistogram::Bound(i - 1));
  }
}

TEST(DurationHistogram, BucketIncludesItsBound) {
  for (int i = 0; i < kLast; ++i) {
    const absl::Duration bound = DurationHistogram::Bound(i);
    EXPECT_EQ(BucketOf(bound), i);
    EXPECT_EQ(BucketOf(bound + absl::Nanoseconds(1)), i + 1);
  }
  EXPECT_EQ(BucketOf(absl::ZeroDuration()), 0);
  EXPECT_EQ(BucketOf(-absl::Seconds(1)), 0);
  EXPECT_EQ(Of({-absl::Seconds(1)}).sum, absl::ZeroDuration());
}

TEST(DurationHistogram, SumAndMeanAreExact) {
  const DurationHistogram histogram = Of({absl::Nanoseconds(7), absl::Seconds(2), absl::Hours(3)});
  EXPECT_EQ(histogram.count(), 3);
  EXPECT_EQ(histogram.sum, absl::Nanoseconds(7) + absl::Seconds(2) + absl::Hours(3));
  EXPECT_EQ(Of({absl::Seconds(1), absl::Seconds(3)}).Mean(), absl::Seconds(2));
}

TEST(DurationHistogram, CountsBeyond32Bits) {
  internal::Tally::Durations<uint8_t> counted;
  const base::Instant from;
  for (int i = 0; i < 1000; ++i) counted.Add(from, from + absl::Microseconds(3));
  for (int i = 0; i < 256; ++i) counted.Add(from, from + absl::Hours(1));
  DurationHistogram histogram;
  counted.AddTo(histogram);
  EXPECT_EQ(histogram.buckets[2], 1000);
  EXPECT_EQ(histogram.buckets[kLast], 256);
  EXPECT_EQ(histogram.count(), 1256);
  EXPECT_EQ(histogram.sum, 1000 * absl::Microseconds(3) + 256 * absl::Hours(1));
}

TEST(DurationHistogram, QuantileInterpolatesWithinBucket) {
  DurationHistogram histogram;
  EXPECT_EQ(histogram.Mean(), absl::ZeroDuration());
  EXPECT_EQ(histogram.Quantile(0.5), absl::ZeroDuration());
  EXPECT_EQ(histogram.Quantile(1), absl::ZeroDuration());
  histogram.buckets[3] = 4;  // above 4 µs, up to 8 µs
  EXPECT_EQ(histogram.Quantile(0.25), absl::Microseconds(5));
  EXPECT_EQ(histogram.Quantile(0.5), absl::Microseconds(6));
  EXPECT_EQ(histogram.Quantile(1), absl::Microseconds(8));
  EXPECT_EQ(histogram.Quantile(2), absl::Microseconds(8));
  EXPECT_EQ(Of({absl::Hours(24)}).Quantile(0.5), DurationHistogram::Bound(kLast - 1));
}

TEST(DurationHistogram, AddsUp) {
  DurationHistogram sum = Of({absl::Microseconds(1), absl::Seconds(5)});
  sum += Of({absl::Seconds(5), absl::Hours(1)});
  EXPECT_EQ(
      sum.buckets,
      Of({absl::Microseconds(1), absl::Seconds(5), absl::Seconds(5), absl::Hours(1)}).buckets);
  EXPECT_EQ(sum.sum, absl::Hours(1) + absl::Seconds(10) + absl::Microseconds(1));
}

TEST(LockStats, SumIncludesEverythingButName) {
  LockStats one;
  uint64_t next = 0;
  for (const auto& [name, number] : kNumbers) one.*number = ++next;
  one.name = "one";
  one.waited = Of({absl::Seconds(1)});
  one.held_for = Of({absl::Seconds(2), absl::Seconds(3)});
  LockStats sum;
  sum += one;
  sum += one;
  EXPECT_EQ(sum.name, "");
  next = 0;
  for (const auto& [name, number] : kNumbers) EXPECT_EQ(sum.*number, 2 * ++next) << name;
  EXPECT_EQ(sum.waited.count(), 2);
  EXPECT_EQ(sum.held_for.count(), 4);
}

// The lines that the default Observer writes.

TEST(ObserverTest, LossLineEscapesNameAndReason) {
  ::testing::internal::CaptureStderr();
  Observer().OnLost({.lock = "é\"\n\x1b[2J", .server = "redis://h:1", .reason = "why\a\nnot"});
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(line,
              HasSubstr(R"(lost the hold on "é\"\x0a\x1b[2J" (redis://h:1): why\x07\x0anot)"));
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_THAT(line, Not(HasSubstr("\x1b")));
}

}  // namespace
}  // namespace redlatch
