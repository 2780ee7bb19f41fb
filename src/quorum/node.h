#ifndef REDLATCH_SRC_QUORUM_NODE_H_
#define REDLATCH_SRC_QUORUM_NODE_H_

#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/base/worker.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/wire/codec.h"

namespace redlatch::quorum {

// A script call, or a command, that owns its text.
struct NodeCall {
  explicit NodeCall(const redis::ScriptCall& call)
      : script(call.script),
        keys(call.keys.begin(), call.keys.end()),
        args(call.args.begin(), call.args.end()) {}
  NodeCall(std::string_view key, redis::Command its_command)
      : keys{std::string(key)}, command(std::move(its_command)) {}
  // A call with one argument more, which other nodes do not get.
  NodeCall(std::shared_ptr<const NodeCall> its_base, std::string last)
      : script(its_base->script), args{std::move(last)}, base(std::move(its_base)) {}

  std::string_view key() const { return base != nullptr ? base->key() : keys.front(); }

  const LuaScript* script = nullptr;
  std::vector<std::string> keys;
  std::vector<std::string> args;
  std::optional<redis::Command> command;  // in place of a script
  std::shared_ptr<const NodeCall> base;   // has the keys, and the arguments before these
};
using NodeCallPtr = std::shared_ptr<const NodeCall>;

// One server of a quorum. No caller waits for a single node: a call is sent at once, and the node's
// own thread does what takes longer, such as connecting.
//
//   the node is    a call is                       and then
//   up             sent                            its result comes, or the connection breaks
//   connecting     sent as soon as the node is up
//   down           refused                         the thread goes on connecting while calls come
//
// If the node does not know the script, or is a cluster whose slots move, the thread sends the call
// once more. A pending cleanup is sent as soon as the node is back, and with back-off if the node
// refuses it, until it expires. The thread reads the replies that no caller reads. Thread-safe.
class Node {
 public:
  // `on_up` is called when the node is back, `on_subscribed` after each attempt to subscribe. Both
  // return at once.
  Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
       std::function<void()> on_subscribed);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  redis::ServerGroup& at() { return *at_; }
  const std::string& server() const { return server_; }

  // Called once for each call, on any thread. Returns at once, and waits for memory if need be.
  using Done = std::function<void(absl::StatusOr<redis::Reply> result)>;
  // False: the call need not be sent any more.
  using Wanted = std::function<bool()>;
  void Send(NodeCallPtr call, Done done, Wanted wanted = redis::AlwaysWanted);
  // Why the node is down.
  absl::Status failure() const;

  // A release or a cancel that is not confirmed yet.
  struct Cleanup {
    NodeCallPtr call;
    base::Instant expires;
    Wanted wanted = redis::AlwaysWanted;  // false: do not send it again
    int tries = 0;
    base::Instant due = {};
  };
  // Sends a cleanup now or later. It may be executed twice, and its result is ignored.
  void CleanUp(Cleanup cleanup);
  // Sends the cleanup if the call that had this result has to be repeated: its connection broke, it
  // was never sent, or the node refused it for now. The node's own thread sends it, as the caller
  // must not use the connection.
  void CleanUpAfter(const absl::Status& result, Cleanup cleanup);
  // After Stop(): sends the cleanups that are due. Returns whether nothing is left to be sent or
  // read at a node that is there.
  bool CleanedUp();

  // One attempt of the node's thread to subscribe. All calls for the same channel share the one
  // that has not begun yet.
  struct Subscription {
    const std::string key;
    const std::string channel;  // the part of its name that the key decides
    absl::Status outcome;       // once it is over
    base::Atomic<bool> over{false};
  };
  std::shared_ptr<const Subscription> Subscribe(std::string_view key);
  // The warnings of the server when the connection was made.
  std::vector<std::string> TakeWarnings();

  // Ends the thread; waits briefly for what it is doing.
  void Stop();
  // In a forked child, which leaves the rest of the node as it is.
  void CloseInForkedChild() { at_.reset(); }

 private:
  struct Call {
    NodeCallPtr call;
    Done done;
    Wanted wanted;
    bool again = false;  // it was not executed: the node did not know the script, or was not there
    redis::InFlight in_flight = {};
    absl::StatusOr<redis::Reply> reply = redis::Reply();
  };
  using CallPtr = std::unique_ptr<Call>;
  void Want(std::string_view key, base::Instant now, base::Instant until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // If memory is lacking, `call` is as before.
  void SendNow(CallPtr& call);
  void OnReply(CallPtr call);
  // Leaves a call that was not executed to the thread. False: the thread cannot take it.
  bool SendAgain(CallPtr& call);
  // Leaves the call to the thread, which sends it when the node is up. Or returns why the node is
  // down; `why`: why the call was not sent.
  absl::Status SendOnceUp(CallPtr& call, absl::Status why);
  void RunHere(CallPtr& call);
  void FailWaiting(const absl::Status& why);
  // Does one thing that is due, and returns when the next one is.
  base::Instant TakeTurn();
  void Connect();
  absl::Status TryConnect(absl::Duration& pause);
  void SubscribeNext();
  // Sends the cleanups that are due by then.
  void SendCleanups(base::Instant due);
  base::Instant CleanupDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadReplies();

  std::unique_ptr<redis::ServerGroup> at_;
  const std::string server_;
  const bool sharded_;  // a cluster, which may redirect a call
  const std::function<void()> on_up_;
  const std::function<void()> on_subscribed_;

  mutable base::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // the worker
  bool closing_ ABSL_GUARDED_BY(mu_) = false;   // the rest, too
  bool wanted_ ABSL_GUARDED_BY(mu_) = false;    // a connection
  base::Instant wanted_until_ ABSL_GUARDED_BY(mu_);
  base::Instant connect_at_ ABSL_GUARDED_BY(mu_);
  base::Instant absent_since_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::string key_ ABSL_GUARDED_BY(mu_);  // of the latest call
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::list<CallPtr> waiting_ ABSL_GUARDED_BY(mu_);  // for the thread to send
  std::deque<std::shared_ptr<Subscription>> subscriptions_ ABSL_GUARDED_BY(mu_);  // to be made
  std::list<Cleanup> cleanups_ ABSL_GUARDED_BY(mu_);
  base::Instant read_at_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mu_);

  base::Atomic<int> in_flight_{0};   // calls
  base::Atomic<bool> reads_{false};  // the thread reads replies at `read_at_`
  base::Worker worker_{"redlatch-node", [this] { return TakeTurn(); }};
};

using Nodes = std::vector<std::unique_ptr<Node>>;
using NodeSet = uint64_t;  // a bit for each node
inline constexpr NodeSet Only(size_t node) { return NodeSet{1} << node; }

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_NODE_H_
