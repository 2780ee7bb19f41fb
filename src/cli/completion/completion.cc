// Completes words for the shells: `redlatch completion` prints a script for each of them, and they
// call `redlatch --complete`. It takes its words from the help pages.
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/cli/inspect/inspect.h"
#include "src/cli/term/command_line.h"
#include "src/cli/term/output.h"
#include "src/cli/term/pages.h"

namespace redlatch::cli {
namespace {

// One candidate, and what it is.
void Offer(std::string_view word, std::string_view beginning, std::string_view is = "") {
  if (!word.starts_with(beginning)) return;
  std::puts(absl::StrCat(std::string(word), is.empty() ? "" : "\t", std::string(is)).c_str());
}

std::string FirstSentence(const std::string& text) {
  return text.substr(0, text.find(". ")).substr(0, 60);
}

void OfferNames(const std::string& url, std::string_view beginning) {
  alarm(2);  // a shell must not wait for longer
  const auto servers = OpenServers(url);
  if (!servers.ok()) return;
  const auto list = ListLocks(**servers, "*", [](auto, auto) {});
  if (!list.ok()) return;
  for (const LockRow& row : list->rows) {
    if (Printable(row.name) == row.name) Offer(row.name, beginning, row.kind);
  }
}

// The value of an option: `last` is what was typed of it.
void OfferValue(const PageOption& option, const std::string& before, std::string_view last) {
  for (const absl::string_view word : absl::StrSplit(option.value, '|')) {
    if (option.value.find('|') != std::string::npos) Offer(absl::StrCat(before, word), last);
  }
}

}  // namespace

int Complete(const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  if (words.size() < 2) {
    for (const PageSource& page : kPages) Offer(page.command, last, SummaryOf(page.command));
    for (const char* const option : {"--help", "--version"}) Offer(option, last);
    return 0;
  }
  if (SummaryOf(words[0]).empty()) return 0;
  const std::vector<PageOption> options = OptionsOf(words[0]);
  const auto option_of = [&](std::string_view word) {
    const auto found = std::ranges::find_if(options, [&](const PageOption& each) {
      return word == each.name || (!word.empty() && word == each.letter);
    });
    return found == options.end() || found->value.empty() ? nullptr : &*found;
  };
  std::string url = CommandLine(words[0]).server();
  for (size_t i = 1; i + 1 < words.size(); ++i) {
    const PageOption* const option = option_of(words[i]);
    if (option != nullptr && option->name == "--server") url = words[i + 1];
    if (words[i].starts_with("--server=")) url = words[i].substr(words[i].find('=') + 1);
  }
  const size_t equals = last.find('=');
  if (const PageOption* const option = option_of(words[words.size() - 2])) {
    OfferValue(*option, "", last);
  } else if (last.starts_with('-') && equals != std::string::npos) {
    const PageOption* const its = option_of(last.substr(0, equals));
    if (its != nullptr) OfferValue(*its, its->name + "=", last);
  } else if (last.starts_with('-')) {
    for (const PageOption& each : options) Offer(each.name, last, FirstSentence(each.text));
  } else if (words[0] == "completion") {
    for (const PageSource& shell : kCompletions) Offer(shell.command, last);
  } else if (TakesName(words[0])) {
    OfferNames(url, last);
  }
  return 0;
}

int Completion(const std::vector<std::string>& words) {
  CommandLine line("completion");
  const std::string usage = "say redlatch completion bash, zsh or fish";
  line.Operands(1, usage);
  line.NeedsName("shell", usage);
  if (const std::optional<int> over = line.Parse(words)) return *over;
  for (const PageSource& shell : kCompletions) {
    if (shell.command != line.operands()[0]) continue;
    std::fwrite(shell.text.data(), 1, shell.text.size(), stdout);
    return 0;
  }
  return Refuse(WrongUsage(
      absl::StrCat("\"", Printable(line.operands()[0]), "\" is not a shell that redlatch knows"),
      usage));
}

}  // namespace redlatch::cli
