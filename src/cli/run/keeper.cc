#include "src/cli/run/keeper.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "redlatch/status.h"
#include "src/cli/run/hold.h"
#include "src/cli/run/job.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {
namespace {

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
  Keeper(const KeeperTask& task, Job& job)
      : options_(task.options),
        early_(std::min(options_.lease / 20, kKillEarly)),
        link_(task.link),
        watch_(*task.watch),
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
    attempt_.emplace(options_, notices_, what_, Nudger{notices_.get()});
    while (!attempt_->done()) Await();
    const std::optional<int> failed = attempt_->Take(&hold_);
    if (failed && hold_) (void)Release();
    return failed;
  }

  std::optional<int> Start() {
    told_.emplace(hold_->lost(), Nudger{notices_.get()});
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

  struct Nudger {
    const Notices* notices;
    void operator()() const { notices->Nudge(); }
  };

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
  std::optional<std::stop_callback<Nudger>> told_;
  bool lost_ = false;                     // or about to be, so that the command is ended
  std::string untold_;                    // what follows from it, until it is told why
  bool ending_ = false;                   // SIGTERM was sent
  absl::Duration repeat_ = kFirstRepeat;  // of SIGKILL
  std::optional<int> code_;
  // Of SIGKILL where `ending_`, else of SIGTERM to what the command has left.
  base::Instant kill_or_term_at_ = base::Instant::Infinite();
};

}  // namespace

void RunKeeper(const KeeperTask& task) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  int code = kFailure;
  {
    Job job(task.options.command, task.mask, task.own_group);
    setpgid(0, 0);
    if (job.pid() > 0) {
      LetGoOfDescriptorsBut({task.link, job.descriptors()[0], job.descriptors()[1]});
    }
    // Never destroyed: the lock is released, and an orderly end would only take time.
    code = (new Keeper(task, job))->Run();
  }
  _exit(code);
}

}  // namespace redlatch::cli
