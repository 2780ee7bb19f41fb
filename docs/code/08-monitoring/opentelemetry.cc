// The piece of 08-monitoring.md that reports to OpenTelemetry. It is compiled against a stand-in
// and, if OpenTelemetry's SDK is installed, against that too. What they record must agree with the
// client's statistics.
#include "docs/code/expect.h"

// [observer]
#include <memory>

#include "redlatch/client.h"
#include "redlatch/opentelemetry.h"

absl::StatusOr<redlatch::Client> ConnectTraced(std::string_view url) {
  redlatch::OpenTelemetryOptions options;
  options.label = [](std::string_view lock) {
    return std::string(lock.substr(0, lock.find(':')));  // "orders" for "orders:42"
  };
  return redlatch::Client::Connect(
      url, {.observer = std::make_shared<redlatch::OpenTelemetryObserver>(options)});
}
// [/observer]

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "redlatch/reentrant_lock.h"
#include "redlatch/reentrant_read_write_lock.h"
#include "redlatch/simple_lock.h"
#ifndef REDLATCH_OPENTELEMETRY_STAND_IN
#include "tests/support/opentelemetry/sdk.h"
#endif

// Ends calls and holds in every way that needs no broken server. The misuse is on purpose.
void UseLocks(const redlatch::Client& client) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  redlatch::ReentrantLock orders(client, "orders:1");
  orders.lock();
  orders.lock();
  std::thread([&] { Expect(!orders.try_lock()); }).join();  // busy
  std::stop_source stop;
  stop.request_stop();
  std::thread([&] {
    Expect(absl::IsCancelled(orders.Acquire({.stop = stop.get_token()}).status()));
  }).join();
  orders.unlock();
  orders.unlock();
  orders.unlock();  // misuse

  redlatch::ReentrantReadWriteLock readers(client, "orders:2");
  const auto read = [&] { const std::scoped_lock guard(readers.read_lock()); };
  std::thread one(read), two(read);
  one.join();
  two.join();

  std::atomic<bool> told{false};
  redlatch::SimpleLock lost(client, "orders:3",
                            {.on_lost = [&](const redlatch::LostLease&) { told = true; }});
  const std::optional<redlatch::Lease> lease = *lost.Acquire();
  ExpectOk(lost.ForceRelease());
  while (!told) absl::SleepFor(absl::Milliseconds(1));
}

double Recorded(const std::string& what) {
  static opentelemetry::Recorder recorder;
  return recorder.Sum(what);
}

void ExpectSame(const std::string& metric, uint64_t counted) {
  const double recorded = Recorded(absl::StrCat("redlatch.", metric, " orders"));
  if (recorded == static_cast<double>(counted)) return;
  std::fprintf(stderr, "%s: recorded %g, counted %d\n", metric.c_str(), recorded,
               static_cast<int>(counted));
  Expect(false);
}

void ExpectSpans(const redlatch::LockStats& stats) {
  Expect(Recorded("redlatch.wait acquired") == static_cast<double>(stats.acquired));
  Expect(Recorded("redlatch.wait busy") == 1 && Recorded("redlatch.wait cancelled") == 1);
  Expect(Recorded("redlatch.hold released") == static_cast<double>(stats.released));
  Expect(Recorded("redlatch.hold lost") == 1 && Recorded("redlatch.hold errors") == 1);
}

// Tells an observer directly of failures that need a broken server.
void ExpectFailures() {
  redlatch::OpenTelemetryObserver observer;
  const redlatch::FencingToken token(7);
  const absl::Status why = absl::UnavailableError("no answer");
  observer.OnAcquired("a", token, absl::Seconds(1));
  observer.OnAcquired("a", token, absl::Seconds(1));
  observer.OnAtRisk("a", token, absl::Seconds(1), why);
  observer.OnRecovered("a", token);
  observer.OnRenewed("a", token);
  observer.OnReleased("a", token, why);
  Expect(Recorded("redlatch.held a") == 1);
  observer.OnReleased("a", token, absl::AbortedError("lost"));
  observer.OnLost({.lock = "a", .server = "s", .token = token, .reason = "lost"});
  observer.OnWaitEnded("a", absl::Seconds(1), why);
  observer.OnReconnected("s");
  Expect(Recorded("redlatch.hold at risk") == 2 && Recorded("redlatch.hold recovered") == 2);
  Expect(Recorded("redlatch.renewals_failed a") == 1 && Recorded("redlatch.renewed a") == 1);
  Expect(Recorded("redlatch.releases_failed a") == 1 && Recorded("redlatch.lost a") == 1);
  Expect(Recorded("redlatch.hold a") == 2 && Recorded("redlatch.held a") == 0);
  Expect(Recorded("redlatch.failed a") == 1 && Recorded("redlatch.reconnects s") == 1);
}

int main() {
  Expect(Recorded("redlatch.acquired orders") == 0);  // records from here on
  absl::StatusOr<redlatch::Client> client = ConnectTraced("embedded:");
  ExpectOk(client.status());
  UseLocks(*client);
  const redlatch::LockStats stats = client->Stats().all;
  Expect(stats.acquired == 4 && stats.released == 3 && stats.lost == 1);
  client = absl::CancelledError();  // all events have been told when a client is gone
  ExpectSame("acquired", stats.acquired);
  ExpectSame("busy", stats.busy);
  ExpectSame("cancelled", stats.cancelled);
  ExpectSame("failed", stats.failed);
  ExpectSame("released", stats.released);
  ExpectSame("lost", stats.lost);
  ExpectSame("misused", stats.misused);
  ExpectSame("held", stats.held);
  ExpectSame("wait", stats.waited.count());
  ExpectSame("hold", stats.held_for.count());
  ExpectSpans(stats);
  ExpectFailures();
}
