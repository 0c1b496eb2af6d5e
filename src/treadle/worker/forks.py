"""Processes that handlers fork with os.fork(): one that returns from its handler must not go on as a second worker.

It has a copy of the event loop, with everything that the worker was about to do. Until it gets back to the loop, or its
handler returns, it may do what it was forked for. Its connections lead nowhere: see db/own_connection.py.
"""

import os
import sys
from asyncio import AbstractEventLoop
from typing import NoReturn
from weakref import WeakSet

_loops: WeakSet[AbstractEventLoop] = WeakSet()


def end_in_children(loop: AbstractEventLoop) -> None:
    """Processes that are forked while this loop runs a worker end when they get back to it."""
    _loops.add(loop)


def end_if_forked() -> None:
    """After a handler."""
    if _forked:
        _end()


def _in_child() -> None:
    global _forked  # noqa: PLW0603
    if _loops:
        _forked = True
        for loop in list(_loops):
            loop.call_soon(_end)


def _end() -> NoReturn:
    # Not by sys.stderr or a logger: a thread of the parent may have held their locks.
    os.write(2, b"process %d was forked by a handler and has returned to the worker: it ends here\n" % os.getpid())
    os._exit(1)


_forked = False
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_in_child)
