#!/usr/bin/env python3
"""coverage.py BUILD EXPLAINED: how many lines of the library ran, and which of the lock state never did.

Reads what a build with --coverage has counted. A line of src/lock/state that never ran must stand in
EXPLAINED as "<file>: <text of the line> -- <reason>". Exits with 1 if one does not.
"""
import collections
import json
import pathlib
import subprocess
import sys

ROOMS = ("src/lock/state", "src/lock", "src/quorum",
         "src/redis/link", "src/redis/server_group", "src/redis/connect", "src/api")
MUST_RUN = "src/lock/state"


def counts(build, root):
    """{file: {line: how often it ran}} of the files of the rooms."""
    ran = collections.defaultdict(lambda: collections.defaultdict(int))
    for notes in sorted(build.rglob("*.gcda")):
        out = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], cwd=notes.parent,
                             capture_output=True, check=True).stdout
        for text in out.splitlines():
            for file in json.loads(text)["files"]:
                path = (notes.parent / file["file"]).resolve()
                if not path.is_relative_to(root):
                    continue
                name = str(path.relative_to(root))
                if name.startswith(ROOMS):
                    for line in file["lines"]:
                        ran[name][line["line_number"]] += line["count"]
    return ran


def main():
    build, explained_in = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    root = pathlib.Path(__file__).resolve().parent.parent
    with open(explained_in, encoding="utf-8") as file:
        explained = {line.rsplit(" -- ", 1)[0] for line in file if " -- " in line}
    ran = counts(build, root)
    if not ran:
        sys.exit("coverage.py: nothing was counted")
    good = True
    for room in ROOMS:
        lines = [(name, line, count) for name, its in ran.items() if name.startswith(room)
                 for line, count in its.items()]
        hit = sum(count > 0 for _, _, count in lines)
        print(f"{room:24} {hit:6} of {len(lines):6} lines ran: {100 * hit / max(1, len(lines)):.1f} %")
    for name, its in sorted(ran.items()):
        text = (root / name).read_text(encoding="utf-8").splitlines()
        for line, count in sorted(its.items()):
            what = f"{name}: {text[line - 1].strip()}"
            if name.startswith(MUST_RUN) and count == 0 and what not in explained:
                print(f"never ran: {what}")
                good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
