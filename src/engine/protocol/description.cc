#include "src/engine/protocol/description.h"

#include <errno.h>
#include <unistd.h>

#include <array>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"

namespace redlatch::engine {
namespace {

std::string KeyOf(std::string_view client) {
  return absl::StrCat(std::string(kDescriptionKeyPrefix), std::string(client));
}

}  // namespace

std::string_view ClientOf(std::string_view grant) {
  constexpr size_t kSize = 32;
  if (grant.ends_with('k')) grant.remove_suffix(1);
  const bool ours = grant.size() > kSize + 1 && grant[kSize] == ':' &&
                    grant.find_first_not_of("0123456789abcdef") == kSize &&
                    grant.find_first_not_of("0123456789", kSize + 1) == grant.npos;
  return ours ? grant.substr(0, kSize) : std::string_view();
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
  return redis::Command({"SET", KeyOf(client), WriteDescription(process, since), "PX", millis});
}

void AddProcesses(redis::SharedConnection& connection, base::Instant deadline, LockInfo& info) {
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
  for (const auto& [client, its] : parties) keys.push_back(KeyOf(client));
  std::vector<std::string_view> words = {"MGET"};
  words.insert(words.end(), keys.begin(), keys.end());
  const absl::StatusOr<redis::Reply> reply = connection.Call(redis::Command(words), deadline);
  if (!reply.ok() || reply->elements.size() != keys.size()) return;
  auto described = reply->elements.begin();
  for (const auto& [client, its] : parties) {
    const auto process = ReadDescription((described++)->text);
    if (!process) continue;
    for (LockInfo::Party* const party : its) party->process = *process;
  }
}

Farewell::Farewell(redis::SharedConnection& connection, std::string_view client)
    : connection_(connection), command_({"DEL", KeyOf(client)}) {}

Farewell::~Farewell() { connection_.Send(command_).IgnoreError(); }

}  // namespace redlatch::engine
