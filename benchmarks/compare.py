#!/usr/bin/env python3
"""compare.py BEFORE AFTER... [--filter REGEX] [--rounds N] [--time SECONDS] [--asleep | --single]

Commits side by side, in one run. Each is a commit, or the path of a redlatch_benchmark binary; commits
are built in build/compare. They take turns in each round, in changing order, while the processors are
kept awake (see "How to read them" in README.md). For each benchmark: the medians of the rounds in
microseconds, and the ratio of each to BEFORE: of the medians, and of the best quarters of the rounds,
which other programs disturbed least.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = ("commands", "server_us", "share_ratio")  # counters worth a column
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}


def binary(which):
    """The benchmark binary that `which` names, built if it is a commit."""
    if os.access(which, os.X_OK) and os.path.isfile(which):
        return os.path.abspath(which)
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.check_output(git + ["rev-parse", "--verify", which + "^{commit}"], text=True).strip()
    tree = ROOT / "build" / "compare" / commit
    if not tree.exists():
        subprocess.check_call(git + ["worktree", "prune"])
        subprocess.check_call(git + ["worktree", "add", "--detach", "--quiet", str(tree), commit])
    print(f"building {commit[:12]}", file=sys.stderr)
    # Builds redlatch_benchmark, and runs none.
    subprocess.check_call(["./dev", "bench", "--benchmark_filter=^$"], cwd=tree, stdout=subprocess.DEVNULL)
    return str(tree / "build" / "release" / "benchmarks" / "redlatch_benchmark")


def stay_awake():
    """A process on each processor that runs only where nothing else wants to."""
    for processor in os.sched_getaffinity(0):
        if os.fork() == 0:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setaffinity(0, {processor})
            parent = os.getppid()
            while os.getppid() == parent:
                for _ in range(100000):
                    pass
            os._exit(0)


def run(program, options):
    command = [program, f"--benchmark_filter={options.filter}", "--benchmark_format=json",
               f"--benchmark_min_time={options.time}"]
    report = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
    results = {}
    for line in report["benchmarks"]:
        if line.get("error_occurred"):
            sys.exit(f"{program}: {line['name']}: {line['error_message']}")
        line["us"] = line["real_time"] * MICROSECONDS[line["time_unit"]]
        results[line["name"]] = line
    return results


def quartile(values):
    return sorted(values)[len(values) // 4]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n", maxsplit=1)[0], description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="+", metavar="COMMIT")
    parser.add_argument("--filter", default="RawHiredis_Pair/real_time$|(Simple|Reentrant)Lock_Uncontended|"
                        "(Read|Write)Uncontended|Semaphore_Uncontended|(SimpleLock|Semaphore|Writes)_"
                        "Processes/(2|16)/|SimpleLock_Threads|Handover|ManyThreads|ReadMostly/4/reads:90")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--time", type=float, default=0.2)
    mood = parser.add_mutually_exclusive_group()
    mood.add_argument("--asleep", action="store_true", help="let the processors sleep when idle")
    mood.add_argument("--single", action="store_true",
                      help="run everything on one processor: no wake-ups between two, so that only work counts")
    options = parser.parse_args()

    programs = [binary(which) for which in options.which]
    if options.single:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    elif not options.asleep:
        stay_awake()
    order = list(range(len(programs)))
    rounds = []
    for number in range(options.rounds):
        results = {turn: run(programs[turn], options) for turn in order}
        rounds.append([results[turn] for turn in range(len(programs))])
        order = order[1:] + order[:1]
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    others = options.which[1:]
    print(f"{'benchmark':58}{'us':>9}" + "".join(f"{'us':>12}{'median':>8}{'best':>7}" for _ in others))
    for name in rounds[0][0]:
        if any(name not in side for sides in rounds for side in sides):
            continue  # one of them has no such benchmark
        times = [[sides[side][name]["us"] for sides in rounds] for side in range(len(programs))]
        line = f"{name.split('/iterations')[0]:58}{statistics.median(times[0]):9.2f}"
        for own in times[1:]:
            line += (f"{statistics.median(own):12.2f}{statistics.median(own) / statistics.median(times[0]):8.3f}"
                     f"{quartile(own) / quartile(times[0]):7.3f}")
        for counter in SHOWN:
            if all(counter in side[name] for side in rounds[0]):
                values = [statistics.median(sides[side][name][counter] for sides in rounds)
                          for side in range(len(programs))]
                line += f"  {counter} " + " ".join(f"{value:.3f}" for value in values)
        print(line)
    print(f"the load is {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
