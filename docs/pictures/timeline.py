"""Time lines, several lanes under one another. A line of an X.timeline is one of

alt TEXT                              what the picture shows, for those who do not see it
lane NAME TITLE
span NAME FROM TO COLOUR TEXT         something that lasts; times are 0 to 100
moment NAME AT up|down COLUMN TEXT    something that happens, told above or below, from COLUMN on
arrow NAME AT NAME AT TEXT            a message between lanes
"""
import shlex

from svg import COLOURS, INK, LINE, Picture, SOFT, width_of, wrap

WIDTH, LEFT, RIGHT, LANE, BAR = 860, 110, 20, 150, 34


def draw(source):
    alt, lanes, rows = "", {}, []
    for line in source.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("alt "):
            alt = f"{alt} {line[4:]}".strip()
            continue
        row = shlex.split(line)
        if row[0] == "lane":
            lanes[row[1]] = (70 + LANE * len(lanes), row[2])
        else:
            rows.append(row)
    picture = Picture(WIDTH, alt)
    bottom = 70 + LANE * len(lanes)

    def x_of(time):
        return LEFT + float(time) * (WIDTH - LEFT - RIGHT) / 100

    for y, title in lanes.values():
        picture.line(LEFT, y + BAR / 2, WIDTH - RIGHT, y + BAR / 2)
        picture.lines(16, y + 14, wrap(title, LEFT - 20), bold=True)
    for kind, *row in rows:
        if kind == "span":
            name, start, end, colour, text = row
            y, (dark, pale) = lanes[name][0], COLOURS[colour]
            picture.box(x_of(start), y, x_of(end) - x_of(start), BAR, pale, dark, 4)
            if text:
                picture.text((x_of(start) + x_of(end)) / 2, y + 22, text, "middle", fill=dark)
        elif kind == "moment":
            name, at, side, column, text = row
            y, x = lanes[name][0], x_of(at)
            lines = wrap(text, 170, 12)
            up = side == "up"
            first = y - 12 - 15 * len(lines) if up else y + BAR + 26
            picture.line(x, y + (BAR + 2 if not up else -2), x, y + (BAR + 14 if not up else -14),
                         INK, 1.5)
            picture.lines(x_of(column), first + (3 if up else 2), lines, 15, size=12)
        else:
            start, at, end, until, text = row
            down = lanes[end][0] > lanes[start][0]
            y1, y2 = lanes[start][0] + (BAR if down else 0), lanes[end][0] + (0 if down else BAR)
            picture.arrow(x_of(at), y1, x_of(until), y2)
            x = (x_of(at) + x_of(until)) / 2 + 8
            picture.lines(x, (y1 + y2) / 2 - 4, wrap(text, 120, 12), 15, size=12, fill=SOFT)
    picture.text(WIDTH - RIGHT, bottom - 52, "time →", "end", 12, SOFT)
    return picture.render(bottom - 36)
