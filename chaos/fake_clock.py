"""A clock that can be set while processes run (libfaketime): those that are started with its environment."""

from pathlib import Path

MISSING = "libfaketime is not installed (Debian: apt-get install faketime)"


def library() -> Path | None:
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return found[0] if found else None


class FakeClock:
    """`environment` is for the processes; all of them may read the file, also those of other users."""

    def __init__(self, file: Path, **settings: str) -> None:
        self._file = file
        self.set(0)
        self.environment = {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            # Only the time of day jumps on real machines; the monotonic clock does not.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            **settings,
        }

    def set(self, seconds: int) -> None:
        """Set the clock to the real time plus this many seconds."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.chmod(0o644)
        draft.rename(self._file)
