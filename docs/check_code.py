#!/usr/bin/env python3
"""Checks that every ```cpp block of README.md and docs/**/*.md is code that is compiled and run.

The code of docs/tutorials/04-read-write.md is docs/code/04-read-write/*.cc, that of README.md is
docs/code/readme/*.cc. What lies there between `// [name]` and `// [/name]` is a region; each block
of a page must be one of its page's, line by line but for the indentation of the whole, and each
region must be shown. If that folder has *.java files, the same holds for the page's ```java blocks.
"""
import difflib
import pathlib
import re
import sys
import textwrap

# This repository, or another that is named.
ROOT = pathlib.Path(*sys.argv[1:2] or [pathlib.Path(__file__).parent.parent]).resolve()
MARK = re.compile(r"\s*// \[(/?)([a-z0-9_]+)\]$")
LONGEST_LINE = 100

problems = []


def complain(path, line, what):
    problems.append(f"{path.relative_to(ROOT)}:{line}: {what}")


def regions_of(path):
    """(name, first line, text) of each region of a source."""
    found, name, first, lines = [], None, 0, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = MARK.match(line)
        if mark and not mark[1] and name is None:
            name, first, lines = mark[2], number + 1, []
        elif mark and mark[1] and mark[2] == name:
            found.append((name, first, textwrap.dedent("\n".join(lines)).strip("\n")))
            name = None
        elif mark:
            complain(path, number, f"{line.strip()} does not belong here")
        else:
            lines.append(line)
    if name is not None:
        complain(path, first - 1, f"[{name}] has no end")
    return found


CPP = ("cpp", "c++", "cc", "cxx", "hpp", "c", "h")


def blocks_of(path, languages):
    """(first line, text) of each block of a page in these languages, however its fence is written."""
    found, fence, wanted, first, lines = [], None, False, 0, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)\s*(.*)$", line)
        if fence is None and mark:
            fence, first, lines = mark[1], number + 1, []
            language = re.match(r"\{?\s*\.?([\w+#-]*)", mark[2])[1].lower()
            wanted = language in languages
        elif fence is not None and mark and mark[1].startswith(fence) and not mark[2]:
            if wanted:
                found.append((first, textwrap.dedent("\n".join(lines))))
            fence = None
        else:
            lines.append(line)
            if fence is not None and wanted and len(line) > LONGEST_LINE:
                complain(path, number, f"longer than {LONGEST_LINE} characters")
    if fence is not None:
        complain(path, first - 1, "a block without an end")
    return found


def check(page):
    code = ROOT / "docs" / "code" / page.stem.lower()
    java = sorted(code.glob("*.java"))
    regions = [(source, *region) for source in [*sorted(code.glob("*.[ch]*")), *java]
               for region in regions_of(source)]
    shown = set()
    for line, text in blocks_of(page, (*CPP, "java") if java else CPP):
        same = [region for region in regions if region[3] == text]
        shown.update(same)
        if same:
            continue
        complain(page, line, f"this block is no region of {code.relative_to(ROOT)}/*.cc"
                 + " or *.java" * bool(java))
        nearest = max(regions, default=None, key=lambda region: difflib.SequenceMatcher(
            None, region[3].splitlines(), text.splitlines()).ratio())
        if nearest:
            source, name, _, wanted = nearest
            problems.extend(difflib.unified_diff(
                text.splitlines(), wanted.splitlines(), "the page",
                f"{source.relative_to(ROOT)} [{name}]", lineterm="", n=1))
    for source, name, line, _ in set(regions) - shown:
        complain(source, line, f"[{name}] is on no page")


def main():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        check(page)
    names = [page.stem.lower() for page in pages]
    for folder in sorted((ROOT / "docs" / "code").glob("*")):
        if folder.is_dir() and names.count(folder.name) != 1:
            complain(folder, 1, f"{names.count(folder.name) or 'no'} pages have this name")
    print("\n".join(problems) or f"{len(pages)} pages: all their C++ is in docs/code")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
