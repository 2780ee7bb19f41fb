"""Layers, one on another. A line of an X.layers is one of

alt TEXT               what the picture shows, for those who do not see it
layer TITLE | TEXT     a layer, from the top down
part TITLE | TEXT      a box in the layer, beside the others
link TEXT              what goes down (TEXT after a v) or up (after a ^) between the layers
"""
from svg import COLOURS, INK, PAPER, Picture, SHADE, SOFT, wrap

WIDTH, MARGIN, SIDE = 860, 16, 170


def read(source):
    alt, layers = "", []
    for line in source.splitlines():
        kind, _, rest = line.partition(" ")
        fields = [field.strip() for field in rest.split("|")]
        if kind == "alt":
            alt = f"{alt} {rest}".strip()
        elif kind == "layer":
            layers.append((fields, [], []))
        elif kind == "part":
            layers[-1][1].append(fields)
        elif kind == "link":
            layers[-1][2].append(rest.split(maxsplit=1))
    return alt, layers


def draw(source):
    alt, layers = read(source)
    picture, y = Picture(WIDTH, alt), MARGIN
    for (title, what), parts, links in layers:
        room = WIDTH - 2 * MARGIN - SIDE - 12
        wide = (room - 10 * (len(parts) - 1)) / len(parts)
        texts = [wrap(text, wide - 20, 12) for _, text in parts]
        inner = 34 + 15 * max(map(len, texts))
        aside = wrap(what, SIDE - 20, 12)
        height = max(inner + 24, 36 + 15 * len(aside) + 8)
        picture.box(MARGIN, y, WIDTH - 2 * MARGIN, height, SHADE)
        picture.text(MARGIN + 14, y + 26, title, bold=True, size=14)
        picture.lines(MARGIN + 14, y + 45, aside, 15, size=12, fill=SOFT)
        for number, ((name, _), lines) in enumerate(zip(parts, texts)):
            x = MARGIN + SIDE + number * (wide + 10)
            picture.box(x, y + 12, wide, height - 24, PAPER)
            picture.text(x + 10, y + 32, name, bold=True)
            picture.lines(x + 10, y + 50, lines, 15, size=12, fill=SOFT)
        y += height
        for number, (way, text) in enumerate(links):
            x = MARGIN + SIDE + 30 + number * (room - 60) / max(len(links), 1)
            colour = INK if way == "v" else COLOURS["blue"][0]
            ends = (y + 2, y + 38) if way == "v" else (y + 38, y + 2)
            picture.arrow(x, ends[0], x, ends[1], colour)
            picture.text(x + 10, y + 25, text, size=12, fill=colour)
        y += 40 if links else 0
    return picture.render(y + MARGIN)
