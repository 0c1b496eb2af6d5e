"""An application whose spans go to a file, from the test, its workers and their child processes."""

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from treadle import Backoff, Job, Retries, Treadle
from treadle.contrib.opentelemetry import instrument

FILE = "TREADLE_TEST_SPANS"


class FileExporter(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ[FILE]).open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.writelines(json.dumps(json.loads(span.to_json()) | {"pid": os.getpid()}) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


provider = TracerProvider()
# The delay is longer than the test: what is in the file was flushed before its process ended.
provider.add_span_processor(BatchSpanProcessor(FileExporter(), schedule_delay_millis=600_000))
app = Treadle()
instrument(app, tracer_provider=provider)
tracer = trace.get_tracer("handlers", tracer_provider=provider)


@app.job
async def on_the_loop() -> None:
    with tracer.start_as_current_span("inside on_the_loop"):
        await last.aenqueue()


@app.job
def on_a_thread() -> None:
    with tracer.start_as_current_span("inside on_a_thread"):
        last.enqueue()


@app.job(process=True)
def in_a_child() -> None:
    with tracer.start_as_current_span("inside in_a_child"):
        last.enqueue()


@app.job(retry=Retries(1, backoff=Backoff(first="10ms")))
async def retried(job: Job) -> None:
    if job.attempt == 1:
        raise ConnectionError("try again")
    with tracer.start_as_current_span("inside retried"):
        await last.aenqueue()


@app.job
async def last() -> None: ...
