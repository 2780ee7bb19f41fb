#include "src/cli/doctor.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch doctor", "Your server in $REDLATCH_URL, or the private one of this machine."},
    {"REDLATCH_URL=redis://app:secret@redis.example:6379 redlatch doctor --prefix orders:",
     "As the user of a program, whose locks' names begin with orders:."},
    {"redlatch doctor --json | jq '.checks[] | select(.level == \"bad\")'", "For a script."},
};

constexpr Entry kOptions[] = {
    {"--prefix PREFIX",
     "What the names of your locks begin with, where the server's user may use no other keys."},
    {"--json",
     "One object: server; verdict, which is well, change, unusable or unreachable; error, where "
     "nothing could be checked; and checks, each with check, level, found, mend and commands."},
    kServerOption,
    kHelpOption,
};

constexpr Entry kLevels[] = {
    {"ok", "as it should be"},
    {"unchecked",
     "the server does not let us look; that is no verdict. Services often forbid CONFIG: look at "
     "their settings"},
    {"note", "good to know; nothing has to be done"},
    {"warn", "should be changed; how is said behind ->"},
    {"bad", "unfit for locks as it is"},
};

constexpr Entry kExitCodes[] = {
    {"0", "nothing has to be changed; what was unchecked is not counted"},
    {"1", "something should be changed: there is a warn"},
    {"121", "unreachable: the server can't be reached, or does not answer, or takes nobody more"},
    {"123", "unfit for locks: there is a bad; or user or password are wrong"},
    {"125", "wrong usage"},
};

constexpr Entry kNotes[] = {
    {"What it does to the server",
     "It asks some hundred short questions within a second or so, 10 s at most, and takes a lock "
     "of "
     "each kind for a moment. Their names begin with PREFIX, redlatch:doctor: and a random number; "
     "nothing of it stays."},
    {"The lease it advises",
     "Twenty times the longest that it has seen, of its own round trips, the slow log and LATENCY: "
     "a look of a second does not see a bad day."},
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
        "Looks at a Redis server as whoever has run locks on one for years would: version and "
        "role, "
        "permissions, by trying every command and every kind of lock, eviction and memory, what a "
        "restart forgets and a failover loses, messages, latency, clock, limits. Each check is one "
        "line; what should be changed comes with the command that does it.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
