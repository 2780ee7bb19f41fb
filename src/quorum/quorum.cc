#include "src/quorum/quorum.h"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lua/scripts.h"
#include "src/base/majority.h"
#include "src/base/parker.h"
#include "src/base/random.h"
#include "src/base/status.h"
#include "src/base/words.h"
#include "src/lock/state/timing.h"
#include "src/redis/link/connection.h"
#include "src/redis/link/script_runner.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

using internal::AcquireRequest;
using internal::CancelRequest;
using internal::ReleaseRequest;
using internal::RenewRequest;

// How long the destructor waits for the last replies.
constexpr absl::Duration kLastReplies = absl::Milliseconds(100);
// How long a round that failed waits for the other nodes: what they granted is given back.
constexpr absl::Duration kLinger = absl::Milliseconds(2);
// How long `inspect` and its kind wait for most nodes to agree.
constexpr absl::Duration kAgreeFor = absl::Milliseconds(50);
constexpr absl::Duration kShortestSplit = absl::Milliseconds(2);
constexpr int kMostDoublings = 6;
// A round in which a majority has answered, but not granted, waits for the others for this many
// times what that majority took, but at least kShortestTimeout, and twice as long after each round
// that failed in this way.
constexpr int kTimeoutFactor = 4;
constexpr absl::Duration kShortestTimeout = absl::Milliseconds(2);
constexpr int kMostTimeoutDoublings = 10;
constexpr absl::Duration kLongestTimeout = absl::Milliseconds(500);
// For a renewal, which is repeated: others wait behind it.
constexpr absl::Duration kRenewalTimeout = absl::Milliseconds(50);
// Among the rounds in a row that failed so, one in this many lets others go first.
constexpr int kYieldsEach = 4;
// How often to look at a node that is being connected to, or whose connection another thread reads:
// that thread may leave before this round's replies have come.
constexpr absl::Duration kTurn = absl::Milliseconds(1);

constexpr size_t kKeysOfCancel = 6;
constexpr std::string_view kTake = "take";  // the usual mode of an acquire

absl::Duration LeaseOf(const Subject& subject, const AcquireRequest& acquire) {
  return acquire.is_brief() ? std::min(acquire.terms.lease, subject.claim) : acquire.terms.lease;
}

// Nodes vote by message only for a request that may wait, and that a claim is enough for.
bool WantsVotes(const AcquireRequest& acquire) {
  return acquire.wait && !acquire.terms.manual && !acquire.terms.whole;
}

// Gives a grant up. With a `lease`, the node also refuses it from then on if it comes late.
Request CancelOf(GrantId grant, absl::Duration lease) {
  return {.what = CancelRequest{.tombstone = lease > absl::ZeroDuration()},
          .grant = grant,
          .lease = lease};
}

std::shared_ptr<NodeCall> EncodedCall(const Subject& subject, const Request& request) {
  return std::make_shared<NodeCall>(internal::EncodedRequest(subject, request).call());
}

// Cancels a grant at a node to which that acquire may still be on its way.
NodeCallPtr RefusalOf(const NodeCall& acquire, absl::Duration lease) {
  const auto refusal =
      std::make_shared<NodeCall>(acquire.base != nullptr ? *acquire.base : acquire);
  refusal->script = &lua::kQuorumCancel;
  refusal->keys.resize(kKeysOfCancel);  // without the node's run
  refusal->args = {refusal->args.front(), absl::StrCat(absl::ToInt64Milliseconds(lease)), "1"};
  return refusal;
}

// Raises the fence of a node to the last token of a grant that stands there. With a `lease`, also
// heals a node that has lost the grant.
NodeCallPtr RaiseCall(const Subject& subject, GrantId grant, uint64_t last_token,
                      absl::Duration lease, uint32_t attempt) {
  const std::shared_ptr<NodeCall> call =
      EncodedCall(subject, CancelOf(grant, absl::ZeroDuration()));
  call->script = &lua::kQuorumRaise;
  call->args = {call->args.front(), absl::StrCat(last_token),
                absl::StrCat(absl::ToInt64Milliseconds(lease)), absl::StrCat(attempt)};
  return call;
}

// Handles what comes from these nodes, until the parker is set or until then.
void AwaitNodes(const Nodes& nodes, NodeSet which, base::Parker& parker, base::Instant until) {
  std::vector<std::shared_ptr<redis::Connection>> connections;
  for (size_t node = 0; node < nodes.size(); ++node) {
    if ((which & Only(node)) != 0) nodes[node]->at().AppendConnections(connections);
  }
  redis::Connection::AwaitAny(connections, parker, until);
}

// Reads the reply to a release, or to the cancel that a node was sent in its place.
NodeResult ReadEnding(bool cancelled, const absl::StatusOr<redis::Reply>& reply) {
  static const Request kRelease{.what = ReleaseRequest()};
  static const Request kCancel{.what = CancelRequest()};
  return ReadNodeResult(cancelled ? kCancel : kRelease, reply);
}

// As in a waiter's record: 16 digits.
std::string SecretText(uint64_t secret) {
  return absl::StrCat(absl::Hex(secret, absl::kZeroPad16));
}

// Reads a grant as the server knows it. Returns false if it is a foreign one's.
bool ReadGrant(std::string_view text, internal::Identity& identity, GrantId& grant) {
  const size_t colon = text.find(':');
  if (colon != 32) return false;
  const std::string_view client = text.substr(0, colon);
  identity.client = client;
  return client.find_first_not_of("0123456789abcdef") == client.npos &&
         base::ReadNumber(text.substr(colon + 1), grant);
}

}  // namespace

// ---- Votes by message.

std::optional<GrantTable::Vote> GrantTable::Granted(const Grant& grant, const Vote& vote,
                                                    size_t majority, base::Instant now,
                                                    base::Instant& until) {
  Vote all = vote;
  size_t same = 0;
  for (const Vote& each : grant.votes) {
    if (each.attempt == 0 || each.token != vote.token) continue;
    ++same;
    all.attempt = std::min(all.attempt, each.attempt);
    all.claim = std::min(all.claim, each.claim);
    all.others = std::max(all.others, each.others);
  }
  if (same < majority) return std::nullopt;
  // No node granted it before the attempt was sent that its vote names.
  for (const Grant::Attempt& each : grant.attempts) {
    if (each.number == all.attempt) until = internal::LocalDeadline(each.sent, all.claim);
  }
  if (until < now + internal::Scaled(all.claim, 1, 4)) return std::nullopt;
  return all;
}

auto GrantTable::AddVote(GrantId id, size_t node, const Vote& vote, size_t majority,
                         base::Instant now) -> Count {
  return With(id, [&](Grant& grant) -> Count {
    if (now < grant.granted_until) return {};
    if (grant.votes.size() <= node) grant.votes.resize(node + 1);
    const uint32_t given_back = node < grant.given_back.size() ? grant.given_back[node] : 0;
    // Only the first message for an attempt: others may know its secret by then.
    Vote& its = grant.votes[node];
    const bool counts = std::max(given_back, its.attempt) < vote.attempt;
    if (counts) its = vote;
    base::Instant until;
    const std::optional<Vote> all =
        counts ? Granted(grant, vote, majority, now, until) : std::nullopt;
    if (all) {
      Count count{.kind = Count::Kind::kGranted, .vote = *all};
      for (const Vote& each : grant.votes) {
        if (each.attempt > 0) count.clocks.push_back(each.clock);
      }
      grant.granted_until = until;
      grant.granted_after = grant.attempts.back().number;
      grant.stands = true;
      grant.last_token = all->token + grant.amount - 1;
      // What was given back may arrive after the node is healed.
      grant.attempt = grant.attempts.back().number + 1;
      return count;
    }
    if (AddFree(grant, Only(node), majority).is_new) return {.kind = Count::Kind::kAsk};
    const auto votes = std::count_if(grant.votes.begin(), grant.votes.end(),
                                     [](const Vote& each) { return each.attempt > 0; });
    return {.kind = votes > 1 ? Count::Kind::kNothing : Count::Kind::kSome};
  });
}

bool GrantTable::GiveBack(GrantId id, uint32_t attempt, NodeSet nodes, base::Instant now) {
  const base::MutexLock lock(mu_);
  const auto found = grants_.find(id);
  if (found == grants_.end()) return true;
  Grant& grant = found->second;
  if (now < grant.granted_until) return false;
  for (size_t node = 0; nodes >> node != 0; ++node) {
    if ((nodes & Only(node)) == 0) continue;
    if (grant.given_back.size() <= node) grant.given_back.resize(node + 1);
    grant.given_back[node] = attempt;
    if (node < grant.votes.size()) grant.votes[node] = {};
  }
  return true;
}

// ---- Rounds.

// Calls to all nodes that belong together, and their results. Used by one thread.
struct Quorum::Calls {
  std::function<NodeResult(size_t node, const absl::StatusOr<redis::Reply>& reply)> read;
  OnResult on_result = nullptr;

  // Filled by the round.
  std::vector<NodeResult> results = {};
  std::vector<absl::StatusOr<redis::Reply>> replies = {};
};

// Sends calls to nodes, and takes in the replies until its thread has enough of them. Whichever
// thread reads a node's connection hands the replies over. Replies that come later are dropped, and
// calls that were not sent by then never are.
class Quorum::Round {
 public:
  explicit Round(Nodes& nodes) : nodes_(nodes), inbox_(std::make_shared<Inbox>()) {}
  ~Round() { inbox_->Close(); }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // The calls outlive the round. `to`: the nodes that are sent theirs; the results of others are
  // kNo.
  void Put(Calls& calls, CallOf call_of, NodeSet to = ~NodeSet{0}) {
    calls_.push_back(&calls);
    calls.results.resize(nodes_.size());
    calls.replies.resize(nodes_.size());
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if ((to & Only(node)) == 0) {
        calls.results[node].kind = NodeResult::Kind::kNo;
        continue;
      }
      Node& its = *nodes_[node];
      NodeCallPtr call = call_of(node);
      its.Send(
          call,
          [inbox = inbox_, index = calls_.size() - 1, node, &its, call,
           on_result = calls.on_result](absl::StatusOr<redis::Reply> reply) {
            if (on_result != nullptr) {
              base::WithMemory([&] { (*on_result)(node, its, *call, reply.status()); });
            }
            Arrival arrival{.index = index, .node = node, .reply = std::move(reply)};
            base::WithMemory([&] { inbox->Add(arrival); });
          },
          [inbox = inbox_] { return !inbox->closed(); });
    }
  }

  // Takes in replies until `enough` returns true, or the deadline.
  void Await(absl::FunctionRef<bool()> enough, base::Instant deadline) {
    for (;;) {
      for (Arrival& each : inbox_->Take()) {
        Calls& calls = *calls_[each.index];
        calls.replies[each.node] = std::move(each.reply);
        calls.results[each.node] = calls.read(each.node, calls.replies[each.node]);
      }
      if (enough() || deadline <= base::Now()) return;
      if (inbox_->ArmIfEmpty()) AwaitNodes(nodes_, Awaited(), inbox_->parker(), deadline);
    }
  }

 private:
  struct Arrival {
    size_t index = 0;  // of the calls
    size_t node = 0;
    absl::StatusOr<redis::Reply> reply;
  };

  // Where replies arrive, from any thread, until the round's own takes them.
  class Inbox {
   public:
    void Add(Arrival& arrival) {
      const base::MutexLock lock(mu_);
      if (closed_) return;
      arrivals_.push_back(std::move(arrival));
      parker_.Set(kArrived);
    }
    void Close() {
      const base::MutexLock lock(mu_);
      closed_ = true;
    }
    bool closed() const {
      const base::MutexLock lock(mu_);
      return closed_;
    }
    // Returns false if there is an arrival. Otherwise the next one will set the parker.
    bool ArmIfEmpty() {
      const base::MutexLock lock(mu_);
      if (arrivals_.empty()) parker_.Arm();
      return arrivals_.empty();
    }
    std::vector<Arrival> Take() {
      const base::MutexLock lock(mu_);
      return std::exchange(arrivals_, {});
    }
    base::Parker& parker() { return parker_; }

   private:
    static constexpr uint32_t kArrived = 1;

    base::Parker parker_;
    mutable base::Mutex mu_;
    bool closed_ ABSL_GUARDED_BY(mu_) = false;
    std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mu_);
  };

  NodeSet Awaited() const {
    NodeSet awaited = 0;
    for (const Calls* const each : calls_) {
      for (size_t node = 0; node < nodes_.size(); ++node) {
        if (each->results[node].kind == NodeResult::Kind::kInFlight) awaited |= Only(node);
      }
    }
    return awaited;
  }

  Nodes& nodes_;
  const std::shared_ptr<Inbox> inbox_;
  std::vector<Calls*> calls_;
};

// ---- Connections.

std::unique_ptr<internal::QuorumRunner> Quorum::Make(Options options, Events events) {
  return std::make_unique<Quorum>(std::move(options), std::move(events));
}

Quorum::Quorum(Options options, Events events)
    : options_(std::move(options)), events_(std::move(events)) {
  for (size_t node = 0; node < options_.servers; ++node) {
    // Grants must stand at a node that is back, and waiters must wait there.
    const auto on_up = [this] {
      if (!stopped_) events_.on_reconnected();
    };
    Events its{.on_message = [this, node](std::string_view text) { OnMessage(node, text); },
               .on_reconnected =
                   [this, on_up] {
                     reconnected_ = true;
                     on_up();
                   }};
    nodes_.push_back(std::make_unique<Node>(options_.make(node, std::move(its)), on_up, [this] {
      const base::MutexLock lock(mu_);
      subscribed_.SignalAll();
    }));
    servers_.push_back(nodes_.back()->server());
    alike_ = alike_ && nodes_.back()->at().slot_tag("a").empty();
  }
}

// Releases wait for a majority only. The other nodes have a moment to answer here, as nothing will
// be repeated any more.
Quorum::~Quorum() {
  Stop();
  ReadAll(base::Now() + kLastReplies, [this] {
    bool all = true;
    for (const auto& node : nodes_) all = node->CleanedUp() && all;
    return all;
  });
}

void Quorum::operator delete(Quorum* quorum, std::destroying_delete_t) {
  if (quorum->fork_guard_.InForkedChild()) {
    for (const auto& node : quorum->nodes_) node->CloseInForkedChild();
    return;
  }
  quorum->~Quorum();
  ::operator delete(quorum);
}

void Quorum::Stop() {
  stopped_ = true;
  for (const auto& node : nodes_) node->at().Stop();
  for (const auto& node : nodes_) node->Stop();
}

size_t Quorum::majority() const { return base::Majority(nodes_.size()); }

absl::Status Quorum::Problem() const {
  if (fork_guard_.InForkedChild()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the connections to ", options_.name,
                     " belong to the process that forked this one; connect again after fork()"));
  }
  return options_.problem.empty() ? absl::OkStatus() : absl::InvalidArgumentError(options_.problem);
}

// "look <grant> <name>" says that it may be the grant's turn at one node. The client is told when a
// majority has said so.
void Quorum::OnMessage(size_t node, std::string_view message) {
  if (stopped_ || message.starts_with("grant ")) return;
  std::string_view rest = message;
  const std::string_view word = base::TakeWord(rest);
  if (word == "vote") return OnVote(node, rest);
  if (word == "look") {
    internal::Identity client;
    GrantId grant = 0;
    if (!ReadGrant(base::TakeWord(rest), client, grant) ||
        !grants_->AddFree(grant, Only(node), majority()).is_new) {
      return;
    }
  }
  events_.on_message(message);
}

// "vote <grant> <attempt> <token> <claim in ms> <others> <clock> <secret> <name>" is a node's vote.
// The client gets one message when a majority has voted for one token, or when it is to ask.
void Quorum::OnVote(size_t node, std::string_view text) {
  using Kind = GrantTable::Count::Kind;
  internal::Identity client;
  GrantId grant = 0;
  GrantTable::Vote vote;
  int64_t claim_ms = 0;
  if (!ReadGrant(base::TakeWord(text), client, grant) || !base::TakeNumber(text, vote.attempt) ||
      !base::TakeNumber(text, vote.token) || !base::TakeNumber(text, claim_ms) ||
      !base::TakeNumber(text, vote.others) || !base::TakeNumber(text, vote.clock) ||
      vote.attempt == 0 ||
      base::TakeWord(text) != SecretText(grants_->SecretOf(grant, vote.attempt, node))) {
    return;
  }
  vote.claim = absl::Milliseconds(claim_ms);
  const base::Instant now = base::Now();
  GrantTable::Count count = grants_->AddVote(grant, node, vote, majority(), now);
  if (count.kind == Kind::kNothing) return;
  std::string message = absl::StrCat(count.kind == Kind::kGranted ? "grant "
                                     : count.kind == Kind::kAsk   ? "look "
                                                                  : "vote ",
                                     client.client, ":", grant, " ");
  if (count.kind == Kind::kGranted) {
    absl::StrAppend(&message, count.vote.attempt, " ", count.vote.token, " ",
                    absl::ToInt64Milliseconds(count.vote.claim), " ", count.vote.others, " ");
    clock_.Note(std::move(count.clocks), /*of_majority=*/true, now);
  }
  absl::StrAppend(&message, std::string(text));
  events_.on_message(message);
}

absl::Status Quorum::Connect(base::Instant deadline, std::vector<std::string>& warnings) {
  const absl::StatusOr<redis::Reply> pong = Call({}, redis::Command({"PING"}), deadline);
  for (const auto& node : nodes_) {
    for (std::string& warning : node->TakeWarnings()) warnings.push_back(std::move(warning));
  }
  return pong.status();
}

Quorum::Calls Quorum::AskAll(CallOf call_of, base::Instant deadline,
                             absl::FunctionRef<bool(const Calls&)> enough) {
  Calls calls{.read = [](size_t, const auto& reply) { return ReadAny(reply); }};
  Round round(nodes_);
  round.Put(calls, call_of);
  const auto decided = [&] {
    return CountInFlight(calls.results) == 0 ||
           (CountAnswered(calls.results) >= majority() && enough(calls));
  };
  round.Await(decided, deadline);
  if (!decided()) ++late_;
  return calls;
}

void Quorum::Run(absl::Span<const redis::ScriptCall> calls, base::Instant deadline,
                 absl::Span<absl::StatusOr<redis::Reply>> results, redis::StillWanted) {
  for (size_t i = 0; i < calls.size(); ++i) results[i] = RunCommand(calls[i], deadline);
}

// Returns what the first node says, once a majority has answered.
absl::StatusOr<redis::Reply> Quorum::RunCommand(const redis::ScriptCall& call,
                                                base::Instant deadline) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  NodeCallPtr same = std::make_shared<const NodeCall>(call.key(), *call.command);
  Calls calls = AskAll([&](size_t) -> NodeCallPtr { return same; }, deadline,
                       [](const Calls&) { return true; });
  if (CountAnswered(calls.results) < majority()) {
    return WhyNoMajority(calls.results, /*stands=*/false).why;
  }
  for (absl::StatusOr<redis::Reply>& reply : calls.replies) {
    if (reply.ok() && reply->type != redis::Reply::Type::kNil) return std::move(reply);
  }
  return redis::Reply();
}

// Sends a command to all nodes. Its results are not waited for.
absl::Status Quorum::Post(const redis::ScriptCall& call, redis::InFlight& in_flight) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  absl::Status sent = absl::UnavailableError(absl::StrCat(options_.name, " is not connected"));
  for (const auto& node : nodes_) {
    if (node->at().Send(call.key(), *call.command).ok()) sent = absl::OkStatus();
  }
  if (sent.ok()) std::exchange(in_flight.done, nullptr)();
  return sent;
}

bool Quorum::Drain(base::Instant until) {
  return ReadAll(until, [this] { return posted_ == 0; });
}

// Reads all at the same time, so that a node that hangs does not delay what the others say.
bool Quorum::ReadAll(base::Instant until, absl::FunctionRef<bool()> enough) {
  for (;;) {
    const base::Instant now = base::Now();
    // A later time than at once gives up connections that stall.
    const base::Instant at_most = std::min(now, until);
    for (const auto& node : nodes_) node->at().Drain(at_most);
    if (const bool all = enough(); all || until <= now) return all;
    base::WithMemory([&] {
      base::Parker parker;
      AwaitNodes(nodes_, ~NodeSet{0}, parker, std::min(until, now + kTurn));
    });
  }
}

redis::Subscription Quorum::subscription(std::string_view key) const {
  size_t acknowledged = 0;
  for (const auto& node : nodes_) {
    const redis::Subscription its = node->at().subscription(key);
    acknowledged += its.acknowledged ? 1 : 0;
  }
  const bool enough = acknowledged >= majority();
  return {.acknowledged = enough, .live = enough};
}

absl::Status Quorum::Subscribe(std::string_view key, base::Instant deadline) {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  std::vector<std::shared_ptr<const Node::Subscription>> subscriptions;
  for (const auto& node : nodes_) subscriptions.push_back(node->Subscribe(key));
  absl::Status why;
  const auto all_over = [&] {
    bool all = true;
    for (const auto& each : subscriptions) {
      all = all && each->over;
      const bool failed = each->over && !each->outcome.ok();
      if (failed && (why.ok() || absl::IsUnavailable(why))) why = base::Unshared(each->outcome);
    }
    return all;
  };
  const auto subscribed = [&] { return subscription(key).acknowledged; };
  const base::MutexLock lock(mu_);
  while (!subscribed() && !all_over() && base::Now() < deadline) {
    subscribed_.WaitUntil(mu_, deadline);
  }
  if (subscribed()) return absl::OkStatus();
  if (!why.ok()) return why;
  return absl::UnavailableError(
      absl::StrCat("messages of too few of ", options_.name, " arrive (still trying)"));
}

uint32_t Quorum::Await(std::string_view, base::Parker& parker, base::Instant deadline) {
  base::WithMemory([&] { AwaitNodes(nodes_, ~NodeSet{0}, parker, deadline); });
  return parker.value();
}

redis::ServerGroup::Reconnected Quorum::TakeReconnected() {
  return {.reconnected = reconnected_.exchange(false)};
}

redis::ServerFacts Quorum::facts(std::string_view) const {
  redis::ServerFacts all{.name = options_.name, .connections = {.late = late_}};
  for (const auto& node : nodes_) {
    const redis::Connection::Stats its = node->at().facts({}).connections;
    all.connections.connects += its.connects;
    all.connections.breaks += its.breaks;
  }
  return all;
}

// ---- The commands that a request becomes at the nodes.

// A request that all nodes run. What it refers to outlives it.
struct Quorum::Running {
  explicit Running(const Item& item)
      : subject(item.subject), request(item.request), until(item.until) {}

  template <class What>
  bool Is() const {
    return std::holds_alternative<What>(request.what);
  }
  std::string_view key() const { return subject.keys.main(); }
  GrantId grant() const { return request.grant; }
  // Nodes where the grant may still come to be are told to refuse it.
  bool CancelledAt(size_t node) const { return ending && (ending->uncertain & Only(node)) != 0; }
  base::Instant ends() const { return sent + lease; }

  const Subject subject;
  const Request& request;
  const base::Instant until;
  // Null: it is another request.
  const AcquireRequest* const acquire = std::get_if<AcquireRequest>(&request.what);
  absl::Duration lease;                     // of an acquire or a renewal
  int64_t proposed = 0;                     // the token, of an acquire
  std::optional<GrantTable::Grant> ending;  // that this request, or its failure, ends
  base::Instant sent;
  NodeCallPtr same;  // what all nodes are sent, except for the last argument
  Calls calls;
  std::optional<Calls> raise;
  base::Instant ends_at = base::Instant::Infinite();  // of an acquire or a renewal: ends then
  uint64_t token = 0;                                 // that is granted
  bool granted = false;
  bool by_message = false;
  bool decided = false;
};

// Records the request before it is sent.
void Quorum::Begin(Running& one) {
  one.sent = base::Now();
  one.proposed = clock_.Propose(one.sent);
  if (one.acquire != nullptr) {
    one.lease = LeaseOf(one.subject, *one.acquire);
    grants_->OnAcquire(one.grant(), one.lease, one.sent, one.acquire->attempt, one.acquire->amount);
  } else if (one.Is<RenewRequest>()) {
    one.lease = one.request.lease;
    grants_->OnRenew(one.grant(), one.lease, one.sent);
  } else {
    if (const AcquireRequest* const next = one.request.acquire()) {
      grants_->OnAcquire(next->grant, LeaseOf(one.subject, *next), one.sent, next->attempt,
                         next->amount);
    }
    one.ending = grants_->End(one.grant());
  }
}

// The call without what its last argument says. If there is a restart delay, the scripts that vote
// or renew get one key more.
std::shared_ptr<NodeCall> Quorum::BaseFor(Subject subject, const Request& request,
                                          size_t node) const {
  redis::ServerGroup& at = nodes_[node]->at();
  subject.server_group = &at;
  std::shared_ptr<NodeCall> call = EncodedCall(subject, request);
  const bool delays = options_.restart_delay > absl::ZeroDuration() &&
                      !std::holds_alternative<CancelRequest>(request.what);
  if (delays) call->keys.push_back(internal::QuorumKey(at.slot_tag(subject.keys.main())));
  return call;
}

// What the scripts of lua/quorum/ are told beside the contract: see lua/quorum/common/proposal.lua.
// Empty: nothing.
std::string Quorum::LastWord(const Request& request, std::string_view key, int64_t proposed,
                             size_t node, std::string_view mode) const {
  std::string delay;
  if (options_.restart_delay > absl::ZeroDuration()) {
    delay = absl::StrCat(absl::ToInt64Milliseconds(options_.restart_delay), " ",
                         nodes_[node]->at().facts(key).run_id);
  }
  if (std::holds_alternative<RenewRequest>(request.what)) return delay;
  if (std::holds_alternative<CancelRequest>(request.what)) return "";
  std::string words = absl::StrCat(proposed);
  const AcquireRequest* const acquire = request.acquire();
  if (mode == kTake && acquire != nullptr && WantsVotes(*acquire)) {
    const uint64_t secret = grants_->SecretOf(acquire->grant, acquire->attempt, node);
    absl::StrAppend(&words, " ", SecretText(secret));
  }
  if (!delay.empty() || mode != kTake) words.append(" ").append(mode);
  if (!delay.empty()) words.append(" ").append(delay);
  return words;
}

NodeCallPtr Quorum::CallAt(Running& one, size_t node) const {
  if (one.CancelledAt(node)) {
    return EncodedCall(one.subject, CancelOf(one.grant(), one.ending->lease));
  }
  if (one.same == nullptr || !alike_) one.same = BaseFor(one.subject, one.request, node);
  std::string last = LastWord(one.request, one.key(), one.proposed, node, kTake);
  if (last.empty()) return one.same;
  return std::make_shared<const NodeCall>(one.same, std::move(last));
}

Quorum::OnResult Quorum::OnResultOf(const Running& one) const {
  using Function = OnResult::element_type;
  if (one.acquire != nullptr) {
    return std::make_shared<Function>([grants = grants_, grant = one.grant(), lease = one.lease](
                                          size_t node, Node& its, const NodeCall& call,
                                          const absl::Status& result) {
      if (!redis::MayHaveExecuted(result) || grants->SetUncertain(grant, node)) return;
      // The grant was given up before this was known.
      its.CleanUpAfter(result, {.call = RefusalOf(call, lease), .expires = base::Now() + lease});
    });
  }
  if (!one.ending) return nullptr;
  // The caller may have left when the result comes, and the request with it.
  const NodeCallPtr cancel = EncodedCall(one.subject, CancelOf(one.grant(), one.ending->lease));
  return std::make_shared<Function>(
      [cancel, expires = one.sent + one.ending->lease](size_t, Node& its, const NodeCall&,
                                                       const absl::Status& result) {
        its.CleanUpAfter(result, {.call = cancel, .expires = expires});
      });
}

void Quorum::Send(Round& round, Running& one) {
  one.calls = {.read =
                   [&one](size_t node, const auto& reply) {
                     return one.CancelledAt(node) ? ReadEnding(/*cancelled=*/true, reply)
                                                  : ReadNodeResult(one.request, reply);
                   },
               .on_result = OnResultOf(one)};
  round.Put(one.calls, [&](size_t node) { return CallAt(one, node); });
}

// Raises the token where the grant stands, or may stand by the time the node is asked.
void Quorum::SendRaise(Round& round, Running& one, uint64_t token) {
  NodeSet to = 0;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const NodeResult::Kind kind = one.calls.results[node].kind;
    if (kind == NodeResult::Kind::kYes || kind == NodeResult::Kind::kInFlight) to |= Only(node);
  }
  one.ends_at = base::Instant::Infinite();
  one.token = token;
  NodeCallPtr raise =
      RaiseCall(one.subject, one.grant(), one.token + one.acquire->amount - 1, absl::ZeroDuration(),
                /*attempt=*/0);
  one.raise = Calls{.read = [](size_t, const auto& reply) { return ReadRaised(reply); }};
  round.Put(
      *one.raise, [&](size_t) { return raise; }, to);
}

// ---- Decisions.

// Returns whether a majority has answered, and the others had time to decide it. What was granted
// is then given back, as others may be waiting for it.
bool Quorum::TakesTooLong(Running& one) {
  if (CountAnswered(one.calls.results) < majority()) return false;
  const base::Instant now = base::Now();
  if (one.ends_at == base::Instant::Infinite()) {
    absl::Duration least = one.acquire == nullptr ? kRenewalTimeout : kShortestTimeout;
    // A majority that is asked to raise has answered just before.
    if (one.raise) least = kLongestTimeout;
    const absl::Duration timeout = std::max(least, kTimeoutFactor * (now - one.sent));
    const int splits = std::min(grants_->splits(one.grant()), kMostTimeoutDoublings);
    one.ends_at = now + std::max(timeout, std::min(kLongestTimeout, timeout * (1 << splits)));
  }
  return one.ends_at <= now;
}

// A node that queued this attempt may have voted for it by message since.
void Quorum::TakeVotes(Running& one) {
  const std::vector<GrantTable::Vote> votes = grants_->VotesFor(one.grant(), one.acquire->attempt);
  for (size_t node = 0; node < votes.size(); ++node) {
    NodeResult& result = one.calls.results[node];
    if (votes[node].attempt == 0 || result.kind != NodeResult::Kind::kQueued) continue;
    result.kind = NodeResult::Kind::kYes;
    result.result = {
        .what = internal::AcquireResult(internal::AcquireGranted{.token = votes[node].token,
                                                                 .lease = votes[node].claim,
                                                                 .others = votes[node].others,
                                                                 .clock = votes[node].clock,
                                                                 .claimed = true})};
  }
}

bool Quorum::AcquireDecided(Round& round, Running& one) {
  using Kind = Decision::Kind;
  if (grants_->GrantedByMessage(one.grant(), one.acquire->attempt, base::Now())) {
    one.granted = one.by_message = true;
    return true;
  }
  if (WantsVotes(*one.acquire)) TakeVotes(one);
  const Decision decision = DecideAcquire(one.raise ? one.raise->results : one.calls.results);
  if (decision.kind == Kind::kOpen) return TakesTooLong(one);
  if (decision.kind == Kind::kRaise) {
    SendRaise(round, one, decision.token);
    return false;
  }
  one.granted = decision.kind == Kind::kYes;
  if (!one.raise) one.token = decision.token;
  return true;
}

bool Quorum::Decided(Round& round, Running& one) {
  if (one.decided) return true;
  const std::vector<NodeResult>& results = one.calls.results;
  if (one.acquire != nullptr) {
    one.decided = AcquireDecided(round, one);
  } else if (one.Is<RenewRequest>()) {
    one.decided = DecideHeld(results).kind != Decision::Kind::kOpen || TakesTooLong(one);
  } else {
    one.decided = CountAnswered(results) >= majority() || CountInFlight(results) == 0;
  }
  return one.decided;
}

void Quorum::AwaitAll(Round& round, std::deque<Running>& all, base::Instant deadline) {
  // Returns when the first request ends that is not decided; nothing if all are decided. Requests
  // whose own time is over are not waited for.
  const auto first_end = [&] {
    std::optional<base::Instant> first;
    const base::Instant now = base::Now();
    for (Running& one : all) {
      if (one.until <= now || Decided(round, one)) continue;
      first = std::min({first.value_or(deadline), one.ends_at, one.until});
    }
    return first;
  };
  for (auto until = first_end(); until && base::Now() < deadline; until = first_end()) {
    round.Await([&] { return first_end() != until; }, *until);
  }
}

Result Quorum::Run(const Subject& subject, const Request& request, base::Instant deadline,
                   redis::StillWanted) noexcept {
  const Item item{.subject = subject, .request = request};
  Result result;
  RunAll(absl::MakeConstSpan(&item, 1), deadline, absl::MakeSpan(&result, 1));
  return result;
}

void Quorum::RunBatch(absl::Span<const Item> items, base::Instant deadline,
                      absl::Span<Result> results) noexcept {
  RunAll(items, deadline, results);
}

void Quorum::RunAll(absl::Span<const Item> items, base::Instant deadline,
                    absl::Span<Result> results) try {
  if (const absl::Status problem = Problem(); !problem.ok()) {
    return std::fill(results.begin(), results.end(),
                     Result{.what = internal::Failed{.why = problem}});
  }
  std::deque<Running> all;
  Round round(nodes_);
  for (const Item& item : items) {
    Begin(all.emplace_back(item));
    Send(round, all.back());
  }
  AwaitAll(round, all, deadline);
  for (const Running& one : all) late_ += one.decided ? 0 : 1;
  // After a round that failed, a moment shows which nodes have granted.
  const auto settled = [&] {
    return std::all_of(all.begin(), all.end(), [](const Running& one) {
      return one.acquire == nullptr || one.granted || CountInFlight(one.calls.results) == 0;
    });
  };
  round.Await(settled, std::min(deadline, base::Now() + kLinger));
  for (size_t i = 0; i < all.size(); ++i) {
    Note(all[i]);
    results[i] = ResultOf(all[i]);
  }
} catch (const std::bad_alloc&) {  // some nodes may have been asked
  std::fill(results.begin(), results.end(), internal::NoMemoryLeft());
}

// Takes in what the nodes told of their clocks.
void Quorum::Note(const Running& one) {
  std::vector<int64_t> clocks;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const NodeResult& result = one.calls.results[node];
    if (result.granted() != nullptr && result.granted()->clock > 0) {
      clocks.push_back(result.granted()->clock);
    }
  }
  const bool of_majority = clocks.size() >= majority();
  clock_.Note(std::move(clocks), of_majority, base::Now());
}

// A node that is still being connected to says why it is not there.
internal::Failed Quorum::WhyNoMajority(std::vector<NodeResult> results, bool stands) const {
  for (size_t node = 0; node < results.size(); ++node) {
    if (results[node].kind != NodeResult::Kind::kInFlight) continue;
    results[node].result.what = internal::Failed{.why = nodes_[node]->failure()};
  }
  return NoMajority(results, servers_, stands);
}

Result Quorum::ResultOf(Running& one) {
  const std::vector<NodeResult>& results = one.calls.results;
  if (one.acquire != nullptr) {
    if (one.by_message) return GrantedByMessage(one);
    if (!one.granted) return NotGranted(one);
    grants_->OnGranted(one.grant(), one.acquire->attempt, one.token + one.acquire->amount - 1,
                       one.ends());
    return GrantedResult(results, one.token);
  }
  if (one.Is<RenewRequest>()) return Renewed(one);
  if (CountAnswered(results) < majority()) return {.what = WhyNoMajority(results, /*stands=*/true)};
  return one.Is<CancelRequest>() ? CancelledResult(results) : ReleasedResult(results);
}

Result Quorum::Renewed(const Running& one) {
  const Decision::Kind decision = DecideHeld(one.calls.results).kind;
  if (decision == Decision::Kind::kNo) return {.what = internal::NotHeld()};
  if (decision == Decision::Kind::kYes) {
    Heal(one);
    return {.what = internal::StillHeld()};
  }
  grants_->AddSplit(one.grant());  // the next renewal has more time
  return {.what = WhyNoMajority(one.calls.results, /*stands=*/true)};
}

// A majority has granted it by message meanwhile, and the client is told so. This result changes
// nothing.
Result Quorum::GrantedByMessage(const Running& one) {
  internal::AcquireGranted granted{.token = one.token, .others = 1, .claimed = true};
  return {.what = internal::AcquireResult(granted)};
}

Result Quorum::NotGranted(Running& one) {
  const std::vector<NodeResult>& results = one.calls.results;
  // Its release may have been forced since a majority granted it by message.
  const size_t gone = Count(results, NodeResult::Kind::kGone);
  if (gone < majority() && !MayGiveBack(one)) return GrantedByMessage(one);
  NodeSet given_back = 0;
  NodeSet unknown = 0;
  for (size_t node = 0; node < results.size(); ++node) {
    if (results[node].kind == NodeResult::Kind::kYes) given_back |= Only(node);
    if (results[node].uncertain()) unknown |= Only(node);
  }
  if (CountAnswered(results) < majority()) {
    GiveBack(one, /*yields=*/true);
    return {.what = WhyNoMajority(results, /*stands=*/false)};
  }
  const int splits = given_back != 0 ? grants_->AddSplit(one.grant()) : 0;
  absl::Duration wait = WaitForMajority(results);
  // If a majority is free, or will be, several clients were after it at the same time. The nodes
  // that did not answer may be free, too: they do not say so when they give it back.
  const NodeSet free = given_back != 0 ? given_back | unknown : 0;
  const bool all_free = grants_->AddFree(one.grant(), free, majority()).at_majority;
  // Several clients may have got a minority each, and only they know that.
  if (all_free || (given_back != 0 && splits < kMostDoublings)) wait = absl::ZeroDuration();
  wait += base::Jittered(kShortestSplit * (1 << std::min(splits, kMostDoublings)));
  if (grants_->HasVotes(one.grant())) wait = std::min(wait, internal::kVotesCome);
  GiveBack(one, (splits + 1) % kYieldsEach == 0);
  return NotGrantedResult(results, *one.acquire, wait);
}

// ---- After a round: no node keeps a grant that is over, or lacks one that stands.

// Votes by message of the nodes that GiveBack() tells do not count from then on.
bool Quorum::MayGiveBack(const Running& one) {
  NodeSet nodes = 0;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    const NodeResult& result = one.calls.results[node];
    if (result.kind == NodeResult::Kind::kYes || result.uncertain()) nodes |= Only(node);
  }
  return grants_->GiveBack(one.grant(), one.acquire->attempt, nodes, base::Now());
}

// A round that has failed leaves nothing behind: each node that granted, or may have, is told to
// take that back and to keep the place in the queue. If two clients each have some of the nodes,
// the one that came first gets the other's; but now and then it lets the other go first, as it may
// never get them.
void Quorum::GiveBack(Running& one, bool yields) {
  using Kind = NodeResult::Kind;
  const std::vector<NodeResult>& results = one.calls.results;
  const bool gone = Count(results, Kind::kGone) > 0;
  // The grant is over if it was given up, as the client then asks for another, or if this was a
  // try. Requests of earlier rounds may still be executed where their connections broke.
  if (gone || (!one.acquire->wait && CountAnswered(results) >= majority())) {
    one.ending = grants_->End(one.grant());
  }
  Request queue = one.request;
  queue.acquire()->ticket = EarliestTicket(results, one.acquire->ticket);
  const absl::Duration lease = one.ending ? one.ending->lease : one.lease;
  const base::Instant expires = base::Now() + lease;
  for (size_t node = 0; node < results.size(); ++node) {
    const bool uncertain = results[node].uncertain() || one.CancelledAt(node);
    const bool queued = gone && results[node].kind == Kind::kQueued;
    if (results[node].kind != Kind::kYes && !uncertain && !queued) continue;
    std::shared_ptr<NodeCall> call;
    Node::Wanted wanted = redis::AlwaysWanted;
    if (one.acquire->wait && grants_->Exists(one.grant())) {
      // A grant that has ended meanwhile is in no queue, and must not return to one.
      wanted = [grants = grants_, id = one.grant()] { return grants->Exists(id); };
      call = BaseFor(one.subject, queue, node);
      call->args.push_back(
          LastWord(queue, one.key(), one.proposed, node, yields ? "yield" : "queue"));
    } else {
      const absl::Duration tombstone = uncertain ? lease : absl::ZeroDuration();
      call = EncodedCall(one.subject, CancelOf(one.grant(), tombstone));
      call->args.push_back(absl::StrCat(one.acquire->attempt));
    }
    nodes_[node]->CleanUp(
        {.call = std::move(call), .expires = expires, .wanted = std::move(wanted)});
  }
}

// Gives a grant that a majority has to the nodes that lack it, so that it outlives the loss of
// others. Nodes that have not answered get it too, as their replies are not waited for.
void Quorum::Heal(const Running& one) {
  using Kind = NodeResult::Kind;
  grants_->OnRenewed(one.grant(), one.ends());
  grants_->WhileItStands(one.grant(), [&](const GrantTable::Grant& grant) {
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const Kind kind = one.calls.results[node].kind;
      if (kind != Kind::kNo && kind != Kind::kInFlight) continue;
      nodes_[node]->Send(
          RaiseCall(one.subject, one.grant(), grant.last_token, grant.lease, grant.attempt),
          [grants = grants_, id = one.grant(), node](const absl::StatusOr<redis::Reply>& result) {
            if (redis::MayHaveExecuted(result.status())) grants->SetUncertain(id, node);
          },
          [grants = grants_, id = one.grant()] { return grants->Stands(id); });
    }
  });
}

// ---- Scripts of `inspect`, `break` and `capacity`.

absl::StatusOr<redis::Reply> Quorum::RunScript(const Subject& subject, const LuaScript& script,
                                               absl::Span<const std::string> args,
                                               std::string_view own_key,
                                               base::Instant deadline) noexcept try {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  const std::string_view key = subject.keys.main();
  const bool forces = script.sha1 == lua::kQuorumForceRelease.sha1;
  const internal::ScriptRequest what{&script, {args.begin(), args.end()}, own_key};
  const auto same =
      std::make_shared<NodeCall>(internal::EncodedRequest(subject, {.what = what}).call());
  const base::Instant agree_by = base::Now() + kAgreeFor;
  const Calls calls = AskAll(
      [&](size_t node) -> NodeCallPtr {
        if (!forces) return same;
        auto call = std::make_shared<NodeCall>(*same);
        call->args.front() = ChannelsAt(node, key);
        return call;
      },
      deadline,
      [&](const Calls& its) { return forces || Agree(its.replies) || agree_by < base::Now(); });
  if (forces) EndForced(subject, calls.replies);
  if (CountAnswered(calls.results) < majority()) {
    return WhyNoMajority(calls.results, /*stands=*/false).why;
  }
  return ReplyForPeople(calls.replies);
} catch (const std::bad_alloc&) {
  return base::NoMemory();
}

// The common beginning of all clients' channels at the node.
std::string Quorum::ChannelsAt(size_t node, std::string_view key) const {
  return std::string(internal::kChannelPrefix) + nodes_[node]->at().slot_tag(key);
}

// Ends a grant at the nodes at which it has not come to be yet, is not known to have ended, or may
// be healed, for as long as its client may believe that it has it.
void Quorum::EndForced(const Subject& subject,
                       absl::Span<const absl::StatusOr<redis::Reply>> replies) {
  std::map<std::string, int64_t> ended;
  for (const auto& reply : replies) {
    // 'released', look_ms, grant, left_ms
    if (!reply.ok() || reply->elements.size() < 4) continue;
    int64_t& left_ms = ended[reply->elements[2].text];
    left_ms = std::max(left_ms, reply->elements[3].integer);
  }
  for (const auto& [text, left_ms] : ended) {
    internal::Identity identity;
    GrantId grant = 0;
    if (!ReadGrant(text, identity, grant)) continue;
    const absl::Duration left = absl::Milliseconds(std::max<int64_t>(left_ms, 1));
    const Subject its{
        .identity = identity, .keys = subject.keys, .type = subject.type, .owner = identity.client};
    for (size_t node = 0; node < nodes_.size(); ++node) {
      const std::shared_ptr<NodeCall> cancel = EncodedCall(its, CancelOf(grant, left));
      cancel->args.emplace_back();  // no attempt
      cancel->args.push_back(ChannelsAt(node, subject.keys.main()));
      nodes_[node]->CleanUp({.call = cancel, .expires = base::Now() + left});
    }
  }
}

// ---- Releases in flight: sent to all nodes at once, and their results counted as they come.

// A release in flight. It lives until the last node has answered, or cannot any more.
class Quorum::ReleaseInFlight {
 public:
  ReleaseInFlight(Quorum& quorum, internal::RequestInFlight& posted)
      : quorum_(quorum), results_(quorum.nodes_.size()), posted_(&posted) {}

  // On any thread; also while the nodes are being destroyed.
  void OnResult(size_t node, NodeResult result) {
    if (result.kind == NodeResult::Kind::kFailed) {  // it may end on another thread
      auto& failed = std::get<internal::Failed>(result.result.what);
      failed.why = base::Unshared(failed.why);
    }
    internal::RequestInFlight* posted = nullptr;
    {
      const base::MutexLock lock(mu_);
      results_[node] = std::move(result);
      const bool majority = CountAnswered(results_) >= base::Majority(results_.size());
      if (posted_ == nullptr || (!majority && CountInFlight(results_) > 0)) return;
      posted_->result = majority ? ReleasedResult(results_)
                                 : Result{.what = NoMajority(results_, quorum_.servers_,
                                                             /*stands=*/true)};
      posted = std::exchange(posted_, nullptr);
    }
    std::exchange(posted->in_flight.done, nullptr)();  // which may end it
    --quorum_.posted_;
  }

 private:
  Quorum& quorum_;  // but not its nodes, which may be going
  base::Mutex mu_;
  std::vector<NodeResult> results_ ABSL_GUARDED_BY(mu_);
  internal::RequestInFlight* posted_ ABSL_GUARDED_BY(mu_);  // null: it has its result
};

absl::Status Quorum::Post(const Subject& subject, const Request& release,
                          internal::RequestInFlight& posted) noexcept {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  auto made = base::WithMemory(
      [&] { return std::make_unique<Running>(Item{.subject = subject, .request = release}); });
  Running& one = *made;
  base::WithMemory([&] { Begin(one); });
  const auto in_flight =
      base::WithMemory([&] { return std::make_shared<ReleaseInFlight>(*this, posted); });
  const OnResult on_result = base::WithMemory([&] { return OnResultOf(one); });
  ++posted_;
  // An acquire that follows goes to the first node first. If that gets the release last, it is sent
  // both at once.
  for (size_t node = nodes_.size(); node-- > 0;) {
    Node& its = *nodes_[node];
    const bool cancelled = one.CancelledAt(node);
    base::WithMemory([&] {
      NodeCallPtr call = CallAt(one, node);
      its.Send(call, [in_flight, on_result, node, &its, call, cancelled](const auto& reply) {
        base::WithMemory([&] {
          if (on_result != nullptr) (*on_result)(node, its, *call, reply.status());
          in_flight->OnResult(node, ReadEnding(cancelled, reply));
        });
      });
    });
  }
  return absl::OkStatus();
}

}  // namespace redlatch::quorum
