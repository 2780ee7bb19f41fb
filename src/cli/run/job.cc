#include "src/cli/run/job.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/base/uninterrupted.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {
namespace {

int CheckExecutable(const std::string& path) {
  struct stat what = {};
  if (stat(path.c_str(), &what) != 0) return kNotFound;
  return S_ISREG(what.st_mode) && access(path.c_str(), X_OK) == 0 ? 0 : kNotExecutable;
}

ssize_t ReadSome(const base::UniqueFd& from, void* bytes, size_t size) {
  return base::Uninterrupted([&] { return read(from.get(), bytes, size); });
}

bool WriteAll(const base::UniqueFd& to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put =
        base::Uninterrupted([&] { return write(to.get(), bytes.data(), bytes.size()); });
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

struct Process {
  char state = 0;
  pid_t parent = 0;
  pid_t session = 0;
  bool ended() const { return state == 'Z' || state == 'X'; }
};

std::optional<Process> Read(const char* pid) {
  std::ifstream file(std::string("/proc/") + pid + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  // The program's name before these fields, in parentheses, may contain any characters.
  const char* const behind_name = std::strrchr(text.c_str(), ')');
  Process process;
  int group = 0;
  if (behind_name == nullptr || std::sscanf(behind_name + 1, " %c %d %d %d", &process.state,
                                            &process.parent, &group, &process.session) != 4) {
    return std::nullopt;
  }
  return process;
}

// False in a PID namespace that sees the /proc of another one: its process IDs are not ours.
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

int FindCommand(const std::string& command) {
  if (command.find('/') != std::string::npos) return CheckExecutable(command);
  const char* const variable = std::getenv("PATH");
  int found = kNotFound;
  for (const absl::string_view directory :
       absl::StrSplit(variable != nullptr ? variable : "/bin:/usr/bin", ':')) {
    const int here =
        CheckExecutable(absl::StrCat(directory.empty() ? "." : directory, "/", command));
    if (here == 0 && !command.empty()) return 0;
    if (here == kNotExecutable && !command.empty()) found = here;
  }
  return found;
}

Job::Job(const std::vector<std::string>& command, const sigset_t& mask, bool own_group)
    : own_group_(own_group) {
  std::array<int, 2> go = {-1, -1};
  std::array<int, 2> failure = {-1, -1};
  if (pipe2(go.data(), O_CLOEXEC) != 0) return;
  childs_go_ = base::UniqueFd(go[0]);
  go_ = base::UniqueFd(go[1]);
  if (pipe2(failure.data(), O_CLOEXEC) != 0) return;
  failure_ = base::UniqueFd(failure[0]);
  childs_failure_ = base::UniqueFd(failure[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // The child dies with its parent, however the parent dies. The kernel watches the thread that
    // called fork(); that is the parent's first thread, which ends last. A set-user-ID program
    // clears this setting.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kFailure);
    Become(command, mask);
  }
  childs_go_.Reset();
  childs_failure_.Reset();
}

Job::~Job() {
  const bool unstarted = go_.valid();
  go_.Reset();
  if (unstarted && pid_ > 0) {
    base::Uninterrupted([this] { return waitpid(pid_, nullptr, 0); });
  }
}

void Job::Become(const std::vector<std::string>& command, const sigset_t& mask) const {
  close(go_.get());
  close(failure_.get());
  if (own_group_) setpgid(0, 0);
  std::string told;
  std::array<char, 1024> bytes = {};
  for (ssize_t got = 0; (got = ReadSome(childs_go_, bytes.data(), bytes.size())) > 0;) {
    told.append(bytes.data(), static_cast<size_t>(got));
  }
  if (told.empty()) _exit(0);  // Start() was never called
  for (const absl::string_view variable : absl::StrSplit(told, '\0', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(variable, absl::MaxSplits('=', 1));
    unsetenv(parts[0].c_str());
    if (parts.size() > 1) setenv(parts[0].c_str(), parts[1].c_str(), /*overwrite=*/1);
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  (void)!write(childs_failure_.get(), &error, sizeof error);
  _exit(kNotExecutable);
}

int Job::Start(const std::vector<std::string>& environment) {
  std::string told;
  for (const std::string& variable : environment) {
    told += variable;
    told += '\0';
  }
  const bool written = WriteAll(go_, told);
  go_.Reset();
  int error = 0;
  if (!written) {
    error = ECHILD;  // the child was killed
  } else if (ReadSome(failure_, &error, sizeof error) != sizeof error) {
    error = 0;
  }
  failure_.Reset();
  if (error != 0) waitpid(pid_, nullptr, 0);
  return error;
}

std::optional<int> Job::Ended() {
  int status = 0;
  if (!code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    code_ = WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return code_;
}

void Job::Signal(int signal) const {
  if (!code_) kill(pid_, signal);
}

void Job::SignalFamily(int signal) const {
  Signal(signal);  // works without /proc
  // A signal to the group also reaches processes that were forked after /proc was read.
  if (signal == SIGKILL && own_group_ && !code_) kill(-pid_, SIGKILL);
  for (const pid_t pid : Family(code_ ? 0 : pid_, 0)) {
    if (code_ || pid != pid_) kill(pid, signal);
  }
}

bool Job::Lives() const {
  if (!code_) return true;
  // Usually there is no child at all, which one system call shows.
  siginfo_t ignored = {};
  if (waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return false;
  return !Family(0, 0).empty();
}

std::vector<pid_t> Family(pid_t command, pid_t keeper) {
  const pid_t self = getpid();
  const pid_t session = getsid(0);
  const auto all = AllProcesses();
  // The parent of a container's first process is 0, and so is `keeper` if there is none.
  const auto adopts = [&](pid_t pid) { return pid == self || (keeper > 0 && pid == keeper); };

  std::vector<pid_t> family;
  for (const auto& [pid, process] : all) {
    if (adopts(pid)) continue;
    // Goes up to the ancestor that is a child of this process or of the keeper. Since pids are
    // reused, the parents could form a circle, so the number of steps is limited.
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
