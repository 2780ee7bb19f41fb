#ifndef REDLATCH_SRC_QUORUM_NODE_H_
#define REDLATCH_SRC_QUORUM_NODE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
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
  explicit NodeCall(redis::Command its_command) : command(std::move(its_command)) {}

  const LuaScript* script = nullptr;
  std::vector<std::string> keys;
  std::vector<std::string> args;
  std::optional<redis::Command> command;  // in place of a script
};

// One server of a quorum. No caller waits for a single node: a command is sent at once or not at
// all, and the node's own thread does what takes longer, such as connecting.
//
//   the node is    a command is    and then
//   up             sent            its reply comes, or the connection breaks
//   connecting     not sent        the caller tries again soon
//   down           refused         the thread goes on connecting while commands come
//
// A pending cleanup is sent as soon as the node is back, and with back-off if the node refuses it,
// until it expires. The thread reads the replies that no caller reads. Thread-safe.
class Node {
 public:
  using Done = redis::ServerGroup::Done;

  // `on_up` is called when the node is back, `on_subscribed` after each attempt to subscribe. Both
  // return at once.
  Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
       std::function<void()> on_subscribed);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  redis::ServerGroup& at() { return *at_; }
  const redis::ServerGroup& at() const { return *at_; }
  std::string server() const { return at_->server({}); }

  redis::Command Encode(const NodeCall& call, bool by_text);
  // Follows redirections. To be called by the node's own thread.
  absl::StatusOr<redis::Reply> Run(const NodeCall& call, base::Instant deadline);

  enum class Sent : uint8_t { kSent, kConnecting, kDown };
  // Does not call `done` unless kSent. If kConnecting, the caller is to try again soon.
  Sent TrySend(std::string_view key, const redis::Command& command, Done done);
  // Sends at once, or returns why not and does not call `done`.
  absl::Status Send(std::string_view key, const redis::Command& command, Done done);
  // Why the node is down.
  absl::Status failure() const;

  // Sends a cleanup now or later. It may be executed twice, and its reply is ignored.
  void CleanUp(NodeCall call, base::Instant expires);
  // Sends the cleanup if the command that got this reply has to be repeated: its connection broke,
  // it was never sent, or the server refused it for now. The node's own thread sends it, as the
  // caller must not use the connection.
  void CleanUpAfter(const absl::StatusOr<redis::Reply>& reply, const NodeCall& call,
                    base::Instant expires);
  // Ends the pause after a refusal.
  void CleanUpNow();
  // After Stop(): sends the cleanups that are due. Returns whether nothing is left to be sent or
  // read at a node that is there.
  bool CleanedUp();

  // Has the node's own thread do something long. Returns false if it has too much to do.
  bool Do(std::function<void()> job);

  // One attempt of the node's thread to subscribe. All calls for the same channel share the one
  // that has not begun yet.
  struct Subscription {
    explicit Subscription(std::string_view its_key) : key(its_key) {}
    const std::string key;
    absl::Status outcome;  // once it is over
    std::atomic<bool> over{false};
  };
  std::shared_ptr<const Subscription> Subscribe(std::string_view key);
  // The warnings of the server when the connection was made.
  std::vector<std::string> TakeWarnings();

  // Ends the thread; waits briefly for what it is doing.
  void Stop();
  // In a forked child, which leaves the rest of the node as it is.
  void CloseInForkedChild() { at_.reset(); }

 private:
  struct Cleanup {
    NodeCall call;
    base::Instant expires;
    int tries = 0;
    base::Instant due = {};
  };

  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Want(std::string_view key, base::Instant now, base::Instant until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work();
  void Connect();
  absl::Status TryConnect(absl::Duration& pause);
  void SubscribeNext();
  // Sends the cleanups that are due by then.
  void SendCleanups(base::Instant due);
  void SendCleanup(const std::shared_ptr<Cleanup>& cleanup);
  base::Instant CleanupDue() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(Cleanup cleanup, bool node_is_away) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadReplies();

  std::unique_ptr<redis::ServerGroup> at_;
  const std::function<void()> on_up_;
  const std::function<void()> on_subscribed_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // the thread
  bool closing_ ABSL_GUARDED_BY(mu_) = false;   // the rest, too
  bool wanted_ ABSL_GUARDED_BY(mu_) = false;    // a connection
  base::Instant wanted_until_ ABSL_GUARDED_BY(mu_);
  base::Instant connect_at_ ABSL_GUARDED_BY(mu_);
  base::Instant absent_since_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::string key_ ABSL_GUARDED_BY(mu_);  // of the latest command
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Subscription>> subscriptions_
      ABSL_GUARDED_BY(mu_);                           // to be made, by channel
  std::string last_subscribed_ ABSL_GUARDED_BY(mu_);  // of these channels
  std::deque<Cleanup> cleanups_ ABSL_GUARDED_BY(mu_);
  base::Instant read_at_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);

  std::atomic<int> in_flight_{0};   // commands
  std::atomic<bool> reads_{false};  // the thread reads replies at `read_at_`
};

using Nodes = std::vector<std::unique_ptr<Node>>;
using NodeSet = uint64_t;  // a bit for each node
inline constexpr NodeSet Only(size_t node) { return NodeSet{1} << node; }

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_NODE_H_
