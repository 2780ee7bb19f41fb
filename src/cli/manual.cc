#include "src/cli/manual.h"

#include <span>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "redlatch/version.h"

namespace redlatch::cli {
namespace {

struct Entry {
  const char* term;
  const char* text;
};

constexpr char kSynopsis[] = "redlatch run NAME [options] -- CMD [ARGS...]";

constexpr char kPurpose[] =
    "Runs CMD while holding the lock NAME, waits for the lock if somebody else has it, and exits "
    "with CMD's exit code. Whoever names the same lock on the same server excludes one another, on "
    "one machine or many.";

constexpr Entry kExamples[] = {
    {"redlatch run backup -- pg_dump -f /backup/db.sql app",
     "One at a time on this machine, with nothing set up: a private Redis server of yours is "
     "started where none runs."},
    {"REDLATCH_URL=redis://redis.example:6379\n*/5 * * * * redlatch run --wait 0 --busy-code 0 "
     "report -- make-report",
     "In the crontabs of many machines: one of them runs it, the others do nothing and say "
     "nothing."},
    {"redlatch run --wait 1m deploy -- sh -c 'deploy --fence \"$REDLATCH_TOKEN\"'",
     "What is written to can refuse a token that is smaller than the last: the proof against a run "
     "that was overtaken."},
    {"redlatch run --permits 1 --capacity 4 encoders -- ffmpeg -i in.mov out.mp4",
     "Four at a time."},
    {"redlatch run --shared prices -- print-prices\nredlatch run --write prices -- update-prices",
     "Many that read, or one that writes."},
};

constexpr Entry kOptions[] = {
    {"--wait TIME",
     "How long to wait for the lock; 0: try once. Default: as long as it takes. TIME is 500ms, "
     "10s, "
     "1m30s, 2h, or a number of seconds."},
    {"--lease TIME",
     "After what time the lock is free if this machine dies or loses touch with the server; it is "
     "renewed each third of that. Default: 30s. At least 100ms, at most 24h."},
    {"--on-lost kill|warn",
     "What happens where the lock can't be kept. kill, the default: SIGTERM as soon as no more "
     "than "
     "the grace is left of the lease, SIGKILL before it ends. warn: a line on stderr, and CMD goes "
     "on."},
    {"--grace TIME",
     "From SIGTERM to SIGKILL. Default: a third of the lease, at most 10s; at most half of it."},
    {"--shared, --write",
     "The readers' and the writer's side of a read-write lock, as C++ programs have it in "
     "ReentrantReadWriteLock. Without them NAME is a SimpleLock, which is another kind of lock: "
     "give one name one kind."},
    {"--permits N --capacity M",
     "N of the M permits of a semaphore; all who use NAME say the same M. One permit where N is "
     "not given."},
    {"--server URL",
     "redis://[[user]:password@]host[:port][/db], unix:///path/to/socket, or "
     "embedded:[/directory], "
     "a private server of this user on this machine. Default: $REDLATCH_URL, else embedded:. A "
     "password belongs into $REDLATCH_URL: everybody can read a command line."},
    {"--busy-code CODE",
     "What to exit with where the lock is busy, in place of 120; with 0 nothing is printed "
     "either."},
    {"--help", "This text."},
};

constexpr Entry kEnvironment[] = {
    {"REDLATCH_LOCK", "NAME."},
    {"REDLATCH_TOKEN",
     "The fencing token: larger than that of every earlier run of NAME. With --shared it is that "
     "of "
     "the last write, the same for all who read, 0 before the first; with --permits it is not "
     "set."},
    {"REDLATCH_SERVER", "The server's URL, without user and password."},
};

constexpr Entry kExitCodes[] = {
    {"CMD's own", "where it ran under the lock to its end; 128+n where signal n ended it"},
    {"120", "busy: somebody else had the lock for as long as --wait"},
    {"121", "unreachable: the server can't be reached, or does not answer; CMD did not run"},
    {"122",
     "lost: the lock was lost, or could not be kept, while CMD ran, and CMD was ended; with "
     "--on-lost=warn, CMD ended with 0 although the lock was lost"},
    {"123", "refused: by the server, or NAME is another kind of lock; CMD did not run"},
    {"125", "wrong usage, or a failure of redlatch itself; CMD did not run"},
    {"126", "CMD was found, but can't be executed"},
    {"127", "CMD was not found; no lock was taken"},
    {"128+n", "signal n came while it waited for the lock"},
};

constexpr Entry kNotes[] = {
    {"Signals",
     "All signals that redlatch gets, CMD gets, but for those that a terminal sends, which CMD has "
     "from there. With a terminal CMD stays in the shell's job, and reads from it as ever; without "
     "one it has a process group of its own."},
    {"Stopped", "A CMD that is stopped, by ^Z for one, keeps the lock: it goes on being renewed."},
    {"Killed",
     "Where redlatch is killed, even by SIGKILL, CMD gets SIGTERM, after the grace SIGKILL, and "
     "the "
     "lock is released. redlatch is two processes, of which either can die or hang: the other ends "
     "CMD in time. CMD survives only where both are killed at once and CMD has cleared its "
     "parent-death signal, as set-user-ID programs do; its children survive where both are."},
    {"Children of CMD",
     "They end with it. When CMD has ended, what it left running gets the grace to end, then "
     "SIGTERM, then SIGKILL, and only then is the lock released. A daemon in a session of its own, "
     "as setsid(1) makes one, is left alone."},
    {"Logins",
     "embedded: is one place for all of a user's jobs, /tmp/redlatch-UID, logged in or not. Where "
     "/tmp is a service's own (PrivateTmp=), let REDLATCH_URL name a directory for all who are to "
     "meet, as in embedded:/var/lib/jobs."},
    {"Another user",
     "Nobody but root may end another user's processes: not redlatch run NAME -- sudo CMD, but "
     "sudo "
     "redlatch run NAME -- CMD."},
    {"A machine that hangs", "Nothing on it can end CMD in time. The fencing token is the remedy."},
};

std::string Wrap(std::string_view text, size_t indent) {
  constexpr size_t kWidth = 80;
  std::string out;
  size_t column = kWidth;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    if (column + 1 + word.size() > kWidth) {
      absl::StrAppend(&out, out.empty() ? "" : "\n", std::string(indent, ' '), std::string(word));
      column = indent + word.size();
    } else {
      absl::StrAppend(&out, " ", std::string(word));
      column += 1 + word.size();
    }
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
  }
  return out + "\n";
}

std::string Plain(const char* title, std::span<const Entry> entries) {
  std::string out = absl::StrCat("\n", title, ":\n");
  for (const Entry& entry : entries) {
    absl::StrAppend(&out, "  ", absl::StrReplaceAll(entry.term, {{"\n", "\n  "}}), "\n",
                    Wrap(entry.text, 6));
  }
  return out;
}

// Text for troff: a hyphen that is meant as one is typed so, and no line is taken for a request.
std::string Roff(const std::string& text) {
  std::string out = absl::StrReplaceAll(
      text, {{"\\", "\\e"}, {"-", "\\-"}, {"^", "\\(ha"}, {"~", "\\(ti"}, {"'", "\\(aq"}});
  return out.starts_with(".") ? absl::StrCat("\\&", out) : out;
}

std::string RoffWrap(std::string_view text) { return text.empty() ? "" : Roff(Wrap(text, 0)); }

std::string RoffSection(const char* title, std::string_view intro, std::span<const Entry> entries) {
  std::string out = absl::StrCat(".SH ", title, "\n", RoffWrap(intro));
  for (const Entry& entry : entries) {
    absl::StrAppend(&out, ".TP\n.B ", Roff(entry.term), "\n", RoffWrap(entry.text));
  }
  return out;
}

std::string RoffExamples() {
  std::string out = ".SH EXAMPLES\n";
  for (const Entry& entry : kExamples) {
    absl::StrAppend(&out, ".PP\n", RoffWrap(entry.text), ".PP\n.RS 4\n.nf\n", Roff(entry.term),
                    "\n.fi\n.RE\n");
  }
  return out;
}

}  // namespace

std::string Overview() {
  return absl::StrCat(
      "redlatch: locks that processes and machines share, in Redis\n\n"
      "  redlatch run NAME -- CMD [ARGS...]   run a command under a lock\n"
      "  redlatch run --help                  how, with examples\n"
      "  redlatch --version\n\n"
      "Try it in two terminals:\n"
      "  redlatch run demo -- sh -c 'echo \"I have it, token $REDLATCH_TOKEN\"; sleep 10'\n");
}

std::string RunHelp() {
  return absl::StrCat(kSynopsis, "\n\n", Wrap(kPurpose, 0), Plain("Examples", kExamples),
                      Plain("Options", kOptions),
                      Plain("CMD finds in its environment", kEnvironment),
                      Plain("Exit codes", kExitCodes), Plain("Good to know", kNotes));
}

std::string ManPage() {
  return absl::StrCat(
      ".\\\" Written by `redlatch --man`; the words are in src/cli/manual.cc.\n"
      ".TH REDLATCH 1 \"\" \"redlatch ",
      REDLATCH_VERSION_STRING,
      "\" \"User Commands\"\n"
      ".SH NAME\nredlatch \\- run commands under locks that machines share, in Redis\n"
      ".SH SYNOPSIS\n.B ",
      Roff(kSynopsis), "\n.br\n.B redlatch \\-\\-help\n.br\n.B redlatch \\-\\-version\n",
      RoffSection("DESCRIPTION", kPurpose, {}), RoffSection("OPTIONS", "", kOptions),
      RoffSection("ENVIRONMENT", "CMD finds in its environment:", kEnvironment),
      RoffSection("EXIT STATUS", "", kExitCodes), RoffSection("NOTES", "", kNotes), RoffExamples(),
      ".SH SEE ALSO\n.BR flock (1),\n.BR timeout (1),\n.BR setsid (1),\n.BR redis\\-server (1)\n");
}

}  // namespace redlatch::cli
