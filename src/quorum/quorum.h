#ifndef REDLATCH_SRC_QUORUM_QUORUM_H_
#define REDLATCH_SRC_QUORUM_QUORUM_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/lock/request_runner.h"
#include "src/lock/script_codec.h"
#include "src/quorum/grant_table.h"
#include "src/quorum/node.h"
#include "src/quorum/node_result.h"
#include "src/quorum/round.h"
#include "src/quorum/token_clock.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::quorum {

using internal::Subject;

// Several independent servers, its nodes, that run each request by majority with the scripts of
// lua/quorum/.
//
//   request           what the nodes make of it        what follows
//   acquire           a majority grants one token      granted
//                     a majority grants, but not       `raise` at the nodes that granted; granted
//                     one token
//                     no majority grants               given back everywhere; queued, or busy
//   renew             a majority has it                held; the other nodes are healed
//   release, cancel   a majority answers               done; the other nodes are told once more
//
// No caller waits for a node once the others have decided, or for longer than half a second while
// they have answered without deciding.
class Quorum final : public internal::QuorumRunner, private redis::Subscriptions {
 public:
  static std::unique_ptr<internal::QuorumRunner> Make(Options options, Events events);
  Quorum(Options options, Events events);
  ~Quorum() override;
  // In a forked child, in place of destruction.
  static void operator delete(Quorum* quorum, std::destroying_delete_t);
  Quorum(const Quorum&) = delete;
  Quorum& operator=(const Quorum&) = delete;

  // ---- Requests. A request is sent to all nodes or to none: if memory is lacking in between, the
  // process ends.

  using QuorumRunner::Post;
  using QuorumRunner::Run;
  using QuorumRunner::RunBatch;
  Result Run(const Subject& subject, const Request& request, base::Instant deadline,
             redis::StillWanted still_wanted) noexcept override;
  void RunBatch(absl::Span<const Item> items, base::Instant deadline,
                absl::Span<Result> results) noexcept override;
  // For a release without an acquire behind it.
  absl::Status Post(const Subject& subject, const Request& release,
                    internal::PostedRequest& posted) noexcept override;
  absl::StatusOr<redis::Reply> RunScript(const Subject& subject, const LuaScript& script,
                                         absl::Span<const std::string> args,
                                         std::string_view own_key,
                                         base::Instant deadline) noexcept override;

  // ---- Connections.

  std::string server(std::string_view) const override { return options_.name; }
  redis::ServerIds ids(std::string_view) override { return {}; }
  absl::Duration grants_alone_for() const override { return absl::ZeroDuration(); }
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  absl::StatusOr<redis::Reply> RunCommand(std::string_view key, const redis::Command& command,
                                          base::Instant deadline) override;
  absl::Status Send(std::string_view key, const redis::Command& command, Done done) override;
  // Waits until the releases in flight are decided.
  bool Drain(base::Instant until) override;
  void BeginPoll(std::vector<redis::Transport::Polled>&) override {}
  redis::Subscriptions& subscriptions() override { return *this; }
  bool subscribed(std::string_view key) const override;
  absl::Status Subscribe(std::string_view key, base::Instant deadline,
                         const std::stop_token& stop) override;
  uint32_t Await(std::string_view, base::Parker& parker, base::Instant deadline) override {
    return parker.ParkUntil(deadline);
  }
  bool asks_if_subscribed(std::string_view key) const override;
  // The results of each node say that themselves.
  void NoteSubscribed(std::string_view, bool, base::Instant) override {}
  void CheckSubscription(std::string_view key, base::Instant now,
                         std::optional<base::Instant> missed_since) override;
  Realigned Realign() override;
  Stats stats() const override;
  void Stop() override;

 private:
  struct Running;
  class PostedRelease;

  size_t majority() const;
  absl::Status Problem() const;
  void OnMessage(size_t node, std::string_view message);
  // Sends the same to all nodes, and waits until a majority has answered and `enough` returns true.
  NodeCalls AskAll(std::string_view key, bool alike, std::function<NodeCall(size_t node)> call_of,
                   base::Instant deadline, absl::FunctionRef<bool(const NodeCalls&)> enough);
  internal::Failed WhyNoMajority(std::vector<NodeResult> results, bool stands) const;
  // Reads all connections until `enough` returns true. Returns false if it is `until` before.
  bool ReadAll(base::Instant until, absl::FunctionRef<bool()> enough);

  // `mode`: of an acquire, see lua/quorum/acquire.lua.
  NodeCall CallFor(Subject subject, const Request& request, int64_t proposed, size_t node,
                   std::string_view mode) const;
  void Begin(Running& one);
  NodeCall CallAt(const Running& one, size_t node) const;
  std::shared_ptr<const NodeCalls::OnReply> OnReplyTo(const Running& one) const;
  void Send(Round& round, Running& one);
  void SendRaise(Round& round, Running& one, uint64_t token);

  // Returns whether its result is known. If it takes another call at all nodes, sends that.
  bool Decided(Round& round, Running& one);
  bool AcquireDecided(Round& round, Running& one);
  bool OutOfPatience(Running& one);
  void AwaitAll(Round& round, std::deque<Running>& all, base::Instant deadline);
  void Note(const Running& one);
  Result ResultOf(Running& one);
  Result NotGranted(Running& one);
  Result Renewed(const Running& one);

  // Sent after a round.
  void GiveBack(const Running& one, bool yields);
  void Heal(const Running& one);
  void EndForced(const Subject& subject, absl::Span<const absl::StatusOr<redis::Reply>> replies);
  std::string ChannelsAt(size_t node, std::string_view key) const;

  const Options options_;
  const Events events_;
  const base::ForkGuard fork_guard_;
  bool alike_ = options_.restart_delay == absl::ZeroDuration();  // all nodes are sent the same text
  std::vector<std::string> servers_;                             // of the nodes, for messages
  std::atomic<bool> stopped_{false};
  std::atomic<bool> reconnected_{false};  // since Realign()
  const std::shared_ptr<GrantTable> grants_ = std::make_shared<GrantTable>();
  TokenClock clock_;
  std::atomic<uint64_t> late_{0};  // requests that were not decided in time
  std::atomic<size_t> posted_{0};  // releases that are not decided yet
  base::Mutex mu_;
  base::CondVar subscribed_;  // an attempt of a node to subscribe is over
  Nodes nodes_;               // their threads use all of this object
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_QUORUM_H_
