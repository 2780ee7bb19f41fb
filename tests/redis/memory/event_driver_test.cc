#include "src/lock/event_driver.h"

#include <new>

#include "src/lock/client_core.h"
#include "tests/redis/memory/replaced_new.h"
#include "tests/support/live_testing.h"

namespace redlatch::internal {
namespace {

// Ends at its first step, while an event of its own is still to come.
class BriefTask final : public EventTask {
 public:
  explicit BriefTask(EventDriver& driver, std::function<void()> at_step = nullptr)
      : driver_(driver), at_step_(std::move(at_step)) {}

 private:
  bool Step(unsigned, base::Instant) override {
    driver_.Push(*this, kWoken);
    if (at_step_) std::exchange(at_step_, nullptr)();
    return false;
  }
  base::Instant due() const override { return base::Instant::Infinite(); }

  EventDriver& driver_;
  std::function<void()> at_step_;
};

// Begins a task, after each of the allocations that this needs has failed once. Returns false if
// the task was lost.
bool BeginAfterFailures(EventDriver& driver, std::unique_ptr<EventTask> task) {
  for (int k = 1; task != nullptr; ++k) {
    allocations_left = k;
    try {
      driver.Begin(std::move(task));
      allocations_left = -1;
      return true;
    } catch (const std::bad_alloc&) {
    }
  }
  return false;
}

TEST(EventDriverTest, TaskIsStillItsCallersIfItCannotBegin) {
  const auto server = RedisServer::Start();
  const Client client = Connect(server->url());
  EventDriver& driver = client.core()->event_driver();
  ASSERT_TRUE(driver.Ready());
  std::promise<bool> all_began;
  const std::function<void()> begin_more = [&] {
    bool began = true;
    for (int i = 0; i < 10 && began; ++i) {
      began = BeginAfterFailures(driver, std::make_unique<BriefTask>(driver));
    }
    all_began.set_value(began);
  };
  // These all end in one turn of the driver.
  driver.Begin(std::make_unique<BriefTask>(driver, [&] {
    for (int i = 0; i < 5; ++i) {
      driver.Begin(std::make_unique<BriefTask>(driver, i == 4 ? begin_more : nullptr));
    }
  }));
  EXPECT_TRUE(all_began.get_future().get());
}

}  // namespace
}  // namespace redlatch::internal
