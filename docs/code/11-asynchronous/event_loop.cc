// Output: alice: 1 of 3
// Output: bob: 3 of 3
// Output: the loop has ended
// [loop]
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

// A minimal event loop. It runs what is posted, one after the other, on one thread.
class Loop {
 public:
  void Post(std::function<void()> work) {  // from any thread
    const std::lock_guard<std::mutex> lock(mu_);
    posted_.push_back(std::move(work));
    changed_.notify_one();
  }

  void Run(int coroutines) {  // until that many have ended
    for (running_ = coroutines; running_ > 0;) Next()();
  }
  void OneHasEnded() { --running_; }

 private:
  std::function<void()> Next() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [this] { return !posted_.empty(); });
    std::function<void()> work = std::move(posted_.front());
    posted_.pop_front();
    return work;
  }

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
  int running_ = 0;  // used by the loop's own thread only
};
// [/loop]

// [task]
#include <coroutine>
#include <exception>

// A coroutine that begins at once and has no owner. redlatch needs nothing from its type.
struct Task {
  struct promise_type {
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};
// [/task]

// [work]
#include <cstdio>
#include <string>

#include "redlatch/client.h"
#include "redlatch/simple_lock.h"

Task Work(Loop& loop, redlatch::RedisLockBase& lock, std::string who) {
  for (int i = 1; i <= 3; ++i) {
    absl::StatusOr<redlatch::Lease> lease =
        co_await lock.AcquireAwaitable({.wait = absl::Seconds(10)});
    if (!lease.ok()) {
      std::puts(lease.status().ToString().c_str());
      break;
    }
    std::printf("%s: %d of 3\n", who.c_str(), i);  // on the loop's thread
    absl::Status released = co_await lease->ReleaseAwaitable();
    if (!released.ok()) std::puts(released.ToString().c_str());  // kAborted: it was lost
  }
  loop.OneHasEnded();
}
// [/work]

// [main]
int main() {
  Loop loop;
  // A private server of your own, started on the spot; or redis://host:6379.
  absl::StatusOr<redlatch::Client> client = redlatch::Client::Connect(
      "embedded:", {.post = [&loop](std::function<void()> work) { loop.Post(std::move(work)); }});
  if (!client.ok()) {
    std::puts(client.status().ToString().c_str());
    return 1;
  }
  redlatch::SimpleLock lock(*client, "orders:42");
  Work(loop, lock, "alice");
  Work(loop, lock, "bob");
  loop.Run(2);
  std::puts("the loop has ended");
}
// [/main]
