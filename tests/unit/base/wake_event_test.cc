#include "src/base/wake_event.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

bool IsReady(const WakeEvent& event) {
  pollfd wait = {.fd = event.fd(), .events = POLLIN, .revents = 0};
  return poll(&wait, 1, 0) == 1;
}

TEST(WakeEvent, IsReadyFromASignalUntilItIsDrained) {
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  EXPECT_FALSE(IsReady(event));
  event.Signal();
  event.Signal();
  EXPECT_TRUE(IsReady(event));
  event.Drain();
  EXPECT_FALSE(IsReady(event));
}

TEST(WakeEvent, OpenedAgainItIsTheSame) {
  WakeEvent event;
  ASSERT_TRUE(event.Open());
  const int number = event.fd();
  event.Signal();
  ASSERT_TRUE(event.Open());
  EXPECT_EQ(event.fd(), number);
  EXPECT_TRUE(IsReady(event));
}

}  // namespace
}  // namespace redlatch::base
