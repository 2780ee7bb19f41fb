#!/usr/bin/env python3
"""Checks the Grafana dashboard against what the library exports.

check_dashboard.py DASHBOARD PROGRAM...: the program prints what PrometheusText() returns. It must contain
each metric that the dashboard names, and the dashboard must show each metric.
"""
import json
import pathlib
import re
import subprocess
import sys

METRIC = re.compile(r"\bredlatch_[a-z_]+")


def complaints(dashboard, text):
    exported = set(re.findall(r"^(redlatch_[a-z_]+)\{", text, re.M))
    families = set(re.findall(r"^# TYPE (redlatch_[a-z_]+) ", text, re.M))
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "two panels have the same id"
    named = set()
    for variable in dashboard["templating"]["list"]:
        named |= set(METRIC.findall(json.dumps(variable["query"])))
    for panel in panels:
        if panel["type"] == "row":
            continue
        title = panel["title"]
        if not panel["fieldConfig"]["defaults"].get("unit"):
            yield f"{title}: no unit"
        if not panel["targets"]:
            yield f"{title}: no query"
        for part in (panel, *panel["targets"]):
            if part.get("datasource", {}).get("uid") != "${datasource}":
                yield f"{title}: its data source is not the variable"
        for target in panel["targets"]:
            metrics = set(METRIC.findall(target["expr"]))
            named |= metrics
            if not metrics:
                yield f"{title}: a query without a metric"
    for metric in sorted(named - exported):
        yield f"{metric} is not exported"
    for family in sorted(families):
        if not any(re.fullmatch(f"{family}(_bucket|_sum|_count)?", metric) for metric in named):
            yield f"{family} is on no panel"
    if not families:
        yield "the text contains no metric"


def main():
    path = pathlib.Path(sys.argv[1])
    text = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, check=True, text=True).stdout
    found = list(complaints(json.loads(path.read_text(encoding="utf-8")), text))
    for complaint in found:
        print(f"{path.name}: {complaint}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
