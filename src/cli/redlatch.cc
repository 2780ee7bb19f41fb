// redlatch: the library's locks for shells, crontabs and whoever looks after them.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/escaping.h"
#include "redlatch/version.h"
#include "src/cli/bench.h"
#include "src/cli/break.h"
#include "src/cli/complain.h"
#include "src/cli/descriptors.h"
#include "src/cli/doctor.h"
#include "src/cli/exit_codes.h"
#include "src/cli/inspect.h"
#include "src/cli/ls.h"
#include "src/cli/manual.h"
#include "src/cli/run.h"

namespace redlatch::cli {
namespace {

struct Command {
  const Page* page;
  int (*run)(const std::vector<std::string>& words);
};

constexpr Command kCommands[] = {
    {&kRunPage, Run},     {&kLsPage, Ls},         {&kInspectPage, Inspect},
    {&kBreakPage, Break}, {&kDoctorPage, Doctor}, {&kBenchPage, Bench},
};

const Command* Find(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.page->name) return &command;
  }
  return nullptr;
}

std::vector<const Page*> Pages() {
  std::vector<const Page*> pages;
  for (const Command& command : kCommands) pages.push_back(command.page);
  return pages;
}

// The code, where all output has gone where it should.
int Written(int code) {
  if (code != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return code;
  const bool full = errno == ENOSPC || errno == EDQUOT;
  Complain({"not all output could be written: ", std::strerror(errno),
            full ? "; make room for it" : ""});
  return kFailure;
}

int Say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return Written(0);
}

int Main(const std::vector<std::string>& words) {
  if (words.empty()) {
    Complain({"what is to be done? See redlatch --help"});
    return kFailure;
  }
  const std::string& first = words[0];
  if (const Command* const command = Find(first)) {
    return Written(command->run({words.begin() + 1, words.end()}));
  }
  if (first == "--help" || first == "-h" || first == "help") {
    const Command* const asked_for = words.size() > 1 ? Find(words[1]) : nullptr;
    return Say(asked_for != nullptr ? Help(*asked_for->page) : Overview(Pages()));
  }
  if (first == "--version") return Say("redlatch " REDLATCH_VERSION_STRING "\n");
  if (first == "--man") return Say(ManPage(Pages()));
  Complain(
      {"\"", absl::Utf8SafeCEscape(first), "\" is no command of redlatch: see redlatch --help"});
  return kFailure;
}

}  // namespace
}  // namespace redlatch::cli

int main(int argc, char** argv) {
  // Else a connection could be where output is written to.
  redlatch::cli::OccupyStandardDescriptors();
  return redlatch::cli::Main({argv + (argc > 0 ? 1 : 0), argv + argc});
}
