"""Summaries of many numbers, and what is far off among them."""

from array import array
from collections.abc import Sequence
from statistics import median


def summary(values: "Sequence[float] | array[float]", digits: int = 3) -> dict[str, float | int]:
    """n, median, 90th percentile, largest and sum; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "median": round(median(ordered), digits),
        "p90": round(ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))], digits),
        "max": round(ordered[-1], digits),
        "sum": round(sum(ordered), digits),
    }


def outlier_limit(values: Sequence[float], factor: float, least: int) -> float | None:
    """Values above it are far off: `factor` times the median; None with fewer than `least`."""
    return None if len(values) < least else factor * median(values)
