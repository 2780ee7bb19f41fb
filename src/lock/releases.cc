#include "src/lock/releases.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/script_batch.h"
#include "src/lock/script_codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// A replica usually lags by the last millisecond.
constexpr size_t kMostReleases = 256;
constexpr int kMostTries = 3;
// Short, since renewals wait meanwhile.
constexpr absl::Duration kReleasesTimeout = absl::Milliseconds(250);

}  // namespace

// A full ring reuses the memory of the oldest entry, so nothing is allocated.
void Releases::Add(const Entry& entry, const Request& request, const ReleaseRequest& what) {
  bool late = false;
  {
    const base::MutexLock lock(mu_);
    if (latest_.size() < kMostReleases) {
      latest_.emplace_back();
      next_ = latest_.size() - 1;
    }
    Record& record = latest_[next_];
    next_ = (next_ + 1) % kMostReleases;
    record.key = entry.keys.main();
    record.prefix_size = entry.keys.main().size() - entry.keys.name().size();
    record.owner = entry.owner;
    record.type = entry.type;
    record.grant = request.grant;
    record.lease = request.lease;
    record.expires = what.expires;
    late = request.sent <= anew_;
    if (late) RepeatSoon(record);
  }
  if (late) core_.WakeBackground();
}

void Releases::RepeatAll(const redis::ServerGroup::Concerned& concerned) {
  const base::MutexLock lock(mu_);
  anew_ = base::Now();
  for (const Record& record : latest_) {
    if (concerned && !concerned(record.key)) continue;
    const bool known = std::any_of(to_repeat_.begin(), to_repeat_.end(), [&](const Record& other) {
      return other.grant == record.grant;
    });
    if (!known) RepeatSoon(record);
  }
}

void Releases::RepeatSoon(const Record& record) {
  to_repeat_.push_back(record);
  due_ = std::min(due_, base::Now());
}

base::Instant Releases::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

std::vector<Releases::Record> Releases::TakeDue(base::Instant now) {
  const base::MutexLock lock(mu_);
  if (now < due_) return {};
  due_ = base::Instant::Infinite();
  std::vector<Record> due = std::exchange(to_repeat_, {});
  due.erase(std::remove_if(due.begin(), due.end(),
                           [&](const Record& record) { return record.expires <= now; }),
            due.end());
  return due;
}

void Releases::Repeat() {
  std::vector<Record> due = TakeDue(base::Now());
  if (due.empty()) return;
  std::vector<ScriptBatch::Bare> requests;
  for (const Record& record : due) {
    requests.push_back(
        {.keys = KeySet(record.key, record.prefix_size),
         .type = *record.type,
         .owner = record.owner,
         .request = {.what = ReleaseRequest(), .grant = record.grant, .lease = record.lease}});
  }
  const std::vector<Result> results =
      core_.batches().RunHere(requests, base::Now() + kReleasesTimeout);
  const base::MutexLock lock(mu_);
  for (size_t i = 0; i < due.size(); ++i) {
    const Failed* const failed = results[i].failed();
    if (failed == nullptr) continue;
    // After several attempts a release has arrived, even if no reply has.
    const bool arrived = failed->may_have_executed && ++due[i].tries >= kMostTries;
    const bool may_pass = absl::IsUnavailable(failed->why) ||
                          absl::IsResourceExhausted(failed->why) || failed->not_sent;
    if (may_pass && !arrived) to_repeat_.push_back(std::move(due[i]));
  }
  if (!to_repeat_.empty()) due_ = std::min(due_, base::Now() + kReleasesTimeout);
}

}  // namespace redlatch::internal
