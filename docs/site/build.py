#!/usr/bin/env python3
"""What surrounds MkDocs when the site is built: `./dev docs` calls both.

build.py prepare    completes build/docs, the copy of the documents, and writes build/mkdocs.yml
build.py finish     completes build/site, the pages that MkDocs wrote, and checks the links to the API

prepare adds the style, the man page as a page, and the pages of the folders that mkdocs.yml names. It
also says in which language a block of shell commands is. finish links the first mention of each public
symbol in each page of FIRST_MENTIONS to the symbol's page, and makes tables, pictures and code scroll by
themselves.
"""
import html
import json
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS, SITE = ROOT / "build" / "docs", ROOT / "build" / "site"
SYMBOLS = ROOT / "build" / "doxygen" / "symbols.json"
FIRST_MENTIONS = ("docs/tutorials/*.html", "docs/recipes/*.html", "docs/guarantees.html", "README.html",
                  "index.html", "docs/troubleshooting.html")
COMMANDS = re.compile(r"(\$ )?(sudo |[A-Z_]+=\S+ )*(redlatch|\./dev|cmake|g\+\+|export|apt-get|apt|redis-cli|"
                      r"docker|git|cd|kubectl|systemctl|\./first|valkey-cli|redis-server|\.ci/\w+|ctest)(?=\s|$)")
QUANTITY = re.compile(r"(?<![\w.])(\d[\d.,]*) (µs|ms|s|min|h|%|×|kB|MB|GB|px)(?!\w)")
# Which class a member is meant of, if several have it and the text does not say.
PREFERRED = ("RedisLockBase", "Lease", "Hold", "Client", "Semaphore", "CountDownLatch", "Election",
             "Leadership", "ReentrantReadWriteLock", "LockOptions", "AcquireOptions", "ClientOptions",
             "Observer")


# ---- prepare


def page_of_manual():
    """The man page as Markdown: its headings as such, so that the theme lists them, and HTML."""
    text = subprocess.run(["mandoc", "-T", "html", "-O", "fragment", "docs/man/redlatch.1"], cwd=ROOT,
                          check=True, capture_output=True, text=True).stdout
    text = re.sub(r'<table class="(head|foot)">.*?</table>', "", text, flags=re.S)
    text = re.sub(r"</?section[^>]*>|</?div[^>]*>", "", text)
    section = ""

    def heading(match):
        nonlocal section
        name = " ".join(html.unescape(re.sub("<[^>]*>", "", match[2])).split())
        anchor = re.sub(r"\W+", "-", name.lower())
        if match[1] == "1":
            section, level = anchor, "##"
            name = f"`{name.lower()}`" if name.startswith("REDLATCH ") else name.capitalize()
        else:
            anchor, level = f"{section}-{anchor}", "###"
        return f"\n\n{level} {name} {{#{anchor}}}\n\n"

    text = re.sub(r'<h([12]) class="S[hs]"[^>]*>(.*?)</h\1>', heading, text, flags=re.S)
    text = re.sub(r'<a class="permalink" href="[^"]*">(.*?)</a>', r"\1", text, flags=re.S)
    text = re.sub(r"<b>(.*?)</b>", lambda typed: f"<code>{' '.join(typed[1].split())}</code>", text, flags=re.S)
    text = re.sub(r"(?<![\w>-])--?[a-z][a-z-]*(?:=\w+)?(?![\w<-])(?=[^<>]*<(?!/code|/pre))", r"<code>\g<0></code>", text)
    text = re.sub(r"\[[\w -]+\](?=[^<]*</code>)", r'<span class="whole">\g<0></span>', text)
    text = re.sub(r' (?:class="(?:Bl-tag|Pp|Bd-indent)"|id="[^"]*")(?=[ >])', "", text)
    return "# redlatch(1): the command\n" + text.replace("\n<p>", "\n\n<p>").replace("</p>\n", "</p>\n\n")


def language_of(lines):
    """The language of a block that names none, as far as it is obvious; else an empty text."""
    lines = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    starts = [line for before, line in zip(["", *lines], lines) if not before.endswith("\\")]
    if starts and COMMANDS.match(starts[0]) and not starts[0].startswith("$"):
        return "sh"
    if starts and any(line.startswith("$ ") for line in starts):
        return "console"
    if any(re.match(r"local \w+ =|-- include:|.*\bredis\.call\(", line) for line in lines):
        return "lua"
    if starts and re.fullmatch(r"\[\w+\]", starts[0]):
        return "ini"
    return ""


def with_languages(text):
    """Names the language of each block that names none."""
    lines, fence = text.splitlines(), None
    for number, line in enumerate(lines):
        mark = re.match(r"\s*(```+)(.*)$", line)
        if mark and fence is None:
            fence, first, named = mark[1], number, mark[2]
        elif mark and mark[1].startswith(fence) and not mark[2]:
            if not named:
                lines[first] += language_of(lines[first + 1:number])
            fence = None
    return "\n".join(lines) + "\n"


def title_of(page):
    return re.sub(r"[`*]", "", re.search(r"^# (.*?)(?: \{#.*\})?$", page.read_text(encoding="utf-8"), re.M)[1])


def expand(line):
    """A line of `nav`; one that names a folder becomes a line for each page of it."""
    match = re.match(r"(\s*)- (.+): (\S+)/$", line)
    if not match:
        return [line]
    pages = sorted((DOCS / match[3]).glob("*.md"), key=lambda page: (page.stem not in ("index", "README"), page))
    lines = [f"{match[1]}- {match[2]}:"] if pages else []
    for page in pages:
        path = page.relative_to(DOCS).as_posix()
        name = json.dumps("Overview" if page.stem in ("index", "README") else title_of(page))
        lines.append(f"{match[1]}    - {name}: {path}")
    return lines


def prepare():
    (DOCS / "docs/site").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "docs/site/site.css", DOCS / "docs/site/site.css")
    (DOCS / "docs/man").mkdir(parents=True, exist_ok=True)
    (DOCS / "docs/man/redlatch.md").write_text(page_of_manual(), encoding="utf-8")
    for page in DOCS.rglob("*.md"):
        text = with_languages(page.read_text(encoding="utf-8"))
        page.write_text(text.replace("man/redlatch.1)", "man/redlatch.md)"), encoding="utf-8")
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace("custom_dir: docs", "custom_dir: ../docs").replace(": build/", ": ")
    lines = [each for line in config.splitlines() for each in expand(line)]
    (ROOT / "build/mkdocs.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")


# ---- finish


class Symbols:
    """What the public names are, and which one a text means."""

    def __init__(self, known):
        self.known = known
        self.by_name = {}
        for path in known:
            self.by_name.setdefault(path.split("::")[-1], []).append(path)

    def find(self, text):
        """The symbol that a piece of inline code names, or None."""
        text = html.unescape(text).strip()
        bare = re.sub(r"(\(.*\)|\{.*\})$", "", text, flags=re.S)
        bare = bare.removeprefix("redlatch::").removesuffix("<T>")
        if re.fullmatch(r"~?\w+(::~?\w+)*", bare):
            return self.exact(bare) or (self.member(bare) if bare != text or "_" in bare else None)
        access = re.fullmatch(r"\w+(?:\.|->|-&gt;)(\w+)", bare)
        if access and bare != text:
            return self.member(access[1])
        return None

    def exact(self, path):
        if path in self.known:
            return path
        owner, _, member = path.rpartition("::")
        for base in self.known.get(owner, {}).get("bases", []):
            if f"{base}::{member}" in self.known:
                return f"{base}::{member}"
        return None

    def member(self, name):
        found = [path for path in self.by_name.get(name, []) if "::" in path]
        found = [path for path in found if not path.startswith("redisson::")] or found
        if len(found) < 2:
            return found[0] if found else None
        for owner in PREFERRED:
            if f"{owner}::{name}" in found:
                return f"{owner}::{name}"
        return None

    def href(self, path, page):
        target = self.known[path]
        up = "../" * page.relative_to(SITE).as_posix().count("/")
        return f"{up}{target['page']}#{target['anchor']}"


def article_of(text):
    start = text.index("<article")
    return start, text.index("</article>", start)


def link_mentions(page, text, symbols):
    """Links the first mention of each symbol, once in the text and once in the code."""
    start, end = article_of(text)
    seen = {"text": set(), "code": set()}
    token = re.compile(
        r"(?P<skip><h[1-6].*?</h[1-6]>|<a\b.*?</a>|<span class=\"c1\">.*?</span>)"
        r"|(?P<inline><code>(?P<named>[^<]+)</code>)"
        r"|(?P<code>(?:<span class=\"n\">redlatch</span><span class=\"o\">::</span>)"
        r"(?P<path><span class=\"n[a-z]*\">\w+</span>(?:<span class=\"o\">::</span><span class=\"n[a-z]*\">\w+</span>)*))",
        re.S)

    def link(match):
        if match["inline"]:
            path = symbols.find(match["named"])
            if path is None or path in seen["text"]:
                return match[0]
            seen["text"].add(path)
            return f'<a href="{symbols.href(path, page)}">{match["inline"]}</a>'
        if match["code"]:
            path = symbols.exact(re.sub(r"<[^>]*>", "", match["path"]))
            if path is None or path in seen["code"]:
                return match[0]
            seen["code"].add(path)
            return f'<a class="symbol" href="{symbols.href(path, page)}">{match["code"]}</a>'
        return match[0]

    return text[:start] + token.sub(link, text[start:end]) + text[end:]


def with_scrolling(text):
    """Tables, pictures and code scroll by themselves, and can be reached by keyboard."""
    start, end = article_of(text)
    article = text[start:end]
    article = re.sub(r"<table>.*?</table>", lambda table: (
        f'<div class="scrolls" tabindex="0" role="group" aria-label="Table">{table[0]}</div>'), article, flags=re.S)
    article = re.sub(r"<p>((?:<a [^>]*>)?<img (?![^>]*width=)[^>]*>(?:</a>)?)</p>", (
        r'<div class="scrolls picture" tabindex="0" role="group" aria-label="Picture">\1</div>'), article)
    article = re.sub(r"(<pre\b[^>]*>(?:<span></span>)?)<code\b(?! tabindex)", r'\1<code tabindex="0"', article)
    article = re.sub(r"<th( [^>]*)?></th>", r"<td\1></td>", article)  # a heading that says nothing
    article = re.sub(r"<pre>(?!<span></span>|<code)", '<pre class="plain" tabindex="0">', article)
    text = text[:start] + article + text[end:]
    text = text.replace('data-md-component="search" role="dialog">',
                        'data-md-component="search" role="dialog" aria-label="Search">')
    return re.sub(r'(class="md-search__scrollwrap")(?! tabindex)', r'\1 tabindex="0"', text)


def with_whole_quantities(text):
    """A number and its unit stay on one line, and so does an option, which browsers break at a hyphen."""
    text = re.sub(r"<code>(--?\w[\w=-]*)</code>", r'<code class="whole">\1</code>', text)
    parts = re.split(r"(<pre\b.*?</pre>|<code\b.*?</code>|<[^>]*>)", text, flags=re.S)
    return "".join(part if part.startswith("<") else QUANTITY.sub("\\1\u00a0\\2", part) for part in parts)


def with_wrapped_messages(text):
    """The messages of the troubleshooting page: a line that is too long goes on below, indented."""
    def wrapped(block):
        lines = block[2].rstrip("\n").split("\n")
        return block[1].replace('"highlight"', '"highlight messages"') + "".join(
            f'<span class="message">{line}\n</span>' for line in lines) + "</code>"
    return re.sub(r'(<div class="highlight"><pre><span></span><code\b[^>]*>)([^<]*)</code>', wrapped, text)


def with_links_of_html(text):
    """Links that a document has as HTML, which MkDocs leaves alone: README.md is index.html."""
    text = re.sub(r'href="(?![a-z]+:)([^"#]*?)README\.md', r'href="\1index.html', text)
    return re.sub(r'href="(?![a-z]+:)([^"#]+)\.md(?=["#])', r'href="\1.html', text)


def edited_at(text):
    """Where a page is edited that was made from something else."""
    text = re.sub(r"/edit/main/docs/api/index\.md", "/edit/main/docs/api.py", text)
    text = re.sub(r"/edit/main/docs/api/redisson_(\w+)\.md", r"/edit/main/include/redlatch/redisson/\1.h", text)
    text = re.sub(r"/edit/main/docs/api/(\w+)\.md", r"/edit/main/include/redlatch/\1.h", text)
    return text.replace("/edit/main/docs/man/redlatch.md", "/tree/main/src/cli")


def mentions_in(page):
    """The public classes and functions that a page's Markdown names, by their qualified names: what the
    check expects, found in another way than finish links them."""
    text = page.read_text(encoding="utf-8")
    found = set()
    for path in re.findall(r"\bredlatch::([A-Z]\w*(?:::\w+)*)", text):
        found.add(path)
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    without_blocks = re.sub(r"^#.*$|\[[^\]]*\]\([^)]*\)", "", without_blocks, flags=re.M)
    for code in re.findall(r"`([^`\n]+)`", without_blocks):
        found.update(re.findall(r"^((?:[A-Z]\w*::)?[A-Z]\w*|[A-Z]\w*::\w+)(?:\(\))?$", code))
    return found


def check(symbols):
    """Public symbols without an anchor, and mentions in tutorials that are not linked."""
    problems, mentions = [], 0
    ids = {}
    for path, target in symbols.known.items():
        file = SITE / target["page"]
        if file not in ids:
            ids[file] = set(re.findall(r'\bid="([^"]+)"', file.read_text(encoding="utf-8")))
        if target["anchor"] not in ids[file]:
            problems.append(f"{path} has no anchor in {target['page']}")
    for page in sorted((DOCS / "docs/tutorials").glob("*.md")):
        html_page = SITE / page.relative_to(DOCS).with_suffix(".html")
        text = html_page.read_text(encoding="utf-8")
        for path in sorted(mentions_in(page)):
            known = symbols.exact(path)
            if known is None:
                continue
            mentions += 1
            if f'href="{symbols.href(known, html_page)}"' not in text:
                problems.append(f"{page.relative_to(DOCS)}: {path} is mentioned, and not linked")
    return problems, mentions


def finish():
    symbols = Symbols(json.loads(SYMBOLS.read_text(encoding="utf-8")))
    linked = {page for pattern in FIRST_MENTIONS for page in SITE.glob(pattern)}
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if "<article" not in text:
            continue
        if page in linked:
            text = link_mentions(page, text, symbols)
        start, end = article_of(text)
        article = with_whole_quantities(text[start:end])
        if page.name == "troubleshooting.html":
            article = with_wrapped_messages(article)
        text = text[:start] + article + text[end:]
        page.write_text(edited_at(with_links_of_html(with_scrolling(text))), encoding="utf-8")
    problems, mentions = check(symbols)
    print("\n".join(problems) or f"{len(symbols.known)} public symbols have an anchor; "
          f"the first of {mentions} mentions in the tutorials are linked")
    return 1 if problems else 0


def main():
    steps = {"prepare": prepare, "finish": finish}
    if len(sys.argv) != 2 or sys.argv[1] not in steps:
        sys.exit(__doc__)
    return steps[sys.argv[1]]()


if __name__ == "__main__":
    sys.exit(main())
