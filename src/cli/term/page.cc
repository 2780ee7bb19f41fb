#include "src/cli/term/page.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/cli/term/terminal.h"

namespace redlatch::cli {
namespace {

constexpr size_t kNarrowest = 30;

std::string Plain(const char* title, std::span<const Item> entries, size_t width) {
  std::string out = absl::StrCat("\n", title, ":\n");
  for (const Item& entry : entries) {
    absl::StrAppend(&out, "  ", absl::StrReplaceAll(entry.term, {{"\n", "\n  "}}), "\n",
                    Wrapped(entry.text, 6, width));
  }
  return out;
}

}  // namespace

std::string Wrapped(const std::string& text, size_t indent, size_t width) {
  std::string out;
  size_t column = width;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t space = rest.find(' ');
    const std::string_view word = rest.substr(0, space);
    if (column + 1 + word.size() > width) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", std::string(indent, ' '), std::string(word));
      column = indent + word.size();
    } else {
      absl::StrAppend(&out, " ", std::string(word));
      column += 1 + word.size();
    }
    rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
  }
  return out + "\n";
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

std::string Help(const Page& page) {
  const size_t terminal = TerminalWidth();
  const size_t width = terminal == 0 ? kPageWidth : std::clamp(terminal, kNarrowest, kPageWidth);
  std::string out = absl::StrCat(page.synopsis, "\n\n", Wrapped(page.purpose, 0, width),
                                 Plain("Examples", page.examples, width));
  for (const Section& section : page.sections) out += Plain(section.title, section.entries, width);
  return out;
}

std::string RoffSection(const Page& page) {
  std::string out = absl::StrCat(".SH REDLATCH ", absl::AsciiStrToUpper(page.name), "\n.B ",
                                 Roff(page.synopsis), "\n.PP\n", Roff(Wrapped(page.purpose, 0)));
  for (const Section& section : page.sections) {
    absl::StrAppend(&out, ".SS ", Roff(section.title), "\n");
    for (const Item& entry : section.entries) {
      absl::StrAppend(&out, ".TP\n.B ", Roff(absl::StrReplaceAll(entry.term, {{"\n", " "}})), "\n",
                      Roff(Wrapped(entry.text, 0)));
    }
  }
  out += ".SS Examples\n";
  for (const Item& entry : page.examples) {
    absl::StrAppend(&out, ".PP\n", Roff(Wrapped(entry.text, 0)), ".PP\n.RS 4\n.nf\n",
                    Roff(entry.term), "\n.fi\n.RE\n");
  }
  return out;
}

}  // namespace redlatch::cli
