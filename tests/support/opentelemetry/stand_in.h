// The part of OpenTelemetry's API that redlatch/opentelemetry.h uses, for machines without that
// library: it records what it is told.
#ifndef REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_STAND_IN_H_
#define REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_STAND_IN_H_
#define REDLATCH_OPENTELEMETRY_STAND_IN

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace opentelemetry {
namespace nostd {
using std::shared_ptr;
using std::unique_ptr;
// Like the real one, it cannot be made from a std::string_view.
class string_view {
 public:
  string_view() = default;
  string_view(const char* text) : text_(text) {}
  string_view(const char* text, size_t size) : text_(text, size) {}
  bool empty() const { return text_.empty(); }
  explicit operator std::string() const { return std::string(text_); }

 private:
  std::string_view text_;
};
}  // namespace nostd

namespace common {
using AttributeValue = std::variant<int64_t, double, const char*, nostd::string_view>;
template <class Clock>
class Timestamp {
 public:
  Timestamp() = default;
  explicit Timestamp(std::chrono::nanoseconds since_epoch) : since_epoch_(since_epoch) {}
  std::chrono::nanoseconds time_since_epoch() const { return since_epoch_; }

 private:
  std::chrono::nanoseconds since_epoch_{0};
};
using SystemTimestamp = Timestamp<std::chrono::system_clock>;
using SteadyTimestamp = Timestamp<std::chrono::steady_clock>;
}  // namespace common

namespace context {
struct Context {};
struct RuntimeContext {
  static Context GetCurrent() { return {}; }
};
}  // namespace context

using Attributes = std::initializer_list<std::pair<nostd::string_view, common::AttributeValue>>;

// What was recorded: the sums of metrics and the number of ended spans and of their events, under
// "redlatch.acquired orders" or "redlatch.hold lost"; for a histogram, the number of its values.
class StandIn {
 public:
  static StandIn& Get() {
    static StandIn recorded;
    return recorded;
  }
  void Add(const std::string& what, double value) {
    const std::lock_guard<std::mutex> guard(mu_);
    sums_[what] += value;
  }
  double Sum(const std::string& what) {
    const std::lock_guard<std::mutex> guard(mu_);
    return sums_[what];
  }

 private:
  std::mutex mu_;
  std::map<std::string, double> sums_;
};

namespace metrics {
template <class Number>
class Instrument {
 public:
  explicit Instrument(nostd::string_view name) : name_(name) {}
  void Add(Number value, Attributes attributes) {
    const auto& label = std::get<nostd::string_view>(attributes.begin()->second);
    StandIn::Get().Add(name_ + " " + std::string(label), static_cast<double>(value));
  }
  void Record(Number value, Attributes attributes, const context::Context&) {
    if (value >= 0) Add(1, attributes);
  }

 private:
  const std::string name_;
};
template <class Number>
using Counter = Instrument<Number>;
template <class Number>
using UpDownCounter = Instrument<Number>;
template <class Number>
using Histogram = Instrument<Number>;

struct Meter {
  std::unique_ptr<Counter<uint64_t>> CreateUInt64Counter(nostd::string_view name,
                                                         nostd::string_view) {
    return std::make_unique<Counter<uint64_t>>(name);
  }
  std::unique_ptr<UpDownCounter<int64_t>> CreateInt64UpDownCounter(nostd::string_view name,
                                                                   nostd::string_view) {
    return std::make_unique<UpDownCounter<int64_t>>(name);
  }
  std::unique_ptr<Histogram<double>> CreateDoubleHistogram(nostd::string_view name,
                                                           nostd::string_view, nostd::string_view) {
    return std::make_unique<Histogram<double>>(name);
  }
};
struct MeterProvider {
  std::shared_ptr<Meter> GetMeter(nostd::string_view, nostd::string_view) {
    return std::make_shared<Meter>();
  }
};
struct Provider {
  static std::shared_ptr<MeterProvider> GetMeterProvider() {
    return std::make_shared<MeterProvider>();
  }
};
}  // namespace metrics

namespace trace {
enum class StatusCode { kUnset, kOk, kError };
struct StartSpanOptions {
  common::SystemTimestamp start_system_time;
  common::SteadyTimestamp start_steady_time;
};
class Span {
 public:
  Span(nostd::string_view name, Attributes attributes) : name_(name) {
    for (const auto& [key, value] : attributes) SetAttribute(key, value);
  }
  void SetAttribute(nostd::string_view key, const common::AttributeValue& value) {
    if (std::string(key) == "redlatch.outcome") outcome_ = std::get<const char*>(value);
  }
  void AddEvent(nostd::string_view what, Attributes = {}) {
    StandIn::Get().Add(name_ + " " + std::string(what), 1);
  }
  void SetStatus(StatusCode code, nostd::string_view) {
    if (code == StatusCode::kError) StandIn::Get().Add(name_ + " errors", 1);
  }
  void End() { StandIn::Get().Add(name_ + " " + outcome_, 1); }

 private:
  const std::string name_;
  std::string outcome_;
};
struct Tracer {
  std::shared_ptr<Span> StartSpan(nostd::string_view name, Attributes attributes,
                                  const StartSpanOptions& = {}) {
    return std::make_shared<Span>(name, attributes);
  }
};
struct TracerProvider {
  std::shared_ptr<Tracer> GetTracer(nostd::string_view, nostd::string_view) {
    return std::make_shared<Tracer>();
  }
};
struct Provider {
  static std::shared_ptr<TracerProvider> GetTracerProvider() {
    return std::make_shared<TracerProvider>();
  }
};
}  // namespace trace

// As in sdk.h.
struct Recorder {
  double Sum(const std::string& what) const { return StandIn::Get().Sum(what); }
};
}  // namespace opentelemetry

#endif  // REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_STAND_IN_H_
