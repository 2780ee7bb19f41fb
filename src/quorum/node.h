#ifndef REDLATCH_SRC_QUORUM_NODE_H_
#define REDLATCH_SRC_QUORUM_NODE_H_

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/wire/codec.h"

namespace redlatch::quorum {

// Of an answer to a command that must come to be executed: it broke off or was never sent, or the
// server refused for now, forgot the script, or does not have the key any more.
bool IsToBeRepeated(const absl::StatusOr<redis::Reply>& answer);

// One server of a quorum, which nobody ever waits for by himself: what it is asked is sent at once
// or not at all, and what takes longer, as connecting does, is done by a thread of the node's own.
//
//   the node is     a question is           and
//   up              sent                    an answer comes, or the connection breaks
//   coming          not sent                is told when it can be
//   down            refused, with why       its thread goes on trying while somebody asks
//
// What is owed to a node, so that it keeps nothing that is over, is sent as soon as it is there
// again, and with back-off if it refuses, until it would have ended by itself. Answers that nobody
// reads are read by the node's thread a little later. Thread-safe.
class Node {
 public:
  using Done = redis::ServerGroup::Done;

  // `on_up`: it was not there, and is now. `on_heard`: an attempt to listen is over. Both return at
  // once.
  Node(std::unique_ptr<redis::ServerGroup> at, std::function<void()> on_up,
       std::function<void()> on_heard);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  redis::ServerGroup& at() { return *at_; }
  const redis::ServerGroup& at() const { return *at_; }
  std::string server() const { return at_->server({}); }

  enum class Sent : uint8_t { kSent, kComing, kDown };
  // kComing: what `come` answers is called when it can be asked, or with the reason why not.
  using Come = std::function<void(const absl::Status& failure)>;
  Sent Ask(std::string_view key, const redis::Command& command, Done done,
           absl::FunctionRef<Come()> come);
  // Why it is down.
  absl::Status failure() const;

  // At once or not at all: it says why not, and `done` is not called.
  absl::Status Send(std::string_view key, const redis::Command& command, Done done);

  // A command whose answer is nobody's, and that may come late or twice.
  void Tell(std::string key, redis::Command command, base::Instant expires);
  // The same, by the node's own thread, since it was answered so: for callers that must not use
  // the connection now.
  void Owe(std::string key, absl::FunctionRef<redis::Command()> command, base::Instant expires,
           const absl::StatusOr<redis::Reply>& answer);

  // What is owed is sent without the pause that follows a refusal.
  void SettleNow();
  // After Stop(): sends what is due. False: an answer is still to come, or more is owed, and the
  // server is there.
  bool TellRest();

  // By the node's own thread: something that takes long, once. False: it has too much to do.
  bool Do(std::function<void()> job);

  // One attempt of the node's thread to hear messages about a key. All calls for the same channel
  // share the one that has not begun yet.
  struct Listening {
    explicit Listening(std::string_view its_key) : key(its_key) {}
    const std::string key;
    absl::Status outcome;  // once it is over
    std::atomic<bool> over{false};
  };
  std::shared_ptr<const Listening> Listen(std::string_view key);
  // What the server warned of when it was connected to.
  std::vector<std::string> TakeWarnings();

  // Its thread ends; a call of it that is under way is waited for, briefly.
  void Stop();
  // In a forked child, before the node is left as it is.
  void CloseInForkedChild() { at_.reset(); }

 private:
  struct Owed {
    std::string key;
    redis::Command command;
    base::Instant expires;
    int tries = 0;
    base::Instant due = {};
  };

  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Work();
  void Connect();
  void ListenToNext();
  // What is due by then.
  void Settle(base::Instant due);
  base::Instant OwedAt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Tell(const std::shared_ptr<Owed>& owed);
  void Keep(Owed owed, bool away) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Done Counted(Done done);
  // An answer is due: reads it later, if nobody else does.
  void Expect();
  void ReadUnread();

  std::unique_ptr<redis::ServerGroup> at_;
  const std::function<void()> on_up_;
  const std::function<void()> on_heard_;

  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;  // the thread
  bool closing_ ABSL_GUARDED_BY(mu_) = false;   // the rest, too
  bool wanted_ ABSL_GUARDED_BY(mu_) = false;    // a connection
  base::Instant wanted_until_ ABSL_GUARDED_BY(mu_);
  base::Instant connect_at_ ABSL_GUARDED_BY(mu_);
  base::Instant absent_since_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::string key_ ABSL_GUARDED_BY(mu_);  // of the latest question
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
  std::vector<Come> coming_ ABSL_GUARDED_BY(mu_);
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::shared_ptr<Listening>> wanted_channels_ ABSL_GUARDED_BY(mu_);
  std::string listened_to_ ABSL_GUARDED_BY(mu_);  // the last of them that had its turn
  std::deque<Owed> owed_ ABSL_GUARDED_BY(mu_);
  base::Instant read_at_ ABSL_GUARDED_BY(mu_) = base::Instant::Infinite();
  std::vector<std::string> warnings_ ABSL_GUARDED_BY(mu_);
  std::thread thread_ ABSL_GUARDED_BY(mu_);

  std::atomic<int> pending_{0};        // answers that are due
  std::atomic<bool> reads_{false};     // the thread looks for them now and then
  std::atomic<uint64_t> expected_{0};  // so far
  uint64_t expected_before_ = 0;       // at the latest look; the thread's
  int idle_reads_ = 0;                 // in a row; likewise
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_NODE_H_
