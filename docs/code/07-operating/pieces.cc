// The pieces of 07-operating.md, and a program that runs them.
#include "absl/time/clock.h"
#include "docs/code/expect.h"

// [metrics]
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/observer.h"
#include "redlatch/status.h"

class Metrics : public redlatch::Observer {
 public:
  void OnAcquired(std::string_view, redlatch::FencingToken, absl::Duration waited) override {
    ++acquired;
    waited_ns += absl::ToInt64Nanoseconds(waited);
  }
  void OnWaitEnded(std::string_view, absl::Duration, const absl::Status& why) override {
    ++(redlatch::IsBusy(why) ? busy : failed);
  }
  void OnAtRisk(std::string_view lock, redlatch::FencingToken, absl::Duration remaining,
                const absl::Status& why) override {
    ++at_risk;
    std::fprintf(stderr, "%s will be lost in %s: %s\n", std::string(lock).c_str(),
                 absl::FormatDuration(remaining).c_str(), why.ToString().c_str());
  }
  void OnLost(const redlatch::LostLease& lost) override {
    ++losses;
    std::fprintf(stderr, "%s was lost: %s\n", lost.lock.c_str(), lost.reason.c_str());
  }
  void OnMisuse(std::string_view lock, std::string_view what) override {
    ++misuses;
    std::fprintf(stderr, "%s: %s\n", std::string(lock).c_str(), std::string(what).c_str());
  }
  void OnReconnected(std::string_view) override { ++reconnects; }

  std::atomic<int64_t> acquired{0}, waited_ns{0}, busy{0}, failed{0};
  std::atomic<int64_t> at_risk{0}, losses{0}, misuses{0}, reconnects{0};
};
// [/metrics]

// [connect]
#include <memory>
#include <string_view>

#include "redlatch/client.h"

absl::StatusOr<redlatch::Client> ConnectFor(std::string_view url,
                                            std::shared_ptr<Metrics> metrics) {
  redlatch::ClientOptions options;
  options.key_prefix = "billing:";
  options.observer = std::move(metrics);
  options.on_warning = [](std::string_view message) {
    std::fprintf(stderr, "%s\n", std::string(message).c_str());
  };
  return redlatch::Client::Connect(url, options);
}
// [/connect]

// [healthy]
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"

bool Healthy(const redlatch::Client& client) {
  absl::StatusOr<absl::Duration> round_trip = client.Ping();
  return round_trip.ok() && *round_trip < absl::Milliseconds(100);
}
// [/healthy]

#include "redlatch/simple_lock.h"

// Output: billing:[a-z]+ was lost: .+|invoices was lost: .+
// Output: invoices: unlock\(\) .+
int main() {
  const auto metrics = std::make_shared<Metrics>();
  absl::StatusOr<redlatch::Client> client = ConnectFor("embedded:", metrics);
  ExpectOk(client.status());
  for (int i = 0; !Healthy(*client); ++i) Expect(i < 100);

  redlatch::SimpleLock invoices(*client, "invoices");
  invoices.lock();
  Expect(metrics->acquired == 1);
  redlatch::SimpleLock of_another(*ConnectFor("embedded:", metrics), "invoices");
  Expect(!of_another.try_lock() && metrics->busy == 1);
  ExpectOk(invoices.ForceRelease());
  while (metrics->losses == 0) absl::SleepFor(absl::Milliseconds(1));
  invoices.unlock();
  invoices.unlock();
  for (int i = 0; metrics->misuses == 0; ++i) {
    Expect(i < 10000);
    absl::SleepFor(absl::Milliseconds(1));
  }
}
