// redlatch: the library's locks for shells, crontabs and whoever looks after them.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/version.h"
#include "src/cli/complain.h"
#include "src/cli/exit_codes.h"
#include "src/cli/manual.h"
#include "src/cli/run.h"

int main(int argc, char** argv) {
  namespace cli = redlatch::cli;
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string_view command = words.empty() ? "" : std::string_view(words[0]);
  if (command == "run") return cli::Run({words.begin() + 1, words.end()});
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(
        words.size() > 1 && words[1] == "run" ? cli::RunHelp().c_str() : cli::Overview().c_str(),
        stdout);
    return 0;
  }
  if (command == "--version") {
    std::puts("redlatch " REDLATCH_VERSION_STRING);
    return 0;
  }
  if (command == "--man") {
    std::fputs(cli::ManPage().c_str(), stdout);
    return 0;
  }
  if (command.empty()) {
    cli::Complain({"what is to be done? See redlatch --help"});
  } else {
    cli::Complain({"\"", command, "\" is no command of redlatch: see redlatch --help"});
  }
  return cli::kFailure;
}
