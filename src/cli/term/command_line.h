// The words behind `redlatch COMMAND`, and what `redlatch` tells of itself.
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

// "what; mend", as kInvalidArgument.
absl::Status WrongUsage(const std::string& what, const std::string& mend);

// Says which options there are, then parses: --option value, --option=value, --flag. Behind `--`
// all are operands. Each has --server and --help.
//
// Abseil's flags are not used here: they belong to the whole program, where each command has its
// own; they go on past the operands into whatever follows; and their --help lists source files, it
// does not teach.
class CommandLine {
 public:
  // `command` is "run", of which there is a page.
  explicit CommandLine(std::string command);

  // What is pointed at must outlive Parse(), and keeps its value where the option is not given.
  void Flag(const std::string& option, bool* flag);
  void Text(const std::string& option, const std::string& what, std::string* text);
  void Time(const std::string& option, absl::Duration* time);
  void Number(const std::string& option, int64_t least, int64_t* number);
  // One of these words.
  void Choice(const std::string& option, const std::vector<std::string>& words, std::string* word);
  // More operands than these are refused with `mend`. Without this call any is.
  void Operands(size_t most, const std::string& mend);
  // The first operand is the name of a `noun`, and must be there; `mend` says how.
  void NeedsName(const std::string& noun, const std::string& mend);
  // What follows `--` is another's command, and left alone.
  void CommandFollows() { command_follows_ = true; }

  // The exit code if that is all: it has printed the help, after which nothing counts, or said what
  // is wrong and how to mend it.
  std::optional<int> Parse(const std::vector<std::string>& words);

  bool given(const std::string& option) const { return given_.contains(option); }
  const std::vector<std::string>& operands() const { return operands_; }
  const std::vector<std::string>& following() const { return following_; }
  // --server, else $REDLATCH_URL, else embedded:.
  const std::string& server() const { return server_; }

 private:
  struct Option {
    std::string what = {};              // its value is; empty: it has none
    std::string wrong = {}, mend = {};  // of a value that it does not take
    std::function<bool(const std::string& value)> take;
  };

  absl::Status TakeAll(const std::vector<std::string>& words);
  absl::Status TakeOperand(const std::string& word);
  std::vector<std::string> OptionNames() const;
  std::string MendOfUnknown() const;
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
  std::set<std::string> given_;
  std::vector<std::string> operands_;
  std::vector<std::string> following_;
};

// The one of `known` that somebody who typed `word` will have meant: it begins with `word`, or is
// spelt almost like it. Empty if there is none, or if several are equally near.
std::string Suggestion(std::string_view word, const std::vector<std::string>& known);

// "; did you mean <it>?", or nothing.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

std::string Overview();  // redlatch --help
// redlatch COMMAND --help, as wide as the terminal, and no wider than a page.
// REQUIRES: there is that command.
std::string Help(std::string_view command);
std::string ManPage();  // redlatch --man: what docs/man/redlatch.1 holds

int Bench(const std::vector<std::string>& words);
int Break(const std::vector<std::string>& words);
int Capacity(const std::vector<std::string>& words);
int Doctor(const std::vector<std::string>& words);
int Inspect(const std::vector<std::string>& words);
int Ls(const std::vector<std::string>& words);
int Run(const std::vector<std::string>& words);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_COMMAND_LINE_H_
