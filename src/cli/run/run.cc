// `redlatch run` consists of two processes:
//
//   front    the process that the user started, with one thread: it forwards signals, obeys the
//            terminal's stops and interruptions, and exits with the command's code
//   keeper   its child, in a process group of its own: it has the lock, and the command is a
//            child of it
//
// If one of them cannot end the command, the other does. The front becomes the parent of all
// processes that the keeper leaves, and kills the command when the lease ends, even if the keeper
// hangs. The keeper goes on renewing the lock while the front is stopped by ^Z. If the front is
// killed, the keeper ends the command and releases the lock.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <new>
#include <stop_token>

#include "absl/strings/escaping.h"
#include "redlatch/observer.h"
#include "redlatch/status.h"
#include "src/base/clock.h"
#include "src/base/wake_event.h"
#include "src/cli/run/hold.h"
#include "src/cli/run/job.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {
namespace {

// A descriptor that becomes readable at a given moment.
class Alarm {
 public:
  Alarm() : fd_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {}
  ~Alarm() { close(fd_); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

  int fd() const { return fd_; }
  void Set(base::Instant at) {
    itimerspec when = {};
    if (!at.is_infinite()) {
      const int64_t some = std::max<int64_t>(at.nanos(), 1);  // zero would mean never
      when.it_value = {.tv_sec = some / 1'000'000'000, .tv_nsec = some % 1'000'000'000};
    }
    timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

 private:
  const int fd_;
};

constexpr pid_t kReaped = -1;  // another process may have its number by now

// Shared memory of both processes.
struct Watch {
  // When the command must be gone: the lease's end as this client counts it, which is before the
  // server gives the lock to another. Renewals move it.
  std::atomic<base::Instant> deadline{base::Instant::Infinite()};
  std::atomic<pid_t> command{0};  // 0: not started; or kReaped
};
static_assert(std::atomic<base::Instant>::is_always_lock_free);

// A message from the front to the keeper.
struct Forwarded {
  int32_t signal = 0;
  bool command_has_it = false;  // the terminal has sent the signal to the command, too
};

class Notices : public Observer {
 public:
  Notices() { event_.Open(); }

  int fd() const { return event_.fd(); }  // readable after Wake(); -1 if it could not be made
  void Wake() const { event_.Signal(); }
  void Clear() { event_.Drain(); }

  // The stop token fires a moment before OnLost() tells the reason.
  bool loss_told() const { return loss_told_; }

  // Why the lock was lost or is about to be lost, as far as it is known.
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.empty() ? "the server did not answer, or this process was not running" : why_;
  }

 private:
  void OnRenewed(std::string_view, FencingToken) override { Wake(); }
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status& why) override {
    Set(std::string(why.message()));
  }
  void OnRecovered(std::string_view, FencingToken) override { Set({}); }
  void OnLost(const LostLease& lost) override {
    Set(lost.reason);
    loss_told_ = true;
    Wake();
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // the keeper says so
  void OnMisuse(std::string_view, std::string_view) override {}

  void Set(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = std::move(why);
    }
    Wake();
  }

  base::WakeEvent event_;
  std::atomic<bool> loss_told_ = false;
  mutable std::mutex mutex_;
  std::string why_;
};

// SIGKILL is sent that long before the end of the lease, so that it is in time on a slow machine: a
// twentieth of the lease, but at most this. This client counts the lease; the server's count ends
// later still.
constexpr absl::Duration kKillEarly = absl::Milliseconds(500);
// How often SIGKILL is repeated for processes that survived it, or were forked just then. The pause
// doubles from the first value to the last.
constexpr absl::Duration kFirstRepeat = absl::Milliseconds(10);
constexpr absl::Duration kLastRepeat = absl::Seconds(1);
constexpr absl::Duration kReasonTimeout = absl::Milliseconds(200);
constexpr std::string_view kIsLost = " is lost (";

bool Ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

class Keeper {
 public:
  // `link`: the socket to the front. The keeper receives Forwarded, and sends one byte when `watch`
  // is set.
  Keeper(const RunOptions& options, int link, Watch& watch, Job& job)
      : options_(options),
        early_(std::min(options_.lease / 20, kKillEarly)),
        link_(link),
        watch_(watch),
        what_(absl::StrCat(options_.kind == RunKind::kPermits ? "semaphore \"" : "lock \"",
                           absl::Utf8SafeCEscape(options_.name), "\"")),
        job_(job) {
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    children_ = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  }

  int Run() {
    if (job_.pid() < 0 || children_ < 0 || alarm_.fd() < 0 || notices_->fd() < 0) {
      Complain({"cannot create a process or a file descriptor: ", std::strerror(errno)});
      return kFailure;
    }
    if (const std::optional<int> failed = Acquire()) return *failed;
    if (const std::optional<int> failed = Start()) return *failed;
    while (!HandleDue()) Await();
    return Finish();
  }

 private:
  // Waits for an event or the alarm.
  void Await() {
    std::array<pollfd, 4> events = {{{.fd = notices_->fd(), .events = POLLIN, .revents = 0},
                                     {.fd = children_, .events = POLLIN, .revents = 0},
                                     {.fd = alarm_.fd(), .events = POLLIN, .revents = 0},
                                     {.fd = link_, .events = POLLIN, .revents = 0}}};
    if (poll(events.data(), events.size(), -1) <= 0) return;
    notices_->Clear();
    signalfd_siginfo child = {};
    while (read(children_, &child, sizeof child) > 0) {
    }
    if (events[3].revents != 0) ReadFromFront();
  }

  void ReadFromFront() {
    Forwarded forwarded;
    const ssize_t got = recv(link_, &forwarded, sizeof forwarded, MSG_DONTWAIT);
    if (got == sizeof forwarded) {
      Take(forwarded);
    } else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      link_ = -1;  // poll() ignores it
      if (!hold_) {
        attempt_->CallOff(SIGKILL);
      } else {
        Complain({"redlatch was killed; ending its command"});
        End(options_.grace);
      }
    }
  }

  void Take(const Forwarded& forwarded) {
    if (!hold_) {
      if (Ends(forwarded.signal)) attempt_->CallOff(forwarded.signal);
      return;
    }
    if (!forwarded.command_has_it) job_.Signal(forwarded.signal);
    // If the command has ended already, the processes that it left end now.
    if (Ends(forwarded.signal) && code_) End(options_.grace);
  }

  std::optional<int> Acquire() {
    attempt_.emplace(options_, notices_, what_, [this] { notices_->Wake(); });
    while (!attempt_->done()) Await();
    const std::optional<int> failed = attempt_->Take(&hold_);
    if (failed && hold_) (void)Release();
    return failed;
  }

  std::optional<int> Start() {
    told_.emplace(hold_->lost(), [this] { notices_->Wake(); });
    std::vector<std::string> environment = {"REDLATCH_LOCK=" + options_.name,
                                            "REDLATCH_SERVER=" + hold_->server(), "REDLATCH_TOKEN"};
    if (const Lease* const lease = hold_->lease()) {
      environment.back() = absl::StrCat("REDLATCH_TOKEN=", lease->fencing_token().value());
    }
    watch_.command = job_.pid();
    Publish(hold_->remaining());
    const char armed = 1;
    (void)!send(link_, &armed, sizeof armed, MSG_DONTWAIT | MSG_NOSIGNAL);
    const int error = job_.Start(environment);
    if (error == 0) return std::nullopt;
    watch_.deadline = base::Instant::Infinite();
    (void)Release();
    Complain({absl::Utf8SafeCEscape(options_.command[0]),
              " cannot be executed: ", std::strerror(error)});
    return error == ENOENT ? kNotFound : kNotExecutable;
  }

  void Publish(absl::Duration remaining) {
    if (options_.kill_on_lost) watch_.deadline = base::Now() + remaining;
  }

  // Does everything that is due now. Returns true when the command and all its processes are gone.
  bool HandleDue() {
    if (!code_) {
      code_ = job_.Ended();
      if (code_) watch_.command = kReaped;
      if (code_ && !ending_) kill_or_term_at_ = base::Now() + options_.grace;
    }
    if (code_ && !job_.Lives()) return true;
    CheckHold();
    if (notices_->loss_told()) TellOfLoss(kIsLost);
    if (ending_ && kill_or_term_at_ <= base::Now()) {
      job_.SignalFamily(SIGKILL);
      kill_or_term_at_ = base::Now() + repeat_;
      if (repeat_ < kLastRepeat && kLastRepeat <= 2 * repeat_) {
        Complain(
            {"the command survives SIGKILL; look for processes of another user, or in state D"});
      }
      repeat_ = std::min(2 * repeat_, kLastRepeat);
    } else if (!ending_ && code_ && kill_or_term_at_ <= base::Now()) {
      Complain(
          {"the command has exited and left processes running; ending them in order to release ",
           what_, " (use setsid(1) for a daemon that may go on without the lock)"});
      End(options_.grace);
    }
    base::Instant next = kill_or_term_at_;
    if (!lost_ && options_.kill_on_lost) {
      next = std::min(next, base::Now() + (hold_->remaining() - options_.grace - early_));
    }
    alarm_.Set(next);
    return false;
  }

  void CheckHold() {
    if (lost_) return;
    const bool lost = hold_->lost().stop_requested();
    const absl::Duration remaining = hold_->remaining();
    if (!lost) Publish(remaining);
    if (!options_.kill_on_lost) {
      if (!lost) return;
      lost_ = true;
      untold_ = "the command goes on without it, because of --on-lost=warn";
      return;
    }
    if (!lost && remaining > options_.grace + early_) return;
    lost_ = true;
    // The grace never goes beyond the lease as it was last known, also after a forced release.
    const absl::Duration left = watch_.deadline.load() - base::Now();
    const absl::Duration grace = std::clamp(left - early_, absl::ZeroDuration(), options_.grace);
    untold_ = absl::StrCat("SIGTERM to the command now, SIGKILL in ", Rounded(grace));
    if (!lost) TellOfLoss(" is about to be lost (");
    End(grace);
  }

  // Waits a moment for the reason of the loss, if the command ended before it was known.
  void AwaitReason() const {
    const base::Instant until = base::Now() + kReasonTimeout;
    while (!untold_.empty() && !notices_->loss_told() && base::Now() < until) {
      pollfd told = {.fd = notices_->fd(), .events = POLLIN, .revents = 0};
      base::Poll(&told, 1, until);
      notices_->Clear();
    }
  }

  void TellOfLoss(std::string_view how) {
    if (untold_.empty()) return;
    Complain({what_, how, notices_->why(), "): ", untold_});
    untold_.clear();
  }

  // Sends SIGTERM now, also to stopped processes, and SIGKILL after the grace period.
  void End(absl::Duration grace) {
    const base::Instant at = base::Now() + grace;
    kill_or_term_at_ = ending_ ? std::min(kill_or_term_at_, at) : at;
    if (!ending_) {
      job_.SignalFamily(SIGTERM);
      job_.SignalFamily(SIGCONT);
    }
    ending_ = true;
    alarm_.Set(kill_or_term_at_);
  }

  // If the release is confirmed, the client ends as well, and removes its description.
  absl::Status Release() {
    absl::Status released = hold_->Release();
    if (released.ok()) hold_.reset();
    return released;
  }

  int Finish() {
    watch_.deadline = base::Instant::Infinite();
    AwaitReason();
    TellOfLoss(kIsLost);
    const absl::Status released = Release();
    if (IsLeaseLost(released) && !lost_) {
      lost_ = true;
      Complain({what_, " was lost while the command ran: ", std::string(released.message())});
    } else if (!released.ok() && !lost_) {
      Complain({what_, " could not be released, and stays taken until its lease of ",
                Rounded(options_.lease), " expires: ", std::string(released.message())});
    }
    if (!lost_) return *code_;
    return options_.kill_on_lost || *code_ == 0 ? kLost : *code_;
  }

  const RunOptions& options_;
  const absl::Duration early_;
  int link_;
  Watch& watch_;
  const std::string what_;
  Job& job_;
  const std::shared_ptr<Notices> notices_ = std::make_shared<Notices>();
  int children_ = -1;
  Alarm alarm_;

  std::optional<RunAttempt> attempt_;
  std::optional<RunHold> hold_;
  std::optional<std::stop_callback<std::function<void()>>> told_;
  bool lost_ = false;                     // the lock is lost or about to be: the command is ended
  std::string untold_;                    // the consequence of the loss, until it is printed
  bool ending_ = false;                   // SIGTERM was sent
  absl::Duration repeat_ = kFirstRepeat;  // the pause before the next SIGKILL
  std::optional<int> code_;
  // The next SIGKILL if `ending_`, else the SIGTERM to the processes that the command has left.
  base::Instant kill_or_term_at_ = base::Instant::Infinite();
};

// All signals except those that report a fault of this process, and those that stop a background
// process when it uses the terminal. These keep their default actions.
sigset_t HandledSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int left :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGTTIN, SIGTTOU}) {
    sigdelset(&signals, left);
  }
  return signals;
}

// True if this process was started to ignore the signal, as by nohup(1). A blocked signal arrives
// at a signalfd even if it is ignored.
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
      if (events[2].revents != 0) ReadFromKeeper();
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

    signal(SIGCHLD, SIG_DFL);  // if it were ignored, waitpid() would fail
    const sigset_t handled = HandledSignals();
    sigset_t before;
    sigprocmask(SIG_SETMASK, &handled, &before);
    signals_ = signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK);
    // Orphans of the keeper become children of this process.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (signals_ < 0 || alarm_.fd() < 0) return false;
    keeper_ = fork();
    if (keeper_ == 0) {
      sigset_t all;
      sigfillset(&all);
      sigprocmask(SIG_SETMASK, &all, nullptr);  // a keeper in the background may write to stderr
      close(link_);                             // otherwise it would never notice the front's end
      BeKeeper(ends[1], before);
    }
    close(ends[1]);
    return keeper_ > 0;
  }

  // The keeper's whole life, from the lock to the release. `mask`: the signals that are blocked in
  // the command.
  [[noreturn]] void BeKeeper(int link, const sigset_t& mask) const {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = kFailure;
    {
      Job job(options_.command, mask, own_group_);
      setpgid(0, 0);
      if (job.pid() > 0) {
        LetGoOfDescriptorsBut({link, job.descriptors()[0], job.descriptors()[1]});
      }
      // The Keeper is never destroyed: the lock is released, and destructors would only take time.
      code = (new Keeper(options_, link, *watch_, job))->Run();
    }
    _exit(code);
  }

  // Returns the exit code once the keeper has ended.
  std::optional<int> TakeSignals() {
    signalfd_siginfo info = {};
    while (read(signals_, &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        if (const std::optional<int> code = KeeperEnded()) return code;
      } else if (signal != SIGPIPE && !IsIgnored(signal)) {
        // A terminal that hangs up sends SIGHUP only to the leader of its session.
        const bool to_us_alone = signal == SIGHUP && getsid(0) == getpid();
        Forward(signal, info.ssi_code == SI_KERNEL && !to_us_alone);
      }
    }
    return std::nullopt;
  }

  void Forward(int signal, bool by_terminal) {
    const Forwarded forwarded = {.signal = signal, .command_has_it = by_terminal && !own_group_};
    (void)!send(link_, &forwarded, sizeof forwarded, MSG_NOSIGNAL | MSG_DONTWAIT);
    // The front stops, too, so that its parent sees it.
    if (signal == SIGTSTP) kill(getpid(), SIGSTOP);
  }

  void ReadFromKeeper() {
    char byte = 0;
    const ssize_t got = recv(link_, &byte, 1, MSG_DONTWAIT);
    if (got == 1) armed_ = true;
    if (got == 0) link_ = -1;  // the keeper is about to end
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

  // Sends SIGKILL to the command and all its processes, until none is left.
  void EndCommand() {
    const pid_t command = watch_->command;
    if (own_group_ && command > 0) kill(-command, SIGKILL);
    for (int rounds = 0; rounds < 500; ++rounds) {
      const std::vector<pid_t> family = Family(command, keeper_);
      for (const pid_t pid : family) kill(pid, SIGKILL);
      if (command > 0) waitpid(command, nullptr, WNOHANG);
      if (family.empty()) return;
      // The end of a child wakes this process; other processes are found again in /proc.
      pollfd ended = {.fd = signals_, .events = POLLIN, .revents = 0};
      poll(&ended, 1, 10);
      signalfd_siginfo info = {};
      while (read(signals_, &info, sizeof info) > 0) {
      }
    }
    Complain({"part of the command survives SIGKILL; look for processes in state D"});
  }

  const RunOptions& options_;
  const bool own_group_;  // the command gets its own process group: there is no terminal
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
  // Checks the command before waiting for the lock, which may take long.
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
