#include "src/cli/run.h"

namespace redlatch::cli {
namespace {

constexpr Entry kExamples[] = {
    {"redlatch run backup -- pg_dump -f /backup/db.sql app",
     "One at a time on this machine, with nothing set up: a private Redis server of yours is "
     "started where none runs."},
    {"REDLATCH_URL=redis://redis.example:6379\n*/5 * * * * redlatch run --wait 0 --busy-code 0 "
     "report -- make-report",
     "In the crontabs of many machines: one of them runs it, the others do nothing and say "
     "nothing."},
    {"redlatch run --wait 1m deploy -- sh -c 'deploy --fence \"$REDLATCH_TOKEN\"'",
     "What is written to can refuse a token that is smaller than the last: the proof against a run "
     "that was overtaken."},
    {"redlatch run --permits 1 --capacity 4 encoders -- ffmpeg -i in.mov out.mp4",
     "Four at a time."},
    {"redlatch run --shared prices -- print-prices\nredlatch run --write prices -- update-prices",
     "Many that read, or one that writes."},
};

constexpr Entry kOptions[] = {
    {"--wait TIME",
     "How long to wait for the lock; 0: try once. Default: as long as it takes. TIME is 500ms, "
     "10s, 1m30s, 2h, or a number of seconds. A server that is slow to answer has a second for it "
     "all the same."},
    {"--lease TIME",
     "After what time the lock is free if this machine dies or loses touch with the server; it is "
     "renewed each third of that. Default: 30s. At least 100ms, at most 24h."},
    {"--on-lost kill|warn",
     "What happens where the lock can't be kept. kill, the default: SIGTERM as soon as no more "
     "than "
     "the grace is left of the lease, SIGKILL before it ends. warn: a line on stderr, and CMD goes "
     "on."},
    {"--grace TIME",
     "From SIGTERM to SIGKILL. Default: a third of the lease, at most 10s; at most half of it."},
    {"--shared, --write",
     "The readers' and the writer's side of a read-write lock, as C++ programs have it in "
     "ReentrantReadWriteLock. Without them NAME is a SimpleLock, which is another kind of lock: "
     "give one name one kind."},
    {"--permits N --capacity M",
     "N of the M permits of a semaphore; all who use NAME say the same M. One permit where N is "
     "not given."},
    kServerOption,
    {"--busy-code CODE",
     "What to exit with where the lock is busy, in place of 120; with 0 nothing is printed "
     "either."},
    kHelpOption,
};

constexpr Entry kEnvironment[] = {
    {"REDLATCH_LOCK", "NAME."},
    {"REDLATCH_TOKEN",
     "The fencing token: larger than that of every earlier run of NAME. With --shared it is that "
     "of "
     "the last write, the same for all who read, 0 before the first; with --permits it is not "
     "set."},
    {"REDLATCH_SERVER", "The server's URL, without user and password."},
};

constexpr Entry kExitCodes[] = {
    {"CMD's own", "where it ran under the lock to its end; 128+n where signal n ended it"},
    {"120", "busy: somebody else had the lock for as long as --wait"},
    {"121",
     "unreachable: the server can't be reached, does not answer, or can't serve now: it is a "
     "replica, loads its data, or is busy with a script; CMD did not run"},
    {"122",
     "lost: the lock was lost, or could not be kept, while CMD ran, and CMD was ended; with "
     "--on-lost=warn, CMD ended with 0 although the lock was lost"},
    {"123", "refused: by the server, or NAME is another kind of lock; CMD did not run"},
    {"125", "wrong usage, or a failure of redlatch itself; CMD did not run"},
    {"126", "CMD was found, but can't be executed"},
    {"127", "CMD was not found; no lock was taken"},
    {"128+n", "signal n came while it waited for the lock"},
};

constexpr Entry kNotes[] = {
    {"Signals",
     "All signals that redlatch gets, CMD gets, but for those that a terminal sends, which CMD has "
     "from there. With a terminal CMD stays in the shell's job, and reads from it as ever; without "
     "one it has a process group of its own."},
    {"Stopped", "A CMD that is stopped, by ^Z for one, keeps the lock: it goes on being renewed."},
    {"Killed",
     "Where redlatch is killed, even by SIGKILL, CMD gets SIGTERM, after the grace SIGKILL, and "
     "the "
     "lock is released. redlatch is two processes, of which either can die or hang: the other ends "
     "CMD in time. CMD survives only where both are killed at once and CMD has cleared its "
     "parent-death signal, as set-user-ID programs do; its children survive where both are."},
    {"Children of CMD",
     "They end with it. When CMD has ended, what it left running gets the grace to end, then "
     "SIGTERM, then SIGKILL, and only then is the lock released. A daemon in a session of its own, "
     "as setsid(1) makes one, is left alone."},
    {"Logins",
     "embedded: is one place for all of a user's jobs, /tmp/redlatch-UID, logged in or not. Where "
     "/tmp is a service's own (PrivateTmp=), let REDLATCH_URL name a directory for all who are to "
     "meet, as in embedded:/var/lib/jobs."},
    {"Another user",
     "Nobody but root may end another user's processes: not redlatch run NAME -- sudo CMD, but "
     "sudo "
     "redlatch run NAME -- CMD."},
    {"A machine that hangs", "Nothing on it can end CMD in time. The fencing token is the remedy."},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"CMD finds in its environment", kEnvironment},
    {"Exit codes", kExitCodes},
    {"Good to know", kNotes},
};

}  // namespace

const Page kRunPage = {
    .name = "run",
    .summary = "run a command under a lock",
    .synopsis = "redlatch run NAME [options] -- CMD [ARGS...]",
    .purpose =
        "Runs CMD while holding the lock NAME, waits for the lock if somebody else has it, and "
        "exits with CMD's exit code. Whoever names the same lock on the same server excludes one "
        "another, on one machine or many.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
