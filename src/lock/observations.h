#ifndef REDLATCH_SRC_LOCK_OBSERVATIONS_H_
#define REDLATCH_SRC_LOCK_OBSERVATIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "redlatch/election.h"
#include "src/base/clock.h"
#include "src/base/mutex.h"
#include "src/lock/entry.h"
#include "src/lock/event_driver.h"
#include "src/lock/script_batch.h"
#include "src/lock/state/leader_view.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::internal {

// A user's callback that observes an election. Its calls do not overlap. If several changes come
// during a call, the next call gets the last of them. Thread-safe.
class LeaderListener : public std::enable_shared_from_this<LeaderListener> {
 public:
  explicit LeaderListener(Election::LeaderCallback callback) : callback_(std::move(callback)) {}

  // `number` grows with every change. A change with an earlier number is ignored.
  void Tell(EventDriver& driver, std::optional<Leader> leader, uint64_t number);
  // Ends the calls. If the callback is running on another thread, this waits for it.
  void End();

 private:
  void Run();

  base::Mutex mu_;
  base::CondVar returned_;
  Election::LeaderCallback callback_;  // used by the thread that runs it
  std::optional<Leader> newest_ ABSL_GUARDED_BY(mu_);
  uint64_t number_ ABSL_GUARDED_BY(mu_) = 0;  // of `newest_`
  uint64_t told_ ABSL_GUARDED_BY(mu_) = 0;    // the last number that the callback was told
  // Owned by the completion that is to call Run(): the user's executor may drop it.
  std::weak_ptr<bool> queued_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread::id runs_on_ ABSL_GUARDED_BY(mu_);
};

// The elections that this client observes. For each, the client registers at the server once,
// however many callbacks observe it, and asks for the state with each heartbeat. Thread-safe.
class Observations {
 public:
  explicit Observations(ClientCore& core) : core_(core) {}
  Observations(const Observations&) = delete;
  Observations& operator=(const Observations&) = delete;

  // Subscribes, and soon registers at the server. Returns an error if this client may not
  // subscribe.
  absl::Status Add(const NamedLock& election, absl::Duration heartbeat,
                   std::shared_ptr<LeaderListener> listener);
  void Remove(const LeaderListener& listener);

  // `text` is the message after the word "leader". It is ignored unless a script has made it.
  void OnMessage(std::string_view text);
  // Asks for all elections that a new connection concerns.
  void AskAll(const redis::ServerGroup::Concerned& concerned = nullptr);

  base::Instant due() const;
  // Returns what is due, for the background to run.
  ScriptBatch::Jobs TakeDue();

 private:
  struct Watch {
    NamedLock election;
    LeaderView view;
    uint64_t changes = 0;
    std::vector<std::shared_ptr<LeaderListener>> listeners = {};
  };

  // A change, of which callbacks are told outside the mutex.
  struct Change {
    std::optional<Leader> leader;
    uint64_t number = 0;
    std::vector<std::shared_ptr<LeaderListener>> to;
  };

  // No change if nothing is known yet.
  static Change Newest(const Watch& watch);
  void Tell(const Change& change);
  // Notes that a reply says if the server sees this client subscribed.
  void TakeReply(const KeySet& keys, base::Instant sent, const Result& result);

  ClientCore& core_;
  mutable base::Mutex mu_;
  std::string secret_ ABSL_GUARDED_BY(mu_);  // made with the first observation
  std::map<std::string, Watch, std::less<>> watches_ ABSL_GUARDED_BY(mu_);  // by main key
};

// The reply of lua/election/leader.lua.
struct LeaderReply {
  absl::Duration left;  // of the leader's lease
  int64_t subscribers = 0;
  LeaderNews news;
};
// Returns nullopt if the text is something else.
std::optional<LeaderReply> ReadLeaderReply(std::string_view text);
// Returns nullopt if there is no leader.
std::optional<Leader> LeaderOf(const LeaderNews& news);

}  // namespace redlatch::internal

#endif  // REDLATCH_SRC_LOCK_OBSERVATIONS_H_
