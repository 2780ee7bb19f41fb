#!/usr/bin/env python3
"""The comparison of benchmarks/peers: its contenders do what contender.h says, a lock that does not
exclude is noticed, and the results are written unchanged.

redlatch and the hand-written locks take part; REDLATCH_PEERS="redsync redisson" adds peers, which are built first.
$REDLATCH_CONTENDERS is the folder of their programs.
"""

import contextlib
import copy
import dataclasses
import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "benchmarks" / "peers"), str(ROOT / "benchmarks")]
import check
import contenders
import report
import run
from servers import Server
from works import Work

WORKS = {work.name: work for work in run.WORKS}
SECONDS = 0.3

# A contender as in contender.h, with a lock that admits every caller.
NO_LOCK = """#!/usr/bin/env python3
import json, mmap, sys, time
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if word.startswith("--"))
with open(options["shared"], "r+b") as file:
    shared = mmap.mmap(file.fileno(), 4096)
print("ready", flush=True)
sys.stdin.readline()
count, overlaps, end = 0, 0, time.monotonic() + float(options["seconds"])
while time.monotonic() < end:
    overlaps += shared[0] != 0
    shared[0] = 1
    time.sleep(0.001)
    shared[0] = 0
    count += 1
print(json.dumps({"counts": [count], "failed": 0, "overlaps": overlaps, "longest_wait_ms": 0, "cpu_s": 0,
                  "samples_us": []}))
"""


def program(directory, name, text):
    path = pathlib.Path(directory, name)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def made_up(name, command):
    return contenders.Contender(name, name, (command,), frozenset({"pair", "hot"}), ("set",))


class ComparisonTest(unittest.TestCase):
    """Starts servers and contenders."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.directory = cls.stack.enter_context(tempfile.TemporaryDirectory())
        cls.servers = [Server(cls.stack, cls.directory) for _ in range(5)]

    def race(self, contender, work, seconds=SECONDS):
        return run.run(contender, work, self.servers, self.directory, seconds)


class ContendersTest(ComparisonTest):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        wished = os.environ.get("REDLATCH_PEERS", "").split()
        found, missing = run.gather(["raw", *wished])
        if missing:
            raise AssertionError("; ".join(missing))
        cls.contenders = found

    def able(self, *works):
        for work in works:
            for contender in self.contenders:
                if work.does in contender.does:
                    yield contender, work

    def test_each_acquires_repeatedly(self):
        for contender, work in self.able(WORKS["pair-1"], WORKS["pair-16"]):
            with self.subTest(contender=contender.name, work=work.name):
                outcome = self.race(contender, work)
                self.assertGreater(outcome["per_second"], 100)
                self.assertEqual(outcome["overlaps"] + outcome["failed"], 0)
                self.assertGreater(outcome["p50_us"], 0)
                self.assertGreaterEqual(outcome["p99_us"], outcome["p50_us"])

    def test_each_shares_a_lock_between_processes(self):
        for contender, work in self.able(WORKS["hot-4"], WORKS["hot-16-1ms"]):
            with self.subTest(contender=contender.name, work=work.name):
                outcome = self.race(contender, work)
                self.assertGreater(outcome["per_second"], 10)
                self.assertEqual(outcome["overlaps"], 0)
                self.assertGreater(outcome["commands"] + outcome["client_us"], 0)

    def test_each_kind_of_lock_is_shared(self):
        for contender, work in self.able(WORKS["reads-90"], WORKS["semaphore"], WORKS["quorum-8"], WORKS["threads-16"],
                                         WORKS["sleeper"], WORKS["hot-8-200us"]):
            with self.subTest(contender=contender.name, work=work.name):
                outcome = self.race(contender, work)
                self.assertGreater(outcome["per_second"], 1)
                self.assertEqual(outcome["overlaps"], 0)

    def test_reentry_needs_no_server(self):
        for contender, work in self.able(WORKS["reentry"]):
            with self.subTest(contender=contender.name, work=work.name):
                if contender.ours:
                    self.assertLess(self.race(contender, work)["commands"], 0.01)

    def test_wait_ends_with_the_race(self):
        for contender, work in self.able(WORKS["hot-16-1ms"]):
            with self.subTest(contender=contender.name, work=work.name):
                self.assertLessEqual(self.race(contender, work)["longest_wait_ms"], 1000 * SECONDS)

    def test_each_notices_another_holder(self):
        """It must notice another holder: one is inside from the start."""
        alone = dataclasses.replace(WORKS["hot-2"], processes=1)
        for contender, work in self.able(alone):
            with self.subTest(contender=contender.name, work=work.name):
                with contextlib.ExitStack() as stack:
                    race = run.Race(stack, contender, work, self.servers[:1], self.directory)
                    race.shared.write_bytes(bytes([1]) + bytes(4095))
                    racers = race.launch(1, SECONDS, "contend")
                    race.go(racers)
                    self.assertGreaterEqual(race.collect(racers)[0]["overlaps"], 1)

    def test_commands_of_clients_are_counted(self):
        """Calls by scripts, which the server counts under the same names, are left out."""
        for contender, work in self.able(WORKS["pair-1"]):
            with self.subTest(contender=contender.name, work=work.name):
                if contender.name in ("redlatch", "raw hiredis, tries each 1 ms"):
                    self.assertAlmostEqual(self.race(contender, work)["commands"], 2, delta=0.1)

    def test_contended_acquisition_costs_two_commands(self):
        ours = next(it for it in self.contenders if it.name == "redlatch, strict order")
        self.assertLess(self.race(ours, WORKS["hot-8"], 1)["commands"], 2.3)

    def test_delay_applies_both_ways(self):
        for contender, work in self.able(WORKS["pair-1-2000us"]):
            with self.subTest(contender=contender.name, work=work.name):
                if contender.peer == "raw":
                    self.assertGreater(self.race(contender, work)["p50_us"], 8000)


class RacesTest(ComparisonTest):

    def test_lock_that_does_not_exclude_is_noticed(self):
        no_lock = made_up("none", program(self.directory, "no_lock", NO_LOCK))
        self.assertGreater(self.race(no_lock, WORKS["hot-4"])["overlaps"], 0)

    def test_failed_contender_is_named_and_others_continue(self):
        fails = made_up("fails", program(self.directory, "fails", "#!/bin/sh\necho ready\nread line\necho no luck >&2\n"))
        never = made_up("never", program(self.directory, "never", "#!/bin/sh\necho not at all >&2\nexit 3\n"))
        no_lock = made_up("none", program(self.directory, "alone", NO_LOCK))
        works = [WORKS["pair-1"], WORKS["hot-2"]]
        options = types.SimpleNamespace(rounds=2, seconds=0.05)
        results, failures = run.measure([fails, no_lock, never], works, options)
        for work in works:
            self.assertEqual({name: len(rounds) for name, rounds in results[work.name].items()},
                             {"fails": 0, "none": 2, "never": 0})
        self.assertEqual(len(failures), 8)
        self.assertTrue(any("fails, pair-1: a process failed" in it and "no luck" in it for it in failures), failures)
        self.assertTrue(any("never, hot-2: a process did not get ready" in it and "not at all" in it for it in failures))

    def test_hung_contender_is_ended(self):
        hangs = made_up("hangs", program(self.directory, "hangs", "#!/bin/sh\necho ready\nread line\nexec sleep 60\n"))
        with mock.patch.object(run, "TIMEOUT", 0.5), self.assertRaisesRegex(run.RaceFailed, "hangs, hot-2: .*failed"):
            self.race(hangs, WORKS["hot-2"], 0.05)

    def test_contenders_take_turns(self):
        order = []
        all_three = [made_up(name, "") for name in "abc"]
        with mock.patch.object(run, "run", lambda it, *_: order.append(it.name) or {"overlaps": 0}):
            run.measure(all_three, [WORKS["pair-1"]], types.SimpleNamespace(rounds=3, seconds=1))
        self.assertEqual("".join(order), "abcbcacab")

    def test_missing_peer_is_named(self):
        def absent():
            raise contenders.Absent("peer: there is no compiler")
        with mock.patch.dict(run.PEERS, {"peer": absent}):
            found, missing = run.gather(["peer"])
        self.assertEqual(missing, ["peer: there is no compiler"])
        self.assertTrue(all(it.ours for it in found))

    def test_other_build_takes_part_with_the_same_options(self):
        found, _ = run.gather([], [pathlib.Path("/builds/without-spin")])
        half = len(found) // 2
        self.assertEqual([it.name for it in found[half:]], [f"{it.name}, without-spin" for it in found[:half]])
        self.assertEqual([(it.options, it.does) for it in found[half:]], [(it.options, it.does) for it in found[:half]])
        self.assertEqual({it.command for it in found[half:]}, {("/builds/without-spin",)})

    def test_names_are_selected(self):
        names = ["hot-2", "hot-16", "pair-1"]
        self.assertEqual(run.chosen(names, None), names)
        self.assertEqual(run.chosen(names, ["hot-"]), ["hot-2", "hot-16"])
        self.assertEqual(run.chosen(names, ["pair-1"]), ["pair-1"])
        with self.assertRaisesRegex(SystemExit, "hot is none of"):
            run.chosen(names, ["hot"])


class ReportTest(unittest.TestCase):

    def setUp(self):
        self.whole = json.loads(run.RESULTS.read_text())
        self.more, self.less = WORKS["hot-16"], WORKS["pair-1"]

    def results(self, work, **values):
        self.whole["results"] = {work.name: {name.replace("_", " "): [{work.metric: value, "overlaps": 0} for value in rounds]
                                             for name, rounds in values.items()}}
        return self.whole

    def test_median_of_rounds_counts(self):
        self.assertEqual(report.against(self.results(self.more, redlatch=[1, 30, 20], peer=[10, 10, 10]), self.more), 2)

    def test_less_is_better_for_some_metrics(self):
        self.assertEqual(report.against(self.results(self.less, redlatch=[20], peer=[10], other=[40]), self.less), 0.5)

    def test_variant_does_not_stand_for_default(self):
        whole = self.results(self.more, redlatch=[5], redlatch_turn=[100], peer=[10])
        self.assertEqual(report.against(whole, self.more), 0.5)

    def test_unmeasured_works_are_left_out(self):
        self.assertIsNone(report.against(self.results(self.more, redlatch=[], peer=[10]), self.more))
        self.assertIsNone(report.against(self.results(self.more, redlatch=[10]), self.more))
        self.assertNotIn(f"| {self.more.title} |", report.document(self.results(self.more, redlatch=[10])))

    def test_lost_row_stays_and_is_marked(self):
        text = report.document(self.results(self.more, redlatch=[5], peer=[10]))
        self.assertIn(f"| {self.more.title} | **behind**: 0.50 × | peer |", text)
        text = report.document(self.results(self.more, redlatch=[20], peer=[10]))
        self.assertIn(f"| {self.more.title} | 2.00 × | peer |", text)

    def test_overlaps_are_named(self):
        whole = self.results(self.more, redlatch=[5], peer=[10])
        self.assertIn("No two holds overlapped.", report.document(whole))
        whole["results"][self.more.name]["peer"][0]["overlaps"] = 3
        self.assertIn("Overlaps: peer 3 times.", report.document(whole))

    def test_failed_and_absent_contenders_are_named(self):
        whole = dict(self.whole, missing=["one: no compiler"], failures=["two, hot-2: it hung"])
        for text in (report.document(whole), report.text(whole)):
            self.assertIn("one: no compiler", text)
            self.assertIn("two, hot-2: it hung", text)

    def test_outdated_page_is_found(self):
        with mock.patch.object(sys, "argv", ["report.py", "--check"]):
            report.main()
            other = copy.deepcopy(self.whole)
            other["results"]["pair-1"]["redlatch"] = [dict(it, p50_us=1) for it in other["results"]["pair-1"]["redlatch"]]
            with mock.patch.object(json, "loads", lambda _: other), self.assertRaisesRegex(SystemExit, "benchmarks.md"):
                report.main()

    def test_new_results_leave_the_rest(self):
        before = {"settings": {}, "missing": [], "failures": ["a, hot-2: old", "a, pair-1: old"],
                  "results": {"hot-2": "old", "pair-1": "old"}}
        whole = {"settings": {}, "commit": "c1", "failures": ["a, hot-2: new"], "results": {"hot-2": "new", "hot-4": {}}}
        merged = run.merged(before, whole)
        self.assertEqual(merged["results"], {"hot-2": "new", "pair-1": "old"})
        self.assertEqual(merged["failures"], ["a, pair-1: old", "a, hot-2: new"])
        self.assertEqual(merged["again"], {"hot-2": "c1"})

    def test_shares(self):
        self.assertEqual(run.share([5, 10]), 0.5)
        self.assertEqual(run.share([0, 10]), 0)
        self.assertEqual(run.share([0, 0]), 0)


class CheckTest(unittest.TestCase):
    """`./dev bench --check`, on an invented benchmark."""

    def check(self, baseline, times, *more):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory, "baseline.json")
            path.write_text(json.dumps(baseline))
            lines = [{"name": f"{name}/real_time", "real_time": time, "time_unit": "us"} for name, time in times.items()]
            binary = program(directory, "benchmark", "#!/bin/sh\ncat <<'END'\n" + json.dumps({"benchmarks": lines}) + "\nEND\n")
            with mock.patch.object(check, "BASELINE", path), mock.patch.object(check, "stay_awake", lambda: None), \
                    mock.patch.object(sys, "argv", ["check.py", binary, "--rounds=2", *more]), \
                    contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
                check.main()
            return json.loads(path.read_text())

    def test_slower_benchmark_is_found(self):
        with self.assertRaisesRegex(SystemExit, "BM_A is 1.50 times as slow"):
            self.check({"BM_A": 2, "BM_B": 1}, {check.PAIR: 10, "BM_A": 30, "BM_B": 10})

    def test_equal_or_faster_passes(self):
        self.check({"BM_A": 2, "BM_B": 1}, {check.PAIR: 10, "BM_A": 21, "BM_B": 5})

    def test_slower_machine_passes(self):
        self.check({"BM_A": 2}, {check.PAIR: 100, "BM_A": 200})

    def test_missing_benchmark_is_found(self):
        with self.assertRaisesRegex(SystemExit, "BM_A: no such benchmark"):
            self.check({"BM_A": 2}, {check.PAIR: 10})

    def test_baseline_is_renewed(self):
        self.assertEqual(self.check({"BM_A": 2}, {check.PAIR: 10, "BM_A": 50}, "--renew"), {"BM_A": 5})

    def test_noise_is_spread_of_rounds(self):
        self.assertEqual(check.noise([1, 2]), 2)
        self.assertEqual(check.noise([1] * 9 + [100]), 1)


def setUpModule():
    built = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(built.cleanup)
    for module in (contenders, run):
        module.BUILD = pathlib.Path(built.name)
        module.OURS = pathlib.Path(os.environ.get("REDLATCH_CONTENDERS", contenders.OURS))


if __name__ == "__main__":
    unittest.main()
