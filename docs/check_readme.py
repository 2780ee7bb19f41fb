#!/usr/bin/env python3
"""Checks what README.md claims: that each of its figures is measured, or stands where the code or a
document says it, and that a test runs each of its blocks.

CLAIMS has the sentences with figures, as they must be today. A number that is in none of them is a
fault, so that no figure comes into the README without a source.
"""
import pathlib
import re
import sys

sys.dont_write_bytecode = True
# This repository, or another README that is named.
ROOT = pathlib.Path(__file__).resolve().parent.parent
README = pathlib.Path(*sys.argv[1:2] or [ROOT]) / "README.md"
sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
import json

import report


WORDS = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()


def found(path, pattern):
    """The first group of the pattern in a file of the repository, which must have it."""
    match = re.search(pattern, (ROOT / path).read_text())
    if not match:
        sys.exit(f"docs/check_readme.py: {path} no longer has {pattern}")
    return match[1]


def measured():
    """Sentences whose figures are measurements."""
    whole = json.loads((report.FOLDER / "results.json").read_text())
    work = {it.name: it for it in report.WORKS}

    def cell(name, contender, metric):
        return report.cell(whole["results"][name][contender], metric)

    polls = "raw hiredis, tries each 1 ms"
    others = [name for name in whole["results"]["pair-1"] if not report.is_ours(name)]
    if not any("redis-plus-plus" in it for it in whole["missing"]):
        sys.exit("docs/check_readme.py: redis-plus-plus was measured, so the README need not say that it is missing")
    behind = sum((report.against(whole, it) or 1) < 0.97 for it in report.WORKS)
    share = report.middle(whole["results"]["hot-16-1ms"][polls], "share")
    ahead = report.against(whole, work["hot-16-1ms"])
    return [
        "When 16 processes each hold a lock for 1 ms, the longest wait is "
        f"{cell('hot-16-1ms', 'redlatch', 'longest_wait_ms')}. With a lock that polls it is "
        f"{cell('hot-16-1ms', polls, 'longest_wait_ms')}.",
        f"locking and unlocking takes {report.middle(whole['results']['pair-1']['redlatch'], 'commands'):.0f} commands.",
        f"Locking and unlocking by `lock()` and `unlock()`, without a token, takes {cell('pair-1', 'redlatch', 'p50_us')} over loopback, "
        f"{report.against(whole, work['pair-1']):.1f} times as fast as the best of {len(others)} other locks.",
        f"including the {behind} in which redlatch is behind",
        f"{'' if 0.9 < ahead < 1 else 'NOT '}a little faster than redlatch, and one process gets "
        f"{1 / share:.0f} times as much as another",
        f"measured at commit `{whole['commit']}`, on one machine with two cores, and without redis-plus-plus", polls, "each hold a lock for 1 ms", "want and hold for 1 ms", "hold the lock for 1 ms", "16 processes", "1,000 waiters",
    ]


def tested(name):
    """The versions of a server on which docs/servers.md says that the conformance tests ran, in order."""
    rows = re.findall(rf"^\| {name} ([0-9., ]+?) (?:\(Debian \d+'s\) )?\|.*\*\*tested\*\*: (?:all|fast) tests",
                      (ROOT / "docs/servers.md").read_text(), re.M)
    return sorted(", ".join(rows).split(", "), key=lambda version: [int(part) for part in version.split(".")])


def minor(version):
    return ".".join(version.split(".")[:2])


def stated():
    """Sentences whose figures stand elsewhere."""
    lease = int(found("include/redlatch/lock_options.h", r"Duration lease = absl::Seconds\((\d+)\)"))
    margin = int(found("docs/guarantees.md", r"stops trusting it (\d+) % \+ 2 ms before the server does"))
    turn = found("include/redlatch/lock_options.h", r"not set   (\d+ ms) while no other client waits")
    shared = found("include/redlatch/lock_options.h", r"0\.3 ms at least, and (\d+ ms) at most")
    claim = found("docs/guarantees.md", r"the margin is\s+that of a claim: 22 ms, or (\d+ ms) if the claim is \[brief\]")
    compared = re.findall(r"\| (Redis|Valkey) ([0-9.]+) \| 1,000,000 \|", (ROOT / "docs/reliability.md").read_text())
    redis, valkey = tested("Redis"), tested("Valkey")
    worlds = found("docs/reliability.md", r"\./dev sim +([0-9,]+) runs")
    suites = found(".ci/bare-root", r"set -- (bookworm trixie)")
    debians = {"bookworm": "Debian 12", "trixie": "Debian 13"}
    return [
        "C++20", "Debian 12 or 13", *(debians[suite] for suite in suites.split()), "Conan 2", "compiler.cppstd=20", "g++ 12", "g++ 14", "clang 14",
        f"If a lease of {lease} s cannot be renewed, its holder is told at least {lease * 1000 * margin // 100} ms before the server can give the "
        f"lock away ({claim} just after a handover)",
        f"A lease lasts {lease} s and is renewed",
        f"for at most {turn}, or {shared} if other clients wait",
        f"keeps the lock for its turn, at most {shared},",
        f"Redis {minor(redis[0])} to {minor(redis[-1])}, Valkey {minor(valkey[0])} to {minor(valkey[-1])}",
        f"on {WORDS[len(redis + valkey)]} versions", "1,000,000 random calls", f"on {WORDS[len(compared)]} of them", f"Redis {redis[0]}",
        "GIT_TAG main)", f"`./dev sim` makes {worlds} simulated runs",
        "before 1.0", "`LockOptions::turn = 0`", "Promise P4", "Apache-2.0",
    ]


def split(text):
    """The prose of the page, in which links are what is shown of them, and its fenced blocks."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    prose = re.sub(r"^```\w*\n.*?^```$", "", text, flags=re.M | re.S)
    prose = re.sub(r"<[^>]*>|^\[\w+\]: .*$", "", prose, flags=re.M)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    return re.sub(r"\s+", " ", re.sub(r"[\[\]*]|!\[", "", prose)), blocks


def figure_faults(prose, cmake):
    """Claims that the page does not make, or makes with other figures; and figures that are no claim's."""
    text = f"{prose} {cmake}"
    for claim in [*measured(), *stated()]:
        if claim not in text:
            yield f"this is not in the README, but should be: {claim}"
        prose = prose.replace(claim, " ")
    for match in re.finditer(r"[^ ]* [^ ]*\d[^ ]* ?[^ ]*", prose):
        yield f"nothing says where this figure comes from: {match[0]}"


def block_faults(blocks):
    """Blocks that no test runs: newcomer.sh takes them from the page by a text in each."""
    script = (ROOT / "tests/package/newcomer.sh").read_text()
    wanted = [(text, language or "") for text, language in re.findall(r"^block '([^']*)'(?: (\w+))?", script, re.M)]
    for language, block in blocks:
        if not any(text in block and language == its for text, its in wanted):
            yield f"tests/package/newcomer.sh runs no such block:\n{block}"


def main():
    prose, blocks = split(README.read_text())
    cmake = "".join(block for language, block in blocks if language == "cmake")
    faults = [*figure_faults(prose, cmake), *block_faults(blocks)]
    print("\n".join(f"README.md: {fault}" for fault in faults) or "README.md: its figures have sources, its blocks are run")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
