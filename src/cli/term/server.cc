#include "src/cli/term/server.h"

#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/base/clock.h"
#include "src/cli/term/complain.h"
#include "src/redis/embedded/embedded.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

// Beyond the URL's command_timeout: many commands travel at once.
constexpr absl::Duration kPatience = absl::Seconds(4);

}  // namespace

Server::Server(const redis::Url& url)
    : patience_(url.command_timeout + kPatience), connection_(url, {}) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
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
  std::unique_ptr<Server> server(new Server(*parsed));
  if (absl::Status connected = server->connection_.Connect(base::Now() + parsed->connect_timeout +
                                                           parsed->command_timeout);
      !connected.ok()) {
    return connected;
  }
  for (const std::string& warning : server->connection_.server_info().warnings) {
    Complain({"warning: ", warning});
  }
  return server;
}

bool Server::IsNil(const std::string& error) const {
  const redis::ErrorCode code = redis::ClassifyError(error);
  // Of a key, as against "... to run the 'scan' command".
  const bool forbidden =
      code == redis::ErrorCode::kNoPermission && error.find("to access") != std::string::npos;
  return code == redis::ErrorCode::kWrongType || (forbidden && passes_over_forbidden_);
}

absl::StatusOr<std::vector<redis::Reply>> Server::Ask(const std::vector<redis::Command>& commands) {
  std::vector<absl::StatusOr<redis::Reply>> results(commands.size(), absl::UnknownError(""));
  connection_.CallBatch(commands, base::Now() + patience_, absl::MakeSpan(results));
  std::vector<redis::Reply> replies;
  replies.reserve(results.size());
  for (absl::StatusOr<redis::Reply>& result : results) {
    if (!result.ok()) return result.status();
    if (result->is_error()) {
      if (!IsNil(result->text)) return redis::ErrorStatus(result->text, name());
      *result = {};
    }
    replies.push_back(*std::move(result));
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
