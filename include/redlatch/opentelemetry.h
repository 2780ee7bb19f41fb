// An observer that reports a client's locks to OpenTelemetry: spans for waits and holds, and
// metrics.
//
// redlatch itself neither needs nor contains OpenTelemetry: a program that includes this header
// links `opentelemetry-cpp::api`, version 1.
#ifndef REDLATCH_OPENTELEMETRY_H_
#define REDLATCH_OPENTELEMETRY_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "opentelemetry/context/runtime_context.h"
#include "opentelemetry/metrics/meter.h"
#include "opentelemetry/metrics/meter_provider.h"
#include "opentelemetry/metrics/provider.h"
#include "opentelemetry/metrics/sync_instruments.h"
#include "opentelemetry/nostd/shared_ptr.h"
#include "opentelemetry/nostd/string_view.h"
#include "opentelemetry/nostd/unique_ptr.h"
#include "opentelemetry/trace/provider.h"
#include "opentelemetry/trace/span.h"
#include "opentelemetry/trace/span_startoptions.h"
#include "opentelemetry/trace/tracer.h"
#include "opentelemetry/trace/tracer_provider.h"
#include "redlatch/fencing_token.h"
#include "redlatch/lock_options.h"
#include "redlatch/observer.h"
#include "redlatch/status.h"
#include "redlatch/version.h"

namespace redlatch {

struct OpenTelemetryOptions {
  // Without one, the program's global provider when the observer is made.
  opentelemetry::nostd::shared_ptr<opentelemetry::trace::TracerProvider> tracer_provider = {};
  opentelemetry::nostd::shared_ptr<opentelemetry::metrics::MeterProvider> meter_provider = {};

  // The attribute `lock` of metrics, such as "orders" for "orders:42"; without this function, the
  // lock's name. Several threads may call it at the same time. Spans always have the lock's name.
  std::function<std::string(std::string_view lock)> label = {};
};

// Create it after the program has set its providers, and give it to the client:
//
//   Client::Connect(url, {.observer = std::make_shared<OpenTelemetryObserver>()});
//
//   span            from, to                               attributes
//   redlatch.wait   the call, the hold or the call's end   redlatch.lock, redlatch.outcome
//   redlatch.hold   the hold, its release or loss          redlatch.lock, redlatch.token,
//                                                          redlatch.outcome
//
// The span that is active in the calling thread is the parent of both; spans of asynchronous calls
// have no parent. The events `at risk` and `recovered` are added to the span of their hold.
//
// The metrics are named like the members of LockStats, and in Prometheus like those of
// PrometheusText(), with `lock` as their only attribute:
//
//   counters     redlatch.acquired, busy, cancelled, failed, released, releases_failed, lost,
//                renewed, renewals_failed, misused; redlatch.reconnects has `server` instead
//   up and down  redlatch.held
//   histograms   redlatch.wait, redlatch.hold, in seconds
//
// If holds have the same token, as readers that share a grant do, the observer cannot tell which of
// them ended. It assumes the one that began first. A release that is not confirmed in time counts
// as failed, even if the server confirms it later. Latches are not counted here, only in
// Client::Stats().
class OpenTelemetryObserver : public Observer {
 public:
  explicit OpenTelemetryObserver(OpenTelemetryOptions options = {})
      : label_(std::move(options.label)),
        tracer_((options.tracer_provider ? options.tracer_provider
                                         : opentelemetry::trace::Provider::GetTracerProvider())
                    ->GetTracer("redlatch", View(Version()))),
        meter_((options.meter_provider ? options.meter_provider
                                       : opentelemetry::metrics::Provider::GetMeterProvider())
                   ->GetMeter("redlatch", View(Version()))) {}

  void OnAcquired(std::string_view lock, FencingToken token, absl::Duration waited) override {
    const auto now = std::chrono::steady_clock::now();
    EndWait(lock, waited, "acquired", {});
    Count(*acquired_, lock);
    Record(*wait_, lock, waited);
    held_->Add(1, {{"lock", View(Label(lock))}});
    Span span = tracer_->StartSpan(
        "redlatch.hold",
        {{"redlatch.lock", View(lock)}, {"redlatch.token", static_cast<int64_t>(token.value())}});
    const std::lock_guard<std::mutex> guard(mu_);
    holds_.emplace(Key(lock, token), Hold{.began = now, .span = std::move(span)});
  }

  void OnWaitEnded(std::string_view lock, absl::Duration waited, const absl::Status& why) override {
    if (IsBusy(why)) {
      EndWait(lock, waited, "busy", {});
      Count(*busy_, lock);
    } else if (absl::IsCancelled(why)) {
      EndWait(lock, waited, "cancelled", {});
      Count(*cancelled_, lock);
    } else {
      EndWait(lock, waited, "failed", View(why.message()));
      Count(*failed_, lock);
    }
  }

  void OnReleased(std::string_view lock, FencingToken token, const absl::Status& result) override {
    // A lost hold is reported twice, in either order: whichever comes first ends it.
    if (IsLeaseLost(result)) {
      EndHold(lock, token, *lost_, "lost", View(result.message()));
    } else if (result.ok()) {
      EndHold(lock, token, *released_, "released", {});
    } else {
      EndHold(lock, token, *releases_failed_, "release failed", View(result.message()));
    }
  }
  void OnLost(const LostLease& lost) override {
    EndHold(lost.lock, lost.token, *lost_, "lost", View(lost.reason));
  }

  void OnRenewed(std::string_view lock, FencingToken) override { Count(*renewed_, lock); }
  void OnAtRisk(std::string_view lock, FencingToken token, absl::Duration remaining,
                const absl::Status& why) override {
    Count(*renewals_failed_, lock);
    const std::lock_guard<std::mutex> guard(mu_);
    const auto [first, last] = holds_.equal_range(Key(lock, token));
    for (auto hold = first; hold != last; ++hold) {
      hold->second.span->AddEvent("at risk",
                                  {{"redlatch.remaining", absl::ToDoubleSeconds(remaining)},
                                   {"redlatch.why", View(why.message())}});
    }
  }
  void OnRecovered(std::string_view lock, FencingToken token) override {
    const std::lock_guard<std::mutex> guard(mu_);
    const auto [first, last] = holds_.equal_range(Key(lock, token));
    for (auto hold = first; hold != last; ++hold) hold->second.span->AddEvent("recovered");
  }

  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // OnReleased() was told
  void OnMisuse(std::string_view lock, std::string_view) override { Count(*misused_, lock); }
  void OnReconnected(std::string_view server) override {
    reconnects_->Add(1, {{"server", View(server)}});
  }

 private:
  using Span = opentelemetry::nostd::shared_ptr<opentelemetry::trace::Span>;
  using Counter = opentelemetry::nostd::unique_ptr<opentelemetry::metrics::Counter<uint64_t>>;
  using Histogram = opentelemetry::nostd::unique_ptr<opentelemetry::metrics::Histogram<double>>;
  using Key = std::pair<std::string, FencingToken>;
  struct Hold {
    std::chrono::steady_clock::time_point began;
    Span span;
  };

  template <class Text>  // of the standard library or of Abseil
  static opentelemetry::nostd::string_view View(const Text& text) {
    return {text.data(), text.size()};
  }
  std::string Label(std::string_view lock) const {
    return label_ ? label_(lock) : std::string(lock);
  }

  void Count(opentelemetry::metrics::Counter<uint64_t>& counter, std::string_view lock) const {
    counter.Add(1, {{"lock", View(Label(lock))}});
  }
  void Record(opentelemetry::metrics::Histogram<double>& histogram, std::string_view lock,
              absl::Duration duration) const {
    histogram.Record(absl::ToDoubleSeconds(duration), {{"lock", View(Label(lock))}},
                     opentelemetry::context::RuntimeContext::GetCurrent());
  }

  static void End(opentelemetry::trace::Span& span, const char* outcome,
                  opentelemetry::nostd::string_view error) {
    span.SetAttribute("redlatch.outcome", outcome);
    if (!error.empty()) span.SetStatus(opentelemetry::trace::StatusCode::kError, error);
    span.End();
  }
  void EndWait(std::string_view lock, absl::Duration waited, const char* outcome,
               opentelemetry::nostd::string_view error) const {
    opentelemetry::trace::StartSpanOptions options;
    const auto ago = absl::ToChronoNanoseconds(waited);
    options.start_system_time = opentelemetry::common::SystemTimestamp(
        std::chrono::system_clock::now().time_since_epoch() - ago);
    options.start_steady_time = opentelemetry::common::SteadyTimestamp(
        std::chrono::steady_clock::now().time_since_epoch() - ago);
    const Span span = tracer_->StartSpan("redlatch.wait", {{"redlatch.lock", View(lock)}}, options);
    End(*span, outcome, error);
  }
  void EndHold(std::string_view lock, FencingToken token,
               opentelemetry::metrics::Counter<uint64_t>& counter, const char* outcome,
               opentelemetry::nostd::string_view error) {
    Hold hold;
    {
      const std::lock_guard<std::mutex> guard(mu_);
      const auto found = holds_.find(Key(lock, token));  // the first of those that are equal
      if (found == holds_.end()) return;
      hold = std::move(found->second);
      holds_.erase(found);
    }
    End(*hold.span, outcome, error);
    Count(counter, lock);
    Record(*hold_, lock, absl::FromChrono(std::chrono::steady_clock::now() - hold.began));
    held_->Add(-1, {{"lock", View(Label(lock))}});
  }

  Counter NewCounter(const char* name, const char* description) const {
    return meter_->CreateUInt64Counter(name, description);
  }

  const std::function<std::string(std::string_view)> label_;
  const opentelemetry::nostd::shared_ptr<opentelemetry::trace::Tracer> tracer_;
  const opentelemetry::nostd::shared_ptr<opentelemetry::metrics::Meter> meter_;

  const Counter acquired_ = NewCounter("redlatch.acquired", "Holds that began.");
  const Counter busy_ = NewCounter("redlatch.busy", "Calls whose lock was busy for too long.");
  const Counter cancelled_ = NewCounter("redlatch.cancelled", "Calls that were stopped.");
  const Counter failed_ = NewCounter("redlatch.failed", "Calls that failed otherwise.");
  const Counter released_ = NewCounter("redlatch.released", "Holds that were released.");
  const Counter releases_failed_ =
      NewCounter("redlatch.releases_failed", "Holds whose release was not confirmed in time.");
  const Counter lost_ = NewCounter("redlatch.lost", "Holds that ended without a release.");
  const Counter renewed_ = NewCounter("redlatch.renewed", "Renewals.");
  const Counter renewals_failed_ = NewCounter("redlatch.renewals_failed", "Renewals that failed.");
  const Counter misused_ = NewCounter("redlatch.misused", "Unlocks of locks that were not held.");
  const Counter reconnects_ =
      NewCounter("redlatch.reconnects", "Connections that were lost and made again.");
  const opentelemetry::nostd::unique_ptr<opentelemetry::metrics::UpDownCounter<int64_t>> held_ =
      meter_->CreateInt64UpDownCounter("redlatch.held", "Holds now.");
  const Histogram wait_ =
      meter_->CreateDoubleHistogram("redlatch.wait", "From the call to the hold.", "s");
  const Histogram hold_ =
      meter_->CreateDoubleHistogram("redlatch.hold", "From there to its end.", "s");

  std::mutex mu_;
  std::multimap<Key, Hold> holds_;
};

}  // namespace redlatch

#endif  // REDLATCH_OPENTELEMETRY_H_
