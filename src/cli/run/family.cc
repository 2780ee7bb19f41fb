#include "src/cli/run/family.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <unordered_map>

namespace redlatch::cli {
namespace {

struct Process {
  char state = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended() const { return state == 'Z' || state == 'X'; }
};

std::optional<Process> Read(const char* pid) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  std::array<char, 1024> text = {};
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  if (length <= 0) return std::nullopt;
  // The name before it, in parentheses, may contain anything.
  const char* const behind_name = std::strrchr(text.data(), ')');
  Process process;
  int group = 0;
  if (behind_name == nullptr || std::sscanf(behind_name + 1, " %c %d %d %d", &process.state,
                                            &process.parent, &group, &process.session) != 4) {
    return std::nullopt;
  }
  return process;
}

// In a PID namespace with the /proc of another, the numbers there are not ours.
bool NumbersAreOurs() {
  std::array<char, 32> self = {};
  return readlink("/proc/self", self.data(), self.size() - 1) > 0 &&
         std::atoi(self.data()) == getpid();
}

std::unordered_map<pid_t, Process> AllProcesses() {
  std::unordered_map<pid_t, Process> all;
  if (!NumbersAreOurs()) return all;
  DIR* const directory = opendir("/proc");
  if (directory == nullptr) return all;
  while (const dirent* entry = readdir(directory)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid <= 0) continue;
    if (const std::optional<Process> process = Read(entry->d_name)) all.emplace(pid, *process);
  }
  closedir(directory);
  return all;
}

}  // namespace

std::vector<pid_t> Family(pid_t command, pid_t keeper) {
  const pid_t self = getpid();
  const pid_t session = getsid(0);
  const auto all = AllProcesses();
  // The parent of a container's first process is 0, as is no keeper.
  const auto adopts = [&](pid_t pid) { return pid == self || (keeper > 0 && pid == keeper); };

  std::vector<pid_t> family;
  for (const auto& [pid, process] : all) {
    if (adopts(pid)) continue;
    // Up to the one that is a child of ours, or of the keeper. A reused pid could close a circle.
    pid_t top = pid;
    const Process* at = &process;
    size_t steps = 0;
    while (!adopts(at->parent) && steps++ < all.size()) {
      const auto parent = all.find(at->parent);
      if (parent == all.end()) break;
      top = parent->first;
      at = &parent->second;
    }
    if (!adopts(at->parent) || (top != command && at->session != session)) continue;
    if (!process.ended()) {
      family.push_back(pid);
    } else if (process.parent == self && pid != command) {
      waitpid(pid, nullptr, WNOHANG);
    }
  }
  return family;
}

std::vector<pid_t> Ancestors() {
  std::vector<pid_t> ancestors;
  if (!NumbersAreOurs()) return ancestors;
  for (pid_t pid = getppid(); pid > 1;) {
    ancestors.push_back(pid);
    const std::optional<Process> process = Read(std::to_string(pid).c_str());
    pid = process ? process->parent : 0;
  }
  return ancestors;
}

}  // namespace redlatch::cli
