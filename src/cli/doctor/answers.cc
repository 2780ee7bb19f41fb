#include "src/cli/doctor/answers.h"

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/redis/wire/errors.h"

namespace redlatch::cli {
namespace {

using redis::Reply;
using Type = redis::Reply::Type;

absl::Status Refusal(const Reply& reply) {
  if (!reply.is_error()) return absl::InternalError("an answer of an unknown form");
  if (redis::ClassifyError(reply.text) == redis::ErrorCode::kNoPermission) {
    return absl::PermissionDeniedError(reply.text);
  }
  return absl::FailedPreconditionError(reply.text);
}

// "name" and what follows the separator.
std::pair<std::string, std::string> Split(absl::string_view line, char separator) {
  return absl::StrSplit(line, absl::MaxSplits(separator, 1));
}

int64_t NumberOr(const Fields& fields, std::string_view name, int64_t otherwise) {
  int64_t number = otherwise;
  const auto found = fields.find(name);
  if (found == fields.end() || !absl::SimpleAtoi(found->second, &number)) return otherwise;
  return number;
}

std::string TextOr(const Fields& fields, std::string_view name, const std::string& otherwise) {
  const auto found = fields.find(name);
  return found == fields.end() ? otherwise : found->second;
}

// "a=1,b=2"
Fields Pairs(absl::string_view text, char between) {
  Fields fields;
  for (const absl::string_view pair : absl::StrSplit(text, between, absl::SkipEmpty())) {
    fields.insert(Split(pair, '='));
  }
  return fields;
}

}  // namespace

Told<Fields> InfoAnswer(const Reply& reply) {
  if (reply.type != Type::kString) return Refusal(reply);
  Fields fields;
  for (absl::string_view line : absl::StrSplit(reply.text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    fields.insert(Split(line, ':'));
  }
  // Valkey's name for it.
  if (const auto mode = fields.find("server_mode"); mode != fields.end()) {
    fields.emplace("redis_mode", mode->second);
  }
  return fields;
}

Told<Fields> PairsAnswer(const Reply& reply) {
  if (!reply.is_array()) return Refusal(reply);
  Fields fields;
  for (size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    fields[absl::AsciiStrToLower(reply.elements[i].text)] = reply.elements[i + 1].text;
  }
  return fields;
}

Told<Fields> ConfigAnswer(const Reply& reply) {
  Told<Fields> fields = PairsAnswer(reply);
  if (fields.ok() && fields->empty()) {
    return absl::FailedPreconditionError("CONFIG GET tells nothing");
  }
  return fields;
}

Told<std::vector<Delay>> SlowLogAnswer(const Reply& reply, absl::Time now) {
  if (!reply.is_array()) return Refusal(reply);
  std::vector<Delay> commands;
  for (const Reply& entry : reply.elements) {
    if (entry.elements.size() < 4 || entry.elements[3].elements.empty()) continue;
    commands.push_back({.what = entry.elements[3].elements[0].text,
                        .took = absl::Microseconds(entry.elements[2].integer),
                        .ago = now - absl::FromUnixSeconds(entry.elements[1].integer)});
  }
  return commands;
}

Told<std::vector<Delay>> LatencyAnswer(const Reply& reply, absl::Time now) {
  if (!reply.is_array()) return Refusal(reply);
  std::vector<Delay> spikes;
  for (const Reply& entry : reply.elements) {
    if (entry.elements.size() < 4) continue;
    spikes.push_back({.what = entry.elements[0].text,
                      .took = absl::Milliseconds(entry.elements[3].integer),
                      .ago = now - absl::FromUnixSeconds(entry.elements[1].integer)});
  }
  return spikes;
}

Told<std::vector<PubSubBacklog>> ClientListAnswer(const Reply& reply) {
  if (reply.type != Type::kString) return Refusal(reply);
  std::vector<PubSubBacklog> backlogs;
  for (const absl::string_view line : absl::StrSplit(reply.text, '\n', absl::SkipWhitespace())) {
    const Fields client = Pairs(line, ' ');
    backlogs.push_back({.address = TextOr(client, "addr", "?"),
                        .name = TextOr(client, "name", ""),
                        .bytes = NumberOr(client, "omem", 0)});
  }
  return backlogs;
}

Told<absl::Time> TimeAnswer(const Reply& reply) {
  int64_t seconds = 0;
  int64_t micros = 0;
  if (!reply.is_array() || reply.elements.size() != 2 ||
      !absl::SimpleAtoi(reply.elements[0].text, &seconds) ||
      !absl::SimpleAtoi(reply.elements[1].text, &micros)) {
    return Refusal(reply);
  }
  return absl::FromUnixSeconds(seconds) + absl::Microseconds(micros);
}

Told<Holdback> HoldbackAnswer(const Reply& reply) {
  if (reply.is_error()) return Refusal(reply);
  const std::vector<std::string> words = absl::StrSplit(reply.text, ' ');
  int64_t until_ms = 0;
  int64_t length_ms = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[1], &until_ms) ||
      !absl::SimpleAtoi(words[2], &length_ms)) {
    return absl::NotFoundError("no such record");
  }
  return Holdback{.until = absl::FromUnixMillis(until_ms), .length = absl::Milliseconds(length_ms)};
}

std::vector<Replica> ReplicasIn(const Fields& info) {
  std::vector<Replica> replicas;
  for (const auto& [name, value] : info) {
    int64_t number = 0;
    if (!name.starts_with("slave") || !absl::SimpleAtoi(name.substr(5), &number)) continue;
    const Fields replica = Pairs(value, ',');
    replicas.push_back(
        {.address = absl::StrCat(TextOr(replica, "ip", "?"), ":", TextOr(replica, "port", "?")),
         .state = TextOr(replica, "state", "unknown"),
         .lag = absl::Seconds(NumberOr(replica, "lag", 0))});
  }
  return replicas;
}

}  // namespace redlatch::cli
