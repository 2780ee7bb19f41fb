// A process that forks while another of its threads is in the midst of something: in the child that
// something is never finished. Here a thread is halted at each allocation and each release of
// memory in turn, the process forks, and the child destroys what the thread was using.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string_view>
#include <thread>

#include "gtest/gtest.h"
#include "src/redis/subscriber.h"
#include "src/redis/transport.h"
#include "tests/support/subprocess.h"
#include "tests/support/subscriber_test_fixture.h"

namespace redlatch {
namespace {

enum Halt : int { kNone, kHalted, kGoOn };
thread_local int steps_left = -1;  // of this thread, until it is halted; -1: it never is
std::atomic<int> halt{kNone};

void Step() {
  if (steps_left < 0 || steps_left-- > 0) return;
  halt = kHalted;
  halt.notify_all();
  halt.wait(kHalted);
}

// Before each block, so that a second release of one is noticed.
struct alignas(16) Mark {
  static constexpr uint64_t kInUse = 0x72656c65617365;
  uint64_t value;
};

}  // namespace
}  // namespace redlatch

void* operator new(size_t size) {
  redlatch::Step();
  auto* mark = static_cast<redlatch::Mark*>(std::malloc(sizeof(redlatch::Mark) + size));
  if (mark == nullptr) throw std::bad_alloc();
  mark->value = redlatch::Mark::kInUse;
  return mark + 1;
}
void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  auto* mark = static_cast<redlatch::Mark*>(memory) - 1;
  if (mark->value != redlatch::Mark::kInUse) std::abort();
  mark->value = 0;
  std::free(mark);
  redlatch::Step();  // when what points to it has not been changed yet
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }

namespace redlatch {
namespace {

class ForkSweep : public support::SubscriberTestFixture {
 protected:
  // What the child returns: 0 is well.
  static int ExitCode(const std::function<void()>& body) {
    auto child = support::Child::Fork([&](support::LinePipe&) {
      body();
      return 0;
    });
    const auto status = child->WaitFor(kPatience);
    if (!status.has_value()) return -1;  // it hangs
    return status->signal != 0 ? 1000 + status->signal : status->code;
  }

  // `act` has `steps_left` of some thread set to its argument, and returns when that thread is
  // through. Returns how often the thread was halted.
  static int Sweep(const std::function<void()>& prepare, const std::function<void(int)>& act,
                   const std::function<void()>& destroy) {
    for (int steps = 0;; ++steps) {
      prepare();
      halt = kNone;
      std::thread actor([&] {
        act(steps);
        int none = kNone;
        halt.compare_exchange_strong(none, kGoOn);
        halt.notify_all();
      });
      halt.wait(kNone);
      const bool halted = halt == kHalted;
      EXPECT_EQ(halted ? ExitCode(destroy) : 0, 0) << "halted at step " << steps;
      halt = kGoOn;
      halt.notify_all();
      actor.join();
      if (!halted || HasFailure()) return steps;
    }
  }

  static constexpr char kOne[] = "a channel with a name that is allocated";
  static constexpr char kOther[] = "another such channel, for the same reason";
};

TEST_F(ForkSweep, AChildMayDestroyASubscriberWhateverACallOfItWasDoing) {
  std::unique_ptr<redis::Subscriber> subscriber;
  const int halts = Sweep(
      [&] {
        subscriber = Make(server_->url());
        EXPECT_TRUE(subscriber->Subscribe(kOne, Soon()).ok());
      },
      [&](int steps) {
        steps_left = steps;
        EXPECT_TRUE(subscriber->Subscribe(kOther, Soon()).ok());
        EXPECT_TRUE(subscriber->Unsubscribe(kOne, Soon()).ok());
        steps_left = -1;
      },
      [&] { subscriber.reset(); });
  EXPECT_GT(halts, 5);
}

TEST_F(ForkSweep, AChildMayDestroyASubscriberWhateverItsThreadWasDoing) {
  std::unique_ptr<redis::Subscriber> subscriber;
  std::atomic<int> next_steps{-1};
  redis::SubscriberOptions options;
  options.open = [&](const redis::SocketAddress& address) {
    steps_left = next_steps;  // the subscriber's thread connects
    return redis::OpenSocket(address);
  };
  options.on_message = [](std::string_view, std::string_view) { steps_left = -1; };
  const int halts = Sweep(
      [&] {
        subscriber = std::make_unique<redis::Subscriber>(*redis::ParseUrl(server_->url()), options);
      },
      [&](int steps) {
        next_steps = steps;
        EXPECT_TRUE(subscriber->Subscribe(kOne, Soon()).ok());
        EXPECT_TRUE(subscriber->Subscribe(kOther, Soon()).ok());
        EXPECT_EQ(Publish(kOne, "the end"), 1);
        while (subscriber->stats().messages == 0) {
        }
      },
      [&] { subscriber.reset(); });
  EXPECT_GT(halts, 20);
}

}  // namespace
}  // namespace redlatch
