"""The workers that serve the same jobs as this one, and which of them looks for jobs after a notification.

All of them receive every notification, and all but one ignore it. Nothing is negotiated: each computes the same order
from the number in the notification, and knows its own rank. A worker whose view of the others is out of date looks
once too often, or leaves it to one that is gone: then the next in the order finds the job.
"""

import hashlib
import json
import time
from collections.abc import Sequence


class Peers:
    def __init__(self, worker_id: str, group: str, forget_seconds: float) -> None:
        """A worker that was not heard for `forget_seconds` is gone."""
        self.group = group
        self._worker_id = worker_id
        self._forget_seconds = forget_seconds
        self._heard: dict[str, float] = {}

    def __len__(self) -> int:
        self._forget()
        return len(self._heard)

    def hear(self, worker_id: str, group: str, silent_for: float = 0.0) -> bool:
        """A worker says that it receives notifications, and for how many seconds it may say nothing more. Returns
        whether it is a new peer."""
        if group != self.group or worker_id == self._worker_id:
            return False
        new = worker_id not in self._heard
        self._heard[worker_id] = time.monotonic() + silent_for
        return new

    def leave(self, worker_id: str) -> None:
        """A worker stops, or no longer receives notifications."""
        self._heard.pop(worker_id, None)

    def rank(self, number: int) -> int:
        """The rank of this worker in the order for this number; 0 is the first."""
        self._forget()
        if not self._heard:
            return 0
        own = _weight(number, self._worker_id)
        return sum(_weight(number, each) < own for each in self._heard)

    def _forget(self) -> None:
        since = time.monotonic() - self._forget_seconds
        if any(heard < since for heard in self._heard.values()):
            self._heard = {name: heard for name, heard in self._heard.items() if heard >= since}


def group_name(types: Sequence[str], process_types: Sequence[str], queues: Sequence[str] | None) -> str:
    """Workers with the same name claim the same jobs."""
    served = [sorted(types), sorted(process_types), None if queues is None else sorted(queues)]
    return hashlib.blake2b(json.dumps(served).encode(), digest_size=6).hexdigest()


def _weight(number: int, worker_id: str) -> bytes:
    # Not crc32: it is linear, and some workers would be the first more often than others.
    return hashlib.blake2b(f"{number} {worker_id}".encode(), digest_size=8).digest()
