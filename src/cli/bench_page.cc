#include "src/cli/bench.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch bench --server redis://redis.example:6379",
     "What locks cost from here, before a program relies on it."},
    {"redlatch bench --time 1m --json > today.json", "To compare with another day."},
};

constexpr Entry kOptions[] = {
    {"--time TIME", "How long in all. Default: 5s; 500ms to 10m."},
    {"--prefix PREFIX",
     "What the names of your locks begin with, where the server's user may use no other keys."},
    {"--json",
     "One object: times in microseconds, locks a second; null for what was not measured."},
    kServerOption,
    kHelpOption,
};

constexpr Entry kFigures[] = {
    {"redlatch, plain Redis",
     "Each figure stands beside what plain commands reach, over one blocking connection for each "
     "thread: PING; SET NX PX with a script that compares and deletes; PUBLISH. Redlatch's threads "
     "share one connection."},
    {"round trip", "A PING, until its answer."},
    {"locks a second",
     "Taken and released, with nothing done between. Threads that want the same lock pass it on "
     "within the client, without asking the server, for 5 ms at a time; plain ones try again at "
     "once."},
    {"hand-over",
     "From before one client releases until another, which waits, has it. Plain: a message, until "
     "it is received."},
};

constexpr Entry kExitCodes[] = {
    {"0", "measured"},
    {"121", kUnreachableText},
    {"123", "refused: by the server; redlatch doctor says why"},
    {"125", "wrong usage"},
    {"128+n", "signal n came: what was measured until then is printed, and nothing is left behind"},
};

constexpr Entry kNotes[] = {
    {"Load",
     "It keeps the server as busy as eight threads can, for --time: not what to do to one that "
     "others need at that moment. Nor are figures worth much where others keep it busy."},
    {"p99", "Not printed where there were fewer than 100 to take it from."},
};

constexpr Section kSections[] = {{"Options", kOptions},
                                 {"What is measured", kFigures},
                                 {"Exit codes", kExitCodes},
                                 {"Good to know", kNotes}};

}  // namespace

const Page kBenchPage = {
    .name = "bench",
    .summary = "measure what locks cost on a server, beside plain commands",
    .synopsis = "redlatch bench [--time TIME] [--prefix PREFIX] [--json]",
    .purpose =
        "Measures round trips, locks a second and hand-overs between this machine and a server, "
        "each beside what plain commands of Redis reach, and says what that means.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
