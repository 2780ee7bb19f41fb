#include "src/base/poll_gate.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "src/base/unique_fd.h"
#include "tests/support/testing.h"

namespace redlatch::base {
namespace {

class PollGateTest : public ::testing::Test {
 protected:
  PollGateTest() { EXPECT_TRUE(gate_.Make(watched_.get())); }

  void Come() const { ASSERT_EQ(eventfd_write(watched_.get(), 1), 0); }

  bool IsReady(int timeout_ms = 0) const {
    pollfd wait = {.fd = gate_.fd(), .events = POLLIN, .revents = 0};
    return poll(&wait, 1, timeout_ms) == 1;
  }

  const UniqueFd watched_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  PollGate gate_;
};

TEST_F(PollGateTest, ShutItLetsNothingThroughUntilItIsOpened) {
  ASSERT_TRUE(gate_.Shut());
  Come();
  EXPECT_FALSE(IsReady());
  ASSERT_TRUE(gate_.Open());
  EXPECT_TRUE(IsReady());
}

TEST_F(PollGateTest, WatchesOneDescriptorAtATime) {
  EXPECT_TRUE(gate_.watches(watched_.get()));
  const UniqueFd other(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));
  ASSERT_TRUE(gate_.Make(other.get()));
  EXPECT_FALSE(gate_.watches(watched_.get()));
  EXPECT_TRUE(IsReady()) << "the other one is readable";
  gate_.Leave();
  EXPECT_FALSE(gate_.watches(other.get()));
  EXPECT_FALSE(gate_.Open());
}

TEST_F(PollGateTest, WhatCannotBePolledHasNoGate) {
  EXPECT_FALSE(gate_.Make(-1));
  EXPECT_EQ(gate_.fd(), -1);
}

}  // namespace
}  // namespace redlatch::base
