"""The main function of a worker process, which a supervisor starts. This is where the user's code is imported.

Orders come on standard input, which is closed when the supervisor ends. A pipe tells the supervisor that the worker has
started.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from typing import Any

from treadle.attempt.attempt import running_job_fields
from treadle.jobs.load import load
from treadle.text.exceptions import format_traceback
from treadle.text.masking import masked
from treadle.words import events
from treadle.words.errors import TreadleError
from treadle.worker.exit_codes import USAGE_ERROR, End
from treadle.worker.job_slots import JobSlots
from treadle.worker.log_format import set_up
from treadle.worker.pulse import prepare_dumps
from treadle.worker.recycling import Recycling
from treadle.worker.run import end_now, work
from treadle.worker.worker import Worker

_DEFAULT_THRESHOLD = gc.get_threshold()


def main() -> None:
    # What was imported is never garbage. The process is started without the collector: see cli/commands.py.
    gc.freeze()
    gc.enable()
    _die_with(int(os.environ["TREADLE_SUPERVISOR"]))
    order = json.loads(sys.stdin.buffer.readline())
    set_up(order["log_level"], order["log_style"], running_job_fields)
    code = End.BROKEN.value
    try:
        # Not asyncio.run: if a handler ends the process, its jobs have to stay in their slots.
        code = asyncio.new_event_loop().run_until_complete(_serve(order)).value
    except TreadleError as error:
        code = USAGE_ERROR
        print(f"Error: {masked(str(error))}", file=sys.stderr)
    except BaseException as error:
        print(masked(format_traceback(error)), end="", file=sys.stderr)
    finally:  # even if nothing can be printed: a normal exit waits for the threads of handlers
        end_now(code)


async def _serve(order: dict[str, Any]) -> End:
    workload = load(order["app"]).workload
    slots = JobSlots(order["slots_descriptor"], order["slots"])
    prepare_dumps(slots)
    listening: list[asyncio.Task[None]] = []  # the event loop keeps only a weak reference

    pipe = os.fdopen(order["pipe"], "w")
    recycling = Recycling(*order["recycling"])
    recycling.check_room()
    if order["postponed"]:
        recycling.postpone()

    def tell(message: dict[str, Any]) -> None:
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    def retiring(reason: str) -> None:
        tell({"retiring": reason})

    def ready(worker: Worker) -> None:
        started = {
            "worker_id": worker.worker_id,
            "url": workload.database.url,
            "schema": workload.database.schema,
            "embedded": workload.database.embedded,
        }
        tell(started)
        listening.append(asyncio.create_task(_listen(workload.listeners.emit, recycling)))

    _collect_seldom()
    ended = await work(workload, slots, ready, retiring, recycling, **order["options"])
    slots.ending = ended.value
    return ended


def _collect_seldom() -> None:
    """Run the garbage collector less often: imported modules are never garbage, and neither are thousands of claimed
    jobs. With Python's default thresholds it takes 7 % of the time of quick jobs. Thresholds that the user has set are
    kept."""
    gc.collect()
    gc.freeze()
    if gc.get_threshold() == _DEFAULT_THRESHOLD:
        gc.set_threshold(20_000, *_DEFAULT_THRESHOLD[1:])


async def _listen(emit: Any, recycling: Recycling) -> None:
    """Receive messages of the supervisor. When the supervisor ends, the lease is no longer renewed, so this stops."""
    reader = asyncio.StreamReader(limit=2**24)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        message = json.loads(line)
        for each in message.get("recovered", ()):
            emit(events.JobRecovered(*each))
        if "resume_recycling" in message:
            recycling.resume()
    signal.raise_signal(signal.SIGTERM)


def _die_with(parent: int) -> None:
    """Die with the supervisor: no other process renews the lease or kills a handler that does not stop."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
