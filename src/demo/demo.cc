// redlatch-demo: what the lock is for, and what it does when a process dies or freezes.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "redlatch/client.h"
#include "redlatch/simple_lock.h"
#include "src/demo/store.h"
#include "src/demo/worker.h"

namespace redlatch::demo {
namespace {

constexpr int kVictim = 3;                               // is killed
constexpr int kSleeper = 2;                              // is frozen
constexpr absl::Duration kPatience = absl::Seconds(15);  // for each step

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
changed nothing.)";

volatile sig_atomic_t interrupted = 0;

class Show {
 public:
  Show(std::string url, const Client& client, std::string directory)
      : url_(std::move(url)),
        directory_(std::move(directory)),
        // A lock of this run's own, as its number is.
        lock_(client, "redlatch-demo" + directory_.substr(directory_.rfind('.'))) {}

  // Ends every process, by its pid.
  ~Show() {
    for (int number = 1; number <= kWorkers; ++number) Kill(number);
    close(lines_);
  }

  // An error: the demonstration could not go on, or found something wrong.
  absl::Status Run() {
    absl::Status ran = Begin();
    for (const auto& act : {&Show::KillOne, &Show::FreezeOne, &Show::Finish}) {
      if (ran.ok()) ran = (this->*act)();
    }
    height_ = 0;  // the table stays as it is
    return ran.ok() ? SumUp() : ran;
  }

 private:
  struct Process {
    pid_t pid = -1;  // -1: gone
    pid_t was = -1;
    std::string_view fate;
  };

  Seat& seat(int number) { return board_[static_cast<size_t>(number) - 1]; }
  Process& process(int number) { return processes_[static_cast<size_t>(number) - 1]; }
  absl::Duration elapsed() const {
    return absl::FromChrono(std::chrono::steady_clock::now() - began_);
  }
  int64_t count() const {
    int64_t count = 0;
    for (const Seat& each : board_) count = std::max(count, each.count.load());
    return count;
  }

  // ---- The output: lines and, on a terminal, a table below them that is redrawn again and again.

  void Print(std::string_view text) {
    if (height_ > 0) std::printf("\x1b[%zdA\r\x1b[J", std::exchange(height_, 0));
    std::printf("%.*s", static_cast<int>(text.size()), text.data());
    std::fflush(stdout);
  }
  void Say(std::string_view text) {
    Print(absl::StrFormat("%4.1f s  %s\n", absl::ToDoubleSeconds(elapsed()), std::string(text)));
  }

  void Look() {
    const absl::StatusOr<LockInfo> info = lock_.Inspect();
    if (!info.ok()) return;
    const bool held = !info->holders.empty();
    std::string holder = held ? "a worker" : "nobody";
    for (const Process& each : processes_) {
      if (!held || each.was != info->holders.front().process.pid) continue;
      holder =
          absl::StrFormat("worker %d, pid %d on %s%s", &each - processes_.data() + 1, each.was,
                          info->holders.front().process.host,
                          each.fate.empty() ? "" : absl::StrCat(" (", std::string(each.fate), ")"));
    }
    if (isatty(STDOUT_FILENO) == 0) {
      if (elapsed() < next_line_) return;
      next_line_ = elapsed() + absl::Seconds(1);
      return Say(absl::StrFormat("count %d; lock: %s; token %u; %d waiting", count(), holder,
                                 info->last_token.value(), info->waiting));
    }
    std::string table = absl::StrFormat(
        "\n    count     %d\n    the lock  %s\n    token     %u\n    lease     %s\n    waiting   "
        "%d\n"
        "\n    worker      pid  additions\n",
        count(), holder, info->last_token.value(),
        held ? absl::StrFormat("expires in %.1f s unless renewed",
                               absl::ToDoubleSeconds(info->holders.front().remaining))
             : "-",
        info->waiting);
    constexpr const char* kDoing[] = {"starting", "resting", "waiting for the lock",
                                      "HOLDS THE LOCK", "HOLDS THE LOCK"};
    for (int number = 1; number <= kWorkers; ++number) {
      const std::string_view fate = process(number).fate;
      absl::StrAppendFormat(&table, "    %6d %8d %10d  %s\n", number, process(number).was,
                            seat(number).added.load(),
                            fate.empty() ? kDoing[static_cast<size_t>(seat(number).doing.load())]
                                         : std::string(fate));
    }
    Print(table);
    height_ = std::ranges::count(table, '\n');
  }

  // ---- The workers.

  absl::Status Start(int number, int lines) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const absl::Cleanup destroyed = [&] { posix_spawn_file_actions_destroy(&actions); };
    posix_spawn_file_actions_adddup2(&actions, lines, STDOUT_FILENO);
    std::array<std::string, 6> words = {"redlatch-demo", "--worker", absl::StrCat(number), url_,
                                        lock_.name(),    directory_};
    std::array<char*, 7> argv = {};
    for (size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
    pid_t& pid = process(number).pid;
    const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
    process(number).was = pid;
    return error == 0 ? absl::OkStatus() : absl::ErrnoToStatus(error, "starting a worker");
  }

  void Kill(int number) {
    pid_t& pid = process(number).pid;
    if (pid < 0) return;
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
  }

  // Shows the workers' output, and notices if one has ended.
  absl::Status Attend() {
    pollfd ready = {.fd = lines_, .events = POLLIN, .revents = 0};
    poll(&ready, 1, /*timeout=*/50);
    char bytes[4096];
    for (ssize_t got = 0; (got = read(lines_, bytes, sizeof bytes)) > 0;) {
      said_.append(bytes, static_cast<size_t>(got));
    }
    for (size_t end = 0; (end = said_.find('\n')) != std::string::npos; said_.erase(0, end + 1)) {
      Say(said_.substr(0, end));
    }
    for (int number = 1; number <= kWorkers; ++number) {
      int status = 0;
      Process& each = process(number);
      if (each.pid < 0 || waitpid(each.pid, &status, WNOHANG) != each.pid) continue;
      each.pid = -1;
      each.fate = "done";
      if (status != 0) return absl::InternalError(absl::StrCat("worker ", number, " ended early"));
    }
    return absl::OkStatus();
  }

  absl::Status Until(std::string_view what, const std::function<bool()>& so) {
    const absl::Duration end = elapsed() + kPatience;
    while (!so()) {
      if (interrupted != 0) return absl::CancelledError("interrupted");
      if (end <= elapsed()) {
        return absl::DeadlineExceededError(
            absl::StrCat("this did not happen in time: ", std::string(what)));
      }
      if (absl::Status attended = Attend(); !attended.ok()) return attended;
      Look();
    }
    return absl::OkStatus();
  }

  absl::Status Watch(absl::Duration time) {
    return Until("the time to pass", [&, end = elapsed() + time] { return end <= elapsed(); });
  }

  absl::Status UntilAnotherHolds(uint64_t token, int* successor) {
    return Until("another worker to get the lock", [=, this] {
      const auto holds = std::ranges::find_if(board_, [token](const Seat& each) {
        return each.token > token && each.doing == Doing::kHolding;
      });
      *successor = static_cast<int>(holds - board_.begin()) + 1;
      return holds != board_.end();
    });
  }

  // Until the worker has the lock and has done what the order says of it.
  absl::Status UntilDallying(int number, Order order) {
    seat(number).order = order;
    return Until("a worker to get the lock",
                 [&] { return seat(number).doing == Doing::kDallying; });
  }

  std::string LeaseText() const {
    const absl::StatusOr<LockInfo> info = lock_.Inspect();
    if (!info.ok() || info->holders.empty()) return "its lease has expired";
    return absl::StrFormat("its lease expires in %.1f s, and nobody renews it",
                           absl::ToDoubleSeconds(info->holders.front().remaining));
  }

  // ---- The acts.

  absl::Status Begin() {
    std::array<int, 2> ends = {-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "pipe");
    const absl::Cleanup closed = [&] { close(ends[1]); };
    lines_ = ends[0];
    fcntl(lines_, F_SETFL, O_NONBLOCK);
    for (int number = 1; number <= kWorkers; ++number) {
      if (absl::Status started = Start(number, ends[1]); !started.ok()) return started;
    }
    absl::Status started = Until("the workers to start", [&] {
      return std::ranges::all_of(board_,
                                 [](const Seat& it) { return it.doing != Doing::kStarting; });
    });
    if (!started.ok()) return started;
    Say(absl::StrFormat(
        "%d workers have started; a lease lasts %.0f s and is renewed while its process lives",
        kWorkers, absl::ToDoubleSeconds(kLease)));
    return Watch(absl::Seconds(1.8));
  }

  absl::Status KillOne() {
    absl::Status done = UntilDallying(kVictim, Order::kDallyAfterWrite);
    if (!done.ok()) return done;
    const absl::Duration killed = elapsed();
    Kill(kVictim);
    process(kVictim).fate = "killed";
    Say(absl::StrFormat("worker %d was killed while it held the lock; %s", kVictim, LeaseText()));
    int successor = 0;
    done = UntilAnotherHolds(seat(kVictim).token, &successor);
    if (!done.ok()) return done;
    Say(absl::StrFormat("its lease has expired: worker %d holds the lock, %.1f s after the kill",
                        successor, absl::ToDoubleSeconds(elapsed() - killed)));
    return Watch(absl::Seconds(1));
  }

  absl::Status FreezeOne() {
    absl::Status done = UntilDallying(kSleeper, Order::kDallyBeforeWrite);
    if (!done.ok()) return done;
    const int64_t read = count();
    kill(process(kSleeper).pid, SIGSTOP);
    process(kSleeper).fate = "frozen";
    Say(absl::StrFormat("worker %d was frozen after reading %d and before writing; %s", kSleeper,
                        read, LeaseText()));
    int successor = 0;
    done = UntilAnotherHolds(seat(kSleeper).token, &successor);
    if (!done.ok()) return done;
    Say(absl::StrFormat("its lease has expired: worker %d holds the lock, with a newer token",
                        successor));
    done = Watch(absl::Seconds(1));
    if (!done.ok()) return done;
    Say(absl::StrFormat(
        "worker %d carries on as if no time had passed: it has read %d, but the number is now %d",
        kSleeper, read, count()));
    const int64_t added = seat(kSleeper).added;
    seat(kSleeper).order = Order::kGo;
    process(kSleeper).fate = {};
    kill(process(kSleeper).pid, SIGCONT);
    done = Until("the late write",
                 [&] { return seat(kSleeper).refused > 0 || seat(kSleeper).added > added; });
    return done.ok() ? Watch(absl::Seconds(1)) : done;
  }

  absl::Status Finish() {
    for (Seat& each : board_) each.order = Order::kEnd;
    return Until("the workers to end", [&] {
      return std::ranges::all_of(processes_, [](const Process& each) { return each.pid < 0; });
    });
  }

  // Compares the number with the additions in the store's journal, and those with the
  // additions that the workers have reported.
  absl::Status SumUp() {
    const absl::StatusOr<std::vector<FencedCounter::Record>> journal =
        FencedCounter(directory_ + "/counter").Journal();
    if (!journal.ok()) return journal.status();
    std::array<int64_t, kWorkers> made = {};
    uint64_t newest = 0;
    int out_of_order =
        0;  // each hold reads once and then writes, with a larger token than the last
    for (const FencedCounter::Record& each : *journal) {
      made[static_cast<size_t>(each.worker) - 1] += each.written;
      const bool fits = each.written != 0 ? each.token == newest : newest < each.token;
      out_of_order += fits ? 0 : 1;
      newest = each.token;
    }
    std::string text = "\n";
    int64_t expected = 0;
    bool wrong = false;
    for (int number = 1; number <= kWorkers; ++number) {
      const int64_t its = made[static_cast<size_t>(number) - 1];
      const int64_t told = seat(number).added;
      expected += its;
      absl::StrAppendFormat(&text, "  worker %d   %5d additions", number, its);
      if (number == kVictim) {
        absl::StrAppendFormat(&text, ", %d of them reported before it was killed", told);
      } else if (its != told) {
        absl::StrAppendFormat(&text, " in the journal, but it reported %d: WRONG", told);
        wrong = true;
      }
      text += "\n";
    }
    const int64_t actual = journal->empty() ? 0 : journal->back().count;
    absl::StrAppendFormat(&text, "  expected   %5d\n  the number %5d: %s\n", expected, actual,
                          expected == actual ? "equal" : "WRONG");
    Print(text);
    if (wrong || out_of_order > 0 || expected != actual || seat(kSleeper).refused == 0) {
      return absl::InternalError(absl::StrCat(
          "WRONG: ", out_of_order, " accesses came between those of another worker, and ",
          seat(kSleeper).refused.load(), " late writes were rejected"));
    }
    Print(absl::StrCat(kEpilogue, "\n"));
    return absl::OkStatus();
  }

  const std::string url_;
  const std::string directory_;
  SimpleLock lock_;
  Board& board_ = MapBoard(directory_ + "/board");
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::array<Process, kWorkers> processes_;
  int lines_ = -1;  // the pipe that is all workers' standard output
  std::string said_;
  absl::Duration next_line_;
  ssize_t height_ = 0;  // of the table that is on the terminal
};

absl::Status RunShow(const std::string& url) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    sigaction(signal, &action, nullptr);
  }
  std::error_code error;
  std::string directory = std::filesystem::temp_directory_path(error) / "redlatch-demo.XXXXXX";
  if (error || mkdtemp(directory.data()) == nullptr) {
    return absl::UnavailableError("no temporary directory");
  }
  const absl::Cleanup removed = [&] { std::filesystem::remove_all(directory, error); };
  const absl::StatusOr<Client> client = Client::Connect(url);
  if (!client.ok()) return client.status();
  std::printf("redlatch at %s\n%s\n", client->server().c_str(), kPrologue);
  return Show(url, *client, directory).Run();
}

}  // namespace
}  // namespace redlatch::demo

int main(int argc, char** argv) {
  if (argc == 6 && std::string_view(argv[1]) == "--worker") {
    return redlatch::demo::RunWorker(std::atoi(argv[2]), argv[3], argv[4], argv[5]);
  }
  if (argc > 2 || (argc == 2 && std::string_view(argv[1]).starts_with("-"))) {
    std::fprintf(stderr,
                 "usage: redlatch-demo [URL]\n\nThe default URL is embedded:; redlatch/client.h "
                 "lists the others.\n");
    return 2;
  }
  const absl::Status ran = redlatch::demo::RunShow(argc == 2 ? argv[1] : "embedded:");
  if (!ran.ok()) std::fprintf(stderr, "redlatch-demo: %s\n", std::string(ran.message()).c_str());
  return ran.ok() ? 0 : 1;
}
