#include "src/cli/term/server.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/term/cluster_server.h"
#include "src/cli/term/one_server.h"
#include "src/cli/term/outcome.h"
#include "src/redis/connect/handshake.h"
#include "src/redis/transport/tls.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

// Beyond the URL's command_timeout: many commands travel at once.
constexpr absl::Duration kServerPatience = absl::Seconds(4);

}  // namespace

Server::Server(const redis::Url& parsed, std::string_view url)
    : url_(url), name_(parsed.DebugString()), patience_(parsed.command_timeout + kServerPatience) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Open(std::string_view url) {
  const absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  if (!parsed.ok()) return parsed.status();
  if (parsed->kind == redis::Url::Kind::kQuorum) {
    return absl::FailedPreconditionError(absl::StrCat(
        "a quorum of servers has no semaphores, latches or read-write locks; ask one server: "
        "--server ",
        parsed->members.front().DebugString()));
  }
  auto server = parsed->kind == redis::Url::Kind::kCluster ? ClusterServer::Open(*parsed, url)
                                                           : OneServer::Open(*parsed, url);
  if (server.ok() && parsed->tls != nullptr && parsed->tls->options().insecure) {
    Complain({"warning: ", redis::NotVerified((*server)->name())});
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

bool Server::PassesOver(const absl::Status& why) {
  if (!passes_over_unreachable_) return false;
  if (std::ranges::find(missing_, why) == missing_.end()) missing_.push_back(why);
  return true;
}

absl::StatusOr<int64_t> Server::NowMicros(std::string_view key) {
  const redis::Command command{"TIME"};
  const redis::Slot slot = redis::SlotOf(key);
  const absl::StatusOr<std::vector<redis::Reply>> replies =
      Ask({&command, 1}, {&slot, 1}, Unreachable::kFails);
  if (!replies.ok()) return replies.status();
  if (passes_over_unreachable_ && replies->front().is_nil()) return 0;
  const std::vector<redis::Reply>& time = replies->front().elements;
  if (time.size() != 2) return absl::InternalError("TIME answered no time");
  return NumberIn(time[0]) * 1'000'000 + NumberIn(time[1]);
}

absl::Status Questions::Ask(Server& server, Unreachable unreachable) {
  if (commands_.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<redis::Reply>> replies =
      server.Ask(commands_, slots_, unreachable);
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
