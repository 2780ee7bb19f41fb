// A plugin that contains the library. tests/redis/api/plugin_test.cc loads and unloads it.
#include <future>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/election.h"
#include "redlatch/lease.h"
#include "redlatch/semaphore.h"
#include "redlatch/simple_lock.h"

namespace redlatch {
namespace {

// The callback says that it is done before it returns.
void UseInCallback(SimpleLock& lock, std::optional<Client> last = std::nullopt) {
  std::promise<void> done;
  auto finished = done.get_future();
  lock.AcquireAsync({}, [&](absl::StatusOr<Lease> lease) {
    {
      const absl::StatusOr<Lease> owned = std::move(lease);
      last.reset();
    }
    done.set_value();
  });
  finished.wait();
}

bool UseAndLose(const Client& client) {
  std::promise<void> told;
  SimpleLock lock(client, "lost",
                  {.lease = absl::Milliseconds(100),
                   .at_most = absl::Milliseconds(100),
                   .on_lost = [&](const LostLease&) { told.set_value(); }});
  const auto lease = lock.Acquire();
  if (lease.ok()) told.get_future().wait();
  return lease.ok();
}

int UseAll(const Client& client) {
  SimpleLock lock(client, "lock", {.cache_for = absl::Seconds(20)});
  lock.lock();
  lock.unlock();
  if (!Semaphore(client, "semaphore", 2).Acquire().ok()) return 1;
  Election election(client, "election");
  const auto observation = election.Observe([](const std::optional<Leader>&) {});
  if (!observation.ok() || !election.Campaign("value").ok()) return 2;
  if (!UseAndLose(client)) return 3;
  UseInCallback(lock);
  return 0;
}

}  // namespace
}  // namespace redlatch

using redlatch::Client;
using redlatch::SimpleLock;

extern "C" {

// Uses a client in several ways, and destroys it.
int UseClient(const char* url) {
  const auto client = Client::Connect(url);
  return client.ok() ? redlatch::UseAll(*client) : 10;
}

// A callback has the last handle of the client.
int LetCallbackDestroyClient(const char* url) {
  auto client = Client::Connect(url);
  if (!client.ok()) return 10;
  SimpleLock lock(*client, "lock");
  redlatch::UseInCallback(lock, *std::exchange(client, absl::CancelledError()));
  return 0;
}

// Fails, while threads still look for the server.
int GiveUpConnecting(const char* url) {
  return Client::Connect(url, {.unreachable_after = absl::Milliseconds(20)}).ok() ? 20 : 0;
}

// Leaves a client that has a cached lock.
int LeakClient(const char* url) {
  auto* const client = new auto(Client::Connect(url));
  if (!client->ok()) return 10;
  auto* const lock = new SimpleLock(**client, "leaked",
                                    {.lease = absl::Minutes(1), .cache_for = absl::Minutes(1)});
  lock->lock();
  lock->unlock();
  return 0;
}

}  // extern "C"
