#include "src/redis/server_group/server_group.h"

#include <memory>
#include <utility>

namespace redlatch::redis {

std::string ServerGroup::PrimaryEpoch(std::string_view key) {
  constexpr absl::Duration kAskedEvery = absl::Seconds(1);
  const base::Instant now = base::Now();
  if (now.nanos() < epoch_due_.load(std::memory_order_relaxed)) return facts(key).primary_epoch;
  epoch_due_.store((now + kAskedEvery).nanos(), std::memory_order_relaxed);
  return {};
}

absl::Status ServerGroup::Send(std::string_view key, const Command& command) {
  struct Sent {
    InFlight in_flight;
    absl::StatusOr<Reply> reply;
  };
  auto sent = std::make_unique<Sent>();
  sent->in_flight.results = absl::MakeSpan(&sent->reply, 1);
  sent->in_flight.done = [its = sent.get()] { const std::unique_ptr<Sent> deleted(its); };
  absl::Status posted =
      Post({.keys = absl::MakeConstSpan(&key, 1), .command = &command}, sent->in_flight);
  if (posted.ok()) static_cast<void>(sent.release());  // its `done` deletes it
  return posted;
}

std::vector<std::string> ServerGroup::Get(absl::Span<const std::string> keys,
                                          base::Instant deadline) {
  const std::vector<std::string_view> words(keys.begin(), keys.end());
  std::vector<Command> commands;
  for (const std::string& key : keys) commands.push_back(Command({"GET", key}));
  std::vector<ScriptCall> calls;
  for (size_t i = 0; i < keys.size(); ++i) {
    calls.push_back({.keys = absl::MakeConstSpan(&words[i], 1), .command = &commands[i]});
  }
  std::vector<absl::StatusOr<Reply>> replies(keys.size());
  Run(calls, deadline, absl::MakeSpan(replies));
  std::vector<std::string> texts;
  for (absl::StatusOr<Reply>& reply : replies) {
    texts.push_back(reply.ok() && !reply->is_error() ? std::move(reply->text) : std::string());
  }
  return texts;
}

}  // namespace redlatch::redis
