#include "src/cli/run_refusal.h"

#include "redlatch/status.h"
#include "src/cli/complain.h"
#include "src/cli/refusal.h"

namespace redlatch::cli {

std::string Rounded(absl::Duration time) {
  return absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1)));
}

int ExplainRefusal(const absl::Status& why, const RunOptions& options, const std::string& what) {
  if (IsBusy(why)) {
    // Who wants it to be no failure wants no mail from cron either.
    if (options.busy_code == 0) return 0;
    if (options.wait == absl::ZeroDuration()) {
      Complain({what, " is busy; --wait says how long to wait for it"});
    } else {
      Complain({what, " was busy for ", Rounded(options.wait),
                "; try again later, or with a longer --wait"});
    }
    return options.busy_code;
  }
  return Refuse(why);
}

}  // namespace redlatch::cli
