// redlatch: the library's locks for shells, crontabs and administrators.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "redlatch/version.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"

namespace redlatch::cli {
namespace {

struct Command {
  const char* name;
  int (*run)(const std::vector<std::string>& words);
};

constexpr Command kCommands[] = {
    {"run", Run},       {"elect", Elect},           {"leader", ShowLeader}, {"ls", Ls},
    {"top", ShowTop},   {"inspect", Inspect},       {"break", Break},       {"capacity", Capacity},
    {"doctor", Doctor}, {"completion", Completion},
};

const Command* Find(std::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

// Returns `code` if all output could be written.
int Written(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  const bool full = errno == ENOSPC || errno == EDQUOT;
  return Complain(kFailure, {"the output could not be written completely: ", std::strerror(errno),
                             full ? "; free some space" : ""});
}

int Say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return Written(0);
}

bool IsOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

int RefuseUnknown(const std::string& word) {
  if (IsOneOf(word.substr(0, word.find('=')), {"--server", "--json", "--all", "--wait"})) {
    return Complain(kFailure,
                    {Printable(word), " goes after the command, as in redlatch ls --server URL"});
  }
  std::vector<std::string> names = {"help", "version"};
  for (const Command& command : kCommands) names.emplace_back(command.name);
  return Complain(kFailure, {"there is no command \"", Printable(word), "\"",
                             DidYouMean(word, names), " (redlatch --help lists them)"});
}

int Main(const std::vector<std::string>& words) {
  if (words.empty()) {
    std::fputs(Overview().c_str(), stderr);
    return kFailure;
  }
  const std::string& first = words[0];
  if (const Command* const command = Find(first)) {
    return Written(command->run({words.begin() + 1, words.end()}));
  }
  if (IsOneOf(first, {"--help", "-h", "help"})) {
    if (words.size() == 1) return Say(Overview());
    const Command* const asked_for = Find(words[1]);
    return asked_for != nullptr ? Say(Help(asked_for->name)) : RefuseUnknown(words[1]);
  }
  if (IsOneOf(first, {"--version", "-V", "version"})) {
    return Say("redlatch " REDLATCH_VERSION_STRING "\n");
  }
  if (first == "--man") return Say(ManPage());
  if (first == "--complete") return Complete({words.begin() + 1, words.end()});
  return RefuseUnknown(first);
}

}  // namespace
}  // namespace redlatch::cli

int main(int argc, char** argv) {
  // Otherwise a connection could get the number of a closed standard stream, and output its bytes.
  redlatch::cli::OccupyStandardDescriptors();
  return redlatch::cli::Main({argv + (argc > 0 ? 1 : 0), argv + argc});
}
