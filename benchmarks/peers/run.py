#!/usr/bin/env python3
"""run.py [quorum] [--seconds N] [--rounds N] [--tune SECONDS] [--awake] [--check] [--json FILE]

redlatch's RedLock beside other locks on several servers: redsync (Go) and redis-plus-plus (C++).
Five redis-servers, started for the run on loopback, and 8 processes that take one lock and release
it, again and again. Contenders take turns in each round, in changing order; after each race comes
one process of the contender alone. `./dev bench --peers` builds ours and runs this.

A peer takes part twice: with its defaults, and with the delay between tries that was best for its
acquisitions per second, which is found out first. A peer that cannot be had here is named, with the
reason. See "Peers" in ../README.md.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compare import stay_awake
from contenders import Absent, BUILD, PEERS, Contender, redlatch
from servers import PATIENCE, Server, start

OURS = HERE.parent.parent / "build" / "release" / "benchmarks" / "quorum_contender"
SERVERS, PROCESSES = 5, 8
FASTER, FAIR = 5.0, 0.5  # what --check asks for


class RaceFailed(Exception):
    """A contender that did not do as it should, and what it said."""


# ---- Races.

@dataclasses.dataclass
class Outcome:
    per_second: float
    smallest_share: float  # of the slowest process, where 1 is an equal share
    longest_wait_ms: float
    failed: int
    overlaps: int


def race(contender, servers, directory, processes, seconds):
    for server in servers:
        server.flush()
    section = pathlib.Path(directory, "section")
    section.write_bytes(bytes(4096))
    command = [contender.program, *contender.options, str(seconds), section, *(server.url() for server in servers)]
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        racers = [start(stack, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
                  for _ in range(processes)]

        def fail(what):
            errors.seek(0)
            raise RaceFailed(f"{contender.name}: {what}: {errors.read().strip()[-600:]}")

        # Without it, whatever is read from a racer that hangs would be waited for.
        watchdog = threading.Timer(seconds + PATIENCE, lambda: [racer.kill() for racer in racers])
        watchdog.daemon = True
        watchdog.start()
        stack.callback(watchdog.cancel)
        if any(racer.stdout.readline() != "ready\n" for racer in racers):
            fail("a process did not get ready")
        for racer in racers:
            racer.stdin.write("\n")
            racer.stdin.flush()
        lines = [racer.stdout.readline() for racer in racers]
        if not all(lines) or any(racer.wait() for racer in racers):
            fail(f"a process failed, or did not end within {PATIENCE} s")
    reports = [json.loads(line) for line in lines]
    counts = [report["count"] for report in reports]
    return Outcome(sum(counts) / seconds, min(counts) * processes / max(sum(counts), 1),
                   max(report["longest_wait_ms"] for report in reports),
                   sum(report["failed"] for report in reports), sum(report["overlaps"] for report in reports))


def tuned(peer, servers, directory, seconds):
    """The peer with that of its tunings which acquires most."""
    best, most = None, -1.0
    for tuning in peer.tunings:
        label = " ".join(option.removeprefix("--") for option in tuning)
        candidate = dataclasses.replace(peer, name=f"{peer.name}, {label}", options=tuning)
        outcome = race(candidate, servers, directory, PROCESSES, seconds)
        print(f"  {candidate.name}: {outcome.per_second:.0f}/s, share {outcome.smallest_share:.2f}", file=sys.stderr)
        if outcome.per_second > most:
            best, most = candidate, outcome.per_second
    return best


@dataclasses.dataclass
class Results:
    contender: Contender
    contended: list = dataclasses.field(default_factory=list)  # the Outcome of each round
    alone: list = dataclasses.field(default_factory=list)


def measure(contenders, options):
    """The results of each contender, ours first; and which peers failed, and how."""
    BUILD.mkdir(parents=True, exist_ok=True)
    failures = []
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=BUILD))
        servers = [Server(stack, directory) for _ in range(SERVERS)]
        running = [Results(contender) for contender in contenders]
        for peer in [it for it in contenders if it.tunings] if options.tune > 0 else ():
            try:
                running.append(Results(tuned(peer, servers, directory, options.tune)))
            except RaceFailed as failure:
                failures.append(f"failed: {failure}")
        for number in range(options.rounds):
            turn = number % len(running)
            for results in running[turn:] + running[:turn]:
                try:
                    results.contended.append(
                        race(results.contender, servers, directory, PROCESSES, options.seconds))
                    results.alone.append(race(results.contender, servers, directory, 1, options.seconds / 5))
                except RaceFailed as failure:
                    if results.contender is contenders[0]:
                        raise
                    failures.append(f"failed: {failure}")
                    running.remove(results)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    return running, failures


# ---- The report.

def ratio(ours, others):
    """Of acquisitions: the median over rounds, each of which saw both in the same mood of the machine."""
    return statistics.median(us.per_second / max(it.per_second, 1e-9) for us, it in zip(ours, others, strict=True))


def print_table(everybody):
    def line(name, cells):
        print(f"{name:54}" + "".join(f"{cell:>16}" for cell in cells))

    ours = everybody[0]
    line("", ["acquisitions/s", "smallest share", "longest wait", "gave up", "overlaps", "ours / its",
              "alone: pairs/s", "ours / its"])
    for it in everybody:
        line(it.contender.name, [
            f"{statistics.median(outcome.per_second for outcome in it.contended):.0f}",
            f"{min(outcome.smallest_share for outcome in it.contended):.2f}",
            f"{max(outcome.longest_wait_ms for outcome in it.contended):.0f} ms",
            sum(outcome.failed for outcome in it.contended), sum(outcome.overlaps for outcome in it.contended),
            f"{ratio(ours.contended, it.contended):.2f}",
            f"{statistics.median(outcome.per_second for outcome in it.alone):.0f}",
            f"{ratio(ours.alone, it.alone):.2f}"])
    print("acquisitions/s: the median over rounds. Smallest share: of the slowest process in the worst round, "
          "where 1 is\nan equal share. Ratios: the median over rounds. Only they count: the machine's mood is in "
          f"all else. Its load is {os.getloadavg()[0]:.1f}.")


def shortcomings(everybody):
    """What keeps ours from the bar."""
    ours = everybody[0].contended
    share = min(outcome.smallest_share for outcome in ours)
    if share < FAIR:
        yield f"our smallest share is {share:.2f}; {FAIR:g} is asked for"
    if overlaps := sum(outcome.overlaps for outcome in ours):
        yield f"two processes of ours were inside at once, {overlaps} times"
    for peer in everybody:
        if peer.contender.program == everybody[0].contender.program:
            continue
        if (times := ratio(ours, peer.contended)) < FASTER:
            yield f"ours acquires {times:.2f} times as often as {peer.contender.name}; {FASTER:g} is asked for"


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n", maxsplit=1)[0], description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["quorum"], default="quorum")
    parser.add_argument("--seconds", type=float, default=10, help="of each race; alone, a fifth of that")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tune", type=float, default=2, metavar="SECONDS",
                        help="of each race that tries out a delay; 0: the peers' defaults only")
    parser.add_argument("--awake", action="store_true", help="keep the processors from sleeping")
    parser.add_argument("--check", action="store_true",
                        help=f"fail unless every peer is there, ours acquires {FASTER:g} times as often as each, and "
                        f"no process of ours gets less than {FAIR:g} of an equal share")
    parser.add_argument("--json", metavar="FILE", help="write what was measured in each round")
    parser.add_argument("--ours", default=OURS, metavar="PROGRAM", help="another quorum_contender")
    return parser.parse_args()


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("interrupted"))
    contenders, missing = redlatch(options.ours), []
    for peer in PEERS:
        try:
            contenders.append(peer())
        except Absent as absent:
            missing.append(f"absent: {absent}")
            print(missing[-1], file=sys.stderr)
    if options.awake:
        stay_awake()
    try:
        everybody, failures = measure(contenders, options)
    except RaceFailed as failure:
        sys.exit(str(failure))

    missing += failures
    print_table(everybody)
    print("".join(f"{line}\n" for line in missing), end="")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({
            "results": [{"name": it.contender.name, "contended": [vars(outcome) for outcome in it.contended],
                         "alone": [vars(outcome) for outcome in it.alone]} for it in everybody],
            "missing": missing, "seconds": options.seconds, "awake": options.awake}, indent=1) + "\n")
    if options.check and (found := missing + list(shortcomings(everybody))):
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
