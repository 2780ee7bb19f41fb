"""States, and what leads from one to the next. A line of an X.states is one of

alt TEXT                          what the picture shows, for those who do not see it
state NAME COLUMN ROW TITLE | TEXT
FROM -> TO  TEXT                  between neighbours, beside or below one another
FROM ^> TO  TEXT                  over the top, from a state to one further left
"""
import re

from svg import COLOURS, INK, Picture, SHADE, SOFT, wrap

MARGIN, WIDE, APART, HIGH, BELOW, TOP = 16, 190, 130, 150, 64, 60


class State:
    def __init__(self, column, row, title, text):
        self.x, self.y = MARGIN + column * (WIDE + APART), TOP + row * (HIGH + BELOW)
        self.column, self.row, self.title, self.text = column, row, title, text


def read(source):
    alt, states, ways = "", {}, []
    for line in source.splitlines():
        way = re.match(r"(\w+) ([-^])> (\w+)\s+(.*)", line)
        if way:
            ways.append((states[way[1]], states[way[3]], way[2] == "^", way[4]))
        elif line.startswith("alt "):
            alt = f"{alt} {line[4:]}".strip()
        elif line.startswith("state "):
            _, name, column, row, rest = line.split(maxsplit=4)
            title, text = (part.strip() for part in rest.split("|"))
            states[name] = State(int(column), int(row), title, text)
    return alt, states, ways


def over(picture, start, end, text):
    y, left, right = TOP - 26, end.x + WIDE / 2, start.x + WIDE / 2
    picture.line(right, start.y, right, y, INK, 1.5)
    picture.line(right, y, left, y, INK, 1.5)
    picture.arrow(left, y, left, end.y)
    picture.text((left + right) / 2, y - 7, text, "middle", 12)


def beside(picture, start, end, text):
    lines, forth = wrap(text, APART - 14, 12), end.column > start.column
    y = start.y + (62 if forth else 96)
    left = (start if forth else end).x + WIDE
    ends = (left + 2, left + APART - 2) if forth else (left + APART - 2, left + 2)
    picture.arrow(ends[0], y, ends[1], y)
    picture.lines(left + APART / 2, y - 8 - 15 * (len(lines) - 1) if forth else y + 17, lines, 15,
                  anchor="middle", size=12)


def below(picture, start, end, text):
    x = start.x + WIDE / 2
    picture.arrow(x, start.y + HIGH + 2, x, end.y - 2)
    picture.lines(x + 10, start.y + HIGH + BELOW / 2 - 3, wrap(text, 150, 12), 15, size=12)


def draw(source):
    alt, states, ways = read(source)
    columns = 1 + max(state.column for state in states.values())
    picture = Picture(2 * MARGIN + columns * WIDE + (columns - 1) * APART, alt)
    widest = max(state.row for state in states.values())
    for state in states.values():
        # The last row is one state, as wide as the picture: what lies under all the others.
        last = widest > 0 and state.row == widest
        wide, high = (picture.width - 2 * MARGIN, 66) if last else (WIDE, HIGH)
        picture.box(state.x, state.y, wide, high, SHADE if last else COLOURS["blue"][1],
                    COLOURS["grey" if last else "blue"][0])
        picture.text(state.x + 12, state.y + 24, state.title, bold=True, size=14)
        picture.lines(state.x + 12, state.y + 44, wrap(state.text, wide - 24, 12), 15, size=12,
                      fill=SOFT)
    for start, end, around, text in ways:
        way = over if around else beside if start.row == end.row else below
        way(picture, start, end, text)
    bottom = max(state.y + (66 if state.row == widest > 0 else HIGH) for state in states.values())
    return picture.render(bottom + MARGIN)
