#include "src/cli/refusal.h"

#include <string>

#include "redlatch/status.h"
#include "src/cli/complain.h"
#include "src/cli/exit_codes.h"

namespace redlatch::cli {

int Refuse(const absl::Status& why) {
  const std::string message(why.message());
  if (redlatch::IsUnavailable(why)) {
    Complain({message, message.ends_with('?') ? " " : "; ",
              "--server or $REDLATCH_URL names the server"});
    return kUnreachable;
  }
  Complain({message});
  if (absl::IsNotFound(why)) return kNo;
  const bool wrong_usage = absl::IsInvalidArgument(why) || absl::IsUnimplemented(why);
  return wrong_usage ? kFailure : kRefused;
}

}  // namespace redlatch::cli
