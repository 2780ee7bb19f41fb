#include "src/engine/protocol/description.h"

#include <errno.h>
#include <unistd.h>

#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace redlatch::engine {

std::string DescriptionKey(std::string_view client) {
  return absl::StrCat(std::string(kDescriptionKeyPrefix), std::string(client));
}

std::string_view ClientOf(std::string_view hold) {
  constexpr size_t kSize = 32;
  if (hold.ends_with('k')) hold.remove_suffix(1);
  const bool ours = hold.size() > kSize + 1 && hold[kSize] == ':' &&
                    hold.find_first_not_of("0123456789abcdef") == kSize &&
                    hold.find_first_not_of("0123456789", kSize + 1) == hold.npos;
  return ours ? hold.substr(0, kSize) : std::string_view();
}

LockInfo::Process ThisProcess(std::string_view program) {
  LockInfo::Process process;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) process.host = host.data();
  process.pid = getpid();
  process.program = program.empty() ? program_invocation_short_name : program;
  return process;
}

redis::Command DescribeCommand(std::string_view client, const LockInfo::Process& process,
                               absl::Time since, absl::Duration lifetime) {
  const std::string millis = absl::StrCat(absl::ToInt64Milliseconds(lifetime));
  return redis::Command(
      {"SET", DescriptionKey(client), WriteDescription(process, since), "PX", millis});
}

void AddProcesses(redis::Deployment& deployment, base::Instant deadline, LockInfo& info) {
  std::map<std::string_view, std::vector<LockInfo::Party*>> parties;
  for (auto* const list : {&info.holders, &info.waiters}) {
    for (LockInfo::Party& party : *list) {
      if (const std::string_view client = ClientOf(party.hold); !client.empty()) {
        parties[client].push_back(&party);
      }
    }
  }
  if (parties.empty()) return;
  std::vector<std::string> keys;
  for (const auto& [client, its] : parties) keys.push_back(DescriptionKey(client));
  std::vector<std::string_view> words = {"MGET"};
  words.insert(words.end(), keys.begin(), keys.end());
  const absl::StatusOr<redis::Reply> reply =
      deployment.Call(words[1], redis::Command(words), deadline);
  if (!reply.ok() || reply->elements.size() != keys.size()) return;
  auto described = reply->elements.begin();
  for (const auto& [client, its] : parties) {
    const auto process = ReadDescription((described++)->text);
    if (!process) continue;
    for (LockInfo::Party* const party : its) party->process = *process;
  }
}

Farewell::Farewell(redis::Deployment& deployment, std::string_view client)
    : deployment_(deployment), key_(DescriptionKey(client)) {}

Farewell::~Farewell() { deployment_.Send(key_, {"DEL", key_}).IgnoreError(); }

}  // namespace redlatch::engine
