#include "src/cli/doctor/message_trial.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/cli/doctor/probes.h"
#include "src/cli/term/measures.h"
#include "src/redis/wire/codec.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

using redis::Command;
using redis::PlainConnection;
using redis::Reply;

constexpr absl::Duration kMessagePatience = absl::Seconds(2);  // with one answer
constexpr absl::Duration kSending = absl::Milliseconds(500);
constexpr size_t kMostMessages = 20;

struct Commands {
  std::string_view publish;
  std::string_view subscribe;
  std::string_view unsubscribe;
};
constexpr Commands kPlain = {"PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE"};
constexpr Commands kSharded = {"SPUBLISH", "SSUBSCRIBE", "SUNSUBSCRIBE"};

// Whatever else it is says nothing about messages, as that a slot has moved away meanwhile.
absl::Status RefusalOf(const Reply& reply) {
  const redis::ErrorCode code = redis::ClassifyError(reply.text);
  const bool refused =
      code == redis::ErrorCode::kNoPermission || code == redis::ErrorCode::kUnknownCommand;
  return refused ? absl::PermissionDeniedError(reply.text)
                 : absl::FailedPreconditionError(reply.text);
}

}  // namespace

absl::Status SendMessages(const redis::Url& url, const std::string& channel,
                          PlainConnection& speaker, base::Instant deadline, DoctorFacts* facts) {
  const auto soon = [&] { return std::min(deadline, base::Now() + kMessagePatience); };
  const Commands& say = url.in_cluster ? kSharded : kPlain;
  const auto probed = [&](std::string_view command, const Reply& reply) {
    facts->probes.push_back({.command = absl::AsciiStrToLower({command.data(), command.size()}),
                             .outcome = ProbeOutcome(reply)});
  };
  auto opened = PlainConnection::Open(url, soon());
  if (!opened.ok()) {
    facts->message = absl::FailedPreconditionError(opened.status().message());
    return absl::OkStatus();
  }
  PlainConnection listener = *std::move(opened);
  const auto subscribed = listener.Call(Command{say.subscribe, channel}, soon());
  if (!subscribed.ok()) return subscribed.status();
  probed(say.subscribe, *subscribed);
  if (subscribed->is_error()) {
    facts->message = RefusalOf(*subscribed);
    return absl::OkStatus();
  }
  std::vector<absl::Duration> times;
  const base::Instant until = base::Now() + kSending;
  while (times.empty() || (times.size() < kMostMessages && base::Now() < until)) {
    const base::Instant sent = base::Now();
    const auto published = speaker.Call(Command{say.publish, channel, "x"}, soon());
    if (!published.ok()) return published.status();
    if (published->is_error()) {
      facts->message = RefusalOf(*published);
      return absl::OkStatus();
    }
    if (!listener.Receive(soon()).ok()) {
      facts->message = absl::DeadlineExceededError(
          published->integer == 0
              ? std::string("this address leads to several servers: one connection subscribed, "
                            "and another that published found no subscriber")
              : absl::StrCat("none came within ", absl::FormatDuration(kMessagePatience)));
      return absl::OkStatus();
    }
    times.push_back(base::Now() - sent);
  }
  facts->message = SpreadOf(std::move(times)).p50;
  const auto left = listener.Call(Command{say.unsubscribe, channel}, soon());
  if (!left.ok()) return left.status();
  probed(say.unsubscribe, *left);
  return absl::OkStatus();
}

}  // namespace redlatch::cli
