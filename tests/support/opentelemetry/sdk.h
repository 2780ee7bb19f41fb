// Records what a program reports to OpenTelemetry, through that library's SDK. It gives the same
// sums as the stand-in, under the same names, so both meet the same expectations.
#ifndef REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_SDK_H_
#define REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_SDK_H_

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "opentelemetry/metrics/provider.h"
#include "opentelemetry/sdk/metrics/data/metric_data.h"
#include "opentelemetry/sdk/metrics/export/metric_producer.h"
#include "opentelemetry/sdk/metrics/meter_provider.h"
#include "opentelemetry/sdk/metrics/metric_reader.h"
#include "opentelemetry/sdk/trace/exporter.h"
#include "opentelemetry/sdk/trace/simple_processor.h"
#include "opentelemetry/sdk/trace/span_data.h"
#include "opentelemetry/sdk/trace/tracer_provider.h"
#include "opentelemetry/trace/provider.h"

namespace opentelemetry {

// The number of ended spans and of their events, under "redlatch.hold lost".
class SpanRecords {
 public:
  void Add(const std::string& what) {
    const std::lock_guard<std::mutex> guard(mu_);
    ++counts_[what];
  }
  double Count(const std::string& what) {
    const std::lock_guard<std::mutex> guard(mu_);
    return counts_[what];
  }

 private:
  std::mutex mu_;
  std::map<std::string, double> counts_;
};

class SpanRecorder : public sdk::trace::SpanExporter {
 public:
  explicit SpanRecorder(std::shared_ptr<SpanRecords> records) : records_(std::move(records)) {}

  std::unique_ptr<sdk::trace::Recordable> MakeRecordable() noexcept override {
    return std::make_unique<sdk::trace::SpanData>();
  }
  sdk::common::ExportResult Export(
      const nostd::span<std::unique_ptr<sdk::trace::Recordable>>& spans) noexcept override {
    for (const auto& recorded : spans) {
      const auto& span = static_cast<const sdk::trace::SpanData&>(*recorded);
      const std::string name = std::string(span.GetName()) + " ";
      records_->Add(name + nostd::get<std::string>(span.GetAttributes().at("redlatch.outcome")));
      if (span.GetStatus() == trace::StatusCode::kError) records_->Add(name + "errors");
      for (const auto& event : span.GetEvents()) records_->Add(name + event.GetName());
    }
    return sdk::common::ExportResult::kSuccess;
  }
  bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
  bool Shutdown(std::chrono::microseconds) noexcept override { return true; }

 private:
  const std::shared_ptr<SpanRecords> records_;
};

// The metrics at the time of a call, under "redlatch.acquired orders"; of a histogram, the number
// of its values.
class MetricRecorder : public sdk::metrics::MetricReader {
 public:
  sdk::metrics::AggregationTemporality GetAggregationTemporality(
      sdk::metrics::InstrumentType) const noexcept override {
    return sdk::metrics::AggregationTemporality::kCumulative;
  }
  double Sum(const std::string& what) {
    double sum = 0;
    Collect([&](sdk::metrics::ResourceMetrics& collected) {
      for (const auto& scope : collected.scope_metric_data_) {
        for (const auto& metric : scope.metric_data_) sum += SumIn(metric, what);
      }
      return true;
    });
    return sum;
  }

 private:
  static double SumIn(const sdk::metrics::MetricData& metric, const std::string& what) {
    double sum = 0;
    for (const auto& point : metric.point_data_attr_) {
      const auto& label = point.attributes.GetAttributes().begin()->second;
      if (metric.instrument_descriptor.name_ + " " + nostd::get<std::string>(label) == what) {
        sum += Value(point.point_data);
      }
    }
    return sum;
  }
  static double Value(const sdk::metrics::PointType& point) {
    if (const auto* values = nostd::get_if<sdk::metrics::HistogramPointData>(&point)) {
      return static_cast<double>(values->count_);
    }
    return static_cast<double>(
        nostd::get<int64_t>(nostd::get<sdk::metrics::SumPointData>(point).value_));
  }

  bool OnForceFlush(std::chrono::microseconds) noexcept override { return true; }
  bool OnShutDown(std::chrono::microseconds) noexcept override { return true; }
};

// Makes the SDK the program's global provider.
class Recorder {
 public:
  Recorder() {
    auto meters = std::make_shared<sdk::metrics::MeterProvider>();
    meters->AddMetricReader(metrics_);
    metrics::Provider::SetMeterProvider(nostd::shared_ptr<metrics::MeterProvider>(meters));
    trace::Provider::SetTracerProvider(
        nostd::shared_ptr<trace::TracerProvider>(std::make_shared<sdk::trace::TracerProvider>(
            std::make_unique<sdk::trace::SimpleSpanProcessor>(
                std::make_unique<SpanRecorder>(spans_)))));
  }
  double Sum(const std::string& what) { return spans_->Count(what) + metrics_->Sum(what); }

 private:
  const std::shared_ptr<SpanRecords> spans_ = std::make_shared<SpanRecords>();
  const std::shared_ptr<MetricRecorder> metrics_ = std::make_shared<MetricRecorder>();
};

}  // namespace opentelemetry

#endif  // REDLATCH_TESTS_SUPPORT_OPENTELEMETRY_SDK_H_
