"""A straight line through measurements, and how sure its slope is."""

from dataclasses import dataclass
from math import sqrt
from statistics import fmean

# Two-sided 95 % of Student's t for degrees of freedom from 1 on; beyond the last, the normal distribution's.
STUDENT_T = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
]
NORMAL = 1.984  # of 100 degrees of freedom; 1.960 of the normal distribution itself is narrower


@dataclass
class Line:
    """y = intercept + slope · x by least squares; the slope's 95 % confidence interval is slope ± uncertainty."""

    intercept: float
    slope: float
    uncertainty: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out a slope of nothing."""
        return abs(self.slope) > self.uncertainty

    def at(self, x: float) -> float:
        """The line's y."""
        return self.intercept + self.slope * x


def fit(values: list[float]) -> Line:
    """The line through values at 0, 1, 2 …; at least three."""
    assert len(values) >= 3, "a slope with its uncertainty needs three values"
    middle, mean = (len(values) - 1) / 2, fmean(values)
    spread = sum((x - middle) ** 2 for x in range(len(values)))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(values)) / spread
    line = Line(mean - slope * middle, slope, 0.0)
    freedom = len(values) - 2
    residual = sum((y - line.at(x)) ** 2 for x, y in enumerate(values))
    quantile = STUDENT_T[freedom - 1] if freedom <= len(STUDENT_T) else NORMAL
    line.uncertainty = quantile * sqrt(residual / freedom / spread)
    return line
