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

// One end of a two-way stream of lines between a child and its parent. One thread at a time.
class LinePipe {
 public:
  explicit LinePipe(base::UniqueFd end) : end_(std::move(end)) {}

  // False if the other end is gone.
  bool WriteLine(std::string_view line);

  // The next line, without its end; nothing where none comes in time, or the stream is over.
  std::optional<std::string> ReadLine(absl::Duration timeout = absl::Seconds(10));

  // The other end reads what was written, then the end of the stream.
  void CloseWrite();

  // Both directions: a terminal (ExecOptions::columns) hangs up. Nothing is read or written then.
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
  // "NAME=value"; replaces or adds to what this process's environment says.
  std::vector<std::string> environment = {};
  // Variables whose name begins so are not handed on. Empty: all are.
  std::string hidden_prefix = {};
  // Standard output and error are appended to this file; standard input is empty, and the pipe
  // leads nowhere. Empty: standard input and output are the pipe, errors go where ours go.
  std::string output_path = {};
  // The child finds its end of the pipe at this descriptor and keeps our standard streams. -1: not.
  int pipe_descriptor = -1;
  // Standard input, output and error are a terminal with this many columns, of which the child is
  // the first process: the pipe is what a person types and sees. 0: no terminal.
  uint16_t columns = 0;
};

// Whether this machine gives out terminals: a bare root without /dev/pts does not.
//   if (!CanMakeTerminals()) GTEST_SKIP() << "there is no /dev/pts";
bool CanMakeTerminals();

// A child process. It ends with this object at the latest; and where this process dies, however
// it dies, the kernel kills the child.
//
// A thread of this object's own forks and reaps the child: the kernel tells a child of the death
// of the thread that forked it, and the caller's may end early. Thread-safe, but for the pipe.
class Child {
 public:
  // Runs `body` in a forked child, which then ends without any destructor or exit handler. The
  // child shares the parent's open descriptors and, under ThreadSanitizer, must not start threads:
  // REDLATCH_CHILD (child_entry.h) has neither flaw.
  static std::unique_ptr<Child> Fork(std::function<int(LinePipe&)> body);

  // Runs a program, looked for on PATH where its name has no slash; exits with 127 where it can't
  // be run. No descriptor but the standard ones (and the pipe's) is handed on.
  static std::unique_ptr<Child> Exec(std::vector<std::string> argv, ExecOptions options = {});

  ~Child();  // SIGKILL
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // -1 once it has ended and is reaped.
  pid_t pid() const;
  LinePipe& pipe() { return *pipe_; }

  // Nothing happens where the child has ended.
  void Signal(int signal);
  // SIGKILL; returns when the process is gone and reaped.
  void Kill();
  // SIGSTOP; returns when the process has stopped or ended.
  void Stop();
  void Continue() { Signal(SIGCONT); }

  ExitStatus Wait();
  // Nothing where it has not ended in time.
  std::optional<ExitStatus> WaitFor(absl::Duration timeout);

 private:
  // Runs in the child, with its end of the pipe.
  using ChildMain = std::function<int(base::UniqueFd pipe)>;

  // With `columns` the pipe is a terminal.
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

// What a forked child returns that runs `body`; 1000 more than the signal that ended it; -1: it
// hangs.
int CodeOfFork(const std::function<int()>& body);

}  // namespace redlatch::support

#endif  // REDLATCH_TESTS_SUPPORT_SUBPROCESS_H_
