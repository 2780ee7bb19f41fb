#ifndef REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
#define REDLATCH_SRC_CLI_DOCTOR_GATHER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "src/base/clock.h"
#include "src/cli/doctor/facts.h"
#include "src/cli/term/shards.h"
#include "src/redis/connect/plain_connection.h"
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

// Gather() at each primary and, what makes sense there, at each replica, some at a time, for
// `longest` each; and what the nodes say of each other. Not OK if no node tells who they are.
absl::Status GatherCluster(const redis::Url& url, const std::string& url_text,
                           const std::string& prefix, absl::Duration longest, ClusterFacts* facts);

// Looks at all servers of a quorum at the same time, as Gather() does at one, for `longest` at
// most. Not OK if none can be looked at, or if one of them is a cluster.
absl::Status GatherQuorum(const redis::Url& url, const std::string& url_text,
                          const std::string& prefix, absl::Duration longest, QuorumFacts* facts);

// ---- Does a message from one connection reach another?

// Fills message, and adds to probes. At a node of a cluster the channel is a sharded one. Not OK
// where the server stops answering.
absl::Status SendMessages(const redis::Url& url, const std::string& channel,
                          redis::PlainConnection& speaker, base::Instant deadline,
                          DoctorFacts* facts);

// ---- Takes and releases every kind of lock through the library, with names of its own.

// Fills library, trials and slowest_pair; the outcome of what it did not come to is kCancelled.
// `names`: one for each of kinds::kAll. What is left of the locks are their keys, each with a TTL.
// Ends soon after `deadline`.
void TryLocks(const std::string& url, const std::vector<std::string>& names, base::Instant deadline,
              DoctorFacts* facts);
// The same with the one kind that a quorum has, at one of its servers alone.
void TryQuorum(const std::string& url, const std::vector<std::string>& names,
               base::Instant deadline, DoctorFacts* facts);

// A look at the private server of an `embedded:` URL, begun before anything starts one.
class EmbeddedLook {
 public:
  explicit EmbeddedLook(const redis::Url& url);

  // Nothing for another URL.
  std::optional<EmbeddedFacts> Facts(const Told<Fields>& info) const;

 private:
  std::optional<std::string> directory_;
  bool was_there_ = false;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_DOCTOR_GATHER_H_
