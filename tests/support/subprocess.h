#ifndef REDLATCH_TESTS_SUPPORT_SUBPROCESS_H_
#define REDLATCH_TESTS_SUPPORT_SUBPROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "src/base/mutex.h"
#include "src/base/unique_fd.h"

namespace redlatch::support {

// One end of a bidirectional stream of lines between a child and its parent. One thread at a time.
class LinePipe {
 public:
  explicit LinePipe(base::UniqueFd end) : end_(std::move(end)) {}

  // False if the other end is gone.
  bool Write(std::string text);
  bool WriteLine(std::string_view line) { return Write(std::string(line) + "\n"); }

  // The next line without its newline; nullopt if none comes in time, or the stream has ended.
  std::optional<std::string> ReadLine(absl::Duration timeout = absl::Seconds(10));

  // The other end can still read everything that was written; then the stream ends.
  void CloseWrite();

  // Closes both directions; a terminal (ExecOptions::columns) hangs up. Do not read or write then.
  void Close() { end_.Reset(); }

 private:
  base::UniqueFd end_;
  std::string unread_;
};

// How a process ended: by exit(code), or by a signal.
struct ExitStatus {
  int code = -1;
  int signal = 0;
  bool success() const { return code == 0; }
};

struct ExecOptions {
  // "NAME=value": added to this process's environment, or replaced in it.
  std::vector<std::string> environment = {};
  // The child does not get variables whose names begin with this. Empty: it gets all variables.
  std::string hidden_prefix = {};
  // Standard output and error are appended to this file; standard input is empty, and the pipe is
  // not used. Empty: standard input and output are the pipe, and standard error is ours.
  std::string output_path = {};
  // The child has its end of the pipe at this descriptor, and our standard streams. -1: it has not.
  int pipe_descriptor = -1;
  // Standard input, output and error are a terminal with this many columns, and the child is its
  // first process. The pipe is the terminal's keyboard and screen. 0: no terminal.
  uint16_t columns = 0;
};

// True if this machine can create terminals. A bare root without /dev/pts cannot.
//   if (!CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
bool CanMakeTerminals();

// A child process. The destructor kills it, and if this process dies, however it dies, the kernel
// kills it.
//
// Each object has its own thread, which forks and reaps the child: the kernel kills the child when
// the thread that forked it ends, and the caller's thread may end early. Thread-safe, except for
// the pipe.
class Child {
 public:
  // Runs `body` in a forked child, which then ends without running destructors or exit handlers.
  // The child shares the parent's open descriptors and, under ThreadSanitizer, must not start
  // threads. REDLATCH_CHILD (child_entry.h) has neither restriction.
  static std::unique_ptr<Child> Fork(std::function<int(LinePipe&)> body);

  // Runs a program; if its name has no slash, it is searched on PATH. The child exits with 127 if
  // the program can't be run. It inherits only the standard descriptors and that of the pipe.
  static std::unique_ptr<Child> Exec(std::vector<std::string> argv, ExecOptions options = {});

  ~Child();  // SIGKILL
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // -1 after it has ended and was reaped.
  pid_t pid() const;
  LinePipe& pipe() { return *pipe_; }

  // Does nothing if the child has ended.
  void Signal(int signal);
  // SIGKILL; returns when the process is gone and reaped.
  void Kill();
  // SIGSTOP; returns when the process has stopped or ended.
  void Stop();
  void Continue() { Signal(SIGCONT); }

  ExitStatus Wait();
  // Returns nullopt if it does not end in time.
  std::optional<ExitStatus> WaitFor(absl::Duration timeout);

 private:
  // Runs in the child, with its end of the pipe.
  using ChildMain = std::function<int(base::UniqueFd pipe)>;

  // If `columns` is not 0, the pipe is a terminal.
  explicit Child(ChildMain child_main, uint16_t columns = 0);
  void Keep(const ChildMain& child_main, uint16_t columns);

  const pid_t owner_;
  std::unique_ptr<LinePipe> pipe_;

  mutable base::Mutex mutex_;
  base::CondVar changed_;
  pid_t pid_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: not yet forked
  ExitStatus status_ ABSL_GUARDED_BY(mutex_);
  std::thread keeper_;
};

// Runs `body` in a forked child, and returns its exit code; or 1000 plus the signal that ended it;
// or -1 if it hangs.
int CodeOfFork(const std::function<int()>& body);

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SUBPROCESS_H_
