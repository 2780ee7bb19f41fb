#include "src/cli/look/ls.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch ls", "Which locks are held or waited for, by whom, and for how much longer."},
    {"redlatch ls 'billing:*'", "Only locks whose names match."},
    {"watch -n 1 redlatch ls", "Updated every second."},
    {"redlatch ls --json | jq -r 'select(.waiting > 10) | .name'",
     "The names of locks with more than ten waiters."},
};

constexpr Item kOptions[] = {
    {"--all",
     "Include locks that nobody holds or waits for, and open latches. The server remembers the "
     "name of a lock for a day after its last use."},
    {"--json", "One JSON object per lock, each on a line of its own; see below."},
    kServerOption,
    kHelpOption,
};

constexpr Item kColumns[] = {
    {"NAME",
     "The lock's key, including the key_prefix of its clients. Invisible characters and bytes that "
     "are not UTF-8 are shown as \\xNN, and a backslash as two, so that a shell accepts the name "
     "within $'...'. On a terminal, long names are cut."},
    {"KIND",
     "simple, reentrant, read_write, semaphore or latch; for a program's own kind of lock, "
     "whatever it calls itself. A dash means that nobody holds the lock, in which case the server "
     "does not know its kind."},
    {"STATE",
     "held, free, written, or read by 3; for a semaphore, the permits that are taken, such as 3 of "
     "4; for a latch, 5 to go, or open."},
    {"LEASE", "When the lock is freed if its holder stops renewing it. A dash means never."},
    {"WAITING",
     "How many clients are waiting. A w means that one of them is a writer, which keeps new "
     "readers out."},
    {"HELD BY",
     "Host, process ID and program of the first holder, and how many more there are. Clients tell "
     "the server who they are when they connect. A terminal too narrow for all columns leaves out "
     "KIND first, then LEASE, then WAITING."},
};

constexpr Item kJson[] = {
    {"name, kind, in_use, holding, waiting", "For every lock. holding is the number of holders."},
    {"holder",
     "If there is one: hold, remaining_ms (null: without end) and, if they are known, host, pid "
     "and program."},
    {"token", "The largest fencing token that may have been handed out."},
    {"mode, waiting_writers", "For a read_write lock. mode is read, write or free."},
    {"used, capacity", "For a semaphore."},
    {"to_go, total", "For a latch."},
    {"..._base64",
     "The exact bytes of a text that is not valid UTF-8. In the text itself, U+FFFD replaces each "
     "invalid byte."},
};

constexpr Item kNotes[] = {
    {"Locks of other programs",
     "A key that another program took with SET NX PX is a lock to redlatch, too. It is listed if "
     "redlatch has used that name in the last day. Keys that the server's user may not read are "
     "left out."},
    {"Permissions",
     "The server's user must be allowed to use locks, and the server must be able to serve them. A "
     "user with read access only is refused, and so is a replica."},
    {"Unknown processes",
     "A client whose user may not write redlatch:client:* is shown by the first digits of its ID."},
};

constexpr Item kExitCodes[] = {
    {"0",
     "success, even if there are no locks, or if your private server is not running (it is not "
     "started for this)"},
    {"121", kUnreachableText},
    {"123", "refused by the server, for example because a permission is missing"},
    {"125", "wrong usage, or a failure of redlatch itself"},
};

constexpr Section kSections[] = {
    {"Options", kOptions},      {"Columns", kColumns},    {"Members of the JSON", kJson},
    {"Exit codes", kExitCodes}, {"Good to know", kNotes},
};

}  // namespace

const Page kLsPage = {
    .name = "ls",
    .summary = "list the locks that are held or waited for",
    .synopsis = "redlatch ls [PATTERN] [--all] [--json]",
    .purpose =
        "Lists the locks on a server that are held or waited for, sorted by name. With a PATTERN "
        "such as 'orders:*', it lists only the names that match. It scans all keys on the server, "
        "a few hundred at a time, with commands that each take a fraction of a millisecond, so "
        "that other clients are not delayed. The output may be out of date by the time you read "
        "it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
