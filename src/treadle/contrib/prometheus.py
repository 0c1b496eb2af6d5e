"""The metrics of the queue in the registry of prometheus_client, for programs that serve their own metrics:

    from prometheus_client import REGISTRY
    from treadle.contrib.prometheus import TreadleCollector

    REGISTRY.register(TreadleCollector(app))

Workers (`--health-port`) and the dashboard serve them without this module.
"""

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from treadle.app.treadle import Treadle
from treadle.operations.metrics import metrics


class TreadleCollector(Collector):
    """Reads the metrics from the database whenever they are collected."""

    def __init__(self, app: Treadle) -> None:
        self._app = app

    def describe(self) -> Iterable[Family]:
        """None: otherwise registering it would read the database."""
        return []

    def collect(self) -> Iterable[Family]:
        for metric in metrics(self._app.database):
            name = metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name
            family = Family(name, metric.help, metric.kind)
            for labels, value, suffix in metric.samples:
                family.add_sample(f"{metric.name}{suffix}", dict(labels), value)
            yield family
