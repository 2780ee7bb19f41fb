#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_H_

#include <string>

#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// Asks the server for all that there is to know. It writes nothing but keys and channels that begin
// with `prefix` + "redlatch-doctor:" and a random number, and deletes them. Returns by `deadline`
// where the URL's own timeouts are not longer, and not OK where the server can't be reached,
// refuses the login, or stops answering: then `facts` are not all there.
absl::Status Gather(const redis::Url& url, const std::string& url_text, const std::string& prefix,
                    base::Instant deadline, DoctorFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
