"""The processor time of a program together with every process that it has started, from /proc."""

from collections.abc import Iterable
from typing import Any

import psutil


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the seconds of user and system time of these processes and their descendants, also of those that ended."""
    return sum(_of_tree(psutil.Process(pid)) for pid in pids)


def _of_tree(root: psutil.Process) -> float:
    while True:
        before = root.cpu_times()
        used = _and_ended(before)
        for child in root.children(recursive=True):
            try:
                used += _and_ended(child.cpu_times())
            except psutil.NoSuchProcess:
                break
        else:
            # Otherwise a process has ended meanwhile, and may be missing or counted twice.
            if root.cpu_times()[2:4] == before[2:4]:
                return used


def _and_ended(times: Any) -> float:
    # A process that has ended is counted by its parent, which waited for it.
    return float(times.user + times.system + times.children_user + times.children_system)
