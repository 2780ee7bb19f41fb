// What `redlatch run` tells of a lock that it has to wait for.
#ifndef REDLATCH_SRC_CLI_RUN_WAIT_H_
#define REDLATCH_SRC_CLI_RUN_WAIT_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "redlatch/lock_info.h"
#include "src/cli/run/options.h"
#include "src/cli/term/terminal.h"

namespace redlatch::cli {

// "held by redlatch run: make (web1, pid 4242) and 2 more"; "4 of 4 permits are taken, by ..."; how
// many are in line if nobody holds it. Empty: there is nothing to tell.
std::string HoldersText(const LockInfo& info);

// "next in line", "3 ahead": the place of the waiter that `self` is. If it is not found there, how
// many wait.
std::string PlaceText(const LockInfo& info, const LockInfo::Process& self);

// The holder on this host, if there is one among these processes, whose end this wait would have to
// outlast: with it the lock can never be free, or never have so many permits.
const LockInfo::Party* HeldAbove(const LockInfo& info, const std::string& host,
                                 const std::vector<pid_t>& ancestors, int64_t permits);

// While it lives: after half a second, who has the lock and how many are ahead, in a line on the
// terminal that is kept up to date, and gone at the end. Nothing if stderr is no terminal, or
// another job has it. And a warning, terminal or not, if the wait is for a process that this one
// was started by.
class WaitReport {
 public:
  using Look = std::function<absl::StatusOr<LockInfo>()>;
  // `what`: "lock "x"". `look` is called on a thread of this object's own.
  WaitReport(const RunOptions& options, const std::string& what, Look look);
  ~WaitReport() = default;  // the thread is stopped and joined, then the line goes
  WaitReport(const WaitReport&) = delete;
  WaitReport& operator=(const WaitReport&) = delete;

 private:
  void Run(const std::stop_token& stop, const Look& look);
  void WarnOfNesting(const LockInfo& info);

  const int64_t permits_;
  const std::string what_;
  const bool nested_;  // within another redlatch run
  const LockInfo::Process self_;
  TerminalLine line_;
  std::jthread thread_;
};

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_WAIT_H_
