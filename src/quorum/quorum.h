#ifndef REDLATCH_SRC_QUORUM_QUORUM_H_
#define REDLATCH_SRC_QUORUM_QUORUM_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "src/base/atomic.h"
#include "src/base/clock.h"
#include "src/base/fork_guard.h"
#include "src/base/mutex.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/lock/request_runner.h"
#include "src/lock/script_codec.h"
#include "src/lock/state/request.h"
#include "src/quorum/node.h"
#include "src/quorum/node_result.h"
#include "src/redis/server_group/server_group.h"

namespace redlatch::quorum {

// The token that is proposed to all nodes, so that they all answer the same one: somewhat beyond
// what any node's clock says when the node is asked. Thread-safe.
class TokenClock {
 public:
  // Notes what the clocks of nodes said in answers that are in by now. It notes no token: a token
  // that is ahead of all clocks is followed by the next number on any node. Nor does it note a
  // clock that is a second ahead of most: the other nodes would not accept a token by it.
  void Note(std::vector<int64_t> clocks_us, bool of_majority, base::Instant now) {
    if (clocks_us.empty()) return;
    const base::MutexLock lock(mu_);
    std::sort(clocks_us.begin(), clocks_us.end());
    const int64_t predicted = latest_ + absl::ToInt64Microseconds(now - at_);
    const int64_t middle = clocks_us[(clocks_us.size() - 1) / 2];
    const int64_t farthest = (of_majority || latest_ == 0 ? middle : predicted) + kFar;
    int64_t latest = latest_ > 0 && predicted <= farthest ? predicted : 0;
    for (const int64_t clock : clocks_us) {
      if (clock <= farthest) latest = std::max(latest, clock);
    }
    if (latest == 0) return;
    latest_ = latest;
    at_ = now;
  }

  // Returns 0 if nothing is known yet.
  int64_t Propose(base::Instant now) const {
    const base::MutexLock lock(mu_);
    if (latest_ == 0) return 0;
    return latest_ + absl::ToInt64Microseconds(now - at_) + kLead;
  }

 private:
  static constexpr int64_t kFar = 1'000'000;
  // Longer than a request takes to reach a node: a node whose clock is past the proposal answers
  // another token. All clients use the same value, so that a later client proposes more.
  static constexpr int64_t kLead = 1000;

  mutable base::Mutex mu_;
  int64_t latest_ ABSL_GUARDED_BY(mu_) = 0;
  base::Instant at_ ABSL_GUARDED_BY(mu_);
};

using internal::GrantId;

// What a client remembers of each grant between the requests that concern it. Thread-safe.
//
// It also counts the votes that nodes send by message. Each contains a secret that only its node
// was told, so a message that another server's user has read proves nothing.
class GrantTable {
 public:
  struct Vote {
    uint32_t attempt = 0;  // 0: there is none
    uint64_t token = 0;    // the first one
    absl::Duration claim = absl::ZeroDuration();
    int64_t others = 0;
    int64_t clock = 0;  // the node's
  };
  struct Grant {
    // The longest for which some node may have it from now on.
    absl::Duration lease = absl::ZeroDuration();
    NodeSet uncertain = 0;    // where an acquire may still be executed, as its connection broke
    uint64_t last_token = 0;  // of a grant that a majority has given
    uint32_t attempt = 0;     // and which attempt that was
    uint32_t amount = 1;      // tokens
    int splits = 0;           // rounds in a row in which no client got a majority
    NodeSet free = 0;         // the nodes at which it may be this grant's turn
    bool stands = false;
    base::Instant confirmed = {};  // a majority has it until then
    base::Instant ends = {};       // at the latest, if all requests were executed at once
    // Its client may have the lock by messages until then, so nothing is given back.
    base::Instant granted_until = {};
    uint32_t granted_after = 0;  // the latest attempt by then
    struct Attempt {
      uint32_t number = 0;
      base::Instant sent;
    };
    std::vector<Attempt> attempts = {};  // the latest ones
    // Of each node, as far as they are known: its vote by message, and the latest attempt that was
    // given back there, whose votes do not count.
    std::vector<Vote> votes = {};
    std::vector<uint32_t> given_back = {};
  };

  void OnAcquire(GrantId id, absl::Duration lease, base::Instant now, uint32_t attempt = 1,
                 uint32_t amount = 1) {
    const base::MutexLock lock(mu_);
    Sweep(now);
    Grant& grant = grants_[id];
    grant.lease = lease;
    grant.amount = amount;
    grant.free = 0;
    grant.ends = std::max(grant.ends, now + lease);
    if (grant.attempts.size() == kMostAttempts) grant.attempts.erase(grant.attempts.begin());
    grant.attempts.push_back({.number = attempt, .sent = now});
  }

  void OnRenew(GrantId id, absl::Duration lease, base::Instant now) {
    With(id, [&](Grant& grant) { grant.ends = std::max(grant.ends, now + lease); });
  }

  // Returns false if the grant has ended.
  bool SetUncertain(GrantId id, size_t node) {
    return With(id, [&](Grant& grant) { return (grant.uncertain |= Only(node)) != 0; });
  }

  // A majority has it until then.
  void OnGranted(GrantId id, uint32_t attempt, uint64_t last_token, base::Instant until) {
    With(id, [&](Grant& grant) {
      grant.last_token = last_token;
      grant.attempt = attempt;
      grant.stands = true;
    });
    OnRenewed(id, until);
  }

  void OnRenewed(GrantId id, base::Instant until) {
    With(id, [&](Grant& grant) {
      grant.splits = 0;
      grant.confirmed = std::max(grant.confirmed, until);
    });
  }

  // What a node's vote for that attempt contains.
  uint64_t SecretOf(GrantId id, uint32_t attempt, size_t node) const {
    const uint64_t mixed = base::Numbers::SipHash(key_of_grants_, id);
    return base::Numbers::SipHash(key_, mixed ^ (uint64_t{attempt} << 8U | node));
  }

  struct Count {
    enum class Kind : uint8_t {
      kNothing,
      kSome,     // the first vote: more are needed
      kAsk,      // a majority may be free for it, or has voted for different tokens
      kGranted,  // a majority has voted for one token
    };
    Kind kind = Kind::kNothing;
    // Of kGranted, what the votes come to: the smallest attempt and the shortest claim.
    Vote vote = {};
    std::vector<int64_t> clocks = {};
  };
  // Counts a node's vote by message, whose secret is known to be right.
  Count AddVote(GrantId id, size_t node, const Vote& vote, size_t majority, base::Instant now);
  // The votes by message for that attempt, by node.
  std::vector<Vote> VotesFor(GrantId id, uint32_t attempt) {
    return With(id, [&](Grant& grant) {
      std::vector<Vote> votes = grant.votes;
      for (Vote& vote : votes) vote.attempt = vote.attempt == attempt ? attempt : 0;
      return votes;
    });
  }
  // A majority has granted it by message since that attempt was sent.
  bool GrantedByMessage(GrantId id, uint32_t attempt, base::Instant now) {
    return With(id, [&](Grant& grant) {
      return attempt <= grant.granted_after && now < grant.granted_until;
    });
  }
  // These nodes will be told to take back what that attempt was granted. Returns false if that must
  // not be, since a majority has granted it by message.
  bool GiveBack(GrantId id, uint32_t attempt, NodeSet nodes, base::Instant now);

  // Counts a split. Returns how many there were before.
  int AddSplit(GrantId id) {
    return With(id, [](Grant& grant) { return grant.splits++; });
  }

  int splits(GrantId id) {
    return With(id, [](Grant& grant) { return grant.splits; });
  }

  bool HasVotes(GrantId id) {
    return With(id, [](Grant& grant) {
      return std::any_of(grant.votes.begin(), grant.votes.end(),
                         [](const Vote& vote) { return vote.attempt > 0; });
    });
  }

  // Returns false if the grant has ended.
  bool Exists(GrantId id) {
    return With(id, [](Grant&) { return true; });
  }

  bool Stands(GrantId id) {
    return With(id, [](Grant& grant) { return grant.stands; });
  }

  // The grant is given up: no node is healed from now on.
  std::optional<Grant> End(GrantId id) {
    const base::MutexLock ending(ending_mu_);
    const base::MutexLock lock(mu_);
    const auto found = grants_.find(id);
    if (found == grants_.end()) return std::nullopt;
    Grant ended = found->second;
    // A request that is executed late has its whole lease from then on.
    ended.lease = std::max(ended.lease, ended.ends - base::Now() + absl::Milliseconds(1));
    grants_.erase(found);
    return ended;
  }

  // Calls `heal` if the grant stands. The grant does not end meanwhile. `heal` may call
  // SetUncertain(), as the replies that come in do.
  void WhileItStands(GrantId id, absl::FunctionRef<void(const Grant&)> heal) {
    const base::MutexLock ending(ending_mu_);
    Grant known = With(id, [](Grant& grant) { return grant; });
    known.lease = std::max(known.confirmed - base::Now(), absl::Milliseconds(1));
    if (known.stands) heal(known);
  }

  // It may be this grant's turn at a majority of the nodes; and that is new.
  struct Turn {
    bool at_majority = false;
    bool is_new = false;
  };
  // These nodes gave it back in a round that failed, so they are free and say so no more; or they
  // say that it may be this grant's turn.
  Turn AddFree(GrantId id, NodeSet nodes, size_t majority) {
    return With(id, [&](Grant& grant) { return AddFree(grant, nodes, majority); });
  }

 private:
  // The votes for the token of that one, as one vote; nothing if they are no majority, or if their
  // claim is too short by now.
  static std::optional<Vote> Granted(const Grant& grant, const Vote& vote, size_t majority,
                                     base::Instant now, base::Instant& until);
  static Turn AddFree(Grant& grant, NodeSet nodes, size_t majority) {
    const auto is_enough = [&] { return std::popcount(grant.free) >= static_cast<int>(majority); };
    const bool was_enough = is_enough();
    grant.free |= nodes;
    return {.at_majority = is_enough(), .is_new = is_enough() && !was_enough};
  }

  static constexpr size_t kMostAttempts = 4;  // that a vote may name
  // Waiters repeat their request more often, and so does a client that renews.
  static constexpr absl::Duration kForgetAfter = absl::Minutes(1);

  // Calls `change` with the grant if it is known. Returns what it returns, or a value of that type.
  template <class Change>
  std::invoke_result_t<Change, Grant&> With(GrantId id, Change change) {
    const base::MutexLock lock(mu_);
    const auto found = grants_.find(id);
    using Value = std::invoke_result_t<Change, Grant&>;
    return found == grants_.end() ? Value() : change(found->second);
  }

  // Forgets grants that were never ended, as their leases were over.
  void Sweep(base::Instant now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (grants_.size() < sweep_at_) return;
    std::erase_if(grants_, [&](const auto& each) { return each.second.ends + kForgetAfter < now; });
    sweep_at_ = std::max<size_t>(1024, 2 * grants_.size());
  }

  const base::Numbers::Key key_of_grants_{base::RandomBits(), base::RandomBits()};
  const base::Numbers::Key key_{base::RandomBits(), base::RandomBits()};
  base::Mutex ending_mu_ ABSL_ACQUIRED_BEFORE(mu_);
  base::Mutex mu_;
  std::unordered_map<GrantId, Grant> grants_ ABSL_GUARDED_BY(mu_);
  size_t sweep_at_ ABSL_GUARDED_BY(mu_) = 1024;
};

using internal::Subject;

// Several independent servers, its nodes, that run each request by majority with the scripts of
// lua/quorum/.
//
//   request           what the nodes make of it        what follows
//   acquire           a majority grants one token,     granted
//                     by its replies or, while it
//                     waits, by messages
//                     a majority grants, but not       `raise` at the nodes that granted; granted
//                     one token
//                     no majority grants               given back everywhere; queued, or busy
//   renew             a majority has it                held; the other nodes are healed
//   release, cancel   a majority answers               done; the other nodes are told once more
//
// No caller waits for a node once the others have decided, or for longer than half a second while
// they have answered without deciding.
class Quorum final : public internal::QuorumRunner {
 public:
  static std::unique_ptr<internal::QuorumRunner> Make(Options options, Events events);
  Quorum(Options options, Events events);
  ~Quorum() override;
  // In a forked child, in place of destruction.
  static void operator delete(Quorum* quorum, std::destroying_delete_t);
  Quorum(const Quorum&) = delete;
  Quorum& operator=(const Quorum&) = delete;

  // ---- Requests. One that lacks memory on its way to the nodes fails, and may have been executed.

  using QuorumRunner::Post;
  using QuorumRunner::Run;
  using QuorumRunner::RunBatch;
  Result Run(const Subject& subject, const Request& request, base::Instant deadline,
             redis::StillWanted still_wanted) noexcept override;
  void RunBatch(absl::Span<const Item> items, base::Instant deadline,
                absl::Span<Result> results) noexcept override;
  // For a release without an acquire behind it.
  absl::Status Post(const Subject& subject, const Request& release,
                    internal::RequestInFlight& posted) noexcept override;
  absl::StatusOr<redis::Reply> RunScript(const Subject& subject, const LuaScript& script,
                                         absl::Span<const std::string> args,
                                         std::string_view own_key,
                                         base::Instant deadline) noexcept override;

  absl::StatusOr<base::Acks> RunConfirmed(absl::Span<const Item>, const base::AcksWanted&,
                                          absl::Duration, base::Instant,
                                          absl::Span<Result>) override {
    return absl::UnimplementedError("the servers of a quorum have no replicas to confirm anything");
  }

  // ---- Connections.

  redis::ServerFacts facts(std::string_view) const override;
  absl::Status Connect(base::Instant deadline, std::vector<std::string>& warnings) override;
  void Run(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
           absl::Span<absl::StatusOr<redis::Reply>> results,
           redis::StillWanted still_wanted) override;
  absl::Status Post(const redis::ScriptCall& call, redis::InFlight& in_flight) override;
  // Waits until the releases in flight are decided.
  bool Drain(base::Instant until) override;
  void AppendConnections(std::vector<std::shared_ptr<redis::Connection>>& connections) override {
    for (const auto& node : nodes_) node->at().AppendConnections(connections);
  }
  redis::Subscription subscription(std::string_view key) const override;
  absl::Status Subscribe(std::string_view key, base::Instant deadline) override;
  uint32_t Await(std::string_view key, base::Parker& parker, base::Instant deadline) override;
  Reconnected TakeReconnected() override;
  void Stop() override;

 private:
  struct Calls;
  class Round;
  struct Running;
  class ReleaseInFlight;
  using CallOf = absl::FunctionRef<NodeCallPtr(size_t node)>;
  // Called for each result, on any thread. Returns at once. Null: there is nothing to do.
  using OnResult = std::shared_ptr<const std::function<void(
      size_t node, Node& its, const NodeCall& call, const absl::Status& result)>>;

  size_t majority() const;
  absl::Status Problem() const;
  absl::StatusOr<redis::Reply> RunCommand(const redis::ScriptCall& call, base::Instant deadline);
  void OnMessage(size_t node, std::string_view message);
  void OnVote(size_t node, std::string_view vote);
  // Sends calls to all nodes, and waits until a majority has answered and `enough` returns true.
  Calls AskAll(CallOf call_of, base::Instant deadline,
               absl::FunctionRef<bool(const Calls&)> enough);
  internal::Failed WhyNoMajority(std::vector<NodeResult> results, bool stands) const;
  // Reads all connections until `enough` returns true. Returns false if it is `until` before.
  bool ReadAll(base::Instant until, absl::FunctionRef<bool()> enough);

  // `mode`: of an acquire, see lua/quorum/acquire.lua.
  std::shared_ptr<NodeCall> BaseFor(Subject subject, const Request& request, size_t node) const;
  std::string LastWord(const Request& request, std::string_view key, int64_t proposed, size_t node,
                       std::string_view mode) const;
  void Begin(Running& one);
  NodeCallPtr CallAt(Running& one, size_t node) const;
  OnResult OnResultOf(const Running& one) const;
  void Send(Round& round, Running& one);
  void SendRaise(Round& round, Running& one, uint64_t token);

  // Returns whether its result is known. If it takes another call at all nodes, sends that.
  bool Decided(Round& round, Running& one);
  void TakeVotes(Running& one);
  bool AcquireDecided(Round& round, Running& one);
  bool TakesTooLong(Running& one);
  void RunAll(absl::Span<const Item> items, base::Instant deadline, absl::Span<Result> results);
  void AwaitAll(Round& round, std::deque<Running>& all, base::Instant deadline);
  void Note(const Running& one);
  Result ResultOf(Running& one);
  Result NotGranted(Running& one);
  Result GrantedByMessage(const Running& one);
  Result Renewed(const Running& one);

  // Sent after a round.
  bool MayGiveBack(const Running& one);
  void GiveBack(Running& one, bool yields);
  void Heal(const Running& one);
  void EndForced(const Subject& subject, absl::Span<const absl::StatusOr<redis::Reply>> replies);
  std::string ChannelsAt(size_t node, std::string_view key) const;

  const Options options_;
  const Events events_;
  const base::ForkGuard fork_guard_;
  bool alike_ = options_.restart_delay == absl::ZeroDuration();  // all nodes are sent the same text
  std::vector<std::string> servers_;                             // of the nodes, for messages
  base::Atomic<bool> stopped_{false};
  base::Atomic<bool> reconnected_{false};  // since TakeReconnected()
  const std::shared_ptr<GrantTable> grants_ = std::make_shared<GrantTable>();
  TokenClock clock_;
  base::Atomic<uint64_t> late_{0};  // requests that were not decided in time
  base::Atomic<size_t> posted_{0};  // releases that are not decided yet
  base::Mutex mu_;
  base::CondVar subscribed_;  // an attempt of a node to subscribe is over
  Nodes nodes_;               // their threads use all of this object
};

}  // namespace redlatch::quorum

#endif  // REDLATCH_SRC_QUORUM_QUORUM_H_
