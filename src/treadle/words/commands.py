"""How our commands are called in messages: `treadle doctor`; in a Django project, `manage.py treadle doctor`."""

import re
from collections.abc import Mapping

NAMES = (
    *(
        "demo",
        "dev",
        "migrate",
        "roles",
        "worker",
        "enqueue",
        "jobs",
        "show",
        "errors",
        "why",
        "watch",
        "stats",
        "retry",
    ),
    *(
        "cancel",
        "delete",
        "run-now",
        "priority",
        "edit",
        "copy",
        "signal",
        "pause",
        "resume",
        "pauses",
        "concurrency",
        "schedules",
    ),
    *("limits", "top", "dashboard", "ping", "config", "doctor", "bench", "completion"),
)
_COMMAND = re.compile(rf"\btreadle (?:worker module:app\b|(?:{'|'.join(NAMES)})\b)")
_calls: dict[str, str] = {}


def call_commands(program: str, others: Mapping[str, str]) -> None:
    """From now on, messages of this process have this program instead of `treadle`, or what `others` has for a whole
    command."""
    _calls.clear()
    _calls.update(others, treadle=program)


def as_called(message: str) -> str:
    """The message with commands as they are called here."""
    if not _calls:
        return message
    return _COMMAND.sub(
        lambda found: _calls.get(found[0]) or found[0].replace("treadle", _calls["treadle"], 1), message
    )
