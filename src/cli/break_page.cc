#include "src/cli/break.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch break deploy", "Shows who has it, asks, and takes it from them."},
    {"redlatch break --yes deploy", "Without asking, as in a script."},
};

constexpr Entry kOptions[] = {
    {"--yes", "Do not ask. Needed where standard input is no terminal."},
    kServerOption,
    kHelpOption,
};

constexpr Entry kNotes[] = {
    {"Who dies, and who hangs",
     "The lock of a process that died is free when its lease ends: redlatch inspect says when. To "
     "break is for one that hangs and whose program goes on renewing it, or for a lease that is "
     "too long to wait for."},
    {"What it does to the holder",
     "Its client is told at once, if it can be reached: its stop token fires, and redlatch run "
     "ends its command. What it does until then is no longer protected, and may overlap with what "
     "the next holder does: fencing tokens alone keep that out."},
    {"Whom it hits",
     "All that hold it: all readers, and all permits of a semaphore. Where it asks, and others "
     "have the lock by the time of the answer, it does nothing."},
    {"What can't be broken",
     "A latch, since nobody holds it; and a lock of a program's own class, which that program "
     "alone can break."},
    {"What may be data",
     "A key that only has the name, and does not look like a lock, is left alone: a list, say, or "
     "a string without expiry that redlatch did not write."},
    {"A program without redlatch",
     "One that holds the key by SET NX PX is not told: it loses the lock when it looks."},
};

constexpr Entry kExitCodes[] = {
    {"0", "it is broken, or nobody held it"},
    {"1", "nobody uses that name; or the answer was no; or others have it by now"},
    {"121", kUnreachableText},
    {"123", "refused: by the server, or it is nothing that can be broken, or may be data"},
    {"125", "wrong usage, or no --yes where no terminal is there to ask on"},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"Good to know", kNotes},
    {"Exit codes", kExitCodes},
};

}  // namespace

const Page kBreakPage = {
    .name = "break",
    .summary = "take a lock from whoever holds it",
    .synopsis = "redlatch break NAME [--yes]",
    .purpose =
        "Takes the lock or semaphore NAME from all who hold it, whatever they are doing, and hands "
        "it to the next who waits. It says whom it hits, and asks first. NAME is the whole key, as "
        "redlatch ls shows it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
