"""redis-py's Lock in the comparison, with its defaults: it tries again each 0.1 s. See ../contender.h."""

import json
import mmap
import struct
import sys
import threading
import time

import redis

MOST_SAMPLES = 4000


class Contender:
    def __init__(self, words):
        self.options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        self.client = redis.Redis.from_url(next(word for word in words if not word.startswith("--")))
        self.client.ping()
        with open(self.options["shared"], "r+b") as file:
            self.shared = mmap.mmap(file.fileno(), 4096)
        self.me = self.number("index", 0) + 1

    def number(self, name, fallback):
        return int(self.options.get(name, fallback))

    def lock(self, name):
        return self.client.lock(name, timeout=self.number("lease-ms", 30000) / 1000)

    def pairs(self, lock, end, tally):
        begun = time.monotonic()
        place = 0
        while begun < end:
            if lock.acquire():
                lock.release()
                tally["count"] += 1
            else:
                tally["failed"] += 1
            now = time.monotonic()
            if len(tally["samples"]) < MOST_SAMPLES:
                tally["samples"].append((now - begun) * 1e6)
            else:
                tally["samples"][place] = (now - begun) * 1e6
                place = (place + 1) % MOST_SAMPLES
            begun = now

    def contend(self, lock, end, tally):
        section = self.number("section-us", 0) / 1e6
        turns = self.number("turns", 0)
        running = True
        while running:
            asked = time.monotonic()
            held = lock.acquire()
            while not held and time.monotonic() < end:
                tally["failed"] += 1
                held = lock.acquire()
            if not held:
                break
            now = time.monotonic()
            released_at, released_by = struct.unpack_from("qi", self.shared, 8)
            if released_by not in (0, self.me) and len(tally["samples"]) < MOST_SAMPLES:
                tally["samples"].append((time.monotonic_ns() - released_at) / 1e3)
            tally["longest"] = max(tally["longest"], min(now, end) - asked)
            running = now < end
            tally["count"] += running
            if struct.unpack_from("i", self.shared)[0]:
                tally["overlaps"] += 1
            struct.pack_into("i", self.shared, 0, 1)
            if section:
                time.sleep(section)
            struct.pack_into("i", self.shared, 0, 0)
            struct.pack_into("qi", self.shared, 8, time.monotonic_ns(), self.me)
            try:
                lock.release()
            except redis.exceptions.LockError:
                tally["failed"] += 1
            while turns and not struct.unpack_from("i", self.shared)[0] and time.monotonic() < end:
                time.sleep(0.001)

    def run(self):
        work = self.options["work"]
        own = work == "pair"
        if work == "hold":
            count = self.number("locks", 1)
            for i in range(count):
                self.lock("contended" if count == 1 else f"held:{i}").acquire()
        threads = self.number("threads", 1)
        locks = [self.lock(f"own:{i}:{self.me}") for i in range(threads)]
        for lock in locks:  # what the first use costs is no part of it
            lock.acquire()
            lock.release()
        if not own:
            locks = [self.lock("contended") for _ in locks]
        print("ready", flush=True)
        sys.stdin.readline()
        cpu = time.process_time()
        tallies = [{"count": 0, "failed": 0, "overlaps": 0, "longest": 0, "samples": []} for _ in locks]
        if work != "hold":
            end = time.monotonic() + float(self.options["seconds"])
            running = [threading.Thread(target=self.pairs if own else self.contend, args=(lock, end, tally))
                       for lock, tally in zip(locks, tallies)]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()
        each = max(1, MOST_SAMPLES // threads)
        print(json.dumps({
            "counts": [tally["count"] for tally in tallies],
            "failed": sum(tally["failed"] for tally in tallies),
            "overlaps": sum(tally["overlaps"] for tally in tallies),
            "longest_wait_ms": max(tally["longest"] for tally in tallies) * 1e3,
            "cpu_s": time.process_time() - cpu,
            "samples_us": [round(sample, 1) for tally in tallies for sample in tally["samples"][:each]]}))


if __name__ == "__main__":
    Contender(sys.argv[1:]).run()
