#include "src/cli/run/refusal.h"

#include "redlatch/status.h"
#include "src/cli/term/complain.h"
#include "src/cli/term/refusal.h"

namespace redlatch::cli {

std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

int ExplainRefusal(const absl::Status& why, const RunOptions& options, const RunAttempt& attempt) {
  if (!IsBusy(why)) return Refuse(why);
  // If it is not to count as a failure, cron is to send no mail about it either.
  if (options.busy_code == 0) return 0;
  const bool waited = options.wait > absl::ZeroDuration();
  Complain({attempt.what, waited ? " was busy for " : " is busy",
            waited ? Rounded(options.wait) : std::string(), attempt.holders.empty() ? "" : ": ",
            attempt.holders});
  return options.busy_code;
}

}  // namespace redlatch::cli
