#include "src/cli/term/command_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/cli/term/manual.h"
#include "src/cli/term/outcome.h"
#include "src/cli/term/suggestion.h"

namespace redlatch::cli {
namespace {

std::string Quoted(const std::string& word) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(word), "\"");
}

// "10s", "1m30s", "inf"; a bare number is seconds.
bool ParseTime(const std::string& text, absl::Duration* time) {
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    if (std::isnan(seconds)) return false;
    *time = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, time)) {
    return false;
  }
  return *time >= absl::ZeroDuration();
}

}  // namespace

absl::Status WrongUsage(const std::string& what, const std::string& mend) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; ", mend));
}

CommandLine::CommandLine(std::string command) : command_(std::move(command)) {
  const char* const url = std::getenv("REDLATCH_URL");
  server_ = url != nullptr && *url != '\0' ? url : "embedded:";
  Text("--server", "a URL", &server_);
  Flag("--help", &help_);
  Flag("-h", &help_);
}

void CommandLine::Flag(const std::string& option, bool* flag) {
  options_[option] = {.what = "", .take = [flag](const std::string&) {
                        *flag = true;
                        return absl::OkStatus();
                      }};
}

void CommandLine::Text(const std::string& option, const std::string& what, std::string* text) {
  options_[option] = {.what = what, .take = [text](const std::string& value) {
                        *text = value;
                        return absl::OkStatus();
                      }};
}

void CommandLine::Time(const std::string& option, absl::Duration* time) {
  options_[option] = {
      .what = "a time, as in 10s", .take = [option, time](const std::string& value) {
        if (ParseTime(value, time)) return absl::OkStatus();
        return WrongUsage(absl::StrCat(option, " ", Quoted(value), " is not a length of time"),
                          "say 500ms, 10s, 1m30s, 2h, or a number of seconds");
      }};
}

void CommandLine::Number(const std::string& option, int64_t least, int64_t* number) {
  options_[option] = {
      .what = "a number", .take = [option, least, number](const std::string& value) {
        if (absl::SimpleAtoi(value, number) && *number >= least) return absl::OkStatus();
        return WrongUsage(absl::StrCat(option, " ", Quoted(value), " is not a number it can be"),
                          absl::StrCat("say a whole number, ", least, " or more"));
      }};
}

void CommandLine::Choice(const std::string& option, const std::vector<std::string>& words,
                         std::string* word) {
  const std::string what = absl::StrJoin(words, " or ");
  options_[option] = {.what = what, .take = [option, words, word, what](const std::string& value) {
                        *word = value;
                        if (std::ranges::find(words, value) != words.end()) return absl::OkStatus();
                        return WrongUsage(
                            absl::StrCat(option, " ", Quoted(value), " is not one of its values"),
                            absl::StrCat("say ", what));
                      }};
}

void CommandLine::Operands(size_t most, const std::string& mend) {
  most_operands_ = most;
  too_many_ = mend;
}

void CommandLine::NeedsName(const std::string& noun, const std::string& mend) {
  no_name_ = WrongUsage(absl::StrCat("the ", noun, "'s name is missing"), mend);
}

std::optional<int> CommandLine::Parse(const std::vector<std::string>& words) {
  absl::Status taken = TakeAll(words);
  if (taken.ok() && help_) {
    std::fputs(Help(command_).c_str(), stdout);
    return 0;
  }
  if (taken.ok() && (operands_.empty() || operands_[0].empty())) taken = no_name_;
  if (!taken.ok()) return Refuse(taken);
  return std::nullopt;
}

absl::Status CommandLine::TakeAll(const std::vector<std::string>& words) {
  bool separated = false;
  for (size_t at = 0; at < words.size() && !help_;) {
    const std::string& word = words[at];
    absl::Status taken = absl::OkStatus();
    if (!separated && word == "--") {
      separated = true;
      ++at;
      if (!command_follows_) continue;
      following_.assign(words.begin() + static_cast<ptrdiff_t>(at), words.end());
      break;
    }
    if (!separated && word.size() > 1 && word[0] == '-') {
      taken = TakeOption(words, &at);
    } else {
      taken = TakeOperand(word);
      ++at;
    }
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

absl::Status CommandLine::TakeOperand(const std::string& word) {
  if (operands_.size() == most_operands_) {
    return WrongUsage(
        absl::StrCat("unexpected argument ", Quoted(word)),
        too_many_.empty() ? absl::StrCat("redlatch ", command_, " takes options only") : too_many_);
  }
  operands_.push_back(word);
  return absl::OkStatus();
}

absl::Status CommandLine::TakeOption(const std::vector<std::string>& words, size_t* at) {
  const std::string& word = words[(*at)++];
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const auto found = options_.find(name);
  if (found == options_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("redlatch ", command_, " has no option ", absl::Utf8SafeCEscape(name),
                     DidYouMean(name, OptionNames()), MendOfUnknown()));
  }
  const Option& option = found->second;
  given_.insert(name);
  if (option.what.empty()) {
    return equals == std::string::npos
               ? option.take("")
               : absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
  }
  if (equals != std::string::npos) return option.take(word.substr(equals + 1));
  if (*at == words.size() || words[*at] == "--") {
    return WrongUsage(absl::StrCat(name, " needs a value"), absl::StrCat("give it ", option.what));
  }
  return option.take(words[(*at)++]);
}

std::vector<std::string> CommandLine::OptionNames() const {
  std::vector<std::string> names;
  for (const auto& [name, option] : options_) names.push_back(name);
  return names;
}

std::string CommandLine::MendOfUnknown() const {
  return absl::StrCat(" (see redlatch ", command_, " --help",
                      command_follows_     ? "; options of the command itself go after --"
                      : most_operands_ > 0 ? "; put -- before a name that begins with -"
                                           : "",
                      ")");
}

}  // namespace redlatch::cli
