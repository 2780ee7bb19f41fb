#include "src/cli/run/run.h"

namespace redlatch::cli {
namespace {

constexpr Item kExamples[] = {
    {"redlatch run backup -- pg_dump -f /backup/db.sql app",
     "Never two at a time on this machine. Nothing has to be set up: a private Redis server is "
     "started for you if none is running."},
    {"REDLATCH_URL=redis://redis.example:6379\n*/5 * * * * redlatch run --wait 0 --busy-code 0 "
     "report -- make-report",
     "In the crontabs of many machines: one of them runs it, and the others silently do nothing."},
    {"redlatch run --wait 1m deploy -- sh -c 'deploy --fence \"$REDLATCH_TOKEN\"'",
     "The target can reject a token smaller than the largest it has seen, so that a run which has "
     "been overtaken does no harm."},
    {"redlatch run --permits 1 --capacity 4 encoders -- ffmpeg -i in.mov out.mp4",
     "At most four at a time."},
    {"redlatch run --shared prices -- print-prices\nredlatch run --write prices -- update-prices",
     "Any number of readers, or one writer."},
};

constexpr Item kOptions[] = {
    {"--wait TIME",
     "How long to wait for the lock; 0 tries once. The default is to wait indefinitely. TIME is "
     "500ms, 10s, 1m30s, 2h, or a number of seconds. A server that is slow to answer gets up to a "
     "second regardless. While you wait at a terminal, a line shows who holds the lock and how "
     "many are ahead of you."},
    {"--lease TIME",
     "How long the lock stays taken if this machine dies or loses contact with the server. It is "
     "renewed every third of that time. Default: 30s. From 100ms to 24h."},
    {"--on-lost kill|warn",
     "What to do if the lock cannot be kept. kill, the default: CMD gets SIGTERM when no more than "
     "the grace period is left of the lease, and SIGKILL before the lease ends. warn: a line on "
     "stderr, and CMD goes on."},
    {"--grace TIME",
     "The time from SIGTERM to SIGKILL. Default: a third of the lease, but at most 10s. It can be "
     "at most half of the lease."},
    {"--shared, --write",
     "Take the read side or the write side of a read-write lock, which C++ programs know as "
     "ReentrantReadWriteLock. Without these, NAME is a SimpleLock, which is a different kind of "
     "lock: use each name for one kind only."},
    {"--permits N --capacity M",
     "Take N of the M permits of a semaphore. Everyone who uses NAME must give the same M; "
     "redlatch capacity changes it. N is 1 if you leave it out."},
    kServerOption,
    {"--busy-code CODE",
     "The exit code if the lock is busy, instead of 120. With 0, nothing is printed either."},
    kHelpOption,
};

constexpr Item kEnvironment[] = {
    {"REDLATCH_LOCK", "NAME."},
    {"REDLATCH_TOKEN",
     "The fencing token, which is larger than that of every earlier run of NAME. With --shared it "
     "is the token of the last write, which all readers since then share; it is 0 before the first "
     "write. With --permits it is not set."},
    {"REDLATCH_SERVER", "The server's URL, without user and password."},
};

constexpr Item kExitCodes[] = {
    {"CMD's own", "CMD ran under the lock to its end; 128+n if signal n ended it"},
    {"120", "busy: someone else held the lock for as long as --wait allowed"},
    {"121",
     "unreachable: the server could not be reached, did not answer, or cannot serve right now (it "
     "is a replica, is loading its data, or is busy with a script); CMD did not run"},
    {"122",
     "lost: the lock was lost or could not be kept while CMD ran, and CMD was ended; with "
     "--on-lost=warn, CMD exited with 0 although the lock had been lost"},
    {"123", "refused: the server denied it, or NAME is another kind of lock; CMD did not run"},
    {"125", "wrong usage, or a failure of redlatch itself; CMD did not run"},
    {"126", "CMD was found, but cannot be executed"},
    {"127", "CMD was not found; no lock was taken"},
    {"128+n", "signal n arrived while waiting for the lock"},
};

constexpr Item kNotes[] = {
    {"Signals",
     "CMD gets every signal that redlatch gets. Signals that a terminal sends reach CMD directly. "
     "If there is a terminal, CMD stays in the shell's job and can read from it as usual; if there "
     "is none, CMD gets a process group of its own."},
    {"Stopping CMD",
     "If CMD is stopped, for example by ^Z, it keeps the lock, which continues to be renewed."},
    {"Killing redlatch",
     "If redlatch is killed, even by SIGKILL, CMD gets SIGTERM and, after the grace period, "
     "SIGKILL; then the lock is released. redlatch consists of two processes, and if either dies "
     "or hangs, the other ends CMD in time. CMD survives only if both are killed at once and CMD "
     "has cleared its parent-death signal, as set-user-ID programs do. Its children survive if "
     "both are killed at once."},
    {"Children of CMD",
     "They end with CMD. When CMD has exited, anything it left running has the grace period to "
     "finish; then it gets SIGTERM, then SIGKILL, and only then is the lock released. A daemon in "
     "a session of its own, as setsid(1) makes one, is left alone."},
    {"Nesting",
     "A command that runs under NAME and runs redlatch run with the same NAME waits for itself. "
     "redlatch warns you if it does."},
    {"Where embedded: is",
     "All jobs of a user share one private server, in /tmp/redlatch-UID, whether or not the user "
     "is logged in. For services that have a /tmp of their own (PrivateTmp=), set REDLATCH_URL to "
     "a directory that all of them can reach, such as embedded:/var/lib/jobs."},
    {"Other users",
     "Only root can end another user's processes. Instead of redlatch run NAME -- sudo CMD, use "
     "sudo redlatch run NAME -- CMD."},
    {"A machine that hangs",
     "Nothing on that machine can end CMD in time. This is what the fencing token is for."},
};

constexpr Section kSections[] = {
    {"Options", kOptions},
    {"Environment of CMD", kEnvironment},
    {"Exit codes", kExitCodes},
    {"Good to know", kNotes},
};

}  // namespace

const Page kRunPage = {
    .name = "run",
    .summary = "run a command under a lock",
    .synopsis = "redlatch run NAME [options] -- CMD [ARGS...]",
    .purpose =
        "Runs CMD while holding the lock NAME, and exits with CMD's exit code. If someone else "
        "holds the lock, it waits. Commands that use the same NAME on the same server never run at "
        "the same time, whether on one machine or many.",
    .examples = kExamples,
    .sections = kSections,
};

}  // namespace redlatch::cli
