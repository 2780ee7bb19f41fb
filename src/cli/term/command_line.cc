#include "src/cli/term/command_line.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "redlatch/version.h"
#include "src/cli/term/output.h"
#include "src/cli/term/pages.h"

namespace redlatch::cli {
namespace {

std::string Quoted(const std::string& word) { return absl::StrCat("\"", Printable(word), "\""); }

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

absl::Status WrongUsage(const std::string& what, const std::string& fix) {
  return absl::InvalidArgumentError(absl::StrCat(what, "; ", fix));
}

CommandLine::CommandLine(std::string command) : command_(std::move(command)) {
  const char* const url = std::getenv("REDLATCH_URL");
  server_ = url != nullptr && *url != '\0' ? url : "embedded:";
  Text("--server", "a URL", &server_);
  Flag("--help", &help_);
}

void CommandLine::Flag(const std::string& option, bool* flag) {
  options_[option] = {.take = [flag](const std::string&) { return *flag = true; }};
}

void CommandLine::Text(const std::string& option, const std::string& what, std::string* text) {
  options_[option] = {.what = what, .take = [text](const std::string& value) {
                        *text = value;
                        return true;
                      }};
}

void CommandLine::Time(const std::string& option, absl::Duration* time) {
  options_[option] = {.what = "a time, as in 10s",
                      .wrong = "is not a length of time",
                      .fix = "say 500ms, 10s, 1m30s, 2h, or a number of seconds",
                      .take = [time](const std::string& value) { return ParseTime(value, time); }};
}

void CommandLine::Number(const std::string& option, int64_t least, int64_t* number) {
  options_[option] = {.what = "a number",
                      .wrong = "is not a number it can be",
                      .fix = absl::StrCat("say a whole number, ", least, " or more"),
                      .take = [least, number](const std::string& value) {
                        return absl::SimpleAtoi(value, number) && *number >= least;
                      }};
}

void CommandLine::Choice(const std::string& option, const std::vector<std::string>& words,
                         std::string* word) {
  const std::string what = absl::StrJoin(words, " or ");
  options_[option] = {.what = what,
                      .wrong = "is not one of its values",
                      .fix = "say " + what,
                      .take = [words, word](const std::string& value) {
                        *word = value;
                        return std::ranges::find(words, value) != words.end();
                      }};
}

void CommandLine::Operands(size_t most, const std::string& fix) {
  most_operands_ = most;
  too_many_ = fix;
}

void CommandLine::NeedsName(const std::string& noun, const std::string& fix) {
  no_name_ = WrongUsage(absl::StrCat("the ", noun, "'s name is missing"), fix);
}

std::optional<int> CommandLine::Parse(const std::vector<std::string>& words) {
  absl::Status taken = TakeAll(words);
  UseColour(colour_);
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
      ++at;
      // In front of NAME -- CMD, it lets the name begin with "-".
      const bool names = operands_.empty() && at + 1 < words.size() && words[at + 1] == "--";
      if (command_follows_ && names) operands_.push_back(words[at]), at += 2;
      separated = true;
      if (!command_follows_) continue;
      following_.assign(words.begin() + static_cast<ptrdiff_t>(at), words.end());
      break;
    }
    if (!separated && word.size() > 1 && word[0] == '-') {
      taken = TakeOption(words, &at);
    } else {
      if (operands_.size() == most_operands_) {
        return WrongUsage(absl::StrCat("unexpected argument ", Quoted(word)),
                          too_many_.empty()
                              ? absl::StrCat("redlatch ", command_, " takes options only")
                              : too_many_);
      }
      operands_.push_back(word);
      ++at;
    }
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

absl::Status CommandLine::TakeOption(const std::vector<std::string>& words, size_t* at) {
  const std::string& word = words[(*at)++];
  const bool is_letter = word[1] != '-';
  const size_t end = is_letter ? 2 : std::min(word.find('='), word.size());
  std::string name = word.substr(0, end);
  const bool has_value = end < word.size();
  std::string value = has_value ? word.substr(is_letter ? end : end + 1) : "";
  for (const PageOption& each : OptionsOf(command_)) {
    if (name == each.letter) name = each.name;
  }
  const auto found = options_.find(name);
  if (found == options_.end()) {
    std::vector<std::string> known;
    for (const auto& [option, unused] : options_) known.push_back(option);
    return absl::InvalidArgumentError(
        absl::StrCat("redlatch ", command_, " has no option ", Printable(name),
                     DidYouMean(name, known), " (see redlatch ", command_, " --help",
                     command_follows_ ? absl::StrCat("; options of the command itself go after --, "
                                                     "and so does a name that begins with -, as in "
                                                     "redlatch ",
                                                     command_, " -- NAME -- CMD")
                     : most_operands_ > 0 ? "; put -- before a name that begins with -"
                                          : "",
                     ")"));
  }
  const Option& option = found->second;
  given_.insert(name);
  if (is_letter && option.what.empty() && has_value) {  // -ja is -j -a
    option.take("");
    size_t first = 0;
    return TakeOption({"-" + value}, &first);
  }
  if (option.what.empty() && has_value) {
    return absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
  }
  if (!option.what.empty() && !has_value) {
    if (*at == words.size() || words[*at] == "--") {
      return WrongUsage(absl::StrCat(name, " needs a value"), "give it " + option.what);
    }
    value = words[(*at)++];
  }
  if (option.take(value)) return absl::OkStatus();
  return WrongUsage(absl::StrCat(name, " ", Quoted(value), " ", option.wrong), option.fix);
}

namespace {

// How many letters must be inserted, removed, replaced, or swapped with their neighbour.
size_t Distance(std::string_view from, std::string_view to) {
  std::vector<size_t> before_last(to.size() + 1);
  std::vector<size_t> last(to.size() + 1);
  std::vector<size_t> row(to.size() + 1);
  for (size_t j = 0; j <= to.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= from.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = last[j - 1] + (from[i - 1] == to[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[to.size()];
}

// How many letters of a mistyped word may be wrong: more in a longer word, none in a single letter.
size_t Tolerated(std::string_view word) {
  const size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const size_t letters = word.size() - dashes;
  return letters < 2 ? 0 : (letters + 1) / 3;
}

}  // namespace

std::string Suggestion(std::string_view word, const std::vector<std::string>& known) {
  size_t nearest = Tolerated(word) + 1;
  if (nearest == 1) return "";
  std::string found;
  for (const std::string& each : known) {
    // A word that begins with what was typed is nearer than any misspelling.
    const size_t farness = each.starts_with(word) ? 0 : Distance(word, each);
    if (farness == nearest) found.clear();
    if (farness >= nearest) continue;
    nearest = farness;
    found = each;
  }
  return found;
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::string suggestion = Suggestion(word, known);
  return suggestion.empty() ? "" : absl::StrCat("; did you mean ", suggestion, "?");
}

namespace {

constexpr absl::string_view kServerOption =
    "  -s, --server URL\n"
    "      redis[s]://[[user]:password@]host[:port][/db], unix:///path/to/socket,\n"
    "      redis-sentinel://[[user]:password@]host[:port],.../primary,\n"
    "      redis-cluster://[[user]:password@]host[:port],...,\n"
    "      redlock:URL,URL,URL for a quorum of independent servers, each as above, or\n"
    "      embedded:[/directory], which is a private server for this user on this machine.\n"
    "      Default: $REDLATCH_URL, or embedded: if that is not set. Put a password in\n"
    "      $REDLATCH_URL, since anyone can read a command line.";
constexpr absl::string_view kHelpOption =
    "  -h, --help\n"
    "      Print this text.";
constexpr absl::string_view kColourOption =
    "  --color auto|always|never\n"
    "      Colours. Default: auto, which means on a terminal, unless $NO_COLOR is set.";
constexpr absl::string_view kUnreachableText =
    "unreachable: the server could not be reached, did not answer, or cannot serve right now (it "
    "is a replica, is loading its data, or is busy with a script)";

struct Item {
  std::string term;  // may have several lines
  std::string text;
};

struct Section {
  std::string title;  // "Exit codes"
  std::vector<Item> items;
};

struct Page {
  std::string_view command;
  std::string summary;
  std::string synopsis;
  std::string purpose;
  Section examples;
  std::vector<Section> sections;
};

Section ReadSection(absl::string_view block) {
  const std::vector<absl::string_view> lines = absl::StrSplit(block, '\n', absl::SkipEmpty());
  Section section{.title = std::string(absl::StripSuffix(lines[0], ":"))};
  for (size_t i = 1; i < lines.size(); ++i) {
    absl::string_view line = lines[i];
    if (absl::ConsumePrefix(&line, "      ")) {
      std::string& text = section.items.back().text;
      absl::StrAppend(&text, text.empty() ? "" : " ", line);
    } else {
      const bool goes_on = !section.items.empty() && section.items.back().text.empty();
      if (!goes_on) section.items.emplace_back();
      absl::StrAppend(&section.items.back().term, goes_on ? "\n" : "", line.substr(2));
    }
  }
  return section;
}

Page ReadPage(const PageSource& source) {
  const std::string text =
      absl::StrReplaceAll({source.text.data(), source.text.size()},
                          {{"  @server", absl::StrCat(kServerOption, "\n", kHelpOption)},
                           {"  @help", kHelpOption},
                           {"  @color", kColourOption},
                           {"@unreachable", kUnreachableText}});
  const std::vector<std::string> blocks = absl::StrSplit(text, "\n\n");
  Page page{.command = source.command,
            .summary = blocks[0],
            .synopsis = blocks[1],
            .purpose = absl::StrReplaceAll(blocks[2], {{"\n", " "}}),
            .examples = ReadSection(blocks[3])};
  for (size_t i = 4; i < blocks.size(); ++i) page.sections.push_back(ReadSection(blocks[i]));
  return page;
}

const std::vector<Page>& Pages() {
  static const auto* const pages = [] {
    auto* const read = new std::vector<Page>();
    for (const PageSource& source : kPages) read->push_back(ReadPage(source));
    return read;
  }();
  return *pages;
}

const Page* FindPage(std::string_view command) {
  const auto page = std::ranges::find(Pages(), command, &Page::command);
  return page == Pages().end() ? nullptr : &*page;
}

std::string Plain(const Section& section, size_t width) {
  std::string out = absl::StrCat("\n", section.title, ":\n");
  for (const Item& item : section.items) {
    absl::StrAppend(&out, "  ", absl::StrReplaceAll(item.term, {{"\n", "\n  "}}), "\n",
                    Wrapped(item.text, 6, width));
  }
  return out;
}

// Escapes a text for roff: a hyphen stays a hyphen, and no line becomes a request.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"},
                                               {"-", "\\-"},
                                               {"^", "\\(ha"},
                                               {"~", "\\(ti"},
                                               {"'", "\\(aq"},
                                               {"\n.", "\n\\&."}});
  return out.starts_with(".") ? absl::StrCat("\\&", out) : out;
}

std::string RoffSections(const Page& page) {
  std::string out =
      absl::StrCat(".SH REDLATCH ", absl::AsciiStrToUpper(std::string(page.command)), "\n.B ",
                   Roff(page.synopsis), "\n.PP\n", Roff(Wrapped(page.purpose, 0)));
  for (const Section& section : page.sections) {
    absl::StrAppend(&out, ".SS ", Roff(section.title), "\n");
    for (const Item& item : section.items) {
      absl::StrAppend(&out, ".TP\n.B ", Roff(absl::StrReplaceAll(item.term, {{"\n", " "}})), "\n",
                      Roff(Wrapped(item.text, 0)));
    }
  }
  absl::StrAppend(&out, ".SS ", page.examples.title, "\n");
  for (const Item& item : page.examples.items) {
    absl::StrAppend(&out, ".PP\n", Roff(Wrapped(item.text, 0)), ".PP\n.RS 4\n.nf\n",
                    Roff(item.term), "\n.fi\n.RE\n");
  }
  return out;
}

}  // namespace

std::vector<PageOption> OptionsOf(std::string_view command) {
  std::vector<PageOption> options;
  const Page* const page = FindPage(command);
  if (page == nullptr) return options;
  const auto section = std::ranges::find(page->sections, "Options", &Section::title);
  if (section == page->sections.end()) return options;
  for (const Item& item : section->items) {
    std::string letter;  // "-w, --wait TIME", "--shared, --write", "--permits N --capacity M"
    for (const absl::string_view word :
         absl::StrSplit(item.term, absl::ByAnyChar(" ,\n"), absl::SkipEmpty())) {
      if (absl::StartsWith(word, "--")) {
        options.push_back({std::string(word), letter, "", item.text});
        letter.clear();
      } else if (absl::StartsWith(word, "-")) {
        letter = std::string(word);
      } else if (!options.empty()) {
        options.back().value = std::string(word);
      }
    }
  }
  return options;
}

std::string SummaryOf(std::string_view command) {
  const Page* const page = FindPage(command);
  return page == nullptr ? "" : page->summary;
}

bool TakesName(std::string_view command) {
  const Page* const page = FindPage(command);
  return page != nullptr && (absl::StrContains(page->synopsis, " NAME") ||
                             absl::StrContains(page->synopsis, " [PATTERN]"));
}

std::string Overview() {
  std::string out = "redlatch: locks that processes and machines share, in Redis\n\n";
  for (const Page& page : Pages()) {
    absl::StrAppendFormat(&out, "  redlatch %-10s %s\n", std::string(page.command), page.summary);
  }
  return absl::StrCat(
      out,
      "\n  redlatch COMMAND --help   options and examples\n"
      "  redlatch --version\n\n"
      "Try it in two terminals:\n"
      "  redlatch run demo -- sh -c 'echo \"I have it, token $REDLATCH_TOKEN\"; sleep 10'\n");
}

std::string Help(std::string_view command) {
  const Page& page = *FindPage(command);
  const size_t width = PageWidth();
  std::string out = absl::StrCat(page.synopsis, "\n\n", Wrapped(page.purpose, 0, width),
                                 Plain(page.examples, width));
  for (const Section& section : page.sections) out += Plain(section, width);
  return out;
}

std::string ManPage() {
  std::string out = absl::StrCat(
      ".\\\" Written by `redlatch --man`; the words are in src/cli/*/*.page.\n"
      ".TH REDLATCH 1 \"\" \"redlatch ",
      REDLATCH_VERSION_STRING,
      "\" \"User Commands\"\n"
      ".SH NAME\nredlatch \\- locks that processes and machines share, in Redis\n"
      ".SH SYNOPSIS\n");
  for (const Page& page : Pages()) {
    absl::StrAppend(&out, ".B ", Roff(page.synopsis), "\n.br\n");
  }
  absl::StrAppend(&out,
                  ".B redlatch \\-\\-help\n.br\n.B redlatch \\-\\-version\n"
                  ".SH DESCRIPTION\n");
  for (const Page& page : Pages()) {
    absl::StrAppend(&out, ".TP\n.B ", std::string(page.command), "\n",
                    Roff(Wrapped(page.summary, 0)));
  }
  for (const Page& page : Pages()) out += RoffSections(page);
  out +=
      ".SH ENVIRONMENT\n"
      ".TP\n.B REDLATCH_URL\nThe server, if \\-\\-server is not given.\n"
      ".TP\n.B REDLATCH_EMBEDDED_DIRECTORY\nThe directory of embedded: if the URL names none.\n"
      ".TP\n.B REDLATCH_REDIS_SERVER\nThe program to start for embedded:, instead of "
      "redis\\-server.\n"
      ".TP\n.B NO_COLOR\nIf it is set, redlatch uses colours only with \\-\\-color=always.\n";
  return out +
         ".SH SEE ALSO\n.BR flock (1),\n.BR timeout (1),\n.BR setsid (1),\n.BR redis\\-server "
         "(1)\n";
}

}  // namespace redlatch::cli
