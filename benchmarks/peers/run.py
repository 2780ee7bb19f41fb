#!/usr/bin/env python3
"""run.py [--peer NAME]... [--work NAME]... [--beside PROGRAM]... [--update] [--seconds N] [--rounds N] [--quick]
       [--asleep] [--json FILE]

Compares redlatch with other locks over Redis, each in its own language, on the same servers, which are started
for the run on loopback. Contenders take turns in each work of each round, in changing order. While it is
measured, each acquisition checks that no other holder is inside. `./dev compare` builds redlatch and runs this.
Results go to docs/benchmarks/results.json, from which report.py makes docs/benchmarks.md.

--peer and --work select some; a name that ends with - selects all that start with it. --quick: one short round
of the most telling works, whose results are only printed. --beside: another build of redlatch's contender, such as
one without a trick for speed, takes part with the same options. Peers then take part only if --peer names them, and
results are only printed.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compare import stay_awake
from contenders import Absent, BUILD, OURS, PEERS, ROOT, redlatch
from servers import Server, start
from works import LEASE_MS, QUICK, WORKS
import report

RESULTS = ROOT / "docs" / "benchmarks" / "results.json"
TIMEOUT = 120  # seconds that processes may take to get ready, or to end


class RaceFailed(Exception):
    """A contender that failed, and its output."""


# ---- One race.

class Race:
    """The processes of a contender that do a work, and the servers' cost meanwhile."""

    def __init__(self, stack, contender, work, servers, directory):
        self.stack, self.contender, self.work, self.servers = stack, contender, work, servers
        self.shared = pathlib.Path(directory, "shared")
        self.shared.write_bytes(bytes(4096))
        for server in servers:
            server.flush()
        self.urls = [server.url() for server in servers]
        if work.delay_us:
            proxy = start(stack, [str(OURS / "delay_proxy"), str(servers[0].port), str(work.delay_us)],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.urls = [f"redis://127.0.0.1:{proxy.stdout.readline().strip()}"]
        self.errors = stack.enter_context(tempfile.TemporaryFile("w+"))
        self.racers = []
        # Without it, a read from a hung process would wait for ever.
        self.watchdog = threading.Timer(TIMEOUT, lambda: [racer.kill() for racer in self.racers])
        self.watchdog.daemon = True
        self.watchdog.start()
        stack.callback(self.watchdog.cancel)

    def fail(self, what):
        self.errors.seek(0)
        raise RaceFailed(f"{self.contender.name}, {self.work.name}: {what}: {self.errors.read().strip()[-600:]}")

    def launch(self, count, seconds, mode, *more):
        """Starts processes; they are ready, and wait for the start."""
        options = {f"--kind={self.work.kind}"} if self.work.kind != "mutex" else set()
        several = self.contender.several if self.work.processes > 1 else ()
        command, first = several or self.contender.command, len(self.racers)
        for index in range(first, first + count):
            self.racers.append(start(
                self.stack, [*command, f"--work={mode}", *options, *self.contender.options,
                             f"--seconds={seconds}", f"--shared={self.shared}", f"--index={index}",
                             f"--threads={self.work.threads if mode != 'hold' else 1}", *self.work.options, *more,
                             *self.urls],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True))
        racers = self.racers[first:]
        for racer in racers:
            self.expect_ready(racer)
        return racers

    def expect_ready(self, racer):
        if racer.stdout.readline() != "ready\n":
            self.fail(f"a process did not get ready within {TIMEOUT} s")

    def go(self, racers):
        for racer in racers:
            try:
                racer.stdin.write("\n")
                racer.stdin.flush()
            except OSError:
                self.fail("a process ended before the start")

    def collect(self, racers):
        lines = [racer.stdout.readline() for racer in racers]
        if not all(lines):
            self.fail(f"a process failed, or did not end within {TIMEOUT} s")
        return [json.loads(line) for line in lines]

    def cost(self):
        """The commands that clients have sent so far, and the servers' processor time in seconds."""
        commands, cpu = 0, 0.0
        sends = self.contender.sends + (self.contender.sends_alone if self.work.mode == "pair" else ())
        for server in self.servers:
            for name, calls in re.findall(r"cmdstat_([^:]+):calls=(\d+)", server.ask("INFO commandstats")):
                commands += int(calls) if name in sends else 0
            cpu += sum(map(float, re.findall(r"used_cpu_(?:user|sys):([\d.]+)", server.ask("INFO cpu"))))
        return commands, cpu


def share(parts):
    """The smallest part divided by the largest."""
    return min(parts) / max(parts) if max(parts) else 0.0


def contended(race, seconds):
    work = race.work
    racers = race.launch(work.processes, seconds, work.mode)
    before = race.cost()
    race.go(racers)
    reports = race.collect(racers)
    after = race.cost()
    counts = [sum(it["counts"]) for it in reports] if work.processes > 1 else reports[0]["counts"]
    total = max(sum(counts), 1)
    samples = sorted(sample for it in reports for sample in it["samples_us"])
    outcome = {"per_second": sum(counts) / seconds, "share": share(counts),
               "longest_wait_ms": max(it["longest_wait_ms"] for it in reports),
               "failed": sum(it["failed"] for it in reports), "overlaps": sum(it["overlaps"] for it in reports),
               "commands": (after[0] - before[0]) / total, "server_us": 1e6 * (after[1] - before[1]) / total,
               "client_us": 1e6 * sum(it["cpu_s"] for it in reports) / total}
    if samples:
        outcome["p50_us"] = samples[len(samples) // 2]
        outcome["p99_us"] = samples[len(samples) * 99 // 100]
    if waits := sorted(wait for it in reports for wait in it.get("waits_us", [])):
        outcome["wait_p99_us"] = waits[len(waits) * 99 // 100]
    return outcome


def waiting(race, seconds):
    race.launch(1, seconds, "hold")
    race.go(race.launch(race.work.processes, seconds, "contend"))
    time.sleep(2)  # some try for a while before they sleep, which no event shows
    before, began = race.cost(), time.monotonic()
    time.sleep(max(seconds, 2))  # measures the cost of waiting
    after, took = race.cost(), time.monotonic() - began
    return {"commands_per_s": (after[0] - before[0]) / took, "server_ms_per_s": 1e3 * (after[1] - before[1]) / took,
            "overlaps": 0}


def held(race, seconds):
    holder = race.launch(1, seconds, "hold")
    before, began = race.cost(), time.monotonic()
    time.sleep(max(21.0, seconds))  # a lease of 30 s must be renewed twice
    race.go(holder)
    after, took = race.cost(), time.monotonic() - began
    return {"client_ms_per_s": 1e3 * race.collect(holder)[0]["cpu_s"] / took,
            "server_ms_per_s": 1e3 * (after[1] - before[1]) / took,
            "commands_per_s": (after[0] - before[0]) / took, "overlaps": 0}


def killed(race, _seconds):
    holder, = race.launch(1, 0.001, "hold")
    held_by_it = race.servers[0].leases(LEASE_MS)
    waiter = race.launch(1, 0.001, "contend")
    race.go(waiter)
    time.sleep(0.5)  # the waiter must wait; no event shows that in every peer
    holder.kill()
    began = time.monotonic()
    # The rest of the lease is chance: it depends on when the holder last renewed it.
    left = race.servers[0].leases(LEASE_MS)
    left_ms = max(left.get(key, 0) for key in held_by_it)
    race.collect(waiter)
    took_ms = 1e3 * (time.monotonic() - began)
    return {"recovery_ms": took_ms, "late_ms": took_ms - left_ms, "overlaps": 0}


MODES = {"waiting": waiting, "held": held, "killed": killed}


def run(contender, work, servers, directory, seconds):
    with contextlib.ExitStack() as stack:
        race = Race(stack, contender, work, servers[:work.servers], directory)
        return MODES.get(work.mode, contended)(race, seconds * work.warm)


# ---- All of them.

def chosen(names, wished):
    if not wished:
        return list(names)
    for wish in wished:
        if not any(fits(name, wish) for name in names):
            sys.exit(f"{wish} is none of {', '.join(names)}")
    return [name for name in names if any(fits(name, wish) for wish in wished)]


def fits(name, wish):
    return name == wish or wish.endswith("-") and name.startswith(wish)


def gather(peers, beside=()):
    contenders, missing = redlatch(), []
    contenders += [dataclasses.replace(it, name=f"{it.name}, {program.name}", command=(str(program.resolve()),))
                   for program in beside for it in contenders]
    for name in peers:
        print(f"building {name}", file=sys.stderr)
        try:
            contenders += PEERS[name]()
        except Absent as absent:
            missing.append(str(absent))
            print(f"absent: {absent}", file=sys.stderr)
    return contenders, missing


class Progress:
    def __init__(self, total):
        self.total, self.done, self.began = total, 0, time.monotonic()

    def show(self, what):
        if self.done:
            left = (time.monotonic() - self.began) / self.done * (self.total - self.done)
            what += f", some {max(1, round(left / 60))} min left"
        print(f"[{self.done}/{self.total}] {what}", file=sys.stderr)


def measure(contenders, works, options):
    """{work: {contender: [outcome of each round]}}, and which failed, and how."""
    results = {work.name: {it.name: [] for it in contenders if work.does in it.does} for work in works}
    failures = []
    progress = Progress(options.rounds * sum(len(entries) for entries in results.values()))
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(dir=BUILD))
        servers = [Server(stack, directory) for _ in range(max(work.servers for work in works))]
        for number in range(options.rounds):
            for work in works:
                able = [it for it in contenders if it.name in results[work.name]]
                turn = number % max(1, len(able))
                for contender in able[turn:] + able[:turn]:
                    progress.show(f"round {number + 1}, {work.name}: {contender.name}")
                    progress.done += 1
                    try:
                        outcome = run(contender, work, servers, directory, options.seconds)
                    except RaceFailed as failure:
                        failures.append(str(failure))
                        print(f"failed: {failure}", file=sys.stderr)
                        continue
                    results[work.name][contender.name].append(outcome)
    return results, failures


def version_of(command, pattern=r"(\d[\w.]*)"):
    with contextlib.suppress(OSError, TypeError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return re.search(pattern, done.stdout + done.stderr)[1]
    return "none"


def machine():
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return {"processors": os.cpu_count(), "model": model[1] if model else platform.machine(),
            "kernel": platform.release().split("-")[0],
            "redis": version_of(["redis-server", "--version"], r"v=([\d.]+)"), "go": version_of(["go", "version"], r"go([\d.]+)"),
            "java": version_of(["java", "-version"], r'"([\d.]+)'), "node": version_of(["node", "--version"]),
            "python": platform.python_version()}


def raw_pair_us(results):
    raw = results.get("pair-1", {}).get("raw hiredis, tries each 1 ms", [])
    return round(statistics.median(outcome["p50_us"] for outcome in raw)) if raw else None


def merged(before, whole):
    """The earlier results, with those of the works that were measured now replaced."""
    again = {name: entries for name, entries in whole["results"].items() if entries}
    kept = [failure for failure in before["failures"] if not any(f", {name}:" in failure for name in again)]
    return {**before, "settings": whole["settings"], "failures": kept + whole["failures"],
            "again": {**before.get("again", {}), **dict.fromkeys(again, whole["commit"])},
            "results": {**before["results"], **again}}


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n", maxsplit=1)[0], description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", action="append", help=", ".join(PEERS))
    parser.add_argument("--work", action="append", help=", ".join(work.name for work in WORKS))
    parser.add_argument("--beside", action="append", type=pathlib.Path, default=[], metavar="PROGRAM",
                        help="another build of redlatch's contender")
    parser.add_argument("--seconds", type=float, default=2, help="of each race; some take longer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--asleep", action="store_true", help="let processors sleep that are idle")
    parser.add_argument("--update", action="store_true",
                        help="with --work: measure these again, and leave the rest unchanged")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help=f"in place of {RESULTS.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.seconds = 1, min(options.seconds, 1)
    return options


def main():
    options = arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit("interrupted"))
    names = chosen([work.name for work in WORKS], options.work or (QUICK if options.quick else None))
    peers = chosen(list(PEERS), options.peer) if options.peer or not options.beside else []
    contenders, missing = gather(peers, options.beside)
    if not options.asleep:
        stay_awake()
    results, failures = measure(contenders, [work for work in WORKS if work.name in names], options)
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"], check=True,
                            capture_output=True, text=True).stdout.strip()
    whole = {"measured": datetime.date.today().isoformat(), "commit": commit, "machine": machine(), "awake": not options.asleep,
             "rounds": options.rounds, "seconds": options.seconds, "raw_pair_us": raw_pair_us(results),
             "settings": {it.name: it.settings for it in contenders}, "missing": missing, "failures": failures,
             "results": results}
    print(report.text(whole))
    if options.update:
        whole = merged(json.loads(RESULTS.read_text()), whole)
    partial = options.quick or options.peer or options.beside or options.work and not options.update
    path = options.json or (None if partial else RESULTS)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(whole, indent=1) + "\n")
        print(f"written to {path}", file=sys.stderr)
    if path == RESULTS:
        report.write(whole)
    if any(outcome["overlaps"] for entries in results.values() for outcomes in entries.values() for outcome in outcomes):
        sys.exit("an acquisition found another holder inside: see above")


if __name__ == "__main__":
    main()
