"""The contenders of the comparison, and how each is built. A missing one is Absent, with the reason."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "peers"
OURS = ROOT / "build" / "release" / "benchmarks" / "peers"


class Absent(Exception):
    """A peer that is missing, and why."""


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    peer: str  # its peer, as --peer names it
    command: tuple
    does: frozenset  # which works: see works.py
    sends: tuple  # what it sends itself: a script's commands are counted by the server as well
    settings: str = "defaults"
    options: tuple = ()
    several: tuple = ()  # the command if there are several processes
    sends_alone: tuple = ()  # what it sends as well while no caller waits; with waiters, its scripts call these, too

    @property
    def ours(self):
        return self.peer == "redlatch"


MUTEX = frozenset("pair hot threads sleeper waiting".split())
RENEWED = MUTEX | {"held", "killed"}  # those that renew a held lock by themselves


def built(peer, command, **options):
    """Runs the commands that build a peer. Fails if the peer is missing."""
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900, check=False,
                              **options)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Absent(f"{peer}: {error}") from error
    if done.returncode != 0:
        raise Absent(f"{peer}: {' '.join(map(str, command[:2]))} failed: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout.split()


def wanted(peer, program):
    if not shutil.which(program):
        raise Absent(f"{peer}: there is no {program} on PATH")


def compiler():
    return os.environ.get("CXX", "c++")


# ---- Ours.

def redlatch():
    """First with default options; then with the options for the work."""
    program = (str(OURS / "contender"),)
    if not os.access(program[0], os.X_OK):
        sys.exit(f"{program[0]} is not there: ./dev compare builds it")
    sends = ("evalsha", "eval", "ping", "subscribe")
    everything = RENEWED | {"think", "reads", "semaphore", "reentry", "quorum"}
    alone = ("set", "delifeq", "delex")
    return [Contender("redlatch", "redlatch", program, everything, sends, sends_alone=alone),
            Contender("redlatch, strict order", "redlatch", program, frozenset({"hot", "think", "quorum"}), sends,
                      "LockOptions::turn = 0", ("--turn-us=0",)),
            Contender("redlatch, keep", "redlatch", program, frozenset({"pair", "reads"}), sends,
                      "LockOptions::cache_for = 5 s", ("--cache-ms=5000",), sends_alone=alone)]


# ---- Peers.

def raw():
    program = BUILD / "raw"
    built("raw", [compiler(), "-O2", "-std=c++17", HERE / "raw.cc", "-o", program, "-lhiredis", "-pthread"])
    sends = ("set", "evalsha", "subscribe")
    return [Contender("raw hiredis, tries each 1 ms", "raw", (str(program),), MUTEX | {"think"}, sends, "by hand"),
            Contender("raw hiredis, publish and retry", "raw", (str(program),),
                      frozenset({"hot", "think", "sleeper", "threads", "waiting"}), sends, "by hand",
                      ("--wait=broadcast",))]


def go_program(name):
    wanted(name, "go")
    program = BUILD / name
    built(name, ["go", "build", "-buildvcs=false", "-o", program, "."], cwd=HERE / "go" / name)
    return (str(program),)


def go_version(name, module):
    return re.search(rf"{module} v(\S+)", (HERE / "go" / name / "go.mod").read_text())[1]


def redsync():
    program, version = go_program("redsync"), go_version("redsync", "redsync/v4")
    sends = ("set", "evalsha", "eval")
    name = f"redsync {version}"
    return [Contender(name, "redsync", program, MUTEX | {"quorum"}, sends,
                      "defaults: 32 tries, 50 to 250 ms apart"),
            Contender(f"{name}, tries each 2 ms", "redsync", program, frozenset({"hot", "quorum"}), sends,
                      "a random delay of 0 to 2 ms, WithFailFast",
                      ("--retry-delay-us=1000", "--jitter=1", "--fail-fast=1"))]


def rueidislock():
    program = go_program("rueidislock")
    return [Contender(f"rueidislock {go_version('rueidislock', 'redis/rueidis')}", "rueidislock", program, RENEWED,
                      ("set", "evalsha", "eval", "get", "del", "client", "client|tracking"),
                      "KeyMajority 1, NoLoopTracking, TryNextAfter 1 s")]


def redis_py():
    environment = BUILD / "python"
    requirements = HERE / "python" / "requirements.txt"
    if not (environment / "bin" / "python").exists():
        built("redis-py", [sys.executable, "-m", "venv", environment])
    built("redis-py", [environment / "bin" / "python", "-m", "pip", "install", "-q", "-r", requirements])
    version = re.search(r"redis==(\S+)", requirements.read_text())[1]
    return [Contender(f"redis-py {version} Lock", "redis-py",
                      (str(environment / "bin" / "python"), str(HERE / "python" / "redis_py.py")), MUTEX,
                      ("set", "evalsha", "eval"), "defaults: tries each 0.1 s")]


def redlock():
    wanted("redlock", "node")
    wanted("redlock", "npm")
    directory = BUILD / "node"
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "redlock.js"):
        shutil.copy(HERE / "node" / name, directory / name)
    built("redlock", ["npm", "ci", "--no-audit", "--no-fund"], cwd=directory)
    version = re.search(r'"redlock": "([^"]+)"', (directory / "package.json").read_text())[1]
    return [Contender(f"redlock {version} (npm)", "redlock", ("node", str(directory / "redlock.js")),
                      MUTEX | {"quorum"}, ("eval", "evalsha", "set"),
                      "defaults: 10 tries, 200 to 300 ms apart")]


def redisson():
    wanted("redisson", "mvn")
    wanted("redisson", "javac")
    jars, classes = BUILD / "java" / "jars", BUILD / "java" / "classes"
    built("redisson", ["mvn", "-q", "-B", "-f", HERE / "java" / "pom.xml", "dependency:copy-dependencies",
                       f"-DoutputDirectory={jars}", "-DincludeScope=runtime"])
    built("redisson", ["javac", "-cp", f"{jars}/*", "-d", classes, HERE / "java" / "Contender.java"])
    version = re.search(r"redisson</artifactId>\s*<version>([^<]+)", (HERE / "java" / "pom.xml").read_text())[1]
    # Many processes share few processors: a garbage collector with its own threads would not help, and the second
    # compiler would still be busy during the measurement.
    small = ("-XX:+UseSerialGC", "-Xmx256m", "-cp", f"{classes}:{jars}/*", "Contender")
    program, several = ("java", *small), ("java", "-XX:TieredStopAtLevel=1", *small)
    sends = ("eval", "evalsha", "subscribe", "unsubscribe", "ping")
    settings = "defaults; C1 alone where several JVMs share the processors, as that is faster there"
    return [Contender(f"Redisson {version}", "redisson", program, RENEWED | {"reads", "semaphore", "reentry"}, sends,
                      settings, several=several),
            Contender(f"Redisson {version} RFairLock", "redisson", program, frozenset({"hot"}), sends, "RFairLock",
                      ("--kind=fair",), several)]


def redis_plus_plus():
    name = "redis-plus-plus"
    if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "redis++"], check=False).returncode:
        raise Absent(f"{name}: pkg-config finds no redis++. If it is installed under a prefix of its own, set "
                     "PKG_CONFIG_PATH to the prefix's lib/pkgconfig")
    program = BUILD / "redis_plus_plus"
    flags = built(name, ["pkg-config", "--cflags", "--libs", "redis++"])
    built(name, [compiler(), "-O2", "-std=c++17", HERE / "redis_plus_plus.cc", "-o", program, *flags, "-pthread"])
    version = built(name, ["pkg-config", "--modversion", "redis++"])[0]
    return [Contender(f"{name} {version} RedMutex", name, (str(program),), RENEWED | {"think", "quorum"},
                      ("set", "eval", "evalsha"), "RedMutex: a lease of 3 s, sleeps of up to 5 ms")]


PEERS = {"raw": raw, "redisson": redisson, "redsync": redsync, "rueidislock": rueidislock, "redis-py": redis_py,
         "redlock": redlock, "redis-plus-plus": redis_plus_plus}
