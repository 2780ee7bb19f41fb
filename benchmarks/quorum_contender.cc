// RedLock in a race of peers/run.py. --turn-ms=N: LockOptions::turn.
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmarks/peers/contender.h"
#include "redlatch/client.h"
#include "redlatch/lock_options.h"
#include "redlatch/red_lock.h"

int main(int argc, char** argv) {
  const redlatch::bench::Contender contender(argc, argv);
  std::vector<redlatch::Client> clients;
  for (const std::string& url : contender.urls()) {
    absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(url);
    if (!client.ok()) redlatch::bench::Contender::Fail(client.status().ToString());
    clients.push_back(*std::move(client));
  }
  redlatch::LockOptions options;
  options.turn = absl::Milliseconds(std::stoi(contender.Option("turn-ms", "0")));
  redlatch::RedLock lock(clients, redlatch::bench::kContendedLock, options);
  return contender.Race(
      [&] {
        lock.lock();
        return true;
      },
      [&] { lock.unlock(); });
}
