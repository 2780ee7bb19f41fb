"""The works of the comparison, and what is measured of each."""

import dataclasses


LEASE_MS = 3000  # of a holder that is killed


@dataclasses.dataclass(frozen=True)
class Work:
    name: str
    does: str  # what a contender must be able to do: Contender.does
    title: str
    metric: str  # the one that ranks them
    less: bool = False  # the least is best
    mode: str = "contend"  # see contender.h; "waiting", "killed" and "held" combine several
    kind: str = "mutex"
    processes: int = 1
    threads: int = 1
    servers: int = 1
    delay_us: int = 0
    options: tuple = ()
    warm: float = 1.0  # multiplies the time of a race


def works():
    yield from (
        Work(f"pair-{n}", "pair", "Lock and unlock, uncontended" if n == 1 else
             f"{n} threads of one process, a lock each", "p50_us" if n == 1 else "per_second", less=n == 1, mode="pair",
             threads=n) for n in (1, 16, 64))
    yield Work("reentry", "reentry", "Taking again what the thread has", "p50_us", less=True, mode="pair",
               options=("--reentry=1",))
    yield from (Work(f"hot-{n}", "hot", f"One lock, {n} processes", "per_second", processes=n) for n in (2, 4, 8, 16))
    yield Work("hot-16-1ms", "hot", "One lock, 16 processes, held for 1 ms", "per_second", processes=16,
               options=("--section-us=1000",))
    yield from (Work(f"think-8-{name}", "think", f"One lock, 8 processes, each {does} between two acquisitions", "per_second",
                     processes=8, options=options)
                for name, does, options in (("10us", "10 µs busy", ("--think-us=10",)),
                                            ("100us", "100 µs asleep", ("--think-us=100",)),
                                            ("1ms", "1 ms asleep", ("--think-us=1000",)),
                                            ("20us-30us", "20 µs busy with it, and 30 µs",
                                             ("--section-us=20", "--think-us=30"))))
    yield Work("threads-16", "threads", "One lock, 16 threads of one process", "per_second", threads=16)
    yield Work("sleeper", "sleeper", "From a release to a process that has slept for 20 ms", "p50_us", less=True,
               processes=2, options=("--section-us=20000", "--turns=1"), warm=3)
    yield from (Work(f"reads-{n}", "reads", f"Read-write lock, {n} % reads, 4 processes of 4 threads", "per_second",
                     kind="read_write", processes=4, threads=4, options=(f"--reads={n}",)) for n in (99, 90))
    yield Work("reads-99-1", "reads", "Read-write lock, 99 % reads, 4 processes of 1 thread", "per_second",
               kind="read_write", processes=4, options=("--reads=99",))
    yield Work("semaphore", "semaphore", "Semaphore of 4 permits, 8 processes", "per_second", kind="semaphore",
               processes=8)
    yield Work("waiting", "waiting", "1,000 waiters: commands per second", "commands_per_s", less=True, mode="waiting",
               processes=4, threads=250)
    yield Work("held", "held", "10,000 locks held: processor time of the holder, in ms per second", "client_ms_per_s",
               less=True, mode="held", options=("--locks=10000",))
    yield Work("killed", "killed", "Lease of 3 s, renewed; kill -9 of the holder: from the lease's end to the next acquisition",
               "late_ms", less=True, mode="killed", options=(f"--lease-ms={LEASE_MS}",))
    for delay_us, what in ((200, "0.2 ms"), (2000, "2 ms")):
        yield Work(f"pair-1-{delay_us}us", "pair", f"Lock and unlock, {what} each way", "p50_us", less=True,
                   mode="pair", delay_us=delay_us)
        yield Work(f"hot-8-{delay_us}us", "hot", f"One lock, 8 processes, {what} each way", "per_second", processes=8,
                   delay_us=delay_us)
        yield Work(f"sleeper-{delay_us}us", "sleeper",
                   f"From a release to a process that has slept for 20 ms, {what} each way", "p50_us", less=True,
                   processes=2, options=("--section-us=20000", "--turns=1"), delay_us=delay_us, warm=3)
    yield Work("quorum-8", "quorum", "RedLock on 5 servers, 8 processes", "per_second", kind="quorum", processes=8,
               servers=5, warm=3)


WORKS = tuple(works())
QUICK = ("pair-1", "pair-64", "hot-8", "hot-16", "threads-16", "sleeper", "reads-99")
