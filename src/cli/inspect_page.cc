#include "src/cli/inspect.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch inspect deploy", "Who has the lock, since when, and who waits."},
    {"redlatch inspect deploy --json | jq '.holders[0].pid'", "For a script."},
    {"redlatch inspect $'odd\\x01name'", "A name as redlatch ls shows it."},
};

constexpr Entry kOptions[] = {
    {"--json", "One object, in one line. See below."},
    kServerOption,
    kHelpOption,
};

constexpr Entry kShown[] = {
    {"held by, waiting",
     "For each the host:pid and program, where its client has told them; since when, by the "
     "server's clock, where that is known; and of holders how long their lease lasts if they renew "
     "it no more. Those who wait are in the order in which they will get it. At most 1,000 holders "
     "and 100 who wait."},
    {"waiting writers", "Of a read_write: how many keep new readers out."},
    {"last token",
     "The largest fencing token that can have been handed out; a holder's may be smaller."},
    {"a kind of its own",
     "A lock whose class is a program's own: what its keys tell, which is who waits."},
};

constexpr Entry kJson[] = {
    {"name, server, kind, holding, waiting", "As in redlatch ls."},
    {"holders, waiters",
     "Lists of: hold, owner, host, pid, program, since_us (µs since 1970, by the server's clock); "
     "of holders held_ms and remaining_ms (null: without end), of those who wait waited_ms; "
     "permits "
     "for a semaphore, mode for a read_write. What is not known is left out."},
    {"token, waiting_writers, used, capacity, to_go, total", "As in redlatch ls."},
    {"type, ttl_ms", "Of the key itself, for a latch and a kind of a program's own."},
};

constexpr Entry kExitCodes[] = {
    {"0", "it is shown"},
    {"1", "nobody uses that name, nor has for a day; or the key is something else than a lock"},
    {"121", kUnreachableText},
    {"123", "refused: by the server, such as for a missing permission"},
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
    .summary = "show who holds a lock, and who waits",
    .synopsis = "redlatch inspect NAME [--json]",
    .purpose =
        "Shows what the server knows of the lock NAME, or semaphore, or latch. NAME is the whole "
        "key, with the key_prefix of the lock's clients, as redlatch ls shows it. It changes "
        "nothing, and may be out of date when it is read.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
