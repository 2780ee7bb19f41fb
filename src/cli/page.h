// The words of a subcommand's manual: its --help and its part of the man page come from them.
#ifndef REDLATCH_SRC_CLI_PAGE_H_
#define REDLATCH_SRC_CLI_PAGE_H_

#include <span>
#include <string>

namespace redlatch::cli {

struct Entry {
  const char* term;
  const char* text;
};

struct Section {
  const char* title;  // "Exit codes"
  std::span<const Entry> entries;
};

struct Page {
  const char* name;      // "run"
  const char* summary;   // "run a command under a lock": for the list of commands
  const char* synopsis;  // "redlatch run NAME [options] -- CMD [ARGS...]", without line breaks
  const char* purpose;   // a paragraph
  std::span<const Entry> examples;  // what is typed, and what for
  std::span<const Section> sections;
};

// What each command that speaks to a server has.
inline constexpr Entry kServerOption = {
    "--server URL",
    "redis://[[user]:password@]host[:port][/db], unix:///path/to/socket, or embedded:[/directory], "
    "a private server of this user on this machine. Default: $REDLATCH_URL, else embedded:. A "
    "password belongs into $REDLATCH_URL: everybody can read a command line."};
inline constexpr char kUnreachableText[] =
    "unreachable: the server can't be reached, does not answer, or can't serve now: it is a "
    "replica, loads its data, or is busy with a script";
inline constexpr Entry kHelpOption = {"--help", "This text."};

std::string Help(const Page& page);         // for a terminal
std::string RoffSection(const Page& page);  // for the man page

// Of both, where more than one command is spoken of.
std::string Wrapped(const std::string& text, size_t indent);
std::string Roff(const std::string& text);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_PAGE_H_
