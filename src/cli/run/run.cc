// `redlatch run`: the front, of the two processes that watch.h tells of.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "absl/strings/escaping.h"
#include "src/cli/run/hold.h"
#include "src/cli/run/job.h"
#include "src/cli/run/keeper.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {
namespace {

// All but those by which the kernel reports a fault of our own, and those by which a terminal stops
// who uses it out of turn: these are to do what they always do.
sigset_t Attended() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int left :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTTIN, SIGTTOU}) {
    sigdelset(&signals, left);
  }
  return signals;
}

// As with nohup(1). Being blocked it arrives all the same.
bool IsIgnored(int signal) {
  struct sigaction action = {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

bool HasTerminal() {
  const int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  if (terminal >= 0) close(terminal);
  return terminal >= 0;
}

class Front {
 public:
  explicit Front(const RunOptions& options) : options_(options), own_group_(!HasTerminal()) {}

  int Run() {
    if (!StartKeeper()) {
      Complain({"cannot create a process or a file descriptor: ", std::strerror(errno)});
      return kFailure;
    }
    for (;;) {
      std::array<pollfd, 3> events = {{{.fd = signals_, .events = POLLIN, .revents = 0},
                                       {.fd = alarm_.fd(), .events = POLLIN, .revents = 0},
                                       {.fd = link_, .events = POLLIN, .revents = 0}}};
      poll(events.data(), events.size(), -1);
      if (const std::optional<int> code = TakeSignals()) return *code;
      if (events[2].revents != 0) HearKeeper();
      if (events[1].revents != 0 && watch_->deadline.load() <= base::Now()) {
        Complain(
            {"the lock's lease has ended, and the process that renews it did not stop the command: "
             "killed it"});
        kill(keeper_, SIGKILL);
        EndCommand();
        return kLost;
      }
      alarm_.Set(armed_ ? watch_->deadline.load() : base::Instant::Infinite());
    }
  }

 private:
  bool StartKeeper() {
    void* const page =
        mmap(nullptr, sizeof(Watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    watch_ = new (page) Watch;
    std::array<int, 2> ends = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return false;
    link_ = ends[0];

    signal(SIGCHLD, SIG_DFL);  // were it ignored, no child could be waited for
    const sigset_t attended = Attended();
    sigset_t before;
    sigprocmask(SIG_SETMASK, &attended, &before);
    signals_ = signalfd(-1, &attended, SFD_CLOEXEC | SFD_NONBLOCK);
    // Children that the keeper leaves become ours.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (signals_ < 0 || alarm_.fd() < 0) return false;
    keeper_ = fork();
    if (keeper_ == 0) {
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, nullptr);  // a keeper in the background may write to stderr
      close(link_);                             // else it would never hear of our end
      RunKeeper({.options = options_,
                 .mask = before,
                 .own_group = own_group_,
                 .link = ends[1],
                 .watch = watch_});
    }
    close(ends[1]);
    return keeper_ > 0;
  }

  // The code to exit with, once the keeper has ended.
  std::optional<int> TakeSignals() {
    signalfd_siginfo info = {};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        if (const std::optional<int> code = KeeperEnded()) return code;
      } else if (signal != SIGPIPE && !IsIgnored(signal)) {
        // A terminal that goes away tells the leader of its session alone.
        const bool to_us_alone = signal == SIGHUP && getsid(0) == getpid();
        Forward(signal, info.ssi_code == SI_KERNEL && !to_us_alone);
      }
    }
    return std::nullopt;
  }

  void Forward(int signal, bool by_terminal) {
    const Forwarded forwarded = {.signal = signal, .command_has_it = by_terminal && !own_group_};
    (void)!send(link_, &forwarded, sizeof forwarded, MSG_NOSIGNAL | MSG_DONTWAIT);
    // Whoever has started us is to see that we have stopped.
    if (signal == SIGTSTP) kill(getpid(), SIGSTOP);
  }

  void HearKeeper() {
    char byte = 0;
    const ssize_t got = recv(link_, &byte, 1, MSG_DONTWAIT);
    if (got == 1) armed_ = true;
    if (got == 0) link_ = -1;  // it is about to end
  }

  std::optional<int> KeeperEnded() {
    int status = 0;
    if (waitpid(keeper_, &status, WNOHANG) != keeper_) return std::nullopt;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const char* const signal = strsignal(WTERMSIG(status));
    if (watch_->command == 0) {
      Complain({"the process that waited for the lock was killed: ", signal});
      return kFailure;
    }
    Complain({"the process that renews the lock was killed (", signal,
              "): killed the command; the lock is freed when its lease expires"});
    EndCommand();
    return kLost;
  }

  // SIGKILL to all of it, until there is none.
  void EndCommand() {
    const pid_t command = watch_->command;
    if (own_group_ && command > 0) kill(-command, SIGKILL);
    for (int rounds = 0; rounds < 500; ++rounds) {
      const std::vector<pid_t> family = Family(command, keeper_);
      for (const pid_t pid : family) kill(pid, SIGKILL);
      if (command > 0) waitpid(command, nullptr, WNOHANG);
      if (family.empty()) return;
      // Children's ends wake it; others are looked for again.
      pollfd ended = {.fd = signals_, .events = POLLIN, .revents = 0};
      poll(&ended, 1, 10);
      signalfd_siginfo info = {};
      while (read(signals_, &info, sizeof info) > 0) {
      }
    }
    Complain({"part of the command survives SIGKILL; look for processes in state D"});
  }

  const RunOptions& options_;
  const bool own_group_;  // for the command: no terminal's signals are to reach it directly
  Watch* watch_ = nullptr;
  int link_ = -1;
  int signals_ = -1;
  Alarm alarm_;
  pid_t keeper_ = -1;
  bool armed_ = false;
};

}  // namespace

int Run(const std::vector<std::string>& words) {
  RunOptions options;
  if (const std::optional<int> over = ParseRunOptions(words, &options)) return *over;
  // Before it waits for the lock: that may take long.
  const std::string command = absl::Utf8SafeCEscape(options.command[0]);
  const int found = FindCommand(options.command[0]);
  if (found == kNotFound) {
    Complain({command, ": command not found; check its spelling and $PATH"});
  } else if (found == kNotExecutable) {
    Complain({command, ": not executable; check what it is, or chmod +x it"});
  }
  return found != 0 ? found : Front(options).Run();
}

}  // namespace redlatch::cli
