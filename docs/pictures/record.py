#!/usr/bin/env python3
"""Records a real run of redlatch-demo for the README.

record.py PROGRAM           runs it in a terminal of its own, and writes demo.cast and demo.svg
record.py --check PROGRAM   writes nothing; says if the demo now prints other lines than demo.cast has,
                            apart from numbers
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.dont_write_bytecode = True
import cast

CAST = pathlib.Path(__file__).resolve().parent / "demo.cast"
COLUMNS, ROWS = 54, 27
TITLE = ("A recording of ./dev demo. Five processes add 1 to a number under a lock. One is killed while it holds the "
         "lock, and another takes over when its lease expires. One is frozen; when it wakes up, redlatch tells it that "
         "it lost the lock, and its late write is rejected by its token. No addition is lost.")


def run(program):
    """The program's output as an asciicast. Fails if the program does."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    head = {"version": 2, "width": COLUMNS, "height": ROWS, "command": "./dev demo", "title": TITLE}
    lines, began = [json.dumps(head)], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="redlatch-", dir="/tmp") as home:
        environment = {**os.environ, "TERM": "xterm", "REDLATCH_EMBEDDED_DIRECTORY": f"{home}/server"}
        environment.pop("NO_COLOR", None)
        with subprocess.Popen([program, "embedded:?idle_stop=1s"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as demo:
            os.close(theirs)
            while True:
                if not select.select([ours], [], [], 60)[0]:
                    demo.kill()
                    sys.exit(f"{program} has printed nothing for a minute")
                try:
                    text = os.read(ours, 65536).decode()
                except OSError:  # the terminal's other end is closed
                    break
                lines.append(json.dumps([round(time.monotonic() - began, 3), "o", text]))
        if demo.returncode != 0:
            sys.exit(f"{program} failed:\n" + "\n".join(cast.text_of("\n".join(lines))))
        subprocess.run(["redis-cli", "-s", f"{home}/server/redis.sock", "SHUTDOWN", "NOSAVE"], check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return "\n".join(lines) + "\n"


def said(source):
    """What the demo says, without what differs from run to run: numbers, why a hold was lost, how long a
    lease still lasts, and which worker has the lock in the end."""
    text = re.sub(r"\n( {8}| {13})(?! )", " ", "\n".join(cast.text_of(source)))
    text = re.sub(r"redlatch-demo\.\w+", "redlatch-demo.NAME", text)
    text = re.sub(r"(that it lost the lock:|and before writing;|held the lock;) .*", r"\1", text)
    lines = {re.sub(r"\d+(\.\d+)?", "N", " ".join(line.split())) for line in text.splitlines()}
    return {line for line in lines if line and not line.startswith("lock:")}


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) != (3 if check else 2):
        sys.exit(__doc__)
    source = run(sys.argv[-1])
    if any(table.count("HOLDS THE LOCK") > 1 for table in source.split("lock: ")):
        sys.exit("two workers claim to hold the lock at the same moment")
    if not check:
        CAST.write_text(source)
        CAST.with_suffix(".svg").write_text(cast.draw(source))
        return
    differ = said(source) ^ said(CAST.read_text())
    if differ:
        sys.exit("the demo and its recording differ: run docs/pictures/record.py\n" + "\n".join(sorted(differ)))
    print("the demo says what its recording shows")


if __name__ == "__main__":
    main()
