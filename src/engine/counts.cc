#include "src/engine/counts.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/engine/core.h"
#include "src/engine/wire.h"

namespace redlatch::engine {
namespace {

constexpr size_t kMostKept = 4096;
constexpr size_t kLargestBatch = 128;
// The renewer has renewals to send meanwhile.
constexpr absl::Duration kTimeout = absl::Milliseconds(250);
constexpr absl::Duration kBackoff = absl::Seconds(1);

}  // namespace

uint64_t Counts::era() const {
  const base::MutexLock lock(mu_);
  return era_;
}

// Threads come here in another order than the server answered them, and later than a new
// connection.
void Counts::Add(Count count, uint64_t sent_in, absl::Duration pace) {
  {
    const base::MutexLock lock(mu_);
    if (counts_.size() == kMostKept) {
      counts_.pop_front();
      if (to_repeat_ > 0) --to_repeat_;
    }
    auto place = counts_.end();
    while (place != counts_.begin() && std::prev(place)->when > count.when) --place;
    if (static_cast<size_t>(place - counts_.begin()) < to_repeat_) ++to_repeat_;
    counts_.insert(place, std::move(count));
    pace_ = std::min(pace_, pace);
    const bool missed = sent_in != era_;
    if (missed) to_repeat_ = counts_.size();
    due_ = std::min(due_, missed ? base::Now() : base::Now() + pace_);
  }
  core_.WakeRenewer();
}

void Counts::RepeatAll() {
  const base::MutexLock lock(mu_);
  ++era_;
  to_repeat_ = counts_.size();
  if (to_repeat_ > 0) due_ = base::Now();
}

base::Instant Counts::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

// Some of those that are all to be repeated; else the latest. If the server has received that, it
// has all that came before.
std::vector<Counts::Count> Counts::TakeDue(base::Instant now) {
  const base::MutexLock lock(mu_);
  if (now < due_ || counts_.empty()) return {};
  if (to_repeat_ > 0) {
    const size_t first = to_repeat_ - std::min(to_repeat_, kLargestBatch);
    return {counts_.begin() + static_cast<ptrdiff_t>(first),
            counts_.begin() + static_cast<ptrdiff_t>(to_repeat_)};
  }
  return {counts_.back()};
}

// Longer each time that it was too short, as over a long way.
absl::Duration Counts::Timeout() const {
  const base::MutexLock lock(mu_);
  return std::min(kTimeout * (1 << std::min(silent_, 8)), core_.command_timeout());
}

void Counts::Repeat() {
  const std::vector<Count> due = TakeDue(base::Now());
  if (due.empty()) return;
  std::vector<KeySet> keys;
  std::vector<Request> requests;
  std::vector<redis::ScriptCall> calls;
  keys.reserve(due.size());  // requests and calls refer to them
  requests.reserve(due.size());
  for (const Count& count : due) {
    absl::StatusOr<KeySet> set = KeySet::Make(core_.options().key_prefix, count.name);
    if (!set.ok()) return;  // it was one when it counted
    keys.push_back(*std::move(set));
    const std::vector<std::string> args = {count.latch, count.id, absl::StrCat(count.n),
                                           absl::StrCat(count.when)};
    const Subject subject{.identity = core_.identity(), .keys = keys.back(), .plan = *count.plan};
    requests.emplace_back(subject, *count.script, args);
  }
  for (Request& request : requests) calls.push_back(request.call());
  std::vector<absl::StatusOr<redis::Reply>> replies(calls.size());
  core_.scripts().RunBatch(calls, base::Now() + Timeout(), absl::MakeSpan(replies));

  const base::MutexLock lock(mu_);
  const bool silent = std::any_of(replies.begin(), replies.end(), [](const auto& reply) {
    return absl::IsUnavailable(reply.status()) || absl::IsResourceExhausted(reply.status());
  });
  silent_ = silent ? silent_ + 1 : 0;
  more_to_tell_ = false;
  const bool all = to_repeat_ > 0;
  if (all && !silent) to_repeat_ -= std::min(to_repeat_, due.size());
  for (size_t i = 0; i < due.size(); ++i) Hear(due[i], replies[i]);
  due_ = base::Now() + (silent ? std::min(kBackoff, pace_) : pace_);
  if ((to_repeat_ > 0 || more_to_tell_) && !silent) due_ = base::Now();
  if (counts_.empty()) {
    due_ = base::Instant::Infinite();
    pace_ = absl::InfiniteDuration();
  }
}

void Counts::Hear(const Count& count, const absl::StatusOr<redis::Reply>& reply) {
  if (absl::IsUnavailable(reply.status()) || absl::IsResourceExhausted(reply.status())) return;
  const bool anew = reply.ok() && absl::StrContains(reply->text, " again");
  // This server has not received it, and perhaps not those before either.
  if (anew && to_repeat_ == 0) to_repeat_ = counts_.size();
  const bool more = reply.ok() && absl::EndsWith(reply->text, " look 1");
  if (more && to_repeat_ == 0 && count.id == counts_.back().id) more_to_tell_ = true;
  const bool opened = reply.ok() && !anew && !more && reply->text.starts_with("0 ");
  if (reply.ok() && !opened) return;
  for (size_t i = counts_.size(); i-- > 0;) {
    if (counts_[i].name != count.name || counts_[i].latch != count.latch) continue;
    if (!opened && !absl::IsAborted(reply.status()) && counts_[i].id != count.id) continue;
    counts_.erase(counts_.begin() + static_cast<ptrdiff_t>(i));
    if (i < to_repeat_) --to_repeat_;
  }
}

}  // namespace redlatch::engine
