// `redlatch run` as a process, and what becomes of what it runs.
#ifndef REDLATCH_TESTS_CONFORMANCE_CLI_RUN_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_CLI_RUN_FIXTURE_H_

#include <poll.h>
#include <sys/syscall.h>

#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {

// A process's end as an event, for one that is not our child.
class EndOf {
 public:
  explicit EndOf(pid_t pid) : pid_(pid), fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
    EXPECT_TRUE(fd_.valid()) << "there is no process " << pid;
  }
  EndOf(EndOf&&) = default;
  EndOf& operator=(EndOf&&) = delete;
  // What a failed test has left. The descriptor knows the process, whatever its number is by now.
  ~EndOf() {
    if (fd_.valid()) syscall(SYS_pidfd_send_signal, fd_.get(), SIGKILL, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  bool Within(absl::Duration timeout) const {
    pollfd end = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return poll(&end, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout))) == 1;
  }

 private:
  pid_t pid_;
  base::UniqueFd fd_;
};

class RedlatchRunTest : public RedlatchCommandTest {
 protected:
  // `redlatch run WORDS`.
  std::unique_ptr<support::Child> Start(const Words& words, const Words& environment = {}) const {
    return StartRedlatch(Join({"run"}, words), environment);
  }
  int Code(const Words& words, const Words& environment = {}) const {
    return CodeOf(*Start(words, environment));
  }

  // A number on a line of its own, of a process.
  static EndOf ProcessFrom(support::Child& run) {
    int pid = 0;
    const std::optional<std::string> line = run.pipe().ReadLine();
    EXPECT_TRUE(line && absl::SimpleAtoi(*line, &pid)) << line.value_or("nothing");
    return EndOf(pid > 0 ? pid : 0);
  }

  static pid_t ParentOf(pid_t pid) {
    const std::string status = TextOf(absl::StrCat("/proc/", pid, "/stat"));
    const size_t behind_name = status.rfind(") ");
    return behind_name == std::string::npos ? 0 : std::atoi(status.c_str() + behind_name + 4);
  }

  // A script of two processes, of which the second outlives the first if nobody ends it; it says
  // their numbers. Both do `to_term` when SIGTERM comes.
  static Words Family(const std::string& to_term) {
    const std::string stay = "trap '" + to_term + "' TERM; echo $$; while :; do sleep 0.02; done";
    return {"sh", "-c", "sh -c \"$0\" & " + stay, stay};
  }

  // Whether the server still keeps it from others.
  bool IsTaken(const std::string& lock) const { return server_->Integer({"EXISTS", lock}) == 1; }
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_CLI_RUN_FIXTURE_H_
