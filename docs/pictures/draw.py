#!/usr/bin/env python3
"""Draws the pictures of the documents, each from the text of the same name beside it.

draw.py                  draws them all
draw.py --check [DIR]    draws nothing; says which, here or in DIR, are not what their texts say

X.sequence: who says what to whom, down the page. X.timeline: what holds until when. X.layers: what
stands on what. X.states: what becomes what. X.cast: what a terminal showed. The script of that name says
how each is written.
"""
import pathlib
import sys

sys.dont_write_bytecode = True
import cast
import layers
import sequence
import states
import timeline

KINDS = {".cast": cast.draw, ".sequence": sequence.draw, ".timeline": timeline.draw, ".layers": layers.draw,
         ".states": states.draw}


def main():
    check = sys.argv[1:2] == ["--check"]
    if len(sys.argv) > (3 if check else 1):
        sys.exit(__doc__)
    folder = pathlib.Path(*sys.argv[2:] or [pathlib.Path(__file__).parent]).resolve()
    sources = [path for path in sorted(folder.iterdir()) if path.suffix in KINDS]
    problems = []
    for source in sources:
        picture, drawn = source.with_suffix(".svg"), KINDS[source.suffix](source.read_text())
        if not check:
            picture.write_text(drawn)
        elif not picture.exists() or picture.read_text() != drawn:
            problems.append(f"{picture.name} is not what {source.name} says: run docs/pictures/draw.py")
    known = {source.stem for source in sources}
    problems += [f"{picture.name} has no text beside it" for picture in sorted(folder.glob("*.svg"))
                 if picture.stem not in known]
    print("\n".join(problems) or f"{len(sources)} pictures: all as their texts say")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
