// The servers that the command asks with plain commands, not as a client of their locks. A server
// may be a replica, and the user may be allowed only to read.
#ifndef REDLATCH_SRC_CLI_TERM_SERVER_H_
#define REDLATCH_SRC_CLI_TERM_SERVER_H_

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "redlatch/election.h"
#include "src/base/clock.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {

// ---- The shards of a cluster.

// A primary that serves slots, and its replicas.
struct Shard {
  redis::HostAndPort primary;
  std::vector<redis::HostAndPort> replicas;
  std::bitset<redis::kSlots> slots;

  bool Has(std::string_view key) const { return slots.test(redis::SlotOf(key)); }
};
// The shards, sorted by their primaries.
std::vector<Shard> ShardsOf(const redis::ClusterView& view);

// A name with that beginning in one of the shard's slots; nullopt if there is none, for example
// because the beginning has a hash tag of another shard.
std::optional<std::string> NameIn(const Shard& shard, std::string_view beginning);

// The cluster as one of these nodes sees it: the first node that says the cluster is well, else the
// one with the latest epoch. If none answers, the error of the last one.
absl::StatusOr<redis::ClusterView> FindCluster(const redis::Url& url,
                                               absl::Span<const redis::HostAndPort> nodes);

// A slot on the move, as one of the two nodes reports it.
struct OpenSlot {
  int slot = 0;
  bool leaving = false;  // true: the slot leaves the reporting node; false: it comes there
  std::string other;     // the id of the other node
};
// One line of CLUSTER NODES.
struct ClusterLine {
  std::string id;
  std::string address;          // as the node announces it; ":0" if it is unknown
  std::set<std::string> flags;  // "master", "fail?"
  bool serves = false;          // it serves at least one slot
  std::vector<OpenSlot> open;   // only in the line of the reporting node
};
std::vector<ClusterLine> ReadClusterNodes(const std::string& text);

// Calls work(0) to work(count - 1) on its own threads, at most `at_once` at the same time. Returns
// when all calls have returned.
void ForEach(size_t count, size_t at_once, const std::function<void(size_t i)>& work);

// ---- A server, or all primaries of a cluster.

// A command that takes little time, and what to do with its reply.
struct Question {
  std::string key;
  redis::Command command;
  std::function<void(const redis::Reply&)> take;
};

// What happens to a question if its node can't be asked but others can.
enum class Unreachable : uint8_t {
  kFails,  // the whole Ask() fails
  kIsNil,  // the reply is nil, after a short timeout
};

// One server, or a cluster, in which the library's own server group finds the node of each key.
class Server {
 public:
  // Fails as Client::Connect() does, and with kNotFound if the URL is that of an embedded server
  // which is not running: the command does not start a server that has no locks.
  static absl::StatusOr<std::unique_ptr<Server>> Open(std::string_view url);

  // Asks all questions together. The reply is nil for a key whose type has just changed and, after
  // PassOverWhatIsForbidden(), for a key that this user may not read. Any other error reply makes
  // the whole call fail.
  absl::Status Ask(absl::Span<const Question> questions,
                   Unreachable unreachable = Unreachable::kFails);

  // How many parts there are, each with its own keys: one, or the primaries of a cluster.
  size_t parts() const { return nodes_.size(); }
  // Adds primaries that serve no slots yet, if a node tells of them: a slot may be moving there.
  void FindAllParts();
  // The part that had the key when the server was opened.
  size_t PartOf(std::string_view key) const {
    return owners_.empty() ? 0 : owners_[redis::SlotOf(key)];
  }
  absl::StatusOr<redis::Reply> AskPart(size_t part, const redis::Command& command);

  bool is_cluster() const { return parsed_.kind == redis::Url::Kind::kCluster; }
  bool is_replica() const { return is_replica_; }
  void PassOverWhatIsForbidden() { passes_over_forbidden_ = true; }
  // Treats every question like Unreachable::kIsNil, but with the full timeout. missing() has the
  // reasons.
  void PassOverWhatIsUnreachable() { passes_over_unreachable_ = true; }
  // True if a node that failed with this error is passed over.
  bool PassesOver(const absl::Status& why);
  const std::vector<absl::Status>& missing() const { return missing_; }

  // The time in µs by the clock of the server that has the key.
  absl::StatusOr<int64_t> NowMicros(const std::string& key);

  const std::string& url() const { return url_; }
  // The URL, without user and password.
  const std::string& name() const { return name_; }

 private:
  struct Node {
    redis::HostAndPort where;
    redis::Url url;
    std::optional<redis::PlainConnection> connection = std::nullopt;
    absl::Status failure = absl::OkStatus();  // of the last attempt to ask it
  };
  using Replies = std::vector<absl::StatusOr<redis::Reply>>;

  Server(const redis::Url& parsed, std::string_view url);
  absl::Status Connect();
  absl::Status Learn();
  size_t NodeAt(const redis::HostAndPort& where);
  // Connects, unless there is a connection.
  absl::Status Reach(Node& node, base::Instant deadline);
  absl::Status WhyDown(std::string_view key, bool pass_over, base::Instant deadline);
  absl::StatusOr<std::vector<redis::Reply>> AskNode(Node& node,
                                                    absl::Span<const redis::Command> commands,
                                                    base::Instant deadline);
  Replies AskGroup(absl::Span<const Question> questions, bool pass_over, base::Instant deadline);
  bool IsNil(const std::string& error) const;

  static constexpr size_t kNoNode = SIZE_MAX;
  const redis::Url parsed_;
  const std::string url_;
  const std::string name_;
  const absl::Duration timeout_;
  std::deque<Node> nodes_;
  std::vector<size_t> owners_;  // of a cluster: for each slot, the index of its node in nodes_
  std::unique_ptr<redis::ServerGroup> group_;  // of a cluster
  bool is_replica_ = false;
  bool passes_over_forbidden_ = false;
  bool passes_over_unreachable_ = false;
  std::vector<absl::Status> missing_;
};

// Questions whose second word is the key.
class Questions {
 public:
  void Add(std::initializer_list<std::string_view> words,
           std::function<void(const redis::Reply&)> take) {
    all_.push_back({std::string(words.begin()[1]), redis::Command(words), std::move(take)});
  }
  absl::Status Ask(Server& server, Unreachable unreachable = Unreachable::kFails) const {
    return server.Ask(all_, unreachable);
  }

 private:
  std::vector<Question> all_;
};

// The reply as a number; 0 if it is none.
int64_t NumberIn(const redis::Reply& reply);
// The answer to TIME, in µs; 0 if it is none.
int64_t MicrosIn(const redis::Reply& time);

// The leader in the record of an election, "<grant> <epoch> <revision> <since> <value>". It counts
// only if its grant has the lock: `holder`.
std::optional<Leader> ReadLeader(const std::string& record, std::string_view holder);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SERVER_H_
