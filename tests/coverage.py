#!/usr/bin/env python3
"""coverage.py BUILD EXPLAINED: which lines and branches of the library ran in a build with --coverage.

A line or a branch of src/lock/state that never ran must be in EXPLAINED:

    <file>: <text of the line> -- <reason>            " (2)" follows the text of the second line with that text
    <file>: <text of the line> [branch] -- <reason>   the line ran, but not in every direction

A call that throws is no branch: gcov marks the edges that only an exception takes, and they are left out, with the
edge beside each. Neither are the destructors that run at a "}". Exits with 1 if EXPLAINED lacks something or explains a
line that does not exist, or if a folder of LEAST has fewer branches taken than that, in percent. What ran although it
is explained is reported only: it may depend on the number of simulated runs.
"""
import collections
import functools
import json
import pathlib
import subprocess
import sys

ROOMS = ("src/lock/state", "src/lock", "src/quorum",
         "src/redis/link", "src/redis/server_group", "src/redis/connect", "src/api")
MUST_RUN = "src/lock/state"
LEAST = {"src/lock/state": 98.0, "src/lock": 83.0, "src/quorum": 87.0}
ROOT = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def texts_of(name):
    return [line.strip() for line in (ROOT / name).read_text(encoding="utf-8").splitlines()]


def without_throws(branches):
    """How often each branch was taken. The edges of a call come together: on, and to a handler."""
    counts, i = [], 0
    while i < len(branches):
        if i + 1 < len(branches) and branches[i + 1]["throw"] or branches[i]["throw"]:
            i += 2
            continue
        counts.append(branches[i]["count"])
        i += 1
    return counts


class File:
    """Counts of a file's lines, and of the branches of each. A template's line has branches in each instance, and a
    header's in each source that includes it: a branch is taken if any of them takes it."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.defaultdict(dict)  # line -> {number of branches: counts}

    def add(self, line):
        number = line["line_number"]
        self.lines[number] += line["count"]
        counts = without_throws(line["branches"])
        if counts and sum(counts):
            before = self.branches[number].get(len(counts), [0] * len(counts))
            self.branches[number][len(counts)] = [a + b for a, b in zip(before, counts)]
        elif counts:
            self.branches[number].setdefault(len(counts), counts)

    def taken(self, number):
        """(branches taken, branches) of the line."""
        instances = self.branches[number].values()
        ran = [counts for counts in instances if sum(counts)] or list(instances)
        return sum(c > 0 for counts in ran for c in counts), sum(len(counts) for counts in ran)


def read_counts(build):
    """{file: File} of the files of the rooms."""
    files = collections.defaultdict(File)
    for notes in sorted(build.rglob("*.gcda")):
        out = subprocess.run(["gcov", "--branch-probabilities", "--json-format", "--stdout", str(notes)],
                             cwd=notes.parent, capture_output=True, check=True).stdout
        for text in out.splitlines():
            for file in json.loads(text)["files"]:
                path = (notes.parent / file["file"]).resolve()
                name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
                if name.startswith(ROOMS):
                    for line in file["lines"]:
                        if any(map(str.isalpha, texts_of(name)[line["line_number"] - 1])):
                            files[name].add(line)
    return files


def percent(part, whole):
    return 100 * part / max(1, whole)


def report(files):
    """Prints the share of each folder. Returns whether each of LEAST is good enough."""
    good = True
    for room in ROOMS:
        its = [file for name, file in files.items() if name.startswith(room)]
        lines = [count > 0 for file in its for count in file.lines.values()]
        branches = [file.taken(number) for file in its for number in file.branches]
        taken, all_branches = sum(t for t, _ in branches), sum(n for _, n in branches)
        print(f"{room:24} {percent(sum(lines), len(lines)):5.1f} % of {len(lines):5} lines, "
              f"{percent(taken, all_branches):5.1f} % of {all_branches:5} branches")
        if percent(taken, all_branches) < LEAST.get(room, 0):
            print(f"{room}: fewer than {LEAST[room]} % of the branches were taken")
            good = False
    return good


def what_is(name, number):
    text = texts_of(name)[number - 1]
    nth = texts_of(name)[:number].count(text)
    return f"{name}: {text}" + (f" ({nth})" if nth > 1 else "")


def missing_in(name, file):
    """Lines that never ran and lines of which a branch was never taken, as EXPLAINED names them."""
    for number, count in file.lines.items():
        taken, branches = file.taken(number)
        if count == 0:
            yield what_is(name, number)
        elif taken < branches:
            yield what_is(name, number) + " [branch]"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    files = read_counts(build)
    if not files:
        sys.exit("coverage.py: nothing was counted")
    good = report(files)
    with open(sys.argv[2], encoding="utf-8") as file:
        explained = {line.rsplit(" -- ", 1)[0] for line in file if line.startswith("src/")}
    missing, known = set(), set()
    with open(build / "never_ran.txt", "w", encoding="utf-8") as log:
        for name, its in sorted(files.items()):
            never_ran = set(missing_in(name, its))
            print(*sorted(never_ran), sep="\n", file=log)
            if name.startswith(MUST_RUN):
                missing |= never_ran
                known.update(what_is(name, number) for number in its.lines)
    for what in sorted(missing - explained):
        print(f"never ran: {what}")
    for what in sorted(explained - missing):
        stale = what.removesuffix(" [branch]") not in known
        print(f"explained, but {'there is no such line' if stale else 'it ran'}: {what}")
        good = good and not stale
    print(f"{build / 'never_ran.txt'} lists what never ran, of all of these folders")
    sys.exit(0 if good and missing <= explained else 1)


if __name__ == "__main__":
    main()
