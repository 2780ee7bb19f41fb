#include "src/cli/run_refusal.h"

#include "redlatch/status.h"
#include "src/cli/complain.h"
#include "src/cli/exit_codes.h"

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
  const std::string message(why.message());
  if (redlatch::IsUnavailable(why)) {
    Complain({message,
              "; does it run, and is it the one that you mean? --server says which, else "
              "$REDLATCH_URL"});
    return kUnreachable;
  }
  Complain({message});
  const bool wrong_usage = absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return wrong_usage ? kFailure : kRefused;
}

}  // namespace redlatch::cli
