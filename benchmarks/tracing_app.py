"""The jobs that benchmarks/tracing.py runs, traced as its environment variable says."""

import os
from collections.abc import Iterator, Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from treadle import Job, Treadle
from treadle.contrib.opentelemetry import instrument

VARIABLE = "TREADLE_BENCHMARK_TRACING"
app = Treadle()


@app.job
async def noop() -> None:
    pass


class NoExporter(SpanExporter):
    """Takes the spans and does nothing with them."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def empty_middleware(job: Job) -> Iterator[None]:
    yield


kind = os.environ.get(VARIABLE, "plain")
if kind == "middleware":
    app.middleware(empty_middleware)
elif kind != "plain":
    provider = TracerProvider()  # samples what the trace of the job does
    provider.add_span_processor(BatchSpanProcessor(NoExporter()))
    meters = MeterProvider([InMemoryMetricReader()]) if kind == "spans and metrics" else None
    instrument(app, tracer_provider=provider, meter_provider=meters)
