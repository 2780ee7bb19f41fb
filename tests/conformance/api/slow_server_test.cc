// A server that is well but slow, or pauses: no call that may wait for longer is failed for it.
#include <atomic>

#include "gtest/gtest.h"
#include "src/base/parker.h"
#include "tests/conformance/api/conformance.h"
#include "tests/support/tcp_proxy.h"

namespace redlatch::conformance {
namespace {

using support::Direction;

class SlowServer : public Conformance {
 protected:
  void Pause(absl::Duration how_long) { base::Parker().ParkUntil(base::Now() + how_long); }

  Proxies proxy_{server().ports()};
};

TEST_P(SlowServer, EndlessCallOutlastsPausesThatAreEachShorterThanItsPatience) {
  constexpr absl::Duration kGiveUp = absl::Seconds(1);
  const Client holder = NewClient();
  auto lease = NewLock(holder)->Acquire();
  ASSERT_OK(lease);
  const Client client =
      ClientAt(UrlThrough(proxy_), "command_timeout=100ms", {.unreachable_after = kGiveUp});
  Crew crew;
  std::atomic<bool> over{false};
  crew.Start(2, [&](int) {
    const auto late = NewLock(client)->Acquire();
    EXPECT_TRUE(over);
    EXPECT_OK(late);
  });
  ASSERT_TRUE(AwaitQueued(1));
  const base::Instant began = base::Now();
  while (base::Now() < began + 2 * kGiveUp) {
    proxy_.Hold(Direction::kToClient);
    Pause(kGiveUp / 4);
    proxy_.ReleaseHeld();
    Pause(kGiveUp / 3);
  }
  over = true;
  EXPECT_OK(lease->Release());
  crew.Join();
}

TEST_P(SlowServer, CallsTooShortForItDoNotKeepALongOneFromBeingAnswered) {
  const Client client = ClientAt(UrlThrough(proxy_), "", {.unreachable_after = absl::Seconds(1)});
  for (const absl::Duration wait : {absl::InfiniteDuration(), absl::Seconds(2)}) {
    proxy_.Delay(Direction::kToClient, absl::Milliseconds(60));
    std::atomic<bool> over{false};
    Crew crew;
    crew.Start(2, [&](int) {
      const auto lock = NewLock(client);
      while (!over) (void)lock->TryAcquire();
    });
    Pause(absl::Milliseconds(100));
    EXPECT_OK(NewLock(client)->Acquire({.wait = wait}));
    over = true;
    crew.Join();
    proxy_.Delay(Direction::kToClient, absl::ZeroDuration());
  }
}

INSTANTIATE_FOR_KINDS(SlowServer);

}  // namespace
}  // namespace redlatch::conformance
