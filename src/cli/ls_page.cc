#include "src/cli/ls.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch ls", "What is held or waited for, by whom, and for how long yet."},
    {"redlatch ls 'billing:*'", "Of these names alone."},
    {"watch -n 1 redlatch ls", "Once a second."},
    {"redlatch ls --json | jq -r 'select(.waiting > 10) | .name'", "Where more than ten wait."},
};

constexpr Entry kOptions[] = {
    {"--all",
     "Also locks that nobody holds or waits for: their names are remembered for a day after the "
     "last use; and latches that are open."},
    {"--json", "One object for each lock, one in a line. See below."},
    kServerOption,
    kHelpOption,
};

constexpr Entry kColumns[] = {
    {"NAME",
     "The lock's key, with the key_prefix of its clients. What would not be visible, and bytes "
     "that are no UTF-8, are shown as \\xNN, and a backslash as two: so a shell takes them within "
     "$'...'. On a terminal long names are cut."},
    {"KIND",
     "simple, reentrant, read_write, semaphore, latch; or what a lock of a program's own says of "
     "itself. A dash: nobody holds it, so that it does not say."},
    {"STATE",
     "held, free, written, read by 3; 3 of 4: permits of a semaphore that are taken; 5 to go, "
     "open: of a latch."},
    {"LEASE",
     "After what time it is free if its holder renews it no more; a dash: it is held without end."},
    {"WAITING", "How many clients wait; with a w: a writer among them, who keeps readers out."},
    {"HELD BY",
     "host:pid and program of the first holder, and how many there are besides. A client tells the "
     "server who it is when it connects."},
};

constexpr Entry kJson[] = {
    {"name, kind, in_use, holding, waiting", "For each lock; holding: how many holders."},
    {"holder",
     "Where there is one: hold, remaining_ms (null: without end) and, where they are known, host, "
     "pid, program."},
    {"token", "The largest fencing token that can have been handed out."},
    {"mode, waiting_writers", "Of a read_write: read, write or free."},
    {"used, capacity", "Of a semaphore."},
    {"to_go, total", "Of a latch."},
    {"..._base64",
     "All bytes of a text that is not UTF-8; in the text itself U+FFFD stands for each that is "
     "wrong."},
};

constexpr Entry kNotes[] = {
    {"What is no lock of redlatch",
     "A key that another program took by SET NX PX is a lock to redlatch. It is listed where "
     "redlatch has used that name within a day. Keys that the server's user may not see are passed "
     "over."},
    {"As whom",
     "As somebody who may use locks, on a server that can serve them: a user who may only read, or "
     "a replica, is refused."},
    {"Who is not known",
     "A client whose user may not write redlatch:client:* is shown by the beginning of its id."},
};

constexpr Entry kExitCodes[] = {
    {"0", "also where there is no lock, or no private server of yours runs: none is started"},
    {"121", kUnreachableText},
    {"123", "refused: by the server, such as for a missing permission"},
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
        "Lists the locks of a server that are held or waited for, by name; with a PATTERN, as in "
        "'orders:*', those alone. It goes through all keys of the server, a few hundred at a "
        "time, by commands that take fractions of a millisecond: others are not held up. What is "
        "shown may be out of date when it is read.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
