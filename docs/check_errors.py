#!/usr/bin/env python3
"""Checks that each message for users has a section in docs/troubleshooting.md, with which it ends.

check_errors.py              checks the messages, the table in src/base/error_address.cc, and the page
check_errors.py --site DIR   writes the pages DIR/e/<anchor>/, to which the addresses in messages lead

A message is the text that a call of one of SINKS or ASSIGNED gets in src/ or include/, or an error reply
of a script. A row of the table must fit it, or it must be one of EXPECTED.
"""
import argparse
import pathlib
import re
import sys

from check_links import Page

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE, PAGE = ROOT / "src/base/error_address.cc", ROOT / "docs/troubleshooting.md"
COMPLAINTS = "## Common complaints"

# What makes messages. kCancelled, kDeadlineExceeded and kUnknown are outcomes, or placeholders.
SINKS = re.compile(
    r"\b(?:absl::(?!Cancelled|DeadlineExceeded|Unknown)\w+Error|absl::Status|Complain|Misuse|OnMisuse|Refuse|TellOfLoss|"
    r"failure|About|InvalidUrl|DropLate|Lose|Print|PrintLine|WhenSent|warnings\.push_back|trouble\.lines\.push_back)\(")
ASSIGNED = re.compile(r"\b(?:reason(?:\.\w+)?|why|bad|problem|k\w+Reason)(?:\[\])?\s*\+?=(?!=)")
SCRIPT = re.compile(r"\bredis\.error_reply\(")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
LUA_LITERAL = re.compile(r"'((?:[^'\\\n]|\\.)*)'")
WORDS = re.compile(r"[A-Za-z]{2,}")

# Sources whose messages say themselves where to read on, or are not for users.
NOT_READ = {
    "src/demo": "the demo",
    "src/base/error_address.cc": "the table",
    "src/redis/url/url.cc": 'each message begins with "server URL: "',
    "src/cli/term/command_line.cc": "wrong usage: each message names --help",
    "src/cli/redlatch.cc": "wrong usage as well",
    "src/cli/doctor": "its findings say how to fix them",
    "include/redlatch/internal": "for the authors of locks: what their tests find",
}
# What needs no section.
EXPECTED = {
    # Outcomes that a program or a script waits for.
    "it has not opened; its count is still", " was busy for ", " has no leader", "there is no lock ",
    "there is no semaphore ", "the command has been run in this period", "; the next campaign begins in ",
    # Wrong usage, and the message says the right one.
    "there is no terminal to ask on", " is not a shell that redlatch knows", "--json cannot ask",
    "redlatch top needs a terminal", "--busy-code is out of range", "the command is missing",
    "say how many permits there are to be", " is not a semaphore; redlatch inspect shows",
    "the list is complete again", "list each server by itself", "the server answers again",
    # Parts of other messages, of which another part decides.
    "lost the hold on ", "; changes are not seen until it answers", "given back: ", "because it could not be renewed",
    "this process was not running in time", "key suffix", "(the command was sent and may have been executed)",
    # A placeholder.
    "not asked", "there is no such key",
}
# Words of servers, which no source of ours says.
ERRORS = ROOT / "src/redis/wire/errors.cc"
SERVERS_WORDS = {"CROSSSLOT", "ERR AUTH", "DENIED Redis is running in protected mode"}


def rows():
    """The table: words and anchor, in its order."""
    table = re.findall(r'^    \{"((?:[^"\\]|\\.)*)", "([\w-]+)"\},$', TABLE.read_text(), re.M)
    if not table:
        sys.exit(f"no rows in {TABLE}")
    return table


def site():
    return re.search(r'kSite = "([^"]+)"', TABLE.with_suffix(".h").read_text())[1]


def sections():
    """The text of each section of the page by its anchor, and the anchors before COMPLAINTS."""
    text = PAGE.read_text()
    page = Page(PAGE)
    found = {}
    for part in re.split(r"^(?=#{2,3} )", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        found[page.anchor_of(re.sub(r"^#+\s+", "", heading))] = " ".join((heading + " " + body).split())
    errors = [page.anchor_of(each) for each in
              re.findall(r"^###\s+(.*)$", text.partition(COMPLAINTS)[0], re.M)]
    return found, errors


def arguments(text, begin, ends=")"):
    """The text from `begin` to the bracket (or semicolon) that ends it, outside literals."""
    depth, at = 0, begin
    while at < len(text):
        literal = LITERAL.match(text, at) or re.compile(r"'(?:[^'\\\n]|\\.)+'").match(text, at)
        if literal:
            at = literal.end()
            continue
        if text[at] in "([{":
            depth += 1
        elif depth == 0 and text[at] in ends:
            break
        elif text[at] in ")]}":
            depth -= 1
        at += 1
    return text[begin:at]


def joined(text, literal):
    """The literals in it; those that only white space or a concatenation separates are one."""
    whole, last = "", 0
    for each in literal.finditer(text):
        between = text[last:each.start()]
        whole += ("" if not between.strip(" \n.") else " … ") + each[1].replace("\\n", "\n").replace('\\"', '"')
        last = each.end()
    return whole


def messages():
    """Each message of the sources, with the place where it is."""
    for folder, pattern, literal in (("src", "*.cc", LITERAL), ("src", "*.h", LITERAL),
                                     ("include", "*.h", LITERAL), ("lua", "*.lua", LUA_LITERAL)):
        for path in sorted((ROOT / folder).rglob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if any(name == each or name.startswith(each + "/") for each in NOT_READ):
                continue
            text = path.read_text()
            text = re.sub(r"(?m)^(\s*)//.*$" if literal is LITERAL else r"(?m)^\s*--.*$", "", text)
            calls = [(each, ")") for each in (SINKS if literal is LITERAL else SCRIPT).finditer(text)]
            if literal is LITERAL:
                calls += [(each, ";,)") for each in ASSIGNED.finditer(text)]
            for call, ends in calls:
                message = joined(arguments(text, call.end(), ends), literal)
                if len(WORDS.findall(message)) > 1:
                    line = text.count("\n", 0, call.start()) + 1
                    yield f"{name}:{line}: \"{message.removeprefix(' … ')[:90]}\"", message


def problems():
    table, (found, errors) = rows(), sections()
    sources = {each: each.read_text() for folder in ("src", "lua") for each in (ROOT / folder).rglob("*.*")
               if each.suffix in (".cc", ".h", ".lua") and each != TABLE}
    said = "\n".join(re.sub(r"[\"']\s*(?:\.\.)?\s*\n\s*[\"']", "", text) for text in sources.values())
    said = said.replace('\\"', '"')
    for words, anchor in table:
        if anchor not in found:
            yield f"{PAGE.name}: no section ### {anchor}, which {TABLE.name} has"
        elif " ".join(words.split()).strip() not in found[anchor]:
            yield f"{PAGE.name}: the section {anchor} does not show its message: {words}"
        if words.strip() not in said and words not in SERVERS_WORDS:
            yield f"{TABLE.name}: no source says this any more: {words}"
    used = {anchor for _, anchor in table}
    for anchor in errors:
        if anchor not in used | {"busy", "stopped"}:
            yield f"{PAGE.name}: no message leads to the section {anchor}"
    for place, message in messages():
        fits = any(words in message for words, _ in table)
        if not fits and not any(text in message for text in EXPECTED):
            yield f"{place} has no anchor: add a row to {TABLE.name}, and say there what to do"
    known = re.findall(r'\{"([^"]+)", k\w+,\s*k\w+,([^}]*)\}', ERRORS.read_text())
    if not known:
        yield f"{ERRORS.name}: its table of errors is not found"
    for words, ours in known:
        if not ours.endswith("true") and not any(each in words + " " for each, _ in table):
            yield f"{ERRORS.name}: the server's error {words} has no anchor: add a row to {TABLE.name}"
    said = "\n".join(message for _, message in messages())
    for text in EXPECTED:
        if text not in said:
            yield f"{pathlib.Path(__file__).name}: no message says this any more: {text}"
    mkdocs = re.search(r"^site_url: *(\S+?)/?$", (ROOT / "mkdocs.yml").read_text(), re.M)
    if mkdocs and mkdocs[1] != site():
        yield f"mkdocs.yml: site_url is {mkdocs[1]}, and messages say {site()}"


def write_site(folder):
    """A page per anchor, which leads to the section. Any static server can serve them."""
    for anchor in {anchor for _, anchor in rows()}:
        target = f"../../docs/troubleshooting.html#{anchor}"
        page = folder / "e" / anchor / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
                        f'<title>redlatch: {anchor}</title>\n'
                        f'<meta http-equiv="refresh" content="0; url={target}">\n'
                        f'<link rel="canonical" href="{target}"></head>\n'
                        f'<body><a href="{target}">redlatch: {anchor}</a></body></html>\n')


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--site", type=pathlib.Path)
    options = parser.parse_args()
    wrong = sorted(set(problems()))
    print("\n".join(wrong) or f"{len(rows())} messages lead to {len({a for _, a in rows()})} sections")
    if options.site and not wrong:
        write_site(options.site)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
