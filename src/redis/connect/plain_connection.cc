#include "src/redis/connect/plain_connection.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/wire/errors.h"

namespace redlatch::redis {

absl::StatusOr<PlainConnection> PlainConnection::Open(const Url& url, base::Instant deadline,
                                                      Endpoint endpoint) {
  PlainConnection connection(url.DebugString());
  auto made =
      Connector(url, Handshake::Purpose::kQuestions, nullptr, std::move(endpoint)).Step(deadline);
  if (!made.ok()) return made.status();
  if (!made->has_value()) {
    return absl::UnavailableError(
        absl::StrCat("cannot connect to ", connection.server_, ": no answer in time"));
  }
  connection.dialogue_ = std::move((*made)->dialogue);
  return connection;
}

absl::StatusOr<Reply> PlainConnection::Call(const Command& command, base::Instant deadline) {
  dialogue_.unwritten += command.bytes();
  return Receive(deadline);
}

absl::StatusOr<std::vector<Reply>> PlainConnection::CallAll(absl::Span<const Command> commands,
                                                            base::Instant deadline) {
  for (const Command& command : commands) dialogue_.unwritten += command.bytes();
  return ReadReplies(commands.size(), deadline);
}

absl::StatusOr<Reply> PlainConnection::Receive(base::Instant deadline) {
  auto replies = ReadReplies(1, deadline);
  if (!replies.ok()) return replies.status();
  return std::move(replies->front());
}

absl::StatusOr<std::vector<Reply>> PlainConnection::ReadReplies(size_t count,
                                                                base::Instant deadline) {
  std::vector<Reply>& arrived = dialogue_.replies;
  const absl::StatusOr<bool> done = dialogue_.GoOn(count, deadline);
  if (done.ok() && *done) {
    const auto end = arrived.begin() + static_cast<ptrdiff_t>(count);
    std::vector<Reply> replies(std::move_iterator(arrived.begin()), std::move_iterator(end));
    arrived.erase(arrived.begin(), end);
    return replies;
  }
  // A server may say why before it hangs up. That it does not know a script is not why.
  if (!done.ok() && !arrived.empty() && arrived.back().is_error() &&
      ClassifyError(arrived.back().text) != ErrorCode::kNoScript) {
    return ErrorStatus(arrived.back().text, server_);
  }
  const std::string why = !done.ok()                    ? std::string(done.status().message())
                          : dialogue_.unwritten.empty() ? "no answer in time"
                                                        : "it takes no bytes";
  return absl::UnavailableError(absl::StrCat("the connection to ", server_, " broke: ", why));
}

}  // namespace redlatch::redis
