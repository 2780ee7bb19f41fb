// redlatch-demo: what the lock is for, and what it does when a process dies or freezes.
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/run_locked.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"
#include "src/demo/store.h"

namespace redlatch::demo {
namespace {

constexpr absl::Duration kLease = absl::Seconds(2);  // short, so that the demo is

constexpr char kPrologue[] = R"(
Five processes share a number in a file. Each adds 1 to it, over and over: it reads the number,
thinks for a moment, and writes back the number plus one. If two of them did that at once, an
addition would be lost, so each takes a lock first: redlatch lets one in and keeps the others in a
queue. With the lock comes a token, a number that only grows, and the file rejects any token older
than the newest it has seen. Two accidents will happen: one process dies while it holds the lock,
and another freezes.
)";

constexpr char kEpilogue[] = R"(
No addition was lost, and none was made twice. Only one process at a time held the lock. When one
died holding it, the lock was passed on as soon as its lease expired. When one froze for longer than
its lease, and then carried on as if it still held the lock, its older token gave it away, and it
changed nothing.
)";

constexpr char kStarting[] = "starting";
constexpr char kHolds[] = "HOLDS THE LOCK";
enum class Order : uint8_t { kWait, kGo, kDie, kFreeze, kEnd };

// Shared memory through which the demo and one worker process communicate.
struct Seat {
  std::atomic<Order> order{Order::kWait};
  std::atomic<const char*> doing{kStarting};
  std::atomic<uint64_t> token{0};    // of its latest hold
  std::atomic<int64_t> count{0};     // that it read or wrote last
  std::atomic<int64_t> added{0};     // how many additions it has reported
  std::atomic<int64_t> rejected{0};  // how many of its writes the store rejected
  int number = 0;
  pid_t pid = -1;
  bool gone = false;
  const char* fate = nullptr;
};

void Tell(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

// One of the processes that share the number. It reports its losses itself.
class Worker : public Observer {
 public:
  Worker(Seat& seat, std::string file)
      : seat_(seat), file_(std::move(file)), name_(absl::StrCat("worker ", seat.number)) {}

  absl::Status Work(SimpleLock& lock) {
    int losses = 0;
    for (int round = 0; seat_.order != Order::kEnd; ++round) {
      seat_.doing = "resting";
      absl::SleepFor(absl::Milliseconds(30) * ((round * 7 + seat_.number * 3) % 5));
      seat_.doing = "waiting for the lock";
      absl::Status added = RunLocked(lock, {.wait = absl::Seconds(20)}, [&](std::stop_token) {
        return AddOne(lock.current().fencing_token().value());
      });
      if (added.ok()) continue;
      if (!IsLeaseLost(added)) return added;
      ++losses;  // OnLost() runs on a thread of the client
      for (int told = told_; told < losses; told = told_) told_.wait(told);
      Tell(absl::StrCat("in ", name_, ", RunLocked() returns: ", added.message()));
    }
    return absl::OkStatus();
  }

 private:
  void OnLost(const LostLease& lost) override {
    Tell(absl::StrCat("redlatch tells ", name_, " that it lost the lock: ", lost.reason));
    ++told_;
    told_.notify_one();
  }

  // Reads, thinks, writes: all of it under the lock.
  absl::Status AddOne(uint64_t token) {
    const auto read = Access(file_, {.token = token, .worker = seat_.number});
    if (!read.ok()) return Report(read.status(), 0);
    seat_.count = *read;
    seat_.token = token;
    seat_.doing = kHolds;
    absl::SleepFor(absl::Milliseconds(40));
    if (seat_.order == Order::kFreeze) raise(SIGSTOP);
    // A careful program checks its stop token here. A process that is frozen right after the check
    // writes all the same: so this one does not check, and leaves it to the store.
    const auto written =
        Access(file_, {.count = *read + 1, .token = token, .worker = seat_.number, .written = 1});
    if (!written.ok()) return Report(written.status(), *read + 1);
    if (seat_.order == Order::kDie) raise(SIGKILL);
    seat_.count = *read + 1;
    ++seat_.added;
    return absl::OkStatus();
  }

  // A rejection is reported; any other failure is an error.
  absl::Status Report(const absl::Status& why, int64_t count) {
    if (!absl::IsFailedPrecondition(why)) return why;
    Tell(absl::StrCat(name_, " writes ", count, ": REJECTED, because its ", why.message()));
    ++seat_.rejected;
    return absl::OkStatus();
  }

  Seat& seat_;
  const std::string file_;
  const std::string name_;
  std::atomic<int> told_ = 0;
};

volatile sig_atomic_t interrupted = 0;

// The demo's own process: it starts the workers, orders the accidents, and shows what happens. What
// keeps it from going on is thrown.
class Show {
 public:
  explicit Show(const std::string& url)
      : seats_(*new (mmap(nullptr, sizeof seats_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::array<Seat, 5>) {
    directory_ = std::filesystem::temp_directory_path() / "redlatch-demo.XXXXXX";
    std::array<int, 2> ends = {-1, -1};
    if (mkdtemp(directory_.data()) == nullptr || pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::runtime_error("no temporary directory, or no pipe");
    }
    lines_ = ends[0];
    fcntl(lines_, F_SETFL, O_NONBLOCK);
    for (Seat& each : seats_) {  // before this process has a thread or a connection
      each.number = static_cast<int>(&each - seats_.data()) + 1;
      const pid_t pid = fork();
      if (pid == 0) RunWorker(each, url, ends[1]);
      if (pid < 0) throw std::runtime_error("a worker cannot be started");
      each.pid = pid;  // the child shares this memory
    }
    close(ends[1]);
  }
  ~Show() {
    for (const Seat& each : seats_) {
      if (each.pid <= 0 || each.gone) continue;
      kill(each.pid, SIGKILL);
      waitpid(each.pid, nullptr, 0);
    }
    std::filesystem::remove_all(directory_);
  }

  void Run(const std::string& url) {
    const absl::StatusOr<Client> client = Client::Connect(url);
    if (!client.ok()) throw std::runtime_error(std::string(client.status().message()));
    std::printf("redlatch at %s\n%s\n", client->server().c_str(), kPrologue);
    lock_.emplace(*client, LockName());
    for (Seat& each : seats_) each.order = Order::kGo;
    Until("the workers to start", [&] {
      return std::ranges::all_of(seats_, [](const Seat& it) { return it.doing != kStarting; });
    });
    Say(absl::StrFormat(
        "%d workers have started; a lease lasts %.0f s and is renewed while its process lives",
        seats_.size(), absl::ToDoubleSeconds(kLease)));
    Watch(absl::Seconds(1.8));
    Strike(victim_, Order::kDie, "killed while it held the lock");
    Strike(sleeper_, Order::kFreeze, "frozen after reading the number and before writing");
    Say(absl::StrFormat(
        "worker %d carries on as if no time had passed: it has read %d, but the number is now %d",
        sleeper_.number, sleeper_.count.load(), count_));
    sleeper_.order = Order::kGo;
    sleeper_.fate = nullptr;
    kill(sleeper_.pid, SIGCONT);
    Until("the late write", [&] { return sleeper_.rejected > 0; });
    Watch(absl::Seconds(1));
    for (Seat& each : seats_) each.order = each.gone ? Order::kDie : Order::kEnd;
    Until("the workers to end", [&] { return std::ranges::all_of(seats_, &Seat::gone); });
    height_ = 0;  // the table stays as it is
    SumUp();
  }

 private:
  std::string LockName() const {  // of this run's own
    return "redlatch-demo" + directory_.substr(directory_.rfind('.'));
  }

  // The whole life of a worker process.
  [[noreturn]] void RunWorker(Seat& seat, const std::string& url, int output) const {
    dup2(output, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the demo, even if it is frozen
    alarm(60);
    while (seat.order == Order::kWait) absl::SleepFor(absl::Milliseconds(1));
    const auto worker = std::make_shared<Worker>(seat, directory_ + "/counter");
    const absl::StatusOr<Client> client =
        Client::Connect(url, {.observer = worker, .on_warning = [](std::string_view) {}});
    absl::Status done = client.status();
    if (client.ok()) {
      SimpleLock lock(*client, LockName(), {.lease = kLease});
      done = worker->Work(lock);
    }
    if (!done.ok()) Tell(absl::StrCat("worker ", seat.number, " fails: ", done.message()));
    _exit(done.ok() ? 0 : 1);
  }

  absl::Duration elapsed() const { return absl::Now() - began_; }

  // On a terminal a table stands below the lines, and is redrawn again and again.
  void Print(const std::string& text) {
    if (height_ > 0) std::printf("\x1b[%zdA\r\x1b[J", std::exchange(height_, 0));
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void Say(const std::string& text) {
    Print(absl::StrFormat("%4.1f s  %s\n", absl::ToDoubleSeconds(elapsed()), text));
  }

  void Look() {
    const absl::StatusOr<LockInfo> info = lock_->Inspect();
    if (!info.ok()) return;
    std::string holder = "nobody";
    std::string rows = "\n    worker      pid  additions\n";
    for (const Seat& each : seats_) {
      count_ = std::max(count_, each.count.load());
      absl::StrAppendFormat(&rows, "    %6d %8d %10d  %s\n", each.number, each.pid,
                            each.added.load(), each.fate ? each.fate : each.doing.load());
      if (info->holders.empty() || info->holders[0].process.pid != each.pid) continue;
      holder = absl::StrFormat("worker %d, pid %d on %s%s, whose lease has %.1f s left",
                               each.number, each.pid, info->holders[0].process.host,
                               each.fate ? absl::StrCat(" (", each.fate, ")") : "",
                               absl::ToDoubleSeconds(info->holders[0].remaining));
    }
    const std::string line = absl::StrFormat("count %d; lock: %s; token %u; %d waiting", count_,
                                             holder, info->last_token.value(), info->waiting);
    if (isatty(STDOUT_FILENO) == 1) {
      Print(absl::StrCat("\n    ", line, "\n", rows));
      height_ = 4 + static_cast<ssize_t>(seats_.size());
    } else if (next_line_ <= elapsed()) {
      next_line_ = elapsed() + absl::Seconds(1);
      Say(line);
    }
  }

  // Shows the workers' output, and notices what has become of them.
  void Attend() {
    pollfd ready = {.fd = lines_, .events = POLLIN, .revents = 0};
    poll(&ready, 1, /*timeout=*/50);
    char bytes[4096];
    for (ssize_t got = 0; (got = read(lines_, bytes, sizeof bytes)) > 0;) {
      said_.append(bytes, static_cast<size_t>(got));
    }
    for (size_t end = 0; (end = said_.find('\n')) != std::string::npos; said_.erase(0, end + 1)) {
      Say(said_.substr(0, end));
    }
    for (Seat& each : seats_) {
      int status = 0;
      if (each.gone || waitpid(each.pid, &status, WNOHANG | WUNTRACED) != each.pid) continue;
      each.gone = !WIFSTOPPED(status);
      each.fate = WIFSTOPPED(status) ? "frozen" : status == 0 ? "done" : "killed";
      if (each.gone && status != 0 && each.order != Order::kDie) {
        throw std::runtime_error(absl::StrCat("worker ", each.number, " ended early"));
      }
    }
  }

  void Until(const char* what, const std::function<bool()>& so) {
    for (const absl::Duration end = elapsed() + absl::Seconds(15); !so(); Look()) {
      if (interrupted != 0) throw std::runtime_error("interrupted");
      if (end <= elapsed()) {
        throw std::runtime_error(absl::StrCat("this did not happen in time: ", what));
      }
      Attend();
    }
  }
  void Watch(absl::Duration time) {
    Until("the time to pass", [&, end = elapsed() + time] { return end <= elapsed(); });
  }

  // Until the worker has met with the accident that is ordered, and another has the lock.
  void Strike(Seat& seat, Order order, const char* news) {
    seat.order = order;
    Until("an accident", [&] { return seat.fate != nullptr; });
    const absl::Duration struck = elapsed();
    const absl::StatusOr<LockInfo> info = lock_->Inspect();
    const bool held = info.ok() && !info->holders.empty();
    Say(absl::StrFormat("worker %d was %s; %s", seat.number, news,
                        held ? absl::StrFormat("its lease expires in %.1f s, and nobody renews it",
                                               absl::ToDoubleSeconds(info->holders[0].remaining))
                             : "its lease has expired"));
    int heir = 0;
    Until("another worker to get the lock", [&] {
      for (const Seat& each : seats_) {
        if (each.token > seat.token && each.doing == kHolds) heir = each.number;
      }
      return heir != 0;
    });
    Say(absl::StrFormat(
        "its lease has expired: worker %d holds the lock, with a newer token, %.1f s later", heir,
        absl::ToDoubleSeconds(elapsed() - struck)));
    Watch(absl::Seconds(1));
  }

  // Compares the number with the additions in the store's journal, and those with the additions
  // that the workers have reported.
  void SumUp() {
    std::ifstream file(directory_ + "/counter", std::ios::binary);
    std::array<int64_t, 6> made = {};  // by worker
    Record last;
    int64_t wrong = 0;  // a hold reads once and then writes, with a larger token than the last
    for (Record each; file.read(reinterpret_cast<char*>(&each), sizeof each); last = each) {
      made[static_cast<size_t>(each.worker)] += each.written;
      wrong += (each.written != 0 ? each.token == last.token : last.token < each.token) ? 0 : 1;
    }
    std::string text = "\n";
    int64_t expected = 0;
    for (const Seat& each : seats_) {
      const int64_t its = made[static_cast<size_t>(each.number)];
      expected += its;
      wrong += its == each.added || &each == &victim_ ? 0 : 1;
      absl::StrAppendFormat(&text, "  worker %d   %5d additions, %d of them reported%s\n",
                            each.number, its, each.added.load(),
                            &each == &victim_ ? " before it was killed" : "");
    }
    Print(absl::StrFormat("%s  expected   %5d\n  the number %5d: %s\n", text, expected, last.count,
                          expected == last.count ? "equal" : "WRONG"));
    if (wrong > 0 || expected != last.count || sleeper_.rejected == 0) {
      throw std::runtime_error(
          absl::StrCat("WRONG: ", wrong, " accesses or reports do not fit, and ",
                       sleeper_.rejected.load(), " late writes were rejected"));
    }
    Print(kEpilogue);
  }

  std::array<Seat, 5>& seats_;
  Seat& sleeper_ = seats_[1];
  Seat& victim_ = seats_[2];
  std::string directory_;
  std::optional<SimpleLock> lock_;
  const absl::Time began_ = absl::Now();
  int lines_ = -1;  // the pipe that is all workers' standard output
  std::string said_;
  absl::Duration next_line_;
  int64_t count_ = 0;   // the number, as far as it is known
  ssize_t height_ = 0;  // of the table that is on the terminal
};

}  // namespace
}  // namespace redlatch::demo

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    std::fputs(
        "usage: redlatch-demo [URL]\n\nThe default URL is embedded:; redlatch/client.h lists "
        "the others.\n",
        stderr);
    return 2;
  }
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    action.sa_handler = [](int) { redlatch::demo::interrupted = 1; };
    sigaction(signal, &action, nullptr);
  }
  try {
    const std::string url = argc == 2 ? argv[1] : "embedded:";
    redlatch::demo::Show(url).Run(url);
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "redlatch-demo: %s\n", failure.what());
    return 1;
  }
}
