// Releases that nobody waits for: sent to all nodes at once, their votes counted as they come.

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "src/base/majority.h"
#include "src/base/status.h"
#include "src/quorum/quorum_case.h"
#include "src/quorum/verdict.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::quorum {
namespace {

constexpr absl::Duration kPostsTurn = absl::Milliseconds(1);

}  // namespace

// One release on its way. Lives until the last node has answered, or cannot any more.
class Quorum::Posted {
 public:
  Posted(Quorum& quorum, Question::Hear hear, redis::Exchange& exchange)
      : quorum_(quorum), hear_(std::move(hear)), votes_(quorum.nodes_.size()), told_(&exchange) {}

  // On any thread that reads; also while the nodes are being destroyed.
  void Answered(size_t node, Node& its, const absl::StatusOr<redis::Reply>& answer) {
    if (hear_) hear_(node, its, answer);
    // What is owed now brings the text; nobody else sends that, as a caller would that waits.
    if (answer.ok() && redis::ClassifyError(answer->text) == redis::ErrorCode::kNoScript) {
      its.SettleNow();
    }
    {
      const base::MutexLock lock(mu_);
      votes_[node] = VoteOf(answer, its);
      votes_[node].failure = base::Unshared(votes_[node].failure);  // it may end on another thread
    }
    TellIfDecided();
  }

  void NotSent(size_t node, Node& its, absl::Status why) {
    why = redis::MarkNotSent(std::move(why));
    if (hear_) hear_(node, its, why);
    const base::MutexLock lock(mu_);
    votes_[node].kind = Vote::Kind::kFailed;
    votes_[node].failure = std::move(why);
  }

  void TellIfDecided() {
    redis::Exchange* told = nullptr;
    {
      const base::MutexLock lock(mu_);
      if (!Decided() || told_ == nullptr) return;
      told = std::exchange(told_, nullptr);
      told->results.back() = Result();
    }
    std::exchange(told->done, nullptr)();  // the exchange may go with it
    --quorum_.posted_;
  }

  // Of one that was sent to nobody.
  absl::Status Why() const {
    const base::MutexLock lock(mu_);
    return Result().status();
  }

 private:
  // What is to be said again, with its text or elsewhere, is no refusal.
  static Vote VoteOf(const absl::StatusOr<redis::Reply>& answer, const Node& its) {
    if (!answer.ok() || !answer->is_error()) return ReadVote(answer);
    const absl::Status why = redis::Unrepeated(answer, its.server()).status();
    if (!redis::NotSent(why)) return ReadVote(why);
    return ReadVote(redis::MarkNotSent(absl::UnavailableError(why.message())));
  }

  bool Decided() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return Counted(votes_) >= base::Majority(votes_.size()) || Open(votes_) == 0;
  }
  absl::StatusOr<redis::Reply> Result() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (Counted(votes_) >= base::Majority(votes_.size())) return WhenReleased(votes_);
    return WhyNoQuorum(votes_, quorum_.servers_, /*stands=*/true);
  }

  Quorum& quorum_;  // but not its nodes, which may be going
  const Question::Hear hear_;
  mutable base::Mutex mu_;
  std::vector<Vote> votes_ ABSL_GUARDED_BY(mu_);
  redis::Exchange* told_ ABSL_GUARDED_BY(mu_);  // null: it was
};

absl::Status Quorum::Post(const redis::ScriptCall& call, redis::Exchange& exchange) noexcept {
  if (absl::Status problem = Problem(); !problem.ok()) return problem;
  Case one(call);
  Begin(one);
  const NodeSet uncertain = one.ending ? one.ending->uncertain : 0;
  const auto posted = std::make_shared<Posted>(*this, HearFor(one), exchange);
  ++posted_;
  std::optional<redis::Command> words;  // of all
  bool sent_any = false;
  // An acquisition that follows asks the first node first: told last, it does both in one go.
  for (size_t node = nodes_.size(); node-- > 0;) {
    Node& its = *nodes_[node];
    if (!words || !alike_ || uncertain != 0) {
      words = Encode(its, CallFor(one, node), /*by_text=*/false);
    }
    absl::Status sent = its.Send(call.keys.front(), *words,
                                 [posted, node, &its](const absl::StatusOr<redis::Reply>& answer) {
                                   posted->Answered(node, its, answer);
                                 });
    sent_any = sent_any || sent.ok();
    if (!sent.ok()) posted->NotSent(node, its, std::move(sent));
  }
  if (!sent_any) {
    --posted_;
    return posted->Why();
  }
  posted->TellIfDecided();  // the last answer may have come before it was known who was not asked
  return absl::OkStatus();
}

// All at the same time: a node that hangs keeps nobody from hearing the others.
bool Quorum::DrainAll(base::Instant until) {
  for (;;) {
    const base::Instant now = base::Now();
    // Later than at once: those that stall are given up.
    const base::Instant at_most = std::min(now, until);
    for (const auto& node : nodes_) node->at().DrainAll(at_most);
    if (posted_ == 0 || until <= now) return posted_ == 0;
    absl::InlinedVector<pollfd, 8> fds;
    for (const auto& node : nodes_) {
      const redis::Transport::Polled polled = node->at().BeginPoll({});
      fds.push_back({.fd = polled.fd, .events = polled.events, .revents = 0});
    }
    // Of a cluster, another connection may be the one that brings the answer.
    base::Poll(fds.data(), fds.size(), std::min(until, now + kPostsTurn));
  }
}

}  // namespace redlatch::quorum
