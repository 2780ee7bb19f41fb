#include "src/cli/term/manual.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "redlatch/version.h"
#include "src/cli/term/pages.h"
#include "src/cli/term/terminal.h"
#include "src/cli/term/text.h"

namespace redlatch::cli {
namespace {

constexpr absl::string_view kServerOption =
    "  --server URL\n"
    "      redis[s]://[[user]:password@]host[:port][/db], unix:///path/to/socket,\n"
    "      redis-sentinel://[[user]:password@]host[:port],.../primary,\n"
    "      redis-cluster://[[user]:password@]host[:port],...,\n"
    "      redlock:URL,URL,URL for a quorum of independent servers, each as above, or\n"
    "      embedded:[/directory], which is a private server for this user on this machine.\n"
    "      Default: $REDLATCH_URL, or embedded: if that is not set. Put a password in\n"
    "      $REDLATCH_URL, since anyone can read a command line.";
constexpr absl::string_view kHelpOption =
    "  --help\n"
    "      Print this text.";
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
  const std::string text = absl::StrReplaceAll(
      {source.text.data(), source.text.size()},
      {{"  @server", kServerOption}, {"  @help", kHelpOption}, {"@unreachable", kUnreachableText}});
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

std::string Plain(const Section& section, size_t width) {
  std::string out = absl::StrCat("\n", section.title, ":\n");
  for (const Item& item : section.items) {
    absl::StrAppend(&out, "  ", absl::StrReplaceAll(item.term, {{"\n", "\n  "}}), "\n",
                    Wrapped(item.text, 6, width));
  }
  return out;
}

// A hyphen that is meant as one is typed so, and no line is taken for a request.
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

std::string Overview() {
  std::string out = "redlatch: locks that processes and machines share, in Redis\n\n";
  for (const Page& page : Pages()) {
    absl::StrAppendFormat(&out, "  redlatch %-8s %s\n", std::string(page.command), page.summary);
  }
  return absl::StrCat(
      out,
      "\n  redlatch COMMAND --help   options and examples\n"
      "  redlatch --version\n\n"
      "Try it in two terminals:\n"
      "  redlatch run demo -- sh -c 'echo \"I have it, token $REDLATCH_TOKEN\"; sleep 10'\n");
}

std::string Help(std::string_view command) {
  const Page& page = *std::ranges::find(Pages(), command, &Page::command);
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
      ".TP\n.B NO_COLOR\nIf set, redlatch doctor uses no colours.\n";
  return out +
         ".SH SEE ALSO\n.BR flock (1),\n.BR timeout (1),\n.BR setsid (1),\n.BR redis\\-server "
         "(1)\n";
}

}  // namespace redlatch::cli
