// The pieces of 08-monitoring.md, and a program that runs them.
#include "absl/time/clock.h"
#include "docs/code/expect.h"

// [log]
#include <cstdio>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/observer.h"

class Log : public redlatch::Observer {
 public:
  void OnAtRisk(std::string_view lock, redlatch::FencingToken, absl::Duration remaining,
                const absl::Status& why) override {
    std::fprintf(stderr, "%s will be lost in %s: %s\n", std::string(lock).c_str(),
                 absl::FormatDuration(remaining).c_str(), why.ToString().c_str());
  }
  void OnRecovered(std::string_view lock, redlatch::FencingToken) override {
    std::fprintf(stderr, "%s is safe again\n", std::string(lock).c_str());
  }
  void OnLost(const redlatch::LostLease& lost) override {
    std::fprintf(stderr, "%s was lost: %s\n", lost.lock.c_str(), lost.reason.c_str());
  }
  void OnReleaseFailed(std::string_view lock, redlatch::FencingToken, absl::Duration remaining,
                       const absl::Status& why) override {
    std::fprintf(stderr, "%s stays taken for %s: %s\n", std::string(lock).c_str(),
                 absl::FormatDuration(remaining).c_str(), why.ToString().c_str());
  }
  void OnMisuse(std::string_view lock, std::string_view what) override {
    std::fprintf(stderr, "%s: %s\n", std::string(lock).c_str(), std::string(what).c_str());
  }
  void OnReconnected(std::string_view server) override {
    std::fprintf(stderr, "connected to %s again\n", std::string(server).c_str());
  }
};
// [/log]

// [connect]
#include <memory>

#include "redlatch/client.h"

absl::StatusOr<redlatch::Client> ConnectFor(std::string_view url) {
  redlatch::ClientOptions options;
  options.observer = std::make_shared<Log>();
  options.stats_label = [](std::string_view lock) {
    return std::string(lock.substr(0, lock.find(':')));  // "orders" for "orders:42"
  };
  return redlatch::Client::Connect(url, options);
}
// [/connect]

// [slow]
#include "redlatch/stats.h"

void TellSlowLocks(const redlatch::Client& client) {
  for (const redlatch::LockStats& lock : client.Stats().locks) {
    const absl::Duration waited = lock.waited.Quantile(0.99);
    if (waited < absl::Milliseconds(100)) continue;
    std::fprintf(stderr, "%s: one call in a hundred waits for %s or longer; %d wait now\n",
                 lock.name.c_str(), absl::FormatDuration(waited).c_str(),
                 static_cast<int>(lock.waiting));
  }
}
// [/slow]

#include <atomic>
#include <optional>
#include <thread>

#include "redlatch/simple_lock.h"

// Output: orders: one call in a hundred waits for .+; 0 wait now
// Output: orders:2 was lost: .+
// Output: orders:2: unlock\(\) .+
int main() {
  absl::StatusOr<redlatch::Client> client = ConnectFor("embedded:");
  ExpectOk(client.status());
  redlatch::SimpleLock one(*client, "orders:1");
  std::optional<redlatch::Lease> lease = *one.Acquire();
  std::thread waiter([&] { ExpectOk(one.Acquire().status()); });
  while (client->Stats().all.waiting == 0) absl::SleepFor(absl::Milliseconds(1));
  absl::SleepFor(absl::Milliseconds(400));  // the wait that TellSlowLocks() reports
  lease.reset();
  waiter.join();
  TellSlowLocks(*client);

  std::atomic<bool> told{false};
  redlatch::SimpleLock two(*client, "orders:2",
                           {.on_lost = [&](const redlatch::LostLease&) { told = true; }});
  two.lock();
  ExpectOk(two.ForceRelease());
  while (!told) absl::SleepFor(absl::Milliseconds(1));
  two.unlock();
  two.unlock();
  const redlatch::ClientStats stats = client->Stats();
  Expect(stats.locks.size() == 1 && stats.locks[0].name == "orders");
  Expect(stats.all.acquired == 3 && stats.all.lost == 1 && stats.all.misused == 1);
}
