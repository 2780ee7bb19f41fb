"""Who takes part in a race, and how each is built. A peer that cannot be had is Absent, and says why."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build" / "peers"
TURN_MS = 5
DELAYS = (500, 1000, 2000, 5000, 10000, 20000, 50000)  # microseconds between a peer's tries


class Absent(Exception):
    """A peer that cannot be had, and why."""


@dataclasses.dataclass
class Contender:
    name: str
    program: pathlib.Path
    options: tuple = ()
    tunings: tuple = ()  # options of which the best is to be found


def built(peer, command, **options):
    """Runs what builds a peer. It fails where the peer cannot be had."""
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{peer}: {error}") from error
    if done.returncode != 0:
        raise Absent(f"{peer}: {' '.join(command[:2])} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout.split()


def redlatch(path):
    """Ours, first as it is to be used where a lock is hot: with turns. Then in strict order, the default."""
    if not os.access(path, os.X_OK):
        sys.exit(f"{path} is not there: ./dev bench --peers builds it")
    program = pathlib.Path(path).resolve()
    return [Contender(f"redlatch RedLock, turn {TURN_MS} ms", program, options=(f"--turn-ms={TURN_MS}",)),
            Contender("redlatch RedLock, strict order", program)]


def redsync():
    if not shutil.which("go"):
        raise Absent("redsync: there is no go on PATH")
    program = BUILD / "redsync"
    built("redsync", ["go", "build", "-buildvcs=false", "-o", str(program), "."], cwd=HERE / "redsync")
    version = re.search(r"redsync/v4 v(\S+)", (HERE / "redsync" / "go.mod").read_text())[1]
    tunings = tuple((f"--retry-delay-us={delay}", *more) for delay in DELAYS
                    for more in ((), ("--jitter",), ("--jitter", "--fail-fast")))
    return Contender(f"redsync {version}", program, tunings=tunings)


def redis_plus_plus():
    name = "redis-plus-plus"
    if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "redis++"], check=False).returncode:
        raise Absent(f"{name}: pkg-config finds no redis++. If it is installed under a prefix of its own, set "
                     "PKG_CONFIG_PATH to the prefix's lib/pkgconfig")
    program = BUILD / "redis_plus_plus"
    flags = built(name, ["pkg-config", "--cflags", "--libs", "redis++"])
    built(name, [os.environ.get("CXX", "c++"), "-O2", "-std=c++17", str(HERE / "redis_plus_plus.cc"), "-o",
                 str(program), *flags, "-pthread"])
    version = built(name, ["pkg-config", "--modversion", "redis++"])[0]
    return Contender(f"{name} {version}", program, tunings=tuple((f"--retry-delay-us={delay}",) for delay in DELAYS))


PEERS = (redsync, redis_plus_plus)
