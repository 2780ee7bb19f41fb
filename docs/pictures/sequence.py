"""Sequence diagrams. A line of an X.sequence is one of

alt TEXT                  what the picture shows, for those who do not see it
actor NAME TITLE          a column; left to right
FROM -> TO  TEXT          a message; with ->! one that matters more
NAME: TEXT                what happens there
bar NAME COLOUR           from here a bar beside NAME's line; `bar NAME end` ends it
... TEXT                  time passes
"""
import re

from svg import COLOURS, LINE, Picture, SHADE, SOFT, INK, width_of, wrap

MARGIN, TOP, GAP = 20, 62, 14


def spread(actors, events):
    """The columns' places: as far apart as what is said between neighbours needs."""
    names = list(actors)
    reach = [250] * (len(names) - 1)
    for kind, *rest in events:
        if kind == "say":
            left, right = sorted((names.index(rest[0]), names.index(rest[1])))
            needed = (width_of(rest[2]) * (1.1 if rest[3] else 1) + 40) / (right - left)
            for column in range(left, right):
                reach[column] = max(reach[column], min(needed, 330))
    place = {names[0]: MARGIN + 100}
    for column, distance in enumerate(reach):
        place[names[column + 1]] = place[names[column]] + distance
    return place


def read(source):
    alt, actors, events = "", {}, []
    for line in source.splitlines():
        message = re.match(r"(\w+) ->(!?) (\w+)\s+(.*)", line)
        if not line.strip() or line.startswith("#"):
            continue
        if message:
            events.append(("say", message[1], message[3], message[4], bool(message[2])))
        elif line.startswith("alt "):
            alt = f"{alt} {line[4:]}".strip()
        elif line.startswith("actor "):
            _, name, title = line.split(maxsplit=2)
            actors[name] = title
        elif line.startswith("bar "):
            events.append(tuple(line.split()))
        elif line.startswith("..."):
            events.append(("pass", line[3:].strip()))
        else:
            name, text = line.split(":", 1)
            events.append(("note", name, text.strip()))
    return alt, actors, events


def draw(source):
    alt, actors, events = read(source)
    place = spread(actors, events)
    picture = Picture(max(place.values()) + 100 + MARGIN, alt)
    under, y, bars = [], TOP, {}

    def end_bar(name):
        start, colour = bars.pop(name)
        under.append((place[name], start, y, colour))

    for kind, *rest in events:
        if kind == "bar":
            name, colour = rest
            if name in bars:
                end_bar(name)
            if colour != "end":
                bars[name] = (y, colour)
        elif kind == "pass":
            picture.text(picture.width / 2, y + 18, rest[0], "middle", fill=SOFT)
            y += 30
        elif kind == "note":
            name, text = rest
            lines = wrap(text, 180)
            wide, high = max(map(width_of, lines)) + 20, 17 * len(lines) + 10
            picture.box(place[name] - wide / 2, y, wide, high, SHADE)
            picture.lines(place[name], y + 18, lines, anchor="middle")
            y += high + GAP
        else:
            start, end, text, strong = rest
            colour = COLOURS["blue"][0] if strong else INK
            y += 20
            aside = 7 if place[end] > place[start] else -7
            picture.arrow(place[start] + aside, y, place[end] - aside, y, colour,
                          2.5 if strong else 1.5)
            picture.text((place[start] + place[end]) / 2, y - 7, text, "middle", fill=colour,
                         bold=strong, halo=True)
            y += GAP
    for name in list(bars):
        end_bar(name)
    # Behind all that: the actors' lines, and the bars beside them.
    drawn, picture.elements = picture.elements, []
    for name, title in actors.items():
        picture.line(place[name], 46, place[name], y + 8, LINE, dashed=True)
        picture.box(place[name] - 95, 16, 190, 30, SHADE)
        picture.text(place[name], 36, title, "middle", bold=True)
    for x, start, end, colour in under:
        picture.box(x - 5, start, 10, end - start, COLOURS[colour][1], COLOURS[colour][0], 3)
    picture.elements += drawn
    return picture.render(y + 22)
