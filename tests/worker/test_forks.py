"""A forked process that gets back to the event loop of a worker. With a real worker: see test_process.py."""

import subprocess
import sys

FORK = """
import asyncio, os
from treadle.worker.forks import end_in_children

async def body():
    end_in_children(asyncio.get_running_loop())
    child = os.fork()
    if not child:
        await asyncio.sleep(0)
        os._exit(5)
    return os.waitpid(child, 0)[1]

print(os.waitstatus_to_exitcode(asyncio.run(body())))
"""


def test_a_child_ends_when_it_gets_back_to_the_loop() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], check=True, capture_output=True, text=True)
    assert done.stdout == "1\n"
    assert "was forked by a handler and has returned to the worker: it ends here" in done.stderr
