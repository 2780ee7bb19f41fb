#!/usr/bin/env python3
"""Checks the shape of the code: which folder of src/ includes which, that each class is in one source, that
functions fit a screen, and that no word is used which the glossary has replaced.

Each line of ARROWS names a folder of src/ and those that it may include besides src/base and the
public headers. The demo includes nothing but those headers.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

WIRE, URL, TRANSPORT = "redis/wire", "redis/url", "redis/transport"
CONNECT, EMBEDDED = "redis/connect", "redis/embedded"
LINK, SERVER_GROUP = "redis/link", "redis/server_group"
QUORUM = "quorum"
STATE, LOCK = "lock/state", "lock"
TERM, INSPECT = "cli/term", "cli/inspect"
BELOW_TERM = [WIRE, URL, TRANSPORT, CONNECT, EMBEDDED, LINK, SERVER_GROUP, LOCK]

ARROWS = {
    "base": [],
    WIRE: [],
    TRANSPORT: [],
    URL: [TRANSPORT],
    EMBEDDED: [],
    CONNECT: [WIRE, URL, TRANSPORT, EMBEDDED],
    LINK: [WIRE, URL, TRANSPORT, CONNECT],
    SERVER_GROUP: [WIRE, URL, TRANSPORT, CONNECT, LINK],
    QUORUM: [WIRE, LINK, SERVER_GROUP, STATE, LOCK],
    STATE: [],
    LOCK: [WIRE, URL, LINK, SERVER_GROUP, STATE],
    "api": [WIRE, URL, SERVER_GROUP, STATE, LOCK, QUORUM],
    "demo": [],
    TERM: BELOW_TERM,
    INSPECT: [TERM, QUORUM, *BELOW_TERM],
    "cli/completion": [INSPECT, TERM, *BELOW_TERM],
    "cli/doctor": [INSPECT, TERM, *BELOW_TERM],
    "cli/leader": [TERM, *BELOW_TERM],
    "cli/run": [INSPECT, TERM, *BELOW_TERM],
    "cli/top": [INSPECT, TERM, *BELOW_TERM],
    "cli": ["cli/completion", "cli/doctor", "cli/leader", "cli/run", "cli/top", INSPECT, TERM],
}


# Where the old words are searched for. Quoted text is what tests assert, or what is on the wire.
WORDS_IN = {"src": ["*.h", "*.cc"], "include": ["*.h"], "lua": ["*.lua", "*.md"], "tests": ["*.h", "*.cc"],
            "benchmarks": ["*.h", "*.cc"], "docs/tutorials": ["*.md"], "docs/recipes": ["*.md"],
            "docs/code": ["*.h", "*.cc"]}
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
LONGEST_FUNCTION = 60
DEEPEST_NESTING = 5  # of conditions and loops in a function
NESTS = re.compile(r" *(if|for|while|switch|do)\b.*[^;]$")
METHOD = re.compile(r"^[A-Za-z_][^\n;=]*?\b(\w+)(?:<[^>]*>)?::~?(?:\w+|operator[^(]*)\(", re.M)
ABSEIL_HEADERS = {
    "StrCat|StrAppend": "absl/strings/str_cat.h",
    "StrJoin": "absl/strings/str_join.h",
    "StrSplit": "absl/strings/str_split.h",
    "StrFormat": "absl/strings/str_format.h",
    "StrReplaceAll": "absl/strings/str_replace.h",
    "SimpleAto[id]": "absl/strings/numbers.h",
    "StartsWith|EndsWith|StrContains|EqualsIgnoreCase": "absl/strings/match.h",
    "Consume(?:Prefix|Suffix)|Strip(?:Prefix|Suffix)": "absl/strings/strip.h",
    "C?HexEscape|CEscape|Utf8SafeCEscape|BytesToHexString": "absl/strings/escaping.h",
    "AsciiStr\\w+|StripAsciiWhitespace|ascii_\\w+": "absl/strings/ascii.h",
    "Cleanup": "absl/cleanup/cleanup.h",
    "Span|MakeSpan|MakeConstSpan": "absl/types/span.h",
    "InlinedVector": "absl/container/inlined_vector.h",
    "FunctionRef": "absl/functional/function_ref.h",
    "AnyInvocable": "absl/functional/any_invocable.h",
    "StatusOr": "absl/status/statusor.h",
}


def arrow_faults(path, lines):
    folder = path.parent.relative_to(ROOT / "src").as_posix()
    if folder not in ARROWS:
        yield "is in a folder that .ci/house.py does not know"
        return
    for number, line in enumerate(lines, 1):
        included = re.match(r'#include "src/(.*)/[^/]*"', line)
        if not included or included[1] == folder or (included[1] == "base" and folder != "demo"):
            continue
        if included[1] not in ARROWS[folder]:
            yield f"line {number}: {folder} may not include {included[1]}"


def function_faults(lines):
    """Functions that begin in the first column, or inside a class: too long, or nested too deeply."""
    start = None
    for number, line in enumerate(lines, 1):
        if re.match(r"[A-Za-z_~]", line) and not re.match(r"(namespace|public|private|protected)\b", line):
            start = number
        if not line.startswith("}") or start is None:
            continue
        head = " ".join(lines[start - 1:start + 3]).split("{")[0]
        if "(" in head and not re.match(r"(class|struct|enum|constexpr|const|inline constexpr)\b", head):
            if number - start + 1 > LONGEST_FUNCTION:
                yield f"line {start}: a function of {number - start + 1} lines; {LONGEST_FUNCTION} are enough"
            depth = max((len(each) - len(each.lstrip())) // 2 for each in lines[start - 1:number]
                        if NESTS.match(each) or each is lines[start - 1])
            if depth > DEEPEST_NESTING:
                yield f"line {start}: a function nests {depth} levels deep; {DEEPEST_NESTING} are enough"
        start = None


def class_faults(sources):
    """Classes whose methods are defined in more than one source."""
    where = {}
    for path, text in sources.items():
        if path.suffix != ".cc":
            continue
        namespace = re.search(r"^namespace (redlatch[\w:]*)", text, re.M)
        for name in set(METHOD.findall(text)):
            if name not in ("absl", "std"):
                where.setdefault((namespace and namespace[1], name), []).append(path)
    for (_, name), paths in sorted(where.items(), key=str):
        if len(paths) > 1:
            names = ", ".join(str(path.relative_to(ROOT)) for path in paths)
            yield f"{name} is in more than one source: {names}"


def included_by(path, seen):
    """What a file includes, itself or by headers of ours."""
    found = set()
    for name in re.findall(r'#include "(.*)"', path.read_text()):
        found.add(name)
        for ours in (ROOT / name, ROOT / "include" / name):
            if ours.exists() and ours not in seen:
                seen.add(ours)
                found |= included_by(ours, seen)
    return found


def include_faults(path, text):
    """Uses of Abseil's strings without their headers, which others include on one Debian only."""
    code = re.sub(r"//.*", "", text)
    has = included_by(path, {path})
    for symbols, header in ABSEIL_HEADERS.items():
        used = re.search(rf"absl::(?:{symbols})\b", code)
        if used and header not in has:
            yield f"{used[0]} needs {header}"


def old_words():
    """The words that the glossary replaced, each with what to say instead."""
    for line in (ROOT / ".ci/old_words.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern, _, instead = line.partition("\t")
            yield re.compile(pattern), instead


def word_faults(path, text, words):
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix != ".md":
            line = QUOTED.sub('""', line)
        for pattern, instead in words:
            found = pattern.search(line)
            if found:
                yield f'line {number}: "{found[0]}"; say {instead}'


def main():
    sources = {path: path.read_text() for path in sorted((ROOT / "src").rglob("*.[ch]*"))}
    found = list(class_faults(sources))
    for path, text in sources.items():
        lines = text.splitlines()
        for fault in [*arrow_faults(path, lines), *function_faults(lines), *include_faults(path, text)]:
            found.append(f"{path.relative_to(ROOT)}: {fault}")
    words = list(old_words())
    for folder, names in WORDS_IN.items():
        for path in sorted(found_path for name in names for found_path in (ROOT / folder).rglob(name)):
            found += [f"{path.relative_to(ROOT)}: {fault}" for fault in word_faults(path, path.read_text(), words)]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
