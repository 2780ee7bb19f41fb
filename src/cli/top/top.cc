// `redlatch top` shows the hottest locks of a server, again and again.
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/clock.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/top/rate.h"

namespace redlatch::cli {
namespace {

// ---- The terminal.

// Without lines and echo, on the screen that leaves the user's own as it is; without the cursor.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";
termios users_terminal = {};
termios our_terminal = {};

// These two may be called by a signal's handler.
void EnterScreen() {
  tcsetattr(STDIN_FILENO, TCSADRAIN, &our_terminal);
  (void)!write(STDOUT_FILENO, kEnter.data(), kEnter.size());
}
void LeaveScreen() {
  tcsetattr(STDIN_FILENO, TCSADRAIN, &users_terminal);
  (void)!write(STDOUT_FILENO, kLeave.data(), kLeave.size());
}

// Restores the terminal, and then lets the signal act as usual.
void OnSignal(int signal) {
  const int error = errno;
  if (signal == SIGWINCH) return;  // it only interrupts poll()
  LeaveScreen();
  if (signal == SIGTSTP) {
    raise(SIGSTOP);
    EnterScreen();
    errno = error;
    return;
  }
  ::signal(signal, SIG_DFL);
  raise(signal);
}

// The terminal belongs to top as long as this object exists.
class Screen {
 public:
  Screen() {
    tcgetattr(STDIN_FILENO, &users_terminal);
    our_terminal = users_terminal;
    our_terminal.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    struct sigaction action = {};
    action.sa_handler = OnSignal;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
      sigaction(signal, &action, nullptr);
    }
    EnterScreen();
  }
  ~Screen() { LeaveScreen(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lets `show` print as it does without top, until the user presses a key.
  template <class Show>
  static void Page(const Show& show) {
    std::fputs("\x1b[H\x1b[J", stdout);
    std::fflush(stdout);
    show();
    (void)Asked("-- press any key to go back --");
  }

  // Waits for a key. Keys that were pressed before the user could read the question do not count.
  static char Asked(const char* question) {
    tcflush(STDIN_FILENO, TCIFLUSH);
    std::fputs(("\n" + Wrapped(question, 0, TerminalWidth())).c_str(), stdout);
    std::fflush(stdout);
    return Key(base::Instant::Infinite());
  }

  // The key that is pressed: itself, 'U' or 'D' for the arrows, '<' or '>' for a page, 'q' if the
  // terminal is gone, 0 for none until then.
  static char Key(base::Instant until) {
    const int typed = Byte(until);
    if (typed < 0) return 'q';
    if (typed != '\x1b') return static_cast<char>(typed);
    int last = 0;
    int parameter = 0;
    // ESC [ or ESC O, a number, and a last byte: soon, even if they are not in one packet.
    const base::Instant soon = base::Now() + absl::Milliseconds(30);
    if (const int second = Byte(soon); second != '[' && second != 'O') return '\0';
    while ((last = Byte(soon)) > 0 && last < '@') parameter = 10 * parameter + last - '0';
    if (last == '~') return parameter == 5 ? '<' : parameter == 6 ? '>' : '\0';
    return last == 'A' ? 'U' : last == 'B' ? 'D' : '\0';
  }

 private:
  // The next byte that was typed; 0 for none until then; -1 if the terminal is gone. One at a time,
  // so that no key is lost if several are pressed at once.
  static int Byte(base::Instant until) {
    pollfd key = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const absl::Duration left = std::max(until - base::Now(), absl::ZeroDuration());
    const bool forever = until.is_infinite();
    if (poll(&key, 1, forever ? -1 : static_cast<int>(absl::ToInt64Milliseconds(left))) <= 0) {
      return forever ? Byte(until) : 0;
    }
    unsigned char typed = 0;
    const ssize_t size = read(STDIN_FILENO, &typed, 1);
    if (size <= 0) return size < 0 && errno == EINTR ? 0 : -1;
    return typed;
  }
};

// ---- What is shown.

struct TopOptions {
  std::string pattern = "*";
  std::string url;
  absl::Duration interval = absl::Seconds(1);
  std::string sort = "waiting";
  int64_t most = 0;  // locks in one sample; 0: all
  bool json = false;
  bool once = false;
};

constexpr size_t kMeasured = 20;  // locks whose rates are measured
constexpr absl::Duration kMeasureEvery = absl::Milliseconds(100);

class Top {
 public:
  Top(TopOptions options, std::shared_ptr<Servers> servers)
      : options_(std::move(options)), servers_(std::move(servers)) {}

  // Prints one sample: two lists, and what happened between them.
  int Once() {
    for (int lists = 0; lists < 2; ++lists) {
      List();
      if (list_.missing.empty() && !failure_.ok()) return Refuse(failure_);
      const base::Instant end = base::Now() + (lists == 0 ? options_.interval : absl::Duration());
      while (base::Now() < end) {
        Measure();
        base::Parker().ParkUntil(std::min(end, base::Now() + kMeasureEvery));
      }
    }
    std::vector<std::string> lines;
    if (!options_.json) lines = Lines(TerminalWidth());
    for (const LockRow& row : list_.rows) {
      if (options_.json) lines.push_back(JsonOf(row));
    }
    const size_t heading = options_.json ? 0 : 1;
    size_t shown = lines.size();
    if (options_.most > 0) shown = std::min(shown, heading + static_cast<size_t>(options_.most));
    for (size_t i = 0; i < shown; ++i) {
      std::puts(Coloured(i < heading ? kBold : std::string_view(), lines[i]).c_str());
    }
    return failure_.ok() ? 0 : Refuse(failure_);
  }

  int Run() {
    const Screen screen;
    for (;;) {
      const base::Instant begun = base::Now();
      List();
      const base::Instant now = base::Now();
      pause_ = PauseAfter(now - begun, options_.interval);
      if (!ShowUntil(now + pause_)) return 0;
    }
  }

 private:
  absl::StatusOr<LockList> NewList() {
    if (servers_ == nullptr) {
      absl::StatusOr<std::shared_ptr<Servers>> again = OpenServers(options_.url);
      if (!again.ok()) return again.status();
      servers_ = *std::move(again);
    }
    return ListLocks(*servers_, options_.pattern, [](auto, auto) {});
  }

  void List() {
    absl::StatusOr<LockList> list = NewList();
    failure_ = list.status();
    is_old_ = !list.ok();
    if (list.ok()) {
      list_ = *std::move(list);
      failure_ = !list_.undecided.ok()    ? list_.undecided
                 : !list_.missing.empty() ? list_.missing.front()
                                          : absl::OkStatus();
    }
    if (servers_ != nullptr) name_ = NameOf(*servers_);
    if (!failure_.ok()) servers_ = nullptr;  // a server that failed may be there again
    std::erase_if(list_.rows, [](const LockRow& row) { return !row.in_use(); });
    for (auto& [name, rate] : rates_) rate.Age();
    Sort();
  }

  // The locks to measure: the first ones; if the highest rates are wanted, those that were granted
  // last, since a lock that changes hands often is among them.
  std::vector<std::string> Measured() const {
    std::vector<const LockRow*> rows;
    for (const LockRow& row : list_.rows) {
      if (row.token > 0) rows.push_back(&row);
    }
    if (options_.sort == "rate") std::ranges::stable_sort(rows, std::greater(), &LockRow::token);
    std::vector<std::string> names;
    for (size_t i = 0; i < std::min(rows.size(), kMeasured); ++i) names.push_back(rows[i]->name);
    return names;
  }

  // Asks for the last grants of the locks to measure: at most 400 short commands per second.
  void Measure() {
    if (servers_ == nullptr) return;
    const std::vector<std::string> names = Measured();
    const std::vector<LastGrant> grants = LastGrants(*servers_, names);
    for (size_t i = 0; i < grants.size(); ++i) rates_[names[i]].Take(grants[i], base::Now());
  }

  void Sort() {
    if (rates_.size() > 100 * kMeasured) rates_.clear();
    for (LockRow& row : list_.rows) {
      const auto rate = rates_.find(row.name);
      row.rate = rate == rates_.end() ? -1 : rate->second.PerSecond();
    }
    const std::string& by = options_.sort;
    std::ranges::stable_sort(list_.rows, [&by](const LockRow& a, const LockRow& b) {
      if (by == "name") return a.name < b.name;
      if (by == "rate" && a.rate != b.rate) return a.rate > b.rate;
      if (by == "longest" && a.longest_wait != b.longest_wait) {
        return a.longest_wait > b.longest_wait;
      }
      if (a.waiting != b.waiting) return a.waiting > b.waiting;
      return a.rate != b.rate ? a.rate > b.rate : a.name < b.name;
    });
  }

  static std::string RateText(double rate) {
    if (rate < 0) return "-";
    return absl::StrFormat("%.*f/s", rate < 9.95 ? 1 : 0, rate);
  }

  // The heading, and one line for each lock.
  std::vector<std::string> Lines(size_t width) const {
    size_t longest = 4;
    for (const LockRow& row : list_.rows) longest = std::max(longest, Columns(Printable(row.name)));
    const ListColumns columns(width, longest, {0, 10, 7, 7, 7}, {1, 2});
    std::vector<std::string> lines = {
        columns.Line({"NAME", "STATE", "LONGEST", "RATE", "WAITING", "HELD BY"})};
    for (const LockRow& row : list_.rows) {
      const bool waits = row.longest_wait > absl::ZeroDuration();
      lines.push_back(
          columns.Line({Printable(row.name), StateOf(row), waits ? Brief(row.longest_wait) : "-",
                        RateText(row.rate), WaitingOf(row), HolderOf(row)}));
    }
    return lines;
  }

  // The locks that fit on the screen: without totals, heading, keys and the free row.
  static size_t Room() { return std::max<size_t>(TerminalHeight(), 6) - 5; }

  // Draws the screen; the selected lock is reversed.
  void Draw() {
    const size_t width = TerminalWidth();
    std::vector<std::string> lines = Lines(width);
    const size_t selected = Selected();
    const size_t room = Room();
    const size_t from = selected < room ? 0 : selected - room + 1;
    std::vector<std::string> page = {Cut(Totals(list_.rows, name_), width),
                                     Coloured(kBold, lines[0])};
    for (size_t i = from; i < std::min(from + room, list_.rows.size()); ++i) {
      const std::string& line = lines[i + 1];
      page.push_back(i == selected ? absl::StrCat("\x1b[7m", Padded(line, width), "\x1b[0m")
                                   : line);
    }
    std::string last = absl::StrCat("sorted by ", options_.sort);
    if (pause_ > options_.interval) {
      last = absl::StrCat("many keys: a list every ", ShortTime(pause_));
    }
    if (!failure_.ok()) {
      const std::string why = Printable(std::string(failure_.message()));
      last = is_old_ ? absl::StrCat("not updated: ", why) : why;
    }
    page.push_back(Cut(last, width));
    page.push_back(Cut("q quit  i inspect  b break  sort: w r l n", width));
    ShowPage(std::move(page));
  }

  // Shows the list and acts on keys. Returns false if the user quits.
  bool ShowUntil(base::Instant end) {
    while (base::Now() < end) {
      Draw();
      Measure();
      base::Instant until = std::min(end, base::Now() + kMeasureEvery);
      while (const char key = Screen::Key(until)) {
        if (key == 'q') return false;
        ActOn(key);
        until = base::Now();  // all that was typed before the list is drawn again
      }
    }
    return true;
  }

  // The index of the selected lock.
  size_t Selected() const {
    const auto found = std::ranges::find(list_.rows, selected_, &LockRow::name);
    return found == list_.rows.end() ? 0 : static_cast<size_t>(found - list_.rows.begin());
  }

  void ActOn(char key) {
    if (list_.rows.empty()) return;
    const size_t at = Selected();
    if (key == 'U' || key == 'k') selected_ = list_.rows[at - std::min<size_t>(at, 1)].name;
    if (key == '<') selected_ = list_.rows[at - std::min(at, Room())].name;
    const size_t after = key == 'D' || key == 'j' ? 1 : key == '>' ? Room() : 0;
    if (after > 0) selected_ = list_.rows[std::min(at + after, list_.rows.size() - 1)].name;
    for (const char* const sort : {"waiting", "rate", "longest", "name"}) {
      if (key != *sort) continue;
      options_.sort = sort;
      Sort();
    }
    const bool acts = key == 'i' || key == '\n' || key == 'b';
    if (!acts || servers_ == nullptr) return;
    const std::string name = list_.rows[Selected()].name;
    const auto confirm = [] {
      const char answer = Screen::Asked("-- press y to break it, any other key to leave it --");
      return answer == 'y' || answer == 'Y';
    };
    Screen::Page([&] {
      if (key == 'b') {
        BreakLock(*servers_, name, confirm);
      } else {
        ShowLock(*servers_, name, /*as_json=*/false, /*on_one_screen=*/true);
      }
    });
  }

  TopOptions options_;
  std::shared_ptr<Servers> servers_;             // nullptr: to be opened again
  std::string name_;                             // of the servers
  LockList list_;                                // the locks in use, sorted
  absl::Status failure_;                         // why the list is not complete, or is old
  bool is_old_ = false;                          // the list could not be read again
  absl::Duration pause_ = absl::ZeroDuration();  // between two lists
  std::string selected_;                         // a name; none that is listed: the first lock
  absl::flat_hash_map<std::string, Rate> rates_;
};

}  // namespace

int ShowTop(const std::vector<std::string>& words) {
  TopOptions options;
  CommandLine line("top");
  line.Flag("--json", &options.json);
  line.Flag("--once", &options.once);
  line.Colour();
  line.Time("--interval", &options.interval);
  line.Number("--count", 1, &options.most);
  line.Choice("--sort", {"waiting", "rate", "longest", "name"}, &options.sort);
  line.Operands(1, "say one pattern, in quotes: redlatch top 'orders:*'");
  if (const std::optional<int> over = line.Parse(words)) return *over;
  if (!line.operands().empty()) options.pattern = line.operands()[0];
  options.url = line.server();
  const bool once = options.once || options.json;
  if (!once && (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0)) {
    return Refuse(WrongUsage("redlatch top needs a terminal",
                             "use --once or --json for one sample, or redlatch ls"));
  }
  absl::StatusOr<std::shared_ptr<Servers>> servers = OpenServers(options.url);
  if (!servers.ok()) return Refuse(servers.status());
  Top top(std::move(options), *std::move(servers));
  return once ? top.Once() : top.Run();
}

}  // namespace redlatch::cli
