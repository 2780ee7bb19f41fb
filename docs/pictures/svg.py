"""What the pictures are made of: text, boxes and arrows on a card of its own colour, which is dark where
the reader's scheme is.
"""
import xml.sax.saxutils

INK, SOFT, LINE, PAPER, SHADE = "#1f2937", "#4b5563", "#9ca3af", "#ffffff", "#f3f4f6"
COLOURS = {  # by what they say, each with a paler one for areas
    "blue": ("#1d4ed8", "#dbeafe"),
    "green": ("#15803d", "#dcfce7"),
    "red": ("#b91c1c", "#fee2e2"),
    "amber": ("#b45309", "#fef3c7"),
    "grey": ("#4b5563", "#e5e7eb"),
}
DARK = {  # in a dark scheme, in place of the colours above
    INK: "#e6edf3", SOFT: "#9ea7b3", LINE: "#6e7681", PAPER: "#0d1117", SHADE: "#161b22", "#d1d5db": "#3d444d",
    "#1d4ed8": "#6ea8fe", "#dbeafe": "#12284c", "#15803d": "#56d364", "#dcfce7": "#0f2e1a", "#b91c1c": "#ff7b72",
    "#fee2e2": "#43191a", "#b45309": "#e3b341", "#fef3c7": "#3a2a07", "#e5e7eb": "#30363d",
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', 'DejaVu Sans', sans-serif"
SIZE = 13


def width_of(text, size=SIZE):
    """Rather too wide than too narrow: fonts differ, and the widest is DejaVu Sans."""
    def share(letter):
        if letter in "iljI.,:;|!'()[]tf ":
            return 0.37
        return 0.95 if letter in "mwMW@%—" else 0.7 if letter.isupper() else 0.62
    return size * sum(share(letter) for letter in text)


def wrap(text, width, size=SIZE):
    """Lines of whole words, none wider than `width` where its words are not."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


class Picture:
    """Collects elements; `alt` is what a reader is told who does not see them."""

    def __init__(self, width, alt):
        self.width, self.alt, self.elements = width, alt, []

    def add(self, element):
        self.elements.append(element)

    def text(self, x, y, text, anchor="start", size=SIZE, fill=INK, bold=False, halo=False):
        style = f' font-size="{size}"' if size != SIZE else ""
        style += f' text-anchor="{anchor}"' if anchor != "start" else ""
        style += f' fill="{fill}"' if fill != INK else ""
        style += ' font-weight="600"' if bold else ""
        if halo:  # crosses a line, which must not go through its letters
            style += f' paint-order="stroke" stroke="{PAPER}" stroke-width="5"'
        self.add(f'<text x="{x:g}" y="{y:g}"{style}>{xml.sax.saxutils.escape(text)}</text>')

    def lines(self, x, y, lines, step=17, **how):
        for number, line in enumerate(lines):
            self.text(x, y + number * step, line, **how)

    def box(self, x, y, width, height, fill=PAPER, stroke=LINE, radius=6):
        self.add(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" '
                 f'fill="{fill}" stroke="{stroke}"/>')

    def line(self, x1, y1, x2, y2, stroke=LINE, width=1, dashed=False):
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.add(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{stroke}" '
                 f'stroke-width="{width:g}"{dash}/>')

    def arrow(self, x1, y1, x2, y2, stroke=INK, width=1.5):
        self.line(x1, y1, x2, y2, stroke, width)
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        along, across = (x2 - x1) / length, (y2 - y1) / length
        points = [(x2, y2)] + [(x2 - 9 * along - side * 4 * across, y2 - 9 * across + side * 4 * along)
                               for side in (1, -1)]
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.add(f'<polygon points="{places}" fill="{stroke}"/>')

    def render(self, height):
        alt = xml.sax.saxutils.escape(self.alt)
        elements = "\n".join([
            f'<rect x="0.5" y="0.5" width="{self.width - 1:g}" height="{height - 1:g}" rx="8" '
            f'fill="{PAPER}" stroke="#d1d5db"/>', *self.elements])
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {height:g}" '
            f'width="{self.width:g}" height="{height:g}" role="img" font-family="{FONT}" '
            f'font-size="{SIZE}" fill="{INK}">',
            f"<title>{alt}</title>", f"<style>{dark_style(elements)}</style>", elements, "</svg>", ""])


def dark_style(elements):
    """Rules for the colours in use: a style has precedence over an attribute."""
    rules = [f'[{what}="{colour}"]{{{what}:{dark}}}' for colour, dark in DARK.items() for what in ("fill", "stroke")
             if f'{what}="{colour}"' in elements or (what, colour) == ("fill", INK)]
    return "@media (prefers-color-scheme:dark){" + "".join(rules) + "}"
