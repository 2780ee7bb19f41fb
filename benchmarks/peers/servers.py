"""redis-servers for a race, and processes that end with the one that started them."""

import contextlib
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

TIMEOUT = 30  # seconds that a server may take to start, or to answer
PR_SET_PDEATHSIG = 1


# ---- Processes, each of which ends with this one, however that ends.

def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(stack, command, **options):
    process = subprocess.Popen(command, preexec_fn=die_with_parent, **options)
    stack.callback(end, process)
    return process


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with contextlib.suppress(OSError):  # of unread input
                pipe.close()


# ---- Servers.

def server_program():
    for name in (os.environ.get("REDLATCH_REDIS_SERVER"), "redis-server", "valkey-server"):
        if name and shutil.which(name):
            return shutil.which(name)
    sys.exit("neither redis-server nor valkey-server is on PATH. Debian: apt-get install redis-server")


class Server:
    """A redis-server on its own port, without persistence."""

    def __init__(self, stack, directory):
        for _ in range(20):
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
            self.process = start(
                stack, [server_program(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", directory,
                        "--save", "", "--appendonly", "no"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            if self.answers():
                return
            end(self.process)  # another process has taken the port meanwhile
        sys.exit("no redis-server would start")

    def answers(self):
        """Returns true if this server, and no other, listens on the port."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError):
                found = re.search(r"process_id:(\d+)", self.ask("INFO server"))
                return bool(found) and int(found[1]) == self.process.pid
            time.sleep(0.005)
        return False

    def ask(self, command):
        with socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT) as connection, \
                connection.makefile("rb") as answers:
            connection.sendall(command.encode() + b"\r\n")
            line = answers.readline().decode().strip()
            return answers.read(int(line[1:])).decode() if line.startswith("$") else line

    def flush(self):
        for command in ("FLUSHALL SYNC", "SCRIPT FLUSH SYNC"):
            if (answer := self.ask(command)) != "+OK":
                sys.exit(f"a server answered {command} by {answer}")

    def leases(self, most_ms):
        """The keys that live for at most that long, and for how long they still live, in ms."""
        script = ("local all = {} for _, key in ipairs(redis.call('KEYS', '*')) do "
                  "table.insert(all, key .. ' ' .. redis.call('PTTL', key)) end return table.concat(all, ',')")
        each = self.ask(f'EVAL "{script}" 0')
        found = dict(line.rsplit(" ", 1) for line in each.split(",") if line)
        return {key: int(left_ms) for key, left_ms in found.items() if 0 < int(left_ms) <= most_ms}

    def url(self):
        return f"redis://127.0.0.1:{self.port}"
