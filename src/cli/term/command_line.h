// Parses the words after `redlatch COMMAND`, and prints the help pages.
#ifndef REDLATCH_SRC_CLI_TERM_COMMAND_LINE_H_
#define REDLATCH_SRC_CLI_TERM_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace redlatch::cli {

// kInvalidArgument with the message "what; fix".
absl::Status WrongUsage(const std::string& what, const std::string& fix);

// The caller declares the options, then calls Parse(): --option value, --option=value, --flag. All
// words after `--` are operands. The page of the command says which options have a letter, too: -o
// value, -ovalue. Each command has --server and --help.
//
// Abseil's flags do not fit: they are global, while each command has its own; they are also parsed
// after the operands, where another command's options are; and their --help lists source files.
class CommandLine {
 public:
  // `command`: for example "run". It must have a page.
  explicit CommandLine(std::string command);

  // The variables must outlive Parse(). They keep their values if the option is not given.
  void Flag(const std::string& option, bool* flag);
  void Text(const std::string& option, const std::string& what, std::string* text);
  void Time(const std::string& option, absl::Duration* time);
  void Number(const std::string& option, int64_t least, int64_t* number);
  // Takes one of these words.
  void Choice(const std::string& option, const std::vector<std::string>& words, std::string* word);
  // Allows that many operands; the error for more ends with `fix`. Without this call none is
  // allowed.
  void Operands(size_t most, const std::string& fix);
  // Requires the name of a `noun` as the first operand; the error without it ends with `fix`.
  void NeedsName(const std::string& noun, const std::string& fix);
  // Adds --color.
  void Colour() { Choice("--color", {"auto", "always", "never"}, &colour_); }
  // The words after `--` are another command with its arguments. They are not parsed.
  void CommandFollows() { command_follows_ = true; }

  // Returns an exit code if the command must not run: Parse() has printed the help, or said what is
  // wrong and how to fix it.
  std::optional<int> Parse(const std::vector<std::string>& words);

  bool given(const std::string& option) const { return given_.contains(option); }
  const std::vector<std::string>& operands() const { return operands_; }
  const std::vector<std::string>& following() const { return following_; }
  // --server, else $REDLATCH_URL, else embedded:.
  const std::string& server() const { return server_; }

 private:
  struct Option {
    std::string what = {};             // what its value is; empty: it takes none
    std::string wrong = {}, fix = {};  // the error for a wrong value
    std::function<bool(const std::string& value)> take;
  };

  absl::Status TakeAll(const std::vector<std::string>& words);
  // Moves `at` past the option's value.
  absl::Status TakeOption(const std::vector<std::string>& words, size_t* at);

  const std::string command_;
  std::map<std::string, Option> options_;
  size_t most_operands_ = 0;
  std::string too_many_;
  absl::Status no_name_;
  bool command_follows_ = false;

  bool help_ = false;
  std::string server_;
  std::string colour_ = "auto";
  std::set<std::string> given_;
  std::vector<std::string> operands_;
  std::vector<std::string> following_;
};

// The one of `known` that the user probably meant by `word`: it begins with `word`, or is spelt
// almost like it. Empty if there is none, or if several are equally near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

// "; did you mean <it>?", or nothing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

std::string Overview();  // redlatch --help
// redlatch COMMAND --help, as wide as the terminal but at most as wide as a page.
// REQUIRES: the command exists.
std::string Help(std::string_view command);
std::string ManPage();  // redlatch --man: the content of docs/man/redlatch.1

// An option, as the page of its command tells it.
struct PageOption {
  std::string name;    // "--wait"
  std::string letter;  // "-w"; empty: it has none
  std::string value;   // "TIME", "kill|warn"; empty: it takes none
  std::string text;
};
std::vector<PageOption> OptionsOf(std::string_view command);
std::string SummaryOf(std::string_view command);  // empty if there is no such command
bool TakesName(std::string_view command);         // of a lock, or a pattern of names

// redlatch --complete WORDS...: prints what the last word may become, one per line.
int Complete(const std::vector<std::string>& words);
int Completion(const std::vector<std::string>& words);
int Break(const std::vector<std::string>& words);
int Capacity(const std::vector<std::string>& words);
int Doctor(const std::vector<std::string>& words);
int Elect(const std::vector<std::string>& words);
int Inspect(const std::vector<std::string>& words);
int Ls(const std::vector<std::string>& words);
int Run(const std::vector<std::string>& words);
int ShowLeader(const std::vector<std::string>& words);
int ShowTop(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_COMMAND_LINE_H_
