// Whether what one connection publishes comes to another.
#ifndef REDLATCH_SRC_CLI_DOCTOR_MESSAGE_TRIAL_H_
#define REDLATCH_SRC_CLI_DOCTOR_MESSAGE_TRIAL_H_

#include <string>

#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// Fills message, and adds to probes. At a node of a cluster the channel is a sharded one. Not OK
// where the server stops answering.
absl::Status SendMessages(const redis::Url& url, const std::string& channel,
                          redis::PlainConnection& speaker, base::Instant deadline,
                          DoctorFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_MESSAGE_TRIAL_H_
