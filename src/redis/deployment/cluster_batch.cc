// Many calls at once. Each node's share travels in one write; those of several nodes are under way
// at the same time, and a node that is down holds nobody up but its own.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "src/redis/deployment/cluster.h"
#include "src/redis/link/scripts.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {
namespace {

// How long a node that is not connected may take in each batch, to become so in time.
constexpr absl::Duration kBriefly = absl::Milliseconds(50);
constexpr absl::Duration kTurn = absl::Milliseconds(1);
// Before what a slot on the move has refused is run again.
constexpr absl::Duration kPause = absl::Milliseconds(5);

// What goes to one node, and what came of it. The answers may come when nobody waits any more.
struct Share {
  ClusterNodePtr node;
  std::vector<size_t> indexes;  // among all calls
  base::Mutex mu;
  base::CondVar changed;
  bool answered ABSL_GUARDED_BY(mu) = false;
  std::vector<absl::StatusOr<Reply>> answers ABSL_GUARDED_BY(mu);
};
using Shares = std::vector<std::shared_ptr<Share>>;

// One for each node that serves some of those keys; the others are homeless.
Shares ShareOut(const ClusterMap& map, size_t count,
                absl::FunctionRef<std::string_view(size_t index)> key_of,
                std::vector<size_t>& homeless) {
  std::map<ClusterNodePtr, std::shared_ptr<Share>> by_node;
  for (size_t i = 0; i < count; ++i) {
    const ClusterNodePtr owner = map.Owner(SlotOf(key_of(i)));
    if (owner == nullptr) {
      homeless.push_back(i);
      continue;
    }
    std::shared_ptr<Share>& share = by_node[owner];
    if (share == nullptr) share = std::make_shared<Share>();
    share->node = owner;
    share->indexes.push_back(i);
  }
  Shares shares;
  for (auto& [node, share] : by_node) shares.push_back(std::move(share));
  return shares;
}

bool SendShare(const std::shared_ptr<Share>& share,
               absl::FunctionRef<Command(size_t index)> command_of) {
  std::vector<Command> commands;
  for (const size_t i : share->indexes) commands.push_back(command_of(i));
  const absl::Status sent = share->node->server->commands().SendAll(
      commands, [share](absl::Span<absl::StatusOr<Reply>> answers) {
        const base::MutexLock lock(share->mu);
        share->answers.assign(std::make_move_iterator(answers.begin()),
                              std::make_move_iterator(answers.end()));
        share->answered = true;
        share->changed.SignalAll();
      });
  return sent.ok();
}

bool Answered(Share& share, base::Instant until) {
  share.node->server->commands().Drain(until);
  const base::MutexLock lock(share.mu);
  // Where another thread reads the connection, that brings the answers.
  if (!share.answered && base::Now() < until) share.changed.WaitUntil(share.mu, until);
  return share.answered;
}

// Whoever reads a connection may leave it before these answers have come.
void AwaitAll(const Shares& sent, base::Instant deadline) {
  for (bool waits = !sent.empty(); waits && base::Now() < deadline;) {
    waits = false;
    for (const auto& share : sent) {
      waits |= !Answered(*share, std::min(deadline, base::Now() + kTurn));
    }
  }
}

// To be asked once more, by itself: elsewhere, with the script's text, or in a moment.
bool AskAgain(const Reply& reply) {
  if (!reply.is_error()) return false;
  const ErrorCode code = ClassifyError(reply.text);
  return code == ErrorCode::kMoved || code == ErrorCode::kAsk || code == ErrorCode::kNoScript ||
         IsTransient(code);
}

}  // namespace

void Cluster::RunBatch(absl::Span<const ScriptCall> plain, base::Instant deadline,
                       absl::Span<absl::StatusOr<Reply>> results) {
  std::vector<ScriptCall> calls;
  for (const ScriptCall& call : plain) calls.push_back(scripts_.Of(call));
  std::vector<size_t> again;
  const Shares shares = ShareOut(
      *map_, calls.size(), [&](size_t i) { return calls[i].keys.front(); }, again);
  Shares sent;
  Shares unsent;
  const bool alone = shares.size() == 1;
  const auto encode = [&](size_t i) { return EncodeCall(calls[i], /*by_text=*/false); };
  for (const auto& share : shares) {
    (!alone && SendShare(share, encode) ? sent : unsent).push_back(share);
  }
  for (const auto& share : unsent) {
    std::vector<ScriptCall> its;
    for (const size_t i : share->indexes) its.push_back(calls[i]);
    std::vector<absl::StatusOr<Reply>> answers(its.size());
    share->node->server->RunBatchOnce(its,
                                      alone ? deadline : std::min(deadline, base::Now() + kBriefly),
                                      absl::MakeSpan(answers));
    for (size_t i = 0; i < its.size(); ++i) {
      const absl::Status& status = answers[i].status();
      const bool refused = absl::IsUnavailable(status) || absl::IsNotFound(status);
      if (RedirectOf(status) || (refused && !MayHaveExecuted(status))) {
        again.push_back(share->indexes[i]);
      }
      if (absl::IsUnavailable(status)) map_->LookSoon();
      results[share->indexes[i]] = std::move(answers[i]);
    }
  }
  AwaitAll(sent, deadline);
  for (const auto& share : sent) {
    const base::MutexLock lock(share->mu);
    for (size_t i = 0; i < share->indexes.size(); ++i) {
      absl::StatusOr<Reply>& result = results[share->indexes[i]];
      if (!share->answered) {
        result = MarkMayHaveExecuted(
            absl::UnavailableError(share->node->server->server({}) + " did not answer in time"));
      } else if (!share->answers[i].ok() || !share->answers[i]->is_error()) {
        result = std::move(share->answers[i]);
      } else if (AskAgain(*share->answers[i])) {
        again.push_back(share->indexes[i]);
      } else {
        result = ErrorStatus(share->answers[i]->text, share->node->server->server({}));
      }
    }
  }
  for (const size_t i : again) {
    const bool only = calls.size() == 1;
    const base::Instant until = only ? deadline : std::min(deadline, base::Now() + kBriefly);
    results[i] = Run(plain[i], until, AlwaysWanted);
  }
}

std::vector<std::string> Cluster::Get(absl::Span<const std::string> keys, base::Instant deadline) {
  std::vector<std::string> texts(keys.size());
  std::vector<size_t> again;
  const Shares shares = ShareOut(
      *map_, keys.size(), [&](size_t i) { return std::string_view(keys[i]); }, again);
  const auto get = [&](size_t i) { return Command({"GET", keys[i]}); };
  Shares sent;
  for (const auto& share : shares) {
    std::vector<std::string> warnings;
    const base::Instant until = std::min(deadline, base::Now() + kBriefly);
    if (SendShare(share, get) ||
        (share->node->server->Connect(until, warnings).ok() && SendShare(share, get))) {
      sent.push_back(share);
    }
  }
  AwaitAll(sent, deadline);
  for (const auto& share : sent) {
    const base::MutexLock lock(share->mu);
    for (size_t i = 0; share->answered && i < share->indexes.size(); ++i) {
      absl::StatusOr<Reply>& answer = share->answers[i];
      if (answer.ok() && AskAgain(*answer)) again.push_back(share->indexes[i]);
      if (answer.ok() && !answer->is_error()) texts[share->indexes[i]] = std::move(answer->text);
    }
  }
  for (const size_t i : again) {
    absl::StatusOr<Reply> answer =
        Call(keys[i], get(i), std::min(deadline, base::Now() + kBriefly));
    if (answer.ok() && !answer->is_error()) texts[i] = std::move(answer->text);
  }
  return texts;
}

// What was not executed, since the slot moves, is run again: where it is then.
absl::StatusOr<base::Acks> Cluster::RunAcked(absl::Span<const ScriptCall> plain,
                                             const base::AcksWanted& wanted,
                                             absl::Duration patience, base::Instant deadline,
                                             absl::Span<absl::StatusOr<Reply>> results) {
  // Others wait behind these.
  const base::Instant until = std::min(deadline, base::Now() + kBriefly);
  base::Acks all{.replicas = std::numeric_limits<int16_t>::max(), .synced = true};
  absl::Status failure;
  std::vector<size_t> open(plain.size());
  std::iota(open.begin(), open.end(), size_t{0});
  while (!open.empty()) {
    std::map<ClusterNodePtr, std::vector<size_t>> by_node;
    for (const size_t i : open) {
      const auto owner = map_->AwaitOwner(SlotOf(plain[i].keys.front()), deadline);
      if (!owner.ok()) {
        results[i] = failure = owner.status();
        continue;
      }
      by_node[*owner].push_back(i);
    }
    open.clear();
    for (const auto& [node, indexes] : by_node) {
      std::vector<ScriptCall> its;
      for (const size_t i : indexes) its.push_back(scripts_.Of(plain[i]));
      std::vector<absl::StatusOr<Reply>> answers(its.size());
      const absl::StatusOr<base::Acks> acks =
          node->server->RunAcked(its, wanted, patience, deadline, absl::MakeSpan(answers));
      // The client's description lies in the first one's slot.
      const bool all_move = RedirectOf(acks.status()).has_value();
      for (size_t i = 0; i < indexes.size(); ++i) {
        const absl::Status& status = answers[i].status();
        const std::optional<Redirect> redirect = RedirectOf(status);
        if (redirect) map_->Follow(*redirect, *node, until);
        const bool moves = all_move || redirect || RefusedForNow(status);
        if (moves && base::Now() + kPause < until) open.push_back(indexes[i]);
        results[indexes[i]] = redirect   ? StillMoves(status)
                              : all_move ? StillMoves(acks.status())
                                         : std::move(answers[i]);
      }
      if (!acks.ok() && !all_move) {
        failure = acks.status();
        if (NotSent(failure)) map_->LookSoon();
      } else if (acks.ok()) {
        all.replicas = std::min(all.replicas, acks->replicas);
        all.synced = all.synced && acks->synced;
      }
    }
    if (!open.empty()) base::Parker().ParkUntil(base::Now() + kPause);
  }
  if (!failure.ok()) return failure;
  return all;
}

}  // namespace redlatch::redis
