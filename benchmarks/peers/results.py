"""The raw figures, written after every measure, so that an interrupted run goes on where it was."""

import json
import threading
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class Results:
    def __init__(self, path: Path, resume: bool) -> None:
        self.path = path
        self._turn = threading.Lock()
        self.all: Result = {"peers": {}}  # changed under the lock alone: some measures run side by side
        if resume and path.exists():
            self.all = json.loads(path.read_text())

    def peer(self, name: str) -> Result:
        found: Result = self.all["peers"].setdefault(name, {"measures": {}})
        return found

    def measure(self, name: str, measure: str) -> Result:
        with self._turn:
            found: Result = self.peer(name)["measures"].setdefault(measure, {"rounds": []})
        return found

    def add(self, found: Result, one: Result, nth: int) -> None:
        """The figures of the nth round."""
        with self._turn:
            found["rounds"].append(one)
            # Why a round is missing stands as long as one is.
            if len(found["rounds"]) > nth:
                found.pop("failed", None)
                found.pop("left_out", None)

    def note(self, found: Result, **why: str) -> None:
        """Why there are no figures."""
        with self._turn:
            found.update(why)

    def save(self) -> None:
        with self._turn:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(".draft")
            draft.write_text(json.dumps(self.all, indent=1) + "\n")
            draft.replace(self.path)
