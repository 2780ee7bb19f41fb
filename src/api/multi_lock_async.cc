// Locks that no script can take together, taken without a thread: as MultiLock::Apart::TakeAll(),
// in steps.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/api/lock_body.h"
#include "src/api/multi_lock_apart.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/thread.h"
#include "src/engine/runtime/async_run.h"
#include "src/engine/runtime/users_code.h"

namespace redlatch {
namespace {

using engine::AsyncDriver;

constexpr absl::Duration kFirstAsyncPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestAsyncPause = absl::Milliseconds(50);

}  // namespace

// It keeps itself, by whatever it waits for. One step at a time, on the threads of its clients.
class MultiLock::Apart::Chain : public std::enable_shared_from_this<Chain> {
 public:
  Chain(const Apart& apart, Sides sides, AcquireOptions options, AcquireCallback told)
      : sides_(std::move(sides)),
        of_one_client_(apart.of_one_client_),
        options_(std::move(options)),
        told_(std::move(told)),
        end_(base::Now() + options_.wait),
        leases_(sides_.size()) {
    by_caller_.emplace(options_.stop, [this] { stopped_.request_stop(); });
    with_object_.emplace(apart.gone_.get_token(), [this] { stopped_.request_stop(); });
  }

  void TakeNext() {
    const bool waits = taken_ == 0 || of_one_client_;
    AcquireOptions its = options_;
    its.wait = waits ? base::Until(end_) : absl::ZeroDuration();
    its.stop = stopped_.get_token();
    const LockBody::Side& side = sides_[At(taken_)];
    side.body->AcquireAsync(side, its, AsyncDriver::Whose::kOwn,
                            [self = shared_from_this()](absl::StatusOr<Lease> lease) {
                              self->OnTaken(std::move(lease));
                            });
  }

 private:
  size_t At(size_t i) const { return (first_ + i) % leases_.size(); }
  // The first one's, which says where callbacks run.
  AsyncDriver& driver() const { return sides_.front().body->core()->async(); }
  static absl::Status Cancelled() { return absl::CancelledError("the wait was stopped"); }

  void OnTaken(absl::StatusOr<Lease> lease) {
    if (!lease.ok()) return OnRefused(At(taken_), lease.status());
    leases_[At(taken_++)] = *std::move(lease);
    if (taken_ < leases_.size()) return TakeNext();
    for (size_t i = 0; i < leases_.size(); ++i) {
      if (leases_[At(i)].valid()) continue;
      return OnRefused(
          At(i), absl::AbortedError("one of the locks was lost while another was waited for"));
    }
    Finish(LeaseOf(sides_, std::move(leases_)));
  }

  void OnRefused(size_t refused, const absl::Status& why) {
    while (taken_ > 0) leases_[At(--taken_)] = Lease();
    const bool again = absl::IsAborted(why) || (absl::IsDeadlineExceeded(why) && !of_one_client_);
    const base::Instant next = base::Now() + backoff_.Next();
    if (!again || end_ <= next) return Finish(why);
    if (stopped_.stop_requested()) return Finish(Cancelled());
    if (!of_one_client_) first_ = refused;
    AsyncDriver& driver = this->driver();
    driver.Begin(std::make_unique<engine::AsyncTimer>(
        driver, next, [self = shared_from_this()] { self->TakeNext(); }));
  }

  void Finish(absl::StatusOr<Lease> lease) {
    by_caller_.reset();
    with_object_.reset();
    driver().Complete([told = std::move(told_), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    });
  }

  const Sides sides_;
  const bool of_one_client_;
  const AcquireOptions options_;
  AcquireCallback told_;
  const base::Instant end_;
  std::vector<Lease> leases_;
  size_t first_ = 0;  // to be taken; the others come in their order, and round
  size_t taken_ = 0;
  base::Backoff backoff_{kFirstAsyncPause, kLongestAsyncPause};
  std::stop_source stopped_;
  std::optional<std::stop_callback<std::function<void()>>> by_caller_;
  std::optional<std::stop_callback<std::function<void()>>> with_object_;
};

void MultiLock::Apart::End() {
  if (!parts_.empty() && parts_.front().lock_->body_->core()->in_forked_child()) return;
  gone_.request_stop();
}

void MultiLock::Apart::AcquireAsync(const AcquireOptions& options, AcquireCallback callback) {
  absl::StatusOr<Sides> sides = bad_.ok() ? SidesFor(options.owner) : absl::StatusOr<Sides>(bad_);
  if (sides.ok()) {
    const auto chain =
        std::make_shared<Chain>(*this, *std::move(sides), options, std::move(callback));
    return chain->TakeNext();
  }
  if (!parts_.empty()) {
    return parts_.front().lock_->body_->core()->async().Complete(
        [told = std::move(callback), bad = base::Unshared(sides.status())]() mutable {
          std::move(told)(std::move(bad));
        });
  }
  // Of no locks, it has no client either.
  base::RunApart("redlatch-async", [told = std::make_shared<AcquireCallback>(std::move(callback)),
                                    bad = std::make_shared<absl::Status>(base::Unshared(bad_))] {
    engine::RunUsersCode("a callback", [&] { std::move (*told)(std::move(*bad)); });
  });
}

}  // namespace redlatch
