#include "src/lock/counts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/lock/client_core.h"
#include "src/lock/request_runner.h"

namespace redlatch::internal {
namespace {

constexpr size_t kMostCounts = 4096;
constexpr size_t kCountsAtOnce = 128;
// The renewer has renewals to send meanwhile.
constexpr absl::Duration kCountsTimeout = absl::Milliseconds(250);
constexpr absl::Duration kBackoff = absl::Seconds(1);

bool IsSilence(const Result& result) {
  const Failed* const failed = result.failed();
  return failed != nullptr &&
         (absl::IsUnavailable(failed->why) || absl::IsResourceExhausted(failed->why));
}

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
    const auto later = [&](const Kept& kept) {
      return kept.era != sent_in ? kept.era > sent_in : kept.count.when > count.when;
    };
    auto place = counts_.end();
    while (place != counts_.begin() && later(*std::prev(place))) --place;
    const bool missed = sent_in != era_;
    counts_.insert(
        place,
        {.count = std::move(count), .number = ++last_number_, .era = sent_in, .repeat = missed});
    if (counts_.size() > kMostCounts) counts_.pop_front();
    pace_ = std::min(pace_, pace);
    due_ = missed ? base::Now() : std::min(due_, base::Now() + pace_);
  }
  core_.WakeBackground();
}

void Counts::RepeatAll(const redis::ServerGroup::Concerned& concerned) {
  const base::MutexLock lock(mu_);
  ++era_;
  MarkAll(concerned);
  if (!counts_.empty()) due_ = base::Now();
}

bool Counts::RepeatsAll() const {
  return std::any_of(counts_.begin(), counts_.end(), [](auto& kept) { return kept.repeat; });
}

void Counts::MarkAll(const redis::ServerGroup::Concerned& concerned) {
  for (Kept& kept : counts_) {
    kept.repeat = kept.repeat || !concerned ||
                  concerned(absl::StrCat(core_.options().key_prefix, kept.count.name));
  }
}

base::Instant Counts::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

// Some of those that are all to be repeated, the latest first; else the latest. If the server has
// received that, it has all that came before.
Counts::Batch Counts::TakeDue(base::Instant now) {
  const base::MutexLock lock(mu_);
  Batch batch{.era = era_};
  if (now < due_ || counts_.empty()) return batch;
  for (size_t i = counts_.size(); i-- > 0 && batch.kept.size() < kCountsAtOnce;) {
    if (counts_[i].repeat) batch.kept.push_back(counts_[i]);
  }
  if (batch.kept.empty()) batch.kept.push_back(counts_.back());
  std::reverse(batch.kept.begin(), batch.kept.end());
  return batch;
}

// Longer each time that it was too short, as over a long way.
absl::Duration Counts::Timeout() const {
  const base::MutexLock lock(mu_);
  return std::min(kCountsTimeout * (1 << std::min(silent_, 8)), core_.command_timeout());
}

void Counts::Repeat() {
  const Batch batch = TakeDue(base::Now());
  const std::vector<Kept>& due = batch.kept;
  if (due.empty()) return;
  std::vector<KeySet> keys;
  std::vector<Request> requests;
  std::vector<RequestRunner::Item> items;
  keys.reserve(due.size());  // items refer to them
  requests.reserve(due.size());
  std::set<uint64_t> numbers;
  for (const Kept& kept : due) {
    const Count& count = kept.count;
    numbers.insert(kept.number);
    absl::StatusOr<KeySet> set = KeySet::Make(core_.options().key_prefix, count.name);
    if (!set.ok()) return;  // it was one when it counted
    keys.push_back(*std::move(set));
    requests.push_back({.what = ScriptRequest{.script = count.script,
                                              .args = {count.latch, count.id, absl::StrCat(count.n),
                                                       absl::StrCat(count.when)}}});
    items.push_back(
        {.subject = core_.SubjectOf(keys.back(), *count.type, {}), .request = requests.back()});
  }
  std::vector<Result> results(items.size());
  core_.runner().RunBatch(items, base::Now() + Timeout(), absl::MakeSpan(results));

  const base::MutexLock lock(mu_);
  const bool silent = std::any_of(results.begin(), results.end(), IsSilence);
  silent_ = silent ? silent_ + 1 : 0;
  more_to_tell_ = false;
  if (!silent && batch.era == era_) {
    for (Kept& kept : counts_) {
      if (numbers.contains(kept.number)) kept.repeat = false;
    }
  }
  for (size_t i = 0; i < due.size(); ++i) Hear(due[i].count, results[i]);
  due_ = base::Now() + (silent ? std::min(kBackoff, pace_) : pace_);
  if ((more_to_tell_ || RepeatsAll()) && !silent) due_ = base::Now();
  if (counts_.empty()) {
    due_ = base::Instant::Infinite();
    pace_ = absl::InfiniteDuration();
  }
}

void Counts::Hear(const Count& count, const Result& result) {
  if (IsSilence(result)) return;
  const auto* const reply = std::get_if<ScriptText>(&result.what);
  const bool aborted = result.failed() != nullptr && absl::IsAborted(result.failed()->why);
  const std::string_view text = reply != nullptr ? std::string_view(reply->text) : "";
  const bool anew = text.find(" again") != std::string_view::npos;
  // This server has not received it, and perhaps not those before either.
  if (anew && !RepeatsAll()) MarkAll();
  const bool more = text.ends_with(" look 1");
  if (more && !RepeatsAll() && !counts_.empty() && count.id == counts_.back().count.id)
    more_to_tell_ = true;
  const bool opened = !anew && !more && text.starts_with("0 ");
  if (reply != nullptr && !opened) return;
  for (size_t i = counts_.size(); i-- > 0;) {
    const Count& kept = counts_[i].count;
    if (kept.name != count.name || kept.latch != count.latch) continue;
    if (!opened && !aborted && kept.id != count.id) continue;
    counts_.erase(counts_.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace redlatch::internal
