#include "src/cli/term/server.h"

#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/term/outcome.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

// Beyond the URL's command_timeout: many commands travel at once.
constexpr absl::Duration kPatience = absl::Seconds(4);

}  // namespace

Server::Server(const redis::Url& parsed, std::string_view url, redis::PlainConnection connection)
    : url_(url),
      name_(parsed.DebugString()),
      patience_(parsed.command_timeout + kPatience),
      connection_(std::move(connection)) {}

absl::StatusOr<redis::Url> ParseUrlOfServer(std::string_view url) {
  absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (parsed.ok() && parsed->kind == redis::Url::Kind::kCluster) {
    return absl::UnimplementedError(
        absl::StrCat("this command looks at one server only so far, and ", parsed->DebugString(),
                     " is a cluster; name one of its primaries: redis://host:port"));
  }
  return parsed;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = ParseUrlOfServer(url);
  if (!parsed.ok()) return parsed.status();
  if (parsed->kind == redis::Url::Kind::kEmbedded) {
    const absl::StatusOr<std::optional<std::string>> socket =
        redis::FindEmbeddedServer(parsed->path);
    if (!socket.ok()) return socket.status();
    if (!socket->has_value()) {
      return absl::NotFoundError(
          absl::StrCat("your private server (", parsed->DebugString(),
                       ") is not running, so nobody holds a lock there; choose another server with "
                       "--server or $REDLATCH_URL"));
    }
  }
  auto connection = redis::PlainConnection::Open(
      *parsed, base::Now() + parsed->connect_timeout + parsed->command_timeout);
  if (!connection.ok()) return connection.status();
  std::unique_ptr<Server> server(new Server(*parsed, url, *std::move(connection)));
  if (parsed->tls != nullptr && parsed->tls->options().insecure) {
    Complain({"warning: ", redis::NotVerified(server->name())});
  }
  server->LookAtRole();
  if (server->is_replica()) {
    Complain({"warning: ", server->name(), " is a replica: it may show what is no longer so"});
  }
  return server;
}

// Every user may ask for that; what does not know it may serve all the same.
void Server::LookAtRole() {
  const absl::StatusOr<redis::Reply> hello =
      connection_.Call(redis::Command{"HELLO"}, base::Now() + patience_);
  if (!hello.ok()) return;
  for (size_t i = 0; i + 1 < hello->elements.size(); i += 2) {
    if (hello->elements[i].text == "role") is_replica_ = hello->elements[i + 1].text == "replica";
  }
}

bool Server::IsNil(const std::string& error) const {
  const redis::ErrorCode code = redis::ClassifyError(error);
  // Of a key, as against "... to run the 'scan' command".
  const bool forbidden =
      code == redis::ErrorCode::kNoPermission && error.find("to access") != std::string::npos;
  return code == redis::ErrorCode::kWrongType || (forbidden && passes_over_forbidden_);
}

absl::StatusOr<std::vector<redis::Reply>> Server::Ask(const std::vector<redis::Command>& commands) {
  auto replies = connection_.CallAll(commands, base::Now() + patience_);
  if (!replies.ok()) return replies.status();
  for (redis::Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    if (!IsNil(reply.text)) return redis::ErrorStatus(reply.text, name());
    reply = {};
  }
  return replies;
}

absl::StatusOr<int64_t> Server::NowMicros() {
  const absl::StatusOr<std::vector<redis::Reply>> replies = Ask({redis::Command{"TIME"}});
  if (!replies.ok()) return replies.status();
  const std::vector<redis::Reply>& time = replies->front().elements;
  if (time.size() != 2) return absl::InternalError("TIME answered no time");
  return NumberIn(time[0]) * 1'000'000 + NumberIn(time[1]);
}

absl::Status Questions::Ask(Server& server) {
  if (commands_.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<redis::Reply>> replies = server.Ask(commands_);
  if (!replies.ok()) return replies.status();
  for (size_t i = 0; i < takes_.size(); ++i) takes_[i]((*replies)[i]);
  return absl::OkStatus();
}

int64_t NumberIn(const redis::Reply& reply) {
  if (reply.type == redis::Reply::Type::kInteger) return reply.integer;
  int64_t number = 0;
  if (absl::SimpleAtoi(reply.text, &number)) return number;
  double real = 0;  // scores may have an exponent
  return absl::SimpleAtod(reply.text, &real) ? static_cast<int64_t>(real) : 0;
}

}  // namespace redlatch::cli
