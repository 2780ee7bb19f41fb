#include "src/lock/releases.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/lock/client_core.h"
#include "src/lock/entry.h"
#include "src/lock/script_codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::internal {
namespace {

// What a replica is behind by is mostly the last millisecond.
constexpr size_t kMostReleases = 256;
constexpr int kMostTries = 3;
// The renewer has renewals to send meanwhile.
constexpr absl::Duration kReleasesTimeout = absl::Milliseconds(250);

}  // namespace

// A full ring takes the room of the oldest, text and all: nothing is allocated then.
void Releases::Add(const Entry& entry, const Request& request, const ReleaseRequest& what) {
  bool late = false;
  {
    const base::MutexLock lock(mu_);
    if (latest_.size() < kMostReleases) {
      latest_.emplace_back();
      next_ = latest_.size() - 1;
    }
    Kept& kept = latest_[next_];
    next_ = (next_ + 1) % kMostReleases;
    kept.key = entry.keys.main();
    kept.prefix_size = entry.keys.main().size() - entry.keys.name().size();
    kept.owner = entry.owner;
    kept.type = entry.type;
    kept.grant = request.grant;
    kept.lease = request.lease;
    kept.expires = what.expires;
    late = request.sent <= anew_;
    if (late) RepeatSoon(kept);
  }
  if (late) core_.WakeBackground();
}

void Releases::RepeatAll(const redis::ServerGroup::Concerned& concerned) {
  const base::MutexLock lock(mu_);
  anew_ = base::Now();
  for (const Kept& kept : latest_) {
    if (concerned && !concerned(kept.key)) continue;
    const bool known = std::any_of(to_repeat_.begin(), to_repeat_.end(),
                                   [&](const Kept& other) { return other.grant == kept.grant; });
    if (!known) RepeatSoon(kept);
  }
}

void Releases::RepeatSoon(const Kept& kept) {
  to_repeat_.push_back(kept);
  due_ = std::min(due_, base::Now());
}

base::Instant Releases::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

std::vector<Releases::Kept> Releases::TakeDue(base::Instant now) {
  const base::MutexLock lock(mu_);
  if (now < due_) return {};
  due_ = base::Instant::Infinite();
  std::vector<Kept> due = std::exchange(to_repeat_, {});
  due.erase(
      std::remove_if(due.begin(), due.end(), [&](const Kept& kept) { return kept.expires <= now; }),
      due.end());
  return due;
}

void Releases::Repeat() {
  std::vector<Kept> due = TakeDue(base::Now());
  if (due.empty()) return;
  std::vector<KeySet> keys;
  std::vector<Request> requests;
  std::vector<RequestRunner::Item> items;
  keys.reserve(due.size());  // items refer to them
  requests.reserve(due.size());
  for (const Kept& kept : due) {
    const KeySet& its = keys.emplace_back(kept.key, kept.prefix_size);
    requests.push_back({.what = ReleaseRequest(), .grant = kept.grant, .lease = kept.lease});
    items.push_back(
        {.subject = core_.SubjectOf(its, *kept.type, kept.owner), .request = requests.back()});
  }
  std::vector<Result> results(items.size());
  core_.runner().RunBatch(items, base::Now() + kReleasesTimeout, absl::MakeSpan(results));
  const base::MutexLock lock(mu_);
  for (size_t i = 0; i < due.size(); ++i) {
    const Failed* const failed = results[i].failed();
    if (failed == nullptr) continue;
    // One that was sent a few times has arrived, though the answer takes longer.
    const bool arrived = failed->may_have_executed && ++due[i].tries >= kMostTries;
    const bool may_pass = absl::IsUnavailable(failed->why) ||
                          absl::IsResourceExhausted(failed->why) || failed->not_sent;
    if (may_pass && !arrived) to_repeat_.push_back(std::move(due[i]));
  }
  if (!to_repeat_.empty()) due_ = std::min(due_, base::Now() + kReleasesTimeout);
}

}  // namespace redlatch::internal
