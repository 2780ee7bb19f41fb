#include "src/lock/counts.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/lock/client_core.h"

namespace redlatch::internal {
namespace {

constexpr size_t kMostCounts = 4096;
constexpr ptrdiff_t kMostOfOpenLatches = 256;
constexpr size_t kCountsAtOnce = 128;
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

auto Counts::Latest() const -> const Record* {
  const auto latest = std::find_if(counts_.rbegin(), counts_.rend(),
                                   [](const Record& record) { return !record.open; });
  return latest == counts_.rend() ? nullptr : &*latest;
}

void Counts::MarkAll(const redis::ServerGroup::Concerned& concerned) {
  for (Record& record : counts_) {
    if (concerned && !concerned(record.count.latch.keys.main())) continue;
    record.repeat = true;
    record.open = false;
  }
}

base::Instant Counts::due() const {
  const base::MutexLock lock(mu_);
  return round_.in_flight > 0 ? base::Instant::Infinite() : due_;
}

// Doubles each time it was too short, for slow links.
absl::Duration Counts::Timeout() const {
  return std::min(kCountsTimeout * (1 << std::min(silent_, 8)), core_.command_timeout());
}

// Returns the latest of those that must all be repeated, or else the latest count: if the server
// has received that one, it has all earlier ones.
ScriptBatch::Jobs Counts::TakeDue() {
  ScriptBatch::Jobs jobs;
  const base::Instant now = base::Now();
  const base::MutexLock lock(mu_);
  if (now < due_ || round_.in_flight > 0) return jobs;
  if (Latest() == nullptr) {
    due_ = base::Instant::Infinite();
    return jobs;
  }
  std::vector<Record> due;
  for (size_t i = counts_.size(); i-- > 0 && due.size() < kCountsAtOnce;) {
    if (counts_[i].repeat) due.push_back(counts_[i]);
  }
  if (due.empty()) due.push_back(*Latest());
  std::reverse(due.begin(), due.end());
  for (size_t i = 0; i < due.size(); ++i) {
    const Count& count = due[i].count;
    ScriptRequest what{
        .script = &lua::kLatchCountDown,
        .args = {count.latch.owner, count.id, absl::StrCat(count.n), absl::StrCat(count.when)}};
    jobs.push_back({.other = count.latch,
                    .request = {.what = std::move(what)},
                    .then = [this, i](const Result& result) { Answered(i, result); },
                    .until = now + Timeout()});
  }
  round_ = {.era = era_,
            .records = std::move(due),
            .results = std::vector<Result>(jobs.size()),
            .in_flight = jobs.size()};
  return jobs;
}

void Counts::Answered(size_t index, const Result& result) {
  {
    const base::MutexLock lock(mu_);
    round_.results[index] = result;
    if (round_.in_flight > 1) {
      --round_.in_flight;
      return;
    }
    EndRound();
    round_.in_flight = 0;
  }
  core_.WakeBackground();
}

void Counts::EndRound() {
  const bool silent = std::any_of(round_.results.begin(), round_.results.end(), IsSilence);
  silent_ = silent ? silent_ + 1 : 0;
  bool more_to_tell = false;
  if (!silent && round_.era == era_) {
    std::set<uint64_t> numbers;
    for (const Record& record : round_.records) numbers.insert(record.number);
    for (Record& record : counts_) {
      if (numbers.contains(record.number)) record.repeat = false;
    }
  }
  for (size_t i = 0; i < round_.records.size(); ++i) {
    more_to_tell |= TakeResult(round_.records[i].count, round_.results[i]);
  }
  due_ = base::Now() + (silent ? std::min(kBackoff, pace_) : pace_);
  if ((more_to_tell || RepeatsAll()) && !silent) due_ = base::Now();
  if (counts_.empty()) pace_ = absl::InfiniteDuration();
}

bool Counts::TakeResult(const Count& count, const Result& result) {
  if (IsSilence(result)) return false;
  const auto* const reply = std::get_if<ScriptText>(&result.what);
  const bool aborted = result.failed() != nullptr && absl::IsAborted(result.failed()->why);
  const std::string_view text = reply != nullptr ? std::string_view(reply->text) : "";
  const bool missing = text.find(" again") != std::string_view::npos;
  // This server has not received the count, and perhaps earlier ones neither.
  if (missing && !RepeatsAll()) MarkAll();
  const bool more = text.ends_with(" look 1");
  const Record* const latest = Latest();
  const bool more_to_tell =
      more && latest != nullptr && count.id == latest->count.id && !RepeatsAll();
  const bool opened = !missing && !more && text.starts_with("0 ");
  if (reply != nullptr && !opened) return more_to_tell;
  for (size_t i = counts_.size(); i-- > 0;) {
    const Count& record = counts_[i].count;
    if (record.latch.keys != count.latch.keys || record.latch.owner != count.latch.owner) continue;
    if (opened) {
      counts_[i].open = !counts_[i].repeat;
    } else if (aborted || record.id == count.id) {
      counts_.erase(counts_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  auto open = std::ranges::count(counts_, true, &Record::open);
  std::erase_if(counts_,
                [&](const Record& its) { return its.open && open-- > kMostOfOpenLatches; });
  return more_to_tell;
}

}  // namespace redlatch::internal
