"""The raw figures, saved after every measurement, so that an interrupted run can be resumed."""

import json
import threading
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class Results:
    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self._lock = threading.Lock()
        self.all: Result = {"peers": {}}  # changed only under the lock: some measurements run concurrently
        if resume and path.exists():
            self.all = json.loads(path.read_text())

    def peer(self, name: str) -> Result:
        found: Result = self.all["peers"].setdefault(name, {"measures": {}})
        return found

    def measure(self, name: str, measure: str) -> Result:
        with self._lock:
            found: Result = self.peer(name)["measures"].setdefault(measure, {"rounds": []})
        return found

    def add(self, found: Result, one: Result, nth: int) -> None:
        """Add the figures of the nth round."""
        with self._lock:
            found["rounds"].append(one)
            # Keep the reason for a missing round until no round is missing.
            if len(found["rounds"]) > nth:
                found.pop("failed", None)
                found.pop("left_out", None)

    def note(self, found: Result, **why: str) -> None:
        """Record why there are no figures."""
        with self._lock:
            found.update(why)

    def save(self) -> None:
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(self.all, indent=1) + "\n")
            draft.replace(self.path)
