// A user's function that throws: the library goes on, and stderr says so.
#include <stdexcept>

#include "tests/conformance/api/conformance.h"

namespace redlatch::conformance {
namespace {

class Thrower : public Observer {
 public:
  void OnAcquired(std::string_view, FencingToken, absl::Duration) override { Throw(); }
  void OnWaitEnded(std::string_view, absl::Duration, const absl::Status&) override { Throw(); }
  void OnReleased(std::string_view, FencingToken, const absl::Status&) override { Throw(); }
  void OnRenewed(std::string_view, FencingToken) override { Throw(); }
  void OnLost(const LostLease&) override { Throw(); }
  void OnMisuse(std::string_view, std::string_view) override { Throw(); }
  void OnReconnected(std::string_view) override { throw 42; }

  int thrown() const { return thrown_; }

 private:
  void Throw() {
    ++thrown_;
    throw std::runtime_error("from an observer");
  }
  std::atomic<int> thrown_{0};
};

// What goes to stderr in this scope.
class CapturedStderr {
 public:
  CapturedStderr() { ::testing::internal::CaptureStderr(); }
  ~CapturedStderr() {
    if (!taken_) Take();
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  std::string Take() {
    taken_ = true;
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  bool taken_ = false;
};

class Throwing : public Conformance {};

TEST_P(Throwing, ObserverStopsNothing) {
  CapturedStderr said;
  const auto thrower = std::make_shared<Thrower>();
  const Client client = NewClient({}, {.observer = thrower});
  const auto lock = NewLock(client);
  lock->lock();
  EXPECT_TRUE(lock->current().valid());
  EXPECT_EQ(CodeOf(NewLock(client)->Acquire({.wait = kGrace, .lease = kLease})),
            GetParam().kind.reentrant ? kOk : kBusy);
  lock->unlock();
  lock->unlock();
  auto lease = lock->Acquire();
  ASSERT_OK(lease);
  const std::stop_token lost = lease->lost();
  EXPECT_OK(NewLock(client)->ForceRelease());
  EXPECT_TRUE(Await([&] { return lost.stop_requested(); }));
  const int before = thrower->thrown();
  EXPECT_EQ(CodeOf(lease->Release()), kLost);
  EXPECT_TRUE(Await([&] { return thrower->thrown() > before; }));
  EXPECT_OK(lock->Acquire());
  said.Take();
  EXPECT_TRUE(Await([&] {  // a line a second
    CapturedStderr next;
    lock->unlock();
    return next.Take().find("from an observer") != std::string::npos;
  }));
}

TEST_P(Throwing, OnLostKeepsNobodyFromBeingTold) {
  CapturedStderr said;
  std::atomic<int> told{0};
  LockOptions options = Options();
  options.on_lost = [&](const LostLease& lost) {
    ++told;
    if (lost.lock == "a") throw std::runtime_error("from on_lost");
    throw 42;
  };
  const Client client = NewClient();
  for (const char* name : {"a", "b", "c"}) {
    const auto lease = NewLock(client, name, options)->Acquire();
    ASSERT_OK(lease);
    EXPECT_OK(NewLock(client, name)->ForceRelease());
    EXPECT_TRUE(Await([&] { return lease->lost().stop_requested(); }));
  }
  EXPECT_TRUE(Await([&] { return told == 3; }));
}

TEST_P(Throwing, StatsLabelCountsTheLockAmongTheOthers) {
  CapturedStderr said;
  const Client client = NewClient({}, {.stats_label = [](std::string_view) -> std::string {
                                    throw std::runtime_error("label");
                                  }});
  const auto lock = NewLock(client);
  lock->unlock();
  lock->lock();
  EXPECT_EQ(client.Stats().locks.at(0).name, kOtherNames);
  lock->unlock();
}

INSTANTIATE_CONFORMANCE(Throwing, OverTcp(LockCases()));

}  // namespace
}  // namespace redlatch::conformance
