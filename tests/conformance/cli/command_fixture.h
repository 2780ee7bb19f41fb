// The `redlatch` command as a process, beside a server.
#ifndef REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_

#include "tests/support/live_testing.h"

namespace redlatch {

// What can be read of it: a process may end under its file in /proc.
inline std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class RedlatchCommandTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // `redlatch WORDS`; its standard input and output are the child's pipe.
  std::unique_ptr<support::Child> StartRedlatch(const Words& words,
                                                const Words& environment = {}) const {
    // The shell is replaced by redlatch: it has but sent the errors to a file.
    Words argv = {"/bin/sh", "-c", "exec \"$0\" \"$@\" 2>>" + errors_path_, REDLATCH_COMMAND};
    argv.insert(argv.end(), words.begin(), words.end());
    Words variables = {"REDLATCH_URL=" + server_->url()};
    variables.insert(variables.end(), environment.begin(), environment.end());
    return support::Child::Exec(std::move(argv), {.environment = std::move(variables)});
  }

  // A line of shell on a terminal: what is typed there, and what it shows, is the child's pipe.
  std::unique_ptr<support::Child> StartOnTerminal(const std::string& line,
                                                  uint16_t columns = 80) const {
    return support::Child::Exec(
        {"/bin/sh", "-c", line},
        {.environment = {"REDLATCH_URL=" + server_->url()}, .columns = columns});
  }

  // To its end: as a shell's $?, -1 where it does not end.
  static int CodeOf(support::Child& command, absl::Duration timeout = absl::Seconds(30)) {
    const std::optional<support::ExitStatus> status = command.WaitFor(timeout);
    if (!status) return -1;
    return status->signal != 0 ? 128 + status->signal : status->code;
  }

  // What it writes to standard output, to the end.
  static std::string OutputOf(support::Child& command) {
    std::string output;
    while (const auto line = command.pipe().ReadLine()) output += *line + "\n";
    return output;
  }

  // What has been said on stderr, by all of them.
  std::string Errors() const { return TextOf(errors_path_); }

  static Words Join(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  const std::unique_ptr<support::RedisServer> server_ = support::RedisServer::Start();
  const support::TempDir directory_;
  const std::string errors_path_ = directory_.path() + "/errors";
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_CLI_COMMAND_FIXTURE_H_
