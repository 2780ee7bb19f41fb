// Output: reserved by 1
// Output: reserved by 2
// Output: reserved by 3
#include "docs/code/11-asynchronous/async_acquire.h"

// [session]
#include <cstdio>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

asio::awaitable<void> Session(redlatch::RedisLockBase& lock, int number) {
  const redlatch::AcquireOptions options = {.wait = absl::Seconds(10)};
  absl::StatusOr<redlatch::Lease> lease = co_await AsyncAcquire(lock, options, asio::use_awaitable);
  if (!lease.ok()) {
    std::puts(lease.status().ToString().c_str());
    co_return;
  }
  std::printf("reserved by %d\n", number);
  // ... other asynchronous work, while lease->valid()
  lease->ReleaseAsync([](const absl::Status& released) {
    if (!released.ok()) std::puts(released.ToString().c_str());
  });
}
// [/session]

// [asio_main]
int main() {
  asio::io_context io;
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(
      "embedded:",
      {.post = [&io](std::function<void()> work) { asio::post(io, std::move(work)); }});
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }
  redlatch::SimpleLock lock(*client, "seat:17");
  for (int i = 1; i <= 3; ++i) asio::co_spawn(io, Session(lock, i), asio::detached);
  io.run();
}
// [/asio_main]
