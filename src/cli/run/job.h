// The command that `redlatch run` runs.
#ifndef REDLATCH_SRC_CLI_RUN_JOB_H_
#define REDLATCH_SRC_CLI_RUN_JOB_H_

#include <signal.h>
#include <sys/types.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "src/base/unique_fd.h"

namespace redlatch::cli {

// Searches the command as a shell does. Returns 0 if it can be executed, else kNotFound or
// kNotExecutable.
int FindCommand(const std::string& command);

// A child process that becomes the command when Start() is called. It is forked before there are
// threads or connections, so that it inherits none.
class Job {
 public:
  // `mask`: the signals that are blocked in the command. `own_group`: the command gets its own
  // process group.
  Job(const std::vector<std::string>& command, const sigset_t& mask, bool own_group);
  ~Job();  // ends and reaps the child if it was not started
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // -1 if it could not be forked.
  pid_t pid() const { return pid_; }
  // The descriptors that must stay open until Start() has returned.
  std::array<int, 2> descriptors() const { return {go_.get(), failure_.get()}; }

  // Sets ("NAME=value") or removes ("NAME") variables of the environment, and executes the command.
  // Returns 0, or the errno if the command can't be executed.
  int Start(const std::vector<std::string>& environment);

  // The command's exit code as a shell reports it, once the command has ended. Reaps it.
  std::optional<int> Ended();

  // Sends the signal to the command alone, unless it has ended.
  void Signal(int signal) const;
  // Sends the signal to the command and all processes that it has started.
  void SignalFamily(int signal) const;
  // True if the command, or a process that it has started, is alive.
  bool Lives() const;

 private:
  [[noreturn]] void Become(const std::vector<std::string>& command, const sigset_t& mask) const;

  const bool own_group_;
  base::UniqueFd go_;       // the child reads its environment from it
  base::UniqueFd failure_;  // the child writes the errno of a failed exec to it; success closes it
  base::UniqueFd childs_go_;
  base::UniqueFd childs_failure_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

// The living processes of a command: the command itself, its descendants, and orphans among them,
// which the kernel hands to the calling process if that is a subreaper. It does not go by process
// groups, since shells and daemons make their own. An orphan in a session of its own is a daemon,
// and does not belong to the command any more.
//
// `keeper` is a child of the caller that does not belong to the command, but may be its parent; 0:
// none. Orphans that have ended are reaped; the command itself is not.
std::vector<pid_t> Family(pid_t command, pid_t keeper);

// The ancestors of this process, its parent first.
std::vector<pid_t> Ancestors();

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_JOB_H_
