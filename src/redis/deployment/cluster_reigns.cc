#include "src/redis/deployment/cluster_reigns.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace redlatch::redis {
namespace {

// How long one node may take to answer.
constexpr absl::Duration kPatience = absl::Milliseconds(250);
// Then another client does it instead.
constexpr std::string_view kClaimMs = "10000";
constexpr std::string_view kDoneMs = "2505600000";  // 29 days: less than what it tells of
// In one write, and some milliseconds of the server's time.
constexpr size_t kAtOnce = 256;

}  // namespace

void ClusterReigns::Doubt(const SingleServer* server) {
  const base::MutexLock lock(mu_);
  doubted_.push_back(server);
}

bool ClusterReigns::GoOn(const ClusterMap& map, base::Instant until) {
  std::map<ClusterNode*, std::vector<Slot>> slots;
  for (int each = 0; each < kSlots; ++each) {
    const auto slot = static_cast<Slot>(each);
    if (ClusterNode* const owner = map.Owner(slot)) slots[owner].push_back(slot);
  }
  std::vector<const SingleServer*> doubted;
  {
    const base::MutexLock lock(mu_);
    doubted.swap(doubted_);
  }
  // One that serves nothing just now will be new when it does.
  std::erase_if(rounds_, [&](const auto& round) {
    const SingleServer* const server = round.first->server.get();
    return !slots.contains(round.first) ||
           std::find(doubted.begin(), doubted.end(), server) != doubted.end();
  });
  bool done = true;
  for (const auto& [node, its] : slots) {
    done &= until > base::Now() && GoOnAt(*node->server, its, rounds_[node], until);
  }
  return done;
}

bool ClusterReigns::GoOnAt(SingleServer& server, const std::vector<Slot>& slots, Round& round,
                           base::Instant until) const {
  using enum Round::State;
  bool refused = false;
  const auto ask = [&](const Command& command) {
    absl::StatusOr<Reply> reply =
        server.Call({}, command, std::min(until, base::Now() + kPatience));
    const bool error = reply.ok() && reply->is_error();
    refused = error && ClassifyError(reply->text) == ErrorCode::kNoPermission;
    return reply.ok() && !error ? std::move(reply->text) : std::string();
  };
  const std::string done_key = KeyOf(slots.front()) + ".begun";
  if (round.state == kUnknown) {
    round.id = InfoField(ask({"INFO", "replication"}), "master_replid");
    if (round.id.empty()) return false;
    if (ask({"GET", done_key}) == round.id) {
      round.state = kDone;
    } else if (ask({"SET", done_key + round.id, "", "NX", "PX", kClaimMs}) == "OK") {
      round.state = kOurs;
      round.left = slots;
    } else if (refused) {
      round.state = kDone;  // by whoever may
    }
  }
  while (round.state == kOurs && base::Now() < until) {
    const size_t count = std::min(kAtOnce, round.left.size());
    const auto next = absl::MakeSpan(round.left).last(count);
    if (!Begin(server, next, std::min(until, base::Now() + kPatience))) break;
    round.left.resize(round.left.size() - count);
    if (!round.left.empty()) continue;
    ask({"SET", done_key, round.id, "PX", kDoneMs});
    round.state = kDone;
  }
  return round.state == kDone;
}

// Each for itself: those that have moved meanwhile are begun by whoever locks there.
bool ClusterReigns::Begin(SingleServer& server, absl::Span<const Slot> slots,
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
  server.RunBatch(calls, deadline, absl::MakeSpan(answers));
  return std::none_of(answers.begin(), answers.end(), [](const auto& answer) {
    return absl::IsUnavailable(answer.status()) && !RedirectOf(answer.status());
  });
}

}  // namespace redlatch::redis
