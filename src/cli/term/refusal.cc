#include "src/cli/term/refusal.h"

#include <string>

#include "absl/status/status.h"
#include "src/cli/term/complain.h"
#include "src/cli/term/exit_codes.h"

namespace redlatch::cli {

int Refuse(const absl::Status& why) {
  const std::string message(why.message());
  if (absl::IsUnavailable(why)) {
    Complain({message, message.ends_with('?') ? " " : "; ",
              "set the server with --server or $REDLATCH_URL"});
    return kUnreachable;
  }
  Complain({message});
  if (absl::IsNotFound(why)) return kNo;
  const bool wrong_usage = absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return wrong_usage ? kFailure : kRefused;
}

}  // namespace redlatch::cli
