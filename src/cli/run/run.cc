#include "src/cli/run/run.h"

#include <cstdio>

#include "absl/strings/escaping.h"
#include "src/cli/run/front.h"
#include "src/cli/run/job.h"
#include "src/cli/run/options.h"
#include "src/cli/term/complain.h"

namespace redlatch::cli {

int Run(const std::vector<std::string>& words) {
  const absl::StatusOr<RunOptions> options = ParseRunOptions(words);
  if (!options.ok()) {
    Complain({std::string(options.status().message())});
    return kFailure;
  }
  if (options->help) {
    std::fputs(Help(kRunPage).c_str(), stdout);
    return 0;
  }
  // Before it waits for the lock: that may take long.
  const std::string command = absl::Utf8SafeCEscape(options->command[0]);
  const int found = FindCommand(options->command[0]);
  if (found == kNotFound) {
    Complain({command, ": command not found; check its spelling and $PATH"});
  } else if (found == kNotExecutable) {
    Complain({command, ": not executable; check what it is, or chmod +x it"});
  }
  return found != 0 ? found : RunFront(*options);
}

}  // namespace redlatch::cli
