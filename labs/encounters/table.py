"""Makes a small table of contacts in the form of CRAWDAD's iMote tables: two nodes, a beginning, an end, seconds.

    python3 labs/encounters/table.py

Thirty people in three offices over two working days. Within an office they meet often, at lunch some of all, and a few visit.
"""

import random
from pathlib import Path

PEOPLE, OFFICES, DAYS, SCAN = 30, 3, 2, 120
HOUR = 3600


def contacts(chance):
    for day in range(DAYS):
        begin = day * 24 * HOUR + 9 * HOUR
        for first in range(1, PEOPLE + 1):
            for second in range(first + 1, PEOPLE + 1):
                is_office = first % OFFICES == second % OFFICES
                mean = 1.5 * HOUR if is_office else 12 * HOUR
                time = begin + chance.expovariate(1 / mean)
                while time < begin + 8 * HOUR:
                    length = SCAN * (1 + int(chance.expovariate(1 / (4 if is_office else 1))))
                    start = int(time) // SCAN * SCAN
                    yield start - 9 * HOUR, first, second, start - 9 * HOUR + length
                    time += length + chance.expovariate(1 / mean)


def main():
    lines = sorted(contacts(random.Random(2008)))
    text = '# node node start end, seconds: made by table.py\n' + ''.join(f'{first} {second} {start} {end}\n' for start, first, second, end in lines)
    (Path(__file__).parent / 'people.table').write_text(text)


if __name__ == '__main__':
    main()
