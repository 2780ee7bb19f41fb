#!/usr/bin/env python3
"""What was measured, as a table for a terminal, and as docs/benchmarks.md with its pictures.

report.py            makes the document and the pictures again, from docs/benchmarks/results.json
report.py --check    makes nothing; fails where they are not what the results say
"""

import collections
import dataclasses
import json
import math
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "docs" / "pictures"))
from svg import COLOURS, LINE, Picture, SOFT, width_of
from works import WORKS

DOCUMENT = ROOT / "docs" / "benchmarks.md"
FOLDER = ROOT / "docs" / "benchmarks"
OURS = "redlatch"


# ---- What the results say.

METRICS = {  # of an outcome: the head of its column, and how it is written
    "p50_us": ("p50", lambda value: micros(value)),
    "p99_us": ("p99", lambda value: micros(value)),
    "wait_p99_us": ("p99 of waits", lambda value: micros(value)),
    "per_second": ("acquisitions/s", lambda value: number(value)),
    "share": ("least share", lambda value: f"{value:.2f}"),
    "longest_wait_ms": ("longest wait", lambda value: micros(1000 * value)),
    "commands": ("commands", lambda value: f"{value:.2f}" if value < 10 else number(value)),
    "server_us": ("server", lambda value: micros(value)),
    "client_us": ("clients", lambda value: micros(value)),
    "commands_per_s": ("commands/s", lambda value: number(value)),
    "server_ms_per_s": ("server, ms/s", lambda value: number(value)),
    "client_ms_per_s": ("holder, ms/s", lambda value: number(value)),
    "late_ms": ("after the lease", lambda value: micros(1000 * value)),
    "recovery_ms": ("after the kill", lambda value: micros(1000 * value)),
    "failed": ("gave up", lambda value: number(value)),
}
COLUMNS = {"pair": ("p50_us", "p99_us", "per_second", "share", "commands", "server_us", "client_us"),
           "contend": ("per_second", "share", "longest_wait_ms", "wait_p99_us", "p50_us", "p99_us", "commands", "server_us", "client_us",
                       "failed"),
           "waiting": ("commands_per_s", "server_ms_per_s"), "held": ("client_ms_per_s", "server_ms_per_s",
                                                                      "commands_per_s"),
           "killed": ("late_ms", "recovery_ms")}


def micros(value):
    if value < 1:
        return f"{1000 * value:.0f} ns"
    if value < 1000:
        return f"{value:.0f} µs" if value >= 10 else f"{value:.1f} µs"
    if value < 1e6:
        return f"{value / 1000:.0f} ms" if value >= 1e4 else f"{value / 1000:.1f} ms"
    return f"{value / 1e6:.1f} s"


def number(value):
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def middle(outcomes, metric):
    values = [outcome[metric] for outcome in outcomes if metric in outcome]
    return statistics.median(values) if values else None


def ranked(whole, work):
    """(name, outcomes), the best first."""
    entries = [(name, outcomes) for name, outcomes in whole["results"].get(work.name, {}).items()
               if middle(outcomes, work.metric) is not None]
    return sorted(entries, key=lambda entry: middle(entry[1], work.metric) * (1 if work.less else -1))


def tables(whole):
    """(work, its entries, their metrics) for each work that was measured."""
    for work in WORKS:
        entries = ranked(whole, work)
        if not entries:
            continue
        columns = [metric for metric in COLUMNS[work.mode]
                   if any(middle(outcomes, metric) is not None for _, outcomes in entries)]
        yield work, entries, columns


def is_ours(name):
    return name.startswith(OURS)


def against(whole, work):
    """How many times better redlatch is, by default, than the best of the others. None: it was not measured."""
    entries = ranked(whole, work)
    others = [outcomes for name, outcomes in entries if not is_ours(name)]
    ours = dict(entries).get(OURS)
    if not ours or not others:
        return None
    mine, best = middle(ours, work.metric), middle(others[0], work.metric)
    if work.metric == "commands_per_s" and max(mine, best) < 1:
        return 1.0  # some send nothing while they wait
    if work.less:
        mine, best = best, mine
    return mine / best if best else math.inf


# ---- On a terminal.

def text(whole):
    lines = []
    for work, entries, columns in tables(whole):
        lines += ["", f"{work.title} ({work.name})", f"{'':38}" + "".join(f"{METRICS[it][0]:>15}" for it in columns)]
        lines += [f"{name:38}" + "".join(f"{cell(outcomes, metric):>15}" for metric in columns)
                  for name, outcomes in entries]
    lines += ["", *(f"absent: {it}" for it in whole["missing"]), *(f"failed: {it}" for it in whole["failures"])]
    return "\n".join(lines)


def cell(outcomes, metric):
    value = middle(outcomes, metric)
    return "–" if value is None else METRICS[metric][1](value)


# ---- The pictures.

# As narrow as a telephone, so that their text needs no magnifying there; elsewhere two are side by side.
WIDTH, LEFT, ROW, BAR = 412, 18, 42, 14
BLUE, GREY = COLOURS["blue"], COLOURS["grey"]


@dataclasses.dataclass(frozen=True)
class Chart:
    work: str
    title: str
    metric: str  # what the bars show
    less: bool


PICTURES = {
    "pair": Chart("pair-1", "Lock and unlock, uncontended", "p50_us", True),
    "waiting": Chart("waiting", "1,000 waiters", "commands_per_s", True),
    "fair": Chart("hot-16-1ms", "One lock, 16 processes, held for 1 ms", "longest_wait_ms", True),
    "hot": Chart("hot-16", "One lock, 16 processes", "per_second", False),
    "hand-over": Chart("sleeper", "From a release to a process that sleeps", "p50_us", True),
}


def charts(whole):
    """(stem, chart, work, its entries) for each picture whose work was measured; the best entry first."""
    for stem, chart in PICTURES.items():
        work = next(it for it in WORKS if it.name == chart.work)
        entries = sorted(ranked(whole, dataclasses.replace(work, metric=chart.metric)),
                         key=lambda entry, its=chart: middle(entry[1], its.metric) * (1 if its.less else -1))
        if entries:
            yield stem, chart, work, entries


def fairness(outcomes, work):
    """How evenly several processes had the lock, in words."""
    if work.processes < 2 or middle(outcomes, "share") is None:
        return []
    return [f"least share {cell(outcomes, 'share')}", f"waits up to {cell(outcomes, 'longest_wait_ms')}"]


def aside(outcomes, chart, work):
    """What a bar does not show: the shares, and of speed and the longest wait the other one."""
    if chart.metric == "longest_wait_ms":
        return f"{cell(outcomes, 'per_second')}/s, least share {cell(outcomes, 'share')}"
    return ", ".join(fairness(outcomes, work))


def picture_of(chart, work, entries):
    """A bar per contender, on a logarithmic scale, with its name and its value above it."""
    values = {name: middle(outcomes, chart.metric) for name, outcomes in entries}
    asides = {name: aside(outcomes, chart, work) for name, outcomes in entries}
    cells = {name: cell(outcomes, chart.metric) for name, outcomes in entries}
    picture = Picture(WIDTH, f"{chart.title}: " + "; ".join(f"{name} {its}" for name, its in cells.items()))
    picture.text(LEFT, 30, chart.title, bold=True, size=16)
    picture.text(LEFT, 50, f"{METRICS[chart.metric][0]}; {'less' if chart.less else 'more'} is better; a line is ten times "
                 "the last", size=12, fill=SOFT)
    low = math.floor(math.log10(min(value for value in values.values() if value > 0)) - 0.05)
    high = math.log10(max(values.values()))
    step = (WIDTH - 2 * LEFT - max(map(width_of, asides.values()))) / max(high - low, 1)
    top, bottom = 64, 64 + ROW * len(values)
    for power in range(low, math.floor(high) + 1):
        x = LEFT + (power - low) * step
        picture.line(x, top, x, bottom, LINE if power == low else COLOURS["grey"][1])
    for place, (name, value) in enumerate(values.items()):
        y = top + 6 + place * ROW
        colour = BLUE if is_ours(name) else GREY
        picture.text(LEFT + 5, y + 11, name, bold=is_ours(name), halo=True)
        picture.text(WIDTH - LEFT, y + 11, cells[name], "end", bold=is_ours(name), halo=True)
        length = max((math.log10(value) - low) * step, 2) if value > 0 else 2
        picture.box(LEFT, y + 17, length, BAR, colour[0] if is_ours(name) else colour[1], colour[0], 2)
        picture.text(WIDTH - LEFT, y + 28, asides[name], "end", size=12, fill=SOFT, halo=True)
    return picture.render(bottom + 10)


# ---- The document.

def document(whole):
    machine = whole["machine"]
    commits = f", at commit `{whole['commit']}`" if "commit" in whole else ""
    for commit, rows in collections.Counter(whole.get("again", {}).values()).items():
        commits += f", and {rows} of the rows again at `{commit}`"
    lines = [
        "# redlatch beside other locks", "",
        "This page compares redlatch with other locks that you could use instead. All run on the same server, do the same work, "
        "and have the same lease (30 s). Each is used as its documentation recommends, with the [exceptions "
        "below](#how-each-was-used). `./dev compare` builds and measures them all, and writes this page, the "
        "[results](benchmarks/results.json) and the pictures.", "",
        f"Measured on {whole['measured']}{commits}: {machine['processors']} processors ({machine['model']}), Linux {machine['kernel']}, "
        f"Redis {machine['redis']}, Go {machine['go']}, Java {machine['java']}, Node {machine['node']}, Python "
        f"{machine['python']}. The clients and the server all run on these processors, and talk over loopback. The processors "
        + ("are kept awake" if whole["awake"] else "sleep when they are idle")
        + (f", and a lock and unlock by raw hiredis takes {whole['raw_pair_us']} µs" if whole.get("raw_pair_us") else "")
        + f". The figures are medians of {whole['rounds']} rounds, in which the contenders took turns. Each race lasted "
        f"{whole['seconds']:g} s.", "",
        "**Only ratios count.** Clients and server share the processors, so a figure says as much about the machine as "
        "about a lock. The figures include Java's virtual machine and Python's interpreter, because users of these locks run "
        "them too.", "",
        "After each acquisition, the process checked in shared memory that no other process had the lock. "
        + overlaps(whole), "",
        "**Why the ratios are large.** There are two reasons. First, redlatch's `unlock()` sends the release and returns, but "
        "the raw locks, and most others, wait for the server's answer. That alone makes a lock and unlock about twice as fast, as the "
        "rows with a delay show. Second, if several processes or threads want the same lock, a redlatch client takes it again and "
        "again during its turn without asking the server. The others ask the server each time. *Strict order* is redlatch "
        "without turns. Compare that row with the others if your holds are long, or if each acquisition must reach the server.", "",
        "## In short", "", "| | redlatch is better by | than the best other lock | fairness of redlatch | fairness of the other lock |",
        "|---|---|---|---|---|"]
    for work in WORKS:
        times = against(whole, work)
        if times is None:
            continue
        best, its = next((name, outcomes) for name, outcomes in ranked(whole, work) if not is_ours(name))
        ours = whole["results"][work.name][OURS]
        mark = "" if times > 1.03 else "**behind**: " if times < 0.97 else "level: "
        lines.append(f"| {work.title} | {mark}{times:.2f} × | {best} | {', '.join(fairness(ours, work))} | "
                     f"{', '.join(fairness(its, work))} |")
    lines += ["", "Above 1 ×, redlatch is better, whether a larger or a smaller figure is better in that row. In this table, redlatch "
              "has its default options. The tables below show what other options gain.", ""]
    lines += [f"![{chart.title}](benchmarks/{stem}.svg)" for stem, chart, _, _ in charts(whole)] + [""]
    lines += ["## All results", "",
              "- *Least share*: how often the unluckiest process (or thread) had the lock, divided by how often the luckiest one had "
              "it.",
              "- *p50*, *p99*: the time for a lock and unlock. If several processes want the lock, the time from one process's "
              "release to the next one's acquisition.",
              "- *Commands*: how many commands the clients sent per acquisition.",
              "- *Server*, *clients*: the processor time per acquisition.",
              "- *Longest wait*: if it is as long as the race, one process never had the lock.",
              "- *Gave up*: how many calls returned without the lock. The process then called again.",
              "- *redlatch, keep* caches the lock (`cache_for`).", ""]
    for work, entries, columns in tables(whole):
        lines += [f"### {work.title}", "", "| | " + " | ".join(METRICS[it][0] for it in columns) + " |",
                  "|---|" + "---:|" * len(columns)]
        lines += [f"| {'**' + name + '**' if is_ours(name) else name} | "
                  + " | ".join(cell(outcomes, metric) for metric in columns) + " |" for name, outcomes in entries]
        lines.append("")
    lines += ["## How each was used", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {settings} |" for name, settings in whole["settings"].items()]
    lines += ["", "Before each race, Redisson does the same work for 1.5 s, or 800 times with two threads, so that its JVM has "
              "compiled the code before it is measured. In Go and Node, a goroutine or a task takes the place of a thread.", ""]
    if whole["missing"] or whole["failures"]:
        lines += ["Not measured:", ""]
        lines += [f"- {it}" for it in [*whole["missing"], *whole["failures"]]] + [""]
    lines += (HERE / "notes.md").read_text().splitlines()
    return "\n".join(lines) + "\n"


def overlaps(whole):
    broke = {name: sum(outcome["overlaps"] for outcome in outcomes) for entries in whole["results"].values()
             for name, outcomes in entries.items()}
    found = [f"{name} {count} times" for name, count in broke.items() if count]
    return "Overlaps: " + ", ".join(found) + "." if found else "No two holds overlapped."


def made(whole):
    """{path: text} for each file."""
    files = {DOCUMENT: document(whole)}
    for stem, chart, work, entries in charts(whole):
        files[FOLDER / f"{stem}.svg"] = picture_of(chart, work, entries)
    return files


def write(whole):
    for path, content in made(whole).items():
        path.write_text(content)
        print(f"written to {path}", file=sys.stderr)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    whole = json.loads((FOLDER / "results.json").read_text())
    if not sys.argv[1:]:
        return write(whole)
    wrong = [path.name for path, content in made(whole).items() if not path.exists() or path.read_text() != content]
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what results.json says: run benchmarks/peers/report.py")
    print("docs/benchmarks.md is as its results say")
    return None


if __name__ == "__main__":
    main()
