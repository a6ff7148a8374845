"""Draws the town of the encounters: streets around a river, and the line of its tram, as well-known text.

    python3 labs/encounters/town.py
"""

import random
from pathlib import Path

HERE = Path(__file__).parent
COLUMNS, ROWS, BLOCK = 16, 12, 125
RIVER = 6
BRIDGES = {2, 7, 12}
LEFT_OUT = 0.12


def corners(chance):
    """The crossings, pushed a little from their places in the grid."""
    def pushed(at):
        return round(at * BLOCK + chance.uniform(-30, 30), 1)
    return {(column, row): (pushed(column), pushed(row) + (60 if row >= RIVER else 0)) for column in range(COLUMNS) for row in range(ROWS)}


def streets(chance):
    """Pairs of crossings that a street joins."""
    for column in range(COLUMNS):
        for row in range(ROWS):
            if column + 1 < COLUMNS and (row in (0, RIVER, ROWS - 1) or chance.random() > LEFT_OUT):
                yield (column, row), (column + 1, row)
            over_river = row + 1 == RIVER
            is_there = column in BRIDGES if over_river else column % 5 == 2 or chance.random() > LEFT_OUT
            if row + 1 < ROWS and is_there:
                yield (column, row), (column, row + 1)


def line(points):
    return 'LINESTRING (' + ', '.join(f'{x} {y}' for x, y in points) + ')\n'


def main():
    chance = random.Random(2008)
    at = corners(chance)
    (HERE / 'town.wkt').write_text(''.join(line([at[first], at[second]]) for first, second in streets(chance)))
    stops = [(2, 0), (2, 3), (2, RIVER), (4, 9), (7, ROWS - 1), (10, 9), (12, RIVER), (12, 3), (12, 0), (7, 0)]
    (HERE / 'tram.wkt').write_text(line([at[stop] for stop in stops]))


if __name__ == '__main__':
    main()
