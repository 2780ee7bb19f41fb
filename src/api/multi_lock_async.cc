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
#include "src/base/thread.h"
#include "src/engine/runtime/async_attempts.h"
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
  Chain(Apart& apart, AcquireOptions options, AcquireCallback told)
      : apart_(apart.weak_from_this()),
        core_(apart.parts_.front().lock_->body_->core()),
        of_one_client_(apart.of_one_client_),
        options_(std::move(options)),
        told_(std::move(told)),
        end_(base::Now() + options_.wait),
        leases_(apart.parts_.size()) {
    by_caller_.emplace(options_.stop, [this] { stopped_.request_stop(); });
    with_object_.emplace(apart.gone_.get_token(), [this] { stopped_.request_stop(); });
  }

  void TakeNext() {
    const std::shared_ptr<Apart> apart = apart_.lock();
    const bool waits = taken_ == 0 || of_one_client_;
    AcquireOptions its = options_;
    its.wait = waits ? base::Until(end_) : absl::ZeroDuration();
    its.stop = stopped_.get_token();
    const auto go_on = [self = shared_from_this()](absl::StatusOr<Lease> lease) {
      self->OnTaken(std::move(lease));
    };
    if (apart == nullptr || !apart->Take(At(taken_), its, go_on)) Finish(Cancelled());
  }

 private:
  size_t At(size_t i) const { return (first_ + i) % leases_.size(); }
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
    const std::shared_ptr<Apart> apart = apart_.lock();
    if (apart == nullptr) return OnRefused(first_, Cancelled());
    Finish(apart->LeaseOf(std::move(leases_)));
  }

  void OnRefused(size_t refused, const absl::Status& why) {
    while (taken_ > 0) leases_[At(--taken_)] = Lease();
    const bool again = absl::IsAborted(why) || (absl::IsDeadlineExceeded(why) && !of_one_client_);
    const base::Instant next = base::Now() + backoff_.Next();
    if (!again || end_ <= next) return Finish(why);
    if (stopped_.stop_requested()) return Finish(Cancelled());
    if (!of_one_client_) first_ = refused;
    AsyncDriver& driver = core_->async();
    driver.Begin(std::make_unique<engine::AsyncTimer>(
        driver, next, [self = shared_from_this()] { self->TakeNext(); }));
  }

  void Finish(absl::StatusOr<Lease> lease) {
    by_caller_.reset();
    with_object_.reset();
    core_->async().Complete([told = std::move(told_), lease = std::move(lease)]() mutable {
      std::move(told)(std::move(lease));
    });
  }

  const std::weak_ptr<Apart> apart_;
  const std::shared_ptr<engine::Core> core_;  // of the first: it says where to go on
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
  {
    const base::MutexLock lock(parts_mu_);
    ended_ = true;
  }
  gone_.request_stop();
}

bool MultiLock::Apart::Take(size_t part, const AcquireOptions& options, AcquireCallback callback) {
  const base::MutexLock lock(parts_mu_);
  if (ended_) return false;
  RedisLockBase& its = *parts_[part].lock_;
  its.body_->AcquireAsync(its, parts_[part].reads_, options, AsyncDriver::Whose::kOwn,
                          std::move(callback));
  return true;
}

void MultiLock::Apart::AcquireAsync(const AcquireOptions& options, AcquireCallback callback) {
  if (bad_.ok()) {
    return std::make_shared<Chain>(*this, options, std::move(callback))->TakeNext();
  }
  if (!parts_.empty()) {
    return parts_.front().lock_->body_->core()->async().Complete(
        [told = std::move(callback), bad = bad_]() mutable { std::move(told)(std::move(bad)); });
  }
  // Of no locks, it has no client either.
  base::StartThread("redlatch-async", [told =
                                           std::make_shared<AcquireCallback>(std::move(callback)),
                                       bad = bad_] {
    engine::RunUsersCode("a callback", [&] { std::move (*told)(bad); });
  }).detach();
}

}  // namespace redlatch
