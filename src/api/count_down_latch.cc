#include "redlatch/count_down_latch.h"

#include <utility>

#include "redlatch/status.h"
#include "src/api/latch_body.h"
#include "src/api/throw.h"

namespace redlatch {

CountDownLatch::CountDownLatch(Client client, std::string_view name, int64_t count,
                               LatchOptions options)
    : body_(std::make_shared<LatchBody>(std::move(client.core_), name, count, options)) {}

CountDownLatch::~CountDownLatch() { body_->Close(); }

const std::string& CountDownLatch::name() const { return body_->name(); }

void CountDownLatch::count_down(std::ptrdiff_t n) {
  if (absl::Status status = CountDown(n); !status.ok()) Throw(status);
}

void CountDownLatch::wait() {
  if (absl::Status status = Wait(); !status.ok()) Throw(status);
}

bool CountDownLatch::WaitFor(absl::Duration wait) {
  const absl::Status status = Wait({.wait = wait});
  if (!status.ok() && !IsBusy(status)) Throw(status);
  return status.ok();
}

void CountDownLatch::arrive_and_wait(std::ptrdiff_t n) {
  const std::shared_ptr<LatchBody> body = body_;
  const absl::StatusOr<int64_t> left = body->CountDown(n, {});
  if (!left.ok()) Throw(left.status());
  if (*left == 0) return;
  if (absl::Status status = body->Wait({}); !status.ok()) Throw(status);
}

absl::Status CountDownLatch::Wait(const LatchWaitOptions& options) {
  return std::shared_ptr<LatchBody>(body_)->Wait(options);
}

absl::Status CountDownLatch::CountDown(int64_t n, std::string_view id) {
  return std::shared_ptr<LatchBody>(body_)->CountDown(n, id).status();
}

absl::StatusOr<int64_t> CountDownLatch::Count() {
  return std::shared_ptr<LatchBody>(body_)->Count(base::Instant::Infinite());
}

}  // namespace redlatch
