// Many processes take permits in every way that there is, under every fault: see soak.h. Then the
// history of it all is checked: never more permits at a time than there are, and all of them back
// when the last lease is over.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "redlatch/client.h"
#include "redlatch/semaphore.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "tests/fault/soak/child.h"
#include "tests/fault/soak/plan.h"
#include "tests/fault/soak/soak.h"
#include "tests/fault/soak/worker.h"
#include "tests/support/await.h"
#include "tests/support/child_entry.h"
#include "tests/support/history_check/history_event.h"

namespace redlatch::soak {
namespace {

const std::vector<int>& Capacities() {
  static const std::vector<int> capacities = {3, 5};
  return capacities;
}
constexpr int kMostPermits = 3;

std::string PermitsName(int number) { return absl::StrCat("soak-permits-", number); }

std::unique_ptr<Semaphore> MakeSemaphore(const Client& client, int number,
                                         SemaphoreOptions options = {}) {
  return std::make_unique<Semaphore>(client, PermitsName(number),
                                     Capacities().at(static_cast<size_t>(number)),
                                     std::move(options));
}

class PermitWorker : public Worker {
 public:
  explicit PermitWorker(const Task& task) : Worker(task) {
    for (int number = 0; number < static_cast<int>(Capacities().size()); ++number) {
      history_.Note({.what = history::What::kSemaphore,
                     .objects = PermitsName(number),
                     .amount = Capacities().at(static_cast<size_t>(number))});
      for (const absl::Duration lease : leases_) {
        semaphores_.push_back(MakeSemaphore(task.client, number, {.lease = lease}));
      }
    }
  }

 private:
  void Round() override {
    const auto which = static_cast<size_t>(dice_.Below(static_cast<int>(semaphores_.size())));
    number_ = static_cast<int>(which / leases_.size());
    // Of permits that two threads have in common nobody could say whose are given back.
    if (thread_ == 0 && dice_.OneIn(3)) {
      ThroughStdFace(*semaphores_[which], leases_[which % leases_.size()]);
    } else {
      ThroughStatusFace(*semaphores_[which]);
    }
  }

  void ThroughStdFace(Semaphore& semaphore, absl::Duration lease) {
    const Way way = AnyWay();
    const base::Instant asked = base::Now();
    const uint32_t number = Invoke(/*waits=*/way == Way::kWait);
    const bool held = Enters(number, way, [&](Way how, std::chrono::nanoseconds wait) {
      if (how == Way::kTry) return semaphore.try_acquire();
      if (how == Way::kTryFor) return semaphore.try_acquire_for(wait);
      semaphore.acquire();
      return true;
    });
    if (!held) return;
    Holds(number, 0);
    // It cannot be asked for its deadline: that is no earlier than this.
    history_.Remaining(number, asked, lease * 0.9);
    Pass(HowLong());
    history_.ReleaseInvoked(number);
    semaphore.release();
  }

  void ThroughStatusFace(Semaphore& semaphore) {
    const AcquireOptions options = AnyOptions();
    const int permits = 1 + dice_.Below(kMostPermits);
    const uint32_t number = Invoke(Waits(options), permits);
    absl::StatusOr<Permit> permit = semaphore.Acquire(permits, options);
    if (!Entered(number, permit.status())) return;
    Holds(number, 0);
    if (Sample(number, *permit)) Keep(number, *permit);
    MayExtend(number, *permit, options);
    Release(number, *permit);
  }

  uint32_t Invoke(bool waits, int permits = 1) {
    return history_.Invoke(PermitsName(number_), history::Kind::kPermits, thread_, waits, permits);
  }

  const std::vector<absl::Duration> leases_ = Leases();
  std::vector<std::unique_ptr<Semaphore>> semaphores_;  // of each number, one of each lease
  int number_ = 0;
};

REDLATCH_CHILD(SoakingPermits) { return RunWorkers<PermitWorker>(parent, args); }

class SemaphoreSoak : public SoakTest {
 protected:
  // Everybody has gone: the permits of those who died are back when their leases are over.
  void ExpectAllIsBackWithin(absl::Duration patience) {
    const base::Instant until = base::Now() + patience;
    const absl::StatusOr<Client> client = Client::Connect(server_->url());
    for (int number = 0; number < static_cast<int>(Capacities().size()); ++number) {
      const auto semaphore = MakeSemaphore(*client, number);
      const int capacity = Capacities()[static_cast<size_t>(number)];
      const absl::StatusOr<Permit> all = semaphore->Acquire(capacity, {.wait = base::Until(until)});
      EXPECT_TRUE(all.ok()) << all.status();
    }
    // What was given up without an answer is remembered for as long as its lease.
    std::string left;
    (void)support::Await(
        [&] {
          left.clear();
          for (const redis::Reply& key : server_->Command({"KEYS", "*"}).elements) {
            EXPECT_NE(server_->Integer({"PTTL", key.text}), -1) << key.text;
            const bool own = key.text.starts_with("redlatch:client:") ||
                             server_->Text({"HGET", key.text, "kind"}) == "semaphore/2";
            if (!own) absl::StrAppend(&left, key.text, " ");
          }
          return left.empty();
        },
        base::Until(until + patience));
    EXPECT_EQ(left, "");
  }
};

TEST_F(SemaphoreSoak, OfManyProcessesUnderEveryFaultNeverShowsMorePermitsThanThereAre) {
  Run("SoakingPermits", {.locks = static_cast<int>(Capacities().size()),
                         .name = PermitsName,
                         .force = [](const Client& client, int number) {
                           return MakeSemaphore(client, number)->ForceRelease();
                         }});
  ExpectAllIsBackWithin(longest_lease_ + kSlack);
  ExpectAllIsTrue();
}

}  // namespace
}  // namespace redlatch::soak
