#!/usr/bin/env python3
"""Checks which folder of src/ includes which.

Each line of ARROWS names a folder of src/ and those that it may include besides src/base and the
public headers. The demo includes nothing but those headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

WIRE, URL, TRANSPORT = "redis/wire", "redis/url", "redis/transport"
CONNECT, EMBEDDED = "redis/connect", "redis/embedded"
LINK, SERVER_GROUP = "redis/link", "redis/server_group"
QUORUM = "quorum"
STATE, LOCK = "lock/state", "lock"
TERM, INSPECT = "cli/term", "cli/inspect"
BELOW_TERM = [WIRE, URL, TRANSPORT, CONNECT, EMBEDDED, LINK, SERVER_GROUP, LOCK]

ARROWS = {
    "base": [],
    WIRE: [],
    TRANSPORT: [],
    URL: [TRANSPORT],
    EMBEDDED: [],
    CONNECT: [WIRE, URL, TRANSPORT, EMBEDDED],
    LINK: [WIRE, URL, TRANSPORT, CONNECT],
    SERVER_GROUP: [WIRE, URL, TRANSPORT, LINK],
    QUORUM: [WIRE, LINK, SERVER_GROUP, STATE, LOCK],
    STATE: [],
    LOCK: [WIRE, URL, LINK, SERVER_GROUP, STATE],
    "api": [WIRE, URL, SERVER_GROUP, STATE, LOCK, QUORUM],
    "demo": [],
    TERM: BELOW_TERM,
    INSPECT: [TERM, *BELOW_TERM],
    "cli/bench": [INSPECT, TERM, *BELOW_TERM],
    "cli/doctor": [INSPECT, TERM, *BELOW_TERM],
    "cli/run": [INSPECT, TERM, *BELOW_TERM],
    "cli": ["cli/bench", "cli/doctor", "cli/run", INSPECT, TERM],
}


def faults(path):
    folder = path.parent.relative_to(ROOT / "src").as_posix()
    lines = path.read_text().splitlines()
    if folder not in ARROWS:
        yield "is in a folder that .ci/house.py does not know"
        return
    for number, line in enumerate(lines, 1):
        included = re.match(r'#include "src/(.*)/[^/]*"', line)
        if not included or included[1] == folder or (included[1] == "base" and folder != "demo"):
            continue
        if included[1] not in ARROWS[folder]:
            yield f"line {number}: {folder} may not include {included[1]}"


def main():
    found = [f"{path.relative_to(ROOT)}: {fault}"
             for path in sorted((ROOT / "src").rglob("*.[ch]*")) for fault in faults(path)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
