"""Metrics, and the text format in which Prometheus reads them (version 0.0.4)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float
    suffix: str = ""
    """Of the name: `_bucket`, `_sum` or `_count` of a histogram."""


class Metric(NamedTuple):
    name: str
    kind: str
    """gauge, counter or histogram."""
    help: str
    samples: list[Sample]


def histogram(labels: Mapping[str, str], bounds: Iterable[float], counts: Iterable[int], total: float) -> list[Sample]:
    """The samples of a histogram. There is one count for each bound, and one for larger values."""
    samples, sum_so_far = [], 0
    for bound, count in zip([*(f"{each:g}" for each in bounds), "+Inf"], counts, strict=False):
        sum_so_far += count
        samples.append(Sample({**labels, "le": bound}, sum_so_far, "_bucket"))
    return [*samples, Sample(labels, total, "_sum"), Sample(labels, sum_so_far, "_count")]


def exposition(metrics: Iterable[Metric]) -> str:
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value, suffix in metric.samples:
            shown = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
            lines.append(f"{metric.name}{suffix}{{{shown}}} {value}" if shown else f"{metric.name}{suffix} {value}")
    return "\n".join([*lines, ""])
