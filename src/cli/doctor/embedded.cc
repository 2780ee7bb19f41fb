#include "src/cli/doctor/embedded.h"

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "src/cli/doctor/checks.h"
#include "src/redis/embedded/directory.h"
#include "src/redis/embedded/embedded.h"

namespace redlatch::cli {
namespace {

// The parent of a process; 0 where that can't be seen.
int64_t ParentOf(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string stat;
  std::getline(file, stat, '\0');  // of what is left of it: the process may end meanwhile
  // "17 (a name, with anything in it) S 16 ..."
  const size_t behind_name = stat.rfind(") ");
  if (behind_name == std::string::npos || behind_name + 4 > stat.size()) return 0;
  const size_t begin = behind_name + 4;
  int64_t parent = 0;
  return absl::SimpleAtoi(stat.substr(begin, stat.find(' ', begin) - begin), &parent) ? parent : 0;
}

}  // namespace

EmbeddedLook::EmbeddedLook(const redis::Url& url) {
  if (url.kind != redis::Url::Kind::kEmbedded) return;
  const absl::StatusOr<std::string> directory = redis::EmbeddedDirectory(url.path);
  directory_ = directory.value_or(url.path);
  const absl::StatusOr<std::optional<std::string>> socket = redis::FindEmbeddedServer(url.path);
  was_there_ = socket.ok() && socket->has_value();
}

std::optional<EmbeddedFacts> EmbeddedLook::Facts(const Told<Fields>& info) const {
  if (!directory_) return std::nullopt;
  EmbeddedFacts facts = {.directory = *directory_, .started_by_us = !was_there_};
  facts.server_pid = NumberIn(info, "process_id").value_or(0);
  if (facts.server_pid > 0) facts.keeper_pid = ParentOf(facts.server_pid);
  // A keeper that has died leaves its server to init.
  if (facts.keeper_pid == 1) facts.keeper_pid = 0;
  return facts;
}

}  // namespace redlatch::cli
