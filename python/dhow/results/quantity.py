"""Sizes, rates, times and shares as scenarios write them, as numbers in one unit."""

import math
import re
from collections.abc import Sequence

_SIZES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_RATES = {"bit": 1, "kbit": 1e3, "Mbit": 1e6, "Gbit": 1e9}
_TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

UNITS: dict[str, tuple[str, float]] = {
    **{name: ("octets", scale) for name, scale in _SIZES.items()},
    **{name: ("bit/s", scale) for name, scale in _RATES.items()},
    **{name: ("s", scale) for name, scale in _TIMES.items()},
    "%": ("", 0.01), "": ("", 1.0),
}

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?) ?([A-Za-z%]*)(?:/s)?")

# The last words of the names of columns, and their units.
_SUFFIXES = {
    "_bit_s": "bit/s", "_s_per_mb": "s/MB", "_octets": "octets", "_s": "s", "_ms": "ms", "joules_per_mb": "J/MB", "octets": "octets",
}


def numbers(texts: Sequence[str]) -> tuple[list[float], str] | None:
    """The values of texts and their unit; None unless all are quantities of one kind."""
    values: list[float] = []
    units: set[str] = set()
    for text in texts:
        found = _QUANTITY.fullmatch(text.strip())
        if not found or found[2] not in UNITS:
            return None
        unit, scale = UNITS[found[2]]
        values.append(float(found[1]) * scale)
        # A plain 0 is one of every unit.
        if values[-1] or found[2]:
            units.add(unit)
    return (values, units.pop() if units else "") if len(units) <= 1 else None


def unit_of(column: str) -> str:
    """The unit that the name of a column says; empty for counts and names."""
    return next((unit for suffix, unit in _SUFFIXES.items() if column.endswith(suffix)), "")


# Quantiles of Student's distribution, 0.975, by degrees of freedom from 1 on; beyond the last one by its expansion.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def half_interval(deviation: float, count: int) -> float:
    """Half of the 95 % confidence interval of a mean, by the deviation of so many values; NaN of fewer than two."""
    if count < 2:
        return math.nan
    freedom = count - 1
    z = 1.959964
    student = _STUDENT[freedom - 1] if freedom <= len(_STUDENT) else z + (z**3 + z) / (4 * freedom)
    return student * deviation / math.sqrt(count)
