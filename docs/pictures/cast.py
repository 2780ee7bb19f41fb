"""A recording of a terminal, as record.py makes it: an asciicast of version 2, which asciinema plays too.

The picture shows the frames one below the other through a window, and steps from one to the next. It is
SVG and CSS alone, since GitHub removes scripts. A reader who asks for less motion sees the last frame.
"""
import json
import re
import xml.sax.saxutils

SHORTEST, LAST = 0.15, 7.0  # seconds: of a frame; and of the last one
SIZE, CELL, STEP = 13, 7.82, 17
PAD, BAR = 14, 30
CONTROL = re.compile(r"\x1b\[([0-9;]*)([AJm])|[\r\n]|[^\x1b\r\n]+")
STYLES = {"": "", "0": "", "31": "r", "33": "y", "1;31": "r", "1;32": "g"}
STYLE = """
.w{fill:#f6f8fa;stroke:#d0d7de}.b{stroke:#d0d7de}.t{fill:#1f2328}.s{fill:#59636e}
.g{fill:#116329;font-weight:700}.r{fill:#c0182a;font-weight:700}.y{fill:#8a5a00;font-weight:700}
@media (prefers-color-scheme:dark){.w{fill:#0d1117;stroke:#3d444d}.b{stroke:#3d444d}.t{fill:#e6edf3}
.s{fill:#9198a1}.g{fill:#4fd268}.r{fill:#ff7b72}.y{fill:#e3b341}}
"""


class Screen:
    """As much of a terminal as the demo uses: lines, the cursor up, erase below, and colours."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.row, self.column, self.style = [[]], 0, 0, ""

    def write(self, text):
        for found in CONTROL.finditer(text):
            code, end = found[1], found[2]
            if end == "A":
                self.row -= int(code or 1)
            elif end == "J":
                del self.lines[self.row][self.column:]
                del self.lines[self.row + 1:]
            elif end == "m":
                self.style = STYLES[code]
            elif found[0] == "\r":
                self.column = 0
            elif found[0] == "\n":
                self.down()
            else:
                for letter in found[0]:
                    self.put(letter)

    def down(self):
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def put(self, letter):
        if self.column == self.columns:
            self.down()
            self.column = 0
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column - len(line))
        line[self.column:self.column + 1] = [(letter, self.style)]
        self.column += 1

    def shown(self):
        """The lines that the terminal shows: the last ones."""
        return tuple(tuple(line) for line in self.lines[-self.rows:])


def read(source):
    head, *events = map(json.loads, source.splitlines())
    return head, [(time, text) for time, kind, text in events if kind == "o"]


def text_of(source):
    """All lines that stay on the screen, without colours."""
    head, events = read(source)
    screen = Screen(head["width"], 1_000_000)
    for _, text in events:
        screen.write(text)
    return ["".join(letter for letter, _ in line).rstrip() for line in screen.shown()]


def frames_of(head, events):
    """(time, lines) of each frame, none shorter than SHORTEST."""
    screen, frames = Screen(head["width"], head["height"]), []
    for number, (time, text) in enumerate(events):
        screen.write(text)
        lines = screen.shown()
        last = number == len(events) - 1
        if not frames or last or (time - frames[-1][0] >= SHORTEST and lines != frames[-1][1]):
            frames.append((time, lines))
    return frames


def spans_of(line):
    """The line as SVG: runs of letters that look the same."""
    text, style = "", None
    for letter, its in [*line, ("", None)]:
        if its != style:
            if text and style:
                yield f'<tspan class="{style}">{xml.sax.saxutils.escape(text)}</tspan>'
            elif text:
                yield xml.sax.saxutils.escape(text)
            text, style = "", its
        text += letter


def draw(source):
    head, events = read(source)
    frames = frames_of(head, events)
    width, height = round(head["width"] * CELL + 2 * PAD), head["height"] * STEP + 12
    whole = frames[-1][0] + LAST
    known, strip = {}, []
    for number, (_, lines) in enumerate(frames):
        uses = []
        for place, line in enumerate(lines):
            if any(letter != " " for letter, _ in line):
                name = known.setdefault(line, f"l{len(known)}")
                uses.append(f'<use href="#{name}" y="{(place + 1) * STEP}"/>')
        strip.append(f'<g transform="translate(0 {number * height})">{"".join(uses)}</g>')
    steps = "".join(f"{100 * time / whole:.2f}%{{transform:translateY({-number * height}px)}}"
                    for number, (time, _) in enumerate(frames))
    last = -(len(frames) - 1) * height
    defined = "".join(f'<text id="{name}" xml:space="preserve">{"".join(spans_of(line))}</text>\n'
                      for line, name in known.items())
    title = xml.sax.saxutils.escape(head["title"])
    command = xml.sax.saxutils.escape(head["command"])
    tall = BAR + height + 6
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {tall}" width="{width}" height="{tall}" role="img">
<title>{title}</title>
<style>{STYLE}text{{font:{SIZE}px ui-monospace,SFMono-Regular,'SF Mono',Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}
#f{{transform:translateY({last}px);animation:f {whole:.2f}s step-end infinite}}
@keyframes f{{0%{{transform:translateY(0)}}{steps}}}
@media (prefers-reduced-motion:reduce){{#f{{animation:none}}}}
</style>
<defs>
{defined}</defs>
<rect class="w" x="0.5" y="0.5" width="{width - 1}" height="{tall - 1}" rx="8"/>
<path class="b" d="M1 {BAR - 0.5}H{width - 1}"/>
<text class="s" x="{PAD}" y="20">$ {command}</text>
<svg class="t" x="{PAD}" y="{BAR}" width="{width - PAD}" height="{height}" overflow="hidden"><g id="f">
{chr(10).join(strip)}
</g></svg>
</svg>
"""
