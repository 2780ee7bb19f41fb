#include "src/redis/server_group/cluster_quarantine.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace redlatch::redis {
namespace {

// How long one node may take to answer.
constexpr absl::Duration kQuarantineTimeout = absl::Milliseconds(250);
// The pause before the next try, if it cannot be done now or another client does it.
constexpr absl::Duration kQuarantineFirstPause = absl::Milliseconds(100);
constexpr absl::Duration kQuarantineLongestPause = absl::Seconds(10);
// After that, another client may do it instead.
constexpr std::string_view kClaimMs = "10000";
// How often to check if the keys of slots that no client uses must be renewed.
constexpr absl::Duration kDay = absl::Hours(24);
constexpr std::string_view kDayMs = "86400000";
// So many slots in one write, which costs the server some milliseconds.
constexpr size_t kAtOnce = 256;
constexpr size_t kLeastAtOnce = 16;

bool Denied(const absl::StatusOr<Reply>& reply) {
  return reply.ok() && reply->is_error() && ClassifyError(reply->text) == ErrorCode::kNoPermission;
}

}  // namespace

void ClusterQuarantine::CheckAgain(const SingleServer* server) {
  const base::MutexLock lock(mu_);
  to_check_.push_back(server);
}

base::Instant ClusterQuarantine::GoOn(const ClusterMap& map, base::Instant until) {
  ByClusterNode<std::vector<Slot>> slots;
  ClusterNodePtr before;
  const std::vector<ClusterNodePtr> owners = map.owners();
  std::vector<Slot>* owned = nullptr;
  for (int each = 0; each < kSlots; ++each) {
    const auto slot = static_cast<Slot>(each);
    const ClusterNodePtr& owner = owners[slot];
    if (owner == nullptr) continue;
    if (owner != before) owned = &slots[owner];
    before = owner;
    owned->push_back(slot);
  }
  std::vector<const SingleServer*> to_check;
  {
    const base::MutexLock lock(mu_);
    to_check.swap(to_check_);
  }
  // A node that serves no slot now counts as new when it does.
  std::erase_if(rounds_, [&](const auto& round) { return !slots.contains(round.first); });
  if (!slots.contains(latest_)) latest_ = nullptr;
  for (auto& [node, round] : rounds_) {
    const bool new_again =
        std::find(to_check.begin(), to_check.end(), node->server.get()) != to_check.end();
    if (new_again) round.state = Round::State::kUnknown;
    if (new_again) round.next = base::Instant();
  }
  base::Instant next = base::Instant::Infinite();
  auto each = slots.upper_bound(latest_);
  for (size_t i = 0; i < slots.size(); ++i, ++each) {
    if (each == slots.end()) each = slots.begin();
    auto& [node, its] = *each;
    Round& round =
        rounds_
            .try_emplace(node, Round{.at_once = kAtOnce,
                                     .backoff = {kQuarantineFirstPause, kQuarantineLongestPause}})
            .first->second;
    const base::Instant now = base::Now();
    if (round.next <= now && now < until) {
      GoOnAt(*node->server, its, round, until);
      latest_ = node;
    }
    next = std::min(next, round.next);
  }
  return next;
}

void ClusterQuarantine::GoOnAt(SingleServer& server, const std::vector<Slot>& slots, Round& round,
                               base::Instant until) const {
  using enum Round::State;
  if (round.state == kDone) round.state = kUnknown;  // that was a day ago
  if (round.state == kUnknown) Find(server, slots, round, until);
  while (round.state == kOurs && !round.left.empty() && base::Now() < until) {
    const size_t count = std::min(round.at_once, round.left.size());
    const auto some = absl::MakeSpan(round.left).last(count);
    const Outcome outcome = Begin(server, some, std::min(until, base::Now() + kQuarantineTimeout));
    if (outcome == Outcome::kDenied)
      round.state = kDone;  // another client, or the first use, does it
    if (outcome == Outcome::kFailed) {
      round.at_once = std::max(round.at_once / 2, kLeastAtOnce);
      break;
    }
    round.left.resize(round.left.size() - count);
    round.backoff.Reset();
    round.next = base::Now();
  }
  if (round.state == kOurs && round.left.empty()) {
    const std::string key = KeyOf(slots.front()) + ".begun";
    const auto told = server.Call({}, Command({"SET", key, round.id, "PX", kDayMs}),
                                  std::min(until, base::Now() + kQuarantineTimeout));
    if ((told.ok() && told->text == "OK") || Denied(told)) round.state = kDone;
  }
  if (round.state == kDone) {
    round.next = base::Now() + kDay;
  } else if (round.next <= base::Now() && until > base::Now()) {
    round.next = base::Now() + round.backoff.Next();
  }
}

// Finds out if the work is done, and otherwise claims it for this client.
void ClusterQuarantine::Find(SingleServer& server, const std::vector<Slot>& slots, Round& round,
                             base::Instant until) const {
  using enum Round::State;
  const auto ask = [&](const Command& command) {
    return server.Call({}, command, std::min(until, base::Now() + kQuarantineTimeout));
  };
  const auto text = [](const absl::StatusOr<Reply>& reply) {
    return reply.ok() && !reply->is_error() ? reply->text : std::string();
  };
  round.id = InfoField(text(ask({"INFO", "replication"})), "master_replid");
  if (round.id.empty()) return;
  const std::string done_key = KeyOf(slots.front()) + ".begun";
  const std::string claim_key = done_key + round.id;
  if (text(ask({"GET", done_key})) == round.id) {
    round.state = kDone;
    return;
  }
  const auto claim = ask({"SET", claim_key, options_.client, "NX", "PX", kClaimMs});
  if (Denied(claim)) {
    round.state = kDone;  // another client, or the first use, does it
  } else if (text(claim) == "OK" || text(ask({"GET", claim_key})) == options_.client) {
    round.state = kOurs;
    round.left = slots;
  }
}

// Each slot is a call of its own: in those that have moved meanwhile, the first acquisition begins
// it.
ClusterQuarantine::Outcome ClusterQuarantine::Begin(SingleServer& server,
                                                    absl::Span<const Slot> slots,
                                                    base::Instant deadline) const {
  const std::array<std::string_view, 2> args = {"", options_.quarantine_ms};
  std::vector<std::string> keys;
  std::transform(slots.begin(), slots.end(), std::back_inserter(keys),
                 [this](Slot slot) { return KeyOf(slot); });
  const std::vector<std::string_view> words(keys.begin(), keys.end());
  std::vector<ScriptCall> calls;
  for (const std::string_view& word : words) {
    calls.push_back(
        {.script = options_.begin, .keys = absl::MakeConstSpan(&word, 1), .args = args});
  }
  std::vector<absl::StatusOr<Reply>> answers(calls.size());
  server.Run(calls, deadline, absl::MakeSpan(answers), AlwaysWanted);
  Outcome outcome = Outcome::kOk;
  for (const auto& answer : answers) {
    if (absl::IsPermissionDenied(answer.status())) return Outcome::kDenied;
    if (!answer.ok() && !RedirectOf(answer.status())) outcome = Outcome::kFailed;
  }
  return outcome;
}

}  // namespace redlatch::redis
