#include "src/cli/look/inspect.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch inspect deploy", "Who holds the lock, since when, and who is waiting."},
    {"redlatch inspect deploy --json | jq '.holders[0].pid'", "For a script."},
    {"redlatch inspect $'odd\\x01name'", "A name as redlatch ls shows it."},
};

constexpr Item kOptions[] = {
    {"--json", "One JSON object, on one line; see below."},
    kServerOption,
    kHelpOption,
};

constexpr Item kShown[] = {
    {"held by, waiting",
     "For each holder and waiter: host, process ID and program, if its client has told the server; "
     "since when, by the server's clock, if that is known; and for holders, how long their leases "
     "last if they stop renewing them. Waiters are listed in the order in which they will get the "
     "lock; for a program's own kind of lock, in the order in which they came. At most 1,000 "
     "holders and 100 waiters are listed."},
    {"waiting writers", "For a read_write lock: how many writers keep new readers out."},
    {"last token",
     "The largest fencing token that may have been handed out. A holder's own token may be "
     "smaller."},
    {"a kind of its own",
     "A lock of a class that some program has defined. redlatch shows what the keys reveal, which "
     "is mainly who is waiting."},
};

constexpr Item kJson[] = {
    {"name, server, kind, holding, waiting", "As in redlatch ls."},
    {"holders, waiters",
     "Lists of objects with hold, owner, host, pid, program and since_us (microseconds since 1970 "
     "by the server's clock); for holders also held_ms and remaining_ms (null: without end), for "
     "waiters waited_ms; permits for a semaphore, and mode for a read_write lock. Anything unknown "
     "is left out."},
    {"token, waiting_writers, used, capacity, to_go, total", "As in redlatch ls."},
    {"type, ttl_ms", "Of the key itself, for a latch and for a program's own kind of lock."},
};

constexpr Item kExitCodes[] = {
    {"0", "the lock was shown"},
    {"1", "nobody is using that name or has used it in the last day, or the key is not a lock"},
    {"121", kUnreachableText},
    {"123", "refused by the server, for example because a permission is missing"},
    {"125", "wrong usage, or a failure of redlatch itself"},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"What is shown", kShown},
    {"Members of the JSON", kJson},
    {"Exit codes", kExitCodes},
};

}  // namespace

const Page kInspectPage = {
    .name = "inspect",
    .summary = "show who holds a lock and who is waiting",
    .synopsis = "redlatch inspect NAME [--json]",
    .purpose =
        "Shows what the server knows about the lock, semaphore or latch NAME. NAME is the whole "
        "key, including the key_prefix of the lock's clients, as redlatch ls shows it. Nothing is "
        "changed. The output may be out of date by the time you read it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
