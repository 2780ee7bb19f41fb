// The words of a subcommand's manual: its --help and its part of the man page come from them.
#ifndef REDLATCH_SRC_CLI_TERM_PAGE_H_
#define REDLATCH_SRC_CLI_TERM_PAGE_H_

#include <cstddef>
#include <span>
#include <string>

namespace redlatch::cli {

struct Item {
  const char* term;
  const char* text;
};

struct Section {
  const char* title;  // "Exit codes"
  std::span<const Item> entries;
};

struct Page {
  const char* name;      // "run"
  const char* summary;   // "run a command under a lock": for the list of commands
  const char* synopsis;  // "redlatch run NAME [options] -- CMD [ARGS...]", without line breaks
  const char* purpose;   // a paragraph
  std::span<const Item> examples;  // what is typed, and what for
  std::span<const Section> sections;
};

// What every command has that talks to a server.
inline constexpr Item kServerOption = {
    "--server URL",
    "redis://[[user]:password@]host[:port][/db], unix:///path/to/socket, or embedded:[/directory], "
    "which is a private server for this user on this machine. Default: $REDLATCH_URL, or embedded: "
    "if that is not set. Put a password in $REDLATCH_URL, since anyone can read a command line."};
inline constexpr char kUnreachableText[] =
    "unreachable: the server could not be reached, did not answer, or cannot serve right now (it "
    "is a replica, is loading its data, or is busy with a script)";
inline constexpr Item kHelpOption = {"--help", "Print this text."};

inline constexpr size_t kPageWidth = 80;

std::string Help(const Page& page);         // as wide as the terminal, and no wider than a page
std::string RoffSection(const Page& page);  // for the man page

std::string Wrapped(const std::string& text, size_t indent, size_t width = kPageWidth);
std::string Roff(const std::string& text);

}  // namespace redlatch::cli

#endif  // REDLATCH_SRC_CLI_TERM_PAGE_H_
