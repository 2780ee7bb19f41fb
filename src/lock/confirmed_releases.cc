#include "src/lock/confirmed_releases.h"

#include <algorithm>
#include <utility>

#include "src/lock/client_core.h"
#include "src/lock/entry.h"

namespace redlatch::internal {
namespace {

// A replica usually lags by the last millisecond.
constexpr size_t kMostReleases = 256;
constexpr int kMostTries = 3;
constexpr absl::Duration kReleasesTimeout = absl::Milliseconds(250);

}  // namespace

// A full ring reuses the memory of the oldest entry, so nothing is allocated.
void ConfirmedReleases::Add(const Entry& entry, const Request& request,
                            const ReleaseRequest& what) {
  bool late = false;
  {
    const base::MutexLock lock(mu_);
    if (next_ == latest_.size()) latest_.emplace_back();
    Record& record = latest_[next_];
    record.expires = base::Instant();  // it is not one yet: memory may be lacking
    record.lock = entry;
    record.grant = request.grant;
    record.permits = request.permits;
    record.lease = request.lease;
    record.expires = what.expires;
    late = request.sent <= connected_at_;
    if (late) RepeatSoon(record);
    next_ = (next_ + 1) % kMostReleases;
  }
  if (late) core_.WakeBackground();
}

void ConfirmedReleases::RepeatAll(const redis::ServerGroup::Concerned& concerned) {
  const base::MutexLock lock(mu_);
  connected_at_ = base::Now();
  for (const Record& record : latest_) {
    if (record.expires <= connected_at_) continue;
    if (concerned && !concerned(record.lock.keys.main())) continue;
    const bool known = std::any_of(to_repeat_.begin(), to_repeat_.end(), [&](const Record& other) {
      return other.grant == record.grant;
    });
    if (!known) RepeatSoon(record);
  }
}

void ConfirmedReleases::RepeatSoon(const Record& record) {
  to_repeat_.push_back(record);
  due_ = std::min(due_, base::Now());
}

base::Instant ConfirmedReleases::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

ScriptBatch::Jobs ConfirmedReleases::TakeDue() {
  ScriptBatch::Jobs jobs;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  if (now < due_) return jobs;
  for (const Record& record : to_repeat_) {
    if (record.expires <= now) continue;
    jobs.push_back({.other = record.lock,
                    .request = {ReleaseRequest(), record.grant, record.lease, record.permits},
                    .then = [this, record](const Result& result) { TakeResult(record, result); },
                    .until = now + kReleasesTimeout});
  }
  to_repeat_.clear();
  due_ = base::Instant::Infinite();
  return jobs;
}

void ConfirmedReleases::TakeResult(Record record, const Result& result) {
  const Failed* const failed = result.failed();
  if (failed == nullptr) return;
  // After several attempts a release has arrived, even if no reply has.
  if (failed->may_have_executed && ++record.tries >= kMostTries) return;
  if (!absl::IsUnavailable(failed->why) && !absl::IsResourceExhausted(failed->why) &&
      !failed->not_sent) {
    return;
  }
  {
    const base::MutexLock lock(mu_);
    to_repeat_.push_back(std::move(record));
    due_ = std::min(due_, base::Now() + kReleasesTimeout);
  }
  core_.WakeBackground();
}

}  // namespace redlatch::internal
