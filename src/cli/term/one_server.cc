#include "src/cli/term/one_server.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/term/outcome.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {

OneServer::OneServer(const redis::Url& parsed, std::string_view url,
                     redis::PlainConnection connection)
    : Server(parsed, url), connection_(std::move(connection)) {}

absl::StatusOr<std::unique_ptr<Server>> OneServer::Open(const redis::Url& parsed,
                                                        std::string_view url) {
  if (parsed.kind == redis::Url::Kind::kEmbedded) {
    const absl::StatusOr<std::optional<std::string>> socket =
        redis::FindEmbeddedServer(parsed.path);
    if (!socket.ok()) return socket.status();
    if (!socket->has_value()) {
      return absl::NotFoundError(
          absl::StrCat("your private server (", parsed.DebugString(),
                       ") is not running, so nobody holds a lock there; choose another server with "
                       "--server or $REDLATCH_URL"));
    }
  }
  auto connection = redis::PlainConnection::Open(
      parsed, base::Now() + parsed.connect_timeout + parsed.command_timeout);
  if (!connection.ok()) return connection.status();
  std::unique_ptr<OneServer> server(new OneServer(parsed, url, *std::move(connection)));
  if (absl::Status unfit = server->LookAtHello(parsed); !unfit.ok()) return unfit;
  if (server->is_replica()) {
    Complain({"warning: ", server->name(), " is a replica: it may show what is no longer so"});
  }
  return server;
}

absl::Status OneServer::LookAtHello(const redis::Url& parsed) {
  const absl::StatusOr<redis::Reply> hello =
      connection_.Call(redis::Command{"HELLO"}, base::Now() + patience_);
  if (!hello.ok()) return hello.status();
  is_replica_ = redis::ValueOf(*hello, "role") == "replica";
  return redis::Handshake(parsed, redis::Handshake::Purpose::kQuestions).CheckHello(*hello);
}

absl::StatusOr<std::vector<redis::Reply>> OneServer::Ask(absl::Span<const redis::Command> commands,
                                                         absl::Span<const redis::Slot> /*slots*/,
                                                         Unreachable /*unreachable*/) {
  auto replies = connection_.CallAll(commands, base::Now() + patience_);
  if (!replies.ok()) return replies.status();
  for (redis::Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    if (!IsNil(reply.text)) return redis::ErrorStatus(reply.text, name());
    reply = {};
  }
  return replies;
}

absl::StatusOr<redis::Reply> OneServer::AskPart(size_t /*part*/, const redis::Command& command) {
  absl::StatusOr<redis::Reply> reply = connection_.Call(command, base::Now() + patience_);
  if (reply.ok() && reply->is_error()) return redis::ErrorStatus(reply->text, name());
  return reply;
}

}  // namespace redlatch::cli
