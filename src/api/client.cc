#include "redlatch/client.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "src/base/clock.h"
#include "src/base/error_address.h"
#include "src/base/status.h"
#include "src/base/utf8.h"
#include "src/lock/client_core.h"
#include "src/lock/key_set.h"
#include "src/lock/state/timing.h"
#include "src/quorum/quorum.h"
#include "src/redis/server_group/server_group.h"
#include "src/redis/url/url.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch {
namespace {

void Warn(const ClientOptions& options, const std::string& message) {
  if (options.on_warning) {
    options.on_warning(message);
  } else {
    std::fprintf(stderr, "redlatch: warning: %s\n", base::Shown(message, 4000).c_str());
  }
}

}  // namespace

Client::Client(std::shared_ptr<internal::ClientCore> core) : core_(std::move(core)) {}

absl::StatusOr<Client> Client::Connect(std::string_view url, const ClientOptions& options) {
  absl::StatusOr<redis::Url> parsed = redis::ParseUrl(url);
  absl::Status bad = parsed.status();
  bad.Update(internal::CheckKeyPrefix(options.key_prefix));
  if (bad.ok() && options.unreachable_after < absl::ZeroDuration()) {
    bad = absl::InvalidArgumentError("ClientOptions::unreachable_after must not be negative");
  }
  if (!bad.ok()) return base::WithAddress(bad);
  Client client(internal::ClientCore::Make(*std::move(parsed), options, quorum::Quorum::Make));
  if (options.connect == ConnectPolicy::kLazy) return client;
  redis::ServerGroup& server_group = client.core()->server_group();
  const base::Instant deadline =
      base::Now() + std::min(client.core()->connect_timeout() + client.core_->command_timeout(),
                             options.unreachable_after + internal::kAnswerGrace);
  std::vector<std::string> warnings;
  absl::Status connected = server_group.Connect(deadline, warnings);
  if (!connected.ok()) return base::WithAddress(base::WithoutPayloads(connected));
  for (std::string& warning : warnings) {
    base::AddAddress(warning);
    Warn(options, warning);
  }
  return client;
}

absl::StatusOr<absl::Duration> Client::Ping() const {
  if (absl::Status refused = core_->Refusal(); !refused.ok()) return refused;
  const redis::Command ping{"PING"};
  const base::Instant sent = base::Now();
  const absl::StatusOr<redis::Reply> reply =
      core_->server_group().Call({}, ping, sent + core_->command_timeout());
  if (!reply.ok()) return base::WithAddress(base::WithoutPayloads(reply.status()));
  if (reply->is_error()) {
    return base::WithAddress(base::WithoutPayloads(redis::ErrorStatus(reply->text, server())));
  }
  return base::Now() - sent;
}

ClientStats Client::Stats() const { return core_->Stats(); }

const std::string& Client::server() const { return core_->server(); }

}  // namespace redlatch
