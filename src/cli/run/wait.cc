#include "src/cli/run/wait.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/look/processes.h"
#include "src/cli/run/family.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/text.h"
#include "src/lock/description.h"

namespace redlatch::cli {
namespace {

constexpr std::chrono::milliseconds kFirst(500);
constexpr std::chrono::milliseconds kEvery(1000);

// False: it was stopped.
bool Sleep(const std::stop_token& stop, std::chrono::milliseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, time, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

std::string HoldersText(const LockInfo& info) {
  if (info.holders.empty()) {
    return info.waiting == 0 ? "" : absl::StrCat(info.waiting, " in line for it");
  }
  const LockInfo::Party& first = info.holders.front();
  const auto others = std::max(info.holding, static_cast<int64_t>(info.holders.size())) - 1;
  return absl::StrCat(
      info.capacity == 0
          ? "held by "
          : absl::StrCat(info.used, " of ", Counted(info.capacity, "permit"), " taken, by "),
      InProse(first.process, first.hold), others > 0 ? absl::StrCat(" and ", others, " more") : "");
}

std::string PlaceText(const LockInfo& info, const LockInfo::Process& self) {
  const auto own = std::ranges::find_if(info.waiters, [&](const LockInfo::Party& waiter) {
    return waiter.process.pid == self.pid && waiter.process.host == self.host;
  });
  if (own == info.waiters.end()) return absl::StrCat(info.waiting, " in line");
  const auto ahead = own - info.waiters.begin();
  return ahead == 0 ? "next in line" : absl::StrCat(ahead, " ahead in line");
}

const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits) {
  const LockInfo::Party* found = nullptr;
  int64_t held = 0;
  for (const LockInfo::Party& holder : info.holders) {
    if (holder.process.pid == 0 || holder.process.host != host) continue;
    if (std::ranges::find(ancestors, holder.process.pid) == ancestors.end()) continue;
    found = &holder;
    held += holder.permits;
  }
  const bool enough_without = info.capacity > 0 && permits <= info.capacity - held;
  return enough_without ? nullptr : found;
}

WaitReport::WaitReport(const RunOptions& options, const std::string& what, Look look)
    : permits_(options.permits),
      what_(what),
      nested_(std::getenv("REDLATCH_LOCK") != nullptr),
      self_(internal::ThisProcess("")),
      line_(getpgid(getppid())) {  // the front's: the keeper has a group of its own
  if (options.wait <= absl::ZeroDuration() || (!nested_ && !line_.has_terminal())) return;
  thread_ = std::jthread(
      [this, look = std::move(look)](const std::stop_token& stop) { Run(stop, look); });
}

void WaitReport::Run(const std::stop_token& stop, const Look& look) {
  const base::Instant begun = base::Now();
  bool warned = !nested_;
  for (auto pause = kFirst; Sleep(stop, pause); pause = kEvery) {
    const absl::StatusOr<LockInfo> info = look();
    if (stop.stop_requested()) return;
    if (info.ok() && !std::exchange(warned, true)) WarnOfNesting(*info);
    if (!line_.has_terminal()) return;
    std::string text = absl::StrCat(
        "redlatch: waiting ",
        absl::FormatDuration(absl::Floor(base::Now() - begun, absl::Seconds(1))), " for ", what_);
    if (info.ok()) {
      const std::string holders = HoldersText(*info);
      absl::StrAppend(&text, holders.empty() ? "" : ", ", holders, "; ", PlaceText(*info, self_));
    }
    line_.Show(text);
  }
}

void WaitReport::WarnOfNesting(const LockInfo& info) {
  const LockInfo::Party* const above = HeldAbove(info, self_.host, Ancestors(), permits_);
  if (above == nullptr) return;
  line_.Clear();
  Complain(
      {"warning: ", what_, " is held by ", InProse(above->process, above->hold),
       absl::StrCat(", under which this command runs: it waits for itself; give the inner lock "
                    "another name, or take the lock only once")});
}

}  // namespace redlatch::cli
