#!/usr/bin/env python3
"""The benchmarks as a picture: benchmarks.svg, from what was measured, benchmarks.json.

benchmarks.py                draws it
benchmarks.py --measure      measures first: some four minutes, on a machine that does nothing else
benchmarks.py --quick        measures once instead of five times, to see whether the tool works
"""
import datetime
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
from svg import COLOURS, LINE, Picture, SOFT

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(__file__).resolve().with_name("benchmarks.json")
RACES = {"handed": "BM_SimpleLock_Processes", "broadcast": "BM_RawBroadcast_Processes"}
PAIRS = {"handed": "BM_SimpleLock_Uncontended", "raw": "BM_RawHiredis_Pair"}
LATENCIES = {"handed": "BM_HandOver_Latency", "floor": "BM_RawPublishDelivery",
             "polling": "BM_RawPolling_Latency"}
PROCESSES = (2, 4, 8, 16, 32)


# ---- Measuring.

def run(repetitions):
    names = "|".join([*RACES.values(), *LATENCIES.values(), *PAIRS.values()])
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        subprocess.run(
            [ROOT / "dev", "bench", "--awake", f"--benchmark_filter=^({names})(/[0-9]+)?(/iterations:1)?"
             "(/manual_time|/real_time)?$", f"--benchmark_repetitions={repetitions}",
             "--benchmark_enable_random_interleaving=true", f"--benchmark_out={out.name}",
             "--benchmark_out_format=json"], check=True, stdout=sys.stderr)
        return json.load(out)


def reduce(report):
    """The medians of what the picture shows."""
    lines = [line for line in report["benchmarks"] if line["run_type"] == "iteration"]
    failed = [line["name"] for line in lines if line.get("error_occurred")]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")

    def median(name, field):
        found = [line[field] for line in lines if re.match(rf"{name}(?![\w]|/\d+\w)", line["name"])]
        if not found:
            sys.exit(f"{name} was not measured")
        return float(f"{statistics.median(found):.3g}")

    version = subprocess.run(["redis-server", "--version"], check=True, capture_output=True,
                             text=True).stdout
    return {
        "measured": datetime.date.today().isoformat(),
        "processors": report["context"]["num_cpus"],
        "redis": re.search(r"v=([\d.]+)", version)[1],
        "raw_pair": report["context"]["raw pair"],
        "repetitions": max(line["repetitions"] for line in lines),
        "pair_us": {who: float(f"{median(name, 'real_time') / 1000:.3g}")
                    for who, name in PAIRS.items()},
        "acquisitions_per_second": {who: [median(f"{name}/{count}", "acquisitions/s")
                                          for count in PROCESSES] for who, name in RACES.items()},
        "commands_per_acquisition": {who: [median(f"{name}/{count}", "commands")
                                           for count in PROCESSES] for who, name in RACES.items()},
        "hand_over_us": {who: {part: median(name, f"{part}_us") for part in ("p50", "p99")}
                         for who, name in LATENCIES.items()},
    }


# ---- Drawing.

WIDTH, LEFT, NAMES, BAR, TENFOLD = 860, 24, 270, 20, 95
BLUE, GREY = COLOURS["blue"], COLOURS["grey"]


def number(value):
    return f"{value:,.0f}"


def heading(picture, x, y, title, below):
    picture.text(x, y, title, bold=True, size=15)
    picture.text(x, y + 18, below, size=12, fill=SOFT)


def columns(picture, x, y, wide, high, data, title, below):
    """Two columns for each number of processes, the same scale for all."""
    heading(picture, x, y, title, below)
    y, top = y + 34, max(max(values) for values in data.values())
    step = wide / len(PROCESSES)
    picture.line(x, y + high, x + wide, y + high, LINE)
    for place, count in enumerate(PROCESSES):
        centre = x + (place + 0.5) * step
        for side, (who, colours) in enumerate({"handed": BLUE, "broadcast": GREY}.items()):
            value = data[who][place]
            tall = max((high - 18) * value / top, 1)
            left = centre + (side - 1) * step * 0.42 + (2 if side else 0)
            picture.box(left, y + high - tall, step * 0.40, tall,
                        colours[0] if who == "handed" else colours[1], colours[0], 2)
            picture.text(left + step * 0.20, y + high - tall - 4, short(value), "middle", 10)
        picture.text(centre, y + high + 16, str(count), "middle", 12, SOFT)


def time_of(microseconds):
    return f"{microseconds:.0f} µs" if microseconds < 1000 else f"{microseconds / 1000:.0f} ms"


def short(value):
    return f"{value / 1000:.1f}k" if value >= 10000 else f"{value / 1000:.2f}k" if value >= 1000 \
        else f"{value:.3g}"


def rows(picture, y, lines, scale):
    """A bar for each, and its time behind it."""
    for name, value, colour in lines:
        picture.text(LEFT, y + 15, name)
        long = max(scale(value), 2)
        fill = colour[0] if colour is BLUE else colour[1]
        picture.box(LEFT + NAMES, y, long, BAR, fill, colour[0], 2)
        picture.text(LEFT + NAMES + long + 8, y + 15, time_of(value), size=12)
        y += BAR + 8
    return y


def draw(source):
    data = json.loads(source)
    pair, hand = data["pair_us"], data["hand_over_us"]
    picture = Picture(WIDTH, (
        "Benchmarks of SimpleLock beside locks written by hand over hiredis, on one machine. With "
        f"{PROCESSES[-1]} processes on one lock: "
        f"{number(data['acquisitions_per_second']['handed'][-1])} acquisitions a second against "
        f"{number(data['acquisitions_per_second']['broadcast'][-1])}, at "
        f"{number(data['commands_per_acquisition']['handed'][-1])} commands each against "
        f"{number(data['commands_per_acquisition']['broadcast'][-1])}. "
        f"From a release to the next acquisition: {time_of(hand['handed']['p50'])}, polling "
        f"{time_of(hand['polling']['p50'])}."))
    half = (WIDTH - 3 * LEFT) / 2
    picture.box(LEFT, 20, 14, 14, BLUE[0], BLUE[0], 2)
    picture.text(LEFT + 21, 32, "redlatch, SimpleLock", bold=True)
    picture.box(LEFT + 230, 20, 14, 14, GREY[1], GREY[0], 2)
    picture.text(LEFT + 251, 32, "written by hand over hiredis")
    columns(picture, LEFT, 68, half, 150, data["acquisitions_per_second"],
            "Acquisitions a second, one lock", "2 to 32 processes; by hand: broadcast and retry")
    columns(picture, 2 * LEFT + half, 68, half, 150, data["commands_per_acquisition"],
            "Commands for each acquisition", "what it and its release cost the server; less is better")
    y = 320
    heading(picture, LEFT, y, "From a release to the next process's acquisition",
            "median; from each line to the next it is ten times as long")
    for power, name in enumerate(("10 µs", "100 µs", "1 ms", "10 ms", "100 ms")):
        x = LEFT + NAMES + power * TENFOLD
        picture.line(x, y + 32, x, y + 34 + 3 * (BAR + 8), "#e5e7eb")
        picture.text(x, y + 46 + 3 * (BAR + 8), name, "middle", 11, SOFT)
    y = rows(picture, y + 36, [
        ("hand-over by message", hand["handed"]["p50"], BLUE),
        ("PUBLISH alone, the least there can be", hand["floor"]["p50"], GREY),
        ("polling every 50 to 250 ms", hand["polling"]["p50"], GREY)],
        lambda value: TENFOLD * math.log10(value / 10))
    y += 42
    heading(picture, LEFT, y, "Lock and unlock, nobody else", "less is better")
    y = rows(picture, y + 32, [
        ("SimpleLock", pair["handed"], BLUE),
        ("SET NX PX, EVALSHA to delete", pair["raw"], GREY)],
        lambda value: 300 * value / max(pair.values()))
    mood = "The processors were kept awake. " if "raw_pair" in data else \
        "The processors slept when idle. "
    how = f"medians of {data['repetitions']}" if data["repetitions"] > 1 else "once, to try the tool"
    picture.text(LEFT, y + 20, (
        f"Redis {data['redis']} and all processes on one machine of {data['processors']} processors, "
        f"over loopback, {data['measured']}; {how}."), size=12, fill=SOFT)
    picture.text(LEFT, y + 37, mood + "Only ratios within one run count: benchmarks/README.md.", size=12,
                 fill=SOFT)
    return picture.render(y + 54)


def main():
    arguments = sys.argv[1:]
    if arguments not in ([], ["--measure"], ["--quick"]):
        sys.exit(__doc__)
    if arguments:
        data = reduce(run(5 if arguments == ["--measure"] else 1))
        DATA.write_text(json.dumps(data, indent=1) + "\n")
    DATA.with_suffix(".svg").write_text(draw(DATA.read_text()))


if __name__ == "__main__":
    main()
