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

// Where a shell would find the command: 0, or kNotFound or kNotExecutable.
int FindCommand(const std::string& command);

// A process that becomes the command when it is told so. It is forked before there is a thread or
// a connection, so that it inherits neither.
class Job {
 public:
  // `mask`: the signals that the command is to have blocked. `own_group`: that it is to be in a
  // process group of its own.
  Job(const std::vector<std::string>& command, const sigset_t& mask, bool own_group);
  ~Job();  // ends and reaps what was not started
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // -1: it could not be forked.
  pid_t pid() const { return pid_; }
  // That it needs until Start() has returned.
  std::array<int, 2> descriptors() const { return {go_.get(), failure_.get()}; }

  // Sets ("NAME=value") or removes ("NAME") variables of the environment, and executes the command.
  // 0, or the errno of why it can't be executed.
  int Start(const std::vector<std::string>& environment);

  // The command's exit code as a shell tells it, once it has ended. Reaps it.
  std::optional<int> Ended();

  // To the command alone, unless it has ended.
  void Signal(int signal) const;
  // To all that it has become.
  void SignalFamily(int signal) const;
  // Whether any of that lives.
  bool Lives() const;

 private:
  [[noreturn]] void Become(const std::vector<std::string>& command, const sigset_t& mask) const;

  const bool own_group_;
  base::UniqueFd go_;       // what it reads its environment from
  base::UniqueFd failure_;  // where it writes why it failed; closed by its success
  base::UniqueFd childs_go_;
  base::UniqueFd childs_failure_;
  pid_t pid_ = -1;
  std::optional<int> code_;
};

// The living processes of a command: itself, its descendants, and those of them whose parents have
// ended, which the kernel hands to the calling process as long as that is a subreaper. No process
// group is asked, since shells and daemons make their own; but an orphan in a session of its own is
// a daemon, and no longer the command's.
//
// `keeper` is the caller's child that is no part of it, but may be the command's parent; 0: none.
// Orphans that have ended are reaped, and not the command itself.
std::vector<pid_t> Family(pid_t command, pid_t keeper);

// The processes that this one descends from, the nearest first.
std::vector<pid_t> Ancestors();

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_JOB_H_
