#include "src/redis/connect/sentinel_questions.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/utf8.h"
#include "src/redis/connect/plain_connection.h"
#include "src/redis/wire/errors.h"
#include "src/redis/wire/reply.h"

namespace redlatch::redis {
namespace {

int64_t Number(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

absl::Status Unknown(PlainConnection& connection, const Url& url, const HostAndPort& sentinel,
                     base::Instant deadline) {
  std::vector<std::string> names;
  const auto all = connection.Call(Command({"SENTINEL", "MASTERS"}), deadline);
  if (all.ok()) {
    for (const Reply& each : all->elements)
      names.push_back(base::Shown(ValueOf(each, "name"), 100));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the sentinel at ", sentinel.text(), " knows no primary called '",
                   url.sentinels->options().primary, "'",
                   names.empty() ? "" : absl::StrCat(" (but ", absl::StrJoin(names, ", "), ")")));
}

}  // namespace

std::optional<HostAndPort> MakeHostAndPort(std::string_view host, std::string_view port) {
  const int64_t number = Number(port);
  if (!IsHost(host) || number < 1 || number > 65535) return std::nullopt;
  return HostAndPort{.host = std::string(host), .port = static_cast<uint16_t>(number)};
}

Url AsToSentinels(const Url& url) {
  const Sentinels::Options& options = url.sentinels->options();
  Url theirs = url;
  theirs.user = options.user;
  theirs.password = options.password;
  theirs.db = 0;
  if (!options.tls) theirs.tls = nullptr;
  return theirs;
}

Url UrlOfSentinel(const Url& url, const HostAndPort& sentinel) {
  return UrlTowards(AsToSentinels(url), sentinel);
}

absl::StatusOr<SentinelAnswer> AskSentinel(const Url& url, const HostAndPort& sentinel,
                                           base::Instant deadline) {
  auto connection = PlainConnection::Open(UrlOfSentinel(url, sentinel), deadline);
  if (!connection.ok()) return connection.status();
  const std::string& name = url.sentinels->options().primary;
  const Command questions[] = {
      Command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name}), Command({"SENTINEL", "MASTER", name}),
      Command({"SENTINEL", "SENTINELS", name}), Command({"SENTINEL", "MYID"})};
  auto replies = connection->CallAll(questions, deadline);
  if (!replies.ok()) return replies.status();
  const Reply& where = (*replies)[0];
  if (where.is_error()) {
    return ErrorStatus(where.text, absl::StrCat("the sentinel at ", sentinel.text()));
  }
  if (where.elements.empty()) return Unknown(*connection, url, sentinel, deadline);
  const std::optional<HostAndPort> primary =
      where.elements.size() == 2 ? MakeHostAndPort(where.elements[0].text, where.elements[1].text)
                                 : std::nullopt;
  if (!primary) {
    return absl::UnavailableError(absl::StrCat("the sentinel at ", sentinel.text(),
                                               " names no address: ", where.DebugString()));
  }
  SentinelAnswer answer{.id = sentinel.text(), .primary = *primary, .epoch = 0, .others = {}};
  answer.epoch = Number(ValueOf((*replies)[1], "config-epoch"));
  for (const Reply& each : (*replies)[2].elements) {
    if (auto other = MakeHostAndPort(ValueOf(each, "ip"), ValueOf(each, "port"))) {
      answer.others.push_back(*std::move(other));
    }
  }
  const Reply& id = (*replies)[3];
  if (!id.is_error() && !id.text.empty()) answer.id = id.text;
  return answer;
}

absl::StatusOr<ServerRole> AskRole(const Url& url, const HostAndPort& server,
                                   base::Instant deadline) {
  auto connection = PlainConnection::Open(UrlTowards(url, server), deadline);
  if (absl::IsPermissionDenied(connection.status())) {
    return ServerRole{.primary = true, .replica_of = {}};
  }
  if (!connection.ok()) return connection.status();
  const Command questions[] = {Command({"ROLE"}), Command({"HELLO"})};
  auto replies = connection->CallAll(questions, deadline);
  if (!replies.ok()) return replies.status();
  const Reply& role = (*replies)[0];
  const Reply& hello = (*replies)[1];
  for (const Reply* each : {&role, &hello}) {
    const ErrorCode error = each->is_error() ? ClassifyError(each->text) : ErrorCode::kOther;
    if (IsTransient(error)) return ErrorStatus(each->text, server.text());
  }
  if (!role.is_error() && role.elements.size() >= 3 && role.elements[0].text != "master") {
    const std::string port = role.elements[2].text.empty()
                                 ? std::to_string(role.elements[2].integer)
                                 : role.elements[2].text;
    return ServerRole{.primary = false, .replica_of = MakeHostAndPort(role.elements[1].text, port)};
  }
  return ServerRole{.primary = ValueOf(hello, "role") != "replica", .replica_of = {}};
}

}  // namespace redlatch::redis
