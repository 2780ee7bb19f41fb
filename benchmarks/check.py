#!/usr/bin/env python3
"""check.py PROGRAM [--renew] [--rounds N]

Checks if the library has become slower. It measures the lines of baseline.json, in turns with a raw pair, and fails
if a line's ratio to the pair is worse than there, by more than a tenth and by more than the rounds of this run
differ among themselves. --renew writes the results to baseline.json. `./dev bench --check` builds
the program and runs this.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys

sys.dont_write_bytecode = True
from compare import MICROSECONDS, stay_awake

BASELINE = pathlib.Path(__file__).resolve().with_name("baseline.json")
PAIR = "BM_RawHiredis_Pair"
ALLOWED = 1.10
SETTING = re.compile(r"/(iterations:[0-9]+|min_time:[0-9.]+|real_time|manual_time)")  # behind a name


def measure(program, names):
    """The time of each line, and of the pair, in one round."""
    anchored = "|".join(f"^{name}({SETTING.pattern})*$" for name in names)
    command = [program, f"--benchmark_filter={anchored}", "--benchmark_format=json", "--benchmark_min_time=0.2",
               "--benchmark_enable_random_interleaving=true"]
    report = json.loads(subprocess.check_output(command, stderr=subprocess.DEVNULL))
    times = {}
    for line in report["benchmarks"]:
        if line.get("error_occurred"):
            sys.exit(f"{line['name']}: {line['error_message']}")
        times[SETTING.sub("", line["name"])] = line["real_time"] * MICROSECONDS[line["time_unit"]]
    if missing := set(names) - set(times):
        sys.exit(f"{', '.join(sorted(missing))}: no such benchmark")
    return times


def ratios(program, names, rounds):
    """For each line its ratio to the pair in each round."""
    found = {name: [] for name in names}
    for number in range(rounds):
        times = measure(program, [*names, PAIR])
        for name in names:
            found[name].append(times[name] / times[PAIR])
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
    return found


def noise(values):
    """How far the rounds are apart, as a factor: the middle half of them."""
    if len(values) < 4:
        return max(values) / min(values)
    quarters = statistics.quantiles(values, n=4)
    return quarters[2] / quarters[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    baseline = json.loads(BASELINE.read_text())
    stay_awake()
    found = ratios(options.program, list(baseline), options.rounds)
    worse = []
    print(f"{'ratio to a raw pair':48}{'baseline':>10}{'now':>10}{'now / then':>12}{'noise':>8}")
    for name, values in found.items():
        now, then = statistics.median(values), baseline[name]
        change, apart = now / then if then else float("inf"), noise(values)
        print(f"{name:48}{then:10.3f}{now:10.3f}{change:12.2f}{apart:8.2f}")
        if change > max(ALLOWED, apart):
            worse.append(f"{name} is {change:.2f} times as slow as it was, by the raw pair")
    if options.renew:
        BASELINE.write_text(json.dumps({name: round(statistics.median(values), 4) for name, values in found.items()},
                                       indent=1) + "\n")
        print(f"written to {BASELINE.name}")
    elif worse:
        sys.exit("\n".join(worse))


if __name__ == "__main__":
    main()
