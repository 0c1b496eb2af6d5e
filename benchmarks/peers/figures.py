"""Medians, spreads and percentiles."""

import statistics
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def quantiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p95 and p99: the value that 50, 95 or 99 % of the values do not exceed."""
    if not values:
        raise ValueError("quantiles need at least one value")
    ordered = sorted(values)
    return {f"p{q}": ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * q // 100) - 1))] for q in (50, 95, 99)}
