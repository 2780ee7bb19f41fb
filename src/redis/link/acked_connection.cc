#include "src/redis/link/acked_connection.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

AckedConnection::AckedConnection(const Url& url, Mark mark,
                                 std::function<std::optional<Peer>()> whom)
    : url_(url), server_(url.DebugString()), mark_(std::move(mark)), whom_(std::move(whom)) {}

void AckedConnection::operator delete(AckedConnection* connection, std::destroying_delete_t) {
  if (connection->fork_guard_.InForkedChild()) {
    if (connection->connection_) connection->connection_->CloseInForkedChild();
    return;
  }
  connection->~AckedConnection();
  ::operator delete(connection);
}

// One that leads to another server than commands do by now, or to what was there before they were
// connected anew, is of no use.
absl::Status AckedConnection::Connect(base::Instant deadline) {
  std::optional<Peer> peer = whom_();
  const bool same =
      peer && peer_ && peer->target.address == peer_->target.address && peer->since == peer_->since;
  if (connection_ && (!peer || same)) return absl::OkStatus();
  connection_.reset();
  const Whereabouts where = [&]() -> std::optional<Target> {
    if (!peer) return std::nullopt;
    return peer->target;
  };
  auto opened = PlainConnection::Open(url_, deadline, where);
  if (!opened.ok()) return opened.status();
  connection_ = *std::move(opened);
  peer_ = std::move(peer);
  return absl::OkStatus();
}

absl::StatusOr<base::Acks> AckedConnection::Run(absl::Span<const Command> commands,
                                                std::string_view key,
                                                const base::AcksWanted& wanted,
                                                absl::Duration patience, base::Instant deadline,
                                                absl::Span<absl::StatusOr<Reply>> replies) {
  const base::MutexLock lock(mu_);
  const auto fail = [&](absl::Status why) {
    std::fill(replies.begin(), replies.end(), why);
    return why;
  };
  if (absl::Status connected = Connect(deadline); !connected.ok()) {
    return fail(MarkNotSent(std::move(connected)));
  }
  std::vector<Command> all(commands.begin(), commands.end());
  all.push_back(mark_(key));
  const std::string millis =
      std::to_string(std::max<int64_t>(absl::ToInt64Milliseconds(patience), 1));
  const std::string replicas = std::to_string(wanted.replicas);
  all.push_back(wanted.fsync ? Command({"WAITAOF", "1", replicas, millis})
                             : Command({"WAIT", replicas, millis}));
  absl::StatusOr<std::vector<Reply>> answers = connection_->CallAll(all, deadline);
  if (!answers.ok()) {
    connection_.reset();
    return fail(MarkMayHaveExecuted(answers.status()));
  }
  std::move(answers->begin(), answers->end() - 2, replies.begin());
  const Reply& mark = (*answers)[commands.size()];
  if (mark.is_error()) connection_.reset();  // the primary may be elsewhere
  return Read(mark, answers->back(), wanted.fsync);
}

absl::StatusOr<base::Acks> AckedConnection::Read(const Reply& mark, const Reply& answer,
                                                 bool fsync) const {
  if (mark.is_error()) return ErrorStatus(mark.text, server_);
  if (answer.is_error() && fsync && ClassifyError(answer.text) == ErrorCode::kUnknownCommand) {
    return absl::FailedPreconditionError(
        absl::StrCat(server_, " does not know WAITAOF; fsync needs Redis 7.2 or later, or Valkey"));
  }
  if (answer.is_error() && fsync && answer.text.find("appendonly") != std::string::npos) {
    return absl::FailedPreconditionError(absl::StrCat(
        server_, " keeps no append-only file, which fsync needs (CONFIG SET appendonly yes)"));
  }
  if (answer.is_error()) return ErrorStatus(answer.text, server_);
  if (!fsync) return base::Acks{.replicas = static_cast<int16_t>(answer.integer), .synced = false};
  if (answer.elements.size() != 2) {
    return absl::UnavailableError(
        absl::StrCat(server_, " answered ", answer.DebugString(), " to WAITAOF"));
  }
  return base::Acks{.replicas = static_cast<int16_t>(answer.elements[1].integer),
                    .synced = answer.elements[0].integer > 0};
}

}  // namespace redlatch::redis
