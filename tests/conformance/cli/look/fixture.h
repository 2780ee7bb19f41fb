// What the tests of `redlatch ls`, `inspect` and `break` have in common.
#ifndef REDLATCH_TESTS_CONFORMANCE_CLI_LOOK_FIXTURE_H_
#define REDLATCH_TESTS_CONFORMANCE_CLI_LOOK_FIXTURE_H_

#include "redlatch/lock_options.h"
#include "tests/conformance/cli/command_fixture.h"

namespace redlatch {

class RedlatchLookTest : public RedlatchCommandTest {
 protected:
  struct Outcome {
    int code = -1;
    std::string output;
    std::string errors;
  };

  // `redlatch WORDS`, to its end. Where `input` is not empty it is typed.
  Outcome Redlatch(const Words& words, const Words& environment = {}) const {
    const size_t before = Errors().size();
    const auto command = StartRedlatch(words, environment);
    Outcome outcome;
    outcome.output = OutputOf(*command);
    outcome.code = CodeOf(*command);
    outcome.errors = Errors().substr(before);
    return outcome;
  }

  // On a terminal with this many columns, with `typed` typed there.
  Outcome OnTerminal(const std::string& words, const std::string& typed = "",
                     uint16_t columns = 80) const {
    const auto command = StartOnTerminal(
        absl::StrCat(REDLATCH_COMMAND, " ", words, "; code=$?; echo; exit $code"), columns);
    if (!typed.empty()) command->pipe().WriteLine(typed);
    Outcome outcome;
    outcome.output = OutputOf(*command);
    outcome.code = CodeOf(*command);
    return outcome;
  }

  // What a strict reader of JSON makes of lines of it: `rows` in an expression of Python.
  std::string Json(const std::string& lines, const std::string& expression) const {
    const std::string path = directory_.path() + "/json";
    std::ofstream(path, std::ios::binary) << lines;
    constexpr char kProgram[] = R"py(
import base64, json, sys
rows = [json.loads(line) for line in open(sys.argv[1], encoding='utf-8')]
names = {row['name']: row for row in rows}
print(eval(sys.argv[2])))py";
    const auto python = support::Child::Exec({"python3", "-c", kProgram, path, expression});
    return python->pipe().ReadLine().value_or("no JSON");
  }

  Client NewClient(const ClientOptions& options = {}) const {
    absl::StatusOr<Client> client = Client::Connect(server_->url(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static std::string Host() {
    std::array<char, 256> host = {};
    gethostname(host.data(), host.size() - 1);
    return host.data();
  }
  // As the list shows this process, of a client that calls itself so.
  static std::string Me(const std::string& program) {
    return absl::StrCat(Host(), ":", getpid(), " ", program);
  }

  bool AwaitQueued(const std::string& queue, int64_t clients = 1) const {
    return support::Await([&] { return server_->Integer({"ZCARD", queue}) == clients; });
  }
};

// Waits for something in a thread of its own, until this object goes.
class Waiting {
 public:
  explicit Waiting(std::function<void(const AcquireOptions&)> acquire)
      : thread_([this, acquire = std::move(acquire)] { acquire({.stop = stop_.get_token()}); }) {}
  ~Waiting() {
    stop_.request_stop();
    thread_.join();
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  std::stop_source stop_;
  std::thread thread_;
};

}  // namespace redlatch

#endif  // REDLATCH_TESTS_CONFORMANCE_CLI_LOOK_FIXTURE_H_
