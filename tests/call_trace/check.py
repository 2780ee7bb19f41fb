#!/usr/bin/env python3
"""check.py PROGRAM: which functions of ours an uncontended lock() enters, from the call to the bytes and back.

PROGRAM is lock_and_unlock.cc with a library whose functions say that they are entered, after the compiler
has inlined what it inlines. Fails if lock() takes more functions or files than docs/how-it-works.md says.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MOST_FUNCTIONS, MOST_FILES = 35, 12


def main():
    program = sys.argv[1]
    lines = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    counts = {}
    for call in ("lock", "unlock"):
        addresses = [line.split()[1] for line in lines if line.startswith(call + " ")]
        found = subprocess.run(["addr2line", "-f", "-C", "-e", program], input="\n".join(addresses),
                               capture_output=True, text=True, check=True).stdout.splitlines()
        functions, files = [], []
        for name, where in zip(found[::2], found[1::2]):
            path = pathlib.Path(where.split(":")[0])
            if not path.is_relative_to(ROOT) or not re.match(r"(src|include)/", str(path.relative_to(ROOT))):
                continue
            file = str(path.relative_to(ROOT))
            functions.append((file, re.sub(r"\(.*", "", name)))
            if file not in files:
                files.append(file)
        print(f"{call}(): {len(functions)} functions in {len(files)} files")
        for file, name in functions:
            print(f"  {file:42} {name}")
        counts[call] = len(functions), len(files)
    functions, files = counts["lock"]
    if functions == 0 or functions > MOST_FUNCTIONS or files > MOST_FILES:
        sys.exit(f"lock() enters {functions} functions in {files} files; at most {MOST_FUNCTIONS} in {MOST_FILES}")


if __name__ == "__main__":
    main()
