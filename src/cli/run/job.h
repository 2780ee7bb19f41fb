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

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_RUN_JOB_H_
