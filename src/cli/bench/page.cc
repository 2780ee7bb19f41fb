#include "src/cli/bench/bench.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch bench --server redis://redis.example:6379",
     "What locks cost from here, before a program depends on it."},
    {"redlatch bench --time 1m --json > today.json", "To compare with another day."},
};

constexpr Item kOptions[] = {
    {"--time TIME", "How long to measure in all. Default: 5s. From 500ms to 10m."},
    {"--prefix PREFIX",
     "The beginning of all your locks' names, if the server's user may not use other keys."},
    {"--json",
     "One JSON object: times in microseconds, and locks per second; null for anything that was not "
     "measured."},
    kServerOption,
    kHelpOption,
};

constexpr Item kFigures[] = {
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
     "From before one client releases until a thread of another, which waits, has the lock. Plain: "
     "from before a PUBLISH until another thread, which waits for it, has the message."},
};

constexpr Item kExitCodes[] = {
    {"0", "everything was measured"},
    {"121", kUnreachableText},
    {"123", "refused by the server; redlatch doctor says why"},
    {"125", "wrong usage"},
    {"128+n", "signal n arrived: the results so far are printed, and nothing is left behind"},
};

constexpr Item kNotes[] = {
    {"Load",
     "For the whole --time it loads the server as much as eight threads can. Do not do this to a "
     "server that others need at the time. If others keep the server busy, the figures mean "
     "little."},
    {"Idle machines",
     "A processor that sleeps between two packets makes a round trip two or three times as long. "
     "Redlatch and plain commands take turns, in up to five rounds, so that both meet the same "
     "machine; only compare figures of one run."},
    {"p99", "Not printed if there are fewer than 100 samples."},
};

constexpr Section kSections[] = {{"Options", kOptions},
                                 {"What is measured", kFigures},
                                 {"Exit codes", kExitCodes},
                                 {"Good to know", kNotes}};

}  // namespace

const Page kBenchPage = {
    .name = "bench",
    .summary = "measure what locks cost on a server, next to plain commands",
    .synopsis = "redlatch bench [--time TIME] [--prefix PREFIX] [--json]",
    .purpose =
        "Measures round trips, locks per second and hand-overs between this machine and a server, "
        "each next to what plain Redis commands achieve, and says what the figures mean.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
