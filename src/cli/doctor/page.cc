#include "src/cli/doctor/doctor.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch doctor", "The server in $REDLATCH_URL, or your private one on this machine."},
    {"REDLATCH_URL=redis://app:secret@redis.example:6379 redlatch doctor --prefix orders:",
     "As the user of an application whose lock names all begin with orders:."},
    {"redlatch doctor --json | jq '.checks[] | select(.level == \"bad\")'", "For a script."},
};

constexpr Item kOptions[] = {
    {"--prefix PREFIX",
     "The beginning of all your locks' names, if the server's user may not use other keys."},
    {"--json",
     "One JSON object with server; verdict (well, change, unusable or unreachable); error, if "
     "nothing could be checked; and checks, each with check, level, found, mend and commands."},
    kServerOption,
    kHelpOption,
};

constexpr Item kLevels[] = {
    {"ok", "as it should be"},
    {"unchecked",
     "the server did not allow this check, so there is no verdict; hosted services often forbid "
     "CONFIG, in which case look at their settings"},
    {"note", "good to know; nothing needs to be done"},
    {"warn", "should be changed; the line after -> says how"},
    {"bad", "unfit for locks as it is"},
};

constexpr Item kExitCodes[] = {
    {"0", "nothing needs to be changed; checks that could not be made do not count"},
    {"1", "something should be changed: there is at least one warn"},
    {"121",
     "unreachable: the server could not be reached, did not answer, or accepts no more clients"},
    {"123", "unfit for locks: there is at least one bad; or the user or password is wrong"},
    {"125", "wrong usage"},
};

constexpr Item kNotes[] = {
    {"What it does to the server",
     "It sends about a hundred short commands within a second or so (10 s at most), and takes a "
     "lock of each kind for a moment. Their names begin with PREFIX, redlatch-doctor: and a random "
     "number. It leaves nothing behind."},
    {"The lease it recommends",
     "Twenty times the longest delay it has seen in its own round trips, the slow log and LATENCY. "
     "It looks for about a second, which does not show how slow a bad day can be."},
};

constexpr Section kSections[] = {{"Options", kOptions},
                                 {"Levels", kLevels},
                                 {"Exit codes", kExitCodes},
                                 {"Good to know", kNotes}};

}  // namespace

const Page kDoctorPage = {
    .name = "doctor",
    .summary = "check whether a server is fit for locks, and say what to change",
    .synopsis = "redlatch doctor [--prefix PREFIX] [--json]",
    .purpose =
        "Checks a Redis server the way someone would who has run locks on one for years: version "
        "and role, permissions (by trying every command and every kind of lock), eviction and "
        "memory, what a restart forgets and what a failover loses, messages, latency, clock and "
        "limits. Each check is one line. If something should be changed, the command that changes "
        "it is shown.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
