#!/usr/bin/env python3
"""Checks what docs/reliability.md and its ledger claim against what they come from: the shares of mutants that are found,
the commits of the long runs, and, with --seeds BINARY, each seed that shows what no lock over Redis survives."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
REPORT = (ROOT / "docs/reliability.md").read_text()
LEDGER = (ROOT / "docs/reliability/ledger.md").read_text()
faults = []


def check(good, what):
    if not good:
        faults.append(what)


def mutants():
    table = (ROOT / "docs/mutants.md").read_text()
    rows = re.findall(r"^\| [a-z0-9-]+ \| (.*?) \| (.*?) \|$", table, re.M)
    rows = [cells for cells in rows if any(cells) and cells[0] != "simulator"]
    shares = re.findall(r"(\d+) of (\d+) \(\d+ %\)", table)
    claim = re.search(r"The simulator finds (\d+) of (\d+) faults, these tests (\d+) of (\d+), and one of them or both\s+"
                      r"(\d+) of (\d+)", REPORT)
    check(claim and list(claim.groups()) == [number for share in shares for number in share],
          "reliability.md does not say of the mutants what mutants.md says")
    found = [[bool(cell) and not cell.startswith(("none", "not found")) for cell in cells] for cells in rows]
    for share, finds in zip(shares, ([s for s, _ in found], [t for _, t in found], map(any, found))):
        check(int(share[0]) == sum(finds), f"mutants.md says that {share[0]} mutants are found, and its rows do not")
    run = re.search(r"(\d+) of \d+\s+have been run", table)
    check(run and int(run[1]) == len(rows), f"mutants.md has {len(rows)} rows")


def ledger():
    rows = re.findall(r"^\| (\d{4}-\d\d-\d\d) \| `(\w+)` \| `([^`]+)` \| ([\d,]+) \| ([\d,]+) \|.*\|$", LEDGER, re.M)
    check(len(rows) == len(re.findall(r"^\| \d", LEDGER, re.M)), "a row of the ledger cannot be read")
    for _, commit, flags, runs, _ in rows:
        known = subprocess.run(["git", "merge-base", "--is-ancestor", commit, "HEAD"], cwd=ROOT, capture_output=True)
        check(known.returncode == 0, f"the ledger's commit {commit} is not in the history of this one")
        seeds = re.search(r"--seeds (\d+)", flags)
        check(seeds and int(seeds[1]) * max(1, flags.count("--group")) == int(runs.replace(",", "")),
              f"the ledger's run at {commit} has other flags than runs")


def seeds(binary):
    commands = re.findall(r"`\./dev sim (--group [^`]*--strict 1 --replay \d+)`", REPORT)
    check(commands, "reliability.md has no seed that shows what no lock survives")
    for flags in commands:
        run = subprocess.run([binary, *flags.split()], capture_output=True, text=True, errors="replace", timeout=120)
        check(re.search(r"^at \d+ us: P[15]: ", run.stdout, re.M), f"./dev sim {flags} does not break P1 or P5")


if sys.argv[1:2] == ["--seeds"]:
    seeds(sys.argv[2])
else:
    mutants()
    ledger()
for each in faults:
    print(f"docs/check_reliability.py: {each}")
sys.exit(bool(faults))
