// The pieces of 07-operating.md, and a program that runs them.
#include "absl/time/clock.h"
#include "docs/code/expect.h"

// [connect]
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "redlatch/client.h"
#include "redlatch/observer.h"

absl::StatusOr<redlatch::Client> ConnectFor(std::string_view url,
                                            std::shared_ptr<redlatch::Observer> observer) {
  redlatch::ClientOptions options;
  options.key_prefix = "billing:";
  options.observer = std::move(observer);
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

#include <atomic>

#include "redlatch/simple_lock.h"

class Listener : public redlatch::Observer {
 public:
  void OnLost(const redlatch::LostLease&) override { lost = true; }
  std::atomic<bool> lost{false};
};

int main() {
  const auto listener = std::make_shared<Listener>();
  absl::StatusOr<redlatch::Client> client = ConnectFor("embedded:", listener);
  ExpectOk(client.status());
  for (int i = 0; !Healthy(*client); ++i) Expect(i < 100);

  redlatch::SimpleLock invoices(*client, "invoices");
  invoices.lock();
  redlatch::SimpleLock of_another(*ConnectFor("embedded:", listener), "invoices");
  Expect(!of_another.try_lock());
  ExpectOk(invoices.ForceRelease());
  while (!listener->lost) absl::SleepFor(absl::Milliseconds(1));
  invoices.unlock();
}
