// The servers that the command asks, as no client of their locks: a server may be a replica, and
// the user one that may only read.
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
#include "src/base/clock.h"
#include "src/base/majority.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/link/cluster_view.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"

namespace redlatch::cli {

// ---- Which parts a cluster has.

// A primary that serves slots, and its replicas.
struct Shard {
  redis::HostAndPort primary;
  std::vector<redis::HostAndPort> replicas;
  std::bitset<redis::kSlots> slots;

  bool Has(std::string_view key) const { return slots.test(redis::SlotOf(key)); }
};
// By their primaries.
std::vector<Shard> ShardsOf(const redis::ClusterView& view);

// A name in one of the shard's slots that begins so; nothing if none was found, as when the
// beginning has a hash tag of another shard.
std::optional<std::string> NameIn(const Shard& shard, std::string_view beginning);

// What one of these nodes says: the first that is well, else the one that is least behind. If none
// answers, the error of the last.
absl::StatusOr<redis::ClusterView> FindCluster(const redis::Url& url,
                                               absl::Span<const redis::HostAndPort> nodes);

// A slot that is on its way, as one of the two nodes says.
struct OpenSlot {
  int slot = 0;
  bool leaving = false;  // the node that says so; else it comes there
  std::string other;     // the id of the other node
};
// One node, as a node tells in CLUSTER NODES.
struct ClusterLine {
  std::string id;
  std::string address;          // that it announces; ":0" if that is not known
  std::set<std::string> flags;  // "master", "fail?"
  bool serves = false;          // any slots
  std::vector<OpenSlot> open;   // only of the node that tells
};
std::vector<ClusterLine> ReadClusterNodes(const std::string& text);

// Calls work(0) to work(count - 1), `at_once` of them at the same time, on threads of their own.
// Returns when all have.
void ForEach(size_t count, size_t at_once, const std::function<void(size_t i)>& work);

// ---- A server, or all primaries of a cluster.

// What becomes of a question whose node can't be asked, while others can.
enum class Unreachable : uint8_t {
  kFails,  // all that were asked together
  kIsNil,  // it is answered nil, and soon
};

// One server, or a cluster, that is asked by plain commands, none of which takes long. A question
// that a node does not answer, because its key is elsewhere or is moving, goes through the
// library's own server group, which finds the node that answers it.
class Server {
 public:
  // Errors as those of Client::Connect(), and kNotFound if the URL is that of an embedded server
  // which does not run: the command does not start it to ask what no client has told it.
  static absl::StatusOr<std::unique_ptr<Server>> Open(std::string_view url);

  // The replies, in order; `keys` are the commands' keys. What has become another type meanwhile
  // answers nil, as does what this user may not see after PassOverWhatIsForbidden(); any other
  // refusal is the status of them all.
  absl::StatusOr<std::vector<redis::Reply>> Ask(absl::Span<const redis::Command> commands,
                                                absl::Span<const std::string> keys,
                                                Unreachable unreachable);

  // Each has keys of its own: one, or the primaries of a cluster.
  size_t parts() const { return nodes_.size(); }
  // Adds those that serve no slots yet, if the server tells: a slot may be on its way there.
  void FindAllParts();
  // The part that has the key, as far as it is known.
  size_t PartOf(std::string_view key) const {
    return owners_.empty() ? 0 : owners_[redis::SlotOf(key)];
  }
  absl::StatusOr<redis::Reply> AskPart(size_t part, const redis::Command& command);

  bool is_cluster() const { return parsed_.kind == redis::Url::Kind::kCluster; }
  bool is_replica() const { return is_replica_; }
  void PassOverWhatIsForbidden() { passes_over_forbidden_ = true; }
  // Takes every question as Unreachable::kIsNil, with all patience, and remembers why in missing().
  void PassOverWhatIsUnreachable() { passes_over_unreachable_ = true; }
  // True if a node that failed so is passed over.
  bool PassesOver(const absl::Status& why);
  const std::vector<absl::Status>& missing() const { return missing_; }

  // What the clock says by which the key expires, in µs.
  absl::StatusOr<int64_t> NowMicros(const std::string& key);

  const std::string& url() const { return url_; }
  // The URL, without user and password.
  const std::string& name() const { return name_; }

 private:
  struct Node {
    redis::HostAndPort where;
    redis::Url url;
    std::optional<redis::PlainConnection> connection = std::nullopt;
    absl::Status failure = absl::OkStatus();  // why it could not be asked, the last time
  };
  // What one call of Ask() still has to do.
  struct Questioned {
    absl::Span<const redis::Command> commands;
    absl::Span<const std::string> keys;
    bool nil_if_unreachable;
    base::Instant deadline;
    std::vector<redis::Reply> replies;
    base::Instant nodes_share = {};  // of it, of the node whose turn it is
  };

  Server(const redis::Url& parsed, std::string_view url);
  absl::Status Connect();
  absl::Status Learn();
  size_t NodeAt(const redis::HostAndPort& where);
  absl::StatusOr<std::vector<redis::Reply>> AskNode(Node& node,
                                                    absl::Span<const redis::Command> commands,
                                                    base::Instant deadline);
  absl::Status AskTogether(size_t node, const std::vector<size_t>& questions, Questioned& asked);
  absl::Status AskGroup(size_t question, Questioned& asked);
  bool IsNil(const std::string& error) const;

  static constexpr size_t kNobody = SIZE_MAX;
  const redis::Url parsed_;
  const std::string url_;
  const std::string name_;
  const absl::Duration patience_;
  std::deque<Node> nodes_;
  std::vector<size_t> owners_;                 // of each slot, in nodes_; of a cluster
  std::unique_ptr<redis::ServerGroup> group_;  // made when it is needed
  bool is_replica_ = false;
  bool passes_over_forbidden_ = false;
  bool passes_over_unreachable_ = false;
  std::vector<absl::Status> missing_;
};

// Commands that travel together, and what is done with each one's reply.
class Questions {
 public:
  using Take = std::function<void(const redis::Reply&)>;

  // The second of the words is the key.
  void Add(std::initializer_list<std::string_view> words, Take take) {
    commands_.emplace_back(words);
    keys_.emplace_back(words.begin()[1]);
    takes_.push_back(std::move(take));
  }
  absl::Status Ask(Server& server, Unreachable unreachable = Unreachable::kFails);

 private:
  std::vector<redis::Command> commands_;
  std::vector<std::string> keys_;
  std::vector<Take> takes_;
};

// What a reply says as a number; 0 if it says none.
int64_t NumberIn(const redis::Reply& reply);

// ---- The servers of a quorum.

// Each is looked at by itself, and all at the same time: those that cannot be reached cost together
// what one costs, once.
class QuorumServers {
 public:
  // REQUIRES: `parsed`, of `url`, is a quorum's.
  QuorumServers(const redis::Url& parsed, std::string_view url);

  size_t size() const { return servers_.size(); }
  size_t majority() const { return base::Majority(size()); }
  // The URLs, without users and passwords.
  const std::string& name() const { return name_; }
  const std::string& name(size_t i) const { return servers_[i].name; }

  // Calls `look` with each that can be reached; connects first if that has not been tried. Returns
  // each one's outcome.
  std::vector<absl::Status> Look(const std::function<absl::Status(size_t i, Server& server)>& look);

  // OK if a majority of these are; else kUnavailable, or kPermissionDenied and such if that is why.
  absl::Status WhyNoMajority(const std::vector<absl::Status>& outcomes) const;

 private:
  struct One {
    std::string url;
    std::string name;
    absl::Status opened = absl::UnknownError("not tried");
    std::unique_ptr<Server> server;
  };

  const std::string name_;
  std::vector<One> servers_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_SERVER_H_
