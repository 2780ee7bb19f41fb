#!/usr/bin/env python3
"""Writes the API reference: a page per public header, and symbols.json, which says where each symbol is.

api.py DIR    DIR is the copy of the documents from which the site is built (./dev docs)

Doxygen's XML says which symbols there are and in which line each is declared. Declarations and
comments are then read from the headers themselves, so that the pages say what the headers say. What
is in namespace internal, private or deleted, or "For the library.", is left out.
"""
import html
import json
import pathlib
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include"
CONSTANTS = {"REDLATCH_VERSION_MAJOR", "REDLATCH_VERSION_MINOR", "REDLATCH_VERSION_PATCH",
             "REDLATCH_VERSION_STRING", "REDLATCH_EXPORT"}
# The namespaces in redlatch that are public. Each has a folder of headers with its name.
SPACES = ["redisson::"]
DOXYFILE = """
INPUT = {headers}
OUTPUT_DIRECTORY = {output}
RECURSIVE = YES
FILE_PATTERNS = *.h
EXTRACT_ALL = YES
EXTRACT_PRIVATE = YES
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
GENERATE_HTML = NO
GENERATE_LATEX = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = REDLATCH_EXPORT= REDLATCH_LOCKABLE= REDLATCH_LOCKS()= REDLATCH_LOCKS_SHARED()= \\
             REDLATCH_TRIES_TO_LOCK()= REDLATCH_TRIES_TO_LOCK_SHARED()= REDLATCH_UNLOCKS()=
QUIET = YES
WARNINGS = NO
"""


class Symbol:
    """A class, function, variable, alias, enumeration or enumerator, as a header declares it."""

    def __init__(self, name, kind, line, scope=None, access="public"):
        self.name, self.kind, self.line, self.scope, self.access = name, kind, line, scope, access
        self.space = ""  # its namespace in redlatch, such as "redisson::"
        self.members, self.bases = [], []
        self.header, self.comment, self.text, self.note = None, [], "", ""
        self.column, self.above, self.first, self.last = 0, line, line, line

    @property
    def path(self):
        return f"{self.scope.path}::{self.name}" if self.scope else self.space + self.name

    @property
    def anchor(self):
        words = {"~": "destructor-", "operator+=": "operator-add", "operator=": "operator-assign"}
        path = self.path
        for sign, word in words.items():
            path = path.replace(sign, word)
        return re.sub(r"\W+", "-", path).strip("-")

    @property
    def title(self):
        called = self.kind == "function" and not self.name.startswith("operator")
        return f"{self.name}()" if called else self.name


def indent_of(line):
    return len(line) - len(line.lstrip())


def is_comment(line):
    return line.lstrip().startswith("//")


def without_marks(line):
    """A line of code without what is said to compilers and linters."""
    line = re.sub(r"\s*// NOLINT.*", "", line)
    line = re.sub(r"\bREDLATCH_(?:TRIES_TO_|UN)?LOCK\w*(?:\(\))?", "", line)
    line = re.sub(r"\bREDLATCH_(?:EXPORT|UNCHECKED)\b ?", "", line)
    return re.sub(r"(?<=\S) +(?= |;|$)", "", line.rstrip()) if line.strip() else ""


class Source:
    """A header: what it says about each symbol."""

    def __init__(self, path):
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()

    def opening(self):
        """The comment with which the header begins."""
        lines = []
        for line in self.lines:
            if not is_comment(line):
                break
            lines.append(line)
        return self.stripped(lines)

    @staticmethod
    def stripped(lines):
        lines = [re.sub(r"^\s*// ?", "", line) for line in lines]
        return [line for line in lines if not line.startswith("NOLINT")]

    def first_line_of(self, symbol):
        """The line in which the declaration begins, which Doxygen does not say of templates."""
        first = symbol.line - 1
        while first > 0:
            above = re.sub(r"\s//.*$", "", self.lines[first - 1]).strip()
            if not above or is_comment(above) or above.startswith("#") or above[-1] in ";{}:,>":
                if not above.startswith("template"):
                    break
            first -= 1
        return first

    def read(self, symbol):
        first = self.first_line_of(symbol)
        symbol.first = first
        above = first
        while above > 0 and is_comment(self.lines[above - 1]) and (
                indent_of(self.lines[above - 1]) == indent_of(self.lines[first])):
            above -= 1
        symbol.comment = self.stripped(self.lines[above:first])
        symbol.above = above
        last = self.read_declaration(symbol, first)
        symbol.last = last
        if symbol.kind in ("variable", "enumvalue"):
            self.read_note(symbol, last)

    def read_declaration(self, symbol, first):
        """Fills in the text, without the body, and returns the last line of it."""
        text, depth = "", 0
        exported = len("REDLATCH_EXPORT ") * self.lines[first].startswith("REDLATCH_EXPORT ")
        for number in range(first, len(self.lines)):
            line = re.sub(r"\s+//.*$", "", without_marks(self.lines[number]))
            if exported and number > first:
                line = line[min(exported, indent_of(line)):]
            for at, char in enumerate(line):
                depth += (char in "([") - (char in ")]")
                if depth or symbol.kind == "define":
                    continue
                ends = char == ";" or (symbol.kind == "enumvalue" and char in ",}")
                opens = char == "{" and symbol.kind not in ("variable", "typedef")
                colon = char == ":" and symbol.kind == "function" and line[at - 1:at] in (" ", "") and (
                    line[at + 1:at + 2] == " ")
                if ends or opens or colon:
                    text += line[:at].rstrip()
                    symbol.text = textwrap.dedent(text).strip()
                    return number
            text += line + "\n" if line else ""
            if symbol.kind == "define":
                break
        symbol.text = textwrap.dedent(text).strip()
        return first

    def read_note(self, symbol, last):
        """The comment behind a member, which may go on in the lines below."""
        match = re.search(r"\s//\s?(?!NOLINT)(.*)$", self.lines[last])
        notes = [match[1]] if match else []
        while match and is_comment(self.lines[last + 1]) and (
                indent_of(self.lines[last + 1]) > indent_of(self.lines[symbol.first])):
            last += 1
            notes += self.stripped([self.lines[last]])
        symbol.note, symbol.last = " ".join(notes), last


class Reference:
    """All public symbols, by header."""

    def __init__(self, xml_folder):
        self.folder = xml_folder
        self.headers, self.symbols = {}, {}
        self.sources = {}
        index = self.parse("index.xml")
        for compound in index.iter("compound"):
            name = compound.findtext("name")
            if compound.get("kind") == "file" and "internal" not in name:
                self.read_macros(self.parse(compound.get("refid") + ".xml").find("compounddef"))
        self.read_namespace(self.parse("namespaceredlatch.xml").find("compounddef"))
        for space in SPACES:
            name = f"namespaceredlatch_1_1{space.removesuffix('::')}.xml"
            self.read_namespace(self.parse(name).find("compounddef"), space)
        for members in self.headers.values():
            members.sort(key=lambda symbol: symbol.line)
            for symbol in members:
                self.register(symbol)

    def parse(self, name):
        return xml.etree.ElementTree.parse(self.folder / name).getroot()

    def file_of(self, node):
        """The header that shows a symbol: what a file of internal/ declares belongs to its user."""
        path = pathlib.Path(node.find("location").get("file")).resolve()
        source = self.sources.setdefault(path, Source(path))
        if path.parent.name == "internal":
            name = path.relative_to(HEADERS).as_posix()
            path = next(each for each in sorted((HEADERS / "redlatch").glob("*.h"))
                        if f'#include "{name}"' in each.read_text(encoding="utf-8"))
        return path.relative_to(HEADERS).as_posix(), source

    def add(self, node, symbol):
        symbol.header, source = self.file_of(node)
        source.read(symbol)
        self.headers.setdefault(symbol.header, []).append(symbol)

    def read_macros(self, compound):
        for node in compound.iter("memberdef"):
            if node.get("kind") == "define" and node.findtext("name") in CONSTANTS:
                name = node.findtext("name")
                if name not in (each.name for all_ in self.headers.values() for each in all_):
                    self.add(node, Symbol(name, "define", int(node.find("location").get("line"))))

    def read_namespace(self, compound, space=""):
        for inner in compound.findall("innerclass"):
            node = self.parse(inner.get("refid") + ".xml").find("compounddef")
            if node.findtext("compoundname").count("::") == 1 + space.count("::"):
                self.add(node, self.read_class(node, None, space))
        for node in compound.iter("memberdef"):
            symbol = self.read_member(node, None)
            symbol.space = space
            self.add(node, symbol)

    def read_class(self, node, scope, space=""):
        name = node.findtext("compoundname").split("::")[-1]
        symbol = Symbol(name, node.get("kind"), int(node.find("location").get("line")), scope,
                        node.get("prot"))
        symbol.space = space
        symbol.bases = [self.space_of(base.text) + base.text.split("::")[-1]
                        for base in node.findall("basecompoundref") if base.get("prot") == "public"]
        source = self.file_of(node)[1]
        for inner in node.findall("innerclass"):
            if inner.get("prot") != "private":
                member = self.parse(inner.get("refid") + ".xml").find("compounddef")
                child = self.read_class(member, symbol)
                source.read(child)
                symbol.members.append(child)
        for member in node.iter("memberdef"):
            child = self.read_member(member, symbol)
            source.read(child)
            of_base = child.name in (base.split("::")[-1] for base in symbol.bases)  # its constructors
            if self.is_shown(child, member) and not of_base:
                symbol.members.append(child)
        symbol.members.sort(key=lambda each: (each.line, each.column))
        self.leave_out_the_librarys(symbol, source)
        return symbol

    @staticmethod
    def space_of(name):
        return next((space for space in SPACES if f"redlatch::{space}" in name), "")

    def read_member(self, node, scope):
        location = node.find("location")
        symbol = Symbol(node.findtext("name"), node.get("kind"), int(location.get("line")), scope,
                        node.get("prot"))
        symbol.column = int(location.get("column"))
        if symbol.kind == "enum":
            source = self.file_of(node)[1]
            for value in node.findall("enumvalue"):
                self.read_value(symbol, value.findtext("name"), source)
        return symbol

    @staticmethod
    def read_value(symbol, name, source):
        for number in range(symbol.line - 1, len(source.lines)):
            if re.match(rf"\s*{name}\b", source.lines[number]) or (
                    number == symbol.line - 1 and re.search(rf"[{{,]\s*{name}\b", source.lines[number])):
                value = Symbol(name, "enumvalue", number + 1, symbol)
                source.read(value)
                symbol.members.append(value)
                return

    @staticmethod
    def is_shown(symbol, node):
        virtual = node.get("virt") in ("virtual", "pure-virtual")
        overrides = re.search(r"\boverride\b", symbol.text)
        if symbol.access == "private":
            return bool(virtual and not overrides)
        return "= delete" not in symbol.text and not overrides and symbol.kind != "friend"

    @staticmethod
    def leave_out_the_librarys(symbol, source):
        """What stands under "For the library.", up to the next blank line."""
        shown = []
        for member in symbol.members:
            line = member.first
            while line > 0 and source.lines[line - 1].strip():
                line -= 1
            group = source.lines[line:member.first]
            if not any(re.search(r"// .*[Ff]or the library\.", each) for each in group):
                shown.append(member)
        symbol.members = shown

    def register(self, symbol):
        self.symbols.setdefault(symbol.path, symbol)
        for member in symbol.members:
            member.header = symbol.header
            self.register(member)

    def find(self, name, scope=None, space=""):
        """The symbol that a name means in a class's comment: in the class itself, its bases or its
        namespace."""
        if name.startswith("redlatch::"):
            name, space = name.removeprefix("redlatch::"), ""
        while scope is not None:
            for owner in [scope, *(self.symbols[base] for base in scope.bases if base in self.symbols)]:
                found = self.symbols.get(f"{owner.path}::{name}")
                if found and name != owner.name:
                    return found
            scope = scope.scope
        return self.symbols.get(space + name) or self.symbols.get(name) or self.of_base(name)

    def of_base(self, name):
        """Of Class::member, where the class has the member from its base."""
        owner, _, member = name.rpartition("::")
        for base in self.symbols[owner].bases if owner in self.symbols else ():
            found = self.find(f"{base}::{member}")
            if found:
                return found
        return None


class Prose:
    """Turns the comments of one header into Markdown."""

    WORDS = re.compile(r"""
        `(?P<code>[^`]+)`
        | (?P<statement>absl::\w+(?:<[^>]*>)?\ \w+\ =\ [^;]*;)
        | (?P<url>\b[a-z-]+://[^\s,;)]*)
        | (?P<page>\b(?:docs|lua)/[\w/.-]+\.md(?:\#[\w-]+)?)
        | (?P<name>~?(?<![\w.])(?:[A-Za-z_]\w*::)*~?[A-Za-z_]\w*(?:\([^()\s]*\))?)
        | (?P<special>[\\*_\[\]<>|&\#])
        """, re.X)

    def __init__(self, reference, header):
        self.reference, self.header = reference, header
        self.space = space_of_header(header) if header else ""

    def link(self, symbol, text):
        page = "" if symbol.header == self.header else page_of(symbol.header)
        return f"[`{text}`]({page}#{symbol.anchor})"

    def inline(self, text, scope=None, own=None):
        def word(match):
            if match["code"]:
                return self.name(match["code"], scope, own) or f"`{match['code']}`"
            if match["url"] or match["statement"]:
                return f"`{match['url'] or match['statement']}`"
            if match["page"]:
                shown = match["page"]
                target = f"../{shown[5:]}" if shown.startswith("docs/") else f"../../{shown}"
                return f"[{shown}]({target})"
            if match["name"]:
                begins = not match.start() or text[match.start() - 2:match.start()] == ". "
                if begins and re.fullmatch(r"[A-Z][a-z]+", match["name"]):
                    return match["name"]  # the first word of a sentence
                return self.name(match["name"], scope, own) or match["name"].replace("_", "\\_")
            return f"&{ {'<': 'lt', '>': 'gt', '&': 'amp'}[match[0]] };".replace(" ", "") \
                if match[0] in "<>&" else "\\" + match[0]
        return self.WORDS.sub(word, text)

    def name(self, text, scope, own):
        """As code, and linked if it is a symbol; nothing if it is a word like any other."""
        bare = re.sub(r"\(.*\)$", "", text)
        symbol = self.reference.find(bare, scope, self.space)
        code = (text != bare or "::" in text or "_" in text.strip("_") or re.match(r"k[A-Z]", text))
        if symbol and symbol.scope and not code and text == text.lower():
            return None  # a word that is the name of a member too
        if symbol and symbol is not own:
            return self.link(symbol, text)
        return f"`{text}`" if code or symbol else None

    def blocks(self, lines, scope=None, own=None):
        """Paragraphs, tables and code of a comment."""
        result, paragraph, block = [], [], []

        def flush():
            if paragraph:
                result.append(self.inline(" ".join(paragraph).replace(":: ", "::"), scope, own))
                paragraph.clear()
            parts = textwrap.dedent("\n".join(block)).strip("\n").split("\n\n") if block else []
            for part in parts:
                text = self.block(part.splitlines(), scope, own)
                if text.startswith("```cpp") and part is not parts[0] and result[-1].startswith("```cpp"):
                    text = result.pop().removesuffix("```") + "\n" + text.removeprefix("```cpp\n")
                result.append(text)
            block.clear()

        for line in lines:
            if line.startswith("  ") or (block and not line):
                if not block:
                    flush()
                block.append(line)
            elif line:
                if block:
                    flush()
                paragraph.append(line)
            else:
                flush()
        flush()
        return "\n\n".join(result)

    def block(self, lines, scope, own):
        rows = [list(re.finditer(r"\S+(?: \S+)*", line)) for line in lines]
        code = any(re.search(r"([;{)]|\}\))$|;\s+//", line) for line in lines)
        if len(rows[0]) < 2 or re.search(r"[;{]($|\s+//)", lines[0]):
            language = "cpp" if code or "(" in lines[0] else "text"
            return f"```{language}\n" + "\n".join(lines) + "\n```"
        return self.table(rows, scope, own)

    def table(self, rows, scope, own):
        """A table by its columns. A line that does not begin in the first one continues a row."""
        starts = [cell.start() for cell in rows[0]]
        if starts[0] > 1:
            starts.insert(0, 0)
        cells = []
        for row in filter(None, rows):
            # Cells below all but the first column are a row that has the first cell in common.
            continued = cells and row[0].start() > 0 and not (
                row[0].start() >= starts[1] and 1 < len(row) == len(starts) - 1)
            if not continued:
                cells.append({})
            for cell in row:
                column = max(i for i, start in enumerate(starts) if start <= cell.start())
                cells[-1][column] = f"{cells[-1].get(column, '')} {cell[0]}".strip()
        headed = not re.match(r"k[A-Z]", cells[0].get(0, ""))
        out = ["<table>"]
        if headed:
            out.append("<thead>" + self.row(cells.pop(0), len(starts), "th", scope, own) + "</thead>")
        out += ["<tbody>", *(self.row(row, len(starts), "td", scope, own) for row in cells),
                "</tbody>", "</table>"]
        return "\n".join(out)

    def row(self, cells, columns, tag, scope, own):
        out, at = [], 0
        while at < columns:
            last = at + 1
            while last < columns and last not in cells and tag == "td" and at in cells and (
                    max(cells) > last and len(cells) > 1):
                last += 1
            span = f' colspan="{last - at}"' if last - at > 1 else ""
            out.append(f"<{tag}{span}>{self.as_html(cells.get(at, ''), scope, own)}</{tag}>")
            at = last
        return "<tr>" + "".join(out) + "</tr>"

    def as_html(self, text, scope, own):
        """As inline(), inside of HTML, where Markdown is left alone."""
        text = self.inline(text, scope, own)
        text = re.sub(r"\[`([^`]+)`\]\(([^)]*)\)", lambda link: (
            f'<a href="{link[2].replace(".md", ".html")}"><code>{html.escape(link[1])}</code></a>'), text)
        text = re.sub(r"\[([^\]`]+)\]\(([^)]*)\)", lambda link: (
            f'<a href="{link[2].replace(".md", ".html")}">{link[1]}</a>'), text)
        text = re.sub(r"`([^`]+)`", lambda code: f"<code>{html.escape(code[1])}</code>", text)
        return re.sub(r"\\([\\*_\[\]|#])", r"\1", text)


def space_of_header(header):
    return next((space for space in SPACES if pathlib.PurePosixPath(header).parts[1:-1] == (space[:-2],)), "")


def page_of(header):
    return space_of_header(header).replace("::", "_") + pathlib.PurePosixPath(header).stem + ".md"


def first_sentence(lines):
    text = " ".join(line for line in lines if not line.startswith("  "))
    return re.split(r"(?<=\.)\s", text, maxsplit=1)[0]


class Page:
    """The page of a header."""

    def __init__(self, reference, header):
        self.reference, self.header = reference, header
        self.prose = Prose(reference, header)
        self.source = Source(HEADERS / header)
        self.out, self.anchors = [], set()

    def say(self, *blocks):
        self.out += [block for block in blocks if block]

    def text(self):
        opening = self.source.opening()
        self.say(f"# {self.header.removeprefix('redlatch/')}", self.prose.blocks(opening),
                 f'```cpp\n#include "{self.header}"\n```')
        free = [symbol for symbol in self.reference.headers[self.header]]
        for group in self.groups(free):
            if group[0].kind in ("class", "struct"):
                self.write_class(group[0], 2)
            else:
                self.write_group(group, None, 2)
        return "\n\n".join(self.out) + "\n"

    def groups(self, symbols):
        """Those that share a comment: no blank line and no comment between them."""
        groups = []
        for symbol in symbols:
            source = self.source_of(symbol)
            alone = symbol.kind in ("class", "struct", "enum") or symbol.comment
            last = groups[-1][-1] if groups else None
            gap = last is None or last.kind in ("class", "struct", "enum") or any(
                not line.strip() for line in source.lines[last.last:symbol.first])
            overload = last is not None and symbol.kind == "function" and last.name == symbol.name
            if gap or (alone and not overload) or (
                    (symbol.kind == "variable") != (last.kind == "variable")):
                groups.append([symbol])
            else:
                groups[-1].append(symbol)
        return groups

    def source_of(self, symbol):
        while symbol.scope:
            symbol = symbol.scope
        for path, source in self.reference.sources.items():
            if symbol.line <= len(source.lines) and re.search(
                    rf"\b{re.escape(symbol.name)}\b", source.lines[symbol.line - 1]) and (
                    path.relative_to(HEADERS).as_posix() == symbol.header or path.parent.name == "internal"):
                return source
        raise RuntimeError(f"{symbol.path} is in no header")

    def heading(self, level, group, words=""):
        names = list(dict.fromkeys(symbol.title for symbol in group))
        shown = ", ".join(f"`{name}`" for name in names)
        anchors = [anchor for anchor in dict.fromkeys(symbol.anchor for symbol in group)
                   if anchor not in self.anchors] or [f"{group[0].anchor}-{len(self.anchors)}"]
        self.anchors.update(anchors)
        others = "".join(f'<span id="{anchor}"></span>' for anchor in anchors[1:])
        self.say(others, f"{'#' * level} {words}{shown} {{#{anchors[0]}}}")

    def code(self, group):
        ends = {"define": "", "enumvalue": ","}
        self.say("```cpp\n" + "\n".join(
            symbol.text + ends.get(symbol.kind, ";") for symbol in group) + "\n```")

    def write_class(self, symbol, level):
        self.heading(level, [symbol], f"{symbol.kind} ")
        if symbol.bases:
            bases = (self.prose.name(base, None, None) or base for base in symbol.bases)
            self.say("Inherits " + ", ".join(bases) + ".")
        self.say(self.prose.blocks(symbol.comment, symbol, symbol))
        access = None
        for group in self.groups(symbol.members):
            if group[0].access != access and group[0].access != "public":
                self.say({"protected": "*For subclasses:*", "private": "*For subclasses to override:*"}
                         [group[0].access])
            access = group[0].access
            if group[0].kind in ("class", "struct"):
                self.write_class(group[0], level + 1)
            else:
                self.write_group(group, symbol, level + 1)
        self.write_inherited(symbol)

    def write_inherited(self, symbol):
        for base in self.bases_of(symbol):
            names = {}
            for member in base.members:
                if member.access == "public" and member.name[0] not in "~" and member.name != base.name:
                    names.setdefault(member.title, member)
            self.say_from(base, names)
        for name, members in self.used(symbol).items():
            base = self.reference.symbols[name]
            self.say_from(base, {each.title: each for each in base.members if each.name in members})

    def bases_of(self, symbol):
        """Its public bases, theirs, and so on."""
        found = [self.reference.symbols[name] for name in symbol.bases if name in self.reference.symbols]
        return [each for base in found for each in [base, *self.bases_of(base)]]

    def say_from(self, base, names):
        links = ", ".join(self.prose.link(member, title) for title, member in names.items())
        self.say(f"From {self.prose.link(base, base.name)}: {links}.")

    def used(self, symbol):
        """What a class takes from a private base by `using`: names, by class."""
        lines = self.source_of(symbol).lines[symbol.line:]
        body = "\n".join(lines[:next((i for i, line in enumerate(lines) if line == "};"), 0)])
        found = {}
        for base, member in re.findall(r"^ +using redlatch::(\w+)::(\w+);$", body, re.M):
            found.setdefault(base, set()).add(member)
        return found

    def write_group(self, group, scope, level):
        first = group[0]
        if first.kind == "enum":
            self.heading(level, group, "enum " if level == 2 else "")
            self.say(self.prose.blocks(first.comment, scope, first))
            self.code([first])
            self.members_table(first.members, scope, values=True)
        elif first.kind == "variable" and scope and (len(group) > 1 or first.note):
            self.say(self.prose.blocks(first.comment, scope, first))
            self.members_table(group, scope)
        else:
            self.heading(level, group)
            while group:  # overloads may have a comment each
                count = next((i for i, each in enumerate(group) if i and each.comment), len(group))
                self.code(group[:count])
                self.say(self.prose.blocks(group[0].comment, scope, group[0]))
                self.say(*(self.prose.inline(each.note, scope, each) for each in group[:count]))
                group = group[count:]

    def members_table(self, members, scope, values=False):
        rows = []
        for member in members:
            declared = member.text
            name = re.escape(member.name)
            match = re.match(rf"(.*?)\s*\b{name}\b(?:\s*=\s*(.*))?$", declared, re.S)
            kind, value = (match[1], match[2] or "") if match else (declared, "")
            notes = self.prose.as_html(member.note, scope, member)
            if values:
                rows.append(f'<tr><td id="{member.anchor}"><code>{member.name}</code></td>'
                            f"<td>{notes}</td></tr>")
                continue
            kind = kind.replace("\n", " ")
            default = "" if value in ("", "{}") else f" = <code>{html.escape(value)}</code>"
            rows.append(f'<tr><td id="{member.anchor}"><code>{member.name}</code></td>'
                        f"<td><code>{html.escape(kind)}</code>{default}</td><td>{notes}</td></tr>")
        head = "<th>value</th><th>meaning</th>" if values else (
            "<th>member</th><th>type and default</th><th>meaning</th>")
        if all(row.endswith("<td></td></tr>") for row in rows):  # nothing says what a member means
            head = head.replace("<th>meaning</th>", "")
            rows = [row.removesuffix("<td></td></tr>") + "</tr>" for row in rows]
        self.say("\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *rows, "</tbody>",
                            "</table>"]))


def index_text(reference):
    prose = Prose(reference, None)
    out = ["# API reference", "Each public header has a page. It says what the header's comments say, which are the "
           "contract. All names are in namespace `redlatch`, and those of `redlatch/redisson/` in `redlatch::redisson`; "
           "what is in `redlatch::internal` is not for programs.",
           "| header | names | purpose |\n|---|---|---|"]
    rows = []
    for header in sorted(reference.headers):
        names = dict.fromkeys(symbol.path for symbol in reference.headers[header]
                              if not symbol.name.startswith("operator"))
        links = ", ".join(prose.link(reference.symbols[name], name) for name in names)
        purpose = first_sentence(Source(HEADERS / header).opening())
        rows.append(f"| [{header.removeprefix('redlatch/')}]({page_of(header)}) | {links} | "
                    f"{prose.inline(purpose)} |")
    out[-1] += "\n" + "\n".join(rows)
    return "\n\n".join(out) + "\n"


def main():
    site = pathlib.Path(sys.argv[1])
    work = site.parent / "doxygen"
    work.mkdir(parents=True, exist_ok=True)
    (work / "Doxyfile").write_text(DOXYFILE.format(headers=HEADERS, output=work))
    subprocess.run(["doxygen", str(work / "Doxyfile")], check=True)
    reference = Reference(work / "xml")
    pages = site / "docs" / "api"
    pages.mkdir(parents=True, exist_ok=True)
    for header in reference.headers:
        (pages / page_of(header)).write_text(Page(reference, header).text(), encoding="utf-8")
    (pages / "index.md").write_text(index_text(reference), encoding="utf-8")
    symbols = {path: {"page": f"docs/api/{page_of(symbol.header)}".replace(".md", ".html"),
                      "anchor": symbol.anchor, "kind": symbol.kind, "bases": symbol.bases}
               for path, symbol in sorted(reference.symbols.items())}
    (work / "symbols.json").write_text(json.dumps(symbols, indent=1))
    public = sorted(path.relative_to(HEADERS).as_posix() for path in (HEADERS / "redlatch").rglob("*.h")
                    if path.parent.name != "internal")
    missing = [header for header in public if header not in reference.headers]
    for header in missing:
        print(f"{header} has no page: Doxygen found no public symbol in it")
    print(f"{len(reference.headers)} pages of headers, {len(symbols)} symbols")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
