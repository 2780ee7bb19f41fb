#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_H_

#include <string>

#include "absl/status/status.h"
#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"
#include "src/cli/term/shards.h"
#include "src/redis/url/url.h"

namespace redlatch::cli {

// What is looked at.
struct Patient {
  redis::Url url;        // of one server
  std::string url_text;  // by which its locks are reached: of the whole, if it is a cluster's node
  std::string prefix;
  Place place = Place::kAlone;
  const Shard* shard = nullptr;  // whose node it is
  bool of_quorum = false;        // one of its servers
};

// Asks the server for all that there is to know. It writes nothing but keys and channels that begin
// with the prefix + "redlatch-doctor:" and a random number, and deletes them. Returns by `deadline`
// where the URL's own timeouts are not longer, and not OK where the server can't be reached,
// refuses the login, or stops answering: then `facts` are not all there.
absl::Status Gather(const Patient& patient, base::Instant deadline, DoctorFacts* facts);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
