#!/usr/bin/env python3
"""Holds src/ to the plan of the house: which folder may include which, and how long a file may be.

Each line of ARROWS names a folder of src/ and those that it may include besides src/base and the
public headers. What a folder that stands further up may not do either, nobody below it does.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST_LINES = 300
# To be cut; none is to grow, or to come.
LONGER = {"src/cli/run/keeper.cc": 334}

WIRE, URL, TRANSPORT = "redis/wire", "redis/url", "redis/transport"
CONNECT, EMBEDDED = "redis/connect", "redis/embedded"
LINK, DEPLOYMENT = "redis/link", "redis/deployment"
MACHINE, PROTOCOL = "engine/machine", "engine/protocol"
RUNTIME, SHARED = "engine/runtime", "engine/shared"
TERM, LOOK = "cli/term", "cli/look"
BELOW_TERM = [WIRE, URL, TRANSPORT, CONNECT, EMBEDDED, LINK, PROTOCOL]

ARROWS = {
    "base": [],
    WIRE: [],
    URL: [],
    TRANSPORT: [],
    EMBEDDED: [],
    CONNECT: [WIRE, URL, TRANSPORT, EMBEDDED],
    LINK: [WIRE, URL, TRANSPORT, CONNECT],
    DEPLOYMENT: [WIRE, URL, LINK],
    MACHINE: [],
    PROTOCOL: [WIRE, LINK, DEPLOYMENT, MACHINE],
    RUNTIME: [WIRE, URL, LINK, DEPLOYMENT, MACHINE, PROTOCOL],
    SHARED: [MACHINE, PROTOCOL, RUNTIME],
    "api": [WIRE, URL, DEPLOYMENT, MACHINE, PROTOCOL, RUNTIME, SHARED],
    "demo": [],
    TERM: BELOW_TERM,
    LOOK: [TERM, *BELOW_TERM],
    "cli/bench": [LOOK, TERM, *BELOW_TERM],
    "cli/doctor": [LOOK, TERM, *BELOW_TERM],
    "cli/run": [LOOK, TERM, *BELOW_TERM],
    "cli": ["cli/bench", "cli/doctor", "cli/run", LOOK, TERM],
}


def faults(path):
    folder = path.parent.relative_to(ROOT / "src").as_posix()
    lines = path.read_text().splitlines()
    if folder not in ARROWS:
        yield "is in a folder that .ci/house.py does not know"
        return
    for number, line in enumerate(lines, 1):
        included = re.match(r'#include "src/(.*)/[^/]*"', line)
        if not included or included[1] in (folder, "base"):
            continue
        if included[1] not in ARROWS[folder] or folder == "demo":
            yield f"line {number}: {folder} may not include {included[1]}"
    most = LONGER.get(path.relative_to(ROOT).as_posix(), MOST_LINES)
    if len(lines) > most:
        yield f"has {len(lines)} lines; {most} is the most"


def main():
    found = [f"{path.relative_to(ROOT)}: {fault}"
             for path in sorted((ROOT / "src").rglob("*.[ch]*")) for fault in faults(path)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
