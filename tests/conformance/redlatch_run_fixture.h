// `redlatch run` as a process, and what becomes of what it runs.
#ifndef REDLATCH_TESTS_CONFORMANCE_REDLATCH_RUN_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_REDLATCH_RUN_FIXTURE_H_

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/base/clock.h"
#include "src/base/unique_fd.h"
#include "tests/support/redis_server.h"
#include "tests/support/subprocess.h"
#include "tests/support/temp_dir.h"

namespace redlatch {

inline std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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

class RedlatchRunTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // `redlatch run WORDS`; its standard input and output are the child's pipe.
  std::unique_ptr<support::Child> Start(const Words& words, const Words& environment = {}) const {
    // The shell is replaced by redlatch: it has but sent the errors to a file.
    Words argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>>" + errors_path_, REDLATCH_COMMAND,
                  "run"};
    argv.insert(argv.end(), words.begin(), words.end());
    Words variables = {"REDLATCH_URL=" + server_->url()};
    variables.insert(variables.end(), environment.begin(), environment.end());
    return support::Child::Exec(std::move(argv), {.environment = std::move(variables)});
  }

  // To its end: as a shell's $?, -1 where it does not end.
  int Code(const Words& words, const Words& environment = {}) const {
    return CodeOf(*Start(words, environment));
  }
  static int CodeOf(support::Child& run, absl::Duration timeout = absl::Seconds(30)) {
    const std::optional<support::ExitStatus> status = run.WaitFor(timeout);
    if (!status) return -1;
    return status->signal != 0 ? 128 + status->signal : status->code;
  }

  // What has been said on stderr, by all of them.
  std::string Errors() const { return TextOf(errors_path_); }

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

  static Words Join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Whether the server still keeps it from others.
  bool IsTaken(const std::string& lock) const { return server_->Integer({"EXISTS", lock}) == 1; }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const support::TempDir directory_;
  const std::string errors_path_ = directory_.path() + "/errors";
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_REDLATCH_RUN_FIXTURE_H_
