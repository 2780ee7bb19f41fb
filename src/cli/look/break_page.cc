#include "src/cli/look/break.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch break deploy",
     "Shows who holds the lock, asks for confirmation, and takes it away."},
    {"redlatch break --yes deploy", "Does not ask; for scripts."},
};

constexpr Item kOptions[] = {
    {"--yes", "Do not ask for confirmation. Required if standard input is not a terminal."},
    kServerOption,
    kHelpOption,
};

constexpr Item kNotes[] = {
    {"When to use it",
     "If a process dies, its locks are freed when their leases expire; redlatch inspect shows "
     "when. Break a lock if its holder hangs but keeps renewing it, or if its lease is too long to "
     "wait for."},
    {"What happens to the holder",
     "Its client is told at once, if it can be reached: the stop token fires, and redlatch run "
     "ends its command. Until then the holder works without protection, and may overlap with the "
     "next one. Only fencing tokens can prevent harm from that."},
    {"Who is affected",
     "Every holder: all readers, and everyone with permits of a semaphore. If the holders have "
     "changed by the time you confirm, nothing is done."},
    {"What cannot be broken",
     "A latch, since nobody holds one. A lock of a program's own class, which only that program "
     "can break."},
    {"Keys that may be data",
     "A key that merely has this name and does not look like a lock is left alone, such as a list, "
     "or a string without expiry that redlatch did not write."},
    {"Programs without redlatch",
     "A program that took the key with SET NX PX is not told. It finds out when it checks."},
};

constexpr Item kExitCodes[] = {
    {"0", "the lock was broken, or nobody held it"},
    {"1",
     "nobody is using that name, or you answered no, or the holders changed before you answered"},
    {"121", kUnreachableText},
    {"123", "refused: the server denied it, or the key cannot be broken or may be data"},
    {"125", "wrong usage, or --yes is missing and there is no terminal to ask on"},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"Good to know", kNotes},
    {"Exit codes", kExitCodes},
};

}  // namespace

const Page kBreakPage = {
    .name = "break",
    .summary = "take a lock away from whoever holds it",
    .synopsis = "redlatch break NAME [--yes]",
    .purpose =
        "Takes the lock or semaphore NAME away from everyone who holds it, whatever they are "
        "doing, and hands it to the next waiter. It shows who is affected and asks first. NAME is "
        "the whole key, as redlatch ls shows it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
