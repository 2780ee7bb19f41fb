// Output: reserved by 1
// Output: reserved by 2
// Output: reserved by 3
// [adapter]
#include <utility>

// Boost 1.74 needs the header above.
#include <boost/asio.hpp>

#include "redlatch/redis_lock_base.h"

namespace asio = boost::asio;

// Makes lock.AcquireAsync() an Asio operation: for use_awaitable, a handler, or another token.
template <class Token>
auto AsyncAcquire(redlatch::RedisLockBase& lock, const redlatch::AcquireOptions& options,
                  Token&& token) {
  using Signature = void(absl::StatusOr<redlatch::Lease>);
  return asio::async_initiate<Token, Signature>(
      [&lock, options](auto handler) {
        // Keeps the io_context running while the call waits.
        auto work = asio::make_work_guard(asio::get_associated_executor(handler));
        lock.AcquireAsync(options, [work = std::move(work), handler = std::move(handler)](
                                       absl::StatusOr<redlatch::Lease> lease) mutable {
          // Continues where the coroutine belongs, which may be a strand.
          asio::dispatch(work.get_executor(),
                         [handler = std::move(handler), lease = std::move(lease)]() mutable {
                           std::move(handler)(std::move(lease));
                         });
        });
      },
      token);
}
// [/adapter]

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
