#ifndef REDLATCH_SRC_QUORUM_ROUND_H_
#define REDLATCH_SRC_QUORUM_ROUND_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/quorum/node.h"
#include "src/quorum/node_result.h"
#include "src/redis/wire/codec.h"

namespace redlatch::quorum {

// Calls to all nodes that belong together, and their results. Used by one thread.
struct NodeCalls {
  // Called for each reply, on any thread. Returns at once.
  using OnReply =
      std::function<void(size_t node, Node& its, const absl::StatusOr<redis::Reply>& reply)>;

  std::string_view key;  // of a cluster, the call is for the server that has it
  bool alike = false;    // all nodes are sent the same text
  std::function<NodeCall(size_t node)> call_of;
  std::function<NodeResult(size_t node, const absl::StatusOr<redis::Reply>& reply)> read;
  // Null: none. Outlives the calls, as replies may come after the round.
  std::shared_ptr<const OnReply> on_reply = nullptr;

  // The round's.
  std::optional<redis::Command> text = std::nullopt;  // of all, once it is encoded
  NodeSet connecting = 0;                             // nodes that were not sent their call yet
  std::vector<NodeResult> results = {};
  std::vector<absl::StatusOr<redis::Reply>> replies = {};
};

// Sends calls to nodes, and takes in the replies until its thread has enough of them. Whichever
// thread reads a node's connection hands the replies over. Replies that come later are dropped.
class Round {
 public:
  explicit Round(Nodes& nodes);
  // Nodes that have not connected by then are not sent their calls any more.
  ~Round();
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // The calls outlive the round. `to`: the nodes that are sent theirs; the results of others are
  // kNo.
  void Put(NodeCalls& calls, NodeSet to = ~NodeSet{0});
  // Takes in replies until `enough` returns true, or the deadline.
  void Await(absl::FunctionRef<bool()> enough, base::Instant deadline);

 private:
  class Inbox;
  struct Arrival;

  void Send(size_t index, size_t node, bool by_text);
  void SendToConnecting();
  static void Set(NodeCalls& calls, size_t node, absl::StatusOr<redis::Reply> reply);
  void Take(Arrival arrival);
  void TakeError(Arrival& arrival);
  void ReadConnections(base::Instant until);

  Nodes& nodes_;
  const std::shared_ptr<Inbox> inbox_;
  std::vector<NodeCalls*> calls_;
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_ROUND_H_
