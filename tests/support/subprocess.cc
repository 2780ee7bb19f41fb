#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "tests/support/fatal.h"

namespace redlatch::support {
namespace {

// It is locked from the creation of a pipe until the parent has closed the child's end. Otherwise
// another child could inherit that end, and keep the pipe open after its owner's death.
base::Mutex fork_mutex;

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::string_view NameOf(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

std::vector<std::string> Environment(const ExecOptions& options) {
  std::vector<std::string> result = options.environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view name = NameOf(*variable);
    bool hidden = !options.hidden_prefix.empty() && name.starts_with(options.hidden_prefix);
    for (const std::string& own : options.environment) hidden = hidden || NameOf(own) == name;
    if (!hidden) result.emplace_back(*variable);
  }
  return result;
}

// Called in the child, so it must neither allocate nor lock. dup2() clears the close-on-exec flag,
// but not if both descriptors are the same.
void Redirect(int from, int to) {
  if (from == to) {
    fcntl(from, F_SETFD, 0);
  } else {
    dup2(from, to);
  }
}

void CloseOnExecFrom(unsigned first) {
#ifdef SYS_close_range
  constexpr unsigned kCloseRangeCloexec = 4;
  syscall(SYS_close_range, first, ~0U, kCloseRangeCloexec);
#endif
}

void PrepareDescriptors(int pipe, const ExecOptions& options) {
  CloseOnExecFrom(3);
  if (options.columns > 0) {
    setsid();
    ioctl(pipe, TIOCSCTTY, 0);
    Redirect(pipe, STDERR_FILENO);
  }
  if (!options.output_path.empty()) {
    const int output = open(options.output_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    Redirect(output, STDOUT_FILENO);
    Redirect(output, STDERR_FILENO);
    Redirect(open("/dev/null", O_RDONLY), STDIN_FILENO);
    CloseOnExecFrom(3);
  } else if (options.pipe_descriptor >= 0) {
    Redirect(pipe, options.pipe_descriptor);
  } else {
    Redirect(pipe, STDIN_FILENO);
    Redirect(pipe, STDOUT_FILENO);
  }
}

struct Ends {
  base::UniqueFd ours;
  base::UniqueFd childs;
};

Ends MakeSocketPair() {
  int ends[2];
  CheckErrno(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
  return {base::UniqueFd(ends[0]), base::UniqueFd(ends[1])};
}

Ends MakeTerminal(uint16_t columns) {
  base::UniqueFd ours(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  CheckErrno(ours.valid() && grantpt(ours.get()) == 0 && unlockpt(ours.get()) == 0, "posix_openpt");
  char name[64];
  CheckErrno(ptsname_r(ours.get(), name, sizeof name) == 0, "ptsname_r");
  base::UniqueFd childs(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  CheckErrno(childs.valid(), name);
  const winsize size = {.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  CheckErrno(ioctl(ours.get(), TIOCSWINSZ, &size) == 0, "TIOCSWINSZ");
  return {std::move(ours), std::move(childs)};
}

void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the call of prctl()
}

}  // namespace

bool LinePipe::Write(std::string text) {
  while (!text.empty()) {
    ssize_t sent = send(end_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == ENOTSOCK) sent = write(end_.get(), text.data(), text.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    text.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

std::optional<std::string> LinePipe::ReadLine(absl::Duration timeout) {
  const base::Instant deadline = base::Now() + timeout;
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd wait{end_.get(), POLLIN, 0};
    const int ready = base::Poll(&wait, 1, deadline);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char buffer[4096];
    const ssize_t got = read(end_.get(), buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<size_t>(got));
  }
}

void LinePipe::CloseWrite() { shutdown(end_.get(), SHUT_WR); }

std::unique_ptr<Child> Child::Fork(std::function<int(LinePipe&)> body) {
  return std::unique_ptr<Child>(new Child([body = std::move(body)](base::UniqueFd socket) {
    LinePipe pipe(std::move(socket));
    return body(pipe);
  }));
}

int CodeOfFork(const std::function<int()>& body) {
  const auto child = Child::Fork([&](LinePipe&) { return body(); });
  const std::optional<ExitStatus> status = child->WaitFor(absl::Seconds(10));
  if (!status.has_value()) return -1;
  return status->signal != 0 ? 1000 + status->signal : status->code;
}

std::unique_ptr<Child> Child::Exec(std::vector<std::string> argv, ExecOptions options) {
  std::vector<std::string> environment = Environment(options);
  std::vector<char*> arguments = Pointers(argv);
  std::vector<char*> variables = Pointers(environment);
  return std::unique_ptr<Child>(new Child(
      [&](base::UniqueFd pipe) {
        PrepareDescriptors(pipe.get(), options);
        execvpe(arguments[0], arguments.data(), variables.data());
        constexpr std::string_view kMessage = "redlatch test support: this program can't be run: ";
        (void)!write(STDERR_FILENO, kMessage.data(), kMessage.size());
        (void)!write(STDERR_FILENO, arguments[0], std::strlen(arguments[0]));
        (void)!write(STDERR_FILENO, "\n", 1);
        return 127;
      },
      options.columns));
}

bool CanMakeTerminals() {
  return base::UniqueFd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)).valid();
}

Child::Child(ChildMain child_main, uint16_t columns) : owner_(getpid()) {
  base::MutexLock lock(mutex_);
  keeper_ = std::thread([this, &child_main, columns] { Keep(child_main, columns); });
  while (pid_ == 0) changed_.Wait(mutex_);
}

void Child::Keep(const ChildMain& child_main, uint16_t columns) {
  const pid_t parent = getpid();
  fork_mutex.Lock();
  Ends ends = columns == 0 ? MakeSocketPair() : MakeTerminal(columns);
  const pid_t pid = fork();
  if (pid == 0) {
    DieWithParent(parent);
    ends.ours.Reset();
    fork_mutex.Unlock();
    _exit(child_main(std::move(ends.childs)));
  }
  CheckErrno(pid > 0, "fork");
  ends.childs.Reset();
  fork_mutex.Unlock();
  {
    base::MutexLock lock(mutex_);
    pipe_ = std::make_unique<LinePipe>(std::move(ends.ours));
    pid_ = pid;
    changed_.SignalAll();
  }
  // Waits for the end first, then reaps under the mutex, so that Signal() never uses the number of
  // another process.
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  base::MutexLock lock(mutex_);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) status_.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) status_.signal = WTERMSIG(status);
  pid_ = -1;
  changed_.SignalAll();
}

Child::~Child() {
  if (getpid() != owner_) {
    new std::thread(std::move(keeper_));  // a forked child does not have this thread to join
    return;
  }
  Kill();
  keeper_.join();
}

pid_t Child::pid() const {
  base::MutexLock lock(mutex_);
  return pid_;
}

void Child::Signal(int signal) {
  base::MutexLock lock(mutex_);
  if (pid_ > 0) kill(pid_, signal);
}

void Child::Kill() {
  Signal(SIGKILL);
  Wait();
}

void Child::Stop() {
  const pid_t pid = this->pid();
  if (pid < 0) return;
  Signal(SIGSTOP);
  // The loop also ends if the child ends instead of stopping. Keep() reaps the child, so this only
  // waits (WEXITED | WNOWAIT).
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
}

ExitStatus Child::Wait() { return *WaitFor(absl::InfiniteDuration()); }

std::optional<ExitStatus> Child::WaitFor(absl::Duration timeout) {
  const base::Instant deadline = base::Now() + timeout;
  base::MutexLock lock(mutex_);
  while (pid_ != -1) {
    if (base::Until(deadline) == absl::ZeroDuration()) return std::nullopt;
    changed_.WaitUntil(mutex_, deadline);
  }
  return status_;
}

}  // namespace redlatch::support
