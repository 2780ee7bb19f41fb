#include "src/cli/term/plain_connection.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/redis/connect/endpoint.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::IoResult;
using redis::Reply;
using redis::Transport;

constexpr int kNoWakeFd = -1;

}  // namespace

absl::StatusOr<PlainConnection> PlainConnection::Open(const redis::Url& url,
                                                      base::Instant deadline) {
  PlainConnection connection(url.DebugString());
  const base::Instant limit = std::min(deadline, base::Now() + url.connect_timeout);
  if (absl::Status made = connection.Connect(url, limit); !made.ok()) return made;
  if (absl::Status greeted = connection.Greet(url, limit); !greeted.ok()) return greeted;
  return connection;
}

absl::Status PlainConnection::Connect(const redis::Url& url, base::Instant deadline) {
  const std::unique_ptr<redis::Endpoint> endpoint = redis::MakeEndpoint(url);
  const auto addresses = endpoint->Addresses(deadline);
  if (!addresses.ok()) return addresses.status();
  absl::Status last;
  auto left = static_cast<int64_t>(addresses->size());
  for (const redis::SocketAddress& address : *addresses) {
    // An address that swallows everything must not use up the time of those behind it.
    const base::Instant now = base::Now();
    last = ConnectTo(address, now + (deadline - now) / left--);
    if (last.ok()) break;
  }
  return last;
}

absl::Status PlainConnection::ConnectTo(const redis::SocketAddress& address,
                                        base::Instant deadline) {
  auto opened = redis::OpenSocket(address);
  if (!opened.ok()) return opened.status();
  transport_ = *std::move(opened);
  for (;;) {
    const IoResult result = transport_->Connect();
    if (result.kind == IoResult::Kind::kDone) return absl::OkStatus();
    if (result.kind != IoResult::Kind::kAgain) {
      return absl::UnavailableError(absl::StrCat("cannot connect to ", server_, ": ", address.text,
                                                 ": ", redis::Describe(result)));
    }
    if (deadline <= base::Now()) {
      return absl::UnavailableError(
          absl::StrCat("cannot connect to ", server_, ": ", address.text, ": no answer"));
    }
    transport_->Wait(Transport::Interest::kWrite, kNoWakeFd, deadline);
  }
}

absl::Status PlainConnection::Greet(const redis::Url& url, base::Instant deadline) {
  std::vector<Command> commands;
  if (!url.user.empty()) {
    commands.push_back(Command{"AUTH", url.user, url.password});
  } else if (!url.password.empty()) {
    commands.push_back(Command{"AUTH", url.password});
  }
  if (url.db != 0) commands.push_back(Command{"SELECT", std::to_string(url.db)});
  // Whoever may not say PING was let in all the same.
  commands.push_back(Command{"PING"});
  const auto replies = CallAll(commands, deadline);
  if (!replies.ok()) return replies.status();
  for (const Reply& reply : *replies) {
    if (!reply.is_error()) continue;
    if (redis::ClassifyError(reply.text) == redis::ErrorCode::kNoPermission) continue;
    // So is whoever it can't write for: what else it answers tells why.
    if (reply.text.starts_with("MISCONF ")) continue;
    // A server that does not know a command repeats its arguments, and AUTH's are secret.
    absl::Status refused = redis::ErrorStatus(
        std::string_view(reply.text).substr(0, reply.text.find(", with args")), server_);
    if (absl::IsInternal(refused)) return absl::FailedPreconditionError(refused.message());
    return refused;
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply> PlainConnection::Call(const Command& command, base::Instant deadline) {
  if (absl::Status sent = Send(command.bytes(), deadline); !sent.ok()) return sent;
  return Receive(deadline);
}

absl::StatusOr<std::vector<Reply>> PlainConnection::CallAll(absl::Span<const Command> commands,
                                                            base::Instant deadline) {
  std::string bytes;
  for (const Command& command : commands) bytes += command.bytes();
  if (absl::Status sent = Send(bytes, deadline); !sent.ok()) return sent;
  std::vector<Reply> replies;
  while (replies.size() < commands.size()) {
    absl::StatusOr<Reply> reply = Receive(deadline);
    if (!reply.ok()) {
      // What a server says before it hangs up is why.
      if (!replies.empty() && replies.back().is_error()) {
        return redis::ErrorStatus(replies.back().text, server_);
      }
      return reply.status();
    }
    replies.push_back(*std::move(reply));
  }
  return replies;
}

absl::Status PlainConnection::Send(std::string_view bytes, base::Instant deadline) {
  while (!bytes.empty()) {
    const IoResult put = transport_->Write(bytes);
    if (put.kind == IoResult::Kind::kDone) {
      bytes.remove_prefix(put.bytes);
    } else if (put.kind != IoResult::Kind::kAgain) {
      return absl::OkStatus();  // why it hung up can be read
    } else if (deadline <= base::Now()) {
      return Broken("it takes no bytes");
    } else {
      transport_->Wait(Transport::Interest::kWrite, kNoWakeFd, deadline);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Reply> PlainConnection::Receive(base::Instant deadline) {
  char buffer[size_t{16} << 10];
  for (;;) {
    absl::StatusOr<std::optional<Reply>> reply = parser_.Next();
    if (!reply.ok()) return Broken(std::string(reply.status().message()));
    if (reply->has_value()) return **std::move(reply);
    const IoResult got = transport_->Read(buffer, sizeof buffer);
    if (got.kind == IoResult::Kind::kDone) {
      parser_.Feed({buffer, got.bytes});
    } else if (got.kind != IoResult::Kind::kAgain) {
      return Broken(redis::Describe(got));
    } else if (deadline <= base::Now()) {
      return Broken("no answer in time");
    } else {
      transport_->Wait(Transport::Interest::kRead, kNoWakeFd, deadline);
    }
  }
}

absl::Status PlainConnection::Broken(std::string_view why) const {
  return absl::UnavailableError(
      absl::StrCat("the connection to ", server_, " broke: ", std::string(why)));
}

}  // namespace redlatch::cli
