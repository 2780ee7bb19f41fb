#include "src/lock/description.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/lock/key_set.h"
#include "src/lock/kinds.h"

namespace redlatch::internal {
namespace {

constexpr size_t kLongestPart = 255;

// Makes the text fit one line: without control characters, and not cut within a character.
std::string Tidy(std::string_view text) {
  size_t size = std::min(text.size(), kLongestPart);
  while (size > 0 && size < text.size() &&
         (static_cast<unsigned char>(text[size]) & 0xC0U) == 0x80U) {
    --size;
  }
  std::string tidy(text.substr(0, size));
  const auto control = [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; };
  std::replace_if(tidy.begin(), tidy.end(), control, '?');
  return tidy;
}

}  // namespace

std::string DescriptionKey(std::string_view client) {
  return absl::StrCat(std::string(kDescriptionKeyPrefix), std::string(client));
}

std::string_view ClientOf(std::string_view hold) {
  constexpr size_t kSize = 32;
  if (hold.ends_with('k') || hold.ends_with('n') || hold.ends_with('w')) hold.remove_suffix(1);
  const bool ours = hold.size() > kSize + 1 && hold[kSize] == ':' &&
                    hold.find_first_not_of("0123456789abcdef") == kSize &&
                    hold.find_first_not_of("0123456789", kSize + 1) == hold.npos;
  return ours ? hold.substr(0, kSize) : std::string_view();
}

bool MayBeCached(std::string_view hold) { return hold.ends_with('k') && !ClientOf(hold).empty(); }

LockInfo::Process ThisProcess(std::string_view program) {
  LockInfo::Process process;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) process.host = host.data();
  process.pid = getpid();
  process.program = program.empty() ? program_invocation_short_name : program;
  return process;
}

std::string WriteDescription(const LockInfo::Process& process, absl::Time since) {
  std::string host = Tidy(process.host);
  std::replace(host.begin(), host.end(), ' ', '_');
  return absl::StrCat(process.pid, " ", absl::ToUnixMicros(since), " ", host, " ",
                      Tidy(process.program));
}

std::optional<LockInfo::Process> ReadDescription(std::string_view text) {
  const std::vector<std::string> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), absl::MaxSplits(' ', 3));
  LockInfo::Process process;
  int64_t since = 0;
  if (words.size() < 4 || !absl::SimpleAtoi(words[0], &process.pid) || process.pid <= 0 ||
      !absl::SimpleAtoi(words[1], &since)) {
    return std::nullopt;
  }
  process.host = words[2];
  process.program = words[3];
  return process;
}

redis::Command DescribeCommand(std::string_view client, const LockInfo::Process& process,
                               absl::Time since, absl::Duration lifetime, bool even_if_full) {
  // DEL needs no memory and lets SET through.
  constexpr std::string_view kScript =
      "redis.call('DEL', KEYS[1]) return redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])";
  const std::string millis = absl::StrCat(absl::ToInt64Milliseconds(lifetime));
  const std::string key = DescriptionKey(client), text = WriteDescription(process, since);
  return even_if_full ? redis::Command({"EVAL", kScript, "1", key, text, millis})
                      : redis::Command({"SET", key, text, "PX", millis});
}

void AddProcesses(redis::ServerGroup& server_group, base::Instant deadline, LockInfo& info) {
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
  for (LockInfo::Party& holder : info.holders) {
    holder.stays_taken = StaysTaken(holder.hold);
    if (holder.owner == kTaken) holder.owner = std::string(ClientOf(holder.hold));
  }
  const std::vector<std::string> texts = server_group.Get(keys, deadline);
  auto text = texts.begin();
  for (const auto& [client, its] : parties) {
    const auto process = ReadDescription(*text++);
    if (!process) continue;
    for (LockInfo::Party* const party : its) party->process = *process;
  }
}

}  // namespace redlatch::internal
