#include "src/cli/look/capacity.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch capacity encoders", "Prints how many permits there are in all."},
    {"redlatch capacity encoders 8", "From now on, at most eight at a time."},
};

constexpr Item kOptions[] = {
    kServerOption,
    kHelpOption,
};

constexpr Item kNotes[] = {
    {"Whose number counts",
     "The first to acquire from a semaphore stores the capacity that it was given, and anyone who "
     "names a different one is refused. Once the capacity has been set by this command, or by "
     "SetCapacity() in a program, that number counts, whatever programs or --capacity say."},
    {"Growing and shrinking",
     "A larger capacity lets waiters in at once. A smaller one takes permits from nobody: it lets "
     "nobody in until enough permits have been returned. Anyone waiting for more permits than "
     "there will be is refused."},
    {"How long it is remembered",
     "As long as the semaphore is in use, and for a day after the last permit could have been "
     "held."},
};

constexpr Item kExitCodes[] = {
    {"0", "the capacity was printed, or set"},
    {"1", "there is no such semaphore"},
    {"121", kUnreachableText},
    {"123", "refused: NAME is not a semaphore, or the server denied it"},
    {"125", "wrong usage, or a failure of redlatch itself"},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"Good to know", kNotes},
    {"Exit codes", kExitCodes},
};

}  // namespace

const Page kCapacityPage = {
    .name = "capacity",
    .summary = "show or set how many permits a semaphore has",
    .synopsis = "redlatch capacity NAME [N]",
    .purpose =
        "Prints how many permits the semaphore NAME has in all or, given N, sets that number for "
        "everyone who uses it. NAME is the whole key, as redlatch ls shows it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
