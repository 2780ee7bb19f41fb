#!/usr/bin/env python3
"""Checks that every link of the documents leads somewhere: to a file, and to a heading in it.

check_links.py               the pages as they lie here
check_links.py --copy DIR    and copies them to DIR, with every file that they link to
check_links.py --site DIR    the pages of a site that was built from that
check_links.py --root DIR    the pages of another repository
"""
import argparse
import html.parser
import pathlib
import re
import shutil
import sys
import urllib.parse

PAGES = ("*.md", "lua/README.md", "benchmarks/README.md", "docs/**/*.md", "tests/model/*.md",
         "tests/support/**/*.md")


class Page:
    """Where a page's links lead to, by line, and what can be linked to in it."""

    def __init__(self, path):
        self.links, self.anchors = [], set()
        fence = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark = re.match(r"\s*(```+|~~~+)", line)
            if mark and (fence is None or mark[1].startswith(fence)):
                fence = mark[1] if fence is None else None
            elif fence is None:
                self.read_line(number, line)

    def read_line(self, number, line):
        heading = re.match(r"#+\s+(.*?)\s*#*$", line)
        if heading:
            self.anchors.add(self.anchor_of(heading[1]))
        plain = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)
        targets = re.findall(r"\]\(\s*<?([^)\s>]+)", plain)
        targets += re.findall(r"^\s*\[[^\]]+\]:\s+<?([^\s>]+)", plain)
        targets += re.findall(r"(?:href|src)=\"([^\"]+)\"", plain)
        self.links += [(number, target) for target in targets]

    def anchor_of(self, heading):
        """As GitHub and MkDocs name it, where no two headings of a page are the same."""
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


class SitePage(html.parser.HTMLParser):
    """The same of a page of a site."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.append((self.getpos()[0], value))


def check(root, pages, read):
    """What is wrong with the pages' links, and the files under `root` that they lead to."""
    known = {page: read(page) for page in pages}
    problems, reached = [], set()
    for page, content in known.items():
        for line, target in content.links:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue  # elsewhere: the check does not use the network
            path = urllib.parse.unquote(url.path)
            file = page if not path else (root if path.startswith("/") else page.parent).joinpath(
                path.lstrip("/")).resolve()
            if file.is_dir() and read is SitePage:
                file = file / "index.html"
            what = ""
            if not file.is_relative_to(root):
                what = "leads out of here"
            elif not file.exists():
                what = "leads nowhere"
            elif file.is_dir():
                what = "is a folder, of which a site shows nothing; link to a page"
            elif url.fragment and file in known and url.fragment not in known[file].anchors:
                what = "names no heading of that page"
            elif file.suffix == ".md" and file not in known:
                what = "is a page that this check does not know; add it to PAGES"
            if what:
                problems.append(f"{page.relative_to(root)}:{line}: {target} {what}")
            reached.add(file)
    return problems, reached


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).parent.parent)
    parser.add_argument("--copy", type=pathlib.Path)
    parser.add_argument("--site", type=pathlib.Path)
    options = parser.parse_args()

    root = (options.site or options.root).resolve()
    patterns, read = (("**/*.html",), SitePage) if options.site else (PAGES, Page)
    pages = [page for pattern in patterns for page in sorted(root.glob(pattern))]
    problems, reached = check(root, pages, read)
    if not pages:
        problems = [f"no pages in {root}"]
    print("\n".join(problems) or f"{len(pages)} pages: all their links lead somewhere")
    if problems:
        return 1
    for file in {*pages, *reached} if options.copy else ():
        copy = options.copy / file.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
