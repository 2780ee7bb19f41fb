#include "src/cli/run/job.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "src/base/uninterrupted.h"
#include "src/cli/run/family.h"
#include "src/cli/term/outcome.h"

namespace redlatch::cli {
namespace {

int LookFor(const std::string& path) {
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

}  // namespace

int FindCommand(const std::string& command) {
  if (command.find('/') != std::string::npos) return LookFor(command);
  const char* const variable = std::getenv("PATH");
  std::string_view rest = variable != nullptr ? variable : "/bin:/usr/bin";
  int found = kNotFound;
  for (bool more = !command.empty(); more;) {
    const size_t colon = rest.find(':');
    const std::string_view directory = rest.substr(0, colon);
    const int here =
        LookFor((directory.empty() ? "." : std::string(directory)) + "/" + std::string(command));
    if (here == 0) return 0;
    if (here == kNotExecutable) found = here;
    more = colon != std::string_view::npos;
    if (more) rest.remove_prefix(colon + 1);
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
    // Whatever happens to its parent. That has one thread now, and this is the one to outlive all
    // others; but a set-user-ID program clears it.
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
  if (told.empty()) _exit(0);  // called off
  for (size_t begin = 0, end = 0; (end = told.find('\0', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string variable = told.substr(begin, end - begin);
    const size_t equals = variable.find('=');
    if (equals == std::string::npos) {
      unsetenv(variable.c_str());
    } else {
      setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, /*overwrite=*/1);
    }
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
    error = ECHILD;  // somebody has killed it
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
  Signal(signal);  // although /proc should not be there
  // No fork escapes this one, while what is read in /proc is old.
  if (signal == SIGKILL && own_group_ && !code_) kill(-pid_, SIGKILL);
  for (const pid_t pid : Family(code_ ? 0 : pid_, 0)) {
    if (code_ || pid != pid_) kill(pid, signal);
  }
}

bool Job::Lives() const {
  if (!code_) return true;
  // No child at all: the usual case, at the price of a system call.
  siginfo_t ignored = {};
  if (waitid(P_ALL, 0, &ignored, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD) return false;
  return !Family(0, 0).empty();
}

}  // namespace redlatch::cli
