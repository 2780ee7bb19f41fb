// `redlatch run` consists of two processes:
//
//   front    the one that was started, of a single thread: forwards signals, takes the terminal's
//            stops and interruptions, exits with the command's code
//   keeper   its child, in a process group of its own: has the lock, and the command as its child
//
// If one of them cannot end the command, the other does. The front is the parent of whatever the
// keeper leaves, and kills the command when the lease ends, even if the keeper hangs. The keeper
// goes on renewing the lock while the front is stopped by ^Z. If the front is killed, the keeper
// ends the command and releases the lock.
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

// A descriptor that can be read from a moment on.
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

constexpr pid_t kReaped = -1;  // its number may be another's by now

// In memory that both have.
struct Watch {
  // When the command must be gone: the lease's end as this client counts it, which is before the
  // server gives the lock to another. Renewals move it.
  std::atomic<base::Instant> deadline{base::Instant::Infinite()};
  std::atomic<pid_t> command{0};  // 0: not started; or kReaped
};
static_assert(std::atomic<base::Instant>::is_always_lock_free);

// From the front to the keeper.
struct Forwarded {
  int32_t signal = 0;
  bool command_has_it = false;  // the terminal has sent it to the command too
};

class Notices : public Observer {
 public:
  Notices() { event_.Open(); }

  int fd() const { return event_.fd(); }  // can be read when something has happened; -1: none
  void Nudge() const { event_.Signal(); }
  void Clear() { event_.Drain(); }

  // The stop token fires a moment before it is told why.
  bool loss_told() const { return loss_told_; }

  // Why the lock was lost or is about to be, as far as it was told.
  std::string why() const {
    const std::lock_guard lock(mutex_);
    return why_.empty() ? "the server did not answer, or this process was not running" : why_;
  }

 private:
  void OnRenewed(std::string_view, FencingToken) override { Nudge(); }
  void OnAtRisk(std::string_view, FencingToken, absl::Duration, const absl::Status& why) override {
    Set(std::string(why.message()));
  }
  void OnRecovered(std::string_view, FencingToken) override { Set({}); }
  void OnLost(const LostLease& lost) override {
    Set(lost.reason);
    loss_told_ = true;
    Nudge();
  }
  void OnReleaseFailed(std::string_view, FencingToken, absl::Duration,
                       const absl::Status&) override {}  // the keeper says so
  void OnMisuse(std::string_view, std::string_view) override {}

  void Set(std::string why) {
    {
      const std::lock_guard lock(mutex_);
      why_ = std::move(why);
    }
    Nudge();
  }

  base::WakeEvent event_;
  std::atomic<bool> loss_told_ = false;
  mutable std::mutex mutex_;
  std::string why_;
};

// SIGKILL is sent so long before the lease's end as this client counts it, so as to be in time on a
// machine that is slow to run us: a twentieth of the lease, but no more than this. By the server's
// count the lease ends later still.
constexpr absl::Duration kKillEarly = absl::Milliseconds(500);
// When what did not die of SIGKILL, or was just born, is looked for and gets it again: more and
// more seldom.
constexpr absl::Duration kFirstRepeat = absl::Milliseconds(10);
constexpr absl::Duration kLastRepeat = absl::Seconds(1);
constexpr absl::Duration kReasonPatience = absl::Milliseconds(200);
constexpr std::string_view kIsLost = " is lost (";

bool Ends(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

class Keeper {
 public:
  // `link`: to the front. Forwarded comes in, and a byte goes out when `watch` is set.
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
    while (!Attend()) Await();
    return Finish();
  }

 private:
  // Until something has happened, or the alarm goes off.
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
    if (events[3].revents != 0) Hear();
  }

  void Hear() {
    Forwarded forwarded;
    const ssize_t got = recv(link_, &forwarded, sizeof forwarded, MSG_DONTWAIT);
    if (got == sizeof forwarded) {
      Take(forwarded);
    } else if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
      link_ = -1;  // poll() passes over it
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
    // What is left of a command that has ended, or is told to, gets no more time than needed.
    if (Ends(forwarded.signal) && code_) End(options_.grace);
  }

  std::optional<int> Acquire() {
    attempt_.emplace(options_, notices_, what_, [this] { notices_->Nudge(); });
    while (!attempt_->done()) Await();
    const std::optional<int> failed = attempt_->Take(&hold_);
    if (failed && hold_) (void)Release();
    return failed;
  }

  std::optional<int> Start() {
    told_.emplace(hold_->lost(), [this] { notices_->Nudge(); });
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

  // What is due now. True: the command is gone, and all that it left.
  bool Attend() {
    if (!code_) {
      code_ = job_.Ended();
      if (code_) watch_.command = kReaped;
      if (code_ && !ending_) kill_or_term_at_ = base::Now() + options_.grace;
    }
    if (code_ && !job_.Lives()) return true;
    LookAtHold();
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

  void LookAtHold() {
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
    // As long as the lease was known to last, at most, though somebody has forced its release.
    const absl::Duration left = watch_.deadline.load() - base::Now();
    const absl::Duration grace = std::clamp(left - early_, absl::ZeroDuration(), options_.grace);
    untold_ = absl::StrCat("SIGTERM to the command now, SIGKILL in ", Rounded(grace));
    if (!lost) TellOfLoss(" is about to be lost (");
    End(grace);
  }

  // Where the command ended faster than the reason came.
  void AwaitReason() const {
    const base::Instant until = base::Now() + kReasonPatience;
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

  // SIGTERM now, also to what is stopped, and SIGKILL after the grace.
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

  // Where the server answers, the client ends as well, so that nothing tells of it any longer.
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
  bool lost_ = false;                     // or about to be, so that the command is ended
  std::string untold_;                    // what follows from it, until it is told why
  bool ending_ = false;                   // SIGTERM was sent
  absl::Duration repeat_ = kFirstRepeat;  // of SIGKILL
  std::optional<int> code_;
  // Of SIGKILL where `ending_`, else of SIGTERM to what the command has left.
  base::Instant kill_or_term_at_ = base::Instant::Infinite();
};

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
      BeKeeper(ends[1], before);
    }
    close(ends[1]);
    return keeper_ > 0;
  }

  // The keeper's whole life, from the lock to the release. `mask`: of signals, for the command.
  [[noreturn]] void BeKeeper(int link, const sigset_t& mask) const {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = kFailure;
    {
      Job job(options_.command, mask, own_group_);
      setpgid(0, 0);
      if (job.pid() > 0) {
        LetGoOfDescriptorsBut({link, job.descriptors()[0], job.descriptors()[1]});
      }
      // Never destroyed: the lock is released, and an orderly end would only take time.
      code = (new Keeper(options_, link, *watch_, job))->Run();
    }
    _exit(code);
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
