#include "src/cli/term/manual.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "redlatch/version.h"

namespace redlatch::cli {

std::string Overview(std::span<const Page* const> pages) {
  std::string out = "redlatch: locks that processes and machines share, in Redis\n\n";
  for (const Page* const page : pages) {
    absl::StrAppendFormat(&out, "  redlatch %-8s %s\n", page->name, page->summary);
  }
  return absl::StrCat(
      out,
      "\n  redlatch COMMAND --help   options and examples\n"
      "  redlatch --version\n\n"
      "Try it in two terminals:\n"
      "  redlatch run demo -- sh -c 'echo \"I have it, token $REDLATCH_TOKEN\"; sleep 10'\n");
}

std::string ManPage(std::span<const Page* const> pages) {
  std::string out = absl::StrCat(
      ".\\\" Written by `redlatch --man`; the words are in src/cli/*/*page.cc.\n"
      ".TH REDLATCH 1 \"\" \"redlatch ",
      REDLATCH_VERSION_STRING,
      "\" \"User Commands\"\n"
      ".SH NAME\nredlatch \\- locks that processes and machines share, in Redis\n"
      ".SH SYNOPSIS\n");
  for (const Page* const page : pages) {
    absl::StrAppend(&out, ".B ", Roff(page->synopsis), "\n.br\n");
  }
  absl::StrAppend(&out,
                  ".B redlatch \\-\\-help\n.br\n.B redlatch \\-\\-version\n"
                  ".SH DESCRIPTION\n");
  for (const Page* const page : pages) {
    absl::StrAppend(&out, ".TP\n.B ", page->name, "\n", Roff(Wrapped(page->summary, 0)));
  }
  for (const Page* const page : pages) out += RoffSection(*page);
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
