// redlatch-demo shows what a lock is for, and what happens when its holder dies or freezes.
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "redlatch/client.h"
#include "redlatch/observer.h"
#include "redlatch/run_locked.h"
#include "redlatch/simple_lock.h"
#include "redlatch/status.h"

namespace redlatch::demo {
namespace {

constexpr absl::Duration kLease = absl::Seconds(2);  // short, to keep the demo short

constexpr char kPrologue[] =
    "Five processes share a number in a file. Each adds 1 to it, over and over: it reads the "
    "number, thinks for a moment, and writes back the number plus one. If two of them did that at "
    "once, an addition would be lost, so each takes a lock first: redlatch lets one in and keeps "
    "the others in a queue. With the lock comes a token, a number that only grows, and the file "
    "rejects any token older than the newest it has seen. Two accidents will happen: one process "
    "dies while it holds the lock, and another freezes.";

constexpr char kEpilogue[] =
    "No addition was lost, and none was made twice. Only one process at a time held the lock. When "
    "one died holding it, the lock was passed on as soon as its lease expired. When one froze for "
    "longer than its lease, and then carried on as if it still held the lock, its older token gave "
    "it away, and it changed nothing.";

// The number of columns that text may have: all of a narrow terminal, and enough to read well.
size_t Width() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? std::clamp<size_t>(size.ws_col, 40, 96) : 96;
}

// Breaks lines between words. What goes on in a further line is indented.
std::string Wrapped(absl::string_view text, size_t indent) {
  std::string wrapped;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    size_t column = 0;
    for (const absl::string_view word : absl::StrSplit(line, ' ')) {
      if (column > indent && column + 1 + word.size() > Width()) {
        absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
        column = indent;
      } else if (word.data() != line.data()) {
        wrapped += ' ';
        ++column;
      }
      absl::StrAppend(&wrapped, word);
      column += word.size();
    }
    wrapped += '\n';
  }
  wrapped.pop_back();
  return wrapped;
}

// The smallest fenced store: a number in a file, with the newest fencing token beside it. Each
// access appends one record with one write(2), and the last record is the state. So a killed
// process has written a whole record or nothing, and the file is its own journal.
struct Record {
  int64_t count = 0;
  uint64_t token = 0;
  int32_t worker = 0;
  int32_t written = 0;  // 0: it was read
};

// Reads or writes the number, and returns it. An older token than the newest one is rejected with
// kFailedPrecondition; reads have one too, or a late write could come between the next holder's
// read and write. It is the lock that keeps two from reading, adding and writing at the same time.
absl::StatusOr<int64_t> Access(const std::string& path, Record record) {
  const int file = open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const absl::Cleanup closed = [file] { close(file); };  // this ends the flock too
  if (file < 0 || flock(file, LOCK_EX) != 0) return absl::ErrnoToStatus(errno, path);
  Record last;
  const off_t end = lseek(file, 0, SEEK_END);
  if (end > 0) (void)!pread(file, &last, sizeof last, end - static_cast<off_t>(sizeof last));
  if (record.token < last.token) {
    return absl::FailedPreconditionError(absl::StrCat("token ", record.token, " is older than ",
                                                      last.token,
                                                      ", the newest that the file has seen"));
  }
  if (record.written == 0) record.count = last.count;
  if (write(file, &record, sizeof record) == sizeof record) return record.count;
  return absl::ErrnoToStatus(errno, path);
}

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
  std::array<char, 400> news = {};   // a line for the demo to print, if it has_news
  std::atomic<bool> has_news{false};
  int number = 0;
  pid_t pid = -1;
  bool gone = false;
  const char* fate = nullptr;
};

// Lets the demo print a line, and waits until it has.
void Tell(Seat& seat, std::string line) {
  static std::mutex one_at_a_time;
  const std::lock_guard guard(one_at_a_time);
  line.resize(std::min(line.size(), seat.news.size() - 1));
  std::ranges::copy(line + '\0', seat.news.begin());
  for (seat.has_news = true; seat.has_news;) absl::SleepFor(absl::Milliseconds(1));
}

class LossReporter : public Observer {
 public:
  explicit LossReporter(Seat& seat) : seat_(seat) {}
  void OnLost(const LostLease& lost) override {
    Tell(seat_, absl::StrCat("redlatch tells worker ", seat_.number,
                             " that it lost the lock: ", lost.reason));
    told_ = true;
    told_.notify_all();
  }
  void Await() const { told_.wait(false); }

 private:
  Seat& seat_;
  std::atomic<bool> told_ = false;
};

// Reads the number, thinks, and writes the number plus one: all of it under the lock.
absl::Status AddOne(Seat& seat, const std::string& file, uint64_t token) {
  absl::StatusOr<int64_t> count = Access(file, {.token = token, .worker = seat.number});
  const absl::Cleanup over = [&seat] { seat.doing = "releasing the lock"; };
  if (count.ok()) {
    seat.count = *count;
    seat.token = token;
    seat.doing = kHolds;
    absl::SleepFor(absl::Milliseconds(40));
    if (seat.order == Order::kFreeze) raise(SIGSTOP);
    // A careful program checks its stop token here. But it could be frozen right after the check
    // and still write, so this worker does not check: the store must reject the write.
    count =
        Access(file, {.count = *count + 1, .token = token, .worker = seat.number, .written = 1});
    if (count.ok() && seat.order == Order::kDie) raise(SIGKILL);
  }
  if (count.ok()) {
    seat.count = *count;
    ++seat.added;
  }
  if (!absl::IsFailedPrecondition(count.status())) return count.status();
  Tell(seat, absl::StrCat("worker ", seat.number, " writes ", seat.count + 1,
                          ": REJECTED, because its ", count.status().message()));
  ++seat.rejected;
  return absl::OkStatus();
}

// The whole life of a worker process.
absl::Status Work(Seat& seat, const std::string& url, const std::string& file,
                  const std::string& name) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the demo, even if it is frozen
  alarm(60);
  while (seat.order == Order::kWait) absl::SleepFor(absl::Milliseconds(1));
  const auto reporter = std::make_shared<LossReporter>(seat);
  const auto client =
      Client::Connect(url, {.observer = reporter, .on_warning = [](std::string_view) {}});
  if (!client.ok()) return client.status();
  SimpleLock lock(*client, name, {.lease = kLease});
  for (int round = 0; seat.order != Order::kEnd; ++round) {
    seat.doing = "resting";
    absl::SleepFor(absl::Milliseconds(30) * ((round * 7 + seat.number * 3) % 5));
    seat.doing = "waiting for the lock";
    absl::Status added = RunLocked(lock, {.wait = absl::Seconds(20)}, [&](const std::stop_token&) {
      return AddOne(seat, file, lock.current().fencing_token().value());
    });
    if (added.ok()) continue;
    if (!IsLeaseLost(added)) return added;
    reporter->Await();
    Tell(seat, absl::StrCat("in worker ", seat.number, ", RunLocked() returns: ", added.message()));
  }
  return absl::OkStatus();
}

volatile sig_atomic_t interrupted = 0;

// The demo's own process: it starts the workers, orders the accidents, and shows what happens. It
// throws an exception if it cannot go on.
class Show {
 public:
  explicit Show(const std::string& url)
      : seats_(*new (mmap(nullptr, sizeof seats_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::array<Seat, 5>) {
    directory_ = std::filesystem::temp_directory_path() / "redlatch-demo.XXXXXX";
    if (mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("no temporary directory");
    for (Seat& each : seats_) {  // before this process has a thread or a connection
      each.number = static_cast<int>(&each - seats_.data()) + 1;
      const pid_t pid = fork();
      if (pid < 0) throw std::runtime_error("a worker cannot be started");
      if (pid > 0) {
        each.pid = pid;  // the child shares this memory
        continue;
      }
      const absl::Status done = Work(each, url, directory_ + "/counter", LockName());
      if (!done.ok()) Tell(each, absl::StrCat("worker ", each.number, " fails: ", done.message()));
      _exit(done.ok() ? 0 : 1);
    }
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
    std::printf("redlatch at %s\n\n%s\n\n", client->server().c_str(),
                Wrapped(kPrologue, 0).c_str());
    lock_.emplace(*client, LockName());
    for (Seat& each : seats_) each.order = Order::kGo;
    Until("the workers to start", [&] {
      return std::ranges::all_of(seats_, [](const Seat& it) { return it.doing != kStarting; });
    });
    Say(
        absl::StrFormat("%d workers have started; a lease lasts %.0f s and is renewed while its "
                        "process lives",
                        seats_.size(), absl::ToDoubleSeconds(kLease)));
    Watch(absl::Seconds(1.8));
    Strike(victim_, Order::kDie, "killed while it held the lock");
    Strike(sleeper_, Order::kFreeze, "frozen after reading the number and before writing");
    Say(absl::StrFormat(
        "worker %d carries on as if no time had passed: it has read %d, but the number is now %d",
        sleeper_.number, sleeper_.count.load(), count_));
    sleeper_.order = Order::kGo;
    sleeper_.fate = nullptr;
    sleeper_.doing = "believes that it holds it";
    kill(sleeper_.pid, SIGCONT);
    Until("the late write", [&] { return sleeper_.rejected > 0; });
    Watch(absl::Seconds(1));
    for (Seat& each : seats_) each.order = each.gone ? Order::kDie : Order::kEnd;
    Until("the workers to end", [&] { return std::ranges::all_of(seats_, &Seat::gone); });
    SumUp();
  }

 private:
  std::string LockName() const {  // a name for this run alone
    return "redlatch-demo" + directory_.substr(directory_.rfind('.'));
  }

  absl::Duration elapsed() const { return absl::Now() - began_; }

  // On a terminal there is a table below the lines, which is redrawn after each line.
  void Print(std::string text) {
    if (height_ > 0) std::printf("\x1b[%zdA\r\x1b[J", std::exchange(height_, 0));
    if (on_terminal_ && std::getenv("NO_COLOR") == nullptr) {
      absl::StrReplaceAll({{kHolds, "\x1b[1;32mHOLDS THE LOCK\x1b[0m"},
                           {"REJECTED", "\x1b[1;31mREJECTED\x1b[0m"},
                           {" killed", "\x1b[31m killed\x1b[0m"},
                           {" frozen", "\x1b[33m frozen\x1b[0m"},
                           {": equal", ": \x1b[1;32mequal\x1b[0m"}},
                          &text);
    }
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }
  void Say(const std::string& text) {
    const std::string line =
        absl::StrFormat("%4.1f s  %s\n", absl::ToDoubleSeconds(elapsed()), text);
    Print(on_terminal_ ? Wrapped(line, 8) : line);
  }

  std::vector<const char*> Doings() const {
    std::vector<const char*> doings;
    for (const Seat& each : seats_) doings.push_back(each.fate ? each.fate : each.doing.load());
    return doings;
  }

  void Refresh() {
    // All lines of the table are about one moment: nothing has changed while the server was asked.
    std::vector<const char*> doings = Doings();
    absl::StatusOr<LockInfo> info = lock_->Inspect();
    while (info.ok() && doings != Doings()) {
      doings = Doings();
      info = lock_->Inspect();
    }
    if (!info.ok()) return;
    std::string holder = "no worker";
    std::string lease;
    std::string rows = "\n    worker      pid  additions\n";
    for (const Seat& each : seats_) {
      count_ = std::max(count_, each.count.load());
      absl::StrAppendFormat(&rows, "    %6d %8d %10d  %s\n", each.number, each.pid,
                            each.added.load(), doings[static_cast<size_t>(each.number) - 1]);
      if (info->holders.empty() || info->holders[0].process.pid != each.pid) continue;
      holder = absl::StrFormat("worker %d%s", each.number,
                               each.fate ? absl::StrCat(" (", each.fate, ")") : "");
      lease = absl::StrFormat("; its lease has %.1f s left",
                              absl::ToDoubleSeconds(info->holders[0].remaining));
    }
    const std::string sums = absl::StrFormat("count %d; token %u; %d waiting", count_,
                                             info->last_token.value(), info->waiting);
    if (on_terminal_ && (height_ == 0 || next_line_ <= elapsed())) {
      next_line_ = elapsed() + absl::Milliseconds(100);
      Print(absl::StrCat("\n    ", sums, "\n    lock: ", holder, lease, "\n", rows));
      height_ = 5 + static_cast<ssize_t>(seats_.size());
    } else if (!on_terminal_ && next_line_ <= elapsed()) {
      next_line_ = elapsed() + absl::Seconds(1);
      Say(absl::StrCat(sums, "; lock: ", holder, lease));
    }
  }

  // Prints the worker's line, and notices if the worker was frozen or has ended.
  void CheckWorker(Seat& seat) {
    if (seat.has_news) Say(seat.news.data());
    seat.has_news = false;
    int status = 0;
    if (seat.gone || waitpid(seat.pid, &status, WNOHANG | WUNTRACED) != seat.pid) return;
    seat.gone = !WIFSTOPPED(status);
    seat.fate = WIFSTOPPED(status) ? "frozen" : status == 0 ? "done" : "killed";
    if (seat.gone && status != 0 && seat.order != Order::kDie) {
      throw std::runtime_error(absl::StrCat("worker ", seat.number, " ended early"));
    }
  }

  void Until(const char* what, const std::function<bool()>& so) {
    for (const absl::Duration end = elapsed() + absl::Seconds(15); !so(); Refresh()) {
      if (interrupted != 0) throw std::runtime_error("interrupted");
      if (end <= elapsed()) {
        throw std::runtime_error(absl::StrCat("this did not happen in time: ", what));
      }
      absl::SleepFor(absl::Milliseconds(20));
      for (Seat& each : seats_) CheckWorker(each);
    }
  }
  void Watch(absl::Duration time) {
    Until("the time to pass", [&, end = elapsed() + time] { return end <= elapsed(); });
  }

  // Orders an accident, and waits until it has happened and another worker has the lock.
  void Strike(Seat& seat, Order order, const char* news) {
    seat.order = order;
    Until("an accident", [&] { return seat.fate != nullptr; });
    const absl::Duration struck = elapsed();
    const absl::StatusOr<LockInfo> left = lock_->Inspect();
    const std::string lease =
        !left.ok() || left->holders.empty()
            ? "its lease has expired"
            : absl::StrFormat("its lease expires in %.1f s, and is no longer renewed",
                              absl::ToDoubleSeconds(left->holders[0].remaining));
    Say(absl::StrFormat("worker %d was %s; %s", seat.number, news, lease));
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

  // Compares the number with the additions in the store's journal, and these with the additions
  // that the workers have reported: all except the one after which a worker was killed.
  void SumUp() {
    std::ifstream file(directory_ + "/counter", std::ios::binary);
    std::array<int64_t, 5> made = {};
    int64_t sum = 0;
    int64_t wrong = 0;  // a hold reads once, with a larger token than the last hold, then writes
    Record last;
    for (Record each; file.read(reinterpret_cast<char*>(&each), sizeof each); last = each) {
      made[static_cast<size_t>(each.worker) - 1] += each.written;
      sum += each.written;
      wrong += (each.written != 0 ? each.token == last.token : last.token < each.token) ? 0 : 1;
    }
    next_line_ = on_terminal_ ? absl::ZeroDuration() : absl::InfiniteDuration();
    Refresh();
    height_ = 0;  // the table stays as it is
    std::string text = "\n";
    for (const Seat& each : seats_) {
      const int64_t its = made[static_cast<size_t>(each.number) - 1];
      absl::StrAppendFormat(&text, "  worker %d   %5d additions", each.number, its);
      if (its != each.added) absl::StrAppend(&text, ", of which it reported ", each.added.load());
      if (&each == &victim_) text += " before it was killed";
      text += "\n";
      wrong += its == each.added + (&each == &victim_ ? 1 : 0) ? 0 : 1;
    }
    const bool equal = sum == last.count;
    absl::StrAppendFormat(&text, "  expected   %5d\n  the number %5d: %s\n", sum, last.count,
                          equal ? "equal" : "WRONG");
    Print(Wrapped(text, 13));
    if (wrong > 0 || !equal || sleeper_.rejected == 0) {
      throw std::runtime_error(absl::StrCat("WRONG: ", wrong, " accesses or sums do not fit, and ",
                                            sleeper_.rejected.load(),
                                            " late writes were rejected"));
    }
    Print(absl::StrCat("\n", Wrapped(kEpilogue, 0), "\n"));
  }

  std::array<Seat, 5>& seats_;
  Seat& sleeper_ = seats_[1];
  Seat& victim_ = seats_[2];
  std::string directory_;
  std::optional<SimpleLock> lock_;
  const absl::Time began_ = absl::Now();
  absl::Duration next_line_;
  int64_t count_ = 0;  // the latest known number
  const bool on_terminal_ = isatty(STDOUT_FILENO) == 1;
  ssize_t height_ = 0;  // of the table on the terminal; 0: none is shown
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
