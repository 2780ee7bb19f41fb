#include "src/lock/counts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/lock/client_core.h"
#include "src/lock/script_batch.h"

namespace redlatch::internal {
namespace {

constexpr size_t kMostCounts = 4096;
constexpr size_t kCountsAtOnce = 128;
// Short, since renewals wait meanwhile.
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

// Threads may come here in another order than the server answered them, and after a new connection.
void Counts::Add(Count count, uint64_t sent_in, absl::Duration pace) {
  {
    const base::MutexLock lock(mu_);
    const auto later = [&](const Record& record) {
      return record.era != sent_in ? record.era > sent_in : record.count.when > count.when;
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
  return std::any_of(counts_.begin(), counts_.end(), [](auto& record) { return record.repeat; });
}

void Counts::MarkAll(const redis::ServerGroup::Concerned& concerned) {
  for (Record& record : counts_) {
    record.repeat = record.repeat || !concerned ||
                    concerned(absl::StrCat(core_.options().key_prefix, record.count.name));
  }
}

base::Instant Counts::due() const {
  const base::MutexLock lock(mu_);
  return due_;
}

// Returns the latest of those that must all be repeated, or else the latest count: if the server
// has received that one, it has all earlier ones.
Counts::Batch Counts::TakeDue(base::Instant now) {
  const base::MutexLock lock(mu_);
  Batch batch{.era = era_};
  if (now < due_ || counts_.empty()) return batch;
  for (size_t i = counts_.size(); i-- > 0 && batch.records.size() < kCountsAtOnce;) {
    if (counts_[i].repeat) batch.records.push_back(counts_[i]);
  }
  if (batch.records.empty()) batch.records.push_back(counts_.back());
  std::reverse(batch.records.begin(), batch.records.end());
  return batch;
}

// Doubles each time it was too short, for slow links.
absl::Duration Counts::Timeout() const {
  const base::MutexLock lock(mu_);
  return std::min(kCountsTimeout * (1 << std::min(silent_, 8)), core_.command_timeout());
}

void Counts::Repeat() {
  const Batch batch = TakeDue(base::Now());
  const std::vector<Record>& due = batch.records;
  if (due.empty()) return;
  std::vector<ScriptBatch::Bare> requests;
  std::set<uint64_t> numbers;
  for (const Record& record : due) {
    const Count& count = record.count;
    numbers.insert(record.number);
    absl::StatusOr<KeySet> keys = KeySet::Make(core_.options().key_prefix, count.name);
    if (!keys.ok()) return;  // cannot happen: the name was valid before
    ScriptRequest what{
        .script = count.script,
        .args = {count.latch, count.id, absl::StrCat(count.n), absl::StrCat(count.when)}};
    requests.push_back({.keys = *std::move(keys),
                        .type = *count.type,
                        .owner = {},
                        .request = {.what = std::move(what)}});
  }
  const std::vector<Result> results = core_.batches().RunHere(requests, base::Now() + Timeout());

  const base::MutexLock lock(mu_);
  const bool silent = std::any_of(results.begin(), results.end(), IsSilence);
  silent_ = silent ? silent_ + 1 : 0;
  more_to_tell_ = false;
  if (!silent && batch.era == era_) {
    for (Record& record : counts_) {
      if (numbers.contains(record.number)) record.repeat = false;
    }
  }
  for (size_t i = 0; i < due.size(); ++i) TakeResult(due[i].count, results[i]);
  due_ = base::Now() + (silent ? std::min(kBackoff, pace_) : pace_);
  if ((more_to_tell_ || RepeatsAll()) && !silent) due_ = base::Now();
  if (counts_.empty()) {
    due_ = base::Instant::Infinite();
    pace_ = absl::InfiniteDuration();
  }
}

void Counts::TakeResult(const Count& count, const Result& result) {
  if (IsSilence(result)) return;
  const auto* const reply = std::get_if<ScriptText>(&result.what);
  const bool aborted = result.failed() != nullptr && absl::IsAborted(result.failed()->why);
  const std::string_view text = reply != nullptr ? std::string_view(reply->text) : "";
  const bool missing = text.find(" again") != std::string_view::npos;
  // This server has not received the count, and perhaps earlier ones neither.
  if (missing && !RepeatsAll()) MarkAll();
  const bool more = text.ends_with(" look 1");
  if (more && !RepeatsAll() && !counts_.empty() && count.id == counts_.back().count.id)
    more_to_tell_ = true;
  const bool opened = !missing && !more && text.starts_with("0 ");
  if (reply != nullptr && !opened) return;
  for (size_t i = counts_.size(); i-- > 0;) {
    const Count& record = counts_[i].count;
    if (record.name != count.name || record.latch != count.latch) continue;
    if (!opened && !aborted && record.id != count.id) continue;
    counts_.erase(counts_.begin() + static_cast<ptrdiff_t>(i));
  }
}

}  // namespace redlatch::internal
